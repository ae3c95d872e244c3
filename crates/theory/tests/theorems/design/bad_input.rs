//! What is said about input that no design can be computed from.

use crate::support::matrix;
use fewstep_core::{Error, Matrix};
use fewstep_theory::design::{GlobalInformation, LinearGaussian, PlugIn, Prior, QueryMetric};

/// What is no prompt, prior, metric or budget is refused with the numbers that were wrong.
#[test]
fn sec_8_bad_input() {
    let model = |prior| LinearGaussian::new(&[vec![1.0, 2.0]], prior, 1.0);
    let fine = model(Prior::Isotropic(1.0)).unwrap();
    let nothing: &[Vec<f64>] = &[];
    let one = Prior::Isotropic(1.0);
    assert_eq!(
        LinearGaussian::new(nothing, one.clone(), 1.0),
        Err(Error::Empty { quantity: "prompt Jacobian" })
    );
    assert_eq!(
        LinearGaussian::new(&[vec![]], one, 1.0),
        Err(Error::Empty { quantity: "prompt Jacobian" })
    );
    for bad in [-1.0, 0.0, f64::INFINITY] {
        let allowed = "finite and over 0";
        assert_eq!(
            model(Prior::Isotropic(bad)),
            Err(Error::OutOfRange { quantity: "prior variance", found: bad, allowed })
        );
        assert_eq!(
            LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), bad),
            Err(Error::OutOfRange { quantity: "noise variance", found: bad, allowed })
        );
    }
    assert_eq!(
        model(Prior::Diagonal(vec![1.0])),
        Err(Error::SizeMismatch { quantity: "prior variances", found: 1, expected: 2 })
    );
    assert_eq!(
        model(Prior::Diagonal(vec![1.0, -1.0])),
        Err(Error::OutOfRange {
            quantity: "prior variance",
            found: -1.0,
            allowed: "finite and at least 0"
        })
    );
    assert_eq!(
        model(Prior::Full(Matrix::identity(3))),
        Err(Error::SizeMismatch { quantity: "prior covariance", found: 3, expected: 2 })
    );
    let indefinite = matrix(&[vec![0.0, 1.0], vec![1.0, 0.0]]);
    assert!(matches!(
        model(Prior::Full(indefinite.clone())),
        Err(Error::NotPositiveSemidefinite { .. })
    ));
    assert!(matches!(
        QueryMetric::from_matrix(indefinite),
        Err(Error::NotPositiveSemidefinite { .. })
    ));
    assert!(matches!(
        LinearGaussian::new(&[vec![1e200]], Prior::Isotropic(1.0), 1.0),
        Err(Error::NotFinite { quantity: "prompt kernel", index: 0, .. })
    ));
    assert_eq!(
        fine.posterior_mean(&[1.0, 2.0]),
        Err(Error::SizeMismatch { quantity: "residuals", found: 2, expected: 1 })
    );
    assert!(matches!(
        fine.posterior_covariance(&[1.0, f64::NAN]),
        Err(Error::NotFinite { quantity: "vector", index: 1, .. })
    ));
    assert_eq!(
        fine.information(&[1.0]),
        Err(Error::SizeMismatch { quantity: "vector", found: 1, expected: 2 })
    );
    assert_eq!(
        QueryMetric::from_queries(nothing),
        Err(Error::Empty { quantity: "query Jacobians" })
    );
}

/// Metrics, subspaces and averages that do not belong together are refused, and so are budgets
/// that no subspace can meet.
#[test]
fn sec_8_bad_design() {
    let fine = LinearGaussian::new(&[vec![1.0, 2.0]], Prior::Isotropic(1.0), 1.0).unwrap();
    let narrow = QueryMetric::from_queries(&[vec![1.0]]).unwrap();
    assert_eq!(
        fine.query_information(&narrow),
        Err(Error::SizeMismatch { quantity: "query metric", found: 1, expected: 2 })
    );
    let blind = QueryMetric::from_queries(&[vec![0.0, 0.0]]).unwrap();
    let nothing = fine.query_information(&blind).unwrap();
    assert_eq!(
        nothing.optimal_subspace(1),
        Err(Error::BudgetOutOfRange { budget: 1, blocks: 0 })
    );
    let metric = QueryMetric::from_matrix(Matrix::identity(2)).unwrap();
    let information = fine.query_information(&metric).unwrap();
    for budget in [0, 3] {
        assert_eq!(
            information.optimal_subspace(budget),
            Err(Error::BudgetOutOfRange { budget, blocks: 2 })
        );
    }
    let subspace = information.optimal_subspace(1).unwrap();
    assert_eq!(
        nothing.risk(&subspace),
        Err(Error::SizeMismatch { quantity: "subspace", found: 2, expected: 0 })
    );
    assert_eq!(
        subspace.directions(&blind),
        Err(Error::SizeMismatch { quantity: "whitened coordinates", found: 2, expected: 0 })
    );
    let mut global = GlobalInformation::new(1);
    assert_eq!(
        global.add(&information),
        Err(Error::SizeMismatch { quantity: "query information", found: 2, expected: 1 })
    );
    assert_eq!(global.mean(), Err(Error::Empty { quantity: "average over prompts" }));

    assert_eq!(PlugIn::new(0, 1, 1.0, 1.0), Err(Error::Empty { quantity: "prompts" }));
    assert_eq!(PlugIn::new(1, 0, 1.0, 1.0), Err(Error::Empty { quantity: "query metric" }));
    assert!(matches!(
        PlugIn::new(1, 1, -1.0, 1.0),
        Err(Error::OutOfRange { quantity: "bound on the deviations", .. })
    ));
    assert!(matches!(
        PlugIn::new(1, 1, 1.0, f64::NAN),
        Err(Error::OutOfRange { quantity: "predictable variation", .. })
    ));
    let plug_in = PlugIn::new(5, 2, 1.0, 1.0).unwrap();
    assert_eq!(
        plug_in.deviation(1.0),
        Err(Error::OutOfRange {
            quantity: "failure probability",
            found: 1.0,
            allowed: "over 0 and under 1"
        })
    );
    for budget in [0, 3] {
        assert_eq!(
            plug_in.regret(budget, 0.1),
            Err(Error::BudgetOutOfRange { budget, blocks: 2 })
        );
    }
}
