//! Evidence for a number of steps on a large prompt: stochastic Lanczos quadrature.

use super::estimate::{check_probes, signs};
use super::lanczos::{Krylov, LargestEigenvalue, rounding};
use super::operator::{LinearOperator, check_operator};
use crate::estimate::Estimate;
use fewstep_core::checks::{check_positive, check_vector};
use fewstep_core::linear_algebra::squared_norm;
use fewstep_core::{Error, Noise, Rng, StepSize};

/// What to estimate evidence for, and with how much effort.
///
/// | name | meaning | range |
/// |---|---|---|
/// | `step` | `ρ`, from [`LargestEigenvalue::step`] | `ρ · largest.upper() < 1` |
/// | `largest` | the operator's largest eigenvalue | at least the true one |
/// | `horizons` | the candidate `T` | not empty |
/// | `noise` | where `σ²` comes from | [`Noise`] |
/// | `probes` | random vectors for the trace | at least 2 |
/// | `lanczos_steps` | most products, and vectors in memory, per start | at least 1 |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Noise};
/// use fewstep_theory::matfree::{EvidenceSettings, LargestEigenvalue};
///
/// let largest = LargestEigenvalue { value: 4.0, bound: 0.0 };
/// let settings = EvidenceSettings {
///     step: largest.step(0.5)?,
///     largest,
///     horizons: &[0, 1, 2, 4, 8],
///     noise: Noise::Profiled,
///     probes: 10,
///     lanczos_steps: 100,
/// };
/// assert_eq!(settings.step.get(), 0.125);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceSettings<'a> {
    /// `ρ`: the step size.
    pub step: StepSize,
    /// A bound on the operator's largest eigenvalue.
    pub largest: LargestEigenvalue,
    /// The candidate `T`.
    pub horizons: &'a [u32],
    /// Where `σ²` comes from.
    pub noise: Noise,
    /// Number of random probes for the trace.
    pub probes: usize,
    /// The largest number of Lanczos steps per start vector. Fewer are taken when they are
    /// known to suffice.
    pub lanczos_steps: usize,
}

/// Negative log-evidence per example at every candidate horizon, with its errors.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Estimate, matfree::EvidenceEstimate};
///
/// let estimate = EvidenceEstimate {
///     values: vec![Estimate { mean: 0.5, standard_error: 0.0 }],
///     log_trace: Estimate { mean: -3.0, standard_error: 0.1 },
///     quadratic_forms: vec![2.0],
///     quadrature_errors: vec![0.0],
/// };
/// assert_eq!(estimate.values.len(), estimate.quadratic_forms.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceEstimate {
    /// `ℓ_T(r)` for each horizon. The errors are one and the same draw, scaled by `T`: the
    /// difference of two values has the standard error `|T − T'|/(2n)` times that of the trace.
    pub values: Vec<Estimate>,
    /// `tr log(I − ρK)`, the only quantity that is left to chance; it serves all horizons.
    pub log_trace: Estimate,
    /// `rᵀ(I − ρK)^T r` for each horizon.
    pub quadratic_forms: Vec<f64>,
    /// How far each value may be off because Lanczos quadrature was stopped early, rounding
    /// apart; of the order of rounding unless `lanczos_steps` was too small.
    pub quadrature_errors: Vec<f64>,
}

