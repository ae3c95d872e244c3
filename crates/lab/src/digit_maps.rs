//! Digit maps: the tasks that the built-in model is made for, and the best prediction there is.
//!
//! A task is a hidden shift, `y = (x + shift) mod 10`, shown by pairs such as `3->7` or `3:7`, one
//! per line. A [`Prior`] says which shifts there are and how often a label is replaced by a random
//! digit. Out: drawn tasks, and the exact Bayes prediction under the prior.

use fewstep_core::Rng;
use fewstep_engine::{Example, Label, Query, Task};

/// Number of digits; their labels have the values `0/9, 1/9, …, 9/9`.
pub const DIGITS: usize = 10;

/// What may stand between `x` and `y`.
pub const ARROWS: [&str; 2] = ["->", ":"];

/// Which tasks there are, and how often.
///
/// # Examples
///
/// Two shifts and no noise: one pair tells them apart.
///
/// ```
/// use fewstep_lab::digit_maps::Prior;
///
/// let prior = Prior { shifts: vec![1, 4], noises: vec![0.0] };
/// assert_eq!(prior.predict(&[], 2)[3], 0.5);
/// assert_eq!(prior.predict(&[(0, 4)], 2)[6], 1.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// The shifts, equally likely.
    pub shifts: Vec<usize>,
    /// The probabilities with which a label is replaced by a random digit, equally likely.
    pub noises: Vec<f64>,
}

/// A drawn task: its shift, its label noise, and pairs of digits.
///
/// # Examples
///
/// ```
/// use fewstep_lab::digit_maps::DigitMap;
///
/// let map = DigitMap { shift: 4, noise: 0.0, arrow: "->", pairs: vec![(3, 7), (8, 2)] };
/// assert_eq!(map.text(), ("3->7\n8->2".to_owned(), vec![2, 7]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DigitMap {
    /// What is added to `x`, modulo 10.
    pub shift: usize,
    /// The probability with which a label was replaced.
    pub noise: f64,
    /// What stands between `x` and `y`.
    pub arrow: &'static str,
    /// `x` and `y`.
    pub pairs: Vec<(usize, usize)>,
}

impl Prior {
    /// What the built-in model is trained on: shifts from 0 to 5 and at most 20 % noise.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_lab::digit_maps::Prior::pretraining().shifts.len(), 6);
    /// ```
    #[must_use]
    pub fn pretraining() -> Self {
        Self { shifts: (0..6).collect(), noises: vec![0.0, 0.1, 0.2] }
    }

    /// The paper's test distribution: all shifts, clean or with 55 % noise (App. I).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_lab::digit_maps::Prior::paper().shifts.len(), 10);
    /// ```
    #[must_use]
    pub fn paper() -> Self {
        Self { shifts: (0..DIGITS).collect(), noises: vec![0.0, 0.55] }
    }

    /// Draws a task with this number of pairs, all with this prior's noise.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::digit_maps::Prior;
    /// use fewstep_core::Rng;
    ///
    /// let map = Prior { shifts: vec![3], noises: vec![0.0] }.draw(5, &mut Rng::new(0));
    /// assert!(map.pairs.iter().all(|(x, y)| (x + 3) % 10 == *y));
    /// ```
    pub fn draw(&self, pairs: usize, rng: &mut Rng) -> DigitMap {
        let shift = self.shifts[rng.below(self.shifts.len())];
        let noise = self.noises[rng.below(self.noises.len())];
        let arrow = ARROWS[rng.below(ARROWS.len())];
        let pairs = (0..pairs)
            .map(|_| {
                let x = rng.below(DIGITS);
                let replaced = rng.uniform() < noise;
                let random = rng.below(DIGITS);
                (x, if replaced { random } else { (x + shift) % DIGITS })
            })
            .collect();
        DigitMap { shift, noise, arrow, pairs }
    }

