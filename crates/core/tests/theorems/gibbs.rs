//! Sec. 7 and Rem. E.10: the Gibbs posterior over horizons.

use crate::support::{assert_all_close, assert_close, dot, for_prompts, norm, subtract};
use fewstep_core::gibbs::{GibbsPosterior, relative_entropy};
use fewstep_core::{Error, Filter, Rng, Spectrum, StepSize};

const HORIZONS: [u32; 6] = [0, 1, 3, 7, 12, 30];

/// A random prior and random evidence for [`HORIZONS`].
fn random_scores(rng: &mut Rng, spread: f64) -> (Vec<f64>, Vec<f64>) {
    let prior: Vec<f64> = HORIZONS.iter().map(|_| 0.05 + rng.uniform()).collect();
    let sum: f64 = prior.iter().sum();
    let evidence = HORIZONS.iter().map(|_| spread * rng.normal()).collect();
    (prior.iter().map(|p| p / sum).collect(), evidence)
}

/// Rem. E.10: the posterior is the prior, tilted by `exp(−βnℓ)/Z`; averages under it are tilted
/// averages under the prior; it depends on evidence measurably, here: by a fixed rule.
#[test]
fn rem_e_10_posterior_is_a_tilted_prior() {
    let mut rng = Rng::new(5);
    for (examples, beta) in [(1, 1.0), (7, 0.3), (40, 0.05), (3, 1e-7)] {
        let (prior, evidence) = random_scores(&mut rng, 1.0);
        let posterior =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, examples, beta).unwrap();

        let tilts: Vec<f64> =
            evidence.iter().map(|l| (-beta * examples as f64 * l).exp()).collect();
        let normaliser = dot(&prior, &tilts);
        let densities: Vec<f64> = tilts.iter().map(|tilt| tilt / normaliser).collect();
        let literal: Vec<f64> = prior.iter().zip(&densities).map(|(p, d)| p * d).collect();
        assert_all_close(posterior.weights(), &literal, 1.0, HORIZONS.len());
        assert_close(posterior.weights().iter().sum(), 1.0, 1.0, 1);

        let values: Vec<f64> = HORIZONS.iter().map(|_| rng.normal()).collect();
        let weighted: Vec<f64> = values.iter().zip(&densities).map(|(v, d)| v * d).collect();
        let found = posterior.expectation(&values).unwrap();
        assert_close(found, dot(&prior, &weighted), norm(&values), HORIZONS.len());
        let steps: Vec<f64> = HORIZONS.iter().map(|&t| f64::from(t)).collect();
        assert_close(posterior.mean_horizon(), dot(&literal, &steps), 30.0, HORIZONS.len());

        // Tilting twice is tilting by the sum, and the same data give the same posterior.
        let (first, second) = (0.25 * beta, 0.75 * beta);
        let half =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, examples, first).unwrap();
        let twice =
            GibbsPosterior::with_prior(&HORIZONS, half.weights(), &evidence, examples, second)
                .unwrap();
        assert_all_close(twice.weights(), posterior.weights(), 1.0, HORIZONS.len());
        let again =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, examples, beta).unwrap();
        assert_eq!(again, posterior);
    }
}

/// Rem. E.10: the tilt is what minimises `βn E_ν[ℓ] + KL(ν‖π₀)`, and the minimum is `−log Z`.
#[test]
fn rem_e_10_posterior_is_the_best_compromise() {
    let mut rng = Rng::new(6);
    let (examples, beta) = (9, 0.4);
    let factor = beta * examples as f64;
    for _ in 0..20 {
        let (prior, evidence) = random_scores(&mut rng, 1.0);
        let posterior =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, examples, beta).unwrap();
        let tilts: Vec<f64> = evidence.iter().map(|l| (-factor * l).exp()).collect();
        let minimum = -dot(&prior, &tilts).ln();
        let scale = 1.0 + factor * norm(&evidence);

        let expected = factor * posterior.expectation(&evidence).unwrap();
        assert_close(expected + posterior.relative_entropy(), minimum, scale, HORIZONS.len());
        let general = relative_entropy(posterior.weights(), &prior).unwrap();
        assert_close(general, posterior.relative_entropy(), scale, HORIZONS.len());
        for _ in 0..20 {
            let other: Vec<f64> = HORIZONS.iter().map(|_| rng.uniform()).collect();
            let sum: f64 = other.iter().sum();
            let other: Vec<f64> = other.iter().map(|w| w / sum).collect();
            let literal: f64 =
                other.iter().zip(&prior).map(|(w, p)| w * (w / p).ln()).sum::<f64>();
            let found = relative_entropy(&other, &prior).unwrap();
            assert_close(found, literal, 1.0, HORIZONS.len());
            assert!(factor * dot(&other, &evidence) + literal > minimum);
        }
    }
}

