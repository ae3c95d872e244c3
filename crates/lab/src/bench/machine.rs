//! What the numbers were measured on, and how much memory a process takes.

use serde::Serialize;
use std::fs;

/// A machine, as far as it says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Machine {
    /// The processor.
    pub(crate) cpu: String,
    /// How many threads run at the same time.
    pub(crate) cores: usize,
    /// Bytes of memory, where that is known.
    pub(crate) memory: Option<u64>,
    /// The instructions that matter to products, as found when the program runs.
    pub(crate) features: Vec<&'static str>,
    /// What the program was built for.
    pub(crate) target: String,
}

impl Machine {
    /// The one that this runs on.
    pub(crate) fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let known = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            field(&text, name).map(str::to_owned)
        };
        let cpu = known("/proc/cpuinfo", "model name");
        let memory = known("/proc/meminfo", "MemTotal").and_then(|text| kilobytes(&text));
        Self {
            cpu: cpu.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores,
            memory,
            features: features(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }

    /// A name for files: letters, digits and hyphens.
    pub(crate) fn slug(&self) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let words: String = self.cpu.chars().map(plain).collect();
        let words: Vec<&str> = words.split_whitespace().collect();
        format!("{}-{}-cores", words.join("-"), self.cores)
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    [
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

/// The first value of a name in lines of `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// `12 kB` in bytes.
fn kilobytes(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Resident memory of this process in bytes, where that is known.
pub(super) fn resident() -> Option<u64> {
    status("VmRSS")
}

/// The most that was resident since [`forget_peak`].
pub(super) fn peak() -> Option<u64> {
    status("VmHWM")
}

/// Lets the peak begin anew; `None` where that cannot be.
pub(super) fn forget_peak() -> Option<()> {
    fs::write("/proc/self/clear_refs", "5").ok()
}

fn status(name: &str) -> Option<u64> {
    kilobytes(field(&fs::read_to_string("/proc/self/status").ok()?, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processors_become_names_of_files() {
        let machine =
            Machine { cpu: "AMD EPYC(TM) 7R13".to_owned(), cores: 2, ..Machine::here() };
        assert_eq!(machine.slug(), "amd-epyc-tm-7r13-2-cores");
    }

    #[test]
    fn lines_of_status_are_read() {
        let text = "Name:\tfewstep\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(field(text, "VmHWM").and_then(kilobytes), Some(2048 * 1024));
        assert_eq!(field(text, "VmSwap"), None);
    }
}
