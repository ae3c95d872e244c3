//! How many steps follow from a report, and what they do.

use crate::recompute::arithmetic::{
    Rows, dot, eigen, eliminate, largest_eigenvalue, multiply, semidefinite, shifted, steps,
    within_range,
};
use crate::recompute::prompt::{Prompt, number, numbers, rows};
use crate::recompute::signal::Fit;

/// A prompt once its blocks are chosen, with everything at every candidate horizon.
struct PathCheck<'p, 'r> {
    prompt: &'p Prompt<'r>,
    rule: &'p str,
    /// The kernel as it stands in the report, and without negative eigenvalues.
    reported: Rows,
    kernel: Rows,
    coupling: Vec<f64>,
    /// The kernel where it is more than rounding, filled up elsewhere, and the projection there.
    filled: Rows,
    projection: Rows,
    eigenvalues: Vec<f64>,
    size: f64,
    /// `log det(I − ρK)`.
    log_determinant: f64,
    /// `(I − ρK)^T r` after every number of steps.
    left: Rows,
    /// `q_T(K) k_x` after every number of steps.
    taken: Rows,
    fit: Fit,
}

fn place(horizon: u64) -> usize {
    usize::try_from(horizon).unwrap()
}

impl Prompt<'_> {
    pub(crate) fn check_how_far(&self, step_scale: f64) {
        let (reported, coupling) = self.sum(&self.selected);
        let (largest, kernel) = (largest_eigenvalue(&reported), semidefinite(&reported));
        let (filled, projection) = within_range(&reported);
        let how_far = &self.report["how_far"];
        let size = number(&how_far["step_size"]);
        self.close(size, step_scale / largest, size, "step size");
        let rule = how_far["rule"].as_str().unwrap();
        let most = self.horizons.iter().copied().chain(rule.parse().ok()).max().unwrap();
        let path = PathCheck {
            prompt: self,
            rule,
            eigenvalues: eigen(&kernel).into_iter().map(|(value, _)| value.max(0.0)).collect(),
            size,
            log_determinant: eliminate(&shifted(&kernel, -size, 1.0), &[]).0,
            left: steps(&kernel, &self.residuals, size, most).0,
            taken: steps(&kernel, &coupling, size, most).1,
            fit: Fit::of(&reported, &self.residuals),
            reported,
            filled,
            projection,
            kernel,
            coupling,
        };
        path.check_geometry(largest);
        let by_evidence = path.by_evidence();
        match by_evidence {
            true => path.check_gate(),
            false => assert!(self.report["when"].get("gate").is_none()),
        }
        let (evidence, fixed) = path.evidence();
        self.all_close(&numbers(&how_far["evidence"]), &evidence, 1.0, "evidence");
        self.all_close(&numbers(&how_far["evidence_fixed"]), &fixed, 1.0, "fixed evidence");
        let posterior = match rule {
            "leave-one-out-average" => path.leave_one_out_posterior(),
            _ => path.posterior(&evidence),
        };
        self.all_close(&numbers(&how_far["posterior"]), &posterior, 1.0, "posterior");
        let horizon = path.check_horizon(&evidence, &fixed);
        path.check_interval(horizon, &posterior);
        path.check_update(horizon, &posterior);
        path.check_paths();
    }
}

impl PathCheck<'_, '_> {
    fn n(&self) -> f64 {
        self.prompt.n() as f64
    }

    fn by_evidence(&self) -> bool {
        let rules = ["evidence", "evidence-fixed", "gibbs", "bayes-gap", "bayes-filter"];
        rules.contains(&self.rule)
    }

    fn check_geometry(&self, largest: f64) {
        let geometry = &self.prompt.report["geometry"];
        for (found, expected) in rows(&geometry["kernel"]).iter().zip(&self.reported) {
            self.prompt.all_close(found, expected, largest, "kernel");
        }
        let found = numbers(&geometry["eigenvalues"]);
        self.prompt.all_close(&found, &self.eigenvalues, largest, "eigenvalues");
        let scale = dot(&self.coupling, &self.coupling).sqrt();
        let found = numbers(&geometry["coupling"]);
        self.prompt.all_close(&found, &self.coupling, scale, "coupling");
    }