/// Sec. 7: under a uniform prior the most likely horizon has the best evidence, at every
/// temperature; of equal evidence, the smaller horizon.
#[test]
fn sec_7_map_minimises_evidence() {
    let mut rng = Rng::new(7);
    for beta in [1e-9, 1e-3, 1.0, 1e9] {
        for _ in 0..50 {
            let (_, evidence) = random_scores(&mut rng, 1.0);
            let mut best = 0;
            for i in 1..HORIZONS.len() {
                if evidence[i] < evidence[best] {
                    best = i;
                }
            }
            let posterior = GibbsPosterior::new(&HORIZONS, &evidence, 10, beta).unwrap();
            assert_eq!(posterior.map(), HORIZONS[best]);
        }
        let tied = GibbsPosterior::new(&[8, 2, 5], &[0.25, 0.25, 0.5], 10, beta).unwrap();
        assert_eq!(tied.map(), 2);
    }
    // With a prior of its own, the literal weights decide.
    for _ in 0..50 {
        let (prior, evidence) = random_scores(&mut rng, 0.1);
        let literal: Vec<f64> =
            prior.iter().zip(&evidence).map(|(p, l)| p * (-10.0 * l).exp()).collect();
        let best = (0..6).max_by(|&i, &j| literal[i].total_cmp(&literal[j])).unwrap();
        let posterior =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, 10, 1.0).unwrap();
        assert_eq!(posterior.map(), HORIZONS[best]);
    }
}

/// Sec. 7: the averaged filter gives the average of what literal gradient steps give.
#[test]
fn sec_7_mixture_of_filters() {
    for_prompts(|prompt| {
        let spectrum = Spectrum::of(&prompt.kernel()).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        let mut rng = Rng::new(prompt.seed);
        let (prior, evidence) = random_scores(&mut rng, 0.1);
        let posterior =
            GibbsPosterior::with_prior(&HORIZONS, &prior, &evidence, prompt.n(), 0.7).unwrap();

        // θ ← θ + ρ Φᵀ(r − Φθ); the fit Φθ and the correction φ(x)ᵀθ, averaged over stops.
        let mut theta = vec![0.0; prompt.query.len()];
        let mut fit = vec![0.0; prompt.n()];
        let mut correction = 0.0;
        for taken in 0..=30 {
            let outputs: Vec<f64> = prompt.features.iter().map(|f| dot(f, &theta)).collect();
            if let Some(position) = HORIZONS.iter().position(|&horizon| horizon == taken) {
                let weight = posterior.weights()[position];
                fit.iter_mut().zip(&outputs).for_each(|(total, x)| *total += weight * x);
                correction += weight * dot(&prompt.query, &theta);
            }
            let errors = subtract(&prompt.residuals, &outputs);
            for (row, error) in prompt.features.iter().zip(errors) {
                theta.iter_mut().zip(row).for_each(|(t, x)| *t += step.get() * error * x);
            }
        }

        let filter = posterior.average(step);
        let found = filter.prompt_fit(&spectrum, &prompt.residuals).unwrap();
        assert_all_close(&found, &fit, norm(&prompt.residuals), prompt.n());
        let found =
            filter.query_correction(&spectrum, &prompt.coupling(), &prompt.residuals).unwrap();
        let scale = norm(&prompt.coupling()) * norm(&prompt.residuals) * step.get() * 30.0;
        assert_close(found, correction, scale, prompt.n());
    });
}

/// Evidence of any magnitude and temperatures near the end of the number range give weights.
#[test]
fn sec_7_weights_are_stable() {
    let shifted = |shift: f64| {
        let evidence = [0.5 + shift, 0.25 + shift, 0.75 + shift];
        GibbsPosterior::new(&[0, 1, 2], &evidence, 4, 1.0).unwrap()
    };
    // Quarters are exact next to a million, so the weights do not change at all.
    assert_eq!(shifted(1e6).weights(), shifted(0.0).weights());
    assert_eq!(shifted(-1e6).weights(), shifted(0.0).weights());

    for (beta, spread) in [(1e308, 1e-3), (1e300, 1e6), (1.0, 1e308), (1e-300, 1e-3)] {
        let evidence = [spread, -spread, spread, -spread];
        let posterior = GibbsPosterior::new(&[0, 1, 2, 3], &evidence, 1_000_000, beta).unwrap();
        let expected = if beta < 1.0 { [0.25; 4] } else { [0.0, 0.5, 0.0, 0.5] };
        assert_all_close(posterior.weights(), &expected, 1.0, 4);
        let entropy = if beta < 1.0 { 0.0 } else { 2.0_f64.ln() };
        assert_close(posterior.relative_entropy(), entropy, 1.0, 4);
    }
    // A prior that almost excludes the truth does not overflow either.
    let prior = [1e-300, 1.0];
    let posterior =
        GibbsPosterior::with_prior(&[0, 1], &prior, &[0.0, 9.0], 1000, 1.0).unwrap();
    assert_eq!(posterior.weights(), [1.0, 0.0]);
    assert_eq!(posterior.map(), 0);
    assert_close(posterior.relative_entropy(), 300.0 * 10.0_f64.ln(), 700.0, 2);
}

