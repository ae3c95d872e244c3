//! One task: observed once, stepped once as far as anybody looks, and decided on by every rule.
//!
//! In: a task. Out: a [`TaskPath`] or [`Choice`]s. Predictions alone; errors are taken later.

use super::policies::{PolicyOutcome, compared, follow};
use super::record::{
    Both, Choice, Further, Horizons, Method, SeenBlock, TaskPath, Trace, single,
};
use super::settings::{BUDGETS, Choices, FIXED_HORIZON, Kernel};
use crate::error::Error;
use fewstep_core::{
    Decision, Evidence, Geometry, HorizonName, HorizonRule, Noise, Plan, Policy, Rng, Spectrum,
    StepSize, best_horizon, decide, subspace,
};
use fewstep_engine::{
    BlockId, Descent, LinearPath, Model, Observation, Place, Prepared, Query, Steps, Task,
    choose_blocks, observe_single_position,
};
use std::collections::BTreeMap;

/// How many random choices of blocks are averaged.
pub const RANDOM_DRAWS: usize = 5;

/// A model with the settings under which tasks are measured.
///
/// # Examples
///
/// See [`Bench::path`].
#[derive(Clone, Debug)]
pub struct Bench {
    model: Model,
    blocks: Vec<BlockId>,
    choices: Choices,
    step_scale: f64,
}

impl Bench {
    /// A bench for one part of a run.
    ///
    /// # Errors
    ///
    /// Those of [`choose_blocks`].
    pub fn new(model: &Model, choices: &Choices, step_scale: f64) -> Result<Self, Error> {
        let blocks = choose_blocks(&choices.blocks, model.config())?;
        let model = choices.prepare(model);
        Ok(Self { model, blocks, choices: choices.clone(), step_scale })
    }

    /// The candidate blocks.
    #[must_use]
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The numbers of blocks that there are enough candidates for.
    #[must_use]
    pub fn budgets(&self) -> Vec<usize> {
        budgets(self.blocks.len())
    }

    /// What steps begin with, and what is seen by the kernel's form.
    fn observe(&self, task: &Task) -> Result<(Prepared, Observation), Error> {
        let prepared = self.model.prepare(task, &self.blocks)?;
        let seen = match self.choices.kernel {
            Kernel::AllTokens => prepared.observation().clone(),
            Kernel::SinglePosition => observe_single_position(
                self.model.network(),
                &self.model.read(task)?,
                &self.blocks,
            )?,
        };
        Ok((prepared, seen))
    }

    /// All candidate blocks and numbers of steps, by a rule with the parameters it has by default.
    fn policy(&self, rule: HorizonName) -> Policy {
        let (horizon, step_scale) = (HorizonRule::of_name(rule), self.step_scale);
        let horizons = (0..=self.choices.longest).collect();
        Policy { horizon, horizons, step_scale, ..Policy::paper() }
    }

    /// Steps with all candidate blocks, and what every rule says about them.
    ///
    /// # Errors
    ///
    /// Those of [`Model::prepare`], [`decide`], [`Prepared::descend`] and [`Prepared::act_at_once`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::{Choices, digit_shift, measure::Bench};
    ///
    /// let choices = Choices { longest: 2, linear_only: true, ..Choices::default() };
    /// let bench = Bench::new(&fewstep::builtin()?, &choices, 0.1)?;
    /// let path = bench.path(&digit_shift::draw(0, 0, "\n").task)?;
    /// assert_eq!((path.linear.len(), path.steps.len()), (3, 0));
    /// assert!(path.horizons.evidence <= 2);
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn path(&self, task: &Task) -> Result<TaskPath, Error> {
        let (prepared, seen) = self.observe(task)?;
        let by = |rule| Ok::<_, Error>(decide(&seen.geometry, &self.policy(rule))?);
        let farthest = by(HorizonName::Fixed(self.choices.longest))?;
        let chosen = |rule| Ok::<_, Error>(by(rule)?.how_far.horizon);
        let (gibbs, filter) = (by(HorizonName::Gibbs)?, by(HorizonName::BayesFilter)?);
        let horizons = Horizons {
            evidence: chosen(HorizonName::Evidence)?,
            evidence_fixed: chosen(HorizonName::EvidenceFixed)?,
            evidence_fitted: self.fitted_evidence(&seen.geometry, &farthest)?,
            bayes_gap: chosen(HorizonName::BayesGap)?,
            leave_one_out: chosen(HorizonName::LeaveOneOut)?,
            gibbs_mean: mean_horizon(&gibbs),
        };
        let walk = self.walk(&seen, &farthest, |steps| {
            Ok(prepared.clone().descend(&self.blocks, steps)?)
        })?;
        Ok(TaskPath {
            steps: walk.steps,
            linear: walk.linear,
            fit: walk.fit,
            horizons,
            gibbs: self.applied(&prepared, &gibbs)?,
            bayes_filter: self.applied(&prepared, &filter)?,
        })
    }

