//! The three questions, asked of a prompt that is made up here: ten examples, four blocks of
//! which one carries the correction, and a query.
//!
//! ```text
//! cargo run --release -p fewstep-core --example three_questions
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use fewstep_core::{Block, Error, Geometry, Policy, Rng, decide};

fn main() -> Result<(), Error> {
    let geometry = made_up_prompt(10, 7)?;
    for policy in [Policy::default(), Policy::paper()] {
        let decision = decide(&geometry, &policy)?;
        let names: Vec<&str> =
            decision.which.selected.iter().map(|&b| geometry.blocks()[b].name()).collect();
        println!("policy    {}", policy.name);
        println!(
            "when      {}: {} (weight on updating {:.2})",
            if decision.when.adapt { "adapt" } else { "leave alone" },
            decision.when.reason,
            decision.when.weight
        );
        println!(
            "how far   {} steps of {:.4} ({:.1} degrees of freedom)",
            decision.how_far.horizon,
            decision.how_far.step_size,
            decision.how_far.degrees_of_freedom
        );
        println!("which     {}", names.join(" "));
        if let Some(query) = decision.query {
            println!("query     {:+.3} ± {:.3}\n", query.correction, query.standard_deviation);
        }
    }
    Ok(())
}

/// Residuals that one of four blocks explains, plus noise.
fn made_up_prompt(examples: usize, seed: u64) -> Result<Geometry, Error> {
    let mut rng = Rng::new(seed);
    let width = 6;
    let truth: Vec<f64> = (0..width).map(|_| rng.normal() / 4.0).collect();
    let mut residuals: Vec<f64> = (0..examples).map(|_| 0.1 * rng.normal()).collect();
    let mut blocks = Vec::new();
    for head in 0..4 {
        let features: Vec<Vec<f64>> =
            (0..examples).map(|_| (0..width).map(|_| rng.normal()).collect()).collect();
        let query: Vec<f64> = (0..width).map(|_| rng.normal()).collect();
        if head == 2 {
            for (residual, feature) in residuals.iter_mut().zip(&features) {
                *residual += feature.iter().zip(&truth).map(|(f, t)| f * t).sum::<f64>();
            }
        }
        let block = Block::from_features(format!("mlp-up.{head}"), &features, Some(&query))?;
        blocks.push(block.in_layer(head));
    }
    Geometry::new(residuals, blocks)
}
