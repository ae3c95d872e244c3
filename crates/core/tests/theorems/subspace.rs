//! Sec. 8.2, App. H and App. I: which blocks to update.

use crate::cut::{columns, cut, noise};
use crate::support::{
    Prompt, assert_close, dot, eliminate, for_prompts, inverse, multiply, norm, normals,
    product, shifted, transpose,
};
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::subspace::DepthSettings;
use fewstep_core::{Block, Error, Geometry, Rng, subspace};
use std::ops::Range;

/// `ℐ = Jᵀ (JJᵀ + σ²I)⁻¹ J`, one row and column per weight.
fn information(prompt: &Prompt, noise_variance: f64) -> Vec<Vec<f64>> {
    let noisy = shifted(&prompt.kernel(), 1.0, noise_variance);
    product(&transpose(&prompt.features), &product(&inverse(&noisy), &prompt.features))
}

/// Sec. 8.2: the trace score of a block is the trace of its part of ℐ, and the scores sum to the
/// full update's degrees of freedom.
#[test]
fn sec_8_trace_score_is_a_trace_of_information() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let noise_variance = noise(prompt);
        let known = information(prompt, noise_variance);
        let scores = subspace::trace_scores(&geometry, noise_variance).unwrap();
        for (score, range) in scores.iter().zip(&ranges) {
            let expected: f64 = range.clone().map(|i| known[i][i]).sum();
            assert_close(*score, expected, prompt.n() as f64, prompt.n());
        }
        // tr K (K + σ²I)⁻¹, column by column.
        let kernel = prompt.kernel();
        let solve = inverse(&shifted(&kernel, 1.0, noise_variance));
        let total: f64 = kernel.iter().zip(transpose(&solve)).map(|(a, b)| dot(a, &b)).sum();
        assert_close(scores.iter().sum(), total, prompt.n() as f64, prompt.n());
    });
}

/// Sec. 8.2: the query score of a block is j_bᵀ ℐ_bb j_b.
#[test]
fn sec_8_query_score_is_a_form_of_information() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let noise_variance = noise(prompt);
        let known = information(prompt, noise_variance);
        let scores = subspace::query_scores(&geometry, noise_variance).unwrap();
        for (score, range) in scores.iter().zip(&ranges) {
            let query = &prompt.query[range.clone()];
            let image = range.clone().map(|i| dot(&known[i][range.clone()], query));
            let expected: f64 = image.zip(query).map(|(a, b)| a * b).sum();
            assert_close(*score, expected, dot(query, query), prompt.n());
        }
    });
}

/// Sec. 8.2, corrected: keeping only block b of the posterior mean lowers the query's risk by
/// 2 j_bᵀ(ℐj)_b minus the score, which is the score itself if the blocks do not interact.
#[test]
fn sec_8_risk_reduction_of_a_block() {
    for_prompts(|prompt| {
        let (_, geometry) = cut(prompt);
        let noise_variance = noise(prompt);
        let noisy = shifted(&prompt.kernel(), 1.0, noise_variance);
        let (whole, variance) = (prompt.coupling(), dot(&prompt.query, &prompt.query));
        let scores = subspace::query_scores(&geometry, noise_variance).unwrap();
        for (score, block) in scores.iter().zip(geometry.blocks()) {
            // The block's share of the Bayes correction is aᵀr; its risk, written out.
            let coupling = &block.query().unwrap().coupling;
            let (weights, _) = eliminate(&noisy, coupling);
            let risk = variance - 2.0 * dot(&weights, &whole)
                + dot(&weights, &multiply(&noisy, &weights));
            let reduction = 2.0 * dot(&weights, &whole) - score;
            assert_close(variance - risk, reduction, 10.0 * variance, prompt.n());
        }
    });
    // Two blocks that move different examples.
    let mut rng = Rng::new(82);
    let features: Vec<Vec<f64>> = (0..6)
        .map(|i| (0..4).map(|j| if (i < 3) == (j < 2) { rng.normal() } else { 0.0 }).collect())
        .collect();
    let query = normals(&mut rng, 4);
    let apart = Prompt { seed: 82, features, query, residuals: vec![0.0; 6] };
    let blocks = [0..2, 2..4].map(|range| {
        let query = &apart.query[range.clone()];
        Block::from_features(format!("{range:?}"), &columns(&apart, &range), Some(query))
            .unwrap()
    });
    let geometry = Geometry::new(apart.residuals.clone(), blocks.to_vec()).unwrap();
    let scores = subspace::query_scores(&geometry, 0.3).unwrap();
    let (solved, _) = eliminate(&shifted(&apart.kernel(), 1.0, 0.3), &apart.coupling());
    let reduction = dot(&apart.coupling(), &solved);
    assert_close(scores.iter().sum(), reduction, dot(&apart.query, &apart.query), 6);
}

