//! How good probabilities of labels are, over any number of answers that are known.
//!
//! In: the probabilities of a query's labels and which of them is the answer, one query after the
//! other. Out: [`ClassScores`], which holds counts and sums and no query.

use std::collections::BTreeMap;

/// The number of bins of the calibration error.
const BINS: usize = 10;

/// A log-loss is clipped at this probability, as leave-one-out log-losses are.
const LEAST_PROBABILITY: f64 = 1e-6;

/// The log-loss of an answer that was given this probability, `−log p`, clipped at `p = 10⁻⁶`.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep::metrics::log_loss(1.0), 0.0);
/// assert!(fewstep::metrics::log_loss(0.0) < 14.0);
/// ```
#[must_use]
pub fn log_loss(probability: f64) -> f64 {
    // Not -0 for a probability of 1.
    0.0 - probability.max(LEAST_PROBABILITY).ln()
}

/// Accuracy, macro-F1, log-loss, Brier score and calibration error of answers that are known.
///
/// # Examples
///
/// ```
/// use fewstep::metrics::ClassScores;
///
/// let mut scores = ClassScores::default();
/// scores.add(&["person", "place"], &[0.8, 0.2], 0);
/// scores.add(&["person", "place"], &[0.6, 0.4], 1);
/// assert_eq!((scores.count(), scores.accuracy()), (2, 0.5));
/// // (0.2² + 0.2² + 0.6² + 0.6²) / 2
/// assert!((scores.brier() - 0.4).abs() < 1e-15);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassScores {
    count: u64,
    correct: u64,
    log_loss: f64,
    brier: f64,
    bins: [Bin; BINS],
    labels: BTreeMap<String, Counts>,
}

/// Predictions with about the same largest probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    /// The sum of the largest probabilities.
    confidence: f64,
    correct: u64,
}

/// How often a label was the answer, the most probable one, and both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    answer: u64,
    predicted: u64,
    both: u64,
}

impl ClassScores {
    /// Counts a query: the texts of its labels, their probabilities, and the position of the answer.
    ///
    /// The first of equally probable labels counts as predicted. A query whose probabilities are not
    /// numbers, or with none for its answer, is left out.
    pub fn add<S: AsRef<str>>(&mut self, labels: &[S], probabilities: &[f64], answer: usize) {
        let complete = answer < probabilities.len() && labels.len() == probabilities.len();
        if !complete || probabilities.iter().any(|probability| !probability.is_finite()) {
            return;
        }
        let predicted = most_probable(probabilities);
        let (largest, correct) = (probabilities[predicted], predicted == answer);
        self.count += 1;
        self.correct += u64::from(correct);
        self.log_loss += log_loss(probabilities[answer]);
        let squared =
            |(label, p): (usize, &f64)| (p - f64::from(u8::from(label == answer))).powi(2);
        self.brier += probabilities.iter().enumerate().map(squared).sum::<f64>();
        let bin = &mut self.bins[bin_of(largest)];
        bin.confidence += largest;
        bin.correct += u64::from(correct);
        let answered = self.counts(labels[answer].as_ref());
        answered.answer += 1;
        answered.both += u64::from(correct);
        self.counts(labels[predicted].as_ref()).predicted += 1;
    }

    fn counts(&mut self, label: &str) -> &mut Counts {
        self.labels.entry(label.to_owned()).or_default()
    }

