//! Beyond the paper: horizons judged on held-out examples, and jackknife+ intervals.

use crate::support::*;
use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
use fewstep_core::{Answers, Error, Interval, Matrix, Rng, Spectrum, StepSize};

const ALL: [Averaging; 4] =
    [Averaging::Plain, Averaging::Trimmed, Averaging::Median, Averaging::QueryWeighted];

/// `φᵀθ` for two probes after `horizon` literal gradient steps on all examples but one.
fn descend(p: &Prompt, dropped: usize, step: f64, horizon: u32) -> (f64, f64) {
    let mut theta = vec![0.0; p.query.len()];
    for _ in 0..horizon {
        let mut gradient = vec![0.0; theta.len()];
        for (i, (features, r)) in p.features.iter().zip(&p.residuals).enumerate() {
            if i != dropped {
                let error = r - dot(features, &theta);
                gradient.iter_mut().zip(features).for_each(|(g, f)| *g += f * error);
            }
        }
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t += step * g);
    }
    (dot(&p.features[dropped], &theta), dot(&p.query, &theta))
}

fn observe(p: &Prompt, fraction: f64, candidates: &[u32]) -> (LeaveOneOut, f64) {
    let kernel = matrix(&p.kernel());
    let step = StepSize::fraction(fraction, &Spectrum::of(&kernel).unwrap()).unwrap();
    let coupling = p.coupling();
    let dropped =
        LeaveOneOut::of(&kernel, &p.residuals, step, candidates, Some(&coupling)).unwrap();
    (dropped, step.get())
}

/// Section 5.7: the prediction of each held-out example is that of literal gradient descent on
/// the features of the others, at the same step size.
#[test]
fn design_5_7_predictions_are_descent_without_the_example() {
    let candidates = [0, 1, 2, 7, 15];
    for_prompts(|p| {
        let (dropped, step) = observe(p, 0.3, &candidates);
        assert_eq!(dropped.candidates(), candidates);
        assert_eq!((dropped.errors().rows(), dropped.errors().columns()), (5, p.n()));
        for (row, &horizon) in candidates.iter().enumerate() {
            for example in 0..p.n() {
                let (prediction, _) = descend(p, example, step, horizon);
                let literal = p.residuals[example] - prediction;
                // ρ λ_max = 0.3 bounds what one step can move.
                let scale = norm(&p.residuals) * (1.0 + 0.3 * f64::from(horizon));
                assert_close(dropped.errors()[(row, example)], literal, scale, p.n());
            }
        }
    });
}

/// Section 5.7: the four averages of the squared errors, from the errors themselves.
#[test]
fn design_5_7_risks_are_averages_of_squared_errors() {
    for_prompts(|p| {
        let (dropped, _) = observe(p, 0.5, &[0, 3, 8]);
        let n = p.n();
        let curves = ALL.map(|averaging| dropped.risk(averaging).unwrap());
        // Squared cosines between the features of example and query.
        let cosines: Vec<f64> = p
            .features
            .iter()
            .map(|f| match norm(f) * norm(&p.query) {
                0.0 => 1.0,
                length => (dot(f, &p.query) / length).powi(2),
            })
            .collect();
        // Examples that no feature moves at all are alike: a plain mean.
        let level = cosines.iter().sum::<f64>();
        let still = p.features.iter().any(|f| norm(f) == 0.0)
            && p.features.iter().any(|f| norm(f) > 0.0);
        for candidate in 0..3 {
            let mut squares: Vec<f64> =
                dropped.errors().row(candidate).iter().map(|e| e.powi(2)).collect();
            let weighted = dot(&squares, &cosines) / level;
            let sum: f64 = squares.iter().sum();
            squares.sort_by(f64::total_cmp);
            let trimmed = if n < 3 {
                sum / n as f64
            } else {
                squares[1..n - 1].iter().sum::<f64>() / (n - 2) as f64
            };
            let median = if n % 2 == 1 {
                squares[n / 2]
            } else {
                (squares[n / 2 - 1] + squares[n / 2]) / 2.0
            };
            let expected = [sum / n as f64, trimmed, median, weighted];
            for (curve, expected) in curves.iter().zip(expected).take(if still { 3 } else { 4 })
            {
                assert_close(curve[candidate], expected, sum, n);
            }
        }
    });
}