/// Sec. 8.2: for blocks whose weights move by different amounts, scores of the preconditioned
/// geometry are those of the prior with these variances.
#[test]
fn sec_8_scores_under_block_variances() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let noise_variance = noise(prompt);
        let variances: Vec<f64> = (0..ranges.len()).map(|b| 0.5 + b as f64).collect();
        let weighted = geometry.precondition(&variances).unwrap();
        let mut diagonal = vec![0.0; prompt.query.len()];
        for (range, &variance) in ranges.iter().zip(&variances) {
            diagonal[range.clone()].fill(variance);
        }
        // ℐ = ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ.
        let spread: Vec<Vec<f64>> = prompt
            .features
            .iter()
            .map(|row| row.iter().zip(&diagonal).map(|(x, v)| x * v).collect())
            .collect();
        let kernel = product(&spread, &transpose(&prompt.features));
        let solve = inverse(&shifted(&kernel, 1.0, noise_variance));
        let known = product(&transpose(&spread), &product(&solve, &spread));
        let scores = subspace::query_scores(&weighted, noise_variance).unwrap();
        for (score, range) in scores.iter().zip(&ranges) {
            let query = &prompt.query[range.clone()];
            let image = range.clone().map(|i| dot(&known[i][range.clone()], query));
            let expected: f64 = image.zip(query).map(|(a, b)| a * b).sum();
            assert_close(*score, expected, 5.0 * dot(query, query), prompt.n());
        }
    });
}

/// Sec. 8.2: scores survive a noise variance far below the kernel's rounding: a block outside of
/// which nothing moves then explains all of its own rank.
#[test]
fn sec_8_scores_with_almost_no_noise() {
    let mut rng = Rng::new(84);
    let features: Vec<Vec<f64>> = (0..8).map(|_| normals(&mut rng, 3)).collect();
    let block = Block::from_features("value.0.0", &features, Some(&[1.0, 2.0, 2.0])).unwrap();
    let geometry = Geometry::new(vec![0.0; 8], vec![block]).unwrap();
    for noise_variance in [1e-20, 1e-100] {
        assert_close(
            subspace::trace_scores(&geometry, noise_variance).unwrap()[0],
            3.0,
            3.0,
            8,
        );
        assert_close(
            subspace::query_scores(&geometry, noise_variance).unwrap()[0],
            9.0,
            9.0,
            8,
        );
    }
}

/// Sec. 8.2: scores may be taken per weight.
#[test]
fn sec_8_scores_per_weight() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let scores = subspace::trace_scores(&geometry, noise(prompt)).unwrap();
        let found = subspace::per_weight(&scores, &geometry).unwrap();
        for ((found, score), range) in found.iter().zip(&scores).zip(&ranges) {
            assert_close(found * range.len() as f64, *score, *score, 1);
        }
    });
    let unsized_block = Block::new("value.0.0", &[vec![1.0]]).unwrap();
    let geometry = Geometry::new(vec![1.0], vec![unsized_block]).unwrap();
    assert_eq!(
        subspace::per_weight(&[1.0], &geometry),
        Err(Error::OutOfRange {
            quantity: "number of weights in a block",
            found: 0.0,
            allowed: "known and at least 1",
        })
    );
    assert_eq!(
        subspace::per_weight(&[], &geometry),
        Err(Error::SizeMismatch { quantity: "scores", found: 0, expected: 1 })
    );
    assert!(matches!(
        subspace::per_weight(&[f64::NAN], &geometry),
        Err(Error::NotFinite { quantity: "scores", index: 0, .. })
    ));
}

