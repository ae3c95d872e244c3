//! Sec. 7, App. H and App. I: the evidence of a horizon, its gate and its optimum.

use crate::support::*;
use fewstep_core::{
    Error, Evidence, HorizonChoice, Noise, Rng, Spectrum, StepSize, best_horizon,
    evidence_curve,
};

/// A kernel with known modes: eigenvalues, eigenvectors as columns of `basis`.
pub(crate) struct Planted {
    pub(crate) eigenvalues: Vec<f64>,
    basis: Vec<Vec<f64>>,
}

impl Planted {
    /// Two random reflections turn the coordinate axes into the modes.
    pub(crate) fn new(rng: &mut Rng, eigenvalues: &[f64]) -> Self {
        let n = eigenvalues.len();
        let mut reflection = || {
            let axis = normals(rng, n);
            let square = dot(&axis, &axis);
            let outer: Vec<Vec<f64>> =
                axis.iter().map(|a| axis.iter().map(|b| a * b).collect()).collect();
            shifted(&outer, -2.0 / square, 1.0)
        };
        let basis = product(&reflection(), &reflection());
        Self { eigenvalues: eigenvalues.to_vec(), basis }
    }

    pub(crate) fn kernel(&self) -> Vec<Vec<f64>> {
        let scaled: Vec<Vec<f64>> = self
            .basis
            .iter()
            .map(|row| row.iter().zip(&self.eigenvalues).map(|(b, l)| b * l).collect())
            .collect();
        let kernel = product(&scaled, &transpose(&self.basis));
        let symmetric = |i: usize, j: usize| 0.5 * (kernel[i][j] + kernel[j][i]);
        let n = kernel.len();
        (0..n).map(|i| (0..n).map(|j| symmetric(i, j)).collect()).collect()
    }

    /// The vector over examples with these amounts of each mode.
    pub(crate) fn vector(&self, amounts: &[f64]) -> Vec<f64> {
        multiply(&self.basis, amounts)
    }

    pub(crate) fn spectrum(&self) -> Spectrum {
        Spectrum::of(&self.kernel()).unwrap()
    }
}

/// Descending eigenvalues over `decades` powers of 10, from 1 down.
pub(crate) fn spread(rng: &mut Rng, n: usize, decades: f64) -> Vec<f64> {
    let mut values: Vec<f64> =
        (0..n).map(|_| 10.0_f64.powf(-decades * rng.uniform())).collect();
    values[0] = 1.0;
    values.sort_by(|a, b| b.total_cmp(a));
    values
}

/// `(1/2n) {log det Σ + rᵀΣ⁻¹r}` by elimination.
pub(crate) fn literal_evidence(covariance: &[Vec<f64>], residuals: &[f64]) -> f64 {
    let (solution, log_determinant) = eliminate(covariance, residuals);
    (log_determinant + dot(residuals, &solution)) / (2.0 * residuals.len() as f64)
}

/// `(I − ρK)^(−T)` by inversion and `T` multiplications.
fn literal_marginal(kernel: &[Vec<f64>], step: f64, horizon: u32) -> Vec<Vec<f64>> {
    let inverse = inverse(&shifted(kernel, -step, 1.0));
    (0..horizon).fold(shifted(kernel, 0.0, 1.0), |power, _| product(&power, &inverse))
}

/// The two criteria of App. I as functions of a real horizon, from modes known beforehand.
struct Criteria {
    rates: Vec<f64>,
    squares: Vec<f64>,
}

impl Criteria {
    fn new(eigenvalues: &[f64], amounts: &[f64], step: f64) -> Self {
        let rates = eigenvalues.iter().map(|value| -(1.0 - step * value).ln()).collect();
        Self { rates, squares: amounts.iter().map(|amount| amount * amount).collect() }
    }

