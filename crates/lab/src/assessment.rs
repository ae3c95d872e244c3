//! How good a model for digit maps is: against the best prediction there is on the tasks it was
//! made for, and under adaptation on the paper's.
//!
//! In: a model and seeds. Out: [`Standing`] and [`Adaptation`], with standard errors.

use crate::digit_maps::{DIGITS, DigitMap, Prior, value};
use crate::error::Error;
use fewstep::stream::in_order;
use fewstep::{Action, Policy, Predictor};
use fewstep_core::{HorizonName, HorizonRule, Rng, decide};
use fewstep_engine::{Labels, Layout, Model};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Examples in the paper's tasks.
const EXAMPLES: usize = 10;

/// The longest adaptation that is looked at.
pub const LONGEST: u32 = 60;

/// Tasks that are predicted at once.
const TOGETHER: usize = 50;

/// A mean over tasks with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its standard error; 0 for fewer than two tasks.
    pub error: f64,
}

impl Mean {
    /// Of some samples; 0 if there are none.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::assessment::Mean;
    ///
    /// assert_eq!(Mean::of(&[1.0, 3.0]), Mean { mean: 2.0, error: 1.0 });
    /// ```
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let error = if count > 1.0 { (squares / (count * (count - 1.0))).sqrt() } else { 0.0 };
        Self { mean, error }
    }
}

/// How a model predicts the next label of tasks that are drawn as in its pretraining.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Examples before the query.
    pub examples: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// The mean squared error of the model.
    pub model: Mean,
    /// That of the exact Bayes prediction, on the same tasks.
    pub bayes: Mean,
    /// The mean squared distance between the two predictions.
    pub gap: Mean,
}

impl Standing {
    /// Measures a model on `tasks` tasks with this number of examples.
    ///
    /// # Errors
    ///
    /// Those of [`fewstep_engine::Network::predict`].
    ///
    /// # Examples
    ///
    /// ```
    /// let standing = fewstep_lab::assessment::Standing::measure(&fewstep::builtin()?, 10, 20, 0)?;
    /// assert_eq!((standing.examples, standing.tasks), (10, 20));
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn measure(
        model: &Model,
        examples: usize,
        tasks: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        let digits = (b'0'..=b'9').map(u32::from).collect();
        let labels = Labels::new(digits, (0..DIGITS).map(value).collect())?;
        let (prior, mut rng) = (Prior::pretraining(), Rng::new(seed));
        let (mut model_errors, mut bayes_errors, mut gaps) = (vec![], vec![], vec![]);
        while model_errors.len() < tasks {
            let count = TOGETHER.min(tasks - model_errors.len());
            let maps: Vec<DigitMap> =
                (0..count).map(|_| prior.draw(examples + 1, &mut rng)).collect();
            let prompts: Vec<Vec<u32>> = maps.iter().map(|map| prompt(map, examples)).collect();
            let predicted = model.network().predict(Layout::plain(&prompts)?, &labels)?;
            for (map, predicted) in maps.iter().zip(predicted) {
                let (x, y) = map.pairs[examples];
                let best = prior.predict_value(&map.pairs[..examples], x);
                let predicted = f64::from(predicted);
                model_errors.push((predicted - value(y)).powi(2));
                bayes_errors.push((best - value(y)).powi(2));
                gaps.push((predicted - best).powi(2));
            }
        }
        let [model, bayes, gap] = [model_errors, bayes_errors, gaps].map(|all| Mean::of(&all));
        Ok(Self { examples, tasks, model, bayes, gap })
    }

    /// How much larger the model's error is than the smallest there is.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.model.mean / self.bayes.mean
    }
}

/// The text up to the label of the pair behind the examples.
fn prompt(map: &DigitMap, examples: usize) -> Vec<u32> {
    let (text, before) = map.text();
    text.bytes().take(before[examples] + 1).map(u32::from).collect()
}

/// Tasks of one kind under adaptation: mean squared errors at the query.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What the tasks have in common.
    pub name: &'static str,
    /// Number of tasks.
    pub tasks: usize,
    /// Without adaptation.
    pub none: Mean,
    /// After 8 steps.
    pub eight: Mean,
    /// After as many as evidence asks for.
    pub evidence: Mean,
    /// After as many as the leave-one-out rule asks for.
    pub leave_one_out: Mean,
    /// After the same number on every task, chosen in hindsight: the number, and the error.
    pub best: (usize, Mean),
    /// After the best number for each task.
    pub oracle: Mean,
    /// Of the exact Bayes prediction under the paper's distribution.
    pub bayes: Mean,
}

/// What adaptation does on the paper's test distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptation {
    /// All tasks, and those inside and outside the pretraining prior, clean and noisy.
    pub groups: Vec<Group>,
}

/// One task, adapted step by step.
#[derive(Clone, Debug)]
struct AdaptedTask {
    inside: bool,
    clean: bool,
    /// Squared errors at the query after 0, 1, … steps.
    errors: Vec<f64>,
    evidence: usize,
    leave_one_out: usize,
    bayes: f64,
}

