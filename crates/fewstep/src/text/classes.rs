//! What a run over tasks of classes came to.

use super::Style;
use crate::metrics::ClassScores;
use crate::numbers::number;
use crate::report::Probabilities;
use std::fmt::Write as _;

/// How good the probabilities were of the answers that are known, with and without adapting.
///
/// # Examples
///
/// ```
/// use fewstep::text::{ClassSummary, Style};
///
/// // Without a known answer there is nothing to say.
/// assert_eq!(ClassSummary::default().text(Style::PLAIN), "");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSummary {
    /// By in-context learning alone.
    pub icl: ClassScores,
    /// By the average.
    pub adapted: ClassScores,
    /// How often the set held the answer.
    pub held: u64,
    /// The number of labels in all these sets.
    pub members: u64,
    /// The sum of the confidences with which they were meant to.
    pub confidence: f64,
}

impl ClassSummary {
    /// Counts a prediction, if its answer is known.
    pub fn add(&mut self, prediction: &Probabilities) {
        let Some(answer) = prediction.answer() else { return };
        self.icl.add(&prediction.labels, &prediction.icl, answer);
        self.adapted.add(&prediction.labels, &prediction.adapted, answer);
        self.held += u64::from(prediction.set.contains(&prediction.labels[answer]));
        self.members += prediction.set.len() as u64;
        self.confidence += prediction.confidence;
    }

    /// The summary in lines; none if no answer is known.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let count = self.adapted.count();
        let mut text = String::new();
        if count == 0 {
            return text;
        }
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let known =
            format!(" (over {count} known answer{})", if count == 1 { "" } else { "s" });
        let bins = " (expected calibration error of the largest probability)".to_owned();
        type Score = fn(&ClassScores) -> f64;
        let measures: [(&str, Score, bool, String); 5] = [
            ("accuracy", ClassScores::accuracy, true, known),
            ("macro-F1", ClassScores::macro_f1, false, String::new()),
            ("log-loss", ClassScores::log_loss, false, String::new()),
            ("Brier", ClassScores::brier, false, String::new()),
            ("ECE", ClassScores::calibration_error, false, bins),
        ];
        for (name, score, share, more) in measures {
            let said =
                |scores| if share { percent(score(scores)) } else { number(score(scores)) };
            let (icl, adapted) = (said(&self.icl), said(&self.adapted));
            let name = style.dim(&format!("{name:<10}"));
            let _ = writeln!(text, "  {name} {icl} without adapting, {adapted} adapted{more}");
        }
        let (held, meant) = (self.held as f64 / count as f64, self.confidence / count as f64);
        let size = number(self.members as f64 / count as f64);
        let name = style.dim("sets      ");
        let _ = writeln!(
            text,
            "  {name} held {} of the answers (meant for {}), {size} labels on average",
            percent(held),
            percent(meant),
        );
        text
    }
}