    fn occam(&self, horizon: f64) -> f64 {
        horizon * self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    fn fit(&self, horizon: f64) -> f64 {
        let modes = self.rates.iter().zip(&self.squares);
        let sum: f64 = modes.map(|(rate, square)| square * (-horizon * rate).exp()).sum();
        sum / self.rates.len() as f64
    }

    fn known(&self, horizon: f64, variance: f64) -> f64 {
        self.occam(horizon) + self.fit(horizon) / variance
    }

    fn profiled(&self, horizon: f64) -> f64 {
        self.fit(horizon).ln() + self.occam(horizon)
    }

    fn gate(&self, variance: f64) -> f64 {
        let mean = self.occam(1.0);
        let n = self.rates.len() as f64;
        dot(&self.rates, &self.squares) / (n * variance) / mean
    }
}

/// Sec. 7: the curve is `(1/2n){log det Σ_T + rᵀΣ_T⁻¹r}` with `Σ_T = σ²(I − ρK)^(−T)`, for a
/// known variance, for the plug-in and for the variance that makes the residuals most likely.
#[test]
fn sec_7_curve_is_the_literal_evidence() {
    for_prompts(|p| {
        let (n, r) = (p.n(), &p.residuals);
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        let evidence = Evidence::of(&spectrum, r, step).unwrap();
        let plug_in = dot(r, r) / n as f64;
        let curve = |noise| evidence_curve(&spectrum, r, step, noise, 8).unwrap();
        let (fixed, plug, profiled) =
            (curve(Noise::Fixed(0.7)), curve(Noise::PlugIn), curve(Noise::Profiled));
        for horizon in 0..=8_u32 {
            let marginal = literal_marginal(&p.kernel(), step.get(), horizon);
            let literal =
                |variance: f64| literal_evidence(&shifted(&marginal, variance, 0.0), r);
            let best = dot(r, &eliminate(&marginal, r).0) / n as f64;
            let t = horizon as usize;
            let scale = 10.0 + plug_in / 0.7 + plug_in.ln().abs() + best.ln().abs();
            assert_close(fixed[t], literal(0.7), scale, n);
            assert_close(plug[t], literal(plug_in), scale, n);
            assert_close(profiled[t], literal(best), scale, n);
            assert!(profiled[t] <= literal(1.1 * best).min(literal(best / 1.1)));
            let variance = evidence.noise_variance(f64::from(horizon)).unwrap();
            assert_close(variance, best, plug_in, n);
        }
    });
}

/// Sec. 7: a curve over candidates in any order, a curve from 0 and single horizons agree.
#[test]
fn sec_7_candidates_may_come_in_any_order() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let evidence = Evidence::of(&spectrum, &p.residuals, step).unwrap();
        let candidates = [0, 1, 2, 3, 40, 39, 41, 7, 7, 100, 103, 131, 0];
        for noise in [Noise::Fixed(2.0), Noise::PlugIn, Noise::Profiled] {
            let (some, all) = (
                evidence.curve(&candidates, noise).unwrap(),
                evidence.curve_to(131, noise).unwrap(),
            );
            for (&horizon, &value) in candidates.iter().zip(&some) {
                let scale = 20.0 + dot(&p.residuals, &p.residuals);
                assert_close(value, all[horizon as usize], scale, p.n());
                let alone = evidence.at(f64::from(horizon), noise).unwrap();
                assert_close(value, alone, scale, p.n());
            }
        }
    });
}

/// App. I: its criteria are `2ℓ_T − log σ²` (fixed) and `2ℓ_T − 1` (profiled), here from
/// residuals shrunk by `T` literal multiplications and the pivots of `I − ρK`.
#[test]
fn app_i_criteria_are_twice_the_evidence_shifted() {
    for_prompts(|p| {
        let (n, r) = (p.n(), &p.residuals);
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let variance = dot(r, r) / n as f64;
        let fixed = evidence_curve(&spectrum, r, step, Noise::PlugIn, 30).unwrap();
        let profiled = evidence_curve(&spectrum, r, step, Noise::Profiled, 30).unwrap();

        let shrink = shifted(&p.kernel(), -step.get(), 1.0);
        let (_, log_determinant) = eliminate(&shrink, r);
        let mut left = r.clone();
        for t in 0..=30 {
            let occam = -(t as f64) / n as f64 * log_determinant;
            let fit = dot(r, &left) / n as f64;
            let scale = 10.0 + variance.ln().abs() + fit.ln().abs();
            assert_close(2.0 * fixed[t] - variance.ln(), occam + fit / variance, scale, n);
            assert_close(2.0 * profiled[t] - 1.0, fit.ln() + occam, scale, n);
            left = multiply(&shrink, &left);
        }
    });
}

