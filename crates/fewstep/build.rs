//! Tells the program which commit it was built from, where that is known.

#![allow(clippy::print_stdout, reason = "this is how a build script speaks")]

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    let mut version = env!("CARGO_PKG_VERSION").to_owned();
    let commit = git(&root, &["rev-parse", "--short=12", "HEAD"]);
    if let Some(commit) = commit.filter(|_| of_this_repository(&root)) {
        version = format!("{version} (commit {commit})");
        for name in ["HEAD", "logs/HEAD"] {
            let file =
                git(&root, &["rev-parse", "--git-path", name]).map(|file| root.join(file));
            if let Some(file) = file.filter(|file| file.is_file()) {
                println!("cargo::rerun-if-changed={}", file.display());
            }
        }
    }
    println!("cargo::rustc-env=FEWSTEP_VERSION={version}");
}

/// Whether git looks at this project, and not at one that the sources happen to lie in.
fn of_this_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.is_some_and(|top| Path::new(&top).canonicalize().ok() == root.canonicalize().ok())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
