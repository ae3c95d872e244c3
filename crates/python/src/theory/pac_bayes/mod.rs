//! The module `theory.pac_bayes`: what choosing a horizon by evidence guarantees.

mod bounds;
pub(crate) mod records;

use crate::arrays::{matrix, numbers};
use crate::errors::OrRaise;
use crate::evidence::horizons;
use crate::spectrum::{Spectrum, StepSize};
use fewstep_core::Matrix;
use fewstep_theory::pac_bayes;
use pyo3::prelude::*;

/// The laws of the residuals that candidate horizons imply, for one noise variance.
///
///     r | T ~ N(0, Σ_T),   Σ_T = σ² (I − ρK)^(−T),   T ∈ 𝒯                           (Sec. 7)
///
/// The noise variance must not depend on the residuals: bounds do not cover one that is estimated
/// anew for each horizon. `horizons` is any iterable of whole numbers.
#[pyclass(frozen, module = "fewstep.theory.pac_bayes")]
pub(crate) struct EvidenceFamily {
    spectrum: fewstep_core::Spectrum,
    step: fewstep_core::StepSize,
    noise_variance: f64,
    horizons: Vec<u32>,
}

impl EvidenceFamily {
    /// The family in Rust, which borrows its spectrum.
    fn borrowed(&self) -> Result<pac_bayes::EvidenceFamily<'_>, fewstep_core::Error> {
        let Self { spectrum, step, noise_variance, horizons } = self;
        pac_bayes::EvidenceFamily::new(spectrum, *step, *noise_variance, horizons)
    }
}

#[pymethods]
impl EvidenceFamily {
    #[new]
    fn new(
        spectrum: &Spectrum,
        step: &StepSize,
        noise_variance: f64,
        horizons: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = horizons.py();
        let horizons = self::horizons(horizons, "horizons")?;
        let spectrum = spectrum.0.clone();
        let family = Self { spectrum, step: step.0, noise_variance, horizons };
        family.borrowed().or_raise(py)?;
        Ok(family)
    }

    /// The noise variance.
    #[getter]
    fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// The candidate numbers of steps.
    #[getter]
    fn horizons(&self) -> Vec<u32> {
        self.horizons.clone()
    }

    fn __repr__(&self) -> String {
        let examples = self.spectrum.examples();
        format!("EvidenceFamily({examples} examples, {} horizons)", self.horizons.len())
    }
}

/// The law that residuals are taken to follow (Assumption 7.1).
///
/// Make one with `benchmark`, `horizon` or `covariance`.
#[pyclass(frozen, eq, module = "fewstep.theory.pac_bayes")]
#[derive(PartialEq)]
pub(crate) struct Reference(Law);

/// A reference that owns its covariance.
#[derive(PartialEq)]
enum Law {
    Benchmark { signal_variance: f64, noise_variance: f64 },
    Horizon(u32),
    Covariance(Matrix),
}

impl Reference {
    fn borrowed(&self) -> pac_bayes::Reference<'_> {
        match &self.0 {
            &Law::Benchmark { signal_variance, noise_variance } => {
                pac_bayes::Reference::Benchmark { signal_variance, noise_variance }
            }
            &Law::Horizon(horizon) => pac_bayes::Reference::Horizon(horizon),
            Law::Covariance(covariance) => pac_bayes::Reference::Covariance(covariance),
        }
    }
}

#[pymethods]
impl Reference {
    /// Signal that follows the kernel, and noise: the Gaussian benchmark, Σ★ = τ²K + σ★²I.
    #[staticmethod]
    fn benchmark(signal_variance: f64, noise_variance: f64) -> Self {
        Self(Law::Benchmark { signal_variance, noise_variance })
    }

    /// What one number of steps implies; evidence is well specified then.
    #[staticmethod]
    fn horizon(horizon: u32) -> Self {
        Self(Law::Horizon(horizon))
    }

    /// Any positive definite covariance of the residuals.
    #[staticmethod]
    fn covariance(covariance: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Law::Covariance(matrix(covariance, "covariance")?)))
    }

    fn __repr__(&self) -> String {
        let number = fewstep::text::number;
        match &self.0 {
            &Law::Benchmark { signal_variance, noise_variance } => {
                let (signal, noise) = (number(signal_variance), number(noise_variance));
                format!("Reference.benchmark({signal}, {noise})")
            }
            Law::Horizon(horizon) => format!("Reference.horizon({horizon})"),
            Law::Covariance(covariance) => {
                let rows = covariance.rows();
                format!("Reference.covariance(array of {rows} × {rows})")
            }
        }
    }
}

/// How far a variance is from the right one: t − 1 − log t for their ratio t over 0.
///
/// It is infinite at 0 and no number below.
#[pyfunction]
fn variance_mismatch(ratio: f64) -> f64 {
    pac_bayes::variance_mismatch(ratio)
}

/// The quadratic floor under `variance_mismatch`, (t − 1)² / (2 max{t, 1}) (Lem. E.15).
#[pyfunction]
fn variance_mismatch_floor(ratio: f64) -> f64 {
    pac_bayes::variance_mismatch_floor(ratio)
}

/// A promise that holds for all distributions over candidates at once, with one confidence.
///
///     P( E_ν[X_T] ≤ {KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T]}/β   for all ν ) ≥ 1 − δ
///         if  E exp(β X_T) ≤ exp(ψ_T)  for all T                                  (Lem. E.11)
///
/// `log_moments` are the bounds ψ_T(β), `examples` is the number by which the variables were
/// multiplied (1 if by none). Everything must be chosen before data are seen.
#[pyclass(frozen, eq, module = "fewstep.theory.pac_bayes")]
#[derive(PartialEq)]
pub(crate) struct Certificate(pac_bayes::Certificate);

#[pymethods]
impl Certificate {
    #[new]
    fn new(
        prior: &Bound<'_, PyAny>,
        log_moments: &Bound<'_, PyAny>,
        inverse_temperature: f64,
        examples: usize,
        confidence: f64,
    ) -> PyResult<Self> {
        let py = prior.py();
        let prior = numbers(prior, "prior")?;
        let moments = numbers(log_moments, "log-moments")?;
        let certificate = pac_bayes::Certificate::new(
            &prior,
            &moments,
            inverse_temperature,
            examples,
            confidence,
        );
        Ok(Self(certificate.or_raise(py)?))
    }

    /// What is added to the average evidence under these weights, which are divided by their sum.
    ///
    ///     {KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T]}/(βn)
    fn slack(&self, weights: &Bound<'_, PyAny>) -> PyResult<f64> {
        self.0.slack(&numbers(weights, "weights")?).or_raise(weights.py())
    }

    /// The average evidence plus the slack: the average population risk is at most this.
    fn bound(
        &self,
        weights: &Bound<'_, PyAny>,
        evidence: &Bound<'_, PyAny>,
    ) -> PyResult<records::Bound> {
        let py = weights.py();
        let (weights, evidence) =
            (numbers(weights, "weights")?, numbers(evidence, "evidence")?);
        records::Bound::of(py, &self.0.bound(&weights, &evidence).or_raise(py)?)
    }
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "pac_bayes")?;
    module.add_class::<EvidenceFamily>()?;
    module.add_class::<Reference>()?;
    module.add_class::<bounds::PacBayes>()?;
    module.add_class::<Certificate>()?;
    module.add_class::<records::Bound>()?;
    module.add_class::<records::VanishingGap>()?;
    module.add_function(wrap_pyfunction!(variance_mismatch, &module)?)?;
    module.add_function(wrap_pyfunction!(variance_mismatch_floor, &module)?)
}
