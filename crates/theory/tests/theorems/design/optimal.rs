//! Which update subspace is best for one prompt, and what it leaves: Thm. 8.2.

use super::{captured, for_cases, jacobi, orthonormal};
use crate::support::{
    Rows, assert_all_close, assert_close, cholesky, dot, eliminate, gaussian, inverse,
    multiply, normals, product, shifted, trace, transpose,
};
use fewstep_core::Error;
use fewstep_theory::design::QueryMetric;

/// Every way to choose `count` out of `0..limit`.
fn subsets(count: usize, limit: usize) -> Vec<Vec<usize>> {
    (0..1_usize << limit)
        .map(|bits| (0..limit).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>())
        .filter(|subset| subset.len() == count)
        .collect()
}

/// Thm. 8.2: the risk of a subspace is tr(QΣ) − tr(Π̃ ℐ_Q), and the top eigenspace of ℐ_Q, and
/// nothing else, has the smallest.
#[test]
fn thm_8_2_top_eigenspace_is_optimal() {
    for_cases(|case, rng| {
        let (root, total, known) = case.whitened();
        let (eigenvalues, eigenvectors) = jacobi(&known);
        let (total, scale, p) = (trace(&total), trace(&total), case.p());
        let metric = case.metric();
        let information = case.model().query_information(&metric).unwrap();
        let dimension = case.queries.len().min(p);
        assert_eq!(metric.dimension(), dimension);
        assert_close(information.total(), total, scale, p);
        for budget in 1..=dimension {
            let best: f64 = eigenvalues[..budget].iter().sum();
            let found = information.optimal_subspace(budget).unwrap();
            assert_close(found.captured(), best, scale, p);
            assert_close(found.risk(), total - best, scale, p);
            assert_close(information.risk(&found).unwrap(), total - best, scale, p);

            // Back among the weights it is a subspace of that dimension and that risk.
            let directions = found.directions(&metric).unwrap().to_rows();
            let whitened: Rows = directions.iter().map(|u| multiply(&root, u)).collect();
            for (i, a) in whitened.iter().enumerate() {
                for (j, b) in whitened.iter().enumerate() {
                    assert_close(dot(a, b), f64::from(u8::from(i == j)), 10.0, p);
                }
            }
            assert_close(captured(&whitened, &known), best, scale, p);

            // Nothing else in range(Q) does better: random subspaces, other eigenvectors.
            let slack = 1e3 * p as f64 * f64::EPSILON * scale;
            for _ in 0..50 {
                let seen: Rows =
                    (0..budget).map(|_| multiply(&root, &normals(rng, p))).collect();
                assert!(total - captured(&orthonormal(&seen), &known) >= found.risk() - slack);
            }
            for subset in subsets(budget, dimension) {
                let other: Rows = subset.iter().map(|&i| eigenvectors[i].clone()).collect();
                let lost = best - subset.iter().map(|&i| eigenvalues[i]).sum::<f64>();
                let risk = total - captured(&other, &known);
                assert_close(risk - found.risk(), lost, scale, p);
                assert!(risk >= found.risk() - slack);
            }
        }
    });
}

/// Thm. 8.2, uniqueness: turning the subspace by any angle towards a lower mode costs sin² of
/// the angle times the gap between the eigenvalues.
#[test]
fn thm_8_2_every_other_subspace_is_worse() {
    for_cases(|case, _| {
        let (root, total, known) = case.whitened();
        let (eigenvalues, eigenvectors) = jacobi(&known);
        let (scale, p) = (trace(&total), case.p());
        let metric = case.metric();
        let information = case.model().query_information(&metric).unwrap();
        for budget in 1..metric.dimension() {
            let found = information.optimal_subspace(budget).unwrap();
            let directions = found.directions(&metric).unwrap().to_rows();
            let mut basis: Rows = directions.iter().map(|u| multiply(&root, u)).collect();
            let last = basis.pop().unwrap();
            for lower in budget..metric.dimension() {
                for angle in [0.01_f64, 0.3, 1.0] {
                    let turned = last
                        .iter()
                        .zip(&eigenvectors[lower])
                        .map(|(a, b)| angle.cos() * a + angle.sin() * b)
                        .collect();
                    basis.push(turned);
                    let risk = trace(&total) - captured(&basis, &known);
                    let gap = eigenvalues[budget - 1] - eigenvalues[lower];
                    assert_close(risk - found.risk(), angle.sin().powi(2) * gap, scale, p);
                    basis.pop();
                }
            }
        }
    });
}

