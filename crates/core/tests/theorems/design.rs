//! Sec. 8.1 and App. E: the best update subspace, for one prompt and for many.

use crate::support::{
    assert_all_close, assert_close, cholesky, dot, eliminate, gaussian, inverse, matrix,
    multiply, normals, product, shifted, subtract, transpose,
};
use fewstep_core::design::{
    GlobalInformation, LinearGaussian, PlugIn, Prior, QueryInformation, QueryMetric,
};
use fewstep_core::{Block, Error, Matrix, Rng};

type Rows = Vec<Vec<f64>>;

/// A random model with everything written out.
struct Case {
    jacobian: Rows,
    prior: Prior,
    /// `Σ`.
    covariance: Rows,
    noise_variance: f64,
    /// One query Jacobian per row.
    queries: Rows,
}

impl Case {
    fn n(&self) -> usize {
        self.jacobian.len()
    }

    fn p(&self) -> usize {
        self.covariance.len()
    }

    fn model(&self) -> LinearGaussian {
        LinearGaussian::new(&self.jacobian, self.prior.clone(), self.noise_variance).unwrap()
    }

    fn metric(&self) -> QueryMetric {
        QueryMetric::from_queries(&self.queries).unwrap()
    }

    /// `(1/m) Σ j_x j_xᵀ`.
    fn query_matrix(&self) -> Rows {
        let gram = product(&transpose(&self.queries), &self.queries);
        shifted(&gram, 1.0 / self.queries.len() as f64, 0.0)
    }

    /// `ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ`.
    fn information(&self) -> Rows {
        let spread = product(&self.jacobian, &self.covariance);
        let kernel = product(&spread, &transpose(&self.jacobian));
        let solved = product(&inverse(&shifted(&kernel, 1.0, self.noise_variance)), &spread);
        product(&transpose(&spread), &solved)
    }

    /// `Q^(1/2)`, `Q^(1/2) Σ Q^(1/2)` and `Q^(1/2) ℐ Q^(1/2)`, one row and column per weight.
    fn whitened(&self) -> (Rows, Rows, Rows) {
        let root = square_root(&self.query_matrix());
        let sandwich = |a: &Rows| product(&root, &product(a, &root));
        let (total, known) = (sandwich(&self.covariance), sandwich(&self.information()));
        (root, total, known)
    }
}

/// Runs a check on models of many shapes, priors and magnitudes.
fn for_cases(mut check: impl FnMut(&Case, &mut Rng)) {
    // Examples, weights, queries, scale of the residuals' unit, scale of the prior's.
    let shapes = [
        (1, 1, 1, 1.0, 1.0),
        (1, 4, 1, 1e-6, 1.0),
        (3, 6, 6, 1.0, 1e6),
        (5, 4, 3, 1e6, 1e-6), // more examples than weights, singular metric
        (4, 5, 9, 1.0, 1.0),
        (10, 7, 2, 1.0, 1e3),
        (3, 3, 3, 0.0, 1.0), // a prompt that moves nothing
    ];
    for (seed, &(n, p, m, unit, spread)) in (1..).zip(&shapes) {
        let mut rng = Rng::new(seed);
        let rows = |rng: &mut Rng, count: usize, size: f64| -> Rows {
            (0..count).map(|_| normals(rng, p).iter().map(|x| size * x).collect()).collect()
        };
        let root = rows(&mut rng, p, 0.3);
        let full = shifted(&product(&root, &transpose(&root)), spread, spread);
        let variances: Vec<f64> = (0..p).map(|_| spread * (0.5 + rng.uniform())).collect();
        let (prior, covariance) = match seed % 3 {
            0 => (Prior::Isotropic(spread), shifted(&vec![vec![0.0; p]; p], 0.0, spread)),
            1 => (Prior::Full(matrix(&full)), full),
            _ => (Prior::Diagonal(variances.clone()), diagonal(&variances)),
        };
        let jacobian = rows(&mut rng, n, unit / f64::sqrt(spread));
        let queries = rows(&mut rng, m, 1.0);
        let noise_variance = if unit > 0.0 { 0.7 * unit * unit } else { 1.0 };
        let case = Case { jacobian, prior, covariance, noise_variance, queries };
        let run = std::panic::AssertUnwindSafe(|| check(&case, &mut rng));
        if let Err(cause) = std::panic::catch_unwind(run) {
            eprintln!("failed for the model with seed {seed}: n = {n}, p = {p}, m = {m}");
            std::panic::resume_unwind(cause);
        }
    }
}

