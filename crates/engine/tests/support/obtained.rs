//! Real models, which the scripts in `models/` bring into the user's cache.

use std::path::PathBuf;

/// A file or directory that a script in `models/` obtains, or `None` and a line that says so.
#[allow(clippy::disallowed_methods, reason = "the cache directory is the user's")]
pub(crate) fn obtained(test: &str, script: &str, name: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    let path = cache?.join("fewstep").join(name);
    if !path.exists() {
        // Past the harness, which shows what a test prints only when it fails.
        let line = format!("SKIPPED {test}: {} is not there; run {script}\n", path.display());
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        return None;
    }
    Some(path)
}
