//! `fewstep-lab pretrain`: makes a model by a recipe, measures it and writes its card.

use super::arguments::Pretrain;
use super::{LAB, say};
use crate::assessment::{Adaptation, Standing};
use crate::error::Error;
use crate::model_card;
use crate::pretraining::Workshop;
use fewstep::cli::{Bar, End, processors, quoted};
use fewstep_engine::Model;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// How many examples the model is measured with.
const EXAMPLES: [usize; 3] = [3, 10, 32];

/// Seeds of the measurements; training draws its tasks from others.
const STANDING_SEED: u64 = 99;
const ADAPTATION_SEED: u64 = 2024;

/// Trains, or continues, and then measures.
pub(super) fn pretrain(arguments: &Pretrain) -> Result<End, Error> {
    let threads = arguments.threads.unwrap_or_else(processors);
    let mut workshop = Workshop::open(&arguments.out, &arguments.recipe(), arguments.resume)?;
    let steps = workshop.recipe().steps;
    let begun = workshop.losses().len();
    let stop = LAB.listen("saving the run after this step");
    let mut bar = Bar::of_steps(steps, begun);
    let finished = workshop.train(threads, |step, report| {
        bar.show_step(step, report.loss);
        if stop.load(Ordering::SeqCst) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    bar.finish();
    let directory = arguments.out.display();
    if !finished {
        let taken = workshop.losses().len();
        LAB.note(format!(
            "stopped after {taken} of {steps} steps, which are saved in {directory}; to continue: {}",
            how_to_continue(arguments.resume)
        ));
        return Ok(End::Interrupted);
    }
    let model = Model::open(&arguments.out)?;
    let tasks = arguments.tasks;
    let mut standings = Vec::new();
    for examples in EXAMPLES {
        let standing = Standing::measure(&model, examples, 8 * tasks, STANDING_SEED)?;
        say(&format!(
            "{examples} examples: squared error {:.5}, of the Bayes prediction {:.5}, ratio {:.3}",
            standing.model.mean,
            standing.bayes.mean,
            standing.ratio()
        ));
        standings.push(standing);
    }
    let bar = Bar::of_steps(tasks, 0);
    let adaptation = Adaptation::measure(model, tasks, ADAPTATION_SEED, threads, |done| {
        bar.show_task(done)
    })?;
    bar.finish();
    for group in &adaptation.groups {
        say(&format!(
            "adapting, {} ({} tasks): none {:.4}, 8 steps {:.4}, evidence {:.4}, leave-one-out {:.4}, \
             hindsight {:.4} ({} steps), oracle {:.4}",
            group.name,
            group.tasks,
            group.none.mean,
            group.eight.mean,
            group.evidence.mean,
            group.leave_one_out.mean,
            group.best.1.mean,
            group.best.0,
            group.oracle.mean
        ));
    }
    model_card::write(&workshop, &standings, &adaptation)?;
    say(&format!("the model and its card are in {directory}"));
    Ok(End::Done)
}

/// What to type after an interrupt.
fn how_to_continue(resumed: bool) -> String {
    let mut words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
    if !resumed {
        words.push("--resume".to_owned());
    }
    words.join(" ")
}
