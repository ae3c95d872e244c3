//! Sec. 4 for the filters that no decision takes.

use crate::support::{assert_response_is_eigenvalue_times_gain, for_prompts};
use fewstep_core::{Filter, Spectrum};
use fewstep_theory::{ExponentialTime, GradientFlow, JamesStein, Projection};

/// Sec. 4: for every filter the response is eigenvalue times gain, and the degrees of freedom
/// are the trace of the matrix that maps residuals to the fit.
#[test]
fn sec_4_response_is_eigenvalue_times_gain() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let size = spectrum.largest().max(f64::MIN_POSITIVE);
        let filters: [&dyn Filter; 4] = [
            &GradientFlow::new(3.0 / size.max(1e-300)).unwrap(),
            &ExponentialTime::new(0.7 * size).unwrap(),
            &Projection::of(&spectrum),
            &JamesStein::of(&spectrum, &p.residuals, 0.1).unwrap(),
        ];
        for filter in filters {
            assert_response_is_eigenvalue_times_gain(filter, &spectrum);
        }
    });
}
