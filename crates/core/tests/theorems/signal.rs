//! Beyond the paper: signal and noise fitted to the residuals, and the horizon that follows.

use crate::evidence::{Planted, literal_evidence, spread};
use crate::support::*;
use fewstep_core::signal::{Edge, SignalFit};
use fewstep_core::{Error, Rng, Spectrum, StepSize, best_horizon};

/// Profiled evidence at `λ★`, from modes known beforehand.
fn literal_profile(eigenvalues: &[f64], amounts: &[f64], ratio: f64) -> f64 {
    let n = eigenvalues.len() as f64;
    let modes = || eigenvalues.iter().zip(amounts);
    let signal: f64 = modes().map(|(value, r)| r * r / (value + ratio)).sum::<f64>() / n;
    let logarithms: f64 = modes().map(|(value, _)| (signal * (value + ratio)).ln()).sum();
    0.5 * (logarithms / n + 1.0)
}

/// Section 5.2: the evidence of two variances is that of `N(0, τ²K + σ²I)`, by elimination.
#[test]
fn design_5_2_evidence_is_the_literal_marginal_likelihood() {
    for_prompts(|p| {
        let n = p.n();
        let kernel = p.kernel();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let mean = (0..n).map(|i| kernel[i][i]).sum::<f64>() / n as f64;
        let signal = if mean > 0.0 { 0.7 / mean } else { 0.7 };
        for noise in [0.1, 3.0] {
            let literal = literal_evidence(&shifted(&kernel, signal, noise), &p.residuals);
            let found = SignalFit::at(&spectrum, &p.residuals, signal, noise).unwrap();
            let scale = 10.0 + dot(&p.residuals, &p.residuals) / noise / n as f64;
            // Elimination loses what the condition of the matrix costs, at most 10 n here.
            assert_close(found.evidence, literal, 10.0 * scale, n);
            assert_eq!((found.signal_variance, found.noise_variance), (signal, noise));
            assert_eq!(found.edge, None);
            assert_close(found.noise_to_signal(), noise / signal, noise / signal, 1);
        }
        let silent = SignalFit::at(&spectrum, &p.residuals, 0.0, 2.0).unwrap();
        let literal = literal_evidence(&shifted(&kernel, 0.0, 2.0), &p.residuals);
        assert_close(silent.evidence, literal, 10.0 + literal.abs(), n);
        assert_eq!(silent.edge, Some(Edge::NoSignal));
    });
}

