//! Left-out errors by steps in the model, where the usual decision takes the linear picture's.
//!
//! In: a task and a decision for it. Out: the same decision with other weights over the numbers of
//! steps. Every example is left out of the steps in turn and predicted after each of them, which
//! costs as many ways as there are examples; what is gained by it is for `reproduce rules` to say.

use crate::error::Error;
use fewstep::Way;
use fewstep_core::leave_one_out::LeaveOneOut;
use fewstep_core::{Decision, GradientDescent, Matrix, Mixture, StepSize, Update};
use fewstep_engine::{BlockId, Model, Observation, Steps, Task, TokenTask, descend};

/// A decision by a rule that averages over steps, its weights found again from real steps.
pub(crate) fn decide_again(
    model: &Model,
    task: &Task,
    (blocks, seen): (&[BlockId], &Observation),
    way: &Way,
    decision: Decision,
) -> Result<Decision, Error> {
    let residuals = seen.geometry.residuals();
    if decision.spectrum.largest() == 0.0 || residuals.len() < 2 {
        return Ok(decision);
    }
    let rules = &way.rules;
    let step = StepSize::fraction(rules.step_scale, &decision.spectrum)?;
    let chosen = chosen(blocks, &decision);
    let errors = left_out(model, &model.read(task)?, &chosen, (step, &rules.horizons))?;
    let mut left_out = LeaveOneOut::from_errors(&rules.horizons, errors)?;
    if let Some(answers) = seen.geometry.answers() {
        left_out = left_out.with_answers(residuals, answers)?;
    }
    let weights = left_out.posterior(
        rules.leave_one_out,
        rules.inverse_temperature,
        rules.leave_alone_odds,
    )?;
    let part = |(weight, &horizon): (f64, &u32)| (weight, GradientDescent { step, horizon });
    let parts = weights.into_iter().zip(&rules.horizons).map(part).collect();
    Ok(Decision { update: Update::AveragedSteps(Mixture::new(parts)?), ..decision })
}

/// The blocks that a decision moves.
fn chosen(blocks: &[BlockId], decision: &Decision) -> Vec<BlockId> {
    decision.which.selected.iter().map(|&index| blocks[index]).collect()
}

/// What is left of each example after every one of these numbers of steps on the others.
fn left_out(
    model: &Model,
    task: &TokenTask,
    blocks: &[BlockId],
    (step, horizons): (StepSize, &[u32]),
) -> Result<Matrix, Error> {
    let longest = horizons.iter().copied().max().unwrap_or(0);
    let steps = Steps::new(step.get(), longest as usize);
    let n = task.examples();
    let mut errors = vec![0.0; horizons.len() * n];
    for example in 0..n {
        let others = |index: &usize| *index != example;
        let prompts = (0..n).filter(others).map(|index| task.sequences()[index].clone());
        let targets = (0..n).filter(others).map(|index| task.targets()[index]);
        let others = TokenTask::new(
            prompts.collect(),
            task.sequences()[example].clone(),
            task.labels().clone(),
            targets.collect(),
        )?;
        let path = descend(model.network(), &others, blocks, &steps)?.query_predictions;
        for (candidate, &horizon) in horizons.iter().enumerate() {
            errors[candidate * n + example] = task.targets()[example] - path[horizon as usize];
        }
    }
    Ok(Matrix::new(horizons.len(), n, errors)?)
}

#[cfg(test)]
mod tests {
    use super::super::digit_shift::draw;
    use super::*;
    use fewstep_core::decide;
    use fewstep_engine::choose_blocks;

    /// Small steps are linear: both ways leave the same errors. An example that is left out does not
    /// move its own prediction.
    #[test]
    fn small_steps_leave_what_the_linear_picture_leaves() {
        let model = fewstep::builtin().unwrap();
        let task = draw(0, 21, "\n").task;
        let way = Way::usual(model.config());
        let blocks = choose_blocks(&way.blocks, model.config()).unwrap();
        let seen = model.observe(&task, &blocks).unwrap();
        let decision = decide(&seen.geometry, &way.rules).unwrap();
        let residuals = seen.geometry.residuals();
        let (kernel, horizons) = (decision.block.kernel(), [0, 1, 3]);
        let step = StepSize::fraction(1e-3, &decision.spectrum).unwrap();
        let linear = LeaveOneOut::of(kernel, residuals, step, &horizons, None).unwrap();
        let read = model.read(&task).unwrap();
        let chosen = chosen(&blocks, &decision);
        assert!(chosen.len() < blocks.len(), "{chosen:?}");
        let real = left_out(&model, &read, &chosen, (step, &horizons)).unwrap();
        let mut moved = 0.0_f64;
        for example in 0..residuals.len() {
            let at = |candidate: usize| {
                (real[(candidate, example)], linear.errors()[(candidate, example)])
            };
            assert!((at(0).0 - residuals[example]).abs() < 1e-5);
            let (found, expected) = (at(2).0 - at(0).0, at(2).1 - at(0).1);
            moved = moved.max(expected.abs());
            assert!(
                (found - expected).abs() < 1e-5 + 0.05 * expected.abs(),
                "{found} {expected}"
            );
        }
        assert!(moved > 1e-4, "{moved}");
    }

    #[test]
    fn weights_are_those_of_real_steps() {
        let model = fewstep::builtin().unwrap();
        let task = draw(0, 21, "\n").task;
        let usual = Way::usual(model.config());
        let blocks = choose_blocks(&usual.blocks, model.config()).unwrap();
        let seen = model.observe(&task, &blocks).unwrap();
        let weights = |decision: &Decision| match &decision.update {
            Update::AveragedSteps(average) => {
                average.parts().iter().map(|(weight, _)| *weight).collect::<Vec<f64>>()
            }
            _ => vec![],
        };
        let gap = |step_scale: f64| {
            let rules = fewstep_core::Rules { step_scale, ..usual.rules.clone() };
            let way = Way { rules, ..usual.clone() };
            let decision = decide(&seen.geometry, &way.rules).unwrap();
            let again =
                decide_again(&model, &task, (&blocks, &seen), &way, decision.clone()).unwrap();
            let (found, linear) = (weights(&again), weights(&decision));
            assert_eq!((found.len(), linear.len()), (8, 8));
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert_eq!((again.which, again.block), (decision.which, decision.block));
            found.iter().zip(&linear).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        // Small steps follow the linear picture, and large ones do not.
        let (small, large) = (gap(1e-4), gap(usual.rules.step_scale));
        assert!(small > 1e-9 && small < 1e-2 && large > 0.1, "{small} {large}");
    }
}