/// Section 5.7: an example that is not aligned with the query has no weight; if none is, all
/// have the same.
#[test]
fn design_5_7_weights_by_alignment_with_the_query() {
    let kernel = Matrix::from_rows(&[vec![4.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0; 3]]);
    let kernel = kernel.unwrap();
    let step = StepSize::fraction(0.5, &Spectrum::of(&kernel).unwrap()).unwrap();
    let risk = |coupling: &[f64]| {
        LeaveOneOut::of(&kernel, &[1.0, 2.0, 3.0], step, &[4], Some(coupling))
            .unwrap()
            .risk(Averaging::QueryWeighted)
            .unwrap()[0]
    };
    // Squared cosines 1²/4 and (−1)²/1; the last example has no features.
    assert_close(risk(&[1.0, -1.0, 0.0]), (0.25 * 1.0 + 1.0 * 4.0) / 1.25, 9.0, 3);
    assert_close(risk(&[0.0, 0.0, 0.0]), 14.0 / 3.0, 9.0, 3);
}

/// Beyond section 5.7: by label, predictions are cut to the range of the labels, and each label
/// counts once. Here every example is repeated until all labels have as many, and the plain mean of
/// fourth powers is taken.
#[test]
fn design_5_7_every_label_counts_the_same() {
    let candidates = [0, 1, 7, 40];
    let (mut cut, mut uneven) = (0, 0);
    for_prompts(|p| {
        let n = p.n();
        let (dropped, step) = observe(p, 0.5, &candidates);
        let labels: Vec<usize> = (0..n).map(|i| (i * i + n) % 3).collect();
        let predictions: Vec<f64> = (0..n).map(|i| 0.1 * (i % 10) as f64).collect();
        let answers = Answers::new(labels.clone(), &predictions, [0.0, 1.0]).unwrap();
        let dropped = dropped.with_answers(&p.residuals, &answers).unwrap();
        let risk = dropped.risk(Averaging::ByLabel).unwrap();
        let count = |label| labels.iter().filter(|&&other| other == label).count();
        let most: usize = (0..3).map(|label| count(label).max(1)).product();
        uneven += usize::from(labels.iter().any(|&label| count(label) != count(labels[0])));
        for (&found, &horizon) in risk.iter().zip(&candidates) {
            let mut powers = Vec::new();
            for i in 0..n {
                let (moved, _) = descend(p, i, step, horizon);
                let answer = predictions[i] + p.residuals[i];
                let predicted = predictions[i] + moved;
                cut += usize::from(!(0.0..=1.0).contains(&predicted));
                let power = (answer - predicted.clamp(0.0, 1.0)).powi(4);
                powers.extend(vec![power; most / count(labels[i])]);
            }
            let mean = powers.iter().sum::<f64>() / powers.len() as f64;
            let scale = n as f64 * (1.0 + norm(&p.residuals)).powi(2) * 40.0;
            assert_close(found, mean.sqrt(), scale, n);
        }
        let weights = dropped.posterior(Averaging::ByLabel, 0.25, 1.0).unwrap();
        assert_close(weights.iter().sum(), 1.0, 1.0, n);
    });
    assert!(cut > 50 && uneven > 5, "{cut} {uneven}");
}

/// Errors that were found otherwise are averaged as those that were found here.
#[test]
fn design_5_7_errors_may_come_from_elsewhere() {
    for_prompts(|p| {
        let (dropped, _) = observe(p, 0.5, &[0, 1, 7]);
        let again = LeaveOneOut::from_errors(&[0, 1, 7], dropped.errors().clone()).unwrap();
        for averaging in [Averaging::Plain, Averaging::Trimmed, Averaging::Median] {
            assert_eq!(again.risk(averaging), dropped.risk(averaging));
        }
        assert!(matches!(again.interval(0, 0.5), Err(Error::NoQuery { .. })));
    });
}

