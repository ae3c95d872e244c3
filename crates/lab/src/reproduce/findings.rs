//! From numbers to words: how estimates are written, and what an interval says about a claim.

use super::document::{Claim, Verdict};
use super::statistics::Paired;
use crate::assessment::Mean;

/// A mean with its standard error.
pub(crate) fn estimate(mean: Mean) -> String {
    format!("{:.4} ± {:.4}", mean.mean, mean.error)
}

/// An interval with its mean.
pub(crate) fn interval(paired: &Paired) -> String {
    let Paired { difference, low, high, .. } = paired;
    format!("{:+.5} [{low:+.5}, {high:+.5}]", difference.mean)
}

/// A p-value; those at the end of what resampling can say are written as bounds.
pub(crate) fn p_value(paired: &Paired) -> String {
    let least = 1.0 / (super::statistics::PERMUTATIONS + 1) as f64;
    if paired.p_value <= 1.5 * least {
        "≤ 5e-5".to_owned()
    } else if paired.p_value < 0.001 {
        format!("{:.0e}", paired.p_value)
    } else {
        format!("{:.3}", paired.p_value)
    }
}

/// The largest p-value that decides.
const SIGNIFICANT: f64 = 0.05;

/// A claim that something is positive: it held if the whole interval is, it did not if none of
/// the interval is, and in both cases chance alone must be unlikely. The second condition is
/// for few tasks, whose resampled intervals are too narrow.
pub(crate) fn verdict(paired: &Paired) -> Verdict {
    match paired {
        Paired { p_value, .. } if *p_value >= SIGNIFICANT => Verdict::Undecided,
        Paired { low, .. } if *low > 0.0 => Verdict::Held,
        Paired { high, .. } if *high < 0.0 => Verdict::NotHeld,
        _ => Verdict::Undecided,
    }
}

/// A verdict in one word or two.
pub(crate) fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not held",
        Verdict::Undecided => "undecided",
    }
}

/// A claim about several cases: held if it held in all, not held if it failed in one.
pub(crate) fn together(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let mut all = Verdict::Held;
    let mut none = true;
    for verdict in verdicts {
        none = false;
        all = match (all, verdict) {
            (_, Verdict::NotHeld) | (Verdict::NotHeld, _) => Verdict::NotHeld,
            (Verdict::Held, Verdict::Held) => Verdict::Held,
            _ => Verdict::Undecided,
        };
    }
    if none { Verdict::Undecided } else { all }
}

/// A claim that something is positive.
pub(crate) fn claim(statement: &str, paper: &str, paired: &Paired) -> Claim {
    Claim {
        statement: statement.to_owned(),
        paper: paper.to_owned(),
        measured: format!("{}, p {}", interval(paired), p_value(paired)),
        verdict: verdict(paired),
    }
}

/// A list of texts.
pub(crate) fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(low: f64, high: f64, p_value: f64) -> Paired {
        let difference = Mean { mean: f64::midpoint(low, high), error: 0.1 };
        Paired { difference, low, high, p_value }
    }

    #[test]
    fn an_interval_decides_only_if_it_leaves_zero_out_and_chance_too() {
        assert_eq!(verdict(&paired(0.1, 0.3, 0.01)), Verdict::Held);
        assert_eq!(verdict(&paired(-0.3, -0.1, 0.01)), Verdict::NotHeld);
        assert_eq!(verdict(&paired(-0.1, 0.3, 0.01)), Verdict::Undecided);
        assert_eq!(verdict(&paired(0.0, 0.0, 0.01)), Verdict::Undecided);
        // One task alone has an interval of one point, and says nothing.
        assert_eq!(verdict(&Paired::of(&[0.5], 0)), Verdict::Undecided);
        assert_eq!(verdict(&Paired::of(&[-0.5, -0.4, -0.6], 0)), Verdict::Undecided);
        use Verdict::{Held, NotHeld, Undecided};
        assert_eq!(together([Held, Held]), Held);
        assert_eq!(together([Held, Undecided]), Undecided);
        assert_eq!(together([Undecided, NotHeld, Held]), NotHeld);
        assert_eq!(together([]), Undecided);
    }

    #[test]
    fn numbers_are_written_with_their_uncertainty() {
        assert_eq!(estimate(Mean { mean: 0.0719, error: 0.0029 }), "0.0719 ± 0.0029");
        assert_eq!(interval(&paired(-0.5, 1.5, 0.5)), "+0.50000 [-0.50000, +1.50000]");
        assert_eq!(p_value(&paired(0.0, 1.0, 0.5)), "0.500");
        assert_eq!(p_value(&paired(0.0, 1.0, 1.0 / 20_001.0)), "≤ 5e-5");
    }
}
