//! Are the paper's statements true? Each is put to the test by simulation.
//!
//! In: [`TheorySettings`]. Out: a [`Section`] with three tables (means against what is predicted,
//! in standard errors; identities by two routes; bounds), six drawings and a verdict per statement.
//! What is predicted comes from `fewstep-core`; what is measured comes from drawn tasks, steps taken
//! one by one in weights, and textbook elimination, or from the model itself.

mod drift;
mod evidence;
mod findings;
mod gap;
mod necessity;
mod pac_bayes;
mod plain;
mod priors;
mod spectra;
mod subspace;

use super::document::Section;
use crate::error::Error;
use fewstep_core::Rng;
use fewstep_engine::Model;
use findings::Findings;

/// How the statements are put to the test.
///
/// | name | meaning | range |
/// |---|---|---|
/// | `seed` | fixes every draw: the same seed gives the same section | any |
/// | `draws` | simulated tasks per statement; errors shrink with its root | from 100 |
/// | `model` | the model whose real steps are compared with linear ones | any with a few labels |
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::theory::TheorySettings;
///
/// let settings = TheorySettings { seed: 0, draws: 20_000, model: fewstep::builtin()? };
/// assert_eq!(settings.draws, TheorySettings::DRAWS);
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TheorySettings {
    /// What fixes every draw.
    pub seed: u64,
    /// Simulated tasks per statement.
    pub draws: usize,
    /// The model that takes real steps.
    pub model: Model,
}

impl TheorySettings {
    /// The number of draws that decides all statements within about a minute.
    pub const DRAWS: usize = 20_000;
    /// The fewest draws that say anything.
    const FEWEST: usize = 100;

    /// The source of randomness for one part.
    fn rng(&self, part: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(64).wrapping_add(part))
    }
}

/// Puts the paper's statements to the test; `progress` hears what is being looked at.
///
/// # Errors
///
/// [`Error::Core`] for fewer than 100 draws, [`Error::Engine`] if the model cannot take the tasks.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::theory::{TheorySettings, theory};
///
/// let few = TheorySettings { seed: 0, draws: 1, model: fewstep::builtin()? };
/// assert!(theory(&few, |_| {}).is_err());
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
pub fn theory(
    settings: &TheorySettings,
    mut progress: impl FnMut(&str),
) -> Result<Section, Error> {
    if settings.draws < TheorySettings::FEWEST {
        return Err(Error::Core(fewstep_core::Error::OutOfRange {
            quantity: "number of draws",
            found: settings.draws as f64,
            allowed: "at least 100",
        }));
    }
    type Part = fn(&TheorySettings, &mut Findings) -> Result<(), Error>;
    let parts: [(&str, Part); 8] = [
        ("Bayes gap and filters", gap::examine),
        ("why steps must follow the prompt", necessity::examine),
        ("other priors", priors::examine),
        ("evidence", evidence::examine),
        ("PAC-Bayes coverage", pac_bayes::examine),
        ("update directions", subspace::examine),
        ("gradient flow and random spectra", spectra::examine),
        ("real steps of the model", drift::examine),
    ];
    let mut findings = Findings::default();
    for (name, examine) in parts {
        progress(name);
        examine(settings, &mut findings)?;
    }
    Ok(findings.section(settings.draws))
}