/// Where labels are more than three and nothing is cut, counting by label is the mean of the roots of
/// all errors, however often each label occurs.
#[test]
fn design_5_7_by_label_averages_roots_where_labels_are_many() {
    let mut repeated = 0;
    for_prompts(|p| {
        if p.n() < 4 {
            return;
        }
        let (dropped, _) = observe(p, 0.5, &[0, 1, 7]);
        let labels = (0..p.n()).map(|example| example.min(3)).collect();
        repeated += usize::from(p.n() > 4);
        let wide = Answers::new(labels, &vec![0.0; p.n()], [-1e9, 1e9]).unwrap();
        let dropped = dropped.with_answers(&p.residuals, &wide).unwrap();
        let found = dropped.risk(Averaging::ByLabel).unwrap();
        let scale = p.residuals.iter().map(|r| r * r).sum::<f64>();
        for (candidate, found) in found.iter().enumerate() {
            let roots = dropped.errors().row(candidate).iter().map(|error| error.abs().sqrt());
            let mean = roots.sum::<f64>() / p.n() as f64;
            assert_close(*found, mean.powi(4), scale, p.n());
        }
        let choose = |averaging| dropped.choose(averaging, 0.0).unwrap().index;
        let risk = dropped.risk(Averaging::ByLabel).unwrap();
        assert!(risk[choose(Averaging::ByLabel)] <= risk[choose(Averaging::Plain)]);
    });
    assert!(repeated > 5, "{repeated}");
}

/// Nine of ten labels are alike and nothing tells examples apart: moving towards the many is what
/// leave-one-out errors ask for, unless every label counts the same.
#[test]
fn design_5_7_frequent_labels_are_no_reason_to_move() {
    let kernel = Matrix::from_rows(&vec![vec![1.0; 10]; 10]).unwrap();
    let step = StepSize::fraction(0.5, &Spectrum::of(&kernel).unwrap()).unwrap();
    let mut labels = vec![0; 10];
    labels[3] = 1;
    let residuals: Vec<f64> = labels.iter().map(|&label| label as f64 - 0.3).collect();
    let answers = Answers::new(labels, &[0.3; 10], [0.0, 1.0]).unwrap();
    let dropped = LeaveOneOut::of(&kernel, &residuals, step, &[0, 1, 4, 16], None).unwrap();
    let dropped = dropped.with_answers(&residuals, &answers).unwrap();
    let chosen = |averaging| dropped.choose(averaging, 0.0).unwrap().horizon;
    assert!(chosen(Averaging::Plain) > 0 && chosen(Averaging::Median) > 0);
    assert_eq!(chosen(Averaging::ByLabel), 0);
}

