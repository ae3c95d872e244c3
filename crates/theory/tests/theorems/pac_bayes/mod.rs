//! Thm. 7.2 and Lem. E.11 to Thm. E.19: what choosing a horizon by evidence guarantees.
//!
//! The other route is literal: `Σ_T⁻¹ = (I − ρK)^T/σ²` by repeated products, determinants by
//! elimination, residuals drawn from a Cholesky root of `Σ★`, averages and traces by sums.
//! It stands here, for all files of this folder.

mod bad_input;
mod distributions;
mod gap;
mod horizon;
mod moments;
mod vanishing_gap;

use crate::support::{
    Rows, cholesky, dot, eliminate, inverse, matrix, multiply, normals, product, shifted,
    trace, transpose,
};
use fewstep_core::{Rng, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{Certificate, EvidenceFamily, PacBayes, Reference};

const HORIZONS: [u32; 6] = [0, 1, 2, 5, 11, 25];
const DRAWS: usize = 10_000;

/// What rounding may take from an inequality, relative to its sides: 10³ · n · ε for `n ≤ 16`.
const ROUNDING: f64 = 1.6e4 * f64::EPSILON;

/// Everything about a family and a reference, from definitions.
struct Literal {
    noise: f64,
    precisions: Vec<Rows>,
    log_determinants: Vec<f64>,
    reference: Rows,
    root: Rows,
}

impl Literal {
    fn new(kernel: &Rows, step: f64, noise: f64, horizons: &[u32], reference: Rows) -> Self {
        let n = kernel.len();
        let contraction = shifted(kernel, -step, 1.0);
        let rate = -eliminate(&contraction, &vec![0.0; n]).1;
        let identity = shifted(kernel, 0.0, 1.0);
        let power = |horizon: u32| {
            (0..horizon).fold(identity.clone(), |power, _| product(&power, &contraction))
        };
        Self {
            noise,
            precisions: horizons
                .iter()
                .map(|&horizon| shifted(&power(horizon), 1.0 / noise, 0.0))
                .collect(),
            log_determinants: horizons
                .iter()
                .map(|&horizon| n as f64 * noise.ln() + f64::from(horizon) * rate)
                .collect(),
            root: cholesky(&reference),
            reference,
        }
    }

    fn n(&self) -> usize {
        self.reference.len()
    }

    /// `ℓ_T(r)` for every candidate.
    fn evidence(&self, residuals: &[f64]) -> Vec<f64> {
        let pairs = self.precisions.iter().zip(&self.log_determinants);
        pairs
            .map(|(precision, log_determinant)| {
                let fit = dot(residuals, &multiply(precision, residuals));
                (log_determinant + fit) / (2.0 * self.n() as f64)
            })
            .collect()
    }

    /// `𝓛(T | K)` for every candidate.
    fn risks(&self) -> Vec<f64> {
        let pairs = self.precisions.iter().zip(&self.log_determinants);
        pairs
            .map(|(precision, log_determinant)| {
                (log_determinant + trace(&product(precision, &self.reference)))
                    / (2.0 * self.n() as f64)
            })
            .collect()
    }

    /// `LᵀΣ_T⁻¹L` with `LLᵀ = Σ★`: it has the eigenvalues of `A_T`.
    fn tilted(&self, position: usize) -> Rows {
        product(&transpose(&self.root), &product(&self.precisions[position], &self.root))
    }

    /// `v_T` for every candidate.
    fn variances(&self) -> Vec<f64> {
        let tilted = (0..self.precisions.len()).map(|position| self.tilted(position));
        tilted.map(|a| trace(&product(&a, &a)) / self.n() as f64).collect()
    }

    /// `v̄`.
    fn largest_variance(&self) -> f64 {
        self.variances().into_iter().fold(0.0, f64::max)
    }

    /// `ψ_T(β)` by determinants.
    fn log_moment(&self, position: usize, beta: f64) -> f64 {
        let a = self.tilted(position);
        let determinant = eliminate(&shifted(&a, beta, 1.0), &vec![0.0; self.n()]).1;
        (beta * trace(&a) - determinant) / 2.0
    }

    /// `KL(N(0, Σ★) ‖ N(0, Σ_T))`.
    fn relative_entropy(&self, position: usize) -> f64 {
        let n = self.n();
        let determinant = eliminate(&self.reference, &vec![0.0; n]).1;
        let fit = trace(&product(&self.precisions[position], &self.reference));
        (self.log_determinants[position] - determinant + fit - n as f64) / 2.0
    }

    /// `𝓛_true`.
    fn true_risk(&self) -> f64 {
        let n = self.n() as f64;
        (eliminate(&self.reference, &vec![0.0; self.n()]).1 + n) / (2.0 * n)
    }

    /// `E‖f̂_T − f_Bayes‖²/n` with `f̂_T = (I − σ²Σ_T⁻¹) r` and `f_Bayes = (Σ★ − σ²I) Σ★⁻¹ r`.
    fn gap(&self, position: usize) -> f64 {
        let steps = shifted(&self.precisions[position], -self.noise, 1.0);
        let signal = shifted(&self.reference, 1.0, -self.noise);
        let bayes = product(&signal, &inverse(&self.reference));
        let difference: Rows = steps
            .iter()
            .zip(&bayes)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x - y).collect())
            .collect();
        let spread = product(&product(&difference, &self.reference), &transpose(&difference));
        trace(&spread) / self.n() as f64
    }
}