    /// The horizon of the best evidence at the noise of the two-parameter fit.
    fn fitted_evidence(&self, geometry: &Geometry, by: &Decision) -> Result<u32, Error> {
        let residuals = geometry.residuals();
        let variance = mean_square(residuals);
        if by.plan == Plan::None {
            return Ok(0);
        }
        let step = StepSize::fraction(self.step_scale, &by.spectrum)?;
        let evidence = Evidence::of(&by.spectrum, residuals, step)?;
        let noise = Noise::Fixed(by.signal.noise_variance.max(1e-8 * variance));
        let candidates: Vec<u32> = (0..=self.choices.longest).collect();
        Ok(best_horizon(&candidates, &evidence.curve(&candidates, noise)?)?.horizon)
    }

    /// All steps at once; where nothing can be updated, predictions stay.
    fn walk(
        &self,
        seen: &Observation,
        far: &Decision,
        descend: impl FnOnce(&Steps) -> Result<Descent, Error>,
    ) -> Result<Walk, Error> {
        let horizon = self.choices.longest as usize;
        let residuals = seen.geometry.residuals();
        let real = !self.choices.linear_only;
        if far.plan == Plan::None {
            let (all, taken) = (horizon + 1, if real { horizon + 1 } else { 0 });
            return Ok(Walk {
                steps: vec![seen.query_prediction; taken],
                linear: vec![seen.query_prediction; all],
                fit: vec![mean_square(residuals); taken],
                examples: vec![seen.predictions.clone(); taken],
            });
        }
        let steps = Steps::new(far.how_far.step_size, horizon);
        let linear = LinearPath::new(&far.block, residuals, &steps)?.query_corrections;
        let linear = linear.iter().map(|change| seen.query_prediction + change).collect();
        if !real {
            return Ok(Walk { steps: vec![], linear, fit: vec![], examples: vec![] });
        }
        let descent = descend(&steps)?;
        let fit = |loss: &f64| 2.0 * loss / residuals.len() as f64;
        let fit = descent.losses.iter().map(fit).collect();
        let (steps, examples) = (descent.query_predictions, descent.predictions);
        Ok(Walk { steps, linear, fit, examples })
    }

    /// The prediction under an update that is applied at once.
    fn applied(&self, prepared: &Prepared, by: &Decision) -> Result<Both, Error> {
        let base = prepared.observation().query_prediction;
        let correction = by.query.map_or(0.0, |query| query.correction);
        let steps = match &by.plan {
            _ if self.choices.linear_only => None,
            Plan::None => Some(base),
            _ => Some(prepared.clone().act_at_once(by)?.1.adapted),
        };
        Ok(Both { steps, linear: base + correction })
    }

    /// All that rules may look at, steps with all candidate blocks, and where whole policies lead.
    /// Further queries on the same examples are predicted under the same updates.
    ///
    /// # Errors
    ///
    /// Those of [`Bench::path`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::{Choices, digit_shift, measure::Bench};
    ///
    /// let choices = Choices { longest: 2, ..Choices::default() };
    /// let bench = Bench::new(&fewstep::builtin()?, &choices, 0.1)?;
    /// let trace = bench.trace(&digit_shift::draw(0, 0, "\n").task, &[])?;
    /// assert_eq!((trace.steps.len(), trace.examples.len(), trace.blocks.len()), (3, 3, 48));
    /// assert_eq!(trace.geometry()?.residuals(), trace.residuals);
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn trace(&self, task: &Task, further: &[Query]) -> Result<Trace, Error> {
        let (prepared, seen) = self.observe(task)?;
        let again = self.ask_again(task, further, &prepared)?;
        let longest = HorizonName::Fixed(self.choices.longest);
        let farthest = decide(&seen.geometry, &self.policy(longest))?;
        let mut paths = vec![vec![]; further.len()];
        let walk = self.walk(&seen, &farthest, |steps| {
            if further.is_empty() {
                return Ok(prepared.descend(&self.blocks, steps)?);
            }
            Ok(prepared.clone().descend_with(&self.blocks, steps, |_, update| {
                let predictions = prepared.predict_further(&again.tokens, update)?;
                paths.iter_mut().zip(predictions).for_each(|(path, found)| path.push(found));
                Ok(())
            })?)
        })?;
        let points = walk.steps.len();
        Ok(Trace {
            step_scale: self.step_scale,
            base: seen.query_prediction,
            residuals: seen.geometry.residuals().to_vec(),
            predictions: seen.predictions,
            labels: task.label_range(),
            alike: seen.geometry.answers().map_or(vec![], |all| all.labels().to_vec()),
            blocks: seen.geometry.blocks().iter().map(SeenBlock::of).collect(),
            steps: walk.steps,
            examples: walk.examples.iter().map(|all| single(all)).collect(),
            policies: self.follow(task, &again.tokens)?,
            further: again.further(paths, points),
        })
    }

