//! Apps. F.2 and F.3: signals that are not Gaussian, and weights that are not updated alike.

use super::TheorySettings;
use super::findings::Findings;
use super::gap::STEP;
use super::plain::{Rows, World, dot, multiply, norm, normals, subtract};
use crate::error::Error;
use fewstep_core::{Block, Filter, GradientDescent, Matrix, Rng, Spectrum, StepSize};
use fewstep_theory::risk::{optimal_shrinkages, shrinkage_excess, shrinkage_risk};

pub(super) fn examine(settings: &TheorySettings, found: &mut Findings) -> Result<(), Error> {
    let mut rng = settings.rng(6);
    second_moments(settings, &mut rng, found)?;
    preconditioned(&mut rng, found)
}

/// Prop. F.7: risk by mode from second moments alone, with signals and noise of two values each.
fn second_moments(
    settings: &TheorySettings,
    rng: &mut Rng,
    found: &mut Findings,
) -> Result<(), Error> {
    let signals = [4.0, 1.0, 0.25, 0.0];
    let shrinkages = [0.9, 0.3, 0.6, 0.2];
    let noise = 0.5_f64;
    let best = optimal_shrinkages(&signals, noise)?;
    let (mut risks, mut excesses) = (Vec::new(), Vec::new());
    for _ in 0..settings.draws {
        let (mut risk, mut least) = (0.0, 0.0);
        for ((signal, shrinkage), best) in signals.iter().zip(shrinkages).zip(&best) {
            let truth = f64::sqrt(*signal) * rng.sign();
            let seen = truth + noise.sqrt() * rng.sign();
            risk += (shrinkage * seen - truth).powi(2);
            least += (best * seen - truth).powi(2);
        }
        risks.push(risk);
        excesses.push(risk - least);
    }
    let predicted = shrinkage_risk(&signals, &shrinkages, noise)?;
    found.mean(
        "Prop. F.7: risk of a shrinkage of signals and noise of two values",
        predicted,
        &risks,
    );
    let predicted = shrinkage_excess(&signals, &shrinkages, noise)?;
    found.mean("Prop. F.7: the same over the best shrinkage", predicted, &excesses);
    found.conclude(
        "Risk by mode follows from second moments alone (Prop. F.7)",
        "equal in expectation",
    );
    Ok(())
}

/// Thm. F.11: preconditioned steps in weights are the filter of `ΦΣΦᵀ`.
fn preconditioned(rng: &mut Rng, found: &mut Findings) -> Result<(), Error> {
    let mut pairs = Vec::new();
    for _ in 0..10 {
        let world = World::new(rng, 10, 16);
        let variances: Vec<f64> = (0..16).map(|_| 0.1 + 3.0 * rng.uniform()).collect();
        let residuals = normals(rng, 10);
        let diagonal = |i: usize, j: usize| if i == j { variances[i] } else { 0.0 };
        let prior: Rows = (0..16).map(|i| (0..16).map(|j| diagonal(i, j)).collect()).collect();
        let prior = Matrix::from_rows(&prior)?;
        let block = Block::from_prior("all", &world.features, &prior, Some(&world.query))?;
        let spectrum = Spectrum::of(block.kernel())?;
        let step = StepSize::fraction(STEP, &spectrum)?;
        let filter = GradientDescent { step, horizon: 20 };
        let theta = steps(&world.features, &variances, &residuals, step.get());
        let (fit, size) = (multiply(&world.features, &theta), norm(&residuals));
        let filtered = filter.prompt_fit(&spectrum, &residuals)?;
        pairs.extend(fit.into_iter().zip(filtered).map(|(a, b)| (a, b, size)));
        let coupling = &block.query().expect("the query was given").coupling;
        let corrected = filter.query_correction(&spectrum, coupling, &residuals)?;
        let scale = 20.0 * step.get() * norm(coupling) * size;
        pairs.push((dot(&world.query, &theta), corrected, scale));
    }
    found.identity("Thm. F.11: 20 preconditioned steps, and the filter of ΦΣΦᵀ", &pairs, 1e-9);
    found.conclude("Preconditioned steps filter under ΦΣΦᵀ (Thm. F.11)", "equal");
    Ok(())
}

/// `θ ← θ + ρΣΦᵀ(r − Φθ)`, twenty times.
fn steps(features: &Rows, variances: &[f64], residuals: &[f64], step: f64) -> Vec<f64> {
    let mut theta = vec![0.0; variances.len()];
    for _ in 0..20 {
        let left = subtract(residuals, &multiply(features, &theta));
        for (row, error) in features.iter().zip(&left) {
            for ((weight, feature), variance) in theta.iter_mut().zip(row).zip(variances) {
                *weight += step * variance * error * feature;
            }
        }
    }
    theta
}
