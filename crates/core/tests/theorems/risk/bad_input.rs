//! What is said about input that no risk can be computed from.

use fewstep_core::risk::{
    Benchmark, mode_weights, query_benefit, query_gap, query_posterior_variance, query_risk,
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
}