    /// Where the policies lead that are compared.
    fn follow(&self, task: &Task, further: &[Vec<u32>]) -> Result<Vec<PolicyOutcome>, Error> {
        follow(&self.model, task, further, &compared(), !self.choices.linear_only)
    }

    /// What is seen of further queries on the examples of a task.
    fn ask_again(
        &self,
        task: &Task,
        further: &[Query],
        prepared: &Prepared,
    ) -> Result<Again, Error> {
        let mut again = Again { targets: vec![], tokens: vec![], seen: vec![] };
        for query in further {
            let task = Task { query: query.clone(), ..task.clone() };
            let read = self.model.read(&task)?;
            if self.choices.kernel == Kernel::SinglePosition {
                let network = self.model.network();
                again.seen.push(observe_single_position(network, &read, &self.blocks)?);
            }
            again.tokens.extend(read.sequences().last().cloned());
            again.targets.push(answer(&task)?);
        }
        if again.seen.is_empty() && !again.tokens.is_empty() {
            again.seen = prepared.further(&again.tokens)?;
        }
        Ok(again)
    }

    /// Eight steps with all candidate blocks, for each of these fractions of the largest stable
    /// step: what the pilot looks at.
    ///
    /// # Errors
    ///
    /// Those of [`Bench::path`].
    pub fn fixed(&self, task: &Task, step_scales: &[f64]) -> Result<Vec<Both>, Error> {
        let (prepared, seen) = self.observe(task)?;
        let all: Vec<usize> = (0..self.blocks.len()).collect();
        let taken = |&scale: &f64| Ok(self.take(&prepared, &seen, &all, scale)?.0);
        step_scales.iter().map(taken).collect()
    }

    /// Eight steps with the blocks that every rule chooses, for every budget.
    ///
    /// # Errors
    ///
    /// Those of [`Model::prepare`], [`subspace`] and [`Prepared::descend`].
    pub fn choices(&self, task: &Task, rng: &mut Rng) -> Result<Vec<Choice>, Error> {
        let (prepared, seen) = self.observe(task)?;
        let sets = self.sets(&seen.geometry, rng)?;
        let mut known: BTreeMap<Vec<usize>, (Both, Both)> = BTreeMap::new();
        let mut choices = Vec::with_capacity(sets.len());
        for (method, budget, draws) in sets {
            let (mut query, mut fit) = (vec![], vec![]);
            for set in draws {
                let found = match known.get(&set) {
                    Some(found) => *found,
                    None => self.take(&prepared, &seen, &set, self.step_scale)?,
                };
                known.insert(set, found);
                query.push(found.0);
                fit.push(found.1);
            }
            choices.push(Choice { method, budget, query, fit });
        }
        Ok(choices)
    }

