//! What products alone tell.

use crate::{Lines, inputs};
use fewstep_core::{Error, GradientDescent, Noise, Rng};
use fewstep_theory::matfree::{
    self, BlockSum, DenseKernel, EvidenceSettings, FactorKernel, LinearOperator, Shifted,
    Stopping,
};

fn apply(operator: &impl LinearOperator, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![0.0; vector.len()];
    operator.apply(vector, &mut result);
    result
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let residuals = &inputs::residuals();
    let dense = DenseKernel::new(&inputs::kernel())?;
    let factor = FactorKernel::new(&inputs::features(1, inputs::EXAMPLES, 3))?;
    let parts: [&dyn LinearOperator; 2] = [&dense, &factor];
    let sum = BlockSum::new(parts.to_vec())?;
    let noisy = Shifted::new(&sum, 0.375)?;
    lines.add("matfree.DenseKernel.apply", apply(&dense, residuals));
    lines.add("matfree.FactorKernel.apply", apply(&factor, residuals));
    lines.add("matfree.BlockSum.apply", apply(&sum, residuals));
    lines.add("matfree.Shifted.apply", apply(&noisy, residuals));
    lines.add("matfree.LinearOperator.size", [dense.size() as f64, noisy.size() as f64]);

    let stopping = Stopping::default();
    let iterations = stopping.iterations as f64;
    lines.add("matfree.Stopping.default", [stopping.tolerance, iterations]);
    let solution = matfree::conjugate_gradients(&noisy, residuals, stopping)?;
    let effort = [solution.iterations as f64, solution.residual];
    lines.add("matfree.conjugate_gradients.vector", solution.vector);
    lines.add("matfree.conjugate_gradients.effort", effort);

    let rng = &mut Rng::new(3);
    for (index, pair) in matfree::lanczos_top(&sum, 2, stopping, rng)?.iter().enumerate() {
        lines.add(&format!("matfree.lanczos_top.{index}"), [pair.value, pair.bound]);
        lines.add(&format!("matfree.lanczos_top.vector.{index}"), pair.vector.clone());
    }
    let largest = matfree::largest_eigenvalue(&sum, 3, 1e-6, rng)?;
    let step = largest.step(0.25)?;
    lines.add(
        "matfree.largest_eigenvalue",
        [largest.value, largest.bound, largest.upper(), step.get()],
    );
    let trace = matfree::hutchinson_trace(&noisy, 6, rng)?;
    lines.add("matfree.hutchinson_trace", [trace.mean, trace.standard_error]);
    let scores = matfree::block_scores(&parts, 0.375, 5, stopping, rng)?;
    let scores = scores.iter().flat_map(|score| [score.mean, score.standard_error]);
    lines.add("matfree.block_scores", scores);
    let couplings = inputs::features(4, 2, inputs::EXAMPLES);
    lines.add(
        "matfree.query_scores",
        matfree::query_scores(&parts, &couplings, 0.375, stopping)?,
    );
    let descent = GradientDescent { step, horizon: 5 };
    lines.add(
        "matfree.query_correction",
        [matfree::query_correction(&sum, &couplings[0], residuals, descent)?],
    );
    for (name, noise) in [
        ("profiled", Noise::Profiled),
        ("plug-in", Noise::PlugIn),
        ("fixed", Noise::Fixed(0.5)),
    ] {
        let horizons = &[0, 1, 4, 9];
        let settings =
            EvidenceSettings { step, largest, horizons, noise, probes: 4, lanczos_steps: 3 };
        let found = matfree::estimate_evidence(&sum, residuals, &settings, rng)?;
        let mut add = |what: &str, values: Vec<f64>| {
            lines.add(&format!("matfree.estimate_evidence.{what}.{name}"), values);
        };
        let pairs = found.values.iter().flat_map(|value| [value.mean, value.standard_error]);
        add("values", pairs.collect());
        add("log_trace", vec![found.log_trace.mean, found.log_trace.standard_error]);
        add("quadratic_forms", found.quadratic_forms);
        add("quadrature_errors", found.quadrature_errors);
    }
    Ok(())
}