/// Section 5.7: a horizon is chosen only if its risk beats that of the shortest candidate by the
/// asked number of standard errors of the paired differences; ties go to the shorter.
#[test]
fn design_5_7_choice_passes_the_gate() {
    let candidates = [0, 1, 4, 16, 64];
    let mut moved = 0;
    for_prompts(|p| {
        let (dropped, _) = observe(p, 0.5, &candidates);
        for averaging in [Averaging::Plain, Averaging::Trimmed, Averaging::Median] {
            let risk = dropped.risk(averaging).unwrap();
            let best = (0..5).rev().min_by(|&a, &b| risk[a].total_cmp(&risk[b])).unwrap();
            let smallest = risk[best];
            let best = (0..5).find(|&t| risk[t] <= smallest * (1.0 + 1e-14)).unwrap();
            let errors = dropped.errors();
            let differences: Vec<f64> = (0..p.n())
                .map(|i| errors[(0, i)].powi(2) - errors[(best, i)].powi(2))
                .collect();
            let error = if p.n() > 1 { mean_and_error(&differences).1 } else { 0.0 };
            for gate in [0.0, 0.5, 1.0, 2.0, 10.0] {
                let expected = if risk[0] - risk[best] > gate * error { best } else { 0 };
                let choice = dropped.choose(averaging, gate).unwrap();
                assert_eq!((choice.index, choice.horizon), (expected, candidates[expected]));
                assert_eq!(choice.at_edge, expected == 4);
                moved += usize::from(expected > 0);
            }
        }
    });
    assert!(moved > 5, "the gate opened {moved} times only");

    // Weighted: all weight on two of three examples. The weighted mean of the differences and
    // its standard error by hand.
    let kernel = matrix(&[vec![1.0, 1.0, 1.0], vec![1.0, 1.0, 1.0], vec![1.0, 1.0, 1.0]]);
    let step = StepSize::new(0.25, &Spectrum::of(&kernel).unwrap()).unwrap();
    let coupling = [1.0, 1.0, 0.0];
    let r = [1.0, 2.0, -1.0];
    let dropped = LeaveOneOut::of(&kernel, &r, step, &[0, 1], Some(&coupling)).unwrap();
    // One step predicts a quarter of the sum of the others: 1/4, 0, 3/4.
    let differences = [1.0 - 0.75_f64.powi(2), 0.0];
    let mean = (differences[0] + differences[1]) / 2.0;
    let spread: f64 = differences.iter().map(|d| (d - mean).powi(2) / 4.0).sum();
    let error = (spread * 1.5).sqrt();
    let choose = |gate: f64| dropped.choose(Averaging::QueryWeighted, gate).unwrap().horizon;
    assert_eq!((choose(0.99 * mean / error), choose(1.01 * mean / error)), (1, 0));

    // Without 0 among the candidates the shortest takes its place.
    let dropped = LeaveOneOut::of(&kernel, &r, step, &[9, 3], None).unwrap();
    assert_eq!(dropped.choose(Averaging::Plain, 1e6).unwrap().horizon, 3);
}

/// Section 5.7: weights are risks to a power, times odds for the shortest candidate, from literal
/// descent and in logarithms; they follow neither order nor scale of the problem.
#[test]
fn design_5_7_weights_follow_left_out_errors() {
    let candidates = [0, 1, 4, 9];
    for_prompts(|p| {
        let (dropped, step) = observe(p, 0.3, &candidates);
        let n = p.n() as f64;
        let risk = |horizon: u32| {
            let error = |i: usize| p.residuals[i] - descend(p, i, step, horizon).0;
            (0..p.n()).map(|i| error(i).powi(2)).sum::<f64>() / n
        };
        let logs: Vec<f64> = candidates.iter().map(|&horizon| risk(horizon).ln()).collect();
        let found = dropped.posterior(Averaging::Plain, 0.5, 3.0).unwrap();
        assert_close(found.iter().sum(), 1.0, 1.0, p.n());
        if logs.iter().any(|log| log.is_infinite()) {
            // Whatever predicts without error has all the weight.
            for (weight, log) in found.iter().zip(&logs) {
                assert!(log.is_infinite() || *weight == 0.0, "{found:?}");
            }
            return;
        }
        for (place, log) in logs.iter().enumerate().skip(1) {
            // log w_T/w_0 = −(n/2)(log risk_T − log risk_0) − log(3 · 3).
            let expected = (-0.5 * n * (log - logs[0])).exp() / 9.0;
            assert_close(found[place], found[0] * expected, found[place], 100 * p.n());
        }
    });
}

