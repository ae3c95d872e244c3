//! `--json --full` says enough to weigh the arms again, and the summary is that of the reports.
//!
//! Everything here is worked out from the JSON alone, with arithmetic of its own.

use super::{classes, numbers, reports};
use crate::support::{printed, run_with_input};
use serde_json::Value;

/// Reports with in-context learning that is right, wrong and in between.
fn some() -> (Vec<Value>, Vec<Value>) {
    let tasks = [classes("a", 3, &[4, 6, 1, 7]), classes("b", 7, &[4, 6, 1, 7, 5])];
    let reports = reports(&["predict", "--full", "--confidence", "0.8"], &tasks);
    (tasks.to_vec(), reports)
}

/// A whole number that is written with a point.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small")]
fn whole(number: f64) -> usize {
    number.floor() as usize
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

fn close(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() < 1e-9 * (1.0 + expected.abs()),
        "{what}: {found}, {expected}"
    );
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

/// The mean over examples of `ln(1/p)` for the answer's probability, at least a millionth.
fn loss(probabilities: &[Vec<f64>], answers: &[usize]) -> f64 {
    let of = |(row, &answer): (&Vec<f64>, &usize)| (1.0 / row[answer].max(1e-6)).ln();
    probabilities.iter().zip(answers).map(of).sum::<f64>() / answers.len() as f64
}

/// `w ∝ prior · exp(−sharpness · n · mean loss)` over in-context learning alone, the zero-shot prompt
/// alone, and every number of steps of every descent.
#[test]
fn weights_follow_from_the_losses() {
    for report in some().1 {
        let (geometry, which) = (&report["geometry"], &report["which"]);
        let policy = &report["policy"]["classes"];
        let n = number(&geometry["examples"]);
        let arms = which["arms"].as_array().unwrap();
        let candidates = |arm: &Value| -> usize {
            let paths = arm["paths"].as_array().into_iter().flatten();
            paths.map(|path| path["losses"].as_array().unwrap().len()).sum()
        };
        let taking_part = arms.iter().filter(|arm| candidates(arm) > 0).count();
        let zero_shot = |arm: &Value| arm["base"] == "zero-shot";
        let others = 1.0 - number(&policy["leave_alone"]);
        let share = others / taking_part as f64;
        // Each member with its logarithm before it is divided by the sum.
        let power =
            |prior: f64, loss: f64| prior.ln() - number(&policy["sharpness"]) * n * loss;
        let mut powers = vec![power(
            number(&policy["leave_alone"]),
            number(&report["when"]["leave_one_out"]["icl"]),
        )];
        let mut reported = vec![1.0 - number(&report["when"]["weight"])];
        let mut alone = 0.0;
        for arm in arms.iter().filter(|arm| candidates(arm) > 0) {
            let members = candidates(arm) + usize::from(zero_shot(arm));
            let prior = share / members as f64;
            alone += if zero_shot(arm) { prior } else { 0.0 };
            let mut sum = 0.0;
            for path in arm["paths"].as_array().unwrap() {
                powers.extend(numbers(&path["losses"]).iter().map(|&loss| power(prior, loss)));
                let weights = numbers(&path["weights"]);
                sum += weights.iter().sum::<f64>();
                reported.extend(weights);
            }
            close(number(&arm["weight"]), sum, "weight of an arm");
        }
        if let Some(left) = which.get("zero_shot") {
            powers.push(power(alone, number(&left["loss"])));
            reported.push(number(&left["weight"]));
        }
        let largest = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = powers.iter().map(|power| (power - largest).exp()).sum();
        for (power, reported) in powers.iter().zip(&reported) {
            close(*reported, (power - largest).exp() / total, "weight of a member");
        }
        close(reported.iter().sum(), 1.0, "all weights");
    }
}

#[test]
fn losses_sets_and_numbers_of_steps_follow_from_the_lists() {
    for report in some().1 {
        let geometry = &report["geometry"];
        let answers: Vec<usize> =
            numbers(&geometry["answers"]).into_iter().map(whole).collect();
        let held = rows(&geometry["probabilities"]);
        let errors = &report["when"]["leave_one_out"];
        close(number(&errors["icl"]), loss(&rows(&geometry["icl"]), &answers), "icl");
        close(number(&errors["adapted"]), loss(&held, &answers), "adapted");

        // The set: labels whose probability is no further from 1 than the examples' answers were.
        let mut scores: Vec<f64> =
            held.iter().zip(&answers).map(|(row, &answer)| 1.0 - row[answer]).collect();
        scores.sort_by(f64::total_cmp);
        let confidence = number(&report["prediction"]["confidence"]);
        let position = (scores.len() + 1) as f64 * confidence;
        let adapted = numbers(&report["prediction"]["adapted"]);
        let threshold = if position > scores.len() as f64 {
            f64::INFINITY
        } else {
            let padded: Vec<f64> = std::iter::once(0.0).chain(scores.iter().copied()).collect();
            let below = whole(position);
            let above = padded[(below + 1).min(padded.len() - 1)];
            padded[below] + (position - below as f64) * (above - padded[below])
        };
        let members = adapted.iter().filter(|&&p| 1.0 - p <= threshold).count().max(1);
        assert_eq!(report["prediction"]["set"].as_array().unwrap().len(), members);

        let how_far = &report["how_far"];
        let (steps, weights) = (numbers(&how_far["horizons"]), numbers(&how_far["posterior"]));
        let mean: f64 = steps.iter().zip(&weights).map(|(steps, weight)| steps * weight).sum();
        close(number(&how_far["mean_horizon"]), mean, "mean number of steps");
        let most = weights.iter().copied().fold(0.0, f64::max);
        let place = weights.iter().position(|&weight| weight >= most).unwrap();
        close(number(&how_far["horizon"]), steps[place], "most likely number of steps");
        for (place, &horizon) in steps.iter().enumerate().skip(1) {
            let arms = report["which"]["arms"].as_array().unwrap().iter();
            let paths = arms.flat_map(|arm| arm["paths"].as_array().into_iter().flatten());
            let of = |path: &Value| {
                let found = numbers(&path["horizons"]).iter().position(|&own| own >= horizon);
                numbers(&path["weights"])[found.unwrap()]
            };
            close(weights[place], paths.map(of).sum(), "weight of a number of steps");
        }
    }
}

/// Scores of the whole run, by a confusion matrix and sums over queries.
struct Scores {
    accuracy: f64,
    macro_f1: f64,
    log_loss: f64,
    brier: f64,
    calibration: f64,
}

impl Scores {
    fn of(reports: &[Value], form: &str) -> Self {
        let n = reports.len() as f64;
        let mut confusion = [[0.0; 10]; 10];
        let (mut log_loss, mut brier, mut bins) = (0.0, 0.0, [(0.0, 0.0); 10]);
        for report in reports {
            let prediction = &report["prediction"];
            let probabilities = numbers(&prediction[form]);
            let answer: usize = prediction["target"].as_str().unwrap().parse().unwrap();
            let largest = probabilities.iter().copied().fold(0.0, f64::max);
            let said = probabilities.iter().position(|&p| p >= largest).unwrap();
            confusion[answer][said] += 1.0;
            log_loss -= probabilities[answer].max(1e-6).ln() / n;
            let squares: f64 = probabilities.iter().map(|p| p * p).sum();
            brier += (squares + 1.0 - 2.0 * probabilities[answer]) / n;
            let bin = whole(largest * 10.0).min(9);
            bins[bin].0 += largest / n;
            bins[bin].1 += if said == answer { 1.0 / n } else { 0.0 };
        }
        let mut f1 = Vec::new();
        for label in 0..10 {
            let row: f64 = confusion[label].iter().sum();
            let column: f64 = confusion.iter().map(|row| row[label]).sum();
            let right = confusion[label][label];
            if row + column > 0.0 {
                let precision = if column > 0.0 { right / column } else { 0.0 };
                let recall = if row > 0.0 { right / row } else { 0.0 };
                let sum = precision + recall;
                f1.push(if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 });
            }
        }
        Self {
            accuracy: (0..10).map(|label| confusion[label][label]).sum::<f64>() / n,
            macro_f1: f1.iter().sum::<f64>() / f1.len() as f64,
            log_loss,
            brier,
            calibration: bins.iter().map(|(p, right)| f64::abs(p - right)).sum(),
        }
    }
}