fn diagonal(values: &[f64]) -> Rows {
    let entry = |i, j| if i == j { values[i] } else { 0.0 };
    (0..values.len()).map(|i| (0..values.len()).map(|j| entry(i, j)).collect()).collect()
}

fn trace(a: &[Vec<f64>]) -> f64 {
    a.iter().enumerate().map(|(i, row)| row[i]).sum()
}

/// Eigenvalues, descending, and eigenvectors as rows, by Jacobi's rotations.
fn jacobi(a: &[Vec<f64>]) -> (Vec<f64>, Rows) {
    let n = a.len();
    let mut a = a.to_vec();
    let mut vectors = shifted(&vec![vec![0.0; n]; n], 0.0, 1.0);
    for _ in 0..30 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p]);
                let (sine, cosine) = angle.sin_cos();
                let rotate = |x: &mut f64, y: &mut f64| {
                    (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                };
                for row in &mut a {
                    let (left, right) = row.split_at_mut(q);
                    rotate(&mut left[p], &mut right[0]);
                }
                for rows in [&mut a, &mut vectors] {
                    let (above, below) = rows.split_at_mut(q);
                    above[p].iter_mut().zip(&mut below[0]).for_each(|(x, y)| rotate(x, y));
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j][j].total_cmp(&a[i][i]));
    (
        order.iter().map(|&i| a[i][i]).collect(),
        order.iter().map(|&i| vectors[i].clone()).collect(),
    )
}

/// The symmetric root of a positive semidefinite matrix.
fn square_root(a: &[Vec<f64>]) -> Rows {
    let (values, vectors) = jacobi(a);
    let roots: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    product(&transpose(&vectors), &product(&diagonal(&roots), &vectors))
}

/// The largest absolute eigenvalue of a symmetric matrix.
fn operator_norm(a: &[Vec<f64>]) -> f64 {
    let values = jacobi(a).0;
    values[0].max(-values[values.len() - 1])
}

/// Orthonormal rows with the span of the given ones.
fn orthonormal(rows: &[Vec<f64>]) -> Rows {
    let mut basis: Rows = Vec::new();
    for row in rows {
        let mut row = row.clone();
        // Twice is enough.
        for known in basis.iter().chain(&basis) {
            let overlap = dot(known, &row);
            row.iter_mut().zip(known).for_each(|(x, y)| *x -= overlap * y);
        }
        let length = dot(&row, &row).sqrt();
        basis.push(row.iter().map(|x| x / length).collect());
    }
    basis
}

/// `tr(Π a)` for the projector onto the span of orthonormal rows.
fn captured(basis: &[Vec<f64>], a: &[Vec<f64>]) -> f64 {
    basis.iter().map(|row| dot(row, &multiply(a, row))).sum()
}

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

/// Sec. 8.1: with a singular Q, repeated or dependent queries add no dimension, the two ways to
/// give Q agree, and mapping back undoes whitening up to what no query sees.
#[test]
fn sec_8_singular_metric() {
    for_cases(|case, rng| {
        let mut dependent = case.queries.clone();
        dependent.extend(case.queries.clone());
        let same = QueryMetric::from_queries(&dependent).unwrap();
        let matrix = QueryMetric::from_matrix(&case.query_matrix()).unwrap();
        let (root, total, _) = case.whitened();
        let model = case.model();
        let expected = model.query_information(&case.metric()).unwrap();
        for metric in [same, matrix] {
            let dimension = case.queries.len().min(case.p());
            assert_eq!((metric.dimension(), metric.parameters()), (dimension, case.p()));
            let information = model.query_information(&metric).unwrap();
            for budget in 1..=dimension {
                assert_close(
                    information.optimal_subspace(budget).unwrap().risk(),
                    expected.optimal_subspace(budget).unwrap().risk(),
                    trace(&total),
                    case.p(),
                );
            }
            let vector = normals(rng, case.p());
            let whitened = metric.whiten(&vector).unwrap();
            let literal = multiply(&root, &vector);
            assert_close(
                dot(&whitened, &whitened),
                dot(&literal, &literal),
                trace(&case.query_matrix()) * dot(&vector, &vector),
                case.p(),
            );
            let back = metric.unwhiten(&whitened).unwrap();
            let size = case.queries.iter().map(|j| dot(j, j)).sum::<f64>().sqrt();
            for query in &case.queries {
                assert_close(dot(query, &back), dot(query, &vector), 10.0 * size, case.p());
            }
            let rounding = 1e3 * case.p() as f64 * f64::EPSILON;
            assert!(dot(&back, &back) <= dot(&vector, &vector) * (1.0 + rounding));
        }
    });
}