/// The relative entropy keeps its digits however close the weights are to the prior.
#[test]
fn sec_7_small_relative_entropy_keeps_its_digits() {
    // Two horizons h apart: with m = tanh(h/2) it is m²/2 + m⁴/12 + m⁶/30 + …
    for h in [1e-12_f64, 1e-8, 1e-4, 1e-2] {
        let posterior = GibbsPosterior::new(&[0, 1], &[0.0, h], 1, 1.0).unwrap();
        let m = (h / 2.0).tanh();
        let expected = m.powi(2) / 2.0 + m.powi(4) / 12.0 + m.powi(6) / 30.0 + m.powi(8) / 56.0;
        assert_close(posterior.relative_entropy(), expected, expected, 2);
    }
}

/// Every wrong input is refused with the numbers that were found.
#[test]
fn sec_7_wrong_input_is_refused() {
    let empty = GibbsPosterior::new(&[], &[], 5, 1.0);
    assert_eq!(empty, Err(Error::Empty { quantity: "set of candidate horizons" }));
    let no_prompt = GibbsPosterior::new(&[0], &[0.1], 0, 1.0);
    assert_eq!(no_prompt, Err(Error::Empty { quantity: "prompt" }));
    let twice = GibbsPosterior::new(&[3, 1, 3], &[0.1; 3], 5, 1.0);
    assert_eq!(
        twice,
        Err(Error::OutOfRange {
            quantity: "candidate horizon",
            found: 3.0,
            allowed: "named only once"
        })
    );
    let short = GibbsPosterior::new(&[0, 1], &[0.1], 5, 1.0);
    assert_eq!(short, Err(Error::SizeMismatch { quantity: "evidence", found: 1, expected: 2 }));
    let infinite = GibbsPosterior::new(&[0, 1], &[0.1, f64::INFINITY], 5, 1.0);
    assert_eq!(
        infinite,
        Err(Error::NotFinite { quantity: "evidence", index: 1, value: f64::INFINITY })
    );
    for beta in [0.0, -1.0, f64::INFINITY] {
        let refused = GibbsPosterior::new(&[0], &[0.1], 5, beta);
        let quantity = "inverse temperature";
        let allowed = "finite and over 0";
        assert_eq!(refused, Err(Error::OutOfRange { quantity, found: beta, allowed }));
    }
    let excluded = GibbsPosterior::with_prior(&[0, 1], &[0.0, 1.0], &[0.1; 2], 5, 1.0);
    let allowed = "finite and over 0";
    assert_eq!(
        excluded,
        Err(Error::OutOfRange { quantity: "prior weight", found: 0.0, allowed })
    );
    let vanishing = GibbsPosterior::with_prior(&[0, 1], &[5e-324, 4.0], &[0.1; 2], 5, 1.0);
    assert_eq!(
        vanishing,
        Err(Error::OutOfRange { quantity: "prior weight", found: 0.0, allowed })
    );
    let long = GibbsPosterior::with_prior(&[0], &[0.5, 0.5], &[0.1], 5, 1.0);
    assert_eq!(long, Err(Error::SizeMismatch { quantity: "prior", found: 2, expected: 1 }));
    let posterior = GibbsPosterior::new(&[0, 1], &[0.1; 2], 5, 1.0).unwrap();
    assert_eq!(
        posterior.expectation(&[1.0]),
        Err(Error::SizeMismatch { quantity: "values per horizon", found: 1, expected: 2 })
    );
    assert_eq!(relative_entropy(&[], &[]), Err(Error::Empty { quantity: "prior" }));
    assert_eq!(
        relative_entropy(&[-1.0, 2.0], &[0.5; 2]),
        Err(Error::OutOfRange {
            quantity: "posterior weight",
            found: -1.0,
            allowed: "finite and at least 0"
        })
    );
    assert_eq!(
        relative_entropy(&[0.0; 2], &[0.5; 2]),
        Err(Error::OutOfRange { quantity: "sum of the weights", found: 0.0, allowed })
    );
}