impl Adaptation {
    /// Adapts a model to a number of tasks; `after` hears how many are done.
    ///
    /// # Errors
    ///
    /// Those of [`Model::observe`], [`decide`] and [`Model::act`].
    pub fn measure(
        model: Model,
        tasks: usize,
        seed: u64,
        threads: usize,
        mut after: impl FnMut(usize),
    ) -> Result<Self, Error> {
        // The card says what the paper's protocol gives.
        let predictor = Arc::new(Predictor::new(model, Policy::paper(), Action::Act)?);
        let mut rng = Rng::new(seed);
        let jobs: Vec<(DigitMap, usize)> = (0..tasks)
            .map(|_| (Prior::paper().draw(EXAMPLES, &mut rng), rng.below(DIGITS)))
            .collect();
        let work = move |(map, x): (DigitMap, usize)| follow(&predictor, &map, x);
        let mut paths = Vec::with_capacity(tasks);
        let never = Arc::new(AtomicBool::new(false));
        let mut failed = None;
        in_order(jobs.into_iter(), work, threads, never, |path| {
            match path {
                Ok(path) => paths.push(path),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            after(paths.len());
            ControlFlow::Continue(())
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(Self { groups: groups(&paths) }),
        }
    }
}

/// Adapts to one task, as far as is looked at, with all blocks.
fn follow(predictor: &Predictor, map: &DigitMap, x: usize) -> Result<AdaptedTask, Error> {
    let (model, task) = (predictor.model(), map.task("assessment", x));
    let seen = model.observe(&task, predictor.blocks())?;
    let by = |rule| {
        let horizon = HorizonRule::of_name(rule);
        Policy { horizon, horizons: (0..=LONGEST).collect(), ..Policy::paper() }
    };
    let chosen = |rule| -> Result<usize, Error> {
        Ok(decide(&seen.geometry, &by(rule))?.how_far.horizon as usize)
    };
    let farthest = decide(&seen.geometry, &by(HorizonName::Fixed(LONGEST)))?;
    let target = value((x + map.shift) % DIGITS);
    let error = |prediction: f64| (prediction - target).powi(2);
    let path = model.act(&task, &farthest)?.query_path;
    let mut errors: Vec<f64> = path.into_iter().map(error).collect();
    // Where no update can change the model, it stays as it is.
    errors.resize(LONGEST as usize + 1, *errors.last().expect("there is a first prediction"));
    let prior = Prior::pretraining();
    Ok(AdaptedTask {
        inside: prior.shifts.contains(&map.shift),
        clean: map.noise == 0.0,
        errors,
        evidence: chosen(HorizonName::Evidence)?,
        leave_one_out: chosen(HorizonName::LeaveOneOut)?,
        bayes: error(Prior::paper().predict_clean(&map.pairs, x).0),
    })
}

fn groups(paths: &[AdaptedTask]) -> Vec<Group> {
    let kinds = [
        ("all", None),
        ("inside the prior, clean", Some((true, true))),
        ("inside the prior, noisy", Some((true, false))),
        ("outside the prior, clean", Some((false, true))),
        ("outside the prior, noisy", Some((false, false))),
    ];
    kinds
        .map(|(name, kind)| {
            let belongs =
                |path: &&AdaptedTask| kind.is_none_or(|kind| kind == (path.inside, path.clean));
            group(name, &paths.iter().filter(belongs).collect::<Vec<_>>())
        })
        .into()
}

fn group(name: &'static str, paths: &[&AdaptedTask]) -> Group {
    let mean = |error: &dyn Fn(&AdaptedTask) -> f64| {
        Mean::of(&paths.iter().map(|path| error(path)).collect::<Vec<_>>())
    };
    let at = |steps: usize| mean(&|path| path.errors[steps]);
    let best = (0..=LONGEST as usize)
        .map(|steps| (steps, at(steps)))
        .min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
        .expect("there is at least one number of steps");
    Group {
        name,
        tasks: paths.len(),
        none: at(0),
        eight: at(8),
        evidence: mean(&|path| path.errors[path.evidence]),
        leave_one_out: mean(&|path| path.errors[path.leave_one_out]),
        best,
        oracle: mean(&|path| path.errors.iter().copied().fold(f64::INFINITY, f64::min)),
        bayes: mean(&|path| path.bayes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_their_tasks_and_pick_their_horizons() {
        let path = |inside, clean, first: f64| AdaptedTask {
            inside,
            clean,
            errors: (0..=LONGEST).map(|step| first / f64::from(step + 1)).collect(),
            evidence: 1,
            leave_one_out: 2,
            bayes: 0.0,
        };
        let groups = groups(&[path(true, true, 12.0), path(false, false, 6.0)]);
        let [all, inside, empty, _, outside] = &groups[..] else { panic!() };
        assert_eq!((all.tasks, inside.tasks, empty.tasks, outside.tasks), (2, 1, 0, 1));
        assert_eq!((all.none.mean, all.evidence.mean, all.leave_one_out.mean), (9.0, 4.5, 3.0));
        assert_eq!((all.eight.mean, all.best.0), (1.0, LONGEST as usize));
        assert_eq!(all.oracle, all.best.1);
        assert_eq!(inside.none, Mean { mean: 12.0, error: 0.0 });
    }
}