/// Sec. 8.2 and App. I: the two rules named Query-Aware choose different blocks.
#[test]
fn sec_8_two_rules_named_query_aware() {
    // k² = 4 against 2.25, but k/K = 1/2 against 3/2.
    let strong = Block::from_features("strong", &[vec![2.0]], Some(&[1.0])).unwrap();
    let apt = Block::from_features("apt", &[vec![1.0]], Some(&[1.5])).unwrap();
    let geometry = Geometry::new(vec![1.0], vec![strong, apt]).unwrap();
    let scores = subspace::query_scores(&geometry, 1.0).unwrap();
    assert_eq!(subspace::top(&scores, 1).unwrap(), [0]);
    assert_eq!(subspace::greedy_correction(&geometry, 1, 0.1, 8).unwrap().blocks, [1]);
}

/// App. I: Trace-TopK and Trace-BottomK take the extreme scores, and the first of equal ones.
#[test]
fn app_i_top_and_bottom() {
    let mut rng = Rng::new(9);
    for count in [1, 2, 7, 48] {
        // Few different values, so that ties are common.
        let scores: Vec<f64> =
            (0..count).map(|_| (3.0 * rng.uniform()).floor() - 1.0).collect();
        for budget in 1..=count {
            for (chosen, sign) in [
                (subspace::top(&scores, budget).unwrap(), 1.0),
                (subspace::bottom(&scores, budget).unwrap(), -1.0),
            ] {
                assert_eq!(chosen.len(), budget);
                let before = |a: usize, b: usize| {
                    let ahead = sign * (scores[a] - scores[b]);
                    ahead > 0.0 || (ahead >= 0.0 && a < b)
                };
                assert!(chosen.windows(2).all(|pair| before(pair[0], pair[1])));
                let last = *chosen.last().unwrap();
                let rest = (0..count).filter(|b| !chosen.contains(b));
                assert!(rest.into_iter().all(|b| before(last, b)));
            }
        }
    }
    assert_eq!(subspace::bottom(&[0.0, -0.0], 2).unwrap(), [0, 1]);
    assert_eq!(subspace::top(&[-0.0, 0.0], 2).unwrap(), [0, 1]);
}

/// App. I: the random baseline draws every block equally often and none twice.
#[test]
fn app_i_random_is_uniform() {
    let mut rng = Rng::new(10);
    let (draws, blocks, budget) = (20_000_u32, 12, 4);
    let mut counts = vec![0.0; blocks];
    for _ in 0..draws {
        let chosen = subspace::random(blocks, budget, &mut rng).unwrap();
        assert_eq!(chosen.len(), budget);
        for (i, &block) in chosen.iter().enumerate() {
            assert!(!chosen[..i].contains(&block));
            counts[block] += 1.0;
        }
    }
    let share = budget as f64 / blocks as f64;
    let standard_error = (f64::from(draws) * share * (1.0 - share)).sqrt();
    for count in counts {
        assert!((count - f64::from(draws) * share).abs() < 4.0 * standard_error);
    }
}

