//! What extreme candidates give, and what is said about input that no bound can be computed from.

use crate::support::matrix;
use fewstep_core::{Error, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{Certificate, EvidenceFamily, PacBayes, Reference};

/// Horizons so long that ratios underflow, and temperatures at the end of the range, still give
/// finite numbers or a typed error.
#[test]
fn sec_7_extreme_candidates() {
    let spectrum = Spectrum::of(&[vec![2.0, 0.0], vec![0.0, 1.0]]).unwrap();
    let step = StepSize::fraction(0.9, &spectrum).unwrap();
    let family = EvidenceFamily::new(&spectrum, step, 0.5, &[u32::MAX]).unwrap();
    let found = PacBayes::new(&family, Reference::Horizon(0)).unwrap();
    for bound in [found.bound(u32::MAX, 1.0, 0.9), found.exact_bound(u32::MAX, 1.0, 0.9)] {
        let bound = bound.unwrap();
        assert!(bound.slack >= 0.0 && bound.slack < 1e-100);
        assert!(bound.inverse_temperature.is_finite());
    }
    assert!(found.relative_entropies()[0] > 1e9 && found.relative_entropies()[0].is_finite());
    assert!(found.vanishing_gap(u32::MAX, 0.9).unwrap().bound.is_finite());

    let family = EvidenceFamily::new(&spectrum, step, 1e-200, &[0]).unwrap();
    let reference = Reference::Benchmark { signal_variance: 1.0, noise_variance: 1.0 };
    assert!(matches!(
        PacBayes::new(&family, reference),
        Err(Error::NotFinite { quantity: "variances of the candidates", index: 0, value })
            if value == f64::INFINITY
    ));
}

/// Every wrong input is refused with the numbers that were found.
#[test]
fn sec_7_wrong_bounds_are_refused() {
    let spectrum = Spectrum::of(&[vec![2.0, 0.0], vec![0.0, 1.0]]).unwrap();
    let step = StepSize::fraction(0.5, &spectrum).unwrap();
    let new = |noise: f64, horizons: &[u32]| {
        EvidenceFamily::new(&spectrum, step, noise, horizons).map(|_| ()).unwrap_err()
    };
    assert_eq!(new(1.0, &[]), Error::Empty { quantity: "set of candidate horizons" });
    let positive = "finite and over 0";
    let out = |quantity, found, allowed| Error::OutOfRange { quantity, found, allowed };
    assert_eq!(new(-1.0, &[0]), out("noise variance", -1.0, positive));
    assert_eq!(new(1.0, &[4, 4]), out("candidate horizon", 4.0, "named only once"));
    let stiff = Spectrum::of(&[vec![100.0]]).unwrap();
    let refused = EvidenceFamily::new(&stiff, step, 1.0, &[0]).map(|_| ()).unwrap_err();
    assert_eq!(refused, Error::StepTooLarge { step: 0.25, limit: 0.01 });

    let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 3]).unwrap();
    let against = |reference| PacBayes::new(&family, reference).unwrap_err();
    let benchmark = |signal_variance, noise_variance| {
        against(Reference::Benchmark { signal_variance, noise_variance })
    };
    let not_negative = "finite and at least 0";
    assert_eq!(benchmark(-1.0, 1.0), out("signal variance", -1.0, not_negative));
    assert_eq!(benchmark(1.0, 0.0), out("noise variance", 0.0, positive));
    let wide = matrix(&[vec![1.0]]);
    assert_eq!(
        against(Reference::Covariance(&wide)),
        Error::SizeMismatch { quantity: "reference covariance", found: 1, expected: 2 }
    );
    let lopsided = matrix(&[vec![1.0, 0.5], vec![0.0, 1.0]]);
    assert_eq!(
        against(Reference::Covariance(&lopsided)),
        Error::NotSymmetric { row: 0, column: 1, upper: 0.5, lower: 0.0 }
    );
    let singular = matrix(&[vec![1.0, 0.0], vec![0.0, 0.0]]);
    assert_eq!(
        against(Reference::Covariance(&singular)),
        out(
            "smallest eigenvalue of the reference covariance",
            0.0,
            "over 0 by more than rounding"
        )
    );

    let found = PacBayes::new(&family, Reference::Horizon(3)).unwrap();
    let fraction = "over 0 and under 1";
    for confidence in [0.0, 1.0] {
        let refused = out("confidence", confidence, fraction);
        assert_eq!(found.bound(0, 0.5, confidence).unwrap_err(), refused);
        assert_eq!(found.exact_bound(0, 0.5, confidence).unwrap_err(), refused);
        assert_eq!(found.certificate(1.0, confidence).unwrap_err(), refused);
        assert_eq!(found.rate_certificate(1.0, confidence).unwrap_err(), refused);
        assert_eq!(found.upper_deviations(confidence).unwrap_err(), refused);
        assert_eq!(found.vanishing_gap(0, confidence).unwrap_err(), refused);
        assert_eq!(found.gap_bound(&[0.1, 0.2], confidence).unwrap_err(), refused);
    }
    let absent = out("horizon", 7.0, "one of the candidates");
    assert_eq!(found.bound(7, 0.5, 0.9).unwrap_err(), absent);
    assert_eq!(found.vanishing_gap(7, 0.9).unwrap_err(), absent);
    assert!(matches!(
        found.bound(0, f64::NAN, 0.9),
        Err(Error::NotFinite { quantity: "evidence", index: 0, value }) if value.is_nan()
    ));
    let short = Error::SizeMismatch { quantity: "evidence", found: 1, expected: 2 };
    assert_eq!(found.gap_bound(&[0.1], 0.9).unwrap_err(), short);
    let temperature = out("inverse temperature", 0.0, positive);
    assert_eq!(found.log_moments(0.0).unwrap_err(), temperature);
    assert_eq!(found.log_moment_bounds(0.0).unwrap_err(), temperature);
    assert_eq!(found.certificate(0.0, 0.9).unwrap_err(), temperature);
    assert_eq!(
        found.rate_certificate(-1.0, 0.9).unwrap_err(),
        out("budget for the relative entropy", -1.0, not_negative)
    );
    assert_eq!(
        found.clone().with_prior(&[1.0]).unwrap_err(),
        Error::SizeMismatch { quantity: "prior", found: 1, expected: 2 }
    );
    let certificate = found.certificate(1.0, 0.9).unwrap();
    assert_eq!(certificate.bound(&[0.5, 0.5], &[0.1]).unwrap_err(), short);
    assert_eq!(
        certificate.slack(&[1.0]).unwrap_err(),
        Error::SizeMismatch { quantity: "posterior weights", found: 1, expected: 2 }
    );
    assert_eq!(
        Certificate::new(&[1.0], &[0.1], 1.0, 0, 0.9).unwrap_err(),
        Error::Empty { quantity: "prompt" }
    );
    assert_eq!(
        Certificate::new(&[1.0], &[0.1, 0.2], 1.0, 1, 0.9).unwrap_err(),
        Error::SizeMismatch { quantity: "log-moments", found: 2, expected: 1 }
    );
}