    /// The number of queries that were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The share of queries whose most probable label is the answer; not a number without any.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.count as f64
    }

    /// F1 averaged over the labels that were an answer or predicted, each counting the same.
    ///
    /// ```text
    /// F1 = 2 · both / (predicted + answer)
    /// ```
    #[must_use]
    pub fn macro_f1(&self) -> f64 {
        let of = |one: &Counts| 2.0 * one.both as f64 / (one.predicted + one.answer) as f64;
        self.labels.values().map(of).sum::<f64>() / self.labels.len() as f64
    }

    /// The mean [log-loss](log_loss()).
    #[must_use]
    pub fn log_loss(&self) -> f64 {
        self.log_loss / self.count as f64
    }

    /// The mean Brier score, from 0 to 2: `Σ_c (p_c − [c is the answer])²`.
    #[must_use]
    pub fn brier(&self) -> f64 {
        self.brier / self.count as f64
    }

    /// Expected calibration error: how far the largest probability is from the share of correct
    /// answers.
    ///
    /// ```text
    /// Σ_b |Σ_{i in b} (p_i − correct_i)| / n,    ten bins [0, 0.1), …, [0.9, 1] of p_i
    /// ```
    #[must_use]
    pub fn calibration_error(&self) -> f64 {
        let apart = |bin: &Bin| (bin.confidence - bin.correct as f64).abs();
        self.bins.iter().map(apart).sum::<f64>() / self.count as f64
    }
}

/// The position of the largest probability, the first of several.
pub(crate) fn most_probable(probabilities: &[f64]) -> usize {
    let mut largest = 0;
    for (label, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[largest] {
            largest = label;
        }
    }
    largest
}

fn bin_of(probability: f64) -> usize {
    (1..BINS).rev().find(|&bin| probability * BINS as f64 >= bin as f64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 3] = ["a", "b", "c"];

    /// Four queries: a as a, b as a, b as b, c as b.
    fn four() -> ClassScores {
        let mut scores = ClassScores::default();
        scores.add(&LABELS, &[0.5, 0.25, 0.25], 0);
        scores.add(&LABELS, &[0.5, 0.25, 0.25], 1);
        scores.add(&LABELS, &[0.0, 1.0, 0.0], 1);
        scores.add(&LABELS, &[0.125, 0.75, 0.125], 2);
        scores
    }

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-14, "{found} is not {expected}");
    }

    #[test]
    fn scores_are_those_worked_out_by_hand() {
        let scores = four();
        assert_eq!(scores.count(), 4);
        assert_close(scores.accuracy(), 0.5);
        // a: 1 of 1 answers, 2 predictions; b: 1 of 2 and 2; c: 0 of 1 and 0.
        assert_close(scores.macro_f1(), (2.0 / 3.0 + 0.5 + 0.0) / 3.0);
        // 1/2, 1/4, 1 and 1/8: one, two, no and three bits.
        assert_close(scores.log_loss(), 6.0 * 2_f64.ln() / 4.0);
        let (first, second) = (0.25 + 2.0 * 0.0625, 0.25 + 0.5625 + 0.0625);
        let last = 0.015625 + 0.5625 + 0.765625;
        assert_close(scores.brier(), (first + second + last) / 4.0);
        // Bins: 0.5 twice with one correct, 0.75 with none, 1 with one.
        assert_close(scores.calibration_error(), (0.0 + 0.75 + 0.0) / 4.0);
    }

    #[test]
    fn labels_of_several_tasks_count_by_their_texts() {
        let mut scores = four();
        scores.add(&["c", "a"], &[0.9, 0.1], 0);
        assert_close(scores.macro_f1(), (2.0 / 3.0 + 0.5 + 2.0 / 3.0) / 3.0);
        assert_close(scores.accuracy(), 0.6);
    }

    #[test]
    fn what_cannot_be_scored_is_left_out() {
        let mut scores = four();
        scores.add(&LABELS, &[f64::NAN, 0.5, 0.5], 1);
        scores.add(&LABELS, &[0.5, 0.5], 1);
        scores.add(&LABELS, &[0.5, 0.25, 0.25], 3);
        assert_eq!(scores, four());
        assert!(ClassScores::default().accuracy().is_nan());
        // An answer without any probability does not decide alone.
        scores.add(&LABELS, &[1.0, 0.0, 0.0], 1);
        assert!(scores.log_loss() < 4.0);
    }

    #[test]
    fn bins_are_of_equal_width_and_hold_their_lower_ends() {
        let found = [0.0, 0.0999, 0.1, 0.95, 1.0].map(bin_of);
        assert_eq!(found, [0, 0, 1, 9, 9]);
        assert_eq!(most_probable(&[0.25, 0.5, 0.5]), 1);
    }
}