/// App. H: the two sums over modes are `log det Σ_T = n log σ² − T Σ log(1 − ρλ_i)` and
/// `rᵀΣ_T⁻¹r`; with residuals 0 only the first is left.
#[test]
fn app_h_log_determinant_and_quadratic_form_are_sums_over_modes() {
    for_prompts(|p| {
        let n = p.n();
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        let nothing = vec![0.0; n];
        let occam = evidence_curve(&spectrum, &nothing, step, Noise::Fixed(0.3), 6).unwrap();
        let both = evidence_curve(&spectrum, &p.residuals, step, Noise::Fixed(0.3), 6).unwrap();
        let twice = 2.0 * n as f64;
        for horizon in 0..=6_u32 {
            let marginal =
                shifted(&literal_marginal(&p.kernel(), step.get(), horizon), 0.3, 0.0);
            let (solution, log_determinant) = eliminate(&marginal, &p.residuals);
            let t = horizon as usize;
            let scale = twice * (10.0 + dot(&p.residuals, &p.residuals));
            assert_close(twice * occam[t], log_determinant, scale, n);
            assert_close(twice * (both[t] - occam[t]), dot(&p.residuals, &solution), scale, n);
        }
    });
}

/// Sec. 7: the selected horizon is a minimiser; of several it is the smallest, and the edge of
/// the candidates is reported.
#[test]
fn sec_7_ties_go_to_the_smaller_horizon() {
    let choice = |horizon, index, at_edge| Ok(HorizonChoice { horizon, index, at_edge });
    assert_eq!(best_horizon(&[8, 4, 0], &[1.0, 1.0, 2.0]), choice(4, 1, false));
    assert_eq!(best_horizon(&[8, 4, 0], &[0.5, 1.0, 2.0]), choice(8, 0, true));
    assert_eq!(best_horizon(&[3], &[f64::INFINITY]), choice(3, 0, true));
    assert_eq!(best_horizon(&[0, 1, 2], &[f64::INFINITY, 5.0, 3.0]), choice(2, 2, true));
    // Apart by rounding is a tie; apart by more is not.
    assert_eq!(best_horizon(&[0, 1], &[1.0 + 1e-15, 1.0]), choice(0, 0, false));
    assert_eq!(best_horizon(&[0, 1], &[-1.0 + 1e-12, -1.0]), choice(1, 1, true));

    // A kernel with one eigenvalue cannot tell horizons apart once σ² is profiled; nor can n = 1,
    // nor a zero kernel.
    let candidates: Vec<u32> = (0..=30).collect();
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let eigenvalues = spectrum.eigenvalues();
        if eigenvalues[0] - eigenvalues[p.n() - 1] < 1e-12 * eigenvalues[0] || p.n() == 1 {
            let step = StepSize::fraction(0.1, &spectrum).unwrap();
            let curve =
                evidence_curve(&spectrum, &p.residuals, step, Noise::Profiled, 30).unwrap();
            assert_eq!(best_horizon(&candidates, &curve).unwrap().horizon, 0);
        }
    });
}

