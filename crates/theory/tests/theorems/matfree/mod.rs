//! App. H: what large prompts get from products alone, against dense or dual literal routes.
//!
//! Here: the random kernels and the literal routes that the files of this folder share.

mod bad_input;
mod conjugate_gradients;
mod estimate;
mod evidence;
mod lanczos;
mod large;
mod products;

use crate::support::{dot, normals};
use fewstep_core::Rng;
use fewstep_theory::matfree::{DenseKernel, Stopping};

const TIGHT: Stopping = Stopping { tolerance: 1e-13, iterations: 1000 };

fn dense(rows: &[Vec<f64>]) -> DenseKernel {
    DenseKernel::new(&rows.to_vec()).unwrap()
}

fn random(rng: &mut Rng, rows: usize, columns: usize) -> Vec<Vec<f64>> {
    (0..rows).map(|_| normals(rng, columns)).collect()
}

fn gram(features: &[Vec<f64>]) -> Vec<Vec<f64>> {
    features.iter().map(|a| features.iter().map(|b| dot(a, b)).collect()).collect()
}

fn frobenius(a: &[Vec<f64>]) -> f64 {
    a.iter().flatten().map(|x| x * x).sum::<f64>().sqrt()
}

/// The standard deviation of `zᵀAz` over random signs, from the entries of `A`.
fn sign_deviation(a: &[Vec<f64>]) -> f64 {
    let pairs = (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    // zᵀAz = tr A + Σ_{j<i} (A_ij + A_ji) z_i z_j, and the products of signs are uncorrelated.
    pairs.map(|(i, j)| (a[i][j] + a[j][i]).powi(2)).sum::<f64>().sqrt()
}

/// Eigenvalues by Jacobi's rotations, largest first.
fn jacobi(a: &[Vec<f64>]) -> Vec<f64> {
    let n = a.len();
    let mut a = a.to_vec();
    let negligible = f64::EPSILON * frobenius(&a) / n as f64;
    let mut rotated = true;
    while rotated {
        rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q].abs() <= negligible {
                    continue;
                }
                rotated = true;
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[p][p] - a[q][q]);
                let (s, c) = angle.sin_cos();
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] + s * row[q], c * row[q] - s * row[p]);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x + s * *y, c * *y - s * *x);
                }
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}
