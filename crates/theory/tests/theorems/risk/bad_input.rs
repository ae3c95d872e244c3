//! What is said about input that no risk can be computed from.

use fewstep_core::risk::Benchmark;
use fewstep_core::{Error, Matrix, Spectrum};
use fewstep_theory::risk::{
    decompose, floor, optimal_shrinkages, projector_gap, shrinkage_excess, shrinkage_risk,
};

/// Every function names what is wrong with its input.
#[test]
fn risk_bad_input_is_named() {
    let out_of_range =
        |quantity, found, allowed| Error::OutOfRange { quantity, found, allowed };
    let (over, least) = ("finite and over 0", "finite and at least 0");
    let spectrum = Spectrum::of(Matrix::identity(2)).unwrap();
    let benchmark = Benchmark::new(1.0, 1.0).unwrap();
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
