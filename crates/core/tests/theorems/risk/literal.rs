//! The literal definitions that the tests of risks share.

use crate::support::{
    Prompt, Rows, assert_close, dot, inverse, norm, normals, product, shifted, trace, transpose,
};
use fewstep_core::risk::{Benchmark, prompt_gap, prompt_risk};
use fewstep_core::{Filter, Rng, Spectrum};

pub(crate) fn identity(n: usize) -> Rows {
    shifted(&vec![vec![0.0; n]; n], 0.0, 1.0)
}

/// `a + weight · b`.
pub(crate) fn plus(a: &[Vec<f64>], weight: f64, b: &[Vec<f64>]) -> Rows {
    let row =
        |(x, y): (&Vec<f64>, &Vec<f64>)| x.iter().zip(y).map(|(x, y)| x + weight * y).collect();
    a.iter().zip(b).map(row).collect()
}

/// `a b aᵀ`.
pub(crate) fn sandwich(a: &[Vec<f64>], b: &[Vec<f64>]) -> Rows {
    product(&product(a, b), &transpose(a))
}

/// `G_T`, by `T` times `G ← G + ρK(I − G)`: the fit that the steps make of each unit residual.
pub(crate) fn steps_on_prompt(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut fit = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        fit = plus(&fit, rho, &product(kernel, &plus(&unit, -1.0, &fit)));
    }
    fit
}

/// `q_T(K)`, by `T` times `Q ← Q + ρ(I − KQ)`.
pub(crate) fn steps_to_query(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut gains = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        gains = plus(&gains, rho, &plus(&unit, -1.0, &product(kernel, &gains)));
    }
    gains
}

/// `(K + λ★I)⁻¹`, by elimination.
pub(crate) fn bayes_to_query(kernel: &[Vec<f64>], noise_to_signal: f64) -> Rows {
    inverse(&shifted(kernel, 1.0, noise_to_signal))
}

/// An orthonormal basis of the span of some vectors (Gram and Schmidt, twice), as rows.
pub(crate) fn basis(vectors: &[Vec<f64>]) -> Rows {
    let mut found: Rows = Vec::new();
    for vector in vectors {
        let mut rest = vector.clone();
        for _ in 0..2 {
            for known in &found {
                let amount = dot(known, &rest);
                rest = rest.iter().zip(known).map(|(x, u)| x - amount * u).collect();
            }
        }
        if norm(&rest) > 1e-10 * norm(vector) {
            let length = norm(&rest);
            found.push(rest.iter().map(|x| x / length).collect());
        }
    }
    found
}

/// `rank` random orthonormal vectors of length `n`.
pub(crate) fn random_basis(rng: &mut Rng, rank: usize, n: usize) -> Rows {
    basis(&(0..rank).map(|_| normals(rng, n)).collect::<Rows>())
}

/// `Σ_i value_i u_i u_iᵀ`.
pub(crate) fn compose(modes: &[Vec<f64>], values: &[f64]) -> Rows {
    let scaled: Rows =
        modes.iter().zip(values).map(|(u, v)| u.iter().map(|x| x * v).collect()).collect();
    product(&transpose(&scaled), modes)
}

/// The projection onto the span of orthonormal vectors.
pub(crate) fn projected(modes: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    modes.iter().fold(vec![0.0; vector.len()], |sum, u| {
        let amount = dot(u, vector);
        sum.iter().zip(u).map(|(s, x)| s + amount * x).collect()
    })
}

/// Signal variance 0.7, and noise as strong as `ratio` of a typical eigenvalue's signal.
pub(crate) fn noise_level(prompt: &Prompt, ratio: f64) -> (f64, f64) {
    let typical = trace(&prompt.kernel()) / prompt.n() as f64;
    (0.7, 0.7 * ratio * if typical > 0.0 { typical } else { 1.0 })
}