/// Section 5.7: the odds are those of no step against all others together, wherever it stands.
#[test]
fn design_5_7_odds_are_against_all_steps_together() {
    // Examples that share nothing: every candidate errs alike.
    let kernel = Matrix::identity(2);
    let step = StepSize::new(0.5, &Spectrum::of(&kernel).unwrap()).unwrap();
    let dropped = LeaveOneOut::of(&kernel, &[1.0, 1.0], step, &[7, 0, 3], None).unwrap();
    assert_eq!(dropped.posterior(Averaging::Plain, 1.0, 3.0).unwrap(), [0.125, 0.75, 0.125]);
    let alone = LeaveOneOut::of(&kernel, &[1.0, 1.0], step, &[4], None).unwrap();
    assert_eq!(alone.posterior(Averaging::Plain, 1.0, 0.1).unwrap(), [1.0]);
    let silent = LeaveOneOut::of(&kernel, &[0.0, 0.0], step, &[0, 1], None).unwrap();
    assert_eq!(silent.posterior(Averaging::Plain, 1.0, 3.0).unwrap(), [0.75, 0.25]);
    // Most examples are right already, and a step on the third moves them away: by their median no
    // error is left without a step, which has all weight.
    let alike = matrix(&vec![vec![1.0; 3]; 3]);
    let step = StepSize::new(0.1, &Spectrum::of(&alike).unwrap()).unwrap();
    let outlier = LeaveOneOut::of(&alike, &[0.0, 0.0, 1.0], step, &[0, 1], None).unwrap();
    assert_eq!(outlier.posterior(Averaging::Median, 1.0, 0.1).unwrap(), [1.0, 0.0]);
    for (sharpness, odds, quantity) in
        [(0.0, 1.0, "sharpness"), (f64::NAN, 1.0, "sharpness"), (1.0, -1.0, "odds")]
    {
        let refused = dropped.posterior(Averaging::Plain, sharpness, odds);
        assert!(
            matches!(refused, Err(Error::OutOfRange { quantity: named, .. }) if named == quantity)
        );
    }
}

/// Section 5.5: the interval's ends are the order statistics of Barber et al. (2021), from
/// literal descent without each example in turn.
#[test]
fn design_5_5_interval_is_the_jackknife_plus() {
    for_prompts(|p| {
        let candidates = [0, 6];
        let (dropped, step) = observe(p, 0.3, &candidates);
        let n = p.n();
        for (row, &horizon) in candidates.iter().enumerate() {
            let (mut lower, mut upper): (Vec<f64>, Vec<f64>) = (0..n)
                .map(|i| {
                    let (prediction, correction) = descend(p, i, step, horizon);
                    let width = (p.residuals[i] - prediction).abs();
                    (correction - width, correction + width)
                })
                .unzip();
            lower.sort_by(f64::total_cmp);
            upper.sort_by(f64::total_cmp);
            let reach = step * f64::from(horizon) * norm(&p.coupling());
            let scale = norm(&p.residuals) * (1.0 + 0.3 * f64::from(horizon) + reach);
            // α = part/100, so that α(n+1) is a whole number of hundredths.
            for part in [1, 5, 10, 20, 25, 40, 50, 60, 90] {
                let coverage = 1.0 - f64::from(part) / 100.0;
                let found = dropped.interval(row, coverage).unwrap();
                let rank = part as usize * (n + 1) / 100;
                if rank == 0 {
                    let all = Interval { lower: f64::NEG_INFINITY, upper: f64::INFINITY };
                    assert_eq!(found, all);
                } else {
                    assert_close(found.lower, lower[rank - 1], scale, n);
                    assert_close(found.upper, upper[n - rank], scale, n);
                }
            }
        }
    });
}

/// Section 5.7: few steps are taken one by one, many by the modes of the kernel; both say the same.
#[test]
fn design_5_7_steps_and_modes_agree() {
    for_prompts(|p| {
        let n = p.n();
        let most = 10 * u32::try_from(n).unwrap();
        let (few, _) = observe(p, 0.3, &[most, 0, 3, 3]);
        let (many, _) = observe(p, 0.3, &[most, 0, 3, 3, most + 1]);
        let scale = norm(&p.residuals) * f64::from(most);
        for row in 0..4 {
            for example in 0..n {
                let [a, b] = [&few, &many].map(|dropped| dropped.errors()[(row, example)]);
                assert_close(a, b, scale, n);
            }
            let [a, b] = [&few, &many].map(|dropped| dropped.interval(row, 0.5).unwrap());
            let scale = scale * (1.0 + norm(&p.coupling()));
            assert_close(a.lower, b.lower, scale, n);
            assert_close(a.upper, b.upper, scale, n);
        }
    });
}

