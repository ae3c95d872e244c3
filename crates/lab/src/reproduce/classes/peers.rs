//! What else people do with the same labelled examples and the same label scores.
//!
//! In: a [`PromptRecord`]. Out: probabilities of its queries, by each [`Peer`] that it allows.

use super::platt::Platt;
use super::record::{PromptRecord, Rows};

/// A method that the policies are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// In-context learning left alone.
    Icl,
    /// The prompt without examples.
    ZeroShot,
    /// Contextual calibration (Zhao et al. 2021): divided by what inputs without content are given.
    ///
    /// ```text
    /// p(x) ∝ softmax(z(x)) / mean over content-free inputs of softmax(z)
    /// ```
    Contextual,
    /// Batch calibration (Zhou et al. 2023): divided by the mean over the prompt's queries.
    Batch,
    /// A temperature and a bias per label, fitted to leave-one-out scores.
    Platt,
    /// Logistic regression on hidden states.
    Probe,
}

impl Peer {
    /// All of them, in-context learning first.
    pub(super) const ALL: [Self; 6] =
        [Self::Icl, Self::ZeroShot, Self::Contextual, Self::Batch, Self::Platt, Self::Probe];

    /// What reports call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Icl => "ICL",
            Self::ZeroShot => "zero-shot",
            Self::Contextual => "contextual calibration",
            Self::Batch => "batch calibration",
            Self::Platt => "Platt scaling",
            Self::Probe => "linear probe",
        }
    }

    /// The probabilities of the queries, in their order.
    pub(super) fn answer(self, record: &PromptRecord) -> Option<Rows> {
        let few = &record.queries.few_shot;
        let icl = || few.iter().map(|row| softmax(row)).collect::<Rows>();
        match self {
            Self::Icl => Some(icl()),
            Self::ZeroShot => {
                Some(record.queries.zero_shot.iter().map(|row| softmax(row)).collect())
            }
            Self::Contextual => {
                let free: Rows =
                    record.content_free.few_shot.iter().map(|row| softmax(row)).collect();
                (!free.is_empty()).then(|| divided(&icl(), &mean(&free)))
            }
            Self::Batch => Some(divided(&icl(), &mean(&icl()))),
            Self::Platt => {
                let fitted = Platt::fit(&record.examples.few_shot, &record.answers);
                Some(few.iter().map(|row| fitted.probabilities(row)).collect())
            }
            Self::Probe => record.probe.clone(),
        }
    }
}

/// Probabilities of scores.
pub(super) fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    normalised(scores.iter().map(|score| (score - largest).exp()).collect())
}

/// The mean of some rows.
fn mean(rows: &Rows) -> Vec<f64> {
    let mut mean = vec![0.0; rows[0].len()];
    for row in rows {
        mean.iter_mut().zip(row).for_each(|(sum, p)| *sum += p / rows.len() as f64);
    }
    mean
}

/// Rows divided by what is expected without content, as probabilities again.
fn divided(rows: &Rows, by: &[f64]) -> Rows {
    let of = |row: &Vec<f64>| {
        // Where nothing at all is expected and given, nothing is left.
        let pairs = row.iter().zip(by).map(|(p, by)| p / by.max(f64::MIN_POSITIVE));
        normalised(pairs.collect())
    };
    rows.iter().map(of).collect()
}

fn normalised(mut row: Vec<f64>) -> Vec<f64> {
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|entry| *entry /= sum);
    row
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::record;
    use super::*;

    fn logs(rows: &[[f64; 2]]) -> Rows {
        rows.iter().map(|row| row.iter().map(|p| p.ln()).collect()).collect()
    }

    fn close(found: &[f64], expected: &[f64]) -> bool {
        found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    /// By hand: 0.8 and 0.2 against 0.6 and 0.4 are 4/3 and 1/2, so 8/11 and 3/11.
    #[test]
    fn contextual_calibration_by_hand() {
        let mut record = record(0, 2);
        record.queries.few_shot = logs(&[[0.8, 0.2], [0.5, 0.5]]);
        record.content_free.few_shot = logs(&[[0.5, 0.5], [0.7, 0.3]]);
        let found = Peer::Contextual.answer(&record).unwrap();
        assert!(close(&found[0], &[8.0 / 11.0, 3.0 / 11.0]), "{found:?}");
        assert!(close(&found[1], &[0.4, 0.6]), "{found:?}");
        record.content_free.few_shot.clear();
        assert_eq!(Peer::Contextual.answer(&record), None);
    }

    /// By hand: the mean of both queries is 0.65 and 0.35.
    #[test]
    fn batch_calibration_by_hand() {
        let mut record = record(0, 2);
        record.queries.few_shot = logs(&[[0.8, 0.2], [0.5, 0.5]]);
        let found = Peer::Batch.answer(&record).unwrap();
        let expected = 0.8 / 0.65 / (0.8 / 0.65 + 0.2 / 0.35);
        assert!(close(&found[0], &[expected, 1.0 - expected]));
        let expected = 0.5 / 0.65 / (0.5 / 0.65 + 0.5 / 0.35);
        assert!(close(&found[1], &[expected, 1.0 - expected]));
    }

    #[test]
    fn scores_matter_up_to_a_shift_and_may_be_extreme() {
        assert!(close(&softmax(&[-1000.0, -1000.0]), &[0.5, 0.5]));
        assert!(close(&softmax(&[1.0, 2.0]), &softmax(&[-5.0, -4.0])));
        let mut record = record(0, 2);
        record.queries.few_shot = vec![vec![0.0, -2000.0], vec![0.0, -2000.0]];
        let found = Peer::Batch.answer(&record).unwrap();
        assert!(found.iter().flatten().all(|p| p.is_finite()), "{found:?}");
    }
}
