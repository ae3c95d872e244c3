//! The module `theory.drift`: may the linearised model still be trusted?

use crate::arrays::{matrix, numbers};
use crate::errors::OrRaise;
use crate::spectrum::{Spectrum, StepSize};
use fewstep_theory::drift;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How steep and how curved a model is near its pretrained weights, and how wrong it is there.
///
///     ‖J(θ)‖ ≤ B,   ‖J(θ) − J(θ')‖ ≤ L ‖θ − θ'‖,   ‖r − s(θ)‖ ≤ E   on a ball around 0
///                                                                                  (App. F.1)
///
/// `jacobian_bound` is B, `jacobian_lipschitz` L (0 for a linear model), `residual_scale` E.
#[pyclass(frozen, eq, module = "fewstep.theory.drift")]
#[derive(PartialEq)]
pub(crate) struct LocalConstants(drift::LocalConstants);

#[pymethods]
impl LocalConstants {
    #[new]
    fn new(
        py: Python<'_>,
        jacobian_bound: f64,
        jacobian_lipschitz: f64,
        residual_scale: f64,
    ) -> PyResult<Self> {
        let constants =
            drift::LocalConstants::new(jacobian_bound, jacobian_lipschitz, residual_scale);
        Ok(Self(constants.or_raise(py)?))
    }

    /// The largest singular value of the Jacobian.
    #[getter]
    fn jacobian_bound(&self) -> f64 {
        self.0.jacobian_bound()
    }

    /// How fast the Jacobian changes with the weights.
    #[getter]
    fn jacobian_lipschitz(&self) -> f64 {
        self.0.jacobian_lipschitz()
    }

    /// The length of the largest residual vector.
    #[getter]
    fn residual_scale(&self) -> f64 {
        self.0.residual_scale()
    }

    /// The largest step size for which the bounds hold, 1/B²; infinite if B is 0.
    #[getter]
    fn step_limit(&self) -> f64 {
        self.0.step_limit()
    }

    /// How far one move of the weights can take the outputs away from their tangent.
    ///
    ///     ‖s(θ + u) − s(θ) − J(θ)u‖ ≤ (L/2) ‖u‖²                                     (Lem. F.2)
    fn remainder_bound(&self, py: Python<'_>, move_length: f64) -> PyResult<f64> {
        self.0.remainder_bound(move_length).or_raise(py)
    }

    /// How far the outputs after real steps can be from those after linear steps.
    ///
    ///     ‖f_T − f_T^lin‖ ≤ (3/2) L B² ρ² T² E²                                      (Thm. F.5)
    ///
    /// `step` is a plain number, at most `step_limit`.
    fn deviation_bound(&self, py: Python<'_>, step: f64, horizon: u32) -> PyResult<f64> {
        self.0.deviation_bound(step, horizon).or_raise(py)
    }

    /// The sum that the proof of `deviation_bound` arrives at, at least a third smaller.
    ///
    ///     ‖f_T − f_T^lin‖ ≤ L B² ρ² E² {T(T − 1) + T/2}                              (Thm. F.5)
    fn deviation_sum(&self, py: Python<'_>, step: f64, horizon: u32) -> PyResult<f64> {
        self.0.deviation_sum(step, horizon).or_raise(py)
    }

    /// How far the kernel can move on the way.
    ///
    ///     ‖K_t − K_0‖ ≤ 2 L B² ρ t E                                                 (Cor. F.6)
    fn kernel_drift_bound(&self, py: Python<'_>, step: f64, horizon: u32) -> PyResult<f64> {
        self.0.kernel_drift_bound(step, horizon).or_raise(py)
    }

    /// How far the correction at the query can be from the linear one.
    ///
    ///     (L_x/2) (ρTBE)² + B_x L B ρ² E² {T(T−1)/2 + ρB² T(T−1)(2T−1)/12}           (App. F.1)
    ///
    /// The first two arguments, B_x and L_x, bound the query's own Jacobian and its change.
    #[expect(clippy::too_many_arguments, reason = "the words of Rust, and Python itself")]
    fn query_deviation_bound(
        &self,
        py: Python<'_>,
        query_jacobian_bound: f64,
        query_jacobian_lipschitz: f64,
        step: f64,
        horizon: u32,
    ) -> PyResult<f64> {
        let (bound, lipschitz) = (query_jacobian_bound, query_jacobian_lipschitz);
        self.0.query_deviation_bound(bound, lipschitz, step, horizon).or_raise(py)
    }

