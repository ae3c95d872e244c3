//! Block scores in prompt space against the model over the weights: Sec. 8.2.

use crate::cut::{cut, noise};
use crate::support::{assert_close, dot, for_prompts};
use fewstep_core::subspace;
use fewstep_theory::design::{LinearGaussian, Prior};

/// Sec. 8.2: both scores, from ℐ as the model over the weights forms it.
#[test]
fn sec_8_scores_agree_with_the_design() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let noise_variance = noise(prompt);
        let model =
            LinearGaussian::new(&prompt.features, Prior::Isotropic(1.0), noise_variance)
                .unwrap();
        let known = model.information_matrix();
        let traces = subspace::trace_scores(&geometry, noise_variance).unwrap();
        let queries = subspace::query_scores(&geometry, noise_variance).unwrap();
        for (b, range) in ranges.iter().enumerate() {
            let trace: f64 = range.clone().map(|i| known[(i, i)]).sum();
            assert_close(traces[b], trace, prompt.n() as f64, prompt.n());
            let mut part = vec![0.0; prompt.query.len()];
            part[range.clone()].copy_from_slice(&prompt.query[range.clone()]);
            let form = dot(&part, &model.information(&part).unwrap());
            assert_close(queries[b], form, dot(&part, &part), prompt.n());
        }
    });
}
