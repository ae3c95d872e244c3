//! Peak memory of a side, in a process that does nothing else.

use super::ready::{Models, Ready};
use super::{Price, Side};
use crate::bench::machine;
use crate::bench::measure::Bench;
use crate::bench::memory::Peak;
use crate::error::Error;
use std::path::Path;
use std::process::Command;

/// Works once in this process, after a short task with which everything is made that is made once;
/// `None` where the operating system does not say how much is resident, or without the model.
///
/// # Errors
///
/// Those of reading the model and of the work.
pub(crate) fn child(side: Side, file: &Path, quick: bool) -> Result<Option<Peak>, Error> {
    let Some(models) = Models::open(file, quick)? else { return Ok(None) };
    let ready = Ready::new(&models, Price::Memory, (quick, 1))?;
    ready.warm(side, &ready.short())?;
    let before = machine::forget_peak().and_then(|()| machine::resident());
    ready.predict(side)?;
    Ok(before.zip(machine::peak()).map(|(before, peak)| Peak { before, peak }))
}

impl Bench<'_> {
    /// Bytes that a side takes above what is resident before; `None` where that is not known.
    pub(super) fn peak_of(&self, side: Side) -> Result<Option<f64>, Error> {
        let program = &self.settings.program;
        let failed = |problem: String| Error::Worker { program: program.clone(), problem };
        let mut command = Command::new(program);
        command.args(["bench", "--peak", side.name()]);
        if self.settings.quick {
            command.arg("--quick");
        }
        let output = command.output().map_err(|error| failed(error.kind().to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let peak: Option<Peak> = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(error.to_string()))?;
        Ok(peak.map(|peak| peak.above() as f64))
    }
}
