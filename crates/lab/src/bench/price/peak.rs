//! Peak memory of a side, in a process that does nothing else.

use super::Price;
use super::ready::{Models, Ready};
use super::sides::Side;
use crate::bench::machine;
use crate::bench::measure::Bench;
use crate::bench::memory::Peak;
use crate::error::Error;
use fewstep_engine::release_buffers;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// What a run of a side took, and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Weighed {
    pub(super) peak: Peak,
    /// What the model predicts without an update.
    pub(super) prediction: f64,
}

/// Works once in this process, after a short task with which everything is made that is made once;
/// `None` where the operating system does not say how much is resident, or without the model.
///
/// # Errors
///
/// Those of reading the model and of the work.
pub(crate) fn child(side: Side, file: &Path, quick: bool) -> Result<Option<Weighed>, Error> {
    let Some(models) = Models::open(file, quick)? else { return Ok(None) };
    let ready = Ready::new(&models, Price::Memory, quick, 1)?;
    ready.warm(side, &ready.short())?;
    // What a short task leaves for the next one belongs to the work.
    release_buffers();
    let before = machine::forget_peak().and_then(|()| machine::resident());
    let prediction = ready.predict(side)?;
    let peak = before.zip(machine::peak()).map(|(before, peak)| Peak { before, peak });
    Ok(peak.map(|peak| Weighed { peak, prediction }))
}

impl Bench<'_> {
    /// What a side takes and finds; `None` where the former is not known.
    pub(super) fn peak_of(&self, side: Side) -> Result<Option<Weighed>, Error> {
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
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
    }
}
