//! What choosing costs beside observing, with the default policy and with the paper's.
//!
//! `cargo bench -p fewstep-lab --bench choosing`, and with `-- MODEL` for another model than the built-in
//! one. Both are timed in turn on the same tasks, so that a busy machine slows both.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use fewstep::Policy;
use fewstep_core::decide;
use fewstep_engine::{HubSettings, choose_blocks};
use fewstep_lab::reproduce::digit_shift::draw;
use std::hint::black_box;
use std::time::Instant;

const TASKS: usize = 30;

fn main() {
    let name = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let name = name.as_deref().unwrap_or("builtin");
    let model =
        fewstep::load(name, &HubSettings::from_environment(), |_| ()).unwrap().dequantised();
    for policy in [Policy::default(), Policy::paper()] {
        let blocks = choose_blocks(&policy.blocks, model.config()).unwrap();
        let (mut observing, mut choosing) = (vec![], vec![]);
        for index in 0..TASKS {
            let task = draw(0, index, "\n").task;
            let start = Instant::now();
            let seen = model.observe(&task, &blocks).unwrap();
            observing.push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            black_box(decide(&seen.geometry, &policy).unwrap());
            choosing.push(start.elapsed().as_secs_f64());
        }
        let (observing, choosing) = (median(observing), median(choosing));
        println!(
            "{name}, policy {}, {} candidates: observing {:.2} ms, choosing {:.3} ms, \
             {:.2} %",
            policy.name,
            blocks.len(),
            1e3 * observing,
            1e3 * choosing,
            100.0 * choosing / observing
        );
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
