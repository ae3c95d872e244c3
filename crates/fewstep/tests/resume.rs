//! A run that ends before its time loses no answer, and the next one goes on.

use crate::support::{fewstep, file_of, printed, records, run, said, tasks};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ids in the order of the file, from whole lines alone.
fn ids(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    records(&text).iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect()
}

fn whole_lines(file: &Path) -> usize {
    fs::read(file).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
}

/// Waits until a file has that number of lines; the program must not end before.
fn wait_for_lines(child: &mut Child, file: &Path, lines: usize) {
    while whole_lines(file) < lines {
        assert_eq!(child.try_wait().unwrap(), None, "ended with {} lines", whole_lines(file));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_runs_add_up_to_one_that_was_left_alone() {
    let (directory, name) = file_of(tasks(60).as_bytes());
    let (undisturbed, out) = (directory.path().join("whole"), directory.path().join("answers"));
    let out_name = out.to_str().unwrap();
    let output =
        run(&["predict", &name, "--horizon", "1", "--out", undisturbed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let mut lines = 0;
    for round in 1..4 {
        let mut child = fewstep()
            .args(["predict", &name, "--horizon", "1", "--resume", "--out", out_name])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_lines(&mut child, &out, lines + 5);
        child.kill().unwrap();
        child.wait().unwrap();
        lines = whole_lines(&out);
        // As if the end of the process had come in the middle of a line.
        let mut file = fs::OpenOptions::new().append(true).open(&out).unwrap();
        file.write_all(&b"{\"id\":\"half \xc3"[..10 + round]).unwrap();
    }
    assert!(lines < 60, "nothing was left to continue");
    let output = run(&["predict", &name, "--horizon", "1", "--resume", "--out", out_name]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("was incomplete"), "{}", said(&output));
    let expected =
        format!("60 tasks: {} answered, 0 failed, {lines} answered before;", 60 - lines);
    assert!(printed(&output).starts_with(&expected), "{}", printed(&output));
    assert_eq!(fs::read(&out).unwrap(), fs::read(&undisturbed).unwrap());

    let output = run(&["predict", &name, "--horizon", "1", "--out", out_name]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--resume"), "{}", said(&output));
    assert_eq!(fs::read(&out).unwrap(), fs::read(&undisturbed).unwrap());
}

#[test]
fn failures_are_tried_again_and_told_once() {
    let text = format!("{}{{\n", tasks(2));
    let (directory, name) = file_of(text.as_bytes());
    let out = directory.path().join("answers");
    let arguments =
        ["predict", &name, "--horizon", "1", "--resume", "--out", out.to_str().unwrap()];
    let first = run(&arguments);
    let written = fs::read(&out).unwrap();
    let second = run(&arguments);
    assert_eq!((first.status.code(), second.status.code()), (Some(1), Some(1)));
    assert_eq!(fs::read(&out).unwrap(), written);

    // The line is repaired: only that task is answered.
    fs::write(&name, tasks(3)).unwrap();
    let third = run(&arguments);
    assert_eq!(third.status.code(), Some(0), "{}", said(&third));
    assert!(printed(&third).starts_with("3 tasks: 1 answered, 0 failed, 2 answered before"));
    assert_eq!(whole_lines(&out), 4);
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_that_waits_for_its_input() {
    let mut child = fewstep()
        .args(["predict", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(tasks(3).as_bytes()).unwrap();
    input.flush().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        answers.next().unwrap().unwrap();
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(
        said(&output).contains("interrupted after 3 answers; with --out FILE"),
        "{}",
        said(&output)
    );
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_how_to_continue_and_continues() {
    let (directory, name) = file_of(tasks(80).as_bytes());
    let out = directory.path().join("the answers");
    let mut child = fewstep()
        .args(["predict", &name, "--horizon", "1", "--out", out.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lines(&mut child, &out, 3);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let answered = ids(&out);
    assert!(answered.len() < 80);
    let text = said(&output);
    assert!(text.contains(&format!("interrupted after {} answers", answered.len())), "{text}");
    let (_, command) = text.trim_end().split_once("to continue: ").unwrap();

    // What it says is what a shell takes.
    let status =
        Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command}");
    let expected: Vec<String> = (0..80).map(|index| format!("t{index}")).collect();
    assert_eq!(ids(&out), expected);
}

#[test]
fn two_runs_do_not_write_to_one_file() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let out = directory.path().join("answers");
    let out_name = out.to_str().unwrap();
    let mut first = fewstep()
        .args(["predict", "-", "--out", out_name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    first.stdin.as_mut().unwrap().write_all(tasks(1).as_bytes()).unwrap();
    wait_for_lines(&mut first, &out, 1);
    let second = run(&["predict", &name, "--horizon", "1", "--resume", "--out", out_name]);
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(second.status.code(), Some(2));
    assert!(said(&second).contains("another run"), "{}", said(&second));
}
