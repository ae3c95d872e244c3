//! What is said about input that does not fit, and what prompts that move nothing give.

use super::{TIGHT, dense};
use crate::support::assert_close;
use fewstep_core::{Error, GradientDescent, Matrix, Noise, Rng, Spectrum, StepSize};
use fewstep_theory::matfree::{
    BlockSum, DenseKernel, EvidenceSettings, FactorKernel, LargestEigenvalue, LinearOperator,
    Shifted, Stopping, block_scores, conjugate_gradients, estimate_evidence, hutchinson_trace,
    lanczos_top, largest_eigenvalue, query_correction, query_scores,
};

/// An operator of the user's own that does what it likes.
struct Broken {
    size: usize,
    value: f64,
}

impl LinearOperator for Broken {
    fn size(&self) -> usize {
        self.size
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        for (r, v) in result.iter_mut().zip(vector) {
            *r = self.value * v;
        }
    }
}

/// Input that does not fit is refused with its numbers.
#[test]
fn app_h_bad_input_is_refused() {
    let rng = &mut Rng::new(1);
    let kernel = dense(&[vec![2.0, 1.0], vec![1.0, 2.0]]);
    let empty = Broken { size: 0, value: 1.0 };
    let missing = Error::Empty { quantity: "operator" };
    assert_eq!(conjugate_gradients(&empty, &[], TIGHT), Err(missing.clone()));
    assert_eq!(lanczos_top(&empty, 1, TIGHT, rng), Err(missing.clone()));
    assert_eq!(largest_eigenvalue(&empty, 1, 0.1, rng), Err(missing.clone()));
    assert_eq!(hutchinson_trace(&empty, 2, rng), Err(missing.clone()));
    assert_eq!(block_scores(&[empty], 1.0, 2, TIGHT, rng), Err(missing));
    let none: [DenseKernel; 0] = [];
    let missing = Error::Empty { quantity: "blocks" };
    assert_eq!(block_scores(&none, 1.0, 2, TIGHT, rng), Err(missing.clone()));
    assert_eq!(query_scores(&none, &[], 1.0, TIGHT), Err(missing));
    let missing = Error::Empty { quantity: "kernel" };
    assert_eq!(DenseKernel::new(Matrix::zeros(0, 0)), Err(missing));
    let missing = Error::Empty { quantity: "features" };
    assert_eq!(FactorKernel::new(Matrix::zeros(0, 2)), Err(missing));

    let sizes = |quantity| Error::SizeMismatch { quantity, found: 1, expected: 2 };
    let descent = GradientDescent {
        step: StepSize::new(0.1, &Spectrum::of(&[vec![1.0]]).unwrap()).unwrap(),
        horizon: 3,
    };
    let short = conjugate_gradients(&kernel, &[1.0], TIGHT);
    assert_eq!(short, Err(sizes("right-hand side")));
    let short = query_correction(&kernel, &[1.0], &[1.0, 1.0], descent);
    assert_eq!(short, Err(sizes("coupling")));
    let short = query_correction(&kernel, &[1.0, 1.0], &[1.0], descent);
    assert_eq!(short, Err(sizes("residuals")));
    let short = query_scores(&[&kernel, &kernel], &[vec![1.0, 1.0]], 1.0, TIGHT);
    assert_eq!(short, Err(sizes("couplings")));
    let short = query_scores(&[&kernel], &[vec![1.0]], 1.0, TIGHT);
    assert_eq!(short, Err(sizes("right-hand side")));
    let short = BlockSum::new(vec![kernel.clone(), dense(&[vec![1.0]])]);
    assert_eq!(short, Err(sizes("block")));
    let short = DenseKernel::new(&[vec![1.0], vec![1.0]]);
    assert_eq!(short, Err(sizes("kernel row")));

    for value in [f64::NAN, f64::INFINITY] {
        let found = conjugate_gradients(&kernel, &[1.0, value], TIGHT);
        assert!(matches!(
            found,
            Err(Error::NotFinite { quantity: "right-hand side", index: 1, .. })
        ));
        let operator = Broken { size: 2, value };
        let refused = |error: Error| {
            assert!(matches!(
                error,
                Error::NotFinite { quantity: "operator product", index: 0, .. }
            ));
        };
        refused(conjugate_gradients(&operator, &[1.0, 0.5], TIGHT).unwrap_err());
        refused(lanczos_top(&operator, 1, TIGHT, rng).unwrap_err());
        refused(largest_eigenvalue(&operator, 2, 0.1, rng).unwrap_err());
        refused(hutchinson_trace(&operator, 2, rng).unwrap_err());
        refused(query_correction(&operator, &[1.0, 1.0], &[1.0, 1.0], descent).unwrap_err());
    }
    let error = lanczos_top(&Broken { size: 2, value: -1.0 }, 1, TIGHT, rng).unwrap_err();
    let Error::NotPositiveSemidefinite { smallest, largest } = error else { panic!("{error}") };
    assert_close(smallest, -1.0, 1.0, 2);
    assert_close(largest, -1.0, 1.0, 2);
    let steep = Broken { size: 2, value: 20.0 };
    let error = query_correction(&steep, &[1.0, 1.0], &[1.0, 1.0], descent).unwrap_err();
    assert_eq!(error, Error::StepTooLarge { step: 0.1, limit: 0.05 });
}

