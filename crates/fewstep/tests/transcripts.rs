//! What the examples and transcripts show is what the program prints.
//!
//! `UPDATE=1 cargo test -p fewstep --test transcripts` writes them anew; the difference is for a
//! person to read. Numbers with a decimal point may differ by one in their last digit, because
//! machines round differently, and times are not compared.
#![allow(clippy::unwrap_used, reason = "a page that cannot be read fails the test")]

mod support;

use std::path::Path;
use support::{fewstep, root};

/// The commands and what they print, in the blocks of a page.
fn renew(page: &str) -> String {
    let (mut text, mut inside, mut shown) = (String::new(), false, false);
    for line in page.lines() {
        inside = if line.starts_with("```") { line == "```console" } else { inside };
        shown &= inside;
        if let Some(command) = command(line).filter(|_| inside) {
            text.push_str(line);
            text.push('\n');
            text.push_str(&run(command));
            shown = true;
        } else if !shown {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// What stands behind the program's name, in both ways to call it.
fn command(line: &str) -> Option<&str> {
    ["$ fewstep", "$ cargo run --release -q -p fewstep --"]
        .iter()
        .find_map(|program| line.strip_prefix(program))
}

/// What a command prints, then what it says, then its code if that is not 0.
fn run(command: &str) -> String {
    let (words, input) = match command.split_once(" < ") {
        Some((words, input)) => (words, Some(input)),
        None => (command, None),
    };
    let mut program = fewstep();
    program.args(words.split_whitespace());
    if let Some(input) = input {
        program.stdin(std::fs::File::open(root().join(input)).unwrap());
    }
    let output = program.output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(std::str::from_utf8(&output.stderr).unwrap());
    match output.status.code() {
        Some(0) => {}
        code => text.push_str(&format!("[exit code {}]\n", code.unwrap())),
    }
    let lines = text.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// Whether two lines say the same.
fn same(shown: &str, printed: &str) -> bool {
    if shown.ends_with(" ms per task") && printed.ends_with(" ms per task") {
        return true;
    }
    let (shown, printed) = (pieces(shown), pieces(printed));
    shown.len() == printed.len()
        && shown.iter().zip(&printed).all(|(a, b)| a == b || close(a, b))
}

/// Numbers, and what stands between them.
fn pieces(line: &str) -> Vec<String> {
    let of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut pieces: Vec<String> = Vec::new();
    for character in line.chars() {
        match pieces.last_mut() {
            Some(last) if last.starts_with(of_number) == of_number(character) => {
                last.push(character)
            }
            _ => pieces.push(character.to_string()),
        }
    }
    pieces
}

/// Whether two decimals differ by at most one in the last digit that both have.
fn close(a: &str, b: &str) -> bool {
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, behind)| behind.len());
    let shared = digits(a).min(digits(b));
    let value = |text: &str| text.parse::<f64>().ok();
    let unit = 10_f64.powi(-i32::try_from(shared).unwrap());
    shared > 0
        && matches!((value(a), value(b)), (Some(a), Some(b)) if (a - b).abs() < 1.5 * unit)
}

#[allow(clippy::disallowed_methods, reason = "the flag that renews transcripts")]
fn check(page: &str) {
    let file = root().join(page);
    let shown = std::fs::read_to_string(&file).unwrap();
    let printed = renew(&shown);
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&file, printed).unwrap();
        return;
    }
    assert!(shown.lines().any(|line| command(line).is_some()), "{page} shows no command");
    assert_eq!(shown.lines().count(), printed.lines().count(), "{page} prints:\n{printed}");
    for (number, (shown, printed)) in shown.lines().zip(printed.lines()).enumerate() {
        let line = number + 1;
        assert!(same(shown, printed), "{page}, line {line}:\n  {shown}\nis now\n  {printed}");
    }
}

#[test]
fn the_examples_show_what_is_printed() {
    check("examples/README.md");
}

#[test]
fn the_readme_shows_what_is_printed() {
    check("README.md");
}

#[test]
fn the_transcripts_show_what_is_printed() {
    let folder = Path::new("crates/fewstep/tests/transcripts");
    let mut pages = 0;
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_str().unwrap().ends_with(".md") {
            check(folder.join(name).to_str().unwrap());
            pages += 1;
        }
    }
    assert!(pages > 0);
}

#[test]
fn lines_are_the_same_up_to_rounding_and_time() {
    assert!(same("error 0.412 (gate 1.31)", "error 0.413 (gate 1.30)"));
    assert!(!same("error 0.412", "error 0.414"));
    assert!(!same("11 steps", "12 steps"));
    assert!(!same("0.412 adapted", "0.412 linear"));
    assert!(same("time 1.5 ms per task", "time 20.1 ms per task"));
}