/// A signal variance that makes signal and a noise of 0.5 comparable.
fn comparable_signal(kernel: &Rows) -> f64 {
    let level = trace(kernel) / kernel.len() as f64;
    if level == 0.0 { 1.0 } else { 0.6 / level }
}

/// A random prompt with `n` examples, its spectrum and a step of three tenths of the limit.
fn prompt(seed: u64, n: usize) -> (Rows, Spectrum, StepSize) {
    let mut rng = Rng::new(seed);
    let features: Rows = (0..n).map(|_| normals(&mut rng, n)).collect();
    let kernel: Rows =
        features.iter().map(|a| features.iter().map(|b| dot(a, b)).collect()).collect();
    let spectrum = Spectrum::of(&kernel).unwrap();
    let step = StepSize::fraction(0.3, &spectrum).unwrap();
    (kernel, spectrum, step)
}

/// A covariance over `noise` in every direction that shares no mode with the kernel.
fn unaligned(rng: &mut Rng, n: usize, noise: f64) -> Rows {
    let factors: Rows = (0..n).map(|_| normals(rng, 3)).collect();
    shifted(&product(&factors, &transpose(&factors)), 0.5, noise)
}

/// At most `δ` of the draws may violate a bound, within four standard errors.
#[track_caller]
fn assert_coverage(violations: usize, draws: usize, delta: f64) {
    let count = draws as f64;
    let rate = violations as f64 / count;
    let allowed = delta + 4.0 * (delta * (1.0 - delta) / count).sqrt();
    assert!(rate <= allowed, "{rate} of the draws violate the bound, {allowed} may");
}

/// More than `δ` of the draws violate it, by more than four standard errors.
#[track_caller]
fn assert_broken(violations: usize, draws: usize, delta: f64) {
    let count = draws as f64;
    let rate = violations as f64 / count;
    let allowed = delta + 4.0 * (delta * (1.0 - delta) / count).sqrt();
    assert!(rate > allowed, "only {rate} of the draws violate the wrong bound");
}

/// `π eˣ`, divided by its sum.
fn tilted_prior(prior: &[f64], exponents: &[f64]) -> Vec<f64> {
    let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = prior.iter().zip(exponents).map(|(p, x)| p * (x - top).exp()).collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|w| w / sum).collect()
}

/// The prior itself, every single candidate, tilts of all strengths and random weights.
fn many_distributions(rng: &mut Rng, prior: &[f64], scores: &[f64]) -> Rows {
    let single = |chosen: usize| {
        (0..prior.len()).map(|i| f64::from(u8::from(i == chosen))).collect::<Vec<f64>>()
    };
    let mut all: Rows = (0..prior.len()).map(single).collect();
    all.push(prior.to_vec());
    for strength in [0.03, 0.1, 0.3, 1.0, 3.0, 10.0] {
        let exponents: Vec<f64> = scores.iter().map(|x| strength * x).collect();
        all.push(tilted_prior(prior, &exponents));
    }
    all.push(prior.iter().map(|_| rng.uniform()).collect());
    all
}

/// Does any of many distributions break the certificate? `excesses` are `X_T/n = 𝓛 − ℓ`.
fn is_broken(certificate: &Certificate, worst: &[f64], others: &[Vec<f64>], x: &[f64]) -> bool {
    let margin = |weights: &[f64]| {
        let sum: f64 = weights.iter().sum();
        dot(weights, x) / sum - certificate.slack(weights).unwrap()
    };
    let worst = margin(worst);
    for other in others {
        assert!(margin(other) <= worst + ROUNDING * (1.0 + worst.abs()), "not the worst case");
    }
    worst > 0.0
}

/// Two references for a prompt with `n` examples and noise 0.5: aligned with the kernel and not.
fn references(kernel: &Rows, seed: u64) -> [(Option<f64>, Rows); 2] {
    let signal = comparable_signal(kernel);
    let other = unaligned(&mut Rng::new(seed), kernel.len(), 0.5);
    [(Some(signal), shifted(kernel, signal, 0.5)), (None, other)]
}

/// Measures [`HORIZONS`] against one of [`references`].
fn measure(
    spectrum: &Spectrum,
    step: StepSize,
    signal: Option<f64>,
    covariance: &Rows,
) -> PacBayes {
    let family = EvidenceFamily::new(spectrum, step, 0.5, &HORIZONS).unwrap();
    match signal {
        Some(signal_variance) => {
            let reference = Reference::Benchmark { signal_variance, noise_variance: 0.5 };
            PacBayes::new(&family, reference).unwrap()
        }
        None => PacBayes::new(&family, Reference::Covariance(&matrix(covariance))).unwrap(),
    }
}

/// Forty level modes and one candidate: `2X = 40 − χ²₄₀`, where bounds are nearly tight.
fn level() -> (Spectrum, StepSize) {
    let spectrum = Spectrum::of(&vec![vec![0.0; 40]; 40]).unwrap();
    let step = StepSize::fraction(0.3, &spectrum).unwrap();
    (spectrum, step)
}

/// `ℓ_0 − 𝓛(0)` in draws of the level case with unit noise.
fn level_deviations(seed: u64) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    let draw = |rng: &mut Rng| normals(rng, 40).iter().map(|z| z * z - 1.0).sum::<f64>() / 80.0;
    (0..DRAWS).map(|_| draw(&mut rng)).collect()
}