    /// Which blocks every rule chooses: positions among the candidates, ascending.
    fn sets(&self, geometry: &Geometry, rng: &mut Rng) -> Result<Vec<Sets>, Error> {
        let (blocks, budgets) = (self.blocks.len(), self.budgets());
        let most = budgets.last().copied().unwrap_or(0);
        // Perfect predictions leave no noise to weigh scores by; any positive number ranks them.
        let noise_variance = match mean_square(geometry.residuals()) {
            0.0 => 1.0,
            variance => variance,
        };
        let traces = subspace::trace_scores(geometry, noise_variance)?;
        let queries = subspace::query_scores(geometry, noise_variance)?;
        // What is chosen greedily for a small budget begins every larger choice.
        let greedy =
            subspace::greedy_correction(geometry, most, self.step_scale, FIXED_HORIZON)?.blocks;
        let mut sets = vec![(Method::All, blocks, vec![(0..blocks).collect()])];
        for &budget in &budgets {
            for method in Method::CHOOSING {
                let draws = match method {
                    Method::QueryAware => vec![greedy[..budget].to_vec()],
                    Method::QueryScore => vec![subspace::top(&queries, budget)?],
                    Method::TraceTop => vec![subspace::top(&traces, budget)?],
                    Method::TraceBottom => vec![subspace::bottom(&traces, budget)?],
                    Method::Random => (0..RANDOM_DRAWS)
                        .map(|_| subspace::random(blocks, budget, rng))
                        .collect::<Result<_, _>>()?,
                    Method::All => vec![(0..blocks).collect()],
                };
                sets.push((method, budget, draws.into_iter().map(sorted).collect()));
            }
        }
        Ok(sets)
    }

    /// The query's prediction and the prompt's mean squared error after eight steps.
    fn take(
        &self,
        prepared: &Prepared,
        seen: &Observation,
        set: &[usize],
        step_scale: f64,
    ) -> Result<(Both, Both), Error> {
        let residuals = seen.geometry.residuals();
        let block = seen.geometry.sum(set)?;
        let spectrum = Spectrum::of(block.kernel())?;
        let (base, fit) = (seen.query_prediction, mean_square(residuals));
        if spectrum.largest() == 0.0 {
            let real = |value| (!self.choices.linear_only).then_some(value);
            return Ok((
                Both { steps: real(base), linear: base },
                Both { steps: real(fit), linear: fit },
            ));
        }
        let step = StepSize::fraction(step_scale, &spectrum)?;
        let steps = Steps::new(step.get(), FIXED_HORIZON as usize);
        let linear = LinearPath::new(&block, residuals, &steps)?;
        let fitted = linear.prompt_fits.last().expect("there is the first point");
        let left: Vec<f64> = residuals.iter().zip(fitted).map(|(r, f)| r - f).collect();
        let change = linear.query_corrections.last().expect("there is the first point");
        let (mut query, mut fit) = (
            Both { steps: None, linear: base + change },
            Both { steps: None, linear: mean_square(&left) },
        );
        if !self.choices.linear_only {
            let blocks: Vec<BlockId> = set.iter().map(|&index| self.blocks[index]).collect();
            let descent = prepared.clone().descend(&blocks, &steps)?;
            query.steps = descent.query_predictions.last().copied();
            let loss = descent.losses.last().expect("there is the first loss");
            fit.steps = Some(2.0 * loss / residuals.len() as f64);
        }
        Ok((query, fit))
    }
}

/// A rule, its budget, and the blocks of each draw.
type Sets = (Method, usize, Vec<Vec<usize>>);

/// A path of steps.
struct Walk {
    steps: Vec<f64>,
    linear: Vec<f64>,
    fit: Vec<f64>,
    /// Predictions for the examples.
    examples: Vec<Vec<f64>>,
}

/// Further queries on the examples of a task.
struct Again {
    targets: Vec<f64>,
    /// Their prompts.
    tokens: Vec<Vec<u32>>,
    seen: Vec<Observation>,
}

impl Again {
    /// What is kept of them, with the paths of so many points that were seen of each; where nothing
    /// was updated, predictions stayed.
    fn further(self, paths: Vec<Vec<f64>>, points: usize) -> Vec<Further> {
        let queries = self.targets.into_iter().zip(self.seen).zip(paths);
        let further = |((target, seen), mut steps): ((f64, Observation), Vec<f64>)| {
            let blocks: Vec<SeenBlock> =
                seen.geometry.blocks().iter().map(SeenBlock::of).collect();
            let base = seen.query_prediction;
            steps.resize(points, base);
            Further {
                target,
                base,
                variances: blocks.iter().map(|block| block.variance).collect(),
                couplings: blocks.into_iter().map(|block| block.coupling).collect(),
                steps,
            }
        };
        queries.map(further).collect()
    }
}

/// The numbers of blocks that there are enough candidates for.
pub(crate) fn budgets(blocks: usize) -> Vec<usize> {
    BUDGETS.into_iter().filter(|&budget| budget <= blocks).collect()
}