/// Negative log-evidence per prompt example for many horizons, from products alone.
///
/// ```text
/// ℓ_T(r) = (1/2n) { log det Σ_T + rᵀ Σ_T⁻¹ r },   Σ_T = σ² (I − ρK)^(−T)             (Sec. 7)
/// log det Σ_T = n log σ² − T tr log(I − ρK)       one trace for all T
/// profiled: σ²_T = rᵀ(I − ρK)^T r / n,   ℓ_T = ½ { log σ²_T − (T/n) tr log(I − ρK) + 1 }
/// ```
///
/// The trace is a mean of `zᵀ log(I − ρK) z` over random signs `z`. Each of these, and the
/// quadratic forms, is a Lanczos quadrature: `m` products give all polynomials up to degree
/// `2m − 1` exactly, and any other function up to twice its distance to them. With `c = ρ λ_max`
/// and `s = (1 − √(1−c))/(1 + √(1−c))` that is
///
/// ```text
/// logarithm    2n s^(2m) / {m (1 − s)}
/// power T      0 if T < 2m, else 4 ‖r‖² exp{−4m² / min(2T, cT + 4m/3)}
/// ```
///
/// so the number of products is known beforehand (6 per probe at `c = 0.1`), and stops at
/// `rank + 1` for a kernel of low rank.
///
/// # Errors
///
/// [`Error::StepTooLarge`] unless `ρ · largest.upper() < 1`, [`Error::OutOfRange`] if the
/// operator shows an eigenvalue over `largest.upper()`, for a noise variance that is not over
/// 0, for fewer than two probes or no Lanczos step, and for residuals that leave nothing to
/// profile (all 0, or fitted to the last digit); [`Error::Empty`], [`Error::SizeMismatch`],
/// [`Error::NotFinite`] and [`Error::NotPositiveSemidefinite`] for input that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_theory::matfree::{DenseKernel, EvidenceSettings, estimate_evidence, largest_eigenvalue};
/// use fewstep_core::{Error, Noise, Rng};
///
/// // One example, ρλ = 1/2: ℓ_1 = ½ {log 1 − log ½ + ½ · 2²/1}.
/// let kernel = DenseKernel::new(&[vec![4.0]])?;
/// let rng = &mut Rng::new(0);
/// let largest = largest_eigenvalue(&kernel, 10, 1e-9, rng)?;
/// let settings = EvidenceSettings {
///     step: largest.step(0.5)?,
///     largest,
///     horizons: &[1],
///     noise: Noise::Fixed(1.0),
///     probes: 2,
///     lanczos_steps: 10,
/// };
/// let evidence = estimate_evidence(&kernel, &[2.0], &settings, rng)?;
/// assert!((evidence.values[0].mean - 0.5 * (2.0_f64.ln() + 2.0)).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn estimate_evidence(
    operator: &impl LinearOperator,
    residuals: &[f64],
    settings: &EvidenceSettings<'_>,
    rng: &mut Rng,
) -> Result<EvidenceEstimate, Error> {
    let n = check_operator(operator)?;
    check_vector("residuals", residuals, n)?;
    let fraction = settings.check()?;
    let (log_trace, trace_error) = log_trace(operator, settings, fraction, rng)?;
    let (quadratic_forms, form_errors) =
        quadratic_forms(operator, residuals, settings, fraction)?;
    let mut evidence = EvidenceEstimate {
        values: vec![],
        log_trace,
        quadratic_forms,
        quadrature_errors: vec![],
    };
    let forms = evidence.quadratic_forms.iter().zip(form_errors);
    for (&horizon, (&form, form_error)) in settings.horizons.iter().zip(forms) {
        let (horizon, n) = (f64::from(horizon), n as f64);
        let profiled = settings.noise == Noise::Profiled;
        let variance = match settings.noise {
            Noise::Fixed(variance) => variance,
            Noise::PlugIn => squared_norm(residuals) / n,
            Noise::Profiled => form / n,
        };
        if variance <= 0.0 {
            return Err(Error::OutOfRange {
                quantity: "noise variance",
                found: variance,
                allowed: "over 0; what the residuals leave for it is not, so give one instead",
            });
        }
        let fit = if profiled { 1.0 } else { form / (n * variance) };
        evidence.values.push(Estimate {
            mean: 0.5 * (variance.ln() - horizon / n * log_trace.mean + fit),
            standard_error: 0.5 * horizon / n * log_trace.standard_error,
        });
        let form_share = form_error / (n * variance);
        evidence.quadrature_errors.push(0.5 * (horizon / n * trace_error + form_share));
    }
    Ok(evidence)
}

impl EvidenceSettings<'_> {
    /// `c = ρ λ_max` for settings that are in range.
    fn check(&self) -> Result<f64, Error> {
        if self.horizons.is_empty() {
            return Err(Error::Empty { quantity: "candidate horizons" });
        }
        if let Noise::Fixed(noise_variance) = self.noise {
            check_positive("noise variance", noise_variance)?;
        }
        check_probes(self.probes)?;
        check_positive("number of Lanczos steps", self.lanczos_steps as f64)?;
        let (step, upper) = (self.step.get(), self.largest.upper());
        let fraction = step * upper;
        // Also false for a bound that is NaN.
        if upper >= 0.0 && fraction < 1.0 {
            Ok(fraction)
        } else {
            Err(Error::StepTooLarge { step, limit: 1.0 / upper })
        }
    }

    /// The fewest Lanczos steps whose error is below rounding, or the most that are allowed.
    fn steps(&self, n: usize, error: impl Fn(usize) -> f64) -> usize {
        let most = self.lanczos_steps.min(n);
        (1..most).find(|&steps| error(steps) <= f64::EPSILON).unwrap_or(most)
    }
}