/// Section 5.2: no pair of variances on a grid over 24 decades, and none on grids that close in
/// on the best pair, has more evidence (determinants by elimination) than the fit.
#[test]
fn design_5_2_fit_is_the_best_pair_of_variances() {
    let mut rng = Rng::new(52);
    let mut edges = [0; 3];
    for case in 0..24 {
        let (n, width) = [(2, 3), (3, 5), (6, 8), (6, 3), (7, 7), (8, 2)][case % 6];
        let features: Vec<Vec<f64>> = (0..n).map(|_| normals(&mut rng, width)).collect();
        let kernel = product(&features, &transpose(&features));
        let strength = [3.0, 0.3, 0.0][case % 3];
        let signal = multiply(&features, &normals(&mut rng, width));
        let residuals: Vec<f64> =
            signal.iter().map(|f| strength * f + 0.5 * rng.normal()).collect();
        let fit = SignalFit::of(&Spectrum::of(&kernel).unwrap(), &residuals).unwrap();
        // Elimination is of no use where the condition exceeds its digits.
        let literal = |(signal, noise): (f64, f64)| {
            if noise < signal - 20.0 {
                return f64::INFINITY;
            }
            literal_evidence(&shifted(&kernel, signal.exp(), noise.exp()), &residuals)
        };
        let around = |center: (f64, f64), spacing: f64, points: i32| {
            let line = move || (-points..=points).map(move |k| spacing * f64::from(k));
            line().flat_map(move |a| line().map(move |b| (center.0 + a, center.1 + b)))
        };
        let lowest = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
            pairs.min_by(|&a, &b| literal(a).total_cmp(&literal(b))).unwrap()
        };
        // Logarithms of both variances on a wide grid; from each of its valleys, closer looks.
        let best = around((0.0, 0.0), 0.5, 55)
            .filter(|&pair| {
                let bar = literal(pair);
                bar < f64::INFINITY && around(pair, 0.5, 1).all(|near| literal(near) >= bar)
            })
            .map(|valley| {
                literal((0..180).fold(valley, |at, closer| {
                    lowest(&mut around(at, 0.2 * 0.5_f64.powi(closer / 6), 3))
                }))
            })
            .chain(around((0.0, 0.0), 0.5, 55).map(literal))
            .fold(f64::INFINITY, f64::min);
        let size = 10.0 + best.abs();
        assert!(fit.evidence <= best + 1e3 * n as f64 * f64::EPSILON * size, "case {case}");
        match fit.edge {
            None => {
                edges[0] += 1;
                assert_close(fit.evidence, best, 10.0 * size, n);
                let again = literal((fit.signal_variance.ln(), fit.noise_variance.ln()));
                assert_close(fit.evidence, again, size, n);
            }
            Some(Edge::NoSignal) => {
                edges[1] += 1;
                assert_close(
                    fit.noise_variance,
                    dot(&residuals, &residuals) / n as f64,
                    10.0,
                    n,
                );
                let noise = shifted(&kernel, 0.0, fit.noise_variance);
                assert_close(fit.evidence, literal_evidence(&noise, &residuals), size, n);
            }
            Some(Edge::NoNoise) => {
                edges[2] += 1;
                let (solution, log_determinant) = eliminate(&kernel, &residuals);
                let signal = dot(&residuals, &solution) / n as f64;
                let expected = 0.5 * (log_determinant / n as f64 + signal.ln() + 1.0);
                let trace = |a: &[Vec<f64>]| (0..n).map(|i| a[i][i]).sum::<f64>();
                let condition = trace(&kernel) * trace(&inverse(&kernel));
                assert_close(fit.signal_variance, signal, condition * signal, n);
                assert_close(fit.evidence, expected, condition, n);
            }
        }
    }
    assert!(edges.iter().all(|&count| count > 0), "{edges:?}");
}

/// Section 5.2: among several minima in `λ★` the deepest is found.
#[test]
fn design_5_2_fit_finds_the_deepest_of_several_minima() {
    let mut rng = Rng::new(25);
    let mut several = 0;
    for case in 0..150 {
        let n = 4 + rng.below(12);
        let eigenvalues = spread(&mut rng, n, 8.0);
        let planted = Planted::new(&mut rng, &eigenvalues);
        // Energies that jump up and down along the spectrum.
        let amounts: Vec<f64> =
            (0..n).map(|_| 10.0_f64.powf(-4.0 * rng.uniform()) * rng.sign()).collect();
        let residuals = planted.vector(&amounts);
        let fit = SignalFit::of(&planted.spectrum(), &residuals).unwrap();
        let scan: Vec<f64> = (-1800..1000)
            .map(|k| {
                literal_profile(&eigenvalues, &amounts, 10.0_f64.powf(f64::from(k) / 100.0))
            })
            .collect();
        several +=
            usize::from(scan.windows(3).filter(|w| w[1] < w[0] && w[1] < w[2]).count() > 1);
        let deepest = scan.iter().copied().fold(f64::INFINITY, f64::min);
        // Rounding of the kernel moves its smallest eigenvalue by this much of itself.
        let rounding = 1e3 * n as f64 * f64::EPSILON / eigenvalues[n - 1];
        assert!(fit.evidence <= deepest + rounding, "case {case}: {fit:?} {deepest}");
        // The curvature is below 1, so the scan misses the bottom by less than its spacing squared.
        let missed = (std::f64::consts::LN_10 / 100.0).powi(2);
        assert!(fit.evidence >= deepest - missed - rounding, "case {case}: {fit:?} {deepest}");
    }
    assert!(several > 10, "only {several} cases had more than one minimum");
}