/// Sec. 7: at a million steps the evidence still has all its digits, step by step and at once.
#[test]
fn sec_7_long_horizons_keep_their_digits() {
    const LONG: u32 = 1_000_000;
    let t = f64::from(LONG);
    // ρλ = x is so small that log(1 − x) = −(x + x²/2 + x³/3) to the last digit.
    let x = 0.37_f64 * 2.0_f64.powi(-18);
    let rate = x + x * x / 2.0 + x.powi(3) / 3.0;
    let spectrum = Spectrum::of(&[vec![x, 0.0], vec![0.0, 0.0]]).unwrap();
    let step = StepSize::new(1.0, &spectrum).unwrap();
    let evidence = Evidence::of(&spectrum, &[3.0, 1.0], step).unwrap();
    let fit = 9.0 * (-t * rate).exp() + 1.0;
    let walked = evidence.curve_to(LONG, Noise::Profiled).unwrap();
    let expected = 0.5 * ((0.5 * fit).ln() + t * rate / 2.0 + 1.0);
    assert_close(walked[LONG as usize], expected, 1.0, 2);
    assert_close(evidence.at(t, Noise::Profiled).unwrap(), expected, 1.0, 2);
    let expected = 0.5 * (2.0_f64.ln() + t * rate / 2.0 + fit / 4.0);
    let walked = evidence.curve_to(LONG, Noise::Fixed(2.0)).unwrap();
    assert_close(walked[LONG as usize], expected, 1.0, 2);

    // Shrinking by 1/2 and 1/4 in each step underflows within 1100 steps; its logarithm must not.
    let spectrum = Spectrum::of(&[vec![3.0, 0.0], vec![0.0, 2.0]]).unwrap();
    let step = StepSize::new(0.25, &spectrum).unwrap();
    let evidence = Evidence::of(&spectrum, &[3.0, 5.0], step).unwrap();
    let ln2 = std::f64::consts::LN_2;
    let expected = 0.5 * ((25.0_f64 / 2.0).ln() - t * ln2 + t * 1.5 * ln2 + 1.0);
    assert_close(evidence.curve(&[LONG], Noise::Profiled).unwrap()[0], expected, t, 2);
    let expected = 0.5 * (17.0_f64.ln() + t * 1.5 * ln2);
    assert_close(evidence.curve(&[LONG], Noise::PlugIn).unwrap()[0], expected, t, 2);
}

/// Sec. 7: scaling the residuals shifts plug-in and profiled evidence by a logarithm, far beyond
/// the range in which squares can be represented.
#[test]
fn sec_7_residuals_of_any_magnitude() {
    let spectrum = Spectrum::of(&[vec![4.0, 1.0], vec![1.0, 1.0]]).unwrap();
    let step = StepSize::fraction(0.3, &spectrum).unwrap();
    for noise in [Noise::PlugIn, Noise::Profiled] {
        let unit = evidence_curve(&spectrum, &[1.5, 1.0], step, noise, 20).unwrap();
        for scale in [1e-200, 1e200] {
            let curve =
                evidence_curve(&spectrum, &[1.5 * scale, scale], step, noise, 20).unwrap();
            for (found, expected) in curve.iter().zip(&unit) {
                assert_close(*found, expected + scale.ln(), 500.0, 2);
            }
        }
    }
}

/// Section 5.1: as a function of a real horizon, every kind of evidence is convex.
#[test]
fn design_5_1_evidence_is_convex() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let step = StepSize::fraction(0.5, &spectrum).unwrap();
        let evidence = Evidence::of(&spectrum, &p.residuals, step).unwrap();
        for noise in [Noise::Fixed(0.05), Noise::PlugIn, Noise::Profiled] {
            let at = |horizon: f64| evidence.at(horizon, noise).unwrap();
            for start in 0..40 {
                for width in [0.25, 1.0, 7.5] {
                    let start = f64::from(start) * 0.75;
                    let chord = 0.5 * (at(start) + at(start + 2.0 * width));
                    let rounding = 1e3 * f64::EPSILON * (1.0 + chord.abs());
                    assert!(at(start + width) <= chord + rounding);
                }
            }
        }
    });
}