    /// `ℓ_T = ½ {log σ² − (T/n) log det(I − ρK) + rᵀ(I − ρK)^T r/(nσ²)}` at every candidate, with
    /// the best `σ²` and with the mean square of the residuals.
    fn evidence(&self) -> (Vec<f64>, Vec<f64>) {
        let fixed = self.prompt.mean_square();
        let at = |&horizon: &u64| {
            let fit = self.fitted_noise(horizon);
            let occam = -(horizon as f64) / self.n() * self.log_determinant;
            (0.5 * (fit.ln() + occam + 1.0), 0.5 * (fixed.ln() + occam + fit / fixed))
        };
        self.prompt.horizons.iter().map(at).unzip()
    }

    /// `rᵀ(I − ρK)^T r/n`.
    fn fitted_noise(&self, horizon: u64) -> f64 {
        dot(&self.prompt.residuals, &self.left[place(horizon)]) / self.n()
    }

    fn posterior(&self, evidence: &[f64]) -> Vec<f64> {
        let best = evidence.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        let weights = evidence.iter().map(|value| (self.n() * (best - value)).exp());
        let total: f64 = weights.clone().sum();
        weights.map(|weight| weight / total).collect()
    }

    fn check_horizon(&self, evidence: &[f64], fixed: &[f64]) -> u64 {
        let (prompt, how_far) = (self.prompt, &self.prompt.report["how_far"]);
        let first_smallest = |curve: &[f64]| {
            let best = curve.iter().enumerate().reduce(|a, b| if b.1 < a.1 { b } else { a });
            prompt.horizons[best.unwrap().0]
        };
        let (expected, candidate) = match self.rule {
            "evidence" | "gibbs" => (first_smallest(evidence), true),
            "evidence-fixed" => (first_smallest(fixed), true),
            "leave-one-out-average" => {
                let less: Vec<f64> =
                    self.leave_one_out_posterior().iter().map(|w| -w).collect();
                let found = numbers(&how_far["leave_one_out"]);
                prompt.all_close(&found, &self.leave_one_out(), 1.0, "leave-one-out risk");
                (first_smallest(&less), true)
            }
            "leave-one-out" => {
                let risks = self.leave_one_out();
                let found = numbers(&how_far["leave_one_out"]);
                prompt.all_close(&found, &risks, 1.0, "leave-one-out risk");
                (first_smallest(&risks), true)
            }
            "bayes-gap" => {
                let gap = |&horizon: &u64| self.gap(&self.fit, &self.taken[place(horizon)]);
                let gaps: Vec<f64> = prompt.horizons.iter().map(gap).collect();
                (first_smallest(&gaps), true)
            }
            "bayes-filter" => (0, false),
            number => (number.parse().unwrap(), false),
        };
        let horizon = how_far["horizon"].as_u64().unwrap();
        assert_eq!(horizon, expected, "{}: {}", prompt.report["id"], self.rule);
        let edge = candidate && Some(&horizon) == prompt.horizons.last();
        assert_eq!(how_far["at_edge"], edge);
        self.check_noise(horizon);
        horizon
    }

    /// The gap between a correction and the ideal one, as far as the kernel reaches.
    fn gap(&self, fit: &Fit, taken: &[f64]) -> f64 {
        let [coupling, taken] =
            [&self.coupling, taken].map(|vector| multiply(&self.projection, vector));
        fit.gap(&self.filled, &coupling, &taken)
    }

    /// The noise variance that each rule works with.
    fn check_noise(&self, horizon: u64) {
        let found = number(&self.prompt.report["how_far"]["noise_variance"]);
        let (expected, magnification) = match self.rule {
            "evidence" => (self.fitted_noise(horizon), 1.0),
            "bayes-gap" | "bayes-filter" if self.fit.is_silent(self.prompt.mean_square()) => {
                // Its digits are rounding.
                let fit = Fit { signal: 0.0, noise: found, magnification: 1.0 };
                assert!(fit.is_silent(self.prompt.mean_square()), "{found}");
                return;
            }
            "bayes-gap" | "bayes-filter" => (self.fit.noise, self.fit.magnification),
            _ => (self.prompt.mean_square(), 1.0),
        };
        self.prompt.close(found, expected, expected * magnification, "noise variance");
    }

    /// The prediction for the query after every number of steps, by steps taken literally.
    fn check_paths(&self) {
        let (prompt, prediction) = (self.prompt, &self.prompt.report["prediction"]);
        let moved = |taken: &Vec<f64>| dot(taken, &prompt.residuals);
        let expected: Vec<f64> =
            self.taken.iter().map(|taken| number(&prediction["icl"]) + moved(taken)).collect();
        let path = &prediction["path"];
        prompt.all_close(&numbers(&path["linear"]), &expected, 1.0, "path of linear steps");
        assert!(path.get("steps").is_none(), "nothing is carried out");
    }

