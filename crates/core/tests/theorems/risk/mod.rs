//! When adapting helps: Secs. 2, 5 and 6, App. E.3, E.4, F.2, and their recall in App. G.
//!
//! Here: the literal definitions that the files of this folder share.

mod bad_input;
mod decomposition;
mod floor;
mod prior_shift;
mod projection;
mod prompt;
mod query;
mod shrinkage;

use crate::support::{
    Prompt, Rows, dot, inverse, norm, normals, product, shifted, trace, transpose,
};
use fewstep_core::Rng;

fn identity(n: usize) -> Rows {
    shifted(&vec![vec![0.0; n]; n], 0.0, 1.0)
}

/// `a + weight · b`.
fn plus(a: &[Vec<f64>], weight: f64, b: &[Vec<f64>]) -> Rows {
    let row =
        |(x, y): (&Vec<f64>, &Vec<f64>)| x.iter().zip(y).map(|(x, y)| x + weight * y).collect();
    a.iter().zip(b).map(row).collect()
}

/// `a b aᵀ`.
fn sandwich(a: &[Vec<f64>], b: &[Vec<f64>]) -> Rows {
    product(&product(a, b), &transpose(a))
}

/// `G_T`, by `T` times `G ← G + ρK(I − G)`: the fit that the steps make of each unit residual.
fn steps_on_prompt(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut fit = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        fit = plus(&fit, rho, &product(kernel, &plus(&unit, -1.0, &fit)));
    }
    fit
}

/// `q_T(K)`, by `T` times `Q ← Q + ρ(I − KQ)`.
fn steps_to_query(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut gains = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        gains = plus(&gains, rho, &plus(&unit, -1.0, &product(kernel, &gains)));
    }
    gains
}

/// `(K + λ★I)⁻¹`, by elimination.
fn bayes_to_query(kernel: &[Vec<f64>], noise_to_signal: f64) -> Rows {
    inverse(&shifted(kernel, 1.0, noise_to_signal))
}

/// An orthonormal basis of the span of some vectors (Gram and Schmidt, twice), as rows.
fn basis(vectors: &[Vec<f64>]) -> Rows {
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
fn random_basis(rng: &mut Rng, rank: usize, n: usize) -> Rows {
    basis(&(0..rank).map(|_| normals(rng, n)).collect::<Rows>())
}

/// `Σ_i value_i u_i u_iᵀ`.
fn compose(modes: &[Vec<f64>], values: &[f64]) -> Rows {
    let scaled: Rows =
        modes.iter().zip(values).map(|(u, v)| u.iter().map(|x| x * v).collect()).collect();
    product(&transpose(&scaled), modes)
}

/// The projection onto the span of orthonormal vectors.
fn projected(modes: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    modes.iter().fold(vec![0.0; vector.len()], |sum, u| {
        let amount = dot(u, vector);
        sum.iter().zip(u).map(|(s, x)| s + amount * x).collect()
    })
}

/// Signal variance 0.7, and noise as strong as `ratio` of a typical eigenvalue's signal.
fn noise_level(prompt: &Prompt, ratio: f64) -> (f64, f64) {
    let typical = trace(&prompt.kernel()) / prompt.n() as f64;
    (0.7, 0.7 * ratio * if typical > 0.0 { typical } else { 1.0 })
}

/// Gauss and Legendre's rule with 20 points on every one of `panels` equal parts.
fn nodes(from: f64, to: f64, panels: u32) -> Vec<(f64, f64)> {
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
fn assert_within(found: f64, expected: f64, standard_error: f64) {
    let distance = (found - expected).abs() / standard_error;
    assert!(distance < 4.0, "{found} against {expected}: {distance} standard errors");
}

/// An orthonormal basis of `S = range(K) = range(Φ)`.
fn range(p: &Prompt) -> Rows {
    basis(&transpose(&p.features))
}