/// The largest eigenvalue of a kernel as the square of the largest singular value of its
/// features: one-sided Jacobi, which never forms the kernel.
fn largest_eigenvalue(features: &[Vec<f64>]) -> f64 {
    let mut columns = transpose(features);
    for _ in 0..30 {
        for p in 0..columns.len() {
            for q in p + 1..columns.len() {
                let (left, right) = columns.split_at_mut(q);
                let (a, b) = (&mut left[p], &mut right[0]);
                let angle = 0.5 * (2.0 * dot(a, b)).atan2(dot(b, b) - dot(a, a));
                let (sine, cosine) = angle.sin_cos();
                for (x, y) in a.iter_mut().zip(b) {
                    (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                }
            }
        }
    }
    columns.iter().map(|column| dot(column, column)).fold(0.0, f64::max)
}

/// `h` after `horizon` literal gradient steps on the weights of some blocks.
fn literal_correction(
    prompt: &Prompt,
    ranges: &[&Range<usize>],
    step_scale: f64,
    horizon: u32,
) -> (f64, f64) {
    let gather = |row: &[f64]| -> Vec<f64> {
        ranges.iter().flat_map(|range| row[(*range).clone()].to_vec()).collect()
    };
    let features: Vec<Vec<f64>> = prompt.features.iter().map(|row| gather(row)).collect();
    let query = gather(&prompt.query);
    let largest = largest_eigenvalue(&features);
    let step = if largest > 0.0 { step_scale / largest } else { step_scale };
    let mut theta = vec![0.0; query.len()];
    for _ in 0..horizon {
        let left: Vec<f64> = features
            .iter()
            .zip(&prompt.residuals)
            .map(|(row, residual)| residual - dot(row, &theta))
            .collect();
        for (row, left) in features.iter().zip(&left) {
            theta.iter_mut().zip(row).for_each(|(t, x)| *t += step * left * x);
        }
    }
    let coupling = norm(&multiply(&features, &query));
    let scale = coupling * norm(&prompt.residuals) * step * f64::from(horizon.max(1));
    (dot(&query, &theta), scale)
}

/// App. I, Query-Aware: each block taken is the one that moves the query most under literal
/// steps on the current set plus that block, at the step size of that set, on both sides of
/// the border between stepping and decomposing.
#[test]
fn app_i_greedy_is_the_literal_rule() {
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let (n, count) = (prompt.n(), ranges.len());
        let border = 20 * u32::try_from(n).unwrap();
        for horizon in [0, 1, 8, border, border + 1] {
            let choice = subspace::greedy_correction(&geometry, count, 0.3, horizon).unwrap();
            assert_eq!((choice.blocks.len(), choice.corrections.len()), (count, count));
            for (taken, (&block, &correction)) in
                choice.blocks.iter().zip(&choice.corrections).enumerate()
            {
                let current = &choice.blocks[..taken];
                let with = |candidate: usize| {
                    let set: Vec<_> =
                        current.iter().chain([&candidate]).map(|&b| &ranges[b]).collect();
                    literal_correction(prompt, &set, 0.3, horizon)
                };
                let (expected, scale) = with(block);
                assert_close(correction, expected, scale, n);
                for other in (0..count).filter(|b| !current.contains(b)) {
                    let (other, scale) = with(other);
                    let slack = 1e3 * n as f64 * f64::EPSILON * scale;
                    assert!(expected.abs() >= other.abs() - slack);
                }
            }
            // A smaller budget is the same choice, cut short.
            let first = subspace::greedy_correction(&geometry, 1, 0.3, horizon).unwrap();
            assert_eq!(first.blocks[0], choice.blocks[0]);
        }
    });
}

/// The smallest leave-one-out mean squared error, by literal steps on the weights of some
/// blocks without each example in turn.
fn literal_leave_one_out(prompt: &Prompt, ranges: &[&Range<usize>], horizons: &[u32]) -> f64 {
    let gather = |row: &[f64]| -> Vec<f64> {
        ranges.iter().flat_map(|range| row[(*range).clone()].to_vec()).collect()
    };
    let features: Vec<Vec<f64>> = prompt.features.iter().map(|row| gather(row)).collect();
    let largest = largest_eigenvalue(&features);
    let step = if largest > 0.0 { 0.3 / largest } else { 0.3 };
    let mut sums = vec![0.0; horizons.len()];
    for dropped in 0..prompt.n() {
        let mut theta = vec![0.0; features[0].len()];
        for taken in 0..=horizons[horizons.len() - 1] {
            let error = prompt.residuals[dropped] - dot(&features[dropped], &theta);
            if let Some(place) = horizons.iter().position(|&horizon| horizon == taken) {
                sums[place] += error * error / prompt.n() as f64;
            }
            let left: Vec<f64> = features
                .iter()
                .zip(&prompt.residuals)
                .map(|(row, residual)| residual - dot(row, &theta))
                .collect();
            for (i, (row, left)) in features.iter().zip(&left).enumerate() {
                if i != dropped {
                    theta.iter_mut().zip(row).for_each(|(t, x)| *t += step * left * x);
                }
            }
        }
    }
    sums.into_iter().fold(f64::INFINITY, f64::min)
}

