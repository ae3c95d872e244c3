//! The module `subspace`: which blocks of weights to update.

use crate::arrays::{array, numbers};
use crate::errors::OrRaise;
use crate::evidence::horizons;
use crate::geometry::Geometry;
use crate::leave_one_out::averaging;
use crate::rng::{Rng, room};
use fewstep_core::subspace;
use numpy::PyArray1;
use pyo3::prelude::*;

/// How much the prompt tells about each block's weights, whatever the query.
///
///     tr ℐ_bb = tr(K^(b) (K_full + σ²I)⁻¹)                         (Sec. 8.2, Trace-TopK of App. I)
///
/// K_full is the sum over the candidate blocks. The noise variance is relative to the variance of
/// the weights' corrections.
#[pyfunction]
fn trace_scores<'py>(
    py: Python<'py>,
    geometry: &Geometry,
    noise_variance: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let geometry = &geometry.0;
    let scores = py.detach(|| subspace::trace_scores(geometry, noise_variance));
    Ok(array(py, &scores.or_raise(py)?))
}

/// How much of each block's own contribution to the query the prompt determines.
///
///     j_x^(b)ᵀ ℐ_bb j_x^(b) = k_x^(b)ᵀ (K_full + σ²I)⁻¹ k_x^(b)           (Sec. 8.2, Query-Aware)
#[pyfunction]
fn query_scores<'py>(
    py: Python<'py>,
    geometry: &Geometry,
    noise_variance: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let geometry = &geometry.0;
    let scores = py.detach(|| subspace::query_scores(geometry, noise_variance));
    Ok(array(py, &scores.or_raise(py)?))
}

/// Scores per weight: each divided by the number of weights in its block (Sec. 8.2).
#[pyfunction]
fn per_weight<'py>(
    scores: &Bound<'py, PyAny>,
    geometry: &Geometry,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = scores.py();
    let scores = numbers(scores, "scores")?;
    Ok(array(py, &subspace::per_weight(&scores, &geometry.0).or_raise(py)?))
}

/// The positions of the highest scores, best first; of equal ones the first (App. I).
#[pyfunction]
fn top(scores: &Bound<'_, PyAny>, budget: usize) -> PyResult<Vec<usize>> {
    subspace::top(&numbers(scores, "scores")?, budget).or_raise(scores.py())
}

/// The positions of the lowest scores, lowest first; of equal ones the first (App. I).
///
/// A negative control: a rule whose bottom does as well as its top has chosen nothing.
#[pyfunction]
fn bottom(scores: &Bound<'_, PyAny>, budget: usize) -> PyResult<Vec<usize>> {
    subspace::bottom(&numbers(scores, "scores")?, budget).or_raise(scores.py())
}

/// Blocks drawn uniformly, without replacement: the baseline of App. I.
#[pyfunction]
fn random(
    py: Python<'_>,
    blocks: usize,
    budget: usize,
    mut rng: PyRefMut<'_, Rng>,
) -> PyResult<Vec<usize>> {
    room(py, "number of blocks", blocks)?;
    subspace::random(blocks, budget, &mut rng.0).or_raise(py)
}

crate::record! {
    /// Blocks in the order in which the greedy rule took them.
    GreedyChoice from choice: subspace::GreedyChoice {
        /// The blocks' positions.
        blocks: Vec<usize> = choice.blocks.clone(),
        /// The predicted correction at the query once each block was in.
        corrections: Py<PyAny> = choice.corrections.as_slice(),
    }
}

crate::record! {
    /// The last layers that predict held-out examples best, and how every number of layers did.
    DepthChoice from choice: subspace::DepthChoice {
        /// The blocks' positions, in their own order.
        blocks: Vec<usize> = choice.blocks.clone(),
        /// Numbers of layers that were tried: 1, 2, 4, … and all.
        layers: Vec<usize> = choice.layers.clone(),
        /// The smallest leave-one-out risk over the horizons with each.
        risks: Py<PyAny> = choice.risks.as_slice(),
    }
}

/// Adds blocks one by one, each time the one with which the prediction at the query moves most.
///
///     b = argmax h²,   h = (k_cur + k^(b))ᵀ q_T(K_cur + K^(b)) r,   ρ = c/λ_max(K_cur + K^(b))
///                                                                       (App. I, Query-Aware)
///
/// Of equal candidates the first is taken. Not the rule of `query_scores`, which has the same
/// name in the paper.
#[pyfunction]
fn greedy_correction(
    py: Python<'_>,
    geometry: &Geometry,
    budget: usize,
    step_scale: f64,
    horizon: u32,
) -> PyResult<GreedyChoice> {
    let geometry = &geometry.0;
    let choice =
        py.detach(|| subspace::greedy_correction(geometry, budget, step_scale, horizon));
    GreedyChoice::of(py, &choice.or_raise(py)?)
}

/// The blocks of the last layers whose update predicts held-out examples best.
///
///     d = argmin_d min_T risk(T; Σ_{b in the last d layers} K^(b)),   d = 1, 2, 4, …, all
///
/// `step_scale` is the step size as a fraction of the largest stable one, `horizons` are candidate
/// numbers of steps, ascending, and `averaging` says how leave-one-out errors are averaged: "plain",
/// "trimmed", "median", "by-label" or "query-weighted". Blocks without a layer are always in: if none
/// has one there is one set, of 0 layers. Of equal numbers of layers the largest is taken. Beyond the
/// paper.
#[pyfunction]
#[pyo3(signature = (geometry, *, step_scale, horizons, averaging))]
fn last_layers(
    geometry: &Geometry,
    step_scale: f64,
    horizons: &Bound<'_, PyAny>,
    averaging: &str,
) -> PyResult<DepthChoice> {
    let py = horizons.py();
    let horizons = self::horizons(horizons, "horizons")?;
    let averaging = self::averaging(py, averaging)?;
    let geometry = &geometry.0;
    let choice = py.detach(|| {
        let settings = subspace::DepthSettings { step_scale, horizons: &horizons, averaging };
        subspace::last_layers(geometry, &settings)
    });
    DepthChoice::of(py, &choice.or_raise(py)?)
}

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "subspace")?;
    module.add_class::<GreedyChoice>()?;
    module.add_class::<DepthChoice>()?;
    module.add_function(wrap_pyfunction!(trace_scores, &module)?)?;
    module.add_function(wrap_pyfunction!(query_scores, &module)?)?;
    module.add_function(wrap_pyfunction!(per_weight, &module)?)?;
    module.add_function(wrap_pyfunction!(top, &module)?)?;
    module.add_function(wrap_pyfunction!(bottom, &module)?)?;
    module.add_function(wrap_pyfunction!(random, &module)?)?;
    module.add_function(wrap_pyfunction!(greedy_correction, &module)?)?;
    module.add_function(wrap_pyfunction!(last_layers, &module)?)
}
