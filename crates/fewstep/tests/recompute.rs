//! `decide --full --json` says enough to make every choice again.
//!
//! Everything here is worked out from the JSON alone, with arithmetic of its own: steps are taken
//! literally, determinants and solutions come from elimination, the largest eigenvalue from
//! powers. Nothing of the libraries is called.
#![allow(clippy::unwrap_used, reason = "a report without a number fails the test")]

mod support;

use serde_json::Value;
use support::{printed, records, run, said};

/// The step scale and the look-ahead of the greedy rule, which are the program's defaults.
const STEP_SCALE: f64 = 0.1;
const LOOK_AHEAD: u64 = 8;

type Rows = Vec<Vec<f64>>;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn rows(value: &Value) -> Rows {
    value.as_array().unwrap().iter().map(numbers).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn multiply(matrix: &Rows, vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

fn add(a: &Rows, b: &Rows) -> Rows {
    let sum = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    a.iter().zip(b).map(sum).collect()
}

fn zeros(n: usize) -> Rows {
    vec![vec![0.0; n]; n]
}

/// The largest eigenvalue of a kernel, by powers of it applied to its own columns.
fn largest_eigenvalue(kernel: &Rows) -> f64 {
    let mut vector: Vec<f64> =
        kernel.iter().map(|row| row.iter().map(|x| x.abs()).sum()).collect();
    let mut value = 0.0;
    for _ in 0..20_000 {
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        let next = multiply(kernel, &vector);
        value = dot(&vector, &next);
        vector = next;
    }
    value
}

/// Elimination with pivots: `log det A` for a positive determinant, and `A⁻¹ b` for each `b`.
fn eliminate(matrix: &Rows, right: &[Vec<f64>]) -> (f64, Vec<Vec<f64>>) {
    let n = matrix.len();
    let mut left = matrix.clone();
    let mut right = right.to_vec();
    let mut log_determinant = 0.0;
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&a, &b| left[a][column].abs().total_cmp(&left[b][column].abs()));
        let pivot = pivot.unwrap();
        left.swap(column, pivot);
        right.iter_mut().for_each(|b| b.swap(column, pivot));
        log_determinant += left[column][column].abs().ln();
        for row in 0..n {
            if row == column {
                continue;
            }
            let factor = left[row][column] / left[column][column];
            let above = left[column].clone();
            left[row].iter_mut().zip(&above).for_each(|(x, above)| *x -= factor * above);
            right.iter_mut().for_each(|b| b[row] -= factor * b[column]);
        }
    }
    for b in &mut right {
        (0..n).for_each(|row| b[row] /= left[row][row]);
    }
    (log_determinant, right)
}

/// What is left of the residuals, and the query's correction, after each of `0, 1, …` steps.
fn steps(
    kernel: &Rows,
    coupling: &[f64],
    residuals: &[f64],
    size: f64,
    most: u64,
) -> (Rows, Vec<f64>) {
    let (mut left, mut moved) = (residuals.to_vec(), 0.0);
    let (mut all, mut corrections) = (vec![left.clone()], vec![0.0]);
    for _ in 0..most {
        moved += size * dot(coupling, &left);
        let change = multiply(kernel, &left);
        left.iter_mut().zip(change).for_each(|(left, change)| *left -= size * change);
        all.push(left.clone());
        corrections.push(moved);
    }
    (all, corrections)
}

/// What a report says about the prompt, blocks added up again.
struct Prompt<'r> {
    report: &'r Value,
    residuals: Vec<f64>,
    names: Vec<String>,
    kernels: Vec<Rows>,
    couplings: Vec<Vec<f64>>,
    selected: Vec<usize>,
    horizons: Vec<u64>,
}