/// Beyond the paper: the depth is the one whose blocks together predict held-out examples best under
/// literal steps, among the last layer, two, four and all of them; and the deepest of equal ones.
#[test]
fn design_5_7_depth_by_leave_one_out_errors_is_the_literal_rule() {
    let mut found = [0; 6];
    for_prompts(|prompt| {
        let (ranges, geometry) = cut(prompt);
        let count = ranges.len();
        // From the last layer to the first, the third of five being in none.
        let layer = |block: usize| 10 + count - block;
        let named = geometry.blocks().iter().enumerate().map(|(block, from)| {
            // What a name looks like says nothing about layers.
            let named = Block::new(format!("mlp-up.{block}"), from.kernel().clone()).unwrap();
            if block == 2 && count == 5 { named } else { named.in_layer(layer(block)) }
        });
        let geometry = Geometry::new(prompt.residuals.clone(), named.collect()).unwrap();
        let horizons = [0, 1, 2, 5, 11];
        let steps =
            DepthSettings { step_scale: 0.3, horizons: &horizons, averaging: Averaging::Plain };
        let choice = subspace::last_layers(&geometry, &steps).unwrap();
        let layers = if count == 5 { 4 } else { count };
        let tried: &[usize] = [&[][..], &[1], &[1, 2], &[1, 2, 3], &[1, 2, 4]][layers];
        assert_eq!(choice.layers, tried);
        let set = |last: usize| -> Vec<usize> {
            let layered = (0..count).filter(|&block| block != 2 || count < 5).take(last);
            let none = (count == 5).then_some(2);
            let mut set: Vec<usize> = layered.chain(none).collect();
            set.sort_unstable();
            set
        };
        let scale = norm(&prompt.residuals).powi(2);
        let slack = 1e3 * prompt.n() as f64 * f64::EPSILON * scale;
        for (&last, &risk) in choice.layers.iter().zip(&choice.risks) {
            let ranges: Vec<_> = set(last).into_iter().map(|block| &ranges[block]).collect();
            let literal = literal_leave_one_out(prompt, &ranges, &horizons);
            assert_close(risk, literal, scale, prompt.n());
            let chosen = choice.blocks == set(last);
            let least = choice.risks.iter().fold(f64::INFINITY, |a, &b| a.min(b));
            assert!(!chosen || risk <= least + slack, "{choice:?}");
        }
        let taken = choice.layers.iter().position(|&last| choice.blocks == set(last));
        found[taken.expect("one of the sets was taken")] += 1;
        // Where no step is the best that any set can do, all are in.
        let still = DepthSettings { horizons: &[0], ..steps };
        assert_eq!(subspace::last_layers(&geometry, &still).unwrap().blocks, set(layers));
    });
    assert!(found[..3].iter().all(|&times| times > 0), "{found:?}");
}

/// App. I, Query-Aware after a million steps, which leave the slow mode of two unfinished.
#[test]
fn app_i_greedy_after_a_million_steps() {
    let fast = Block::from_features("fast", &[vec![1.0], vec![0.0]], Some(&[2.0])).unwrap();
    let slow = Block::from_features("slow", &[vec![0.0], vec![1e-3]], Some(&[3.0])).unwrap();
    let geometry = Geometry::new(vec![1.0, 0.5], vec![fast, slow]).unwrap();
    let found = subspace::greedy_correction(&geometry, 2, 0.3, 1_000_000).unwrap();
    // Alone, the slow mode sets its own step and is finished: 3 · 10⁻³ · 0.5/10⁻⁶.
    assert_eq!(found.blocks, [1, 0]);
    assert_close(found.corrections[0], 1500.0, 1500.0, 2);
    // Beside the fast one it keeps (1 − x)^T, with the logarithm's series.
    let (x, steps) = (0.3e-6_f64, 1e6);
    let kept = (-steps * x * (1.0 + x / 2.0 + x * x / 3.0)).exp();
    // Its eigenvalue is known to rounding of the largest one, hence ‖k‖ ‖r‖ ρT as everywhere.
    let scale = norm(&[2.0, 3e-3]) * norm(&[1.0, 0.5]) * 0.3 * steps;
    assert_close(found.corrections[1], 2.0 + 1500.0 * (1.0 - kept), scale, 2);
}