/// `tr log(I − ρK)` and the largest error of its quadrature.
fn log_trace(
    operator: &impl LinearOperator,
    settings: &EvidenceSettings<'_>,
    fraction: f64,
    rng: &mut Rng,
) -> Result<(Estimate, f64), Error> {
    let n = operator.size();
    let root = (1.0 - fraction).sqrt();
    // 1 − √(1−c) without cancellation.
    let decay = fraction / (1.0 + root).powi(2);
    let tail =
        |steps: usize| 2.0 * decay.powf(2.0 * steps as f64) / (steps as f64 * (1.0 - decay));
    let steps = settings.steps(n, |steps| tail(steps) / fraction.max(f64::MIN_POSITIVE));
    let step = settings.step.get();
    let (mut samples, mut error) = (Vec::with_capacity(settings.probes), 0.0);
    for _ in 0..settings.probes {
        let rule = Quadrature::of(operator, &signs(rng, n), steps, settings.largest)?;
        samples.push(n as f64 * rule.sum(|eigenvalue| (-step * eigenvalue).ln_1p()));
        if !rule.exact {
            error = n as f64 * tail(steps);
        }
    }
    Ok((Estimate::of(&samples), error))
}

/// `rᵀ(I − ρK)^T r` for each horizon, and the error of each.
fn quadratic_forms(
    operator: &impl LinearOperator,
    residuals: &[f64],
    settings: &EvidenceSettings<'_>,
    fraction: f64,
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let energy = squared_norm(residuals);
    if energy == 0.0 {
        return Ok((vec![0.0; settings.horizons.len()], vec![0.0; settings.horizons.len()]));
    }
    let tail = |horizon: u32, steps: usize| {
        let (horizon, degree) = (f64::from(horizon), 2.0 * steps as f64);
        if horizon < degree {
            return 0.0;
        }
        let spread = (2.0 * horizon).min(fraction * horizon + 2.0 / 3.0 * degree);
        4.0 * (-degree * degree / spread).exp()
    };
    let steps = settings.steps(residuals.len(), |steps| {
        settings.horizons.iter().fold(0.0_f64, |most, &horizon| most.max(tail(horizon, steps)))
    });
    let rule = Quadrature::of(operator, residuals, steps, settings.largest)?;
    let step = settings.step.get();
    let form = |&horizon: &u32| {
        let power = |eigenvalue: f64| (f64::from(horizon) * (-step * eigenvalue).ln_1p()).exp();
        energy * rule.sum(power)
    };
    let error = |&horizon: &u32| if rule.exact { 0.0 } else { energy * tail(horizon, steps) };
    Ok((
        settings.horizons.iter().map(form).collect(),
        settings.horizons.iter().map(error).collect(),
    ))
}

/// Nodes and weights with `Σ w f(θ) ≈ vᵀ f(K) v / ‖v‖²`.
struct Quadrature {
    nodes: Vec<f64>,
    weights: Vec<f64>,
    /// Whether the rule holds for every function, because the Krylov space is invariant.
    exact: bool,
}

impl Quadrature {
    fn of(
        operator: &impl LinearOperator,
        start: &[f64],
        steps: usize,
        largest: LargestEigenvalue,
    ) -> Result<Self, Error> {
        let space = Krylov::of(operator, start, steps)?;
        let (mut nodes, vectors) = space.ritz()?;
        let upper = largest.upper();
        if nodes[0] > upper + rounding(start.len(), upper) {
            return Err(Error::OutOfRange {
                quantity: "upper bound of the largest eigenvalue",
                found: upper,
                allowed: "at least the operator's largest eigenvalue; take it from this operator",
            });
        }
        nodes.iter_mut().for_each(|node| *node = node.min(upper));
        let weights = (0..nodes.len()).map(|node| vectors[(node, 0)].powi(2)).collect();
        Ok(Self { nodes, weights, exact: space.is_invariant() })
    }

    fn sum(&self, function: impl Fn(f64) -> f64) -> f64 {
        self.nodes
            .iter()
            .zip(&self.weights)
            .map(|(&node, weight)| weight * function(node))
            .sum()
    }
}