/// Sec. 8.1: what varies is what the prompt tells plus what stays unknown, so ℐ_Q lies between
/// 0 and Q^(1/2) Σ Q^(1/2), whose largest eigenvalue bounds every deviation from an average.
#[test]
fn sec_8_law_of_total_variance() {
    for_cases(|case, _| {
        let (root, total, known) = case.whitened();
        let model = case.model();
        // Columns of Q^(1/2) Σ_post Q^(1/2).
        let unknown: Rows = root
            .iter()
            .map(|row| multiply(&root, &model.posterior_covariance(row).unwrap()))
            .collect();
        for i in 0..case.p() {
            for j in 0..case.p() {
                let sum = known[i][j] + unknown[i][j];
                assert_close(sum, total[i][j], trace(&total), case.p());
            }
        }
        let slack = 1e3 * case.p() as f64 * f64::EPSILON * trace(&total);
        for part in [&known, &unknown] {
            assert!(jacobi(part).0.iter().all(|&value| value >= -slack));
        }
        let centre = shifted(&total, 0.3, 0.0);
        let apart: Rows = known.iter().zip(&centre).map(|(a, b)| subtract(a, b)).collect();
        assert!(operator_norm(&apart) <= operator_norm(&total) + slack);
    });
}

/// Lem. E.20: values on the prompt and at the query are jointly Gaussian with the kernel, the
/// coupling and the query variance as covariances; Σ = Π_U is the kernel of the features in U.
#[test]
fn lem_e_20_covariances_are_the_block() {
    for_cases(|case, rng| {
        let query = &case.queries[0];
        let prior = matrix(&case.covariance);
        let block = Block::from_prior("all", &case.jacobian, &prior, Some(query)).unwrap();
        let spread = product(&case.jacobian, &case.covariance);
        let (kernel, coupling) =
            (product(&spread, &transpose(&case.jacobian)), multiply(&spread, query));
        let variance = dot(query, &multiply(&case.covariance, query));
        let tied = block.query().unwrap();
        for (found, expected) in block.kernel().to_rows().iter().zip(&kernel) {
            assert_all_close(found, expected, trace(&kernel), case.p());
        }
        let scale = (trace(&kernel) * variance).sqrt();
        assert_all_close(&tied.coupling, &coupling, scale, case.p());
        assert_close(tied.variance, variance, variance, case.p());

        // Simulated: covariances and a fourth moment, in their theoretical standard errors.
        let root = cholesky(&case.covariance);
        let draws = 4000_u32;
        let (mut products, mut fourth) = (vec![0.0; case.n()], 0.0);
        let mixed_variance = kernel[0][0] + 2.0 * coupling[0] + variance;
        for _ in 0..draws {
            let u = gaussian(rng, &root);
            let (prompt, at_query) = (multiply(&case.jacobian, &u), dot(query, &u));
            for (sum, f) in products.iter_mut().zip(&prompt) {
                *sum += f * at_query / f64::from(draws);
            }
            fourth +=
                (prompt[0] + at_query).powi(4) / mixed_variance.powi(2) / f64::from(draws);
        }
        for (i, &found) in products.iter().enumerate() {
            let spread = kernel[i][i] * variance + coupling[i] * coupling[i];
            let standard_error = (spread / f64::from(draws)).sqrt();
            assert!((found - tied.coupling[i]).abs() <= 4.0 * standard_error);
        }
        assert!((fourth - 3.0).abs() < 4.0 * (96.0 / f64::from(draws)).sqrt());

        // The projector prior.
        let basis = orthonormal(
            &(0..case.p().div_ceil(2)).map(|_| normals(rng, case.p())).collect::<Vec<_>>(),
        );
        let projector = matrix(&product(&transpose(&basis), &basis));
        let inside = Block::from_features(
            "inside",
            &product(&case.jacobian, &transpose(&basis)),
            Some(&multiply(&basis, query)),
        )
        .unwrap();
        let projected =
            Block::from_prior("inside", &case.jacobian, &projector, Some(query)).unwrap();
        let size: f64 = case.jacobian.iter().map(|row| dot(row, row)).sum();
        let length = dot(query, query);
        assert_all_close(projected.kernel().values(), inside.kernel().values(), size, case.p());
        let (a, b) = (projected.query().unwrap(), inside.query().unwrap());
        assert_all_close(&a.coupling, &b.coupling, (size * length).sqrt(), case.p());
        assert_close(a.variance, b.variance, length, case.p());
    });
}

