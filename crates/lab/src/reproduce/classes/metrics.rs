//! How good probabilities are: accuracy, log-loss, Brier score, calibration error, and areas under
//! curves.
//!
//! In: probabilities and answers. Out: numbers. Everything is written as it is defined.

/// The least probability that a loss tells apart from 0, as in the decision.
pub(super) const LEAST_PROBABILITY: f64 = 1e-6;

/// Bins of the calibration error.
const BINS: usize = 10;

/// What a prediction said and what was true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scored {
    /// The largest probability.
    pub(super) confidence: f64,
    /// 1 if its label is the answer, else 0.
    pub(super) right: f64,
    /// The negative log-probability of the answer.
    pub(super) log_loss: f64,
    /// The squared distance to the answer, summed over the labels.
    pub(super) brier: f64,
}

impl Scored {
    /// A prediction against its answer; of equal probabilities the first label is taken.
    pub(super) fn of(probabilities: &[f64], answer: usize) -> Self {
        let best = first_largest(probabilities);
        let brier = probabilities.iter().enumerate().map(|(label, probability)| {
            (probability - f64::from(u8::from(label == answer))).powi(2)
        });
        Self {
            confidence: probabilities[best],
            right: f64::from(u8::from(best == answer)),
            log_loss: -probabilities[answer].max(LEAST_PROBABILITY).ln(),
            brier: brier.sum(),
        }
    }
}

/// The position of the largest number, the first of equals.
pub(super) fn first_largest(numbers: &[f64]) -> usize {
    (1..numbers.len())
        .fold(0, |best, next| if numbers[next] > numbers[best] { next } else { best })
}

/// Expected calibration error: how far confidence and accuracy are apart, in ten even bins of the
/// confidence, weighted by what is in them.
///
/// ```text
/// ECE = Σ_b (n_b/n) |accuracy_b − confidence_b|
/// ```
pub(super) fn calibration_error(scored: impl IntoIterator<Item = Scored>) -> f64 {
    let mut bins = [(0.0, 0.0); BINS];
    let mut count = 0.0;
    for one in scored {
        let bin = bin(one.confidence);
        bins[bin].0 += one.right;
        bins[bin].1 += one.confidence;
        count += 1.0;
    }
    let apart: f64 = bins.iter().map(|(right, confidence)| (right - confidence).abs()).sum();
    if count > 0.0 { apart / count } else { 0.0 }
}

/// The bin of a confidence: over `b/10`, up to `(b + 1)/10`.
pub(super) fn bin(confidence: f64) -> usize {
    (0..BINS - 1).find(|&b| confidence <= (b + 1) as f64 / BINS as f64).unwrap_or(BINS - 1)
}

/// The probability that one of `positive` is larger than one of `negative`, ties counted half: the
/// area under the ROC curve. `None` without one of each.
pub(super) fn area(positive: &[f64], negative: &[f64]) -> Option<f64> {
    if positive.is_empty() || negative.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = positive.iter().map(|&score| (score, true)).collect();
    all.extend(negative.iter().map(|&score| (score, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut wins, mut start) = (0.0, 0.0, 0);
    while start < all.len() {
        let same = all[start..].iter().take_while(|one| one.0.total_cmp(&all[start].0).is_eq());
        let same = same.count();
        let group = &all[start..start + same];
        let of_positive = group.iter().filter(|one| one.1).count() as f64;
        let of_negative = same as f64 - of_positive;
        wins += of_positive * (below + 0.5 * of_negative);
        below += of_negative;
        start += same;
    }
    Some(wins / (positive.len() as f64 * negative.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_by_hand() {
        let one = Scored::of(&[0.2, 0.5, 0.3], 2);
        let close = |a: f64, b: f64| (a - b).abs() < 4.0 * f64::EPSILON * b.max(1.0);
        assert!(close(one.confidence, 0.5) && close(one.right, 0.0));
        // −ln 0.3, and 0.04 + 0.25 + 0.49.
        assert!(close(one.log_loss, 1.203_972_804_325_936) && close(one.brier, 0.78));
        let tie = Scored::of(&[0.5, 0.5], 0);
        assert!(close(tie.right, 1.0) && close(Scored::of(&[0.5, 0.5], 1).right, 0.0));
        assert!(close(Scored::of(&[1.0, 0.0], 1).log_loss, 6.0 * 10.0_f64.ln()));
        assert!(close(Scored::of(&[1.0, 0.0], 1).brier, 2.0));
    }

    #[test]
    fn calibration_by_hand() {
        let of = |confidence: f64, right: f64| Scored {
            confidence,
            right,
            log_loss: 0.0,
            brier: 0.0,
        };
        // Two at 0.55 and 0.6 (one right) and two at 0.95 (both right):
        // (|1 − 1.15| + |2 − 1.9|)/4.
        let four = [of(0.55, 1.0), of(0.6, 0.0), of(0.95, 1.0), of(0.95, 1.0)];
        assert!((calibration_error(four) - 0.0625).abs() < 1e-15);
        assert!((calibration_error([of(1.0, 1.0), of(1.0, 0.0)]) - 0.5).abs() < 1e-15);
        assert!(calibration_error([]).abs() < f64::MIN_POSITIVE);
        let bins = [0.0, 0.1, 0.11, 0.3, 0.95, 1.0].map(bin);
        assert_eq!(bins, [0, 0, 1, 2, 9, 9]);
    }

    /// The area against all pairs.
    #[test]
    fn an_area_is_the_share_of_pairs_in_order() {
        let positive = [0.9, 0.4, 0.4, 0.7];
        let negative = [0.1, 0.4, 0.8];
        let mut wins = 0.0;
        for p in positive {
            for n in negative {
                wins += if p > n {
                    1.0
                } else if p < n {
                    0.0
                } else {
                    0.5
                };
            }
        }
        assert!((area(&positive, &negative).unwrap() - wins / 12.0).abs() < 1e-15);
        assert_eq!(area(&[], &negative), None);
        assert_eq!(area(&[1.0], &[0.0]), Some(1.0));
    }
}
