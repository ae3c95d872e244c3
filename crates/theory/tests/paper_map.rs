//! `PAPER.md` and the code agree, in both directions.
//!
//! Every numbered statement of the paper has a row; every item and test named in a row exists, in
//! the core or here; every test named after a statement stands in that statement's row; and every
//! statement cited in the sources of both exists under that name.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Propositions, theorems, lemmas and corollaries, in the order of the paper.
const STATEMENTS: &str = "Prop. 2.1, Prop. 4.1, Thm. 5.2, Prop. 6.1, Prop. 6.2, Prop. 6.3, \
    Thm. 7.2, Thm. 8.2, Prop. E.1, Prop. E.3, Thm. E.4, Cor. E.5, Prop. E.6, Prop. E.7, \
    Prop. E.9, Lem. E.11, Lem. E.12, Lem. E.13, Cor. E.14, Lem. E.15, Lem. E.16, Lem. E.17, \
    Lem. E.18, Thm. E.19, Lem. E.20, Lem. E.21, Lem. E.22, Cor. E.23, Thm. E.25, Lem. F.2, \
    Lem. F.4, Thm. F.5, Cor. F.6, Prop. F.7, Prop. F.10, Thm. F.11, Prop. G.1, Lem. G.2, \
    Prop. G.4, Lem. G.5, Prop. G.6, Prop. G.7, Prop. G.9, Prop. G.10, Lem. H.1, Lem. H.3";

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The Rust files below a folder of the core and of this crate, by name, with their text.
fn sources(path: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder("../core").join(path), folder(path)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.insert(path.display().to_string(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Statement, items and tests of every row of the table.
fn rows() -> Vec<(String, Vec<String>, Vec<String>)> {
    let text = fs::read_to_string(folder("../../PAPER.md")).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    text.lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "statement, what it says, item, test: {line}");
            (cells[0].to_owned(), quoted(cells[2]), quoted(cells[3]))
        })
        .collect()
}

/// `Thm. E.12` as the start of a test's name, `thm_e_12_`.
fn test_prefix(statement: &str) -> String {
    statement.replace(". ", "_").replace('.', "_").to_lowercase() + "_"
}

#[test]
fn every_statement_has_one_row() {
    let listed: Vec<String> = rows().into_iter().map(|(statement, ..)| statement).collect();
    let expected: Vec<&str> = STATEMENTS.split(", ").collect();
    assert_eq!(listed, expected);
}

#[test]
fn every_item_exists() {
    let sources = sources("src");
    for (statement, items, _) in rows() {
        assert!(!items.is_empty(), "{statement} has no item");
        for item in items {
            let segments: Vec<&str> = item.split("::").collect();
            let (name, owner) = match segments.as_slice() {
                [name] => (*name, None),
                [owner, name] => (*name, Some(*owner)),
                _ => panic!("{statement}: write {item} with at most one ::"),
            };
            let kinds = ["fn", "struct", "enum", "trait"];
            let defines = |text: &str, name: &str| {
                kinds.iter().any(|kind| {
                    text.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
                        !text[at + found.len()..]
                            .starts_with(|next: char| next.is_alphanumeric() || next == '_')
                    })
                })
            };
            let exists = sources.iter().any(|(path, text)| {
                let module = |owner: &str| {
                    path.ends_with(&format!("/{owner}.rs"))
                        || path.contains(&format!("/{owner}/"))
                };
                defines(text, name)
                    && owner.is_none_or(|owner| {
                        module(owner)
                            || defines(text, owner)
                            || text.contains(&format!("impl {owner} {{"))
                    })
            });
            assert!(exists, "{statement} names {item}, which the sources do not define");
        }
    }
}

#[test]
fn every_test_is_listed_and_exists() {
    let mut tests = Vec::new();
    for text in sources("tests").values() {
        for (at, _) in text.match_indices("#[test]\n") {
            let rest = &text[at..];
            let name = rest.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            tests.push(name.to_owned());
        }
    }
    let rows = rows();
    for (statement, _, listed) in &rows {
        assert!(!listed.is_empty(), "{statement} has no test");
        for test in listed {
            assert!(
                tests.contains(test),
                "{statement} names the test {test}, which is missing"
            );
            let prefix = test_prefix(statement);
            assert!(test.starts_with(&prefix), "{test} does not start with {prefix}");
        }
    }
    for test in tests {
        let numbered =
            ["thm_", "prop_", "lem_", "cor_"].iter().any(|kind| test.starts_with(kind));
        let listed = rows.iter().any(|(_, _, listed)| listed.contains(&test));
        assert!(!numbered || listed, "{test} is missing from PAPER.md");
    }
}

#[test]
fn every_citation_names_a_statement() {
    let statements: Vec<&str> = STATEMENTS.split(", ").collect();
    for (path, text) in sources("src").into_iter().chain(sources("tests/theorems")) {
        for kind in ["Thm. ", "Prop. ", "Lem. ", "Cor. "] {
            for (at, _) in text.match_indices(kind) {
                let number: String = text[at + kind.len()..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '.')
                    .collect();
                let cited = format!("{kind}{}", number.trim_end_matches('.'));
                assert!(statements.contains(&cited.as_str()), "{path} cites {cited}");
            }
        }
    }
}