/// Lem. E.21: the posterior mean and covariance are those of the information form,
/// (Σ⁻¹ + JᵀJ/σ²)⁻¹, which never sees the prompt's kernel.
#[test]
fn lem_e_21_posterior_by_the_information_form() {
    for_cases(|case, rng| {
        let model = case.model();
        let noise = case.noise_variance;
        let seen = product(&transpose(&case.jacobian), &case.jacobian);
        let prior_precision = inverse(&case.covariance);
        let precision: Rows = prior_precision
            .iter()
            .zip(&seen)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y / noise).collect())
            .collect();
        // Condition of the sum against that of the prior, both modest by construction.
        let condition = operator_norm(&precision) * operator_norm(&case.covariance);
        let residuals: Vec<f64> =
            normals(rng, case.n()).iter().map(|x| noise.sqrt() * x).collect();
        let right: Vec<f64> = multiply(&transpose(&case.jacobian), &residuals)
            .iter()
            .map(|x| x / noise)
            .collect();
        let (mean, _) = eliminate(&precision, &right);
        let size = operator_norm(&case.covariance).sqrt() * condition;
        let found = model.posterior_mean(&residuals).unwrap();
        assert_all_close(&found, &mean, size * residuals.len() as f64, case.p());

        let vector = normals(rng, case.p());
        let scale = operator_norm(&case.covariance) * condition * dot(&vector, &vector).sqrt();
        let (literal, _) = eliminate(&precision, &vector);
        assert_all_close(
            &model.posterior_covariance(&vector).unwrap(),
            &literal,
            scale,
            case.p(),
        );
        let known = case.information();
        let told = model.information(&vector).unwrap();
        assert_all_close(&told, &multiply(&known, &vector), scale, case.p());
        let formed = model.information_matrix();
        assert_all_close(&formed.multiply(&vector).unwrap(), &told, scale, case.p());
    });
}

/// Lem. E.21 with a prior that freezes weights (Σ singular), by elimination in the joint
/// covariance.
#[test]
fn lem_e_21_frozen_weights() {
    let mut rng = Rng::new(8);
    let variances = [2.0, 0.0, 0.5, 0.0];
    let jacobian: Rows = (0..6).map(|_| normals(&mut rng, 4)).collect();
    let model =
        LinearGaussian::new(&jacobian, Prior::Diagonal(variances.to_vec()), 0.3).unwrap();
    let residuals = normals(&mut rng, 6);
    let spread = product(&jacobian, &diagonal(&variances));
    let noisy = shifted(&product(&spread, &transpose(&jacobian)), 1.0, 0.3);
    let expected = multiply(&transpose(&spread), &eliminate(&noisy, &residuals).0);
    let found = model.posterior_mean(&residuals).unwrap();
    assert_all_close(&found, &expected, 10.0, 6);
    assert_eq!((found[1].abs(), found[3].abs()), (0.0, 0.0));
}