/// Section 5.2: both edges and the inputs that leave nothing to decide.
#[test]
fn design_5_2_edges_are_exact() {
    let fit = |kernel: &[Vec<f64>], residuals: &[f64]| {
        SignalFit::of(&Spectrum::of(kernel).unwrap(), residuals).unwrap()
    };
    let ones = vec![vec![1.0, 1.0], vec![1.0, 1.0]];
    // Nothing but signal: a constant residual under an intercept kernel.
    let constant = fit(&ones, &[0.3, 0.3]);
    assert_eq!((constant.edge, constant.evidence), (Some(Edge::NoNoise), f64::NEG_INFINITY));
    assert_eq!((constant.noise_variance, constant.noise_to_signal()), (0.0, 0.0));
    assert_close(constant.signal_variance, 0.18 / 2.0 / 2.0, 1.0, 2);
    // Nothing but noise: residuals that no update can reach.
    let opposed = fit(&ones, &[0.3, -0.3]);
    assert_eq!(opposed.edge, Some(Edge::NoSignal));
    assert_eq!((opposed.signal_variance, opposed.noise_to_signal()), (0.0, f64::INFINITY));
    assert_close(opposed.noise_variance, 0.09, 0.09, 2);
    // Hardly any noise is followed down to where it is: σ² = 2ε² and 2τ² + σ² = 2 · 0.3².
    for epsilon in [1e-3, 1e-6, 1e-9] {
        let quiet = fit(&ones, &[0.3 + epsilon, 0.3 - epsilon]);
        let noise = 2.0 * epsilon * epsilon;
        assert_eq!(quiet.edge, None);
        // ε is what is left of 0.3 ± ε, so it has lost 1/ε of its digits.
        assert_close(quiet.noise_variance / noise, 1.0, 1.0 / epsilon, 2);
        assert_close(quiet.signal_variance, (0.18 - noise) / 2.0, 1.0, 2);
    }
    // Nothing at all.
    for kernel in [&ones, &vec![vec![0.0; 2]; 2]] {
        let silent = fit(kernel, &[0.0, 0.0]);
        assert_eq!((silent.signal_variance, silent.noise_variance), (0.0, 0.0));
        assert_eq!((silent.edge, silent.evidence), (Some(Edge::NoSignal), f64::NEG_INFINITY));
    }
    // What cannot be told apart is noise: one example, one eigenvalue, no kernel.
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let eigenvalues = spectrum.eigenvalues();
        let found = SignalFit::of(&spectrum, &p.residuals).unwrap();
        assert!(found.signal_variance >= 0.0 && found.noise_variance >= 0.0);
        if eigenvalues[0] - eigenvalues[p.n() - 1] <= 1e-12 * eigenvalues[0] {
            assert_eq!(found.edge, Some(Edge::NoSignal));
            let mean = dot(&p.residuals, &p.residuals) / p.n() as f64;
            assert_close(found.noise_variance, mean, mean, p.n());
            assert_close(found.evidence, 0.5 * (mean.ln() + 1.0), 1.0 + mean.ln().abs(), p.n());
        }
    });
}

/// Section 5.2: scaling kernel and residuals scales the two variances and nothing else.
#[test]
fn design_5_2_units_do_not_matter() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let plain = SignalFit::of(&spectrum, &p.residuals).unwrap();
        let kernel = shifted(&p.kernel(), 1024.0, 0.0);
        let residuals: Vec<f64> = p.residuals.iter().map(|r| r * 8.0).collect();
        let scaled = SignalFit::of(&Spectrum::of(&kernel).unwrap(), &residuals).unwrap();
        assert_eq!(plain.edge, scaled.edge);
        assert_close(scaled.noise_variance, 64.0 * plain.noise_variance, 64.0, p.n());
        let signal = plain.signal_variance / 16.0;
        assert_close(scaled.signal_variance, signal, signal, p.n());
    });
}