/// Gauss and Legendre's rule with 20 points on every one of `panels` equal parts.
pub(crate) fn nodes(from: f64, to: f64, panels: u32) -> Vec<(f64, f64)> {
    let count = 20;
    let half = (to - from) / f64::from(2 * panels);
    let mut nodes = Vec::new();
    for i in 0..count {
        let mut x = (std::f64::consts::PI * (f64::from(i) + 0.75) / 20.5).cos();
        let mut slope = 0.0;
        for _ in 0..50 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=count {
                let k = f64::from(k);
                (before, value) =
                    (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = f64::from(count) * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        let weight = half * 2.0 / ((1.0 - x * x) * slope * slope);
        nodes.extend((0..panels).map(|p| (from + half * (f64::from(2 * p + 1) + x), weight)));
    }
    nodes
}

/// At most four theoretical standard errors apart.
#[track_caller]
pub(crate) fn assert_within(found: f64, expected: f64, standard_error: f64) {
    let distance = (found - expected).abs() / standard_error;
    assert!(distance < 4.0, "{found} against {expected}: {distance} standard errors");
}

/// An orthonormal basis of `S = range(K) = range(Φ)`.
pub(crate) fn range(p: &Prompt) -> Rows {
    basis(&transpose(&p.features))
}

/// `E‖Gr − f★‖²` and `E‖(G − G★)r‖²` from the covariances, for a fit given as a matrix.
pub(crate) fn literal_risk_and_gap(
    p: &Prompt,
    fit: &Rows,
    signal: f64,
    noise: f64,
) -> (f64, f64) {
    let kernel = p.kernel();
    let missed = plus(fit, -1.0, &identity(p.n()));
    let risk = signal * trace(&sandwich(&missed, &kernel))
        + noise * trace(&product(fit, &transpose(fit)));
    let best = product(&kernel, &bayes_to_query(&kernel, noise / signal));
    let apart = plus(fit, -1.0, &best);
    (risk, trace(&sandwich(&apart, &shifted(&kernel, signal, noise))))
}

/// Risk, gap and excess of one filter against the literal fit matrix.
pub(crate) fn check_prompt_side(p: &Prompt, filter: &dyn Filter, fit: &Rows, ratio: f64) {
    let (signal, noise) = noise_level(p, ratio);
    let (risk, gap) = literal_risk_and_gap(p, fit, signal, noise);
    let benchmark = Benchmark::new(signal, noise).unwrap();
    let spectrum = Spectrum::of(&p.kernel()).unwrap();
    let n = p.n();
    let scale = signal * trace(&p.kernel()) + n as f64 * noise;
    assert_close(prompt_risk(&spectrum, filter, &benchmark), risk, scale, n);
    assert_close(prompt_gap(&spectrum, filter, &benchmark), gap, scale, n);
    let best = product(&p.kernel(), &bayes_to_query(&p.kernel(), noise / signal));
    let least = literal_risk_and_gap(p, &best, signal, noise).0;
    assert_close(prompt_gap(&spectrum, filter, &benchmark), risk - least, scale, n);
    assert_close(prompt_risk(&spectrum, &benchmark, &benchmark), least, scale, n);
}

/// The Bayes filter, moved by a constant.
struct Nudged(Benchmark, f64);

impl Filter for Nudged {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.0.response(eigenvalue) + self.1
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.response(eigenvalue) / eigenvalue
    }
}

/// Any shrinkage but `g★` has a larger risk, by the weight times its distance squared.
pub(crate) fn check_unique_minimum(p: &Prompt) {
    let (signal, noise) = noise_level(p, 0.5);
    let benchmark = Benchmark::new(signal, noise).unwrap();
    let spectrum = Spectrum::of(&p.kernel()).unwrap();
    let least = prompt_risk(&spectrum, &benchmark, &benchmark);
    for nudge in [-0.1_f64, -1e-4, 1e-4, 0.1] {
        let found = prompt_risk(&spectrum, &Nudged(benchmark, nudge), &benchmark);
        assert!(found > least);
        let weights = signal * trace(&p.kernel()) + p.n() as f64 * noise;
        assert_close(found - least, weights * nudge.powi(2), weights, p.n());
    }
}