/// Lem. E.22: of all estimates inside a subspace the projected posterior mean has the smallest
/// conditional risk, and every other one exceeds it by its squared distance.
#[test]
fn lem_e_22_projection_of_the_posterior_mean() {
    for_cases(|case, rng| {
        let p = case.p();
        let rank = p.div_ceil(2);
        let basis = orthonormal(&(0..rank).map(|_| normals(rng, p)).collect::<Vec<_>>());
        let noise = case.noise_variance;
        let residuals: Vec<f64> =
            normals(rng, case.n()).iter().map(|x| noise.sqrt() * x).collect();
        // The posterior, by the information form.
        let seen = product(&transpose(&case.jacobian), &case.jacobian);
        let precision: Rows = inverse(&case.covariance)
            .iter()
            .zip(&seen)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y / noise).collect())
            .collect();
        let covariance = inverse(&precision);
        let right = multiply(&transpose(&case.jacobian), &residuals);
        let mean: Vec<f64> = multiply(&covariance, &right).iter().map(|x| x / noise).collect();
        let risk = |estimate: &[f64]| {
            let error = subtract(estimate, &mean);
            dot(&error, &error) + trace(&covariance)
        };

        let known = case.model().posterior_mean(&residuals).unwrap();
        let best = multiply(&transpose(&basis), &multiply(&basis, &known));
        let root = cholesky(&covariance);
        let scale = risk(&best) * operator_norm(&precision) * operator_norm(&case.covariance);
        for _ in 0..10 {
            let size = trace(&covariance).sqrt();
            let amounts: Vec<f64> = normals(rng, rank).iter().map(|x| size * x).collect();
            let change = multiply(&transpose(&basis), &amounts);
            let other: Vec<f64> = best.iter().zip(&change).map(|(a, b)| a + b).collect();
            let excess = dot(&change, &change);
            assert!(risk(&other) > risk(&best));
            assert_close(risk(&other) - risk(&best), excess, scale + excess, p);

            // The same difference among draws of the correction, in theoretical standard errors.
            let draws = 500_u32;
            let mut difference = 0.0;
            for _ in 0..draws {
                let noise = gaussian(rng, &root);
                let truth: Vec<f64> = mean.iter().zip(&noise).map(|(a, b)| a + b).collect();
                let loss = |estimate: &[f64]| {
                    let error = subtract(estimate, &truth);
                    dot(&error, &error)
                };
                difference += (loss(&other) - loss(&best)) / f64::from(draws);
            }
            let variance = 4.0 * dot(&change, &multiply(&covariance, &change));
            let standard_error = (variance / f64::from(draws)).sqrt();
            assert!((difference - excess).abs() < 4.5 * standard_error);
        }
    });
}

/// A handful of prompts over the same weights, and what each tells about the same queries.
fn prompts(rng: &mut Rng, count: usize) -> (Vec<Case>, QueryMetric, Vec<QueryInformation>) {
    let p = 4;
    let queries: Rows = (0..6).map(|_| normals(rng, p)).collect();
    let cases: Vec<Case> = (0..count)
        .map(|_| Case {
            jacobian: (0..1 + rng.below(5)).map(|_| normals(rng, p)).collect(),
            prior: Prior::Isotropic(1.0),
            covariance: diagonal(&vec![1.0; p]),
            noise_variance: 0.5,
            queries: queries.clone(),
        })
        .collect();
    let metric = QueryMetric::from_queries(&queries).unwrap();
    let informed =
        cases.iter().map(|case| case.model().query_information(&metric).unwrap()).collect();
    (cases, metric, informed)
}

fn mean_of(parts: &[Rows]) -> Rows {
    let mut mean = shifted(&parts[0], 0.0, 0.0);
    for part in parts {
        for (sum, row) in mean.iter_mut().zip(part) {
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x / parts.len() as f64);
        }
    }
    mean
}

/// Cor. E.23: the top eigenspace of the average ℐ_Q has the smallest average risk.
#[test]
fn cor_e_23_global_subspace() {
    let mut rng = Rng::new(23);
    let (cases, metric, informed) = prompts(&mut rng, 12);
    let (p, count) = (4, cases.len());
    let (root, total, _) = cases[0].whitened();
    let known: Vec<Rows> = cases.iter().map(|case| case.whitened().2).collect();
    let average = mean_of(&known);
    let (eigenvalues, _) = jacobi(&average);
    let scale = trace(&total);

    let mut global = GlobalInformation::new(metric.dimension());
    for information in &informed {
        global.add(information).unwrap();
    }
    assert_eq!(global.prompts(), count);
    let mean = global.mean().unwrap();
    assert_close(mean.total(), scale, scale, p);
    for budget in 1..=p {
        let found = mean.optimal_subspace(budget).unwrap();
        let best: f64 = eigenvalues[..budget].iter().sum();
        assert_close(found.captured(), best, scale, p);
        let average_risk = |risk: &dyn Fn(usize) -> f64| -> f64 {
            (0..count).map(risk).sum::<f64>() / count as f64
        };
        let risk = average_risk(&|i| informed[i].risk(&found).unwrap());
        assert_close(risk, scale - best, scale, p);
        assert_close(found.risk(), risk, scale, p);

        let slack = 1e3 * p as f64 * f64::EPSILON * scale;
        for _ in 0..100 {
            let seen: Rows =
                (0..budget).map(|_| multiply(&root, &normals(&mut rng, p))).collect();
            let other = orthonormal(&seen);
            assert!(average_risk(&|i| scale - captured(&other, &known[i])) >= risk - slack);
        }
        // Nor is any prompt's own optimum better on average.
        for information in &informed {
            let own = information.optimal_subspace(budget).unwrap();
            assert!(average_risk(&|i| informed[i].risk(&own).unwrap()) >= risk - slack);
        }
    }
}