/// Section 5.1: the gate is over 1 exactly if some positive real horizon beats `T = 0`, for the
/// plug-in and for the profiled variance; with `σ²` known the same holds of its own gate.
#[test]
fn design_5_1_gate_is_over_one_iff_some_step_helps() {
    let mut rng = Rng::new(51);
    let mut passed = [0; 3];
    for case in 0..200 {
        let n = 1 + rng.below(9);
        let eigenvalues = spread(&mut rng, n, 3.0);
        let planted = Planted::new(&mut rng, &eigenvalues);
        let amounts: Vec<f64> = planted
            .eigenvalues
            .iter()
            .map(|value| (1.0 + 2.0 * value).sqrt() * rng.normal())
            .collect();
        let (step, known) = (0.4, 1.3);
        let criteria = Criteria::new(&planted.eigenvalues, &amounts, step);
        let spectrum = planted.spectrum();
        let evidence = Evidence::of(
            &spectrum,
            &planted.vector(&amounts),
            StepSize::new(step, &spectrum).unwrap(),
        )
        .unwrap();
        let plug_in = criteria.fit(0.0);
        // Up to T = 1000, where nothing underflows; by convexity a later optimum shows before.
        let scan = |criterion: &dyn Fn(f64) -> f64| {
            (-280..120).map(|k| 10.0_f64.powf(f64::from(k) / 40.0)).any(|t| {
                let rounding = 1e3 * f64::EPSILON * (1.0 + criteria.occam(t));
                criterion(t) < criterion(0.0) - rounding
            })
        };
        let (gate, gate_known) = (evidence.gate(), evidence.gate_given(known).unwrap());
        let scale = 1.0 + criteria.gate(plug_in);
        assert_close(gate, criteria.gate(plug_in), scale, n);
        assert_close(gate_known, criteria.gate(known), scale * (1.0 + plug_in / known), n);
        let helps = [
            scan(&|t| criteria.known(t, plug_in)),
            scan(&|t| criteria.profiled(t)),
            scan(&|t| criteria.known(t, known)),
        ];
        assert_eq!([gate > 1.0, gate > 1.0, gate_known > 1.0], helps, "case {case}, n = {n}");
        let noises = [Noise::PlugIn, Noise::Profiled, Noise::Fixed(known)];
        for ((noise, helps), passed) in noises.into_iter().zip(helps).zip(&mut passed) {
            assert_eq!(evidence.minimiser(noise).unwrap() > 0.0, helps);
            *passed += i32::from(helps);
        }
    }
    // Both answers occur often, or the equivalence was not tested.
    assert!(passed.iter().all(|&count| 40 < count && count < 160), "{passed:?}");
}

/// Section 5.1: the minimiser is the bottom of the curve, to the last digits of its slope.
#[test]
fn design_5_1_minimiser_is_the_exact_optimum() {
    let mut rng = Rng::new(15);
    let mut inside = 0;
    for _ in 0..200 {
        let n = 2 + rng.below(9);
        let eigenvalues = spread(&mut rng, n, 4.0);
        let planted = Planted::new(&mut rng, &eigenvalues);
        let amounts: Vec<f64> = planted
            .eigenvalues
            .iter()
            .map(|value| (0.01 + value).sqrt() * rng.normal() * 10.0)
            .collect();
        let criteria = Criteria::new(&planted.eigenvalues, &amounts, 0.6);
        let spectrum = planted.spectrum();
        let step = StepSize::new(0.6, &spectrum).unwrap();
        let evidence = Evidence::of(&spectrum, &planted.vector(&amounts), step).unwrap();
        let plug_in = criteria.fit(0.0);
        for noise in [Noise::PlugIn, Noise::Profiled, Noise::Fixed(1e-6), Noise::Fixed(0.5)] {
            let literal = |t: f64| match noise {
                Noise::Fixed(variance) => criteria.known(t, variance),
                Noise::PlugIn => criteria.known(t, plug_in),
                Noise::Profiled => criteria.profiled(t),
            };
            let found = evidence.minimiser(noise).unwrap();
            if found == 0.0 {
                continue;
            }
            inside += 1;
            // A fine scan, shrunk around its best point ten times.
            let (mut low, mut high) = (0.0, 4.0 * found + 10.0);
            for _ in 0..10 {
                let at = |k: i32| low + (high - low) * f64::from(k) / 40.0;
                let best = (0..=40)
                    .min_by(|&a, &b| literal(at(a)).total_cmp(&literal(at(b))))
                    .unwrap();
                (low, high) = (at((best - 1).max(0)), at((best + 1).min(40)));
            }
            let scanned = 0.5 * (low + high);
            // Near the optimum rounding hides changes of the horizon smaller than this.
            let width = 0.05 * found + 1e-3;
            let bend = (literal(found + width) + literal(found - width) - 2.0 * literal(found))
                / width.powi(2);
            let size = 1.0 + literal(found).abs() + found;
            let blur = (1e3 * f64::EPSILON * size / bend).sqrt();
            assert!((found - scanned).abs() <= 4.0 * blur, "{found} against {scanned}");
            assert!(literal(found) <= literal(scanned) + 1e3 * f64::EPSILON * size);
            // Symmetric differences of the literal criterion vanish far below the blur.
            let slope = (literal(found + blur) - literal(found - blur)) / (2.0 * blur);
            assert!(slope.abs() <= 4.0 * blur * bend);
        }
    }
    assert!(inside > 200, "only {inside} optima were tested");
}

