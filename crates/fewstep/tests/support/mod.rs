//! What the tests of the program share: running it, and tasks to run it on.

mod process;

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

pub(crate) use process::{printed, program, records, root, said};

/// The program, ready to be given arguments.
pub(crate) fn fewstep() -> Command {
    program(env!("CARGO_BIN_EXE_fewstep"))
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    fewstep().args(arguments).output().unwrap()
}

/// Runs the program to its end with some bytes on its standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = fewstep();
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The program may end before it has read everything.
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// A digit task: `y = x + shift`, with six examples.
pub(crate) fn task(id: &str, shift: usize) -> Value {
    let labels: Vec<Value> = (0..10_u8)
        .map(|digit| json!({"text": digit.to_string(), "value": f64::from(digit) / 9.0}))
        .collect();
    let examples: Vec<Value> = [3, 5, 8, 0, 2, 9]
        .iter()
        .map(|x| json!({"x": x.to_string(), "y": ((x + shift) % 10).to_string()}))
        .collect();
    json!({"id": id, "template": "{x}->{y}", "labels": labels, "examples": examples,
           "query": {"x": "4", "y": ((4 + shift) % 10).to_string()}})
}

/// A file of digit tasks with the ids `t0`, `t1`, …; the first shift is 7, then 0, 3, ….
pub(crate) fn tasks(count: usize) -> String {
    (0..count)
        .map(|index| task(&format!("t{index}"), (index * 3 + 7) % 10).to_string() + "\n")
        .collect()
}

/// A directory for one test, and a file of tasks in it.
pub(crate) fn file_of(text: &[u8]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tasks.jsonl");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (directory, name)
}