/// Thm. E.25 and Remark E.26: the bounds are the stated ones, and large enough for the matrix
/// Freedman inequality they come from.
#[test]
fn thm_e_25_the_bounds() {
    let mut rng = Rng::new(25);
    for _ in 0..200 {
        let (prompts, dimension) = (1 + rng.below(500), 1 + rng.below(50));
        let (bound, variation) = (3.0 * rng.uniform(), 100.0 * rng.uniform());
        let delta = 0.001 + 0.9 * rng.uniform();
        let (m, d) = (prompts as f64, dimension as f64);
        let plug_in = PlugIn::new(prompts, dimension, bound, variation).unwrap();
        let epsilon = plug_in.deviation(delta).unwrap();
        let log = (2.0 * d / delta).ln();
        let expected = (f64::sqrt(2.0 * variation * log) + 2.0 * bound / 3.0 * log) / m;
        assert_close(epsilon, expected, expected, 1);
        let tail =
            |t: f64| 2.0 * d * (-t * t / (2.0 * variation + 2.0 * bound * t / 3.0)).exp();
        assert!(tail(m * epsilon) <= delta * (1.0 + 1e-12));
        // Without jumps the inequality is used up.
        let smooth = PlugIn::new(prompts, dimension, 0.0, variation).unwrap();
        let reached = m * smooth.deviation(delta).unwrap();
        let at_the_limit = 2.0 * d * (-reached * reached / (2.0 * variation)).exp();
        assert_close(at_the_limit, delta, log, 1);

        let budget = 1 + rng.below(dimension);
        let regret = plug_in.regret(budget, delta).unwrap();
        assert_close(regret, 2.0 * budget as f64 * expected, regret, 1);

        let variance = variation / m;
        let independent = PlugIn::independent(prompts, dimension, bound, variance).unwrap();
        let expected = (2.0 * variance * log / m).sqrt() + 2.0 * bound / (3.0 * m) * log;
        assert_close(independent.deviation(delta).unwrap(), expected, expected, 1);
    }
}

/// One run of a process of prompts: did the average stay within ε, and if so, was the regret of
/// the plug-in design within 2kε for every budget?
fn within(
    plug_in: &PlugIn,
    drawn: &[&QueryInformation],
    expected: &[Vec<f64>],
    delta: f64,
) -> bool {
    let dimension = expected.len();
    let mut global = GlobalInformation::new(dimension);
    for information in drawn {
        global.add(information).unwrap();
    }
    let mean = global.mean().unwrap();
    let apart: Rows =
        mean.matrix().to_rows().iter().zip(expected).map(|(a, b)| subtract(a, b)).collect();
    let inside = operator_norm(&apart) <= plug_in.deviation(delta).unwrap();
    if inside {
        let eigenvalues = jacobi(expected).0;
        for budget in 1..=dimension {
            let design = mean.optimal_subspace(budget).unwrap().basis().to_rows();
            let best: f64 = eigenvalues[..budget].iter().sum();
            let regret = best - captured(&design, expected);
            let slack = 1e3 * dimension as f64 * f64::EPSILON * best;
            assert!(-slack <= regret && regret <= plug_in.regret(budget, delta).unwrap());
            // The proof's own step: twice the budget times the actual deviation.
            assert!(regret <= 2.0 * budget as f64 * operator_norm(&apart) + slack);
        }
    }
    inside
}