impl<'r> Prompt<'r> {
    fn of(report: &'r Value) -> Self {
        let blocks = report["which"]["blocks"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let names: Vec<String> = blocks.iter().map(|block| text(&block["name"])).collect();
        let selected = report["which"]["selected"].as_array().unwrap();
        let place = |name: &Value| names.iter().position(|other| name == other).unwrap();
        Self {
            report,
            residuals: numbers(&report["geometry"]["residuals"]),
            kernels: blocks.iter().map(|block| rows(&block["kernel"])).collect(),
            couplings: blocks.iter().map(|block| numbers(&block["coupling"])).collect(),
            selected: selected.iter().map(place).collect(),
            horizons: report["how_far"]["horizons"]
                .as_array()
                .unwrap()
                .iter()
                .map(|horizon| horizon.as_u64().unwrap())
                .collect(),
            names,
        }
    }

    fn n(&self) -> usize {
        self.residuals.len()
    }

    fn sum(&self, chosen: &[usize]) -> (Rows, Vec<f64>) {
        let mut kernel = zeros(self.n());
        let mut coupling = vec![0.0; self.n()];
        for &index in chosen {
            kernel = add(&kernel, &self.kernels[index]);
            coupling.iter_mut().zip(&self.couplings[index]).for_each(|(sum, x)| *sum += x);
        }
        (kernel, coupling)
    }

    fn mean_square(&self) -> f64 {
        dot(&self.residuals, &self.residuals) / self.n() as f64
    }

    /// `10⁴ · n · ε · scale` apart at most.
    fn close(&self, found: f64, expected: f64, scale: f64, what: &str) {
        let tolerance = 1e4 * self.n() as f64 * f64::EPSILON * scale;
        let difference = (found - expected).abs();
        let id = &self.report["id"];
        assert!(difference <= tolerance, "{id}: {what} is {found}, not {expected}");
    }

    fn all_close(&self, found: &[f64], expected: &[f64], scale: f64, what: &str) {
        assert_eq!(found.len(), expected.len(), "{}: {what}", self.report["id"]);
        found.iter().zip(expected).for_each(|(a, b)| self.close(*a, *b, scale, what));
    }

    /// The scores of all blocks: trace and query.
    fn scores(&self) -> (Vec<f64>, Vec<f64>) {
        let all: Vec<usize> = (0..self.names.len()).collect();
        let (mut total, _) = self.sum(&all);
        (0..self.n()).for_each(|i| total[i][i] += self.mean_square());
        let trace = |kernel: &Rows| {
            // Kernels are symmetric: their columns are their rows.
            let (_, solved) = eliminate(&total, kernel);
            (0..self.n()).map(|i| solved[i][i]).sum()
        };
        let query = |coupling: &Vec<f64>| {
            dot(coupling, &eliminate(&total, std::slice::from_ref(coupling)).1[0])
        };
        (self.kernels.iter().map(trace).collect(), self.couplings.iter().map(query).collect())
    }

    /// The blocks that App. I's greedy rule takes.
    fn greedy(&self, budget: usize) -> Vec<usize> {
        let mut chosen = Vec::new();
        while chosen.len() < budget {
            let correction = |candidate: usize| {
                let (kernel, coupling) = self.sum(&[&chosen[..], &[candidate]].concat());
                let size = STEP_SCALE / largest_eigenvalue(&kernel);
                steps(&kernel, &coupling, &self.residuals, size, LOOK_AHEAD)
                    .1
                    .pop()
                    .unwrap()
                    .powi(2)
            };
            let open = (0..self.names.len()).filter(|index| !chosen.contains(index));
            let scored: Vec<(usize, f64)> =
                open.map(|index| (index, correction(index))).collect();
            let best = scored.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a });
            chosen.push(best.unwrap().0);
        }
        chosen
    }

    fn check_which(&self) {
        let which = &self.report["which"];
        let (trace, query) = self.scores();
        for (index, block) in which["blocks"].as_array().unwrap().iter().enumerate() {
            self.close(number(&block["trace"]), trace[index], self.n() as f64, "trace score");
            let scale = query.iter().fold(0.0_f64, |a, &b| a.max(b));
            self.close(number(&block["query"]), query[index], scale, "query score");
        }
        let budget = self.selected.len();
        let sorted = |scores: &[f64], sign: f64| {
            let mut order: Vec<usize> = (0..scores.len()).collect();
            order.sort_by(|&a, &b| (sign * scores[b]).total_cmp(&(sign * scores[a])));
            order.truncate(budget);
            order
        };
        let expected = match which["rule"].as_str().unwrap() {
            "all" => (0..self.names.len()).collect(),
            "trace-top" => sorted(&trace, 1.0),
            "trace-bottom" => sorted(&trace, -1.0),
            "query-score" => sorted(&query, 1.0),
            "query-aware" => self.greedy(budget),
            rule => panic!("{rule} is not checked here"),
        };
        assert_eq!(self.selected, expected, "{}: {}", self.report["id"], which["rule"]);
    }

    fn check_how_far(&self) {
        let (how_far, geometry) = (&self.report["how_far"], &self.report["geometry"]);
        let (kernel, coupling) = self.sum(&self.selected);
        let largest = largest_eigenvalue(&kernel);
        for (found, expected) in rows(&geometry["kernel"]).iter().zip(&kernel) {
            self.all_close(found, expected, largest, "kernel");
        }
        let scale = dot(&coupling, &coupling).sqrt();
        self.all_close(&numbers(&geometry["coupling"]), &coupling, scale, "coupling");
        let size = number(&how_far["step_size"]);
        self.close(size, STEP_SCALE / largest, size, "step size");

        let mut shrink = zeros(self.n());
        for (i, row) in kernel.iter().enumerate() {
            row.iter()
                .enumerate()
                .for_each(|(j, k)| shrink[i][j] = f64::from(u8::from(i == j)) - size * k);
        }
        let (log_determinant, _) = eliminate(&shrink, &[]);
        let most = self.horizons.iter().copied().max().unwrap();
        let (left, corrections) = steps(&kernel, &coupling, &self.residuals, size, most);
        let n = self.n() as f64;
        let mut curves = (Vec::new(), Vec::new());
        for &horizon in &self.horizons {
            // ℓ_T = ½ {log σ² − (T/n) log det(I − ρK) + rᵀ(I − ρK)^T r/(nσ²)}
            let fit = dot(&self.residuals, &left[usize::try_from(horizon).unwrap()]) / n;
            let occam = -(horizon as f64) / n * log_determinant;
            let fixed = self.mean_square();
            curves.0.push(0.5 * (fit.ln() + occam + 1.0));
            curves.1.push(0.5 * (fixed.ln() + occam + fit / fixed));
        }
        self.all_close(&numbers(&how_far["evidence"]), &curves.0, 1.0, "evidence");
        self.all_close(&numbers(&how_far["evidence_fixed"]), &curves.1, 1.0, "fixed evidence");
        let best = curves.0.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        let weights: Vec<f64> =
            curves.0.iter().map(|value| (n * (best - value)).exp()).collect();
        let total: f64 = weights.iter().sum();
        let posterior: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        self.all_close(&numbers(&how_far["posterior"]), &posterior, 1.0, "posterior");

        let horizon = self.check_horizon(&curves, &kernel, size);
        self.check_gate(&kernel, size, log_determinant);
        let prediction = &self.report["prediction"];
        let moved = match how_far["rule"].as_str().unwrap() {
            "gibbs" => self
                .horizons
                .iter()
                .zip(&posterior)
                .map(|(&t, w)| w * corrections[usize::try_from(t).unwrap()])
                .sum(),
            _ => corrections[usize::try_from(horizon).unwrap()],
        };
        self.close(
            number(&prediction["linear"]),
            number(&prediction["icl"]) + moved,
            1.0,
            "linear form",
        );
        assert_eq!(self.report["when"]["adapt"], horizon > 0 || how_far["rule"] == "gibbs");
    }

    fn check_horizon(&self, curves: &(Vec<f64>, Vec<f64>), kernel: &Rows, size: f64) -> u64 {
        let how_far = &self.report["how_far"];
        let first_smallest = |curve: &[f64]| {
            let best = curve.iter().enumerate().reduce(|a, b| if b.1 < a.1 { b } else { a });
            self.horizons[best.unwrap().0]
        };
        let rule = how_far["rule"].as_str().unwrap();
        let expected = match rule {
            "evidence" | "gibbs" => first_smallest(&curves.0),
            "evidence-fixed" => first_smallest(&curves.1),
            "leave-one-out" => {
                let risks = self.left_out(kernel, size);
                self.all_close(
                    &numbers(&how_far["left_out_risk"]),
                    &risks,
                    1.0,
                    "left-out risk",
                );
                first_smallest(&risks)
            }
            number => number.parse().unwrap(),
        };
        let horizon = how_far["horizon"].as_u64().unwrap();
        assert_eq!(horizon, expected, "{}: {rule}", self.report["id"]);
        let edge = rule.parse::<u64>().is_err() && Some(&horizon) == self.horizons.last();
        assert_eq!(how_far["at_edge"], edge);
        horizon
    }

    /// The trimmed mean of the squared errors on examples left out, at every candidate.
    fn left_out(&self, kernel: &Rows, size: f64) -> Vec<f64> {
        let n = self.n();
        let most = self.horizons.iter().copied().max().unwrap();
        let without = |vector: &[f64], i: usize| -> Vec<f64> {
            (0..n).filter(|&j| j != i).map(|j| vector[j]).collect()
        };
        let errors: Rows = (0..n)
            .map(|i| {
                let rest: Rows =
                    (0..n).filter(|&j| j != i).map(|j| without(&kernel[j], i)).collect();
                let (coupling, residuals) =
                    (without(&kernel[i], i), without(&self.residuals, i));
                let (_, guesses) = steps(&rest, &coupling, &residuals, size, most);
                guesses.iter().map(|guess| (self.residuals[i] - guess).powi(2)).collect()
            })
            .collect();
        let mean = |horizon: u64| {
            let mut all: Vec<f64> =
                errors.iter().map(|e| e[usize::try_from(horizon).unwrap()]).collect();
            all.sort_by(f64::total_cmp);
            let kept = &all[1..n - 1];
            kept.iter().sum::<f64>() / kept.len() as f64
        };
        self.horizons.iter().map(|&horizon| mean(horizon)).collect()
    }

    /// `rᵀ(−log(I − ρK))r/‖r‖²` over the mean eigenvalue of the same matrix, by its power series.
    fn check_gate(&self, kernel: &Rows, size: f64, log_determinant: f64) {
        let (mut power, mut sum) = (self.residuals.clone(), 0.0);
        for term in 1..200 {
            power = multiply(kernel, &power).iter().map(|x| x * size).collect();
            sum += dot(&self.residuals, &power) / f64::from(term);
        }
        let along = sum / dot(&self.residuals, &self.residuals);
        let expected = along / (-log_determinant / self.n() as f64);
        let gate = number(&self.report["when"]["gate"]);
        self.close(gate, expected, expected.max(1.0), "gate");
    }
}

#[test]
fn every_choice_can_be_made_again_from_the_json() {
    let (mut adapted, mut left_alone) = (0, 0);
    for flags in [
        "",
        "--horizon evidence-fixed --select trace-top --budget 5",
        "--horizon leave-one-out --select query-score --budget 3",
        "--horizon gibbs --select query-aware --budget 4",
        "--horizon 8 --select trace-bottom --budget 2 --blocks value,output,mlp-down@last2",
        "--horizons 0,1,2,4,8,16,64,128 --horizon leave-one-out",
        "--horizons 0..3",
    ] {
        let mut arguments = vec!["decide", "examples/digits.jsonl", "--json", "--full"];
        arguments.extend(flags.split_whitespace());
        let output = run(&arguments);
        assert!(output.status.success(), "{}", said(&output));
        for report in records(&printed(&output)) {
            let prompt = Prompt::of(&report);
            prompt.check_which();
            prompt.check_how_far();
            match report["when"]["adapt"].as_bool().unwrap() {
                true => adapted += 1,
                false => left_alone += 1,
            }
        }
    }
    assert!(adapted > 0, "{adapted} adapted, {left_alone} left alone");
}