/// The value of the query's label.
fn answer(task: &Task) -> Result<f64, Error> {
    let found = task.query.y.clone().unwrap_or_default();
    let allowed = || task.labels.iter().map(|label| label.text.clone()).collect();
    let value = task.value_of(&found).ok_or_else(|| fewstep_engine::Error::UnknownLabel {
        task: task.id.clone(),
        place: Place::Query,
        found,
        allowed: allowed(),
    })?;
    Ok(value)
}

fn sorted(mut set: Vec<usize>) -> Vec<usize> {
    set.sort_unstable();
    set
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64
}

/// The mean of the Gibbs posterior; 0 where there is nothing to correct.
fn mean_horizon(decision: &Decision) -> f64 {
    let posterior = decision.how_far.posterior.iter().enumerate();
    posterior.map(|(horizon, weight)| horizon as f64 * weight).sum()
}

#[cfg(test)]
mod tests {
    use super::super::digit_shift::draw;
    use super::super::families::Family;
    use super::super::settings::{Stream, TaskKey};
    use super::*;

    fn bench(choices: &Choices) -> Bench {
        Bench::new(&fewstep::builtin().unwrap(), choices, 0.2).unwrap()
    }

    /// A path against the library's own answers, one horizon and rule at a time.
    #[test]
    fn one_path_holds_what_every_rule_would_do_alone() {
        let bench = bench(&Choices { longest: 12, ..Choices::default() });
        // A task on which every rule chooses another horizon.
        let task = draw(0, 20, "\n").task;
        let path = bench.path(&task).unwrap();
        let chosen = path.horizons;
        let mut different =
            [chosen.evidence, chosen.evidence_fixed, chosen.bayes_gap, chosen.leave_one_out];
        different.sort_unstable();
        assert!(different.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
        assert_eq!((path.steps.len(), path.linear.len(), path.fit.len()), (13, 13, 13));
        let prepared = bench.model.prepare(&task, &bench.blocks).unwrap();
        let seen = prepared.observation();
        for (rule, horizon) in [
            (HorizonName::Fixed(0), 0),
            (HorizonName::Fixed(8), 8),
            (HorizonName::Evidence, path.horizons.evidence),
            (HorizonName::EvidenceFixed, path.horizons.evidence_fixed),
            (HorizonName::BayesGap, path.horizons.bayes_gap),
            (HorizonName::LeaveOneOut, path.horizons.leave_one_out),
        ] {
            let decision = decide(&seen.geometry, &bench.policy(rule)).unwrap();
            assert_eq!(decision.how_far.horizon, horizon);
            let (_, outcome) = prepared.clone().act(&decision).unwrap();
            let (step, linear) = (path.steps[horizon as usize], path.linear[horizon as usize]);
            assert_eq!(outcome.adapted.to_bits(), step.to_bits(), "{rule}");
            let apart = (outcome.linear_path.last().unwrap() - linear).abs();
            assert!(apart < 1e-12, "{rule}: {apart}");
        }
        // The first point is the model's own prediction, and steps improve the fit.
        assert!((path.steps[0] - seen.query_prediction).abs() < 1e-5);
        assert!(path.fit[12] < path.fit[0]);
    }

    /// With all blocks, the linearised model after eight steps is that of the path.
    #[test]
    fn choices_and_paths_agree_where_they_are_the_same() {
        let bench = bench(&Choices { longest: 8, ..Choices::default() });
        let task = draw(0, 5, "\n").task;
        let (path, mut rng) = (bench.path(&task).unwrap(), Rng::new(4));
        let choices = bench.choices(&task, &mut rng).unwrap();
        assert_eq!(choices.len(), 1 + 5 * BUDGETS.len());
        let all = &choices[0];
        assert_eq!((all.method, all.budget), (Method::All, 48));
        assert_eq!(all.query[0].steps.unwrap().to_bits(), path.steps[8].to_bits());
        assert!((all.query[0].linear - path.linear[8]).abs() < 1e-12);
        assert_eq!(all.fit[0].steps.unwrap().to_bits(), path.fit[8].to_bits());
        for choice in &choices[1..] {
            let draws = if choice.method == Method::Random { RANDOM_DRAWS } else { 1 };
            assert_eq!((choice.query.len(), choice.fit.len()), (draws, draws));
        }
        let fixed = bench.fixed(&task, &[0.1, 0.2]).unwrap();
        assert_eq!(fixed[1], all.query[0]);
        assert_ne!(fixed[0], fixed[1]);
    }

    /// The first query's numbers do not depend on further ones, and each of these is measured as if
    /// it were the task's own.
    #[test]
    fn further_queries_are_measured_as_if_each_were_the_only_one() {
        let close =
            |a: f64, b: f64, what: &str| assert!((a - b).abs() < 1e-5, "{what}: {a} {b}");
        let near = |found: &[f32], expected: &[f32], what: &str| {
            let scale = expected.iter().map(|value| value.abs()).fold(0.0, f32::max);
            let gap =
                found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(found.len() == expected.len() && gap <= 1e-3 * scale, "{what}: {gap}");
        };
        let key = TaskKey { seed: 0, stream: Stream::Development, number: 3 };
        let drawn = Family::ShiftClean.draw(key, 3, "\n", None).unwrap();
        for linear_only in [false, true] {
            let bench = bench(&Choices { longest: 4, linear_only, ..Choices::default() });
            let trace = |task: &Task, further: &[Query]| bench.trace(task, further).unwrap();
            let (all, alone) = (trace(&drawn.task, &drawn.further), trace(&drawn.task, &[]));
            let mut own = all.clone();
            own.further.clear();
            own.policies.iter_mut().for_each(|outcome| outcome.further.clear());
            assert_eq!(own, alone);
            assert_eq!(all.further.len(), 2);
            for ((again, target), query) in all.asked_again().zip(&drawn.further) {
                let task = Task { query: query.clone(), ..drawn.task.clone() };
                let expected = trace(&task, &[]);
                assert_eq!(Some(target), task.value_of(query.y.as_ref().unwrap()));
                close(again.base, expected.base, "base");
                assert_eq!(again.steps.len(), if linear_only { 0 } else { 5 });
                assert_eq!(again.steps.len(), expected.steps.len());
                again
                    .steps
                    .iter()
                    .zip(&expected.steps)
                    .for_each(|(a, b)| close(*a, *b, "step"));
                let apart = (again.base - all.base).abs();
                assert!(apart > 1e-3, "it is another query: {apart}");
                for (found, block) in again.blocks.iter().zip(&expected.blocks) {
                    near(&found.coupling, &block.coupling, "coupling");
                    near(&[found.variance], &[block.variance], "variance");
                }
                assert_eq!(again.policies.len(), expected.policies.len());
                for (found, alone) in again.policies.iter().zip(&expected.policies) {
                    assert_eq!((&found.block, found.horizon), (&alone.block, alone.horizon));
                    close(found.linear, alone.linear, &found.policy);
                    near(&found.seen.coupling, &alone.seen.coupling, &found.policy);
                    near(&[found.seen.variance], &[alone.seen.variance], &found.policy);
                    assert_eq!(found.prediction.is_none(), linear_only);
                    let [a, b] =
                        [found, alone].map(|outcome| outcome.prediction.unwrap_or(0.0));
                    close(a, b, &found.policy);
                }
            }
            let read: Trace =
                serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
            assert_eq!(read, all);
            assert!(!serde_json::to_string(&alone).unwrap().contains("further"));
        }
    }

    #[test]
    fn a_further_query_has_a_known_answer() {
        let bench = bench(&Choices { longest: 1, ..Choices::default() });
        let query = Query { x: "3".to_owned(), y: None };
        let refused = bench.trace(&draw(0, 0, "\n").task, &[query]).unwrap_err();
        let expected = fewstep_engine::Error::UnknownLabel {
            task: "digit-shift-0-0".to_owned(),
            place: Place::Query,
            found: String::new(),
            allowed: (0..10).map(|digit| digit.to_string()).collect(),
        };
        assert_eq!(refused, Error::from(expected));
    }

    /// Without steps in the model the linear numbers are the same, and the others are absent.
    #[test]
    fn linear_runs_take_no_step() {
        let whole = Choices { longest: 4, ..Choices::default() };
        let linear = Choices { linear_only: true, ..whole.clone() };
        let task = draw(0, 1, "\n").task;
        let (with, without) =
            (bench(&whole).path(&task).unwrap(), bench(&linear).path(&task).unwrap());
        assert!(without.steps.is_empty() && without.fit.is_empty());
        assert_eq!(without.linear, with.linear);
        assert_eq!((without.gibbs.steps, without.gibbs.linear), (None, with.gibbs.linear));
        let choices = bench(&linear).choices(&task, &mut Rng::new(0)).unwrap();
        assert!(choices.iter().all(|choice| choice.query.iter().all(|q| q.steps.is_none())));
    }
}