    /// The fields as plain Python values: numbers.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(
            slf,
            &["jacobian_bound", "jacobian_lipschitz", "residual_scale"],
        )
    }

    fn __repr__(&self) -> String {
        let number = fewstep::text::number;
        format!(
            "LocalConstants(jacobian_bound={}, jacobian_lipschitz={}, residual_scale={})",
            number(self.0.jacobian_bound()),
            number(self.0.jacobian_lipschitz()),
            number(self.0.residual_scale())
        )
    }
}

crate::record! {
    /// How far one observation is from the linearised model.
    Departure from seen: drift::Departure {
        /// The number of steps.
        horizon: u32 = seen.horizon,
        /// The length of the predicted change of the outputs.
        predicted: f64 = seen.predicted,
        /// The length of the actual change.
        actual: f64 = seen.actual,
        /// The length of the difference.
        deviation: f64 = seen.deviation,
        /// The difference relative to the predicted change: 0 if neither moved, infinite if
        /// something moved where nothing was predicted to.
        relative_deviation: f64 = seen.relative_deviation,
        /// How far the kernel has moved relative to itself; None if no kernel was given.
        kernel_drift: Option<f64> = seen.kernel_drift,
        /// A value that the Lipschitz constant of the Jacobian must have reached to explain this
        /// observation; None if none can be named.
        lipschitz: Option<f64> = seen.lipschitz,
    }
}

/// A running comparison of a model's real steps with the linearised model.
///
///     f_T^lin = {I − (I − ρK_0)^T} r                                               (App. F.1)
///
/// Start it with the kernel's spectrum and the residuals before the first step; hand it what the
/// model did after each step, or some of them, and ask `trusted_until`.
#[pyclass(eq, module = "fewstep.theory.drift")]
#[derive(PartialEq)]
pub(crate) struct Watch(drift::Watch);

#[pymethods]
impl Watch {
    #[new]
    fn new(
        spectrum: &Spectrum,
        residuals: &Bound<'_, PyAny>,
        step: &StepSize,
    ) -> PyResult<Self> {
        let found = numbers(residuals, "residuals")?;
        Ok(Self(drift::Watch::new(&spectrum.0, &found, step.0).or_raise(residuals.py())?))
    }

    /// Compares what was seen after some real steps with the linear prediction.
    ///
    /// `horizon` is the number of steps taken so far, `shift` by how much the outputs on the
    /// prompt have changed since step 0, `kernel` the kernel at the present weights if it was
    /// computed, `update_length` how far the weights have moved if it is known. After an error
    /// the watch is as before.
    #[pyo3(signature = (horizon, shift, *, kernel=None, update_length=None))]
    fn observe(
        &mut self,
        horizon: u32,
        shift: &Bound<'_, PyAny>,
        kernel: Option<&Bound<'_, PyAny>>,
        update_length: Option<f64>,
    ) -> PyResult<Departure> {
        let py = shift.py();
        let shift = numbers(shift, "shift")?;
        let kernel = kernel.map(|kernel| matrix(kernel, "kernel")).transpose()?;
        let watch = &mut self.0;
        let departure = py.detach(|| {
            watch.observe(drift::Observation {
                horizon,
                shift: &shift,
                kernel: kernel.as_ref(),
                update_length,
            })
        });
        Departure::of(py, &departure.or_raise(py)?)
    }

    /// All comparisons so far, in the order of their horizons.
    #[getter]
    fn departures(&self, py: Python<'_>) -> PyResult<Vec<Departure>> {
        self.0.departures().iter().map(|seen| Departure::of(py, seen)).collect()
    }

    /// The last horizon up to which every observation kept to the linear prediction, within
    /// `tolerance` of its length; 0 if none did.
    fn trusted_until(&self, py: Python<'_>, tolerance: f64) -> PyResult<u32> {
        self.0.trusted_until(tolerance).or_raise(py)
    }

    /// The power of time with which the gap to the linearised model grows: about 2 where the law
    /// of Thm. F.5 rules. None before two gaps over rounding were seen.
    #[getter]
    fn growth_exponent(&self) -> Option<f64> {
        self.0.growth_exponent()
    }

    /// The constants that the observations suggest; None before the first observation.
    ///
    /// They are the largest values seen, so the true ones may be larger.
    #[getter]
    fn constants(&self) -> Option<LocalConstants> {
        self.0.constants().map(LocalConstants)
    }

    fn __repr__(&self) -> String {
        format!("Watch({} observations)", self.0.departures().len())
    }
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "drift")?;
    module.add_class::<LocalConstants>()?;
    module.add_class::<Departure>()?;
    module.add_class::<Watch>()
}
