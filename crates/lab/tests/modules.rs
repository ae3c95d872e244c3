//! No module of a library crate imports one that imports it, at the level of a crate's own files.
//!
//! Read from the sources: what stands behind `crate::` in code, or behind as many `super::` as lead to the
//! same place, without documentation and tests. A name that the crate's root takes from a module counts as
//! that module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    found
}

/// The names behind `crate::` in a text, those in braces too.
fn imports(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut found = BTreeSet::new();
    for (place, _) in code.match_indices("crate::") {
        // `$crate::` and `my_crate::` are other words.
        if code[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[place + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.extend([word(rest)]),
            Some(list) => {
                let mut depth = 0;
                let mut start = true;
                for (at, character) in list.char_indices() {
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        _ if start && !character.is_whitespace() => {
                            found.extend([word(&list[at..])]);
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

fn without_comments(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Which module each name of a crate's root comes from, by its `use` declarations.
fn origins(root: &str) -> BTreeMap<String, String> {
    let root = without_comments(root);
    let mut found = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let declaration = root[at + "use ".len()..].split(';').next().unwrap();
        let declaration = declaration.trim_start_matches("crate::");
        let Some((module, names)) = declaration.split_once("::") else { continue };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_') {
            found.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    found
}

/// What every top-level module of a crate imports of the others.
fn graph(folder: &Path) -> Graph {
    let mut graph = Graph::new();
    let origins = origins(&fs::read_to_string(folder.join("lib.rs")).unwrap());
    for path in sources(folder) {
        let inside = path.strip_prefix(folder).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs").to_owned();
        let is_test = inside.ends_with("tests.rs") || inside.ends_with("testing.rs");
        if is_test || module == "lib" || module == "main" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        // How many modules the file lies within: a file of the crate's own in none but itself.
        let depth = inside.components().count() - usize::from(inside.ends_with("mod.rs"));
        let code = without_comments(code).replace(&"super::".repeat(depth), "crate::");
        graph.entry(module).or_default().extend(imports(&code));
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, found) in &mut graph {
        // A name that is no module's may be one that the root takes from a module.
        let taken = found.iter().filter(|name| !modules.contains(*name));
        let taken: Vec<String> = taken.filter_map(|name| origins.get(name).cloned()).collect();
        found.extend(taken);
        found.retain(|other| other != module && modules.contains(other));
    }
    graph
}

/// A path from a module back to itself, if there is one.
fn cycle(graph: &Graph) -> Option<Vec<String>> {
    for start in graph.keys() {
        let mut open = vec![vec![start.clone()]];
        let mut seen = BTreeSet::new();
        while let Some(path) = open.pop() {
            for next in &graph[path.last().unwrap()] {
                if next == start {
                    return Some(path);
                }
                if seen.insert(next.clone()) {
                    open.push([&path[..], std::slice::from_ref(next)].concat());
                }
            }
        }
    }
    None
}

#[test]
fn no_module_imports_one_that_imports_it() {
    for name in ["core", "theory", "engine", "fewstep"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let graph = graph(&folder);
        assert!(graph.len() > 3 && graph.values().any(|found| !found.is_empty()), "{name}");
        assert_eq!(cycle(&graph), None, "{name}: each of these imports the next");
    }
}

#[test]
fn imports_are_read_from_code() {
    let code = "use crate::a::B;\nuse crate::{c, d::{e, f}, g as h};\nlet x = crate::i::j();\n\
                my_crate::k(); $crate::l!()";
    let names = ["a", "c", "d", "g", "i"].map(str::to_owned);
    assert_eq!(imports(code), BTreeSet::from(names));
    let origins = origins("mod a;\npub use a::{B, C};\nuse d::e::F as G;");
    assert_eq!(origins["C"], "a");
    assert_eq!((origins["G"].as_str(), origins.get("a")), ("d", None));
    let graph = |pairs: &[(&str, &[&str])]| -> Graph {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        pairs.iter().map(|(name, found)| ((*name).to_owned(), set(found))).collect()
    };
    assert_eq!(cycle(&graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), None);
    let found = cycle(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned()]));
}
