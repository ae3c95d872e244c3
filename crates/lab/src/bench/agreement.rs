//! Whether both sides found the same: a comparison of speed is one of equal work.

use super::cases::Case;
use super::own::Found;
use super::torch::Numbers;
use super::works::{Action, Variant, Work};
use crate::error::Error;
use fewstep_core::{Block, Geometry, Matrix, Policy, decide};
use serde::Serialize;

/// How far two sides in single precision may be apart.
const ALLOWED: f64 = 1e-3;

/// By how much numbers differ, relative to their norm; each within what single precision allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Agreement {
    /// Predictions before any step, or of further queries.
    pub(crate) predictions: f64,
    /// The block whose kernel differs most.
    pub(crate) kernels: Option<f64>,
    /// The query's prediction after the steps.
    pub(crate) adapted: Option<f64>,
    /// The same against how far the steps moved it.
    pub(crate) adapted_of_change: Option<f64>,
    /// The horizon that is decided on, from either side's kernels.
    pub(crate) horizon: Option<u32>,
}

/// What both sides worked on, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared<'a> {
    pub(super) work: Work,
    pub(super) variant: Variant,
    pub(super) case: &'a Case,
    pub(super) action: Action,
}

/// Compares what the engine found with a worker's numbers.
///
/// # Errors
///
/// [`Error::Disagree`] if a quantity differs by more than single precision explains.
pub(super) fn compare(
    compared: Compared<'_>,
    own: &Found,
    other: &Numbers,
) -> Result<Agreement, Error> {
    let Compared { work, variant, case, action } = compared;
    let check = |quantity: &'static str, found: f64| {
        if found <= ALLOWED {
            return Ok(found);
        }
        let (work, variant, allowed) = (work.to_string(), variant.name(), ALLOWED);
        Err(Error::Disagree { work, variant, quantity, found, allowed })
    };
    let (Some(seen), Some(decision)) = (&own.observation, &own.decision) else {
        let predictions = check("predictions", distance(&own.further, &other.predictions))?;
        return Ok(Agreement { predictions, ..Agreement::default() });
    };
    let mut predictions = seen.predictions.clone();
    predictions.push(seen.query_prediction);
    let mut agreement = Agreement {
        predictions: check("predictions", distance(&predictions, &other.predictions))?,
        ..Agreement::default()
    };
    let geometry = geometry_of(case, &seen.geometry, other)?;
    let Some(geometry) = geometry else {
        return Err(check("kernels", f64::INFINITY).expect_err("it is too far"));
    };
    let pairs = seen.geometry.blocks().iter().zip(geometry.blocks());
    let kernels = pairs.map(|(own, other)| distance(&whole(own), &whole(other)));
    agreement.kernels = Some(check("kernels", kernels.fold(0.0, f64::max))?);
    let horizon = decide(&geometry, &Policy::paper())?.how_far.horizon;
    let apart = horizon.abs_diff(decision.how_far.horizon);
    check("horizons", f64::from(apart))?;
    agreement.horizon = Some(horizon);
    if let (Action::Steps, Some(adapted), [found]) = (action, own.adapted, &other.adapted[..]) {
        let change = (adapted - seen.query_prediction).abs();
        agreement.adapted = Some(check("adapted prediction", distance(&[adapted], &[*found]))?);
        agreement.adapted_of_change = Some((adapted - found).abs() / change);
    }
    Ok(agreement)
}

/// The geometry that a worker's numbers make, or `None` if they are not as many.
fn geometry_of(
    case: &Case,
    own: &Geometry,
    other: &Numbers,
) -> Result<Option<Geometry>, Error> {
    let n = own.examples();
    let size = (n + 1) * (n + 1);
    if other.kernels.len() != size * own.blocks().len() {
        return Ok(None);
    }
    let mut blocks = Vec::new();
    for (block, numbers) in own.blocks().iter().zip(other.kernels.chunks_exact(size)) {
        let rows: Vec<&[f64]> = numbers.chunks_exact(n + 1).collect();
        // Rounding in the worker's products leaves the halves a little different.
        let inner = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let inner = inner.map(|(i, j)| (rows[i][j] + rows[j][i]) / 2.0).collect();
        let block = Block::new(block.name(), Matrix::new(n, n, inner)?)?;
        blocks.push(block.with_query(rows[n][..n].to_vec(), rows[n][n])?);
    }
    let residuals = case.targets().iter().zip(&other.predictions).map(|(y, s)| y - s);
    Ok(Some(Geometry::new(residuals.collect(), blocks)?))
}