/// Section 5.1: where the optimum has a closed form the minimiser returns it: a single mode of
/// known noise, two modes profiled, and no end at all without a slower mode.
#[test]
fn design_5_1_minimiser_in_closed_form() {
    let spectrum = Spectrum::of(&[vec![4.0]]).unwrap();
    let step = StepSize::new(0.125, &spectrum).unwrap();
    let evidence = Evidence::of(&spectrum, &[3.0], step).unwrap();
    // 9 · 2^−T = σ².
    for variance in [1e-300, 1e-9, 0.5, 8.9] {
        let expected = (9.0_f64.ln() - f64::ln(variance)) / std::f64::consts::LN_2;
        let found = evidence.minimiser(Noise::Fixed(variance)).unwrap();
        assert_close(found, expected, expected + 1.0, 1);
    }
    assert_eq!(evidence.minimiser(Noise::Fixed(9.0)), Ok(0.0));
    assert_eq!(evidence.minimiser(Noise::Fixed(1e300)), Ok(0.0));
    assert_eq!(evidence.minimiser(Noise::Profiled), Ok(0.0));
    assert_eq!(evidence.minimiser(Noise::PlugIn), Ok(0.0));

    // 1.5² · 0.9^T = 0.975^T, whatever the directions.
    let expected = 2.25_f64.ln() / (0.975_f64 / 0.9).ln();
    let mut rng = Rng::new(2);
    for scale in [1e-12, 1.0, 1e12] {
        let planted = Planted::new(&mut rng, &[4.0 * scale, scale]);
        let spectrum = planted.spectrum();
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let residuals = planted.vector(&[1.5, 1.0]);
        let evidence = Evidence::of(&spectrum, &residuals, step).unwrap();
        // Round-off in the two rates is divided by their difference.
        assert_close(evidence.minimiser(Noise::Profiled).unwrap(), expected, 20.0, 2);
        let fast = Evidence::of(&spectrum, &planted.vector(&[1.0, 0.0]), step).unwrap();
        assert_eq!(fast.minimiser(Noise::Profiled), Ok(f64::INFINITY));
        assert!(fast.minimiser(Noise::PlugIn).unwrap().is_finite());
        let slow = Evidence::of(&spectrum, &planted.vector(&[0.0, 1.0]), step).unwrap();
        assert_eq!(slow.minimiser(Noise::Profiled), Ok(0.0));
    }
}

