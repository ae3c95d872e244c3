//! A matrix as the product of two narrow ones; the only file here that knows the linear-algebra
//! library.

use super::LowRank;
use crate::error::Error;
use crate::ops::{View, ViewMut, Write, product};
use faer::Mat;
use std::ops::Range;

/// Writes a change `[inputs, outputs]` as a product of its rank.
///
/// ```text
/// θ = U diag(s) Vᵀ,   first = U √s,   second = √s Vᵀ
/// ```
///
/// Directions whose singular value is rounding beside the largest (`s ≤ ε s₁` in single
/// precision) are cut; a change that is zero has none. The product is checked.
pub(super) fn factorise(
    change: &[f32],
    inputs: Range<usize>,
    outputs: Range<usize>,
) -> Result<LowRank, Error> {
    // change [rows, columns], row by row
    let (rows, columns) = (inputs.len(), outputs.len());
    let largest = change.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if largest.abs() == 0.0 {
        let (first, second) = (Vec::new(), Vec::new());
        return Ok(LowRank { inputs, outputs, rank: 0, first, second });
    }
    // Scaled to entries of at most 1, so that changes of any magnitude are treated alike.
    let scale = f64::from(largest);
    let scaled = |row, column| f64::from(change[row * columns + column]) / scale;
    let decomposition = Mat::from_fn(rows, columns, scaled)
        .thin_svd()
        .map_err(|_| failed(f64::INFINITY, 0.0))?;
    let (left, values, right) = (decomposition.U(), decomposition.S(), decomposition.V());
    let count = rows.min(columns);
    let cut = f64::from(f32::EPSILON) * values[0];
    let rank = (0..count).take_while(|&direction| values[direction] > cut).count();
    let root = |direction: usize| (values[direction] * scale).sqrt();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for row in 0..rows {
        first.extend((0..rank).map(|k| narrow(left[(row, k)] * root(k))));
    }
    for k in 0..rank {
        second.extend((0..columns).map(|column| narrow(right[(column, k)] * root(k))));
    }
    let part = LowRank { inputs, outputs, rank, first, second };
    let allowed = 4.0 * count as f64 * cut * scale;
    check(&part, change, allowed)?;
    Ok(part)
}

/// `Err` unless the product is the change, up to a distance.
fn check(part: &LowRank, change: &[f32], allowed: f64) -> Result<(), Error> {
    let (rows, columns) = (part.inputs.len(), part.outputs.len());
    let mut found = vec![0.0; change.len()];
    let target = ViewMut::new(&mut found, rows, columns);
    let first = View::new(&part.first, rows, part.rank);
    product(Write::Over, target, first, View::new(&part.second, part.rank, columns), 1.0);
    let gaps = found.iter().zip(change).map(|(a, b)| f64::from(a - b).powi(2));
    let residual = gaps.sum::<f64>().sqrt();
    if residual <= allowed { Ok(()) } else { Err(failed(residual, allowed)) }
}

fn failed(residual: f64, allowed: f64) -> Error {
    Error::NotFactorised { residual, allowed }
}

#[allow(clippy::cast_possible_truncation, reason = "factors are stored in single precision")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_core::Rng;

    fn normal(rng: &mut Rng, size: usize) -> Vec<f64> {
        (0..size).map(|_| rng.normal()).collect()
    }

    /// `left [rows, rank] · right [rank, columns]` by its definition.
    fn multiply(left: &[f64], right: &[f64], rank: usize) -> Vec<f64> {
        let (rows, columns) = (left.len() / rank, right.len() / rank);
        let entry = |row: usize, column: usize| -> f64 {
            (0..rank).map(|k| left[row * rank + k] * right[k * columns + column]).sum()
        };
        (0..rows).flat_map(|row| (0..columns).map(move |column| entry(row, column))).collect()
    }

    fn norm(values: impl Iterator<Item = f64>) -> f64 {
        values.map(|value| value * value).sum::<f64>().sqrt()
    }

    #[test]
    fn the_rank_is_found_and_the_product_is_the_change() {
        for (seed, (rows, columns, rank)) in
            [(1, 1, 1), (5, 3, 2), (3, 5, 3), (24, 8, 8), (40, 64, 7), (64, 40, 1)]
                .into_iter()
                .enumerate()
        {
            for magnitude in [1.0, 1e-25, 1e25] {
                let mut rng = Rng::new(seed as u64);
                let (left, right) =
                    (normal(&mut rng, rows * rank), normal(&mut rng, rank * columns));
                let exact = multiply(&left, &right, rank);
                let change: Vec<f32> =
                    exact.iter().map(|value| narrow(value * magnitude)).collect();
                let part = factorise(&change, 0..rows, 4..4 + columns).unwrap();
                assert_eq!(part.rank, rank, "{rows} by {columns}");
                assert_eq!((&part.inputs, &part.outputs), (&(0..rows), &(4..4 + columns)));
                let [first, second] = [&part.first, &part.second]
                    .map(|factor| factor.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
                let found = multiply(&first, &second, rank);
                let wide = || change.iter().map(|&value| f64::from(value));
                let gap = norm(found.iter().zip(wide()).map(|(a, b)| a - b));
                let scale = norm(wide());
                assert!(gap <= 1e-6 * scale, "off by {gap:e} of {scale:e}");
            }
        }
    }

    #[test]
    fn no_change_has_no_direction() {
        let part = factorise(&[0.0, -0.0], 0..1, 0..2).unwrap();
        assert_eq!((part.rank, part.first.len(), part.second.len()), (0, 0, 0));
    }

    /// What the check of the product guards: a factor that is off by more than rounding.
    #[test]
    fn a_product_that_is_another_is_refused() {
        let change = [1.0, 2.0, 3.0, 4.0];
        let mut part = factorise(&change, 0..2, 0..2).unwrap();
        part.first[0] *= 1.001;
        let Err(Error::NotFactorised { residual, allowed }) = check(&part, &change, 1e-5)
        else {
            panic!("the product is off by a thousandth");
        };
        assert!(residual > allowed && residual < 1e-2, "{residual}");
    }
}
