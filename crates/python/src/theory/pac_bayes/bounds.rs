//! Candidate horizons measured against a reference law, and the bounds that follow.

use super::{Certificate, EvidenceFamily, Reference, records};
use crate::arrays::{array, numbers};
use crate::errors::OrRaise;
use fewstep_theory::pac_bayes;
use numpy::PyArray1;
use pyo3::prelude::*;

/// Candidate horizons measured against a reference law: everything that the bounds are made of.
///
///     A_T = Σ★^(1/2) Σ_T⁻¹ Σ★^(1/2),    v_T = tr(A_T²)/n,    v̄ = max_T v_T            (Thm. 7.2)
///
/// Arrays over candidates are in the order of the family's horizons. `prior` has one number over
/// 0 per candidate, chosen before residuals are seen; it is uniform if none is given.
#[pyclass(frozen, eq, module = "fewstep.theory.pac_bayes")]
#[derive(PartialEq)]
pub(crate) struct PacBayes(pac_bayes::PacBayes);

#[pymethods]
impl PacBayes {
    #[new]
    #[pyo3(signature = (family, reference, prior=None))]
    fn new(
        py: Python<'_>,
        family: &EvidenceFamily,
        reference: &Reference,
        prior: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let prior = prior.map(|prior| numbers(prior, "prior")).transpose()?;
        let measured = py.detach(|| {
            let measured = pac_bayes::PacBayes::new(&family.borrowed()?, reference.borrowed())?;
            match prior {
                Some(prior) => measured.with_prior(&prior),
                None => Ok(measured),
            }
        });
        Ok(Self(measured.or_raise(py)?))
    }

    /// The same with a prior that excludes no candidate; it is divided by its sum.
    fn with_prior(&self, prior: &Bound<'_, PyAny>) -> PyResult<Self> {
        let weights = numbers(prior, "prior")?;
        Ok(Self(self.0.clone().with_prior(&weights).or_raise(prior.py())?))
    }

    /// The eigenvalues of A_T, one array per candidate, in no particular order.
    ///
    /// A candidate that is the truth has ones alone.
    #[getter]
    fn ratios<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyArray1<f64>>> {
        self.0.ratios().into_iter().map(|ratios| array(py, ratios)).collect()
    }