/// Thm. 8.2: the risk is what the estimate Π̃ v̄(r) makes of simulated corrections, and no other
/// linear estimate in the subspace has less.
#[test]
fn thm_8_2_risk_of_simulated_prompts() {
    for_cases(|case, rng| {
        let (root, total, known) = case.whitened();
        let (metric, model) = (case.metric(), case.model());
        let information = model.query_information(&metric).unwrap();
        let subspace = information.optimal_subspace(metric.dimension().div_ceil(2)).unwrap();
        let basis = subspace.basis().to_rows();
        // Both sides in the metric's coordinates: v★, and the projection of v̄.
        let prior_root = cholesky(&case.covariance);
        let draws = 4000;
        let mut losses = 0.0;
        for _ in 0..draws {
            let truth = gaussian(rng, &prior_root);
            let residuals: Vec<f64> = multiply(&case.jacobian, &truth)
                .iter()
                .map(|f| f + case.noise_variance.sqrt() * rng.normal())
                .collect();
            let mean = model.posterior_mean(&residuals).unwrap();
            let estimate = multiply(&basis, &metric.whiten(&mean).unwrap());
            let mut error = metric.whiten(&truth).unwrap();
            for (amount, row) in estimate.iter().zip(&basis) {
                error.iter_mut().zip(row).for_each(|(e, b)| *e -= amount * b);
            }
            losses += dot(&error, &error) / f64::from(draws);
        }
        // The error is Gaussian; its covariance follows from Cov(v̄, v★) = Var(v̄) = ℐ_Q.
        let directions = subspace.directions(&metric).unwrap().to_rows();
        let whitened: Rows = directions.iter().map(|u| multiply(&root, u)).collect();
        let projector = product(&transpose(&whitened), &whitened);
        let half = product(&projector, &known);
        let twice = product(&half, &projector);
        let mut error = total.clone();
        for (i, row) in error.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry += twice[i][j] - half[i][j] - half[j][i];
            }
        }
        let standard_error = (2.0 * trace(&product(&error, &error)) / f64::from(draws)).sqrt();
        assert_close(subspace.risk(), trace(&error), trace(&total), case.p());
        assert!(
            (losses - subspace.risk()).abs() < 4.0 * standard_error,
            "{losses} against {}, standard error {standard_error}",
            subspace.risk()
        );

        // Any linear estimate A r with range in the subspace, written out.
        let spread = product(&root, &product(&case.covariance, &transpose(&case.jacobian)));
        let kernel =
            product(&product(&case.jacobian, &case.covariance), &transpose(&case.jacobian));
        let noisy = shifted(&kernel, 1.0, case.noise_variance);
        let best = product(&projector, &product(&spread, &inverse(&noisy)));
        let risk = |a: &Rows| {
            let cross = trace(&product(a, &transpose(&spread)));
            trace(&product(&product(a, &noisy), &transpose(a))) - 2.0 * cross + trace(&total)
        };
        assert_close(risk(&best), subspace.risk(), trace(&total), case.p());
        for _ in 0..20 {
            let size = (0.1 * trace(&total) / trace(&noisy)).sqrt();
            let raw: Rows = (0..case.p())
                .map(|_| normals(rng, case.n()).iter().map(|x| size * x).collect())
                .collect();
            let change = product(&projector, &raw);
            let other: Rows = best
                .iter()
                .zip(&change)
                .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y).collect())
                .collect();
            assert!(risk(&other) > subspace.risk());
        }
    });
}

/// Thm. 8.2 for Q = j_x j_xᵀ: one direction is all there is, and it leaves the posterior variance
/// of the query.
#[test]
fn thm_8_2_single_query() {
    for_cases(|case, _| {
        let query = &case.queries[0];
        let squares: Rows =
            query.iter().map(|a| query.iter().map(|b| a * b).collect()).collect();
        let coupling = multiply(&product(&case.jacobian, &case.covariance), query);
        let kernel =
            product(&product(&case.jacobian, &case.covariance), &transpose(&case.jacobian));
        let (solved, _) = eliminate(&shifted(&kernel, 1.0, case.noise_variance), &coupling);
        let variance = dot(query, &multiply(&case.covariance, query));
        let length = dot(query, query);
        for metric in [
            QueryMetric::from_queries(std::slice::from_ref(query)).unwrap(),
            QueryMetric::from_matrix(&squares).unwrap(),
        ] {
            assert_eq!(metric.dimension(), 1);
            let information = case.model().query_information(&metric).unwrap();
            let subspace = information.optimal_subspace(1).unwrap();
            assert_close(subspace.captured(), dot(&coupling, &solved), variance, case.p());
            assert_close(
                subspace.risk(),
                variance - dot(&coupling, &solved),
                variance,
                case.p(),
            );
            let direction = subspace.directions(&metric).unwrap().row(0).to_vec();
            let sign = dot(&direction, query).signum();
            let expected: Vec<f64> = query.iter().map(|x| sign * x / length).collect();
            assert_all_close(&direction, &expected, 1.0 / length.sqrt(), case.p());
            assert_eq!(
                information.optimal_subspace(2),
                Err(Error::BudgetOutOfRange { budget: 2, blocks: 1 })
            );
        }
    });
}