/// Section 5.2: on residuals drawn from the model, the fit is off by what Fisher information
/// allows: each draw within 4.5 standard errors, their mean within 4 of its own.
#[test]
fn design_5_2_fit_recovers_the_variances() {
    let (n, draws, signal, noise) = (250, 40, 2.0, 0.5);
    let mut rng = Rng::new(522);
    let eigenvalues = spread(&mut rng, n, 2.0);
    let planted = Planted::new(&mut rng, &eigenvalues);
    let spectrum = planted.spectrum();
    // Information of N(0, v) about its variance is 1/(2v²).
    let sum = |function: &dyn Fn(f64) -> f64| -> f64 {
        eigenvalues.iter().map(|l| function(*l) / (signal * l + noise).powi(2) / 2.0).sum()
    };
    let (aa, ab, bb) = (sum(&|l| l * l), sum(&|l| l), sum(&|_| 1.0));
    let determinant = aa * bb - ab * ab;
    let errors = [(bb / determinant).sqrt(), (aa / determinant).sqrt()];
    let mut means = [0.0; 2];
    for _ in 0..draws {
        let amounts: Vec<f64> =
            eigenvalues.iter().map(|l| (signal * l + noise).sqrt() * rng.normal()).collect();
        let fit = SignalFit::of(&spectrum, &planted.vector(&amounts)).unwrap();
        let off = [fit.signal_variance - signal, fit.noise_variance - noise];
        for ((off, error), mean) in off.iter().zip(errors).zip(&mut means) {
            assert!(off.abs() < 4.5 * error, "{off} against {error}");
            *mean += off / f64::from(draws);
        }
    }
    for (mean, error) in means.iter().zip(errors) {
        assert!(mean.abs() < 4.0 * error / f64::from(draws).sqrt(), "{mean} against {error}");
    }
}

/// Section 5.4: the gap at each candidate is `dᵀ(τ²K + σ²I)d` with `d` the difference between
/// the weights of `T` literal steps and those of the posterior mean, and the best one is chosen.
#[test]
fn design_5_4_bayes_gap_horizon() {
    let candidates = [0, 1, 2, 5, 9, 20];
    for_prompts(|p| {
        let (n, kernel, coupling) = (p.n(), p.kernel(), p.coupling());
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        let mean = (0..n).map(|i| kernel[i][i]).sum::<f64>() / n as f64;
        let unit = if mean > 0.0 { mean } else { 1.0 };
        for (signal, noise) in [(0.8 / unit, 0.5), (0.0, 0.5), (3.0 / unit, 2.0)] {
            let fit = SignalFit::at(&spectrum, &p.residuals, signal, noise).unwrap();
            let (gaps, best) =
                fit.bayes_gap_horizon(&spectrum, &coupling, step, &candidates).unwrap();
            let covariance = shifted(&kernel, signal, noise);
            let bayes: Vec<f64> =
                eliminate(&covariance, &coupling).0.iter().map(|x| signal * x).collect();
            let mut literal = Vec::new();
            for horizon in candidates {
                // w ← w + ρ(k_x − Kw) is q_T(K) k_x.
                let mut weights = vec![0.0; n];
                for _ in 0..horizon {
                    let left = subtract(&coupling, &multiply(&kernel, &weights));
                    weights.iter_mut().zip(left).for_each(|(w, l)| *w += step.get() * l);
                }
                let off = subtract(&weights, &bayes);
                literal.push(dot(&off, &multiply(&covariance, &off)));
            }
            let reach = norm(&coupling) * (step.get() * 20.0 + signal / noise);
            let scale = (signal * unit * n as f64 + noise) * reach.powi(2);
            assert_all_close(&gaps, &literal, scale, n);
            let expected = best_horizon(&candidates, &gaps).unwrap();
            assert_eq!(best, expected);
            let smallest = literal.iter().copied().fold(f64::INFINITY, f64::min);
            assert_close(literal[best.index], smallest, scale, n);
            if signal == 0.0 {
                assert_eq!(best.horizon, 0);
            }
        }
    });
}

