//! Whether products without a written kernel, and steps made of them, are the literal ones.

use super::dense;
use crate::support::{
    assert_all_close, assert_close, dot, for_prompts, multiply, norm, shifted, subtract, trace,
    transpose,
};
use fewstep_core::{GradientDescent, Rng};
use fewstep_theory::matfree::{
    BlockSum, FactorKernel, LinearOperator, Shifted, largest_eigenvalue, query_correction,
};

fn apply(operator: &impl LinearOperator, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![f64::NAN; vector.len()];
    operator.apply(vector, &mut result);
    result
}

/// App. H: products through features, sums over blocks and shifts are those of the written
/// kernel.
#[test]
fn app_h_products_without_a_kernel() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let scale = trace(&kernel) * norm(&p.residuals);
        let expected = multiply(&kernel, &p.residuals);
        let factor = FactorKernel::new(&p.features).unwrap();
        assert_all_close(&apply(&factor, &p.residuals), &expected, scale, p.n());
        let written = dense(&kernel);
        assert_all_close(&apply(&written, &p.residuals), &expected, scale, p.n());

        let parts: Vec<Box<dyn LinearOperator>> = vec![Box::new(factor), Box::new(written)];
        let sum = Shifted::new(BlockSum::new(parts).unwrap(), 0.7).unwrap();
        let expected = multiply(&shifted(&kernel, 2.0, 0.7), &p.residuals);
        let scale = 2.0 * scale + norm(&p.residuals);
        assert_all_close(&apply(&sum, &p.residuals), &expected, scale, p.n());
    });
}

/// Prop. E.1 without a spectrum: T products give what T literal parameter steps do at the query.
#[test]
fn app_h_query_correction_by_products() {
    for_prompts(|p| {
        let operator = FactorKernel::new(&p.features).unwrap();
        let largest =
            largest_eigenvalue(&operator, p.n(), 1e-9, &mut Rng::new(p.seed)).unwrap();
        let step = largest.step(0.3).unwrap();
        for horizon in [0, 1, 12] {
            let mut theta = vec![0.0; p.query.len()];
            for _ in 0..horizon {
                let error = subtract(&p.residuals, &multiply(&p.features, &theta));
                let gradient = multiply(&transpose(&p.features), &error);
                for (t, g) in theta.iter_mut().zip(gradient) {
                    *t += step.get() * g;
                }
            }
            let descent = GradientDescent { step, horizon };
            let found = query_correction(&operator, &p.coupling(), &p.residuals, descent);
            let scale = norm(&p.coupling()) * norm(&p.residuals) * step.get() * 12.0;
            assert_close(found.unwrap(), dot(&p.query, &theta), scale, p.n());
        }
    });
}