    /// The probability of each digit as the label of `x` after some pairs, by Bayes' rule.
    ///
    /// ```text
    /// P(y | x, pairs) ∝ Σ_{shift, noise} P(y | x, shift, noise) Π_i P(y_i | x_i, shift, noise)
    /// ```
    ///
    /// Pairs that no task of the prior can show leave it undecided: every label is then equally
    /// likely.
    #[must_use]
    pub fn predict(&self, pairs: &[(usize, usize)], x: usize) -> [f64; DIGITS] {
        let mut predicted = [0.0; DIGITS];
        for &shift in &self.shifts {
            for &noise in &self.noises {
                let seen: f64 =
                    pairs.iter().map(|&(x, y)| chance(shift, noise, x, y)).product();
                for (y, probability) in predicted.iter_mut().enumerate() {
                    *probability += seen * chance(shift, noise, x, y);
                }
            }
        }
        let total: f64 = predicted.iter().sum();
        if total > 0.0 {
            predicted.map(|probability| probability / total)
        } else {
            [1.0 / DIGITS as f64; DIGITS]
        }
    }

    /// The probability of each shift `0, 1, …, 9` after some pairs, by Bayes' rule.
    ///
    /// ```text
    /// P(shift | pairs) ∝ Σ_noise Π_i P(y_i | x_i, shift, noise)
    /// ```
    ///
    /// Pairs that no task of the prior can show leave the shifts of the prior equally likely.
    ///
    /// # Examples
    ///
    /// One pair, kept with probability ½ and replaced by one of ten digits otherwise: the shift
    /// that it shows is `0.55/0.05 = 11` times as likely as the other.
    ///
    /// ```
    /// use fewstep_lab::digit_maps::Prior;
    ///
    /// let posterior = Prior { shifts: vec![1, 4], noises: vec![0.5] }.posterior(&[(0, 4)]);
    /// assert!((posterior[4] - 11.0 / 12.0).abs() < 1e-15);
    /// assert_eq!(posterior[0], 0.0);
    /// ```
    #[must_use]
    pub fn posterior(&self, pairs: &[(usize, usize)]) -> [f64; DIGITS] {
        let seen = |shift, noise| -> f64 {
            pairs.iter().map(|&(x, y)| chance(shift, noise, x, y)).product()
        };
        let mut posterior = [0.0; DIGITS];
        for &shift in &self.shifts {
            posterior[shift] +=
                self.noises.iter().map(|&noise| seen(shift, noise)).sum::<f64>();
        }
        if posterior.iter().sum::<f64>() == 0.0 {
            for &shift in &self.shifts {
                posterior[shift] += 1.0;
            }
        }
        let total: f64 = posterior.iter().sum();
        posterior.map(|weight| weight / total)
    }

    /// Mean and variance of the clean label's value after some pairs: the prediction that no other
    /// beats on average at a query whose label is never replaced, and what is left of its error.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::digit_maps::Prior;
    ///
    /// let prior = Prior { shifts: vec![0, 9], noises: vec![0.0] };
    /// let (mean, variance) = prior.predict_clean(&[], 0);
    /// assert_eq!((mean, variance), (0.5, 0.25));
    /// ```
    #[must_use]
    pub fn predict_clean(&self, pairs: &[(usize, usize)], x: usize) -> (f64, f64) {
        let posterior = self.posterior(pairs);
        let expect = |of: &dyn Fn(f64) -> f64| -> f64 {
            let shifts = posterior.iter().enumerate();
            shifts.map(|(shift, weight)| weight * of(value((x + shift) % DIGITS))).sum()
        };
        let mean = expect(&|label| label);
        (mean, expect(&|label| (label - mean).powi(2)))
    }

    /// The mean of the label's value after some pairs, which no prediction beats on average.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::digit_maps::Prior;
    ///
    /// let prior = Prior { shifts: vec![0, 9], noises: vec![0.0] };
    /// assert_eq!(prior.predict_value(&[], 9), (1.0 + 8.0 / 9.0) / 2.0);
    /// ```
    #[must_use]
    pub fn predict_value(&self, pairs: &[(usize, usize)], x: usize) -> f64 {
        let probabilities = self.predict(pairs, x);
        probabilities.iter().enumerate().map(|(y, probability)| probability * value(y)).sum()
    }
}

/// The value of a digit as a label.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_lab::digit_maps::value(9), 1.0);
/// ```
#[must_use]
pub fn value(digit: usize) -> f64 {
    digit as f64 / (DIGITS - 1) as f64
}