/// The numbers of a line of the summary.
fn line(text: &str, name: &str) -> Vec<f64> {
    let line = text.lines().rev().find(|line| line.trim_start().starts_with(name)).unwrap();
    line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_summary_is_that_of_the_reports() {
    let (tasks, reports) = some();
    let input: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let text =
        printed(&run_with_input(&["predict", "-", "--confidence", "0.8"], input.as_bytes()));
    let scores = ["icl", "adapted"].map(|form| Scores::of(&reports, form));
    for (place, scores) in scores.iter().enumerate() {
        for (name, expected) in [
            ("accuracy", 100.0 * scores.accuracy),
            ("macro-F1", scores.macro_f1),
            ("log-loss", scores.log_loss),
            ("Brier", scores.brier),
            ("ECE", scores.calibration),
        ] {
            let found = line(&text, name)[place];
            // Three digits are printed, of per cents one behind the point.
            let room = 0.006 * expected.abs() + if name == "accuracy" { 0.06 } else { 1e-9 };
            assert!((found - expected).abs() <= room, "{name}: {found}, {expected}\n{text}");
        }
    }
    let prediction = |report: &Value| report["prediction"].clone();
    let held = reports.iter().map(prediction).filter(|prediction| {
        prediction["set"].as_array().unwrap().contains(&prediction["target"])
    });
    let held = 100.0 * held.count() as f64 / reports.len() as f64;
    let sizes = reports.iter().map(|r| r["prediction"]["set"].as_array().unwrap().len());
    let size = sizes.sum::<usize>() as f64 / reports.len() as f64;
    let found = line(&text, "sets");
    assert!((found[0] - held).abs() < 0.06 && (found[1] - 80.0).abs() < 0.06, "{text}");
    assert!((found[2] - size).abs() < 0.006 * size, "{text}");
}
