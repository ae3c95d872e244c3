//! What queries see, and how much of it a prompt tells: Sec. 8.1.

use super::{for_cases, jacobi, operator_norm};
use crate::support::{Rows, assert_close, dot, multiply, normals, shifted, subtract, trace};
use fewstep_theory::design::QueryMetric;

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
