//! Tasks of classes: the examples are observed and decided on once, and answer any number of queries.

use super::{Action, Predictor};
use crate::error::Error;
use crate::report::{ClassReport, ClassesSeen};
use fewstep_core::{
    ClassDecision, ClassGeometry, ClassKernel, ClassQuery, Dynamics, decide_classes,
};
use fewstep_engine::{ObservedClasses, PassCount, Query, Task};

/// Why an arm was left without blocks.
const TOO_LARGE: &str = "too many examples and tokens of labels to write its kernel out";

/// The examples of a task of classes, and what was decided about them.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let task = fewstep::tasks::parse(
///     br#"{"id": "t1", "template": "{x}->{y}", "labels": ["0", "1"],
///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#,
/// )?;
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
/// let (first, decided) = predictor.observe_classes(&task)?;
/// let again = decided.ask(&predictor, &task, &[task.query.clone()])?.remove(0)?;
/// let [one, other] = [first, again].map(|report| report.prediction.adapted[0]);
/// assert!((one - other).abs() < 1e-5);
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Debug)]
pub struct DecidedClasses {
    seen: ObservedClasses,
    decision: ClassDecision,
}

impl Predictor {
    /// Answers a task of classes for its own query, and keeps what others on the same examples need.
    ///
    /// # Errors
    ///
    /// [`Error::StepsForClasses`] if the policy takes steps in the model, [`Error::RegressionOnly`] if an
    /// option was given that is about regression alone, and those of
    /// [`Model::observe_classes`](fewstep_engine::Model::observe_classes) and [`decide_classes`].
    ///
    /// # Examples
    ///
    /// See [`DecidedClasses`].
    pub fn observe_classes(&self, task: &Task) -> Result<(ClassReport, DecidedClasses), Error> {
        if (self.action, self.policy.dynamics) == (Action::Act, Dynamics::Steps) {
            return Err(Error::StepsForClasses);
        }
        if let Some(field) = self.regression_only {
            return Err(Error::RegressionOnly { field });
        }
        let seen = self.model.observe_classes(task, &self.policy.classes)?;
        let decision = decide_classes(seen.geometry(), seen.arms(), &self.policy)?;
        let decided = DecidedClasses { seen, decision };
        let first = decided.report(self, task, decided.seen.first(), decided.seen.passes())?;
        Ok((first, decided))
    }
}

impl DecidedClasses {
    /// Answers further queries on the same examples, each or with what is wrong with it.
    ///
    /// # Errors
    ///
    /// Those of [`Model::ask_classes`](fewstep_engine::Model::ask_classes) for what the queries have in
    /// common.
    ///
    /// # Examples
    ///
    /// See [`DecidedClasses`].
    pub fn ask(
        &self,
        predictor: &Predictor,
        task: &Task,
        queries: &[Query],
    ) -> Result<Vec<Result<ClassReport, Error>>, Error> {
        let (views, passes) = predictor.model.ask_classes(task, &self.seen, queries)?;
        let asked = views.iter().filter(|view| view.is_ok()).count();
        let mut shares = shares(passes, asked).into_iter();
        let report = |(query, view): (&Query, Result<ClassQuery, fewstep_engine::Error>)| {
            let view = view?;
            let passes = shares.next().expect("there is a share for every view");
            self.report(predictor, &task.asking(query), &view, passes)
        };
        Ok(queries.iter().zip(views).map(report).collect())
    }

    /// What was decided.
    #[must_use]
    pub fn decision(&self) -> &ClassDecision {
        &self.decision
    }

    /// What was observed.
    #[must_use]
    pub fn seen(&self) -> &ObservedClasses {
        &self.seen
    }

    /// About how many bytes it holds beside the model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep::{Action, Policy, Predictor};
    /// # let task = fewstep::tasks::parse(
    /// #     br#"{"id": "t1", "template": "{x}->{y}", "labels": ["0", "1"],
    /// #          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#,
    /// # )?;
    /// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
    /// assert!(predictor.observe_classes(&task)?.1.bytes() > 1000);
    /// # Ok::<(), fewstep::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.seen.bytes() + size_of::<f64>() * numbers(self.seen.geometry(), &self.decision)
    }

    fn report(
        &self,
        predictor: &Predictor,
        task: &Task,
        view: &ClassQuery,
        passes: PassCount,
    ) -> Result<ClassReport, Error> {
        let (geometry, arms) = (self.seen.geometry(), self.seen.arms());
        let prediction = self.decision.predict(geometry, view)?;
        let seen = ClassesSeen { geometry, arms, shown: self.seen.shown(), passes };
        let full = predictor.full;
        let mut report = ClassReport::new(task, &seen, &self.decision, &prediction, full);
        for (index, arm) in report.which.arms.iter_mut().enumerate() {
            if self.seen.too_large(index) {
                arm.left_out = Some(TOO_LARGE.to_owned());
            }
        }
        Ok(report)
    }
}

/// About how many numbers a decision holds: coefficients of every candidate, also as sums of features,
/// and the leave-one-out probabilities.
fn numbers(geometry: &ClassGeometry, decision: &ClassDecision) -> usize {
    let outputs = geometry.examples() * geometry.classes();
    let mut numbers = 2 * outputs;
    for (arm, path) in
        decision.arms.iter().flat_map(|arm| arm.paths.iter().map(move |p| (arm, p)))
    {
        let base = geometry.bases().iter().find(|base| base.base() == arm.base);
        let block = |&index: &usize| base?.blocks().get(index);
        let features = path.blocks.iter().filter_map(block).map(|block| match block.kernel() {
            ClassKernel::Features(features) => features.columns(),
            ClassKernel::Dense(_) | ClassKernel::Shared(_) => 0,
        });
        numbers += path.horizons.len() * (outputs + features.sum::<usize>() + 4);
    }
    numbers
}

/// What each of some queries cost of what they cost together; the first takes what is left over.
fn shares(passes: PassCount, queries: usize) -> Vec<PassCount> {
    let count = queries.max(1) as u64;
    let each = |of: u64| of / count;
    let share = PassCount {
        forward: each(passes.forward),
        backward: each(passes.backward),
        forward_tokens: each(passes.forward_tokens),
        backward_tokens: each(passes.backward_tokens),
    };
    let rest = |of: u64| of - count.saturating_sub(1) * each(of);
    let first = PassCount {
        forward: rest(passes.forward),
        backward: rest(passes.backward),
        forward_tokens: rest(passes.forward_tokens),
        backward_tokens: rest(passes.backward_tokens),
    };
    let mut shares = vec![share; queries];
    if let Some(one) = shares.first_mut() {
        *one = first;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_what_was_spent() {
        let spent =
            PassCount { forward: 7, backward: 0, forward_tokens: 103, backward_tokens: 2 };
        for queries in 1..=4 {
            let shares = shares(spent, queries);
            assert_eq!((shares.len(), shares.into_iter().sum()), (queries, spent));
        }
        assert_eq!(shares(spent, 0), []);
    }
}