    /// How much the evidence of each candidate fluctuates.
    #[getter]
    fn variances<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, &self.0.variances())
    }

    /// The largest of the variances.
    #[getter]
    fn largest_variance(&self) -> f64 {
        self.0.largest_variance()
    }

    /// How much the worst mode fluctuates, for each candidate.
    #[getter]
    fn operator_norms<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, &self.0.operator_norms())
    }

    /// The negative log-evidence per example that each candidate has on average over residuals.
    #[getter]
    fn population_risks<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, &self.0.population_risks())
    }

    /// The smallest average that any law could have.
    #[getter]
    fn true_risk(&self) -> f64 {
        self.0.true_risk()
    }

    /// How far the reference law is from the law of each candidate, in nats.
    #[getter]
    fn relative_entropies<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, &self.0.relative_entropies())
    }

    /// How likely evidence is to look too good, for each candidate: a log-moment, exactly.
    ///
    ///     ψ_T(β) = (β/2) tr A_T − ½ log det(I + βA_T) ≤ (β²/4) tr A_T²               (Lem. E.12)
    fn log_moments<'py>(
        &self,
        py: Python<'py>,
        inverse_temperature: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(array(py, &self.0.log_moments(inverse_temperature).or_raise(py)?))
    }

    /// The bound of Lem. E.12 on `log_moments`.
    fn log_moment_bounds<'py>(
        &self,
        py: Python<'py>,
        inverse_temperature: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(array(py, &self.0.log_moment_bounds(inverse_temperature).or_raise(py)?))
    }

    /// A bound for every distribution over horizons at once, at one inverse temperature.
    ///
    ///     E_ν[𝓛(T | K)] ≤ E_ν[ℓ_T(r)] + {KL(ν‖π₀) + log(1/δ)}/(βn) + (β/4) v̄        (Lem. E.13)
    ///
    /// Temperature and confidence must be chosen before residuals are seen; ν need not.
    fn certificate(
        &self,
        py: Python<'_>,
        inverse_temperature: f64,
        confidence: f64,
    ) -> PyResult<Certificate> {
        Ok(Certificate(self.0.certificate(inverse_temperature, confidence).or_raise(py)?))
    }

    /// The same bound with exact moments: never looser, and often much tighter.
    fn exact_certificate(
        &self,
        py: Python<'_>,
        inverse_temperature: f64,
        confidence: f64,
    ) -> PyResult<Certificate> {
        Ok(Certificate(self.0.exact_certificate(inverse_temperature, confidence).or_raise(py)?))
    }

    /// The certificate at the best temperature for distributions up to a stated distance from
    /// the prior, in nats.
    ///
    ///     β = 2 √({B + log(1/δ)}/(n v̄)),   slack ≤ √(v̄ {B + log(1/δ)}/n)            (Cor. E.14)
    fn rate_certificate(
        &self,
        py: Python<'_>,
        budget: f64,
        confidence: f64,
    ) -> PyResult<Certificate> {
        Ok(Certificate(self.0.rate_certificate(budget, confidence).or_raise(py)?))
    }

    /// A bound for a chosen horizon, however it was chosen from the candidates.
    ///
    ///     𝓛(T | K) ≤ ℓ_T(r) + √(v̄ {log |𝒯| + log(1/δ)}/n)   for all T at once        (Thm. 7.2)
    ///
    /// `evidence` is ℓ_T(r) of the chosen horizon with the family's noise variance.
    fn bound(
        &self,
        py: Python<'_>,
        horizon: u32,
        evidence: f64,
        confidence: f64,
    ) -> PyResult<records::Bound> {
        records::Bound::of(py, &self.0.bound(horizon, evidence, confidence).or_raise(py)?)
    }

    /// The tightest such bound that exact moments give, at the best temperature per horizon.
    fn exact_bound(
        &self,
        py: Python<'_>,
        horizon: u32,
        evidence: f64,
        confidence: f64,
    ) -> PyResult<records::Bound> {
        let found = py.detach(|| self.0.exact_bound(horizon, evidence, confidence));
        records::Bound::of(py, &found.or_raise(py)?)
    }

    /// How far the evidence of each candidate may lie above its average, for one of them.
    ///
    ///     ℓ_T(r) ≤ 𝓛(T | K) + √(v_T log(1/δ)/n) + ‖A_T‖ log(1/δ)/n                  (Lem. E.18)
    fn upper_deviations<'py>(
        &self,
        py: Python<'py>,
        confidence: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(array(py, &self.0.upper_deviations(confidence).or_raise(py)?))
    }

    /// How far the fit of each candidate can be from the Bayes fit, from evidence alone.
    ///
    ///     Gap_n(T | K) ≤ 4σ² KL(N(0, Σ★) ‖ N(0, Σ_T))/n                             (Lem. E.16)
    fn gap_from_evidence<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(array(py, &self.0.gap_from_evidence().or_raise(py)?))
    }

    /// A bound on the normalised Bayes gap of the horizon with the best evidence.
    ///
    ///     4σ² (min_T ℓ_T(r) − 𝓛_true + √(v̄ {log |𝒯| + log(1/δ)}/n))                 (Lem. E.17)
    ///
    /// `evidence` has one entry per candidate; ties go to the smaller horizon.
    fn gap_bound(&self, evidence: &Bound<'_, PyAny>, confidence: f64) -> PyResult<f64> {
        self.0.gap_bound(&numbers(evidence, "evidence")?, confidence).or_raise(evidence.py())
    }

    /// A bound on the same gap that needs no residuals and goes to 0 as the prompt grows.
    ///
    /// It holds for any comparator among the candidates that is fixed in advance (Thm. E.19).
    fn vanishing_gap(
        &self,
        py: Python<'_>,
        comparator: u32,
        confidence: f64,
    ) -> PyResult<records::VanishingGap> {
        let found = self.0.vanishing_gap(comparator, confidence).or_raise(py)?;
        records::VanishingGap::of(py, &found)
    }

    fn __repr__(&self) -> String {
        format!("PacBayes({} candidates)", self.0.variances().len())
    }
}