/// Section 5.5: of an average over horizons, errors and corrections are averaged before the interval
/// is taken.
#[test]
fn design_5_5_interval_of_an_average_averages_first() {
    for_prompts(|p| {
        let (candidates, weights) = ([0, 2, 6], [0.5, 0.2, 0.3]);
        let (dropped, step) = observe(p, 0.3, &candidates);
        let n = p.n();
        let mut ends: Vec<(f64, f64)> = (0..n)
            .map(|i| {
                let (mut error, mut correction) = (p.residuals[i], 0.0);
                for (&horizon, weight) in candidates.iter().zip(weights) {
                    let moved = descend(p, i, step, horizon);
                    error -= weight * moved.0;
                    correction += weight * moved.1;
                }
                (correction - error.abs(), correction + error.abs())
            })
            .collect();
        let found = dropped.interval_of_average(&weights, 0.5).unwrap();
        let rank = n.div_ceil(2);
        let scale = norm(&p.residuals) * (1.0 + 1.8 + step * 6.0 * norm(&p.coupling()));
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_close(found.lower, ends[rank - 1].0, scale, n);
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        assert_close(found.upper, ends[n - rank].1, scale, n);
        for (index, &horizon) in candidates.iter().enumerate() {
            let mut one = [0.0; 3];
            one[index] = 1.0;
            let alone = dropped.interval(index, 0.5).unwrap();
            assert_eq!(dropped.interval_of_average(&one, 0.5).unwrap(), alone, "{horizon}");
        }
        assert!(matches!(
            dropped.interval_of_average(&weights[..2], 0.5),
            Err(Error::SizeMismatch { quantity: "weights", found: 2, expected: 3 })
        ));
    });
}

/// Section 5.5: if examples and query are exchangeable, the interval holds the query's residual
/// with probability at least `1 − 2α`, also when the update fits noise.
#[test]
fn design_5_5_interval_covers_the_query() {
    let (n, width, tasks, alpha) = (9, 4, 4000, 0.2);
    let mut rng = Rng::new(55);
    let mut covered = [0.0; 2];
    let mut finite = 0;
    for _ in 0..tasks {
        // Features of length 1 keep λ_max ≤ n, so one step size suits every prompt.
        let unit = |rng: &mut Rng| -> Vec<f64> {
            let features = normals(rng, width);
            features.iter().map(|x| x / norm(&features)).collect()
        };
        let task = normals(&mut rng, width);
        let rows: Vec<Vec<f64>> = (0..=n).map(|_| unit(&mut rng)).collect();
        let labels: Vec<f64> =
            rows.iter().map(|f| dot(f, &task) + 0.5 * rng.normal().powi(3)).collect();
        let prompt = Prompt {
            seed: 0,
            features: rows[..n].to_vec(),
            query: rows[n].clone(),
            residuals: labels[..n].to_vec(),
        };
        let kernel = matrix(&prompt.kernel());
        let step = StepSize::new(0.9 / n as f64, &Spectrum::of(&kernel).unwrap()).unwrap();
        let coupling = prompt.coupling();
        let dropped =
            LeaveOneOut::of(&kernel, &prompt.residuals, step, &[10, 400], Some(&coupling));
        let dropped = dropped.unwrap();
        for (candidate, covered) in covered.iter_mut().enumerate() {
            let interval = dropped.interval(candidate, 1.0 - alpha).unwrap();
            finite += usize::from(interval.upper - interval.lower < f64::INFINITY);
            if interval.lower <= labels[n] && labels[n] <= interval.upper {
                *covered += 1.0 / f64::from(tasks);
            }
        }
    }
    let bound = 1.0 - 2.0 * alpha;
    let standard_error = (bound * (1.0 - bound) / f64::from(tasks)).sqrt();
    assert!(covered.iter().all(|&share| share > bound - 4.0 * standard_error), "{covered:?}");
    // It does so with finite intervals, which do not hold everything either.
    assert_eq!(finite, 2 * tasks as usize);
    assert!(covered.iter().all(|&share| share < 0.9), "{covered:?}");
}