/// Section 5.4: without noise the gap is `τ²‖(I − ρΦᵀΦ)^T φ(x)‖²`, what literal steps leave of
/// the weights; modes that no update reaches do not count, whatever rounding puts there.
#[test]
fn design_5_4_bayes_gap_without_noise() {
    let mut rng = Rng::new(54);
    let (n, width) = (6, 2);
    let features: Vec<Vec<f64>> = (0..n).map(|_| normals(&mut rng, width)).collect();
    let query = normals(&mut rng, width);
    let kernel = product(&features, &transpose(&features));
    let spectrum = Spectrum::of(&kernel).unwrap();
    let step = StepSize::fraction(0.4, &spectrum).unwrap();
    let residuals = multiply(&features, &normals(&mut rng, width));
    let fit = SignalFit::of(&spectrum, &residuals).unwrap();
    assert_eq!((fit.edge, fit.noise_variance), (Some(Edge::NoNoise), 0.0));

    // A coupling with a part outside the range of the kernel, as single precision leaves it.
    let stray = normals(&mut rng, n);
    let metric = product(&transpose(&features), &features);
    let inside = eliminate(&metric, &multiply(&transpose(&features), &stray)).0;
    let stray = subtract(&stray, &multiply(&features, &inside));
    let exact = multiply(&features, &query);
    let coupling: Vec<f64> = exact.iter().zip(&stray).map(|(k, s)| k + 1e-6 * s).collect();

    let candidates = [0, 1, 2, 3, 30];
    let (gaps, best) = fit.bayes_gap_horizon(&spectrum, &coupling, step, &candidates).unwrap();
    let shrink = shifted(&metric, -step.get(), 1.0);
    let literal = candidates.map(|horizon| {
        let left = (0..horizon).fold(query.clone(), |left, _| multiply(&shrink, &left));
        fit.signal_variance * dot(&left, &left)
    });
    assert_all_close(&gaps, &literal, literal[0], n);
    assert!(best.at_edge && best.horizon == 30);
}

/// Sections 5.2 and 5.4: what cannot be judged is refused, with the numbers that say why.
#[test]
fn design_5_2_refusals() {
    let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]]).unwrap();
    let step = StepSize::fraction(0.1, &spectrum).unwrap();
    assert_eq!(
        SignalFit::of(&spectrum, &[1.0]),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    assert_eq!(
        SignalFit::of(&spectrum, &[f64::INFINITY, 0.0]),
        Err(Error::NotFinite { quantity: "residuals", index: 0, value: f64::INFINITY })
    );
    let at = |signal, noise| SignalFit::at(&spectrum, &[1.0, 2.0], signal, noise);
    let refused = |quantity| {
        Err(Error::OutOfRange { quantity, found: -1.0, allowed: "finite and at least 0" })
    };
    assert_eq!(at(-1.0, 1.0), refused("signal variance"));
    assert_eq!(at(1.0, -1.0), refused("noise variance"));
    assert_eq!(
        SignalFit::at(&spectrum, &[1.0], 1.0, 1.0),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    // Residuals that the variances exclude.
    assert_eq!(at(0.0, 0.0).map(|fit| fit.evidence), Ok(f64::INFINITY));

    let fit = at(1.0, 1.0).unwrap();
    assert_eq!(
        fit.benchmark(&[0.0, f64::NEG_INFINITY]),
        Err(Error::NotFinite { quantity: "residuals", index: 1, value: f64::NEG_INFINITY })
    );
    assert_eq!(
        SignalFit { signal_variance: -1.0, ..fit }.benchmark(&[1.0, 2.0]),
        Err(Error::OutOfRange {
            quantity: "signal variance",
            found: -1.0,
            allowed: "finite and at least 0"
        })
    );
    let gap = |coupling: &[f64], step, candidates: &[u32]| {
        fit.bayes_gap_horizon(&spectrum, coupling, step, candidates)
    };
    assert_eq!(
        gap(&[1.0, 1.0], step, &[]),
        Err(Error::Empty { quantity: "candidate horizons" })
    );
    assert_eq!(
        gap(&[1.0], step, &[0]),
        Err(Error::SizeMismatch { quantity: "coupling", found: 1, expected: 2 })
    );
    let wide = StepSize::new(0.5, &Spectrum::of(&[vec![1.0]]).unwrap()).unwrap();
    assert_eq!(
        gap(&[1.0, 1.0], wide, &[0]),
        Err(Error::StepTooLarge { step: 0.5, limit: 0.25 })
    );
}