/// Section 5.1: with nothing to move or nothing to explain the gate is 0 and no step is asked
/// for; without residuals the variance cannot be estimated.
#[test]
fn design_5_1_nothing_to_gain() {
    let zero = Spectrum::of(&[vec![0.0, 0.0], vec![0.0, 0.0]]).unwrap();
    let step = StepSize::fraction(0.5, &zero).unwrap();
    let still = Evidence::of(&zero, &[1.0, 2.0], step).unwrap();
    assert_eq!(still.gate().to_bits(), 0);
    for noise in [Noise::PlugIn, Noise::Profiled, Noise::Fixed(0.1)] {
        assert_eq!(still.minimiser(noise), Ok(0.0));
        let curve = still.curve_to(5, noise).unwrap();
        assert!(curve.iter().all(|value| value.to_bits() == curve[0].to_bits()));
    }
    let spectrum = Spectrum::of(&[vec![2.0, 1.0], vec![1.0, 2.0]]).unwrap();
    let step = StepSize::fraction(0.5, &spectrum).unwrap();
    let silent = Evidence::of(&spectrum, &[0.0, 0.0], step).unwrap();
    assert_eq!((silent.gate(), silent.noise_variance(3.0).unwrap()), (0.0, 0.0));
    assert_eq!(silent.minimiser(Noise::Fixed(1.0)), Ok(0.0));
    let refused = Error::OutOfRange {
        quantity: "noise variance",
        found: 0.0,
        allowed: "finite and over 0",
    };
    for noise in [Noise::PlugIn, Noise::Profiled] {
        assert_eq!(silent.at(1.0, noise), Err(refused.clone()));
        assert_eq!(silent.curve(&[1], noise), Err(refused.clone()));
        assert_eq!(silent.curve_to(1, noise), Err(refused.clone()));
        assert_eq!(silent.minimiser(noise), Err(refused.clone()));
    }
}

/// Sec. 7: what cannot be judged is refused, with the numbers that say why.
#[test]
fn sec_7_refusals() {
    let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]]).unwrap();
    let step = StepSize::fraction(0.1, &spectrum).unwrap();
    let of = |residuals: &[f64]| Evidence::of(&spectrum, residuals, step).map(|_| ());
    assert_eq!(
        of(&[1.0]),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    assert!(matches!(
        of(&[1.0, f64::NAN]),
        Err(Error::NotFinite { quantity: "residuals", index: 1, value }) if value.is_nan()
    ));
    let wide = StepSize::new(0.5, &Spectrum::of(&[vec![1.0]]).unwrap()).unwrap();
    assert_eq!(
        evidence_curve(&spectrum, &[1.0, 1.0], wide, Noise::PlugIn, 3),
        Err(Error::StepTooLarge { step: 0.5, limit: 0.25 })
    );
    let evidence = Evidence::of(&spectrum, &[1.0, 1.0], step).unwrap();
    assert_eq!(
        evidence.curve(&[], Noise::PlugIn),
        Err(Error::Empty { quantity: "candidate horizons" })
    );
    for bad in [0.0, -1.0, f64::INFINITY] {
        let refused = Error::OutOfRange {
            quantity: "noise variance",
            found: bad,
            allowed: "finite and over 0",
        };
        assert_eq!(evidence.at(1.0, Noise::Fixed(bad)), Err(refused.clone()));
        assert_eq!(evidence.gate_given(bad), Err(refused.clone()));
        assert_eq!(evidence.minimiser(Noise::Fixed(bad)), Err(refused));
    }
    for bad in [-1.0, f64::INFINITY] {
        let refused = Error::OutOfRange {
            quantity: "horizon",
            found: bad,
            allowed: "finite and at least 0",
        };
        assert_eq!(evidence.at(bad, Noise::PlugIn), Err(refused.clone()));
        assert_eq!(evidence.noise_variance(bad), Err(refused));
    }
    assert_eq!(
        best_horizon(&[1, 2], &[0.0]),
        Err(Error::SizeMismatch { quantity: "curve", found: 1, expected: 2 })
    );
    assert!(matches!(
        best_horizon(&[1, 2], &[0.0, f64::NAN]),
        Err(Error::NotFinite { quantity: "curve", index: 1, .. })
    ));
}
