//! The pilot of App. I: how large a step is, found on tasks that are not test tasks.

use super::digit_shift::draw_from;
use super::measure::Bench;
use super::settings::{Choices, Stream};
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_engine::Model;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How many tasks the pilot looks at.
pub const PILOT_TASKS: usize = 20;

/// The fractions of the largest stable step that it compares.
pub const SCALES: [f64; 3] = [0.05, 0.1, 0.2];

/// The fraction that is taken where there is no pilot, as in App. J.
pub const DEFAULT_SCALE: f64 = 0.1;

/// What the pilot found.
///
/// # Examples
///
/// See [`Pilot::run`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pilot {
    /// The fraction that is taken.
    pub step_scale: f64,
    /// Each fraction with the mean squared error at the query after eight steps.
    pub tried: Vec<Trial>,
}

/// One fraction, tried.
///
/// # Examples
///
/// See [`Pilot::run`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// `c`.
    pub step_scale: f64,
    /// The mean squared error.
    pub error: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Pilot {
    /// Tries all fractions on the pilot's tasks and takes the best, of equal ones the smallest.
    /// Tasks share the pool of threads that it is called in.
    ///
    /// # Errors
    ///
    /// Those of [`Bench::fixed`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::{Choices, Pilot};
    ///
    /// let pilot = Pilot::run(&fewstep::builtin()?, &Choices::default(), 0)?;
    /// assert!(pilot.tried.iter().any(|trial| trial.step_scale == pilot.step_scale));
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn run(model: &Model, choices: &Choices, seed: u64) -> Result<Self, Error> {
        let bench = Bench::new(model, choices, DEFAULT_SCALE)?;
        let errors = |number: usize| -> Result<Vec<f64>, Error> {
            let drawn = draw_from(seed, Stream::Pilot, number, &choices.separator);
            let found = bench.fixed(&drawn.task, &SCALES)?;
            let predictions = found.iter().map(|both| both.steps.unwrap_or(both.linear));
            Ok(predictions.map(|prediction| (prediction - drawn.target).powi(2)).collect())
        };
        let errors = (0..PILOT_TASKS).into_par_iter().map(errors);
        let errors: Vec<Vec<f64>> = errors.collect::<Result<_, _>>()?;
        let trial = |(index, &step_scale): (usize, &f64)| {
            let of_scale: Vec<f64> = errors.iter().map(|of_task| of_task[index]).collect();
            let Mean { mean, error } = Mean::of(&of_scale);
            Trial { step_scale, error: mean, standard_error: error }
        };
        let tried: Vec<Trial> = SCALES.iter().enumerate().map(trial).collect();
        Ok(Self { step_scale: best(&tried), tried })
    }
}

/// The fraction with the smallest error; of equal ones the smallest.
fn best(tried: &[Trial]) -> f64 {
    let smallest = tried.iter().min_by(|a, b| a.error.total_cmp(&b.error));
    smallest.map_or(DEFAULT_SCALE, |trial| trial.step_scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_error_wins_and_of_equal_ones_the_smallest_step() {
        let trial = |step_scale, error| Trial { step_scale, error, standard_error: 0.0 };
        let found = best(&[trial(0.05, 3.0), trial(0.1, 2.0), trial(0.2, 2.0)]);
        assert!((found - 0.1).abs() < f64::EPSILON);
    }
}
