//! The bound for a decision that was made, against the whole family of candidates.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "what is passed on must be passed on exactly")]

use fewstep_core::{
    Block, Decision, Error, Geometry, Policy, Rng, StepSize, best_horizon, decide,
};
use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference, guarantee};

/// Ten examples and three blocks of rank four; residuals that the second explains, plus noise.
fn geometry(seed: u64, noise: f64) -> Geometry {
    let mut rng = Rng::new(seed);
    let (n, width) = (10, 4);
    let mut normals = |count: usize| (0..count).map(|_| rng.normal()).collect::<Vec<f64>>();
    let truth = normals(width);
    let mut residuals: Vec<f64> = normals(n).iter().map(|x| noise * x).collect();
    let blocks = (0..3)
        .map(|head| {
            let rows: Vec<Vec<f64>> = (0..n).map(|_| normals(width)).collect();
            if head == 1 {
                for (residual, row) in residuals.iter_mut().zip(&rows) {
                    *residual += row.iter().zip(&truth).map(|(x, t)| x * t).sum::<f64>();
                }
            }
            Block::from_features(format!("value.0.{head}"), &rows, None).unwrap()
        })
        .collect();
    Geometry::new(residuals, blocks).unwrap()
}

fn decided(geometry: &Geometry, horizons: &[u32]) -> Decision {
    decide(geometry, &Policy { horizons: horizons.to_vec(), ..Policy::paper() }).unwrap()
}

/// The bound is the evidence of the best horizon plus its slack.
#[test]
fn bound_is_evidence_plus_slack() {
    let (geometry, horizons) = (geometry(2, 0.5), Policy::paper().horizons);
    let decision = decided(&geometry, &horizons);
    let bound = guarantee(geometry.residuals(), &decision, 0.95).unwrap().unwrap();
    let least = decision.how_far.evidence_fixed.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(
        (bound.bound - least - bound.slack).abs() <= 4.0 * f64::EPSILON * bound.bound.abs()
    );
    assert!(bound.slack > 0.0);
    assert_eq!(bound.confidence, 0.95);
    let surer = guarantee(geometry.residuals(), &decision, 0.99).unwrap().unwrap();
    assert!(surer.slack > bound.slack);
}

/// Its slack is that of the whole family of candidates, whichever of them is chosen.
#[test]
fn bound_is_that_of_all_candidates() {
    let geometry = geometry(2, 0.5);
    for horizons in [(0..=30).collect(), vec![3, 5, 40], vec![7], vec![0, 100]] {
        let decision = decided(&geometry, &horizons);
        let step = StepSize::new(decision.how_far.step_size, &decision.spectrum).unwrap();
        let residuals = geometry.residuals();
        let square: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let variance = square / residuals.len() as f64;
        let family =
            EvidenceFamily::new(&decision.spectrum, step, variance, &horizons).unwrap();
        let reference = Reference::Benchmark {
            signal_variance: decision.signal.signal_variance,
            noise_variance: decision.signal.noise_variance,
        };
        let all = PacBayes::new(&family, reference).unwrap();
        let best = best_horizon(&horizons, &decision.how_far.evidence_fixed).unwrap();
        let evidence = decision.how_far.evidence_fixed[best.index];
        let (found, expected) = (
            guarantee(geometry.residuals(), &decision, 0.95).unwrap().unwrap(),
            all.bound(best.horizon, evidence, 0.95).unwrap(),
        );
        let apart = (found.slack - expected.slack).abs() / expected.slack;
        assert!(apart < 1e-14, "{horizons:?}: {apart:e}");
        assert!((found.bound - expected.bound).abs() < 1e-14 * expected.bound.abs());
    }
}

/// Without residuals there is no evidence to bound; without movement there is.
#[test]
fn prompts_with_nothing_to_do() {
    let block = |name| Block::from_features(name, &[vec![1.0], vec![2.0]], None).unwrap();
    let geometry = Geometry::new(vec![0.0, 0.0], vec![block("value.0.0")]).unwrap();
    let decision = decided(&geometry, &[0, 1]);
    assert_eq!(guarantee(geometry.residuals(), &decision, 0.95), Ok(None));

    let still = Block::from_features("value.0.0", &[vec![0.0], vec![0.0]], None).unwrap();
    let geometry = Geometry::new(vec![1.0, -1.0], vec![still]).unwrap();
    let decision = decided(&geometry, &[0, 1]);
    let bound = guarantee(geometry.residuals(), &decision, 0.95).unwrap().unwrap();
    assert!(bound.bound.is_finite() && bound.slack > 0.0);
}

/// What does not belong together is refused.
#[test]
fn bad_input_is_refused() {
    let geometry = geometry(2, 0.5);
    let decision = decided(&geometry, &[0, 1, 2]);
    assert!(matches!(
        guarantee(geometry.residuals(), &decision, 1.0),
        Err(Error::OutOfRange { quantity: "confidence", found: 1.0, .. })
    ));
    assert!(matches!(
        guarantee(&[1.0], &decision, 0.95),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 10 })
    ));
}