    /// What the chosen update, some numbers of steps with their weights, and the ideal fit of every
    /// mode.
    fn check_filters(&self, steps: &[(u64, f64)], fit: &Fit) {
        let (prompt, geometry) = (self.prompt, &self.prompt.report["geometry"]);
        let eigenvalues = numbers(&geometry["eigenvalues"]);
        let ideal = |value: &f64| fit.signal * value / (fit.signal * value + fit.noise);
        let ideal: Vec<f64> = eigenvalues.iter().map(ideal).collect();
        let magnified = fit.magnification;
        let found = numbers(&geometry["bayes_response"]);
        prompt.all_close(&found, &ideal, magnified, "best response");
        let found = numbers(&geometry["response"]);
        if self.rule == "bayes-filter" {
            return prompt.all_close(&found, &ideal, magnified, "response of the best filter");
        }
        let fitted = |value: &f64| {
            let left = |horizon: u64| (1.0 - self.size * value).powf(horizon as f64);
            steps.iter().map(|&(horizon, weight)| weight * (1.0 - left(horizon))).sum()
        };
        let fitted: Vec<f64> = eigenvalues.iter().map(fitted).collect();
        prompt.all_close(&found, &fitted, 1.0, "response");
    }

    /// What the chosen update does: to the prompt, at the query, and against the ideal.
    fn check_update(&self, horizon: u64, posterior: &[f64]) {
        let (prompt, report) = (self.prompt, self.prompt.report);
        let fit = self.fit.with_some_noise(prompt.mean_square());
        let moved = |weights: &[f64]| -> f64 {
            let pairs = prompt.horizons.iter().zip(weights);
            pairs.filter(|(horizon, _)| **horizon > 0).map(|(_, weight)| weight).sum()
        };
        // One number of steps, or many with their weights.
        let steps: Vec<(u64, f64)> = match self.rule {
            "leave-one-out-average" if moved(posterior) < 0.01 => vec![],
            "gibbs" | "leave-one-out-average" => {
                prompt.horizons.iter().copied().zip(posterior.iter().copied()).collect()
            }
            _ => vec![(horizon, 1.0)],
        };
        self.check_filters(&steps, &fit);
        let mut taken = vec![0.0; prompt.n()];
        let mut degrees = 0.0;
        if self.rule == "bayes-filter" {
            taken = fit.ideal(&self.kernel, &self.coupling);
            let ideal = |value: &f64| fit.signal * value / (fit.signal * value + fit.noise);
            degrees = self.eigenvalues.iter().map(ideal).sum();
        } else {
            for (horizon, weight) in steps {
                let one = &self.taken[place(horizon)];
                taken.iter_mut().zip(one).for_each(|(sum, x)| *sum += weight * x);
                let left = |value: &f64| (1.0 - self.size * value).powf(horizon as f64);
                degrees += weight * (self.n() - self.eigenvalues.iter().map(left).sum::<f64>());
            }
        }
        let weight = match self.rule {
            "gibbs" | "leave-one-out-average" => moved(posterior),
            "bayes-filter" => f64::from(u8::from(fit.signal > 0.0)),
            _ => f64::from(u8::from(horizon > 0)),
        };
        prompt.close(number(&report["when"]["weight"]), weight, 1.0, "weight on updating");
        // A no where more weight is on leaving the model alone.
        if (weight - 0.5).abs() > 1e-6 {
            assert_eq!(
                report["when"]["adapt"],
                weight > 0.5,
                "{}: {}",
                report["id"],
                self.rule
            );
        }
        self.check_errors(horizon, posterior);
        let found = number(&report["how_far"]["degrees_of_freedom"]);
        prompt.close(found, degrees, self.n() * fit.magnification, "degrees of freedom");
        self.check_query(&fit, &taken);
    }

    /// Leave-one-out errors before and after, by refitting without each example.
    fn check_errors(&self, horizon: u64, posterior: &[f64]) {
        let (prompt, when) = (self.prompt, &self.prompt.report["when"]);
        let weights: Vec<(u64, f64)> = match self.rule {
            "leave-one-out" => vec![(horizon, 1.0)],
            "leave-one-out-average" => {
                prompt.horizons.iter().copied().zip(posterior.iter().copied()).collect()
            }
            _ => return assert!(when.get("leave_one_out").is_none()),
        };
        let averaging = &prompt.report["policy"]["horizon"]["averaging"];
        let after = prompt.averaged_errors(&self.reported, self.size, &weights);
        let [before, after] =
            [&prompt.residuals, &after].map(|errors| prompt.averaged(errors, averaging));
        let found = &when["leave_one_out"];
        prompt.close(number(&found["icl"]), before, 1.0, "error without an update");
        prompt.close(number(&found["adapted"]), after, 1.0, "error with the update");
    }