/// App. I: without residuals, steps or anything that moves, all candidates tie and the first
/// blocks are taken.
#[test]
fn app_i_greedy_ties() {
    let block = |name: &str, feature: f64| {
        Block::from_features(name, &[vec![feature]], Some(&[feature])).unwrap()
    };
    let choose = |residual: f64, features: [f64; 3], horizon: u32| {
        let [a, b, c] = features;
        let blocks = vec![block("a", a), block("b", b), block("c", c)];
        let geometry = Geometry::new(vec![residual], blocks).unwrap();
        let choice = subspace::greedy_correction(&geometry, 2, 0.1, horizon).unwrap();
        (choice.blocks, choice.corrections)
    };
    let nothing = (vec![0, 1], vec![0.0, 0.0]);
    assert_eq!(choose(0.0, [1.0, 2.0, 3.0], 8), nothing);
    assert_eq!(choose(1.0, [1.0, 2.0, 3.0], 0), nothing);
    assert_eq!(choose(1.0, [0.0; 3], 8), nothing);
    assert_eq!(choose(1.0, [0.0; 3], 1000), nothing);
    // A block that moves nothing comes last.
    assert_eq!(choose(1.0, [0.0, 1.0, 1.0], 1).0, [1, 0]);
}

/// Budgets, noise, step scales and geometries that make no sense are refused, with numbers.
#[test]
fn app_i_bad_input() {
    let blind = Block::new("value.0.0", &[vec![1.0]]).unwrap();
    let blind = Geometry::new(vec![1.0], vec![blind]).unwrap();
    let geometry = Geometry::new(vec![1.0], vec![Block::intercept(1).unwrap()]).unwrap();
    for budget in [0, 2] {
        let refused = Error::BudgetOutOfRange { budget, blocks: 1 };
        assert_eq!(subspace::top(&[1.0], budget), Err(refused.clone()));
        assert_eq!(subspace::bottom(&[1.0], budget), Err(refused.clone()));
        assert_eq!(subspace::random(1, budget, &mut Rng::new(0)), Err(refused.clone()));
        let greedy = subspace::greedy_correction(&geometry, budget, 0.1, 8);
        assert_eq!(greedy, Err(refused));
    }
    for choose in [subspace::top, subspace::bottom] {
        let refused = choose(&[0.0, f64::INFINITY], 1);
        let value = f64::INFINITY;
        assert_eq!(refused, Err(Error::NotFinite { quantity: "scores", index: 1, value }));
    }
    assert_eq!(
        subspace::query_scores(&blind, 1.0),
        Err(Error::NoQuery { quantity: "the query score" })
    );
    assert_eq!(
        subspace::greedy_correction(&blind, 1, 0.1, 8),
        Err(Error::NoQuery { quantity: "the greedy choice of blocks" })
    );
    for found in [0.0, -1.0, f64::INFINITY] {
        let allowed = "finite and over 0";
        let refused = Error::OutOfRange { quantity: "noise variance", found, allowed };
        assert_eq!(subspace::trace_scores(&geometry, found), Err(refused.clone()));
        assert_eq!(subspace::query_scores(&geometry, found), Err(refused));
    }
    for found in [0.0, 1.0, -0.5] {
        let allowed = "over 0 and under 1";
        let refused = Error::OutOfRange { quantity: "step scale", found, allowed };
        assert_eq!(subspace::greedy_correction(&geometry, 1, found, 8), Err(refused));
    }
    let skew = Block::new("skew", &[vec![1.0, 2.0], vec![0.0, 1.0]]).unwrap();
    let skew = skew.with_query(vec![0.0, 0.0], 1.0).unwrap();
    let skew = Geometry::new(vec![1.0, 1.0], vec![skew]).unwrap();
    let refused = Error::NotSymmetric { row: 0, column: 1, upper: 2.0, lower: 0.0 };
    assert_eq!(subspace::trace_scores(&skew, 1.0), Err(refused.clone()));
    assert_eq!(subspace::greedy_correction(&skew, 1, 0.1, 8), Err(refused));
    let huge = Block::from_features("huge", &[vec![1e-150]], Some(&[1e150])).unwrap();
    let huge = Geometry::new(vec![1e200], vec![huge]).unwrap();
    assert!(matches!(
        subspace::greedy_correction(&huge, 1, 0.1, 8),
        Err(Error::NotFinite { quantity: "correction", index: 0, .. })
    ));
}
