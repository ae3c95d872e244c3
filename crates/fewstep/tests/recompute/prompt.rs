//! What a report says about a prompt, and which blocks follow from it.

use crate::recompute::arithmetic::{
    Rows, add, dot, draw, eliminate, largest_eigenvalue, multiply, semidefinite, shifted,
    solve, steps, within_range, zeros,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// How many steps the greedy rule looks ahead.
const LOOK_AHEAD: u64 = 8;

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

pub(crate) fn rows(value: &Value) -> Rows {
    value.as_array().unwrap().iter().map(numbers).collect()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// What a report says about the prompt, blocks added up again.
pub(crate) struct Prompt<'r> {
    pub(crate) report: &'r Value,
    pub(crate) residuals: Vec<f64>,
    names: Vec<String>,
    kernels: Vec<Rows>,
    couplings: Vec<Vec<f64>>,
    pub(crate) selected: Vec<usize>,
    pub(crate) horizons: Vec<u64>,
}

impl<'r> Prompt<'r> {
    pub(crate) fn of(report: &'r Value) -> Self {
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

    pub(crate) fn n(&self) -> usize {
        self.residuals.len()
    }

    pub(crate) fn sum(&self, chosen: &[usize]) -> (Rows, Vec<f64>) {
        let mut kernel = zeros(self.n());
        let mut coupling = vec![0.0; self.n()];
        for &index in chosen {
            kernel = add(&kernel, &self.kernels[index]);
            coupling.iter_mut().zip(&self.couplings[index]).for_each(|(sum, x)| *sum += x);
        }
        (kernel, coupling)
    }

    pub(crate) fn mean_square(&self) -> f64 {
        dot(&self.residuals, &self.residuals) / self.n() as f64
    }

    /// `10⁴ · n · ε · scale` apart at most.
    pub(crate) fn close(&self, found: f64, expected: f64, scale: f64, what: &str) {
        let tolerance = 1e4 * self.n() as f64 * f64::EPSILON * scale;
        let difference = (found - expected).abs();
        let id = &self.report["id"];
        assert!(difference <= tolerance, "{id}: {what} is {found}, not {expected}");
    }

    pub(crate) fn all_close(&self, found: &[f64], expected: &[f64], scale: f64, what: &str) {
        assert_eq!(found.len(), expected.len(), "{}: {what}", self.report["id"]);
        found.iter().zip(expected).for_each(|(a, b)| self.close(*a, *b, scale, what));
    }

    /// The scores of all blocks: trace and query.
    fn scores(&self) -> (Vec<f64>, Vec<f64>) {
        let all: Vec<usize> = (0..self.names.len()).collect();
        let (total, projection) = within_range(&self.sum(&all).0);
        let total = shifted(&total, 1.0, self.mean_square());
        let trace = |kernel: &Rows| {
            // Kernels and projections are symmetric: their columns are their rows.
            let (_, solved) = eliminate(&total, kernel);
            solved.iter().zip(&projection).map(|(column, row)| dot(column, row)).sum()
        };
        let query = |coupling: &Vec<f64>| {
            let coupling = multiply(&projection, coupling);
            dot(&coupling, &solve(&total, &coupling))
        };
        (self.kernels.iter().map(trace).collect(), self.couplings.iter().map(query).collect())
    }

    /// The step size as a fraction of the largest stable one.
    fn step_scale(&self) -> f64 {
        let largest = largest_eigenvalue(&self.sum(&self.selected).0);
        number(&self.report["how_far"]["step_size"]) * largest
    }

    /// The blocks that App. I's greedy rule takes.
    fn greedy(&self, budget: usize) -> Vec<usize> {
        let scale = self.step_scale();
        let mut chosen = Vec::new();
        while chosen.len() < budget {
            let correction = |candidate: usize| {
                let (kernel, coupling) = self.sum(&[&chosen[..], &[candidate]].concat());
                let size = scale / largest_eigenvalue(&kernel);
                let kernel = semidefinite(&kernel);
                let (_, taken) = steps(&kernel, &self.residuals, size, LOOK_AHEAD);
                dot(&coupling, taken.last().unwrap()).powi(2)
            };
            let open = (0..self.names.len()).filter(|index| !chosen.contains(index));
            let scored: Vec<(usize, f64)> =
                open.map(|index| (index, correction(index))).collect();
            let best = scored.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a });
            chosen.push(best.unwrap().0);
        }
        chosen
    }

    /// After every number of steps on the examples but one: the error on it, and the correction at
    /// something else, which couples to the examples.
    fn without_each(
        &self,
        kernel: &Rows,
        coupling: &[f64],
        size: f64,
        most: u64,
    ) -> Vec<Vec<(f64, f64)>> {
        let (n, residuals) = (self.n(), &self.residuals);
        let without = |vector: &[f64], i: usize| -> Vec<f64> {
            (0..n).filter(|&j| j != i).map(|j| vector[j]).collect()
        };
        let each = |i: usize| {
            let others = (0..n).filter(|&j| j != i);
            let rest: Rows = others.map(|j| without(&kernel[j], i)).collect();
            let (own, other) = (without(&kernel[i], i), without(coupling, i));
            let (_, taken) = steps(&semidefinite(&rest), &without(residuals, i), size, most);
            taken.iter().map(|t| (residuals[i] - dot(&own, t), dot(&other, t))).collect()
        };
        (0..n).map(each).collect()
    }

    /// The jackknife+ interval of an average over horizons that is meant to hold 80 %, from the
    /// prediction without an update on.
    pub(crate) fn interval(
        &self,
        kernel: &Rows,
        coupling: &[f64],
        size: f64,
        weights: &[(u64, f64)],
    ) -> [f64; 2] {
        let most = weights.iter().map(|(horizon, _)| *horizon).max().unwrap();
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        for path in self.without_each(kernel, coupling, size, most) {
            let (mut error, mut correction) = (0.0, 0.0);
            for &(horizon, weight) in weights {
                let at = path[usize::try_from(horizon).unwrap()];
                error += weight * at.0;
                correction += weight * at.1;
            }
            lower.push(correction - error.abs());
            upper.push(correction + error.abs());
        }
        lower.sort_by(f64::total_cmp);
        upper.sort_by(f64::total_cmp);
        // ⌊(n + 1)/5⌋-th from the outside.
        match (self.n() + 1) / 5 {
            0 => [f64::NEG_INFINITY, f64::INFINITY],
            rank => [lower[rank - 1], upper[self.n() - rank]],
        }
    }

    /// The averaged squares of the leave-one-out errors, at every horizon.
    pub(crate) fn leave_one_out(
        &self,
        kernel: &Rows,
        size: f64,
        horizons: &[u64],
        averaging: &Value,
    ) -> Vec<f64> {
        let risk = |&horizon: &u64| {
            let errors = self.averaged_errors(kernel, size, &[(horizon, 1.0)]);
            self.averaged(&errors, averaging)
        };
        horizons.iter().map(risk).collect()
    }

    /// The error on each example of an average over numbers of steps on the others.
    pub(crate) fn averaged_errors(
        &self,
        kernel: &Rows,
        size: f64,
        weights: &[(u64, f64)],
    ) -> Vec<f64> {
        let most = weights.iter().map(|(horizon, _)| *horizon).max().unwrap();
        let paths = self.without_each(kernel, &vec![0.0; self.n()], size, most);
        let error = |path: &Vec<(f64, f64)>| {
            let parts = weights
                .iter()
                .map(|&(horizon, weight)| weight * path[usize::try_from(horizon).unwrap()].0);
            parts.sum()
        };
        paths.iter().map(error).collect()
    }

    /// One number from the errors on the examples.
    pub(crate) fn averaged(&self, errors: &[f64], averaging: &Value) -> f64 {
        match averaging.as_str().unwrap() {
            "by-label" => self.by_label(errors),
            "trimmed" => trimmed(errors),
            other => panic!("{other} is not checked here"),
        }
    }

    /// Of the errors of predictions that stay in the range of the labels: if there are at most three
    /// labels, the root of the mean fourth power after every example was repeated until all labels have
    /// as many, and else the fourth power of the mean root.
    fn by_label(&self, errors: &[f64]) -> f64 {
        let geometry = &self.report["geometry"];
        let (labels, room) = (numbers(&geometry["labels"]), rows(&geometry["room"]));
        let count = |label: f64| {
            labels.iter().filter(|other| other.to_bits() == label.to_bits()).count()
        };
        let mut different: Vec<u64> = labels.iter().map(|label| label.to_bits()).collect();
        different.sort_unstable();
        different.dedup();
        // Divided by each of the counts of up to ten examples.
        let repeated = 2520;
        let mut errors_cut = Vec::new();
        for (example, error) in errors.iter().enumerate() {
            let residual = self.residuals[example];
            let moved = (residual - error).clamp(room[example][0], room[example][1]);
            let times = if different.len() > 3 { 1 } else { repeated / count(labels[example]) };
            errors_cut.extend(vec![(residual - moved).abs(); times]);
        }
        let mean = |power: fn(&f64) -> f64| {
            errors_cut.iter().map(power).sum::<f64>() / errors_cut.len() as f64
        };
        if different.len() > 3 {
            mean(|error| error.sqrt()).powi(4)
        } else {
            mean(|error| error.powi(4)).sqrt()
        }
    }

    /// The smallest risk over the horizons that a choice of blocks looks at.
    fn least_leave_one_out(&self, blocks: &[usize]) -> f64 {
        let last = self.horizons.last();
        let mut horizons = vec![self.horizons[0]];
        for &horizon in &self.horizons[1..] {
            let before = *horizons.last().unwrap();
            if horizon * horizon >= 2 * before * before || Some(&horizon) == last {
                horizons.push(horizon);
            }
        }
        let (kernel, _) = self.sum(blocks);
        let size = self.step_scale() / largest_eigenvalue(&kernel);
        let averaging = &self.report["policy"]["selection"]["averaging"];
        self.leave_one_out(&kernel, size, &horizons, averaging)
            .into_iter()
            .fold(f64::INFINITY, f64::min)
    }

    /// The last layer, two, four … or all, whichever predicts held-out examples best.
    fn depth(&self) -> Vec<usize> {
        let layer = |block: &usize| -> u64 {
            self.names[*block].split('.').nth(1).unwrap().parse().unwrap()
        };
        let all: Vec<usize> = (0..self.names.len()).collect();
        let layers: BTreeSet<u64> = all.iter().map(layer).collect();
        let mut counts: Vec<usize> = (0..8).map(|power| 1 << power).collect();
        counts.retain(|&count| count < layers.len());
        counts.push(layers.len());
        let last = |count: &usize| {
            let first = layers.iter().rev().nth(count - 1).unwrap();
            all.iter().copied().filter(|block| layer(block) >= *first).collect::<Vec<_>>()
        };
        let scored =
            counts.iter().map(|count| (last(count), self.least_leave_one_out(&last(count))));
        scored.reduce(|a, b| if b.1 <= a.1 { b } else { a }).unwrap().0
    }

    pub(crate) fn check_which(&self) {
        let which = &self.report["which"];
        let (trace, query) = self.scores();
        for (index, block) in which["blocks"].as_array().unwrap().iter().enumerate() {
            self.close(number(&block["trace"]), trace[index], self.n() as f64, "trace score");
            let scale = query.iter().fold(0.0_f64, |a, &b| a.max(b));
            self.close(number(&block["query"]), query[index], scale, "query score");
        }
        let budget = usize::try_from(which["budget"].as_u64().unwrap()).unwrap();
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
            "depth" => self.depth(),
            "random" => draw(which["seed"].as_u64().unwrap(), budget, self.names.len()),
            rule => panic!("{rule} is not checked here"),
        };
        assert_eq!(self.selected, expected, "{}: {}", self.report["id"], which["rule"]);
    }
}

/// The mean of the squares without the smallest and the largest.
fn trimmed(errors: &[f64]) -> f64 {
    let mut all: Vec<f64> = errors.iter().map(|error| error.powi(2)).collect();
    all.sort_by(f64::total_cmp);
    let kept = if all.len() > 2 { &all[1..all.len() - 1] } else { &all[..] };
    kept.iter().sum::<f64>() / kept.len() as f64
}