    /// The linearised prediction, its error bar, and the gaps to the ideal correction.
    fn check_query(&self, fit: &Fit, taken: &[f64]) {
        let (prompt, report) = (self.prompt, self.prompt.report);
        let (prediction, when) = (&report["prediction"], &report["when"]);
        let moved = dot(taken, &prompt.residuals);
        let expected = number(&prediction["icl"]) + moved;
        let magnified = if self.rule == "bayes-filter" { fit.magnification } else { 1.0 };
        prompt.close(number(&prediction["linear"]), expected, magnified, "linear form");

        if self.by_evidence() {
            let (untouched, adapted) =
                (self.gap(fit, &vec![0.0; prompt.n()]), self.gap(fit, taken));
            let scale = untouched.max(adapted) * fit.magnification;
            prompt.close(number(&when["gap_icl"]), untouched, scale, "gap without an update");
            prompt.close(number(&when["gap_adapted"]), adapted, scale, "gap with the update");
        }

        let reached = multiply(&self.projection, &self.coupling);
        let known = dot(&reached, &fit.ideal(&self.filled, &reached));
        let own = number(&report["geometry"]["query_variance"]);
        let expected = fit.signal * (own - known).clamp(0.0, own);
        let found = number(&prediction["standard_deviation"]).powi(2);
        prompt.close(
            found,
            expected,
            fit.signal * own * fit.magnification,
            "posterior variance",
        );
    }

    /// The interval for the answer, cut at the smallest and the largest label of its task.
    fn check_interval(&self, horizon: u64, posterior: &[f64]) {
        let (prompt, prediction) = (self.prompt, &self.prompt.report["prediction"]);
        let weights: Vec<(u64, f64)> = match self.rule {
            "leave-one-out" => vec![(horizon, 1.0)],
            "leave-one-out-average" => {
                prompt.horizons.iter().copied().zip(posterior.iter().copied()).collect()
            }
            _ => return assert!(prediction.get("interval").is_none()),
        };
        let ends = prompt.interval(&self.reported, &self.coupling, self.size, &weights);
        let (least, most) =
            if prompt.report["id"] == "words" { (-1.0, 2.0) } else { (0.0, 1.0) };
        let ends = ends.map(|end| (number(&prediction["icl"]) + end).clamp(least, most));
        let found = &prediction["interval"];
        prompt.close(number(&found["lower"]), ends[0], 1.0, "lower end");
        prompt.close(number(&found["upper"]), ends[1], 1.0, "upper end");
        assert_eq!(found["coverage"], 0.8);
    }

    fn leave_one_out(&self) -> Vec<f64> {
        let averaging = &self.prompt.report["policy"]["horizon"]["averaging"];
        self.prompt.leave_one_out(&self.reported, self.size, &self.prompt.horizons, averaging)
    }

    /// Risks to the power of `−βn`, times the odds for the shortest against all others.
    fn leave_one_out_posterior(&self) -> Vec<f64> {
        let risks = self.leave_one_out();
        let best = risks.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        let rule = &self.prompt.report["policy"]["horizon"];
        let (power, odds) = (number(&rule["sharpness"]), number(&rule["leave_alone_odds"]));
        let likelihoods =
            risks.iter().map(|risk| (-power * self.n() * (risk / best).ln()).exp());
        let prior =
            |place: usize| if place == 0 { odds * (risks.len() - 1) as f64 } else { 1.0 };
        let weights: Vec<f64> = likelihoods
            .enumerate()
            .map(|(place, likelihood)| prior(place) * likelihood)
            .collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// `rᵀ(−log(I − ρK))r/‖r‖²` over the mean eigenvalue of the same matrix, by its power series.
    fn check_gate(&self) {
        let residuals = &self.prompt.residuals;
        let (mut power, mut sum) = (residuals.clone(), 0.0);
        for term in 1..200 {
            power = multiply(&self.kernel, &power).iter().map(|x| x * self.size).collect();
            sum += dot(residuals, &power) / f64::from(term);
        }
        let along = sum / dot(residuals, residuals);
        let expected = along / (-self.log_determinant / self.n());
        let gate = number(&self.prompt.report["when"]["gate"]);
        self.prompt.close(gate, expected, expected.max(1.0), "gate");
    }
}