/// Thm. E.25 for independent prompts: the average stays within ε with probability 1 − δ, and the
/// regret of its design within 2kε.
#[test]
fn thm_e_25_independent_prompts() {
    let mut rng = Rng::new(26);
    let (_, metric, informed) = prompts(&mut rng, 20);
    let known: Vec<Rows> = informed.iter().map(|i| i.matrix().to_rows()).collect();
    let expected = mean_of(&known);
    let deviations: Vec<Rows> = known
        .iter()
        .map(|a| a.iter().zip(&expected).map(|(x, y)| subtract(x, y)).collect())
        .collect();
    let bound = deviations.iter().map(|x| operator_norm(x)).fold(0.0, f64::max);
    let squares: Vec<Rows> = deviations.iter().map(|x| product(x, x)).collect();
    let variance = operator_norm(&mean_of(&squares));
    let runs = 400;
    for (prompts, delta) in [(1, 0.5), (5, 0.3), (40, 0.1)] {
        let plug_in =
            PlugIn::independent(prompts, metric.dimension(), bound, variance).unwrap();
        let mut outside = 0.0;
        for _ in 0..runs {
            let drawn: Vec<_> =
                (0..prompts).map(|_| &informed[rng.below(informed.len())]).collect();
            outside += f64::from(u8::from(!within(&plug_in, &drawn, &expected, delta)));
        }
        let runs = f64::from(runs);
        assert!(outside / runs <= delta + 4.0 * (delta * (1.0 - delta) / runs).sqrt());
    }
}

/// Thm. E.25 for prompts that are not independent: how far the next one may stray depends on
/// all before it, only its conditional mean is fixed.
#[test]
fn thm_e_25_martingale_prompts() {
    let mut rng = Rng::new(27);
    let dimension = 3;
    let shapes: Vec<Rows> = (0..4)
        .map(|_| {
            let raw: Rows = (0..dimension).map(|_| normals(&mut rng, dimension)).collect();
            let both: Rows = raw
                .iter()
                .zip(transpose(&raw))
                .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y).collect())
                .collect();
            shifted(&both, 0.35 / operator_norm(&both), 0.0)
        })
        .collect();
    let metric = QueryMetric::from_matrix(Matrix::identity(dimension)).unwrap();
    // J = √(μ/(1−μ)) Vᵀ makes ℐ = Jᵀ(JJᵀ + I)⁻¹J any matrix between 0 and I that one likes.
    let centre = diagonal(&[0.4, 0.5, 0.6]);
    let told = |shape: &Rows, amount: f64| -> QueryInformation {
        let target: Rows = shifted(shape, amount, 0.0)
            .iter()
            .zip(&centre)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y).collect())
            .collect();
        let (values, vectors) = jacobi(&target);
        let odds: Vec<f64> =
            values.iter().map(|value| (value / (1.0 - value)).sqrt()).collect();
        let jacobian = product(&diagonal(&odds), &vectors);
        let model = LinearGaussian::new(&jacobian, Prior::Isotropic(1.0), 1.0).unwrap();
        model.query_information(&metric).unwrap()
    };
    let amounts = [-1.0, -0.2, 0.2, 1.0];
    let informed: Vec<Vec<QueryInformation>> = shapes
        .iter()
        .map(|shape| amounts.iter().map(|&amount| told(shape, amount)).collect())
        .collect();
    // The centre again, in the metric's own coordinates.
    let all: Vec<Rows> = informed.iter().flatten().map(|i| i.matrix().to_rows()).collect();
    let expected = mean_of(&all);
    assert_all_close(&jacobi(&expected).0, &[0.6, 0.5, 0.4], 1.0, dimension);
    let squares: Vec<Rows> = shapes.iter().map(|shape| product(shape, shape)).collect();
    let (prompts, delta, runs) = (30, 0.2, 400);
    // |amount| ≤ 1, so the conditional second moments sum to at most this, whatever happens.
    let variation = f64::from(prompts) * operator_norm(&mean_of(&squares));
    let plug_in = PlugIn::new(30, dimension, 0.35, variation).unwrap();
    let mut outside = 0.0;
    for _ in 0..runs {
        let (mut drawn, mut past) = (Vec::new(), 0.0);
        for _ in 0..prompts {
            let (shape, up) = (rng.below(shapes.len()), rng.sign() > 0.0);
            // Wide steps while the past leans up, narrow ones otherwise.
            let wide = past >= 0.0;
            past += if up { 1.0 } else { -1.0 } * trace(&shapes[shape]);
            let amount = match (up, wide) {
                (false, true) => 0,
                (false, false) => 1,
                (true, false) => 2,
                (true, true) => 3,
            };
            drawn.push(&informed[shape][amount]);
        }
        outside += f64::from(u8::from(!within(&plug_in, &drawn, &expected, delta)));
    }
    let runs = f64::from(runs);
    assert!(outside / runs <= delta + 4.0 * (delta * (1.0 - delta) / runs).sqrt());
}

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