/// Numbers outside their range are refused with their name.
#[test]
fn app_h_numbers_out_of_range_are_refused() {
    #[track_caller]
    fn refused<V: std::fmt::Debug>(outcome: Result<V, Error>, name: &str, value: f64) {
        let error = outcome.unwrap_err();
        let Error::OutOfRange { quantity, found, .. } = error else { panic!("{error}") };
        assert_eq!((quantity, found.to_bits()), (name, value.to_bits()));
    }
    let rng = &mut Rng::new(1);
    let kernel = dense(&[vec![2.0, 1.0], vec![1.0, 2.0]]);
    let lax = Stopping { tolerance: 0.0, iterations: 9 };
    refused(conjugate_gradients(&kernel, &[1.0, 1.0], lax), "tolerance", 0.0);
    refused(lanczos_top(&kernel, 1, lax, rng), "tolerance", 0.0);
    refused(lanczos_top(&kernel, 0, TIGHT, rng), "number of eigenpairs", 0.0);
    refused(lanczos_top(&kernel, 3, TIGHT, rng), "number of eigenpairs", 3.0);
    let brief = Stopping { tolerance: 0.1, iterations: 1 };
    refused(lanczos_top(&kernel, 2, brief, rng), "number of eigenpairs", 2.0);
    refused(largest_eigenvalue(&kernel, 0, 0.1, rng), "number of Lanczos steps", 0.0);
    refused(largest_eigenvalue(&kernel, 1, 1.0, rng), "failure probability", 1.0);
    refused(hutchinson_trace(&kernel, 1, rng), "number of probes", 1.0);
    refused(block_scores(&[&kernel], 1.0, 1, TIGHT, rng), "number of probes", 1.0);
    refused(block_scores(&[&kernel], 0.0, 2, TIGHT, rng), "noise variance", 0.0);
    refused(query_scores(&[&kernel], &[vec![1.0, 1.0]], -1.0, TIGHT), "noise variance", -1.0);
    refused(Shifted::new(&kernel, -1.0).map(|_| ()), "shift", -1.0);
    let largest = LargestEigenvalue { value: 3.0, bound: 0.0 };
    refused(largest.step(1.0), "step scale", 1.0);

    let fine = EvidenceSettings {
        step: largest.step(0.5).unwrap(),
        largest,
        horizons: &[0, 2],
        noise: Noise::Profiled,
        probes: 2,
        lanczos_steps: 2,
    };
    let evidence = |settings: &EvidenceSettings<'_>, residuals: &[f64]| {
        estimate_evidence(&kernel, residuals, settings, &mut Rng::new(3))
    };
    assert!(evidence(&fine, &[1.0, 2.0]).is_ok());
    let bad = EvidenceSettings { noise: Noise::Fixed(0.0), ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "noise variance", 0.0);
    let bad = EvidenceSettings { probes: 1, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "number of probes", 1.0);
    let bad = EvidenceSettings { lanczos_steps: 0, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "number of Lanczos steps", 0.0);
    let bad = EvidenceSettings { horizons: &[], ..fine.clone() };
    let missing = Error::Empty { quantity: "candidate horizons" };
    assert_eq!(evidence(&bad, &[1.0, 2.0]), Err(missing));
    let low = LargestEigenvalue { value: 1.0, bound: 0.5 };
    let bad = EvidenceSettings { largest: low, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "upper bound of the largest eigenvalue", 1.5);
    let high = LargestEigenvalue { value: 8.0, bound: 0.0 };
    let bad = EvidenceSettings { largest: high, ..fine.clone() };
    let step = fine.step.get();
    let steep = Error::StepTooLarge { step, limit: 0.125 };
    assert_eq!(evidence(&bad, &[1.0, 2.0]), Err(steep));
    refused(evidence(&fine, &[0.0, 0.0]), "noise variance", 0.0);
    let sizes = Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 };
    assert_eq!(evidence(&fine, &[1.0]), Err(sizes));
}

/// A zero kernel and zero residuals are prompts, too: no step helps, nothing is left to chance.
#[test]
fn app_h_zero_kernel_and_zero_residuals() {
    let rng = &mut Rng::new(1);
    for n in [1, 3] {
        let zero = FactorKernel::new(Matrix::zeros(n, 2)).unwrap();
        let pairs = lanczos_top(&zero, n, TIGHT, rng).unwrap();
        assert!(pairs.iter().all(|pair| (pair.value + pair.bound).to_bits() == 0));
        let largest = largest_eigenvalue(&zero, 5, 1e-9, rng).unwrap();
        assert_eq!(largest, LargestEigenvalue { value: 0.0, bound: 0.0 });
        let settings = EvidenceSettings {
            step: largest.step(0.5).unwrap(),
            largest,
            horizons: &[0, 9],
            noise: Noise::Fixed(2.0),
            probes: 2,
            lanczos_steps: 3,
        };
        let found = estimate_evidence(&zero, &vec![0.0; n], &settings, rng).unwrap();
        for value in found.values {
            assert_close(value.mean, 0.5 * 2.0_f64.ln(), 1.0, n);
            assert_close(value.standard_error, 0.0, 0.0, n);
        }
        let profiled = EvidenceSettings { noise: Noise::Profiled, ..settings };
        let found = estimate_evidence(&zero, &vec![3.0; n], &profiled, rng).unwrap();
        for value in found.values {
            assert_close(value.mean, 0.5 * (9.0_f64.ln() + 1.0), 1.0, n);
        }
        let scores = block_scores(&[&zero], 1.0, 2, TIGHT, rng).unwrap();
        assert_close(scores[0].mean, 0.0, 0.0, n);
        assert_close(hutchinson_trace(&zero, 2, rng).unwrap().mean, 0.0, 0.0, n);
    }
}