/// Kernel, coupling and query variance in one list.
fn whole(block: &Block) -> Vec<f64> {
    let query = block.query().map(|query| (&query.coupling[..], query.variance));
    let (coupling, variance) = query.unwrap_or((&[], 0.0));
    block.kernel().values().iter().chain(coupling).copied().chain([variance]).collect()
}

/// `‖a − b‖ / ‖a‖`, endless if they are not as many.
pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    let norm =
        |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    if a.len() == b.len() && difference.is_finite() {
        difference / norm(&mut a.iter().copied()).max(f64::MIN_POSITIVE)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::{Shelf, open};
    use super::super::own::Job;
    use super::*;

    #[test]
    fn what_differs_is_named_with_how_far() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::Steps;
        let shape = work.shape(true);
        let shelf = Shelf::new(folder.path(), folder.path(), true);
        let network = open(&shelf.directory(shape.model).unwrap().unwrap()).unwrap();
        let case = Case::new(&shape, 2, &network).unwrap();
        let found = Job::new(&network, &case, shape.action).unwrap().run().unwrap();
        let (seen, n) = (found.observation.as_ref().unwrap(), shape.examples);
        let mut kernels = Vec::new();
        for block in seen.geometry.blocks() {
            let query = block.query().unwrap();
            for row in 0..n {
                kernels.extend(block.kernel().row(row));
                kernels.push(query.coupling[row]);
            }
            kernels.extend(query.coupling.iter().chain([&query.variance]));
        }
        let mut predictions = seen.predictions.clone();
        predictions.push(seen.query_prediction);
        let same = Numbers { predictions, kernels, adapted: vec![found.adapted.unwrap()] };
        let (variant, action) = (Variant::Expert, shape.action);
        let judge = |numbers: &Numbers| {
            compare(Compared { work, variant, case: &case, action }, &found, numbers)
        };
        let agreement = judge(&same).unwrap();
        assert_eq!(agreement.kernels.map(f64::to_bits), Some(0.0_f64.to_bits()));
        assert_eq!(agreement.horizon, Some(found.decision.as_ref().unwrap().how_far.horizon));
        let refused = |change: &dyn Fn(&mut Numbers)| {
            let mut numbers = same.clone();
            change(&mut numbers);
            match judge(&numbers) {
                Err(Error::Disagree { work, variant: "expert", quantity, found, allowed }) => {
                    assert!(work == "steps" && found > allowed);
                    quantity
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&|numbers| numbers.predictions[0] *= 1.01), "predictions");
        let size = (n + 1) * (n + 1);
        let last = |numbers: &mut Numbers| {
            let first = numbers.kernels.len() - size;
            numbers.kernels[first..].iter_mut().for_each(|value| *value *= 1.002);
        };
        assert_eq!(refused(&last), "kernels");
        assert_eq!(refused(&|numbers| numbers.kernels.truncate(size)), "kernels");
        assert_eq!(refused(&|numbers| numbers.adapted[0] *= 1.01), "adapted prediction");
    }

    #[test]
    fn distances_are_relative_and_lists_must_be_as_long() {
        assert!((distance(&[3.0, 4.0], &[3.0, 4.5]) - 0.1).abs() < 1e-15);
        assert!(distance(&[1.0], &[]).is_infinite());
        assert!(distance(&[1.0], &[f64::NAN]).is_infinite());
        assert!(distance(&[], &[]).abs() < f64::MIN_POSITIVE);
    }
}
