//! The module `theory.matfree`: solves, spectra, evidence and scores from products alone.

mod operator;
mod records;

use crate::arrays::{array, numbers, type_name};
use crate::errors::named;
use crate::evidence::{horizons, noise};
use crate::filters::{AnyFilter, filter};
use crate::rng::{Rng, room};
use crate::spectrum::StepSize;
use crate::theory::risk::Estimate;
use fewstep_theory::matfree::{self, Stopping};
use numpy::PyArray1;
use operator::Given;
use pyo3::prelude::*;
use records::{Eigenpair, EvidenceEstimate, LargestEigenvalue, Solution};

/// Solves a linear system with a symmetric positive semidefinite operator.
///
///     x ≈ A⁻¹ b     with ‖b − Ax‖ ≤ tolerance · ‖b‖                                  (App. H)
///
/// A singular operator is fine as long as `right_side` lies in its range. What does not reach the
/// tolerance within the iterations is refused, with the true residual.
#[pyfunction]
#[pyo3(signature = (operator, right_side, *, tolerance=1e-8, iterations=1000))]
fn conjugate_gradients(
    operator: &Bound<'_, PyAny>,
    right_side: &Bound<'_, PyAny>,
    tolerance: f64,
    iterations: usize,
) -> PyResult<Solution> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    let right_side = numbers(right_side, "right-hand side")?;
    let stopping = Stopping { tolerance, iterations };
    let solution = operator.solve(py, |operators| {
        matfree::conjugate_gradients(&operators[0], &right_side, stopping)
    })?;
    Solution::of(py, &solution)
}

/// The largest eigenvalues of an operator with their vectors.
///
///     Kv = θv + residual,   ‖residual‖ ≤ bound,   |θ − λ| ≤ bound                    (App. H)
///
/// An eigenvalue that occurs several times is found as often as asked for.
#[pyfunction]
#[pyo3(signature = (operator, count, rng, *, tolerance=1e-8, iterations=1000))]
fn lanczos_top(
    operator: &Bound<'_, PyAny>,
    count: usize,
    mut rng: PyRefMut<'_, Rng>,
    tolerance: f64,
    iterations: usize,
) -> PyResult<Vec<Eigenpair>> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    let (rng, stopping) = (&mut rng.0, Stopping { tolerance, iterations });
    let pairs = operator
        .solve(py, |operators| matfree::lanczos_top(&operators[0], count, stopping, rng))?;
    pairs.iter().map(|pair| Eigenpair::of(py, pair)).collect()
}

/// The largest eigenvalue with an upper bound that a step size can rely on.
///
/// The bound holds except with the failure probability, whatever the spectrum is; more steps make
/// it tighter.
#[pyfunction]
fn largest_eigenvalue(
    operator: &Bound<'_, PyAny>,
    steps: usize,
    failure_probability: f64,
    mut rng: PyRefMut<'_, Rng>,
) -> PyResult<LargestEigenvalue> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    let rng = &mut rng.0;
    let largest = operator.solve(py, |operators| {
        matfree::largest_eigenvalue(&operators[0], steps, failure_probability, rng)
    })?;
    Ok(LargestEigenvalue(largest))
}

/// The trace of an operator, estimated from products with random signs.
///
///     tr A ≈ (1/R) Σ_r z_rᵀ A z_r,   z_r ∈ {±1}ⁿ;   variance 2 (‖A‖_F² − Σ_i A_ii²)/R  (App. H)
#[pyfunction]
fn hutchinson_trace(
    operator: &Bound<'_, PyAny>,
    probes: usize,
    mut rng: PyRefMut<'_, Rng>,
) -> PyResult<Estimate> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    room(py, "number of probes", probes)?;
    let rng = &mut rng.0;
    let trace = operator
        .solve(py, |operators| matfree::hutchinson_trace(&operators[0], probes, rng))?;
    Estimate::of(py, &trace)
}

/// What the prompt tells about each block's weights, estimated for all blocks at once.
///
///     s_b = tr(K^(b) (K_full + σ²I)⁻¹) ≈ (1/R) Σ_r z_rᵀ K^(b) u_r,
///     u_r = (K_full + σ²I)⁻¹ z_r,   K_full = Σ_b K^(b)                         (Sec. 8, App. H)
///
/// `blocks` is a list of operators. One solve per probe serves all blocks.
#[pyfunction]
#[pyo3(signature = (blocks, noise_variance, probes, rng, *, tolerance=1e-8, iterations=1000))]
#[expect(clippy::too_many_arguments, reason = "settings of Rust are keywords in Python")]
fn block_scores(
    blocks: &Bound<'_, PyAny>,
    noise_variance: f64,
    probes: usize,
    mut rng: PyRefMut<'_, Rng>,
    tolerance: f64,
    iterations: usize,
) -> PyResult<Vec<Estimate>> {
    let py = blocks.py();
    let blocks = Given::several(blocks)?;
    room(py, "number of probes", probes)?;
    let (rng, stopping) = (&mut rng.0, Stopping { tolerance, iterations });
    let scores = blocks.solve(py, |operators| {
        matfree::block_scores(operators, noise_variance, probes, stopping, rng)
    })?;
    scores.iter().map(|score| Estimate::of(py, score)).collect()
}

