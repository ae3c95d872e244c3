//! Pages that show commands and what they print.
//!
//! With `UPDATE=1` they are written anew; the difference is for a person to read. Numbers with a
//! decimal point may differ by one in their last digit, because machines round differently, and times
//! are not compared. A block that ends in a line of its own with `…` shows the first paragraph alone.

use super::support::{program, root};
use std::path::Path;

/// A program, and how pages call it.
pub(crate) struct Transcripts {
    /// The program's file.
    pub(crate) program: &'static str,
    /// What stands before its arguments.
    pub(crate) calls: &'static [&'static str],
}

impl Transcripts {
    /// The commands and what they print, in the blocks of a page.
    fn renew(&self, page: &str) -> String {
        let (mut text, mut inside, mut shown) = (String::new(), false, false);
        let lines: Vec<&str> = page.lines().collect();
        for (number, &line) in lines.iter().enumerate() {
            inside = if line.starts_with("```") { line == "```console" } else { inside };
            shown &= inside;
            if let Some(command) = self.command(line).filter(|_| inside) {
                text.push_str(line);
                text.push('\n');
                let printed = self.run(command);
                let block =
                    lines[number + 1..].iter().take_while(|line| !line.starts_with("```"));
                match block.last() {
                    Some(&"…") => {
                        let first = printed.split("\n\n").next().unwrap_or_default();
                        text.push_str(&format!("{first}\n…\n"));
                    }
                    _ => text.push_str(&printed),
                }
                shown = true;
            } else if !shown {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }

    /// What stands behind the program's name, in every way to call it.
    fn command<'a>(&self, line: &'a str) -> Option<&'a str> {
        self.calls.iter().find_map(|call| line.strip_prefix(call))
    }

    /// What a command prints, then what it says, then its code if that is not 0.
    fn run(&self, command: &str) -> String {
        let (words, input) = match command.split_once(" < ") {
            Some((words, input)) => (words, Some(input)),
            None => (command, None),
        };
        let mut program = program(self.program);
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

    /// A page shows what is printed.
    #[allow(clippy::disallowed_methods, reason = "the flag that renews transcripts")]
    pub(crate) fn check(&self, page: &str) {
        let file = root().join(page);
        let shown = std::fs::read_to_string(&file).unwrap();
        let printed = self.renew(&shown);
        if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
            std::fs::write(&file, printed).unwrap();
            return;
        }
        assert!(
            shown.lines().any(|line| self.command(line).is_some()),
            "{page} shows no command"
        );
        assert_eq!(shown.lines().count(), printed.lines().count(), "{page} prints:\n{printed}");
        for (number, (shown, printed)) in shown.lines().zip(printed.lines()).enumerate() {
            let line = number + 1;
            assert!(
                same(shown, printed),
                "{page}, line {line}:\n  {shown}\nis now\n  {printed}"
            );
        }
    }

    /// Every page of a folder shows what is printed.
    pub(crate) fn check_folder(&self, folder: &str) {
        let folder = Path::new(folder);
        let mut pages = 0;
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            if name.to_str().unwrap().ends_with(".md") {
                self.check(folder.join(name).to_str().unwrap());
                pages += 1;
            }
        }
        assert!(pages > 0);
    }
}

/// Whether two lines say the same.
pub(crate) fn same(shown: &str, printed: &str) -> bool {
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
