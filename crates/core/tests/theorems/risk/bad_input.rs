//! What is said about input that no risk can be computed from.

use fewstep_core::risk::{
    Benchmark, decompose, floor, mode_weights, optimal_shrinkages, projector_gap,
    query_benefit, query_gap, query_posterior_variance, query_risk, shrinkage_excess,
    shrinkage_risk,
};
use fewstep_core::{Error, Matrix, NoUpdate, Spectrum};

/// Every function names what is wrong with its input.
#[test]
fn risk_bad_input_is_named() {
    let out_of_range =
        |quantity, found, allowed| Error::OutOfRange { quantity, found, allowed };
    let (over, least) = ("finite and over 0", "finite and at least 0");
    assert_eq!(Benchmark::new(-1.0, 1.0), Err(out_of_range("signal variance", -1.0, least)));
    assert_eq!(Benchmark::new(1.0, 0.0), Err(out_of_range("noise variance", 0.0, over)));
    assert!(
        Benchmark::new(f64::INFINITY, 1.0).is_err() && Benchmark::new(1.0, f64::NAN).is_err()
    );

    let spectrum = Spectrum::of(Matrix::identity(2)).unwrap();
    let benchmark = Benchmark::new(1.0, 1.0).unwrap();
    let short = Error::SizeMismatch { quantity: "coupling", found: 1, expected: 2 };
    let coupling = [1.0];
    assert_eq!(mode_weights(&spectrum, &coupling, &benchmark), Err(short.clone()));
    assert_eq!(query_gap(&spectrum, &coupling, &NoUpdate, &benchmark), Err(short.clone()));
    assert_eq!(query_benefit(&spectrum, &coupling, &NoUpdate, &benchmark), Err(short.clone()));
    assert_eq!(
        query_posterior_variance(&spectrum, &coupling, 1.0, &benchmark),
        Err(short.clone())
    );
    assert_eq!(query_risk(&spectrum, &coupling, 1.0, &NoUpdate, &benchmark), Err(short));
    let infinite = Error::NotFinite { quantity: "coupling", index: 1, value: f64::INFINITY };
    assert_eq!(mode_weights(&spectrum, &[0.0, f64::INFINITY], &benchmark), Err(infinite));
    assert_eq!(
        query_posterior_variance(&spectrum, &[0.0, 1.0], -1.0, &benchmark),
        Err(out_of_range("query variance", -1.0, least))
    );
    assert_eq!(
        floor(&spectrum, &[1.0; 3]),
        Err(Error::SizeMismatch { quantity: "target", found: 3, expected: 2 })
    );

    let empty = Error::Empty { quantity: "signal variances" };
    assert_eq!(shrinkage_risk(&[], &[], 1.0), Err(empty.clone()));
    assert_eq!(optimal_shrinkages(&[], 1.0), Err(empty));
    assert_eq!(
        shrinkage_excess(&[1.0], &[1.0, 1.0], 1.0),
        Err(Error::SizeMismatch { quantity: "shrinkages", found: 2, expected: 1 })
    );
    assert_eq!(
        optimal_shrinkages(&[1.0, -2.0], 1.0),
        Err(out_of_range("signal variance", -2.0, least))
    );
    assert_eq!(
        shrinkage_risk(&[1.0], &[1.0], 0.0),
        Err(out_of_range("noise variance", 0.0, over))
    );
    assert_eq!(
        projector_gap(1, f64::INFINITY, &benchmark),
        Err(Error::NotFinite { quantity: "shrinkage", index: 0, value: f64::INFINITY })
    );

    let few = out_of_range("number of tasks", 1.0, "at least 2");
    assert_eq!(decompose(&[0.0], &[0.0], &[0.0]), Err(few));
    assert_eq!(
        decompose(&[0.0; 2], &[0.0; 3], &[0.0; 2]),
        Err(Error::SizeMismatch { quantity: "Bayes predictions", found: 3, expected: 2 })
    );
    assert_eq!(
        decompose(&[0.0; 2], &[0.0; 2], &[0.0, f64::INFINITY]),
        Err(Error::NotFinite { quantity: "targets", index: 1, value: f64::INFINITY })
    );
}