/// What the prompt tells about the query through each block: no chance involved.
///
///     k_bᵀ (K_full + σ²I)⁻¹ k_b                                                       (Sec. 8)
///
/// `blocks` is a list of operators, `couplings` a list of vectors or an array with one row per
/// block. One solve per block.
#[pyfunction]
#[pyo3(signature = (blocks, couplings, noise_variance, *, tolerance=1e-8, iterations=1000))]
fn query_scores<'py>(
    blocks: &Bound<'py, PyAny>,
    couplings: &Bound<'py, PyAny>,
    noise_variance: f64,
    tolerance: f64,
    iterations: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = blocks.py();
    let blocks = Given::several(blocks)?;
    let couplings = couplings
        .try_iter()?
        .map(|coupling| numbers(&coupling?, "coupling"))
        .collect::<PyResult<Vec<_>>>()?;
    let stopping = Stopping { tolerance, iterations };
    let scores = blocks.solve(py, |operators| {
        matfree::query_scores(operators, &couplings, noise_variance, stopping)
    })?;
    Ok(array(py, &scores))
}

/// The correction at the query after a number of gradient steps, taken one by one.
///
///     k_xᵀ q_T(K) r,   q_T(K) r = ρ Σ_{t<T} (I − ρK)^t r                            (Prop. E.1)
///
/// `descent` is a `GradientDescent`. Costs one product per step; with a `Spectrum`, the filter's
/// own `query_correction` gives the same number.
#[pyfunction]
fn query_correction(
    operator: &Bound<'_, PyAny>,
    coupling: &Bound<'_, PyAny>,
    residuals: &Bound<'_, PyAny>,
    descent: &Bound<'_, PyAny>,
) -> PyResult<f64> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    let (coupling, residuals) =
        (numbers(coupling, "coupling")?, numbers(residuals, "residuals")?);
    let AnyFilter::GradientDescent(steps) = filter(descent)? else {
        let found = type_name(descent);
        let message = format!("descent is {found}; a GradientDescent is needed");
        return Err(named(py, "WrongType", message));
    };
    operator.solve(py, |operators| {
        matfree::query_correction(&operators[0], &coupling, &residuals, steps)
    })
}

/// Negative log-evidence per prompt example for many horizons, from products alone.
///
///     ℓ_T(r) = (1/2n) { log det Σ_T + rᵀ Σ_T⁻¹ r },   Σ_T = σ² (I − ρK)^(−T)          (Sec. 7)
///     log det Σ_T = n log σ² − T tr log(I − ρK)       one trace for all T
///
/// `largest` comes from `largest_eigenvalue` of the same operator and `step` from its `step`;
/// `horizons` are the candidate numbers of steps. `noise` is "profiled" (a variance of its own
/// for each horizon), "plug-in" (that of the residuals) or a number. `probes` random vectors, at
/// least 2, serve the trace; `lanczos_steps` is the most products per start, fewer are taken when
/// they suffice.
#[pyfunction]
#[pyo3(signature = (operator, residuals, rng, *, step, largest, horizons, noise, probes, lanczos_steps))]
#[expect(clippy::too_many_arguments, reason = "settings of Rust are keywords in Python")]
fn estimate_evidence(
    operator: &Bound<'_, PyAny>,
    residuals: &Bound<'_, PyAny>,
    mut rng: PyRefMut<'_, Rng>,
    step: &StepSize,
    largest: &LargestEigenvalue,
    horizons: &Bound<'_, PyAny>,
    noise: &Bound<'_, PyAny>,
    probes: usize,
    lanczos_steps: usize,
) -> PyResult<EvidenceEstimate> {
    let py = operator.py();
    let operator = Given::one(operator)?;
    let residuals = numbers(residuals, "residuals")?;
    let (horizons, noise) = (self::horizons(horizons, "horizons")?, self::noise(noise)?);
    room(py, "number of probes", probes)?;
    let (step, largest, rng) = (step.0, largest.0, &mut rng.0);
    let evidence = operator.solve(py, |operators| {
        let horizons = horizons.as_slice();
        let settings =
            matfree::EvidenceSettings { step, largest, horizons, noise, probes, lanczos_steps };
        matfree::estimate_evidence(&operators[0], &residuals, &settings, rng)
    })?;
    EvidenceEstimate::of(py, &evidence)
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "matfree")?;
    module.add_class::<operator::Operator>()?;
    module.add_class::<operator::DenseKernel>()?;
    module.add_class::<operator::FactorKernel>()?;
    module.add_class::<operator::BlockSum>()?;
    module.add_class::<operator::Shifted>()?;
    module.add_function(wrap_pyfunction!(operator::operator, &module)?)?;
    module.add_class::<Solution>()?;
    module.add_class::<Eigenpair>()?;
    module.add_class::<LargestEigenvalue>()?;
    module.add_class::<EvidenceEstimate>()?;
    module.add_function(wrap_pyfunction!(conjugate_gradients, &module)?)?;
    module.add_function(wrap_pyfunction!(lanczos_top, &module)?)?;
    module.add_function(wrap_pyfunction!(largest_eigenvalue, &module)?)?;
    module.add_function(wrap_pyfunction!(hutchinson_trace, &module)?)?;
    module.add_function(wrap_pyfunction!(block_scores, &module)?)?;
    module.add_function(wrap_pyfunction!(query_scores, &module)?)?;
    module.add_function(wrap_pyfunction!(query_correction, &module)?)?;
    module.add_function(wrap_pyfunction!(estimate_evidence, &module)?)
}