/// Sections 5.5 and 5.7: what cannot be judged is refused, with the numbers that say why.
#[test]
fn design_5_7_refusals() {
    let kernel = matrix(&[vec![4.0, 0.0], vec![0.0, 1.0]]);
    let step = StepSize::new(0.1, &Spectrum::of(&kernel).unwrap()).unwrap();
    let of = |residuals: &[f64], candidates: &[u32], coupling| {
        LeaveOneOut::of(&kernel, residuals, step, candidates, coupling)
    };
    assert_eq!(
        of(&[1.0, 1.0], &[], None),
        Err(Error::Empty { quantity: "candidate horizons" })
    );
    assert_eq!(
        of(&[1.0], &[0], None),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    assert_eq!(
        of(&[1.0, 1.0], &[0], Some(&[1.0])),
        Err(Error::SizeMismatch { quantity: "coupling", found: 1, expected: 2 })
    );
    assert_eq!(
        of(&[1.0, f64::INFINITY], &[0], None),
        Err(Error::NotFinite { quantity: "residuals", index: 1, value: f64::INFINITY })
    );
    let wide = StepSize::new(0.5, &Spectrum::of(&[vec![1.0]]).unwrap()).unwrap();
    assert_eq!(
        LeaveOneOut::of(&kernel, &[1.0, 1.0], wide, &[0], None),
        Err(Error::StepTooLarge { step: 0.5, limit: 0.25 })
    );
    let blind = of(&[1.0, 1.0], &[0], None).unwrap();
    // Without answers labels are taken for numbers: the mean of the errors' roots.
    let uneven = of(&[1.0, 16.0], &[0], None).unwrap().risk(Averaging::ByLabel).unwrap();
    assert_close(uneven[0], 2.5_f64.powi(4), 256.0, 2);
    let answers = Answers::new(vec![0], &[0.5], [0.0, 1.0]).unwrap();
    assert_eq!(
        blind.clone().with_answers(&[1.0, 1.0], &answers),
        Err(Error::SizeMismatch { quantity: "answers", found: 1, expected: 2 })
    );
    assert_eq!(
        blind.clone().with_answers(&[1.0], &answers),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    assert_eq!(
        Answers::new(vec![0, 1], &[0.5], [0.0, 1.0]),
        Err(Error::SizeMismatch { quantity: "predictions", found: 1, expected: 2 })
    );
    assert_eq!(
        Answers::new(vec![0], &[0.5], [1.0, 0.0]),
        Err(Error::OutOfRange {
            quantity: "largest value of a label",
            found: 0.0,
            allowed: "at least the smallest"
        })
    );
    assert_eq!(
        LeaveOneOut::from_errors(&[0, 1], Matrix::zeros(1, 2)),
        Err(Error::SizeMismatch {
            quantity: "rows of leave-one-out errors",
            found: 1,
            expected: 2
        })
    );
    assert_eq!(
        LeaveOneOut::from_errors(&[], Matrix::zeros(0, 2)),
        Err(Error::Empty { quantity: "candidate horizons" })
    );
    let range = "range of the labels";
    assert!(matches!(
        Answers::new(vec![0], &[0.5], [0.0, f64::NAN]),
        Err(Error::NotFinite { quantity, index: 1, .. }) if quantity == range
    ));
    assert_eq!(
        blind.risk(Averaging::QueryWeighted),
        Err(Error::NoQuery { quantity: "a risk weighted by the query" })
    );
    assert_eq!(
        blind.choose(Averaging::QueryWeighted, 0.0),
        Err(Error::NoQuery { quantity: "a risk weighted by the query" })
    );
    assert_eq!(
        blind.interval(0, 0.9),
        Err(Error::NoQuery { quantity: "a jackknife+ interval" })
    );
    assert_eq!(
        blind.choose(Averaging::Plain, -1.0),
        Err(Error::OutOfRange {
            quantity: "gate",
            found: -1.0,
            allowed: "finite and at least 0"
        })
    );
    let seeing = of(&[1.0, 1.0], &[0], Some(&[1.0, 1.0])).unwrap();
    assert_eq!(
        seeing.interval(0, 1.0),
        Err(Error::OutOfRange {
            quantity: "coverage",
            found: 1.0,
            allowed: "over 0 and under 1"
        })
    );
    assert_eq!(
        seeing.interval(1, 0.9),
        Err(Error::OutOfRange {
            quantity: "position of the candidate",
            found: 1.0,
            allowed: "below the number of candidates"
        })
    );
}
