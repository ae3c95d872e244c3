//! Sets of labels that hold the answer with a stated confidence, and when to abstain.
//!
//! In: what the average gave the true label of each held-out example. Out: for a prediction the labels
//! that examples do not speak against, and how unusual its best label is.

/// One less the probability of its true label, for every held-out example: the smaller, the better.
///
/// Each is by an average whose weights do not know that example's loss, so that a query, whose answer
/// no weight has seen either, is one more draw of the same kind (split-conformal prediction by
/// leave-one-out; Vovk, Gammerman and Shafer 2005, Barber et al. 2021).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// `s_1 ≤ … ≤ s_n`.
    scores: Vec<f64>,
    /// The largest score of a label in a set; infinite if too few examples are known.
    threshold: f64,
}

impl Held {
    /// From the probabilities of the true labels.
    ///
    /// ```text
    /// threshold = s at position (n + 1)·confidence, linear between order statistics,
    ///             s_0 = 0, and every label beyond position n
    /// ```
    ///
    /// The usual position is rounded up, which covers more than was asked for: 94 % at `n = 16` and a
    /// confidence of 90 %. Interpolating meets it on average.
    pub(super) fn of(probabilities: impl IntoIterator<Item = f64>, confidence: f64) -> Self {
        let mut scores: Vec<f64> =
            probabilities.into_iter().map(|p| (1.0 - p).clamp(0.0, 1.0)).collect();
        scores.sort_by(f64::total_cmp);
        let position = (scores.len() + 1) as f64 * confidence;
        // Beyond the last one by more than the rounding of the product.
        let threshold = if position > scores.len() as f64 * (1.0 + 4.0 * f64::EPSILON) {
            f64::INFINITY
        } else {
            // The number of order statistics at or before the position.
            let before = (1..=scores.len()).take_while(|&k| k as f64 <= position).count();
            let at =
                |k: usize| if k == 0 { 0.0 } else { scores[(k - 1).min(scores.len() - 1)] };
            at(before) + (position - before as f64) * (at(before + 1) - at(before))
        };
        Self { scores, threshold }
    }

    /// The labels of the set, most probable first: never none.
    pub(super) fn set(&self, probabilities: &[f64]) -> Vec<usize> {
        let mut labels: Vec<usize> = (0..probabilities.len()).collect();
        // Ties stay in the order of the labels.
        labels.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
        let kept = labels.iter().take_while(|&&c| 1.0 - probabilities[c] <= self.threshold);
        let kept = kept.count().max(1);
        labels.truncate(kept);
        labels
    }

    /// How unusual it would be for the answer to be no more probable than the most probable label.
    ///
    /// ```text
    /// 1 − max_c π(c),   π(c): the share of s_0 = 0 < s_1 ≤ … ≤ s_n ≤ s_{n+1} = 1 beyond 1 − p(c)
    /// ```
    ///
    /// `π` is the conformal p-value of a label, made continuous by interpolating between order
    /// statistics, so that few examples do not tie most queries. Being monotone in the largest
    /// probability it ranks queries as that does, and says on the scale of the examples' own
    /// held-out answers how far out a query lies.
    pub(super) fn abstention(&self, probabilities: &[f64]) -> f64 {
        let largest = probabilities.iter().copied().fold(0.0, f64::max);
        let score = (1.0 - largest).clamp(0.0, 1.0);
        let below = self.scores.partition_point(|&other| other < score);
        let lower = if below == 0 { 0.0 } else { self.scores[below - 1] };
        let upper = self.scores.get(below).copied().unwrap_or(1.0);
        let within = if upper > lower { (score - lower) / (upper - lower) } else { 0.0 };
        (below as f64 + within) / (self.scores.len() + 1) as f64
    }
}