/// The probability with which a task with this shift and noise shows `y` for `x`.
fn chance(shift: usize, noise: f64, x: usize, y: usize) -> f64 {
    let kept = if (x + shift) % DIGITS == y { 1.0 - noise } else { 0.0 };
    kept + noise / DIGITS as f64
}

impl DigitMap {
    /// The pairs as text, one per line, and for each the place of the byte before its label.
    #[must_use]
    pub fn text(&self) -> (String, Vec<usize>) {
        let mut text = String::new();
        let mut before = Vec::with_capacity(self.pairs.len());
        for (index, (x, y)) in self.pairs.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            text.push_str(&format!("{separator}{x}{}", self.arrow));
            before.push(text.len() - 1);
            text.push_str(&y.to_string());
        }
        (text, before)
    }

    /// The task that shows the pairs and asks for the label of `x`, which is the clean one.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::digit_maps::DigitMap;
    ///
    /// let map = DigitMap { shift: 4, noise: 0.0, arrow: ":", pairs: vec![(3, 7), (8, 2)] };
    /// let task = map.task("t1", 9);
    /// assert_eq!((task.template.as_str(), task.query.y.as_deref()), ("{x}:{y}", Some("3")));
    /// assert!(task.check().is_ok());
    /// ```
    #[must_use]
    pub fn task(&self, id: &str, x: usize) -> Task {
        let label = |digit| Label { text: format!("{digit}"), value: Some(value(digit)) };
        let example = |(x, y): &(usize, usize)| Example { x: x.to_string(), y: y.to_string() };
        Task {
            id: id.to_owned(),
            template: format!("{{x}}{}{{y}}", self.arrow),
            separator: "\n".to_owned(),
            labels: (0..DIGITS).map(label).collect(),
            examples: self.pairs.iter().map(example).collect(),
            query: Query { x: x.to_string(), y: Some(((x + self.shift) % DIGITS).to_string()) },
            further: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bayes' rule against counting: among many drawn tasks that show the same pairs, the labels
    /// of the next pair occur as often as predicted.
    #[test]
    fn the_bayes_prediction_is_the_frequency_among_drawn_tasks() {
        let prior = Prior { shifts: vec![0, 1, 5], noises: vec![0.0, 0.4] };
        let (mut rng, mut seen) = (Rng::new(7), [0_u32; DIGITS]);
        for _ in 0..400_000 {
            let pairs = prior.draw(3, &mut rng).pairs;
            // By symmetry only the differences matter: move every pair to x = 0.
            let moved: Vec<usize> =
                pairs.iter().map(|(x, y)| (y + DIGITS - x) % DIGITS).collect();
            if moved[..2] == [1, 3] {
                seen[moved[2]] += 1;
            }
        }
        let count = f64::from(seen.iter().sum::<u32>());
        assert!(count > 1000.0, "{count} tasks are too few");
        let predicted = prior.predict(&[(4, 5), (0, 3)], 0);
        for (found, probability) in seen.iter().zip(predicted) {
            let error = (probability * (1.0 - probability) / count).sqrt();
            let distance = (f64::from(*found) / count - probability).abs();
            assert!(distance < 4.0 * error, "{found} of {count}, not {probability}");
        }
    }

    /// The posterior against brute force: draw every shift, noise and replacement there is.
    ///
    /// With noise `k/m` a label is one of `m·10` equally likely events: `k·10` of them replace it
    /// by a digit, the others keep it. All events of three pairs are listed and counted.
    #[test]
    fn the_prediction_of_a_clean_label_counts_all_ways_to_see_the_pairs() {
        let prior = Prior { shifts: vec![0, 2, 5], noises: vec![0.0, 0.25, 0.75] };
        let quarters = [0_usize, 1, 3];
        let shown = |event: usize, kept: usize, replacing: usize| match event {
            event if event < replacing * DIGITS => event % DIGITS,
            _ => kept,
        };
        for pairs in
            [[(1, 3), (4, 6), (7, 1)], [(0, 0), (3, 8), (9, 1)], [(2, 2), (2, 4), (2, 7)]]
        {
            let x = 6;
            let mut ways = [0_u64; DIGITS];
            for &shift in &prior.shifts {
                for replacing in quarters {
                    // Pairs are independent given the task: count their events one by one.
                    let count = |(x, y): (usize, usize)| {
                        let kept = (x + shift) % DIGITS;
                        let all = 0..4 * DIGITS;
                        all.filter(|&event| shown(event, kept, replacing) == y).count() as u64
                    };
                    ways[(x + shift) % DIGITS] +=
                        pairs.iter().map(|&pair| count(pair)).product::<u64>();
                }
            }
            let total = ways.iter().sum::<u64>() as f64;
            let share = |digit: usize| ways[digit] as f64 / total;
            let mean: f64 = (0..DIGITS).map(|digit| share(digit) * digit as f64 / 9.0).sum();
            let square: f64 =
                (0..DIGITS).map(|digit| share(digit) * (digit as f64 / 9.0).powi(2)).sum();
            let found = prior.predict_clean(&pairs, x);
            let tolerance = 1e3 * f64::EPSILON;
            assert!((found.0 - mean).abs() < tolerance, "{pairs:?}: {} not {mean}", found.0);
            assert!((found.1 - (square - mean * mean)).abs() < tolerance, "{pairs:?}");
        }
    }

    /// And against drawn tasks: the mean of the clean labels among those that show the same pairs.
    #[test]
    fn the_prediction_of_a_clean_label_is_its_mean_among_drawn_tasks() {
        let prior = Prior::paper();
        let (mut rng, mut labels) = (Rng::new(5), vec![]);
        for _ in 0..600_000 {
            let map = prior.draw(2, &mut rng);
            // By symmetry only the differences matter: move every pair to x = 0.
            let moved: Vec<usize> =
                map.pairs.iter().map(|(x, y)| (y + DIGITS - x) % DIGITS).collect();
            if moved == [1, 3] {
                labels.push(value(map.shift));
            }
        }
        let (mean, variance) = prior.predict_clean(&[(4, 5), (0, 3)], 0);
        let count = labels.len() as f64;
        assert!(count > 1000.0, "{count} tasks are too few");
        let found = labels.iter().sum::<f64>() / count;
        assert!((found - mean).abs() < 4.0 * (variance / count).sqrt(), "{found}, not {mean}");
        let spread = labels.iter().map(|label| (label - mean).powi(2)).sum::<f64>() / count;
        // Labels lie between 0 and 1, so their squared distance has at most this variance.
        assert!(
            (spread - variance).abs() < 4.0 * (variance / count).sqrt(),
            "{spread}, {variance}"
        );
    }

    #[test]
    fn labels_are_replaced_as_often_as_the_noise_says() {
        let prior = Prior { shifts: vec![2], noises: vec![0.55] };
        let pairs = prior.draw(20_000, &mut Rng::new(3)).pairs;
        let clean = pairs.iter().filter(|(x, y)| (x + 2) % DIGITS == *y).count() as f64;
        let (share, count) = (0.45 + 0.055, pairs.len() as f64);
        let error = (share * (1.0 - share) / count).sqrt();
        assert!((clean / count - share).abs() < 4.0 * error);
    }

    #[test]
    fn the_clean_label_is_certain_once_the_shift_is() {
        let pairs: Vec<_> = (0..10).map(|x| (x, (x + 7) % 10)).collect();
        let (mean, variance) = Prior::paper().predict_clean(&pairs, 5);
        assert!((mean - value(2)).abs() < 1e-6 && variance < 1e-6);
        // Before any pair every shift is equally likely.
        let (mean, variance) = Prior::paper().predict_clean(&[], 5);
        assert!((mean - 0.5).abs() < 1e-12 && (variance - 99.0 / 12.0 / 81.0).abs() < 1e-12);
        // Pairs that no task can show say nothing about the shift.
        let prior = Prior { shifts: vec![1, 2], noises: vec![0.0] };
        assert!((prior.predict_clean(&[(0, 5)], 0).0 - 1.5 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn pairs_that_no_task_can_show_leave_every_label_equally_likely() {
        let prior = Prior { shifts: vec![1], noises: vec![0.0] };
        let predicted = prior.predict(&[(0, 5)], 0);
        assert!(predicted.iter().all(|probability| (probability - 0.1).abs() < f64::EPSILON));
    }
}
