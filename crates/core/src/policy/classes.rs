//! How a task of classes is decided: arms, their prior, and what is stated about the answer.

use super::bad;
use crate::error::Error;
use crate::field::Field;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest number of examples whose leave-one-out predictions are exact by default.
const EXACT_UP_TO: usize = 64;

/// The number of folds beyond that.
const FOLDS: usize = 10;

/// How sharply the default policy follows leave-one-out log-losses. These are sums over examples, and
/// errors on the same few examples are far from independent.
const SHARPNESS: f64 = 0.15;

/// The share of a smoothed label that is spread over all labels.
const SMOOTHING: f64 = 0.1;

/// The largest number of arms.
const MOST_ARMS: usize = 100;

/// How a task of classes is decided.
///
/// Candidate numbers of steps are those of the [policy](crate::Policy) that it belongs to.
///
/// | field | default | meaning | range |
/// |---|---|---|---|
/// | `arms` | few-shot `bias`, `readout`, `mlp-up@upper-half`; zero-shot `bias`, `readout` | what may be updated, behind which prompt | at most 100, may be empty |
/// | `loss` | `cross-entropy` | what steps lower | [`ClassLoss`] |
/// | `rule` | `leave-one-out` | what weighs the candidates of an arm | [`ClassRule`] |
/// | `sharpness` | 0.15 | how sharply weights follow leave-one-out log-losses | over 0 |
/// | `leave_alone` | 0.1 | prior weight of leaving in-context learning alone | over 0, under 1 |
/// | `step_scales` | those of the policy: `step_scale` alone | step sizes as fractions of the largest stable one | over 0, under 1 |
/// | `confidence` | 0.9 | how often the set of labels is to hold the answer | over 0, under 1 |
/// | `folds` | exact up to 64 examples, then 10 folds | how examples are held out | [`Folds`] |
///
/// In JSON, omitted fields have these defaults.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Base, Error, Policy};
///
/// let classes = Policy::default().classes;
/// assert_eq!((classes.arms.len(), classes.arms[2].blocks.as_str()), (5, "mlp-up@upper-half"));
/// let policy = Policy::from_json(r#"{"classes": {"arms": [{"base": "zero-shot", "blocks": "bias"}]}}"#)?;
/// assert_eq!((policy.classes.arms[0].base, policy.classes.confidence), (Base::ZeroShot, 0.9));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassPolicy {
    /// What may be updated, behind which prompt.
    pub arms: Vec<ClassArm>,
    /// What steps lower.
    pub loss: ClassLoss,
    /// What weighs the candidates of an arm among themselves.
    pub rule: ClassRule,
    /// `β`: how sharply weights follow leave-one-out log-losses.
    pub sharpness: f64,
    /// Prior weight of leaving in-context learning alone; the rest is spread over the arms.
    pub leave_alone: f64,
    /// Step sizes as fractions of the largest stable one; none for the policy's own.
    pub step_scales: Vec<f64>,
    /// `1 − α`: how often the set of labels is to hold the answer.
    pub confidence: f64,
    /// How examples are held out.
    pub folds: Folds,
}

impl Default for ClassPolicy {
    fn default() -> Self {
        let arm = |base, blocks: &str| ClassArm {
            base,
            blocks: blocks.to_owned(),
            depth: ClassDepth::All,
        };
        Self {
            arms: vec![
                arm(Base::FewShot, "bias"),
                arm(Base::FewShot, "readout"),
                arm(Base::FewShot, "mlp-up@upper-half"),
                arm(Base::ZeroShot, "bias"),
                arm(Base::ZeroShot, "readout"),
            ],
            loss: ClassLoss::CrossEntropy,
            rule: ClassRule::LeaveOneOut,
            sharpness: SHARPNESS,
            leave_alone: 0.1,
            step_scales: Vec::new(),
            confidence: 0.9,
            folds: Folds::default(),
        }
    }
}

/// The prompt that a prediction starts from.
///
/// # Examples
///
/// ```
/// use fewstep_core::Base;
///
/// assert_eq!(Base::FewShot.to_string(), "few-shot");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The prompt shows examples: in-context learning.
    FewShot,
    /// The prompt shows none.
    ZeroShot,
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FewShot => "few-shot",
            Self::ZeroShot => "zero-shot",
        })
    }
}

/// A base prompt with the blocks that may be updated behind it.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Base, ClassArm, ClassDepth};
///
/// let arm = ClassArm { base: Base::FewShot, blocks: "bias".to_owned(), depth: ClassDepth::All };
/// assert_eq!(arm.to_string(), "few-shot bias");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassArm {
    /// The prompt that it starts from.
    pub base: Base,
    /// Its blocks, such as `bias` or `mlp-up@upper-half,readout`: parsed once there is a model.
    pub blocks: String,
    /// How many of its last layers are updated.
    #[serde(default)]
    pub depth: ClassDepth,
}

impl std::fmt::Display for ClassArm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.base, self.blocks)
    }
}

/// What weighs the candidates of an arm, its numbers of steps, depths and step sizes, among themselves.
///
/// Arms are weighed against each other and against leaving in-context learning alone by leave-one-out
/// log-losses in either case.
///
/// # Examples
///
/// ```
/// use fewstep_core::{ClassRule, Error, Policy};
///
/// let policy = Policy::from_json(r#"{"classes": {"rule": "laplace"}}"#)?;
/// assert_eq!(policy.classes.rule, ClassRule::Laplace);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassRule {
    /// Leave-one-out log-losses.
    #[default]
    LeaveOneOut,
    /// The evidence of the answers by Laplace's approximation, under the prior of variance `ρT` that
    /// `T` steps of size `ρ` stand for. Evidence sees all answers, so held-out probabilities are a little
    /// optimistic. For cross-entropy, and up to 2000 outputs: it decomposes the
    /// whole kernel.
    Laplace,
}

/// How many of an arm's last layers are updated; blocks that belong to no layer always are.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::ClassDepth::default(), fewstep_core::ClassDepth::All);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassDepth {
    /// All of them, together.
    #[default]
    All,
    /// The last 1, 2, 4, … and all: each is a candidate of the pool.
    Pooled,
    /// Of these numbers the one whose average has the smallest leave-one-out log-loss.
    Best,
}

/// What steps lower, in the linearised model of the label scores.
///
/// | name | loss of an example | a step follows |
/// |---|---|---|
/// | `cross-entropy` | `−log softmax(z)_y` | `Y − softmax(z)` |
/// | `squared` | `½ ‖Y − p − J(z − z₀)‖²`, with probabilities `p` linearised at `z₀`, `J = diag(p) − p pᵀ` | `J (Y − p − J(z − z₀))` |
/// | `aitchison` | `½ ‖clr(Ỹ) − clr(softmax(z))‖²`, with `Ỹ` the label smoothed by `smoothing` (0.1) | `clr(Ỹ) − clr(softmax(z))` |
///
/// In JSON an object whose `rule` is the name, or the name alone.
///
/// # Examples
///
/// ```
/// use fewstep_core::{ClassLoss, Error, Policy};
///
/// let policy = Policy::from_json(r#"{"classes": {"loss": "aitchison"}}"#)?;
/// assert_eq!(policy.classes.loss, ClassLoss::Aitchison { smoothing: 0.1 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", from = "LossWritten")]
pub enum ClassLoss {
    /// The negative log-probability of the answer.
    CrossEntropy,
    /// The squared error of probabilities that are linear in the update, as in the paper.
    Squared,
    /// The squared error of centred log-ratios, against smoothed labels.
    Aitchison {
        /// The share of a label that is spread over all labels.
        smoothing: f64,
    },
}

/// A loss as it is written: an object, or a name.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a loss, cross-entropy, squared or aitchison, such as \"squared\" or \
                 {\"rule\": \"aitchison\", \"smoothing\": 0.1}"
)]
enum LossWritten {
    Name(LossName),
    Rule(LossRule),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LossName {
    CrossEntropy,
    Squared,
    Aitchison,
}

#[derive(Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
enum LossRule {
    CrossEntropy {},
    Squared {},
    Aitchison {
        #[serde(default = "smoothing")]
        smoothing: f64,
    },
}

fn smoothing() -> f64 {
    SMOOTHING
}

impl From<LossWritten> for ClassLoss {
    fn from(written: LossWritten) -> Self {
        match written {
            LossWritten::Name(LossName::CrossEntropy)
            | LossWritten::Rule(LossRule::CrossEntropy {}) => Self::CrossEntropy,
            LossWritten::Name(LossName::Squared) | LossWritten::Rule(LossRule::Squared {}) => {
                Self::Squared
            }
            LossWritten::Name(LossName::Aitchison) => Self::Aitchison { smoothing: SMOOTHING },
            LossWritten::Rule(LossRule::Aitchison { smoothing }) => {
                Self::Aitchison { smoothing }
            }
        }
    }
}

/// How examples are held out: one by one where they are few, else in folds.
///
/// A fold holds about the same number of examples of every label; the seed says which.
///
/// # Examples
///
/// ```
/// use fewstep_core::Folds;
///
/// let folds = Folds { exact_up_to: 64, count: 10, seed: 0 };
/// assert_eq!((folds, folds.of(64), folds.of(65)), (Folds::default(), 64, 10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Folds {
    /// Up to this number of examples each is held out alone.
    pub exact_up_to: usize,
    /// The number of folds beyond.
    pub count: usize,
    /// Seed of the draw.
    pub seed: u64,
}

impl Default for Folds {
    fn default() -> Self {
        Self { exact_up_to: EXACT_UP_TO, count: FOLDS, seed: 0 }
    }
}

impl Folds {
    /// The number of folds for a number of examples: one per example where each is held out alone.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Folds::default().of(16), 16);
    /// ```
    #[must_use]
    pub fn of(self, examples: usize) -> usize {
        if examples <= self.exact_up_to { examples } else { self.count.min(examples) }
    }
}

impl ClassPolicy {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.arms.len() > MOST_ARMS {
            return Err(bad(Field::ARMS, self.arms.len(), "at most 100 arms"));
        }
        if let Some(arm) = self.arms.iter().find(|arm| arm.blocks.trim().is_empty()) {
            let allowed = "blocks such as bias or mlp-up@upper-half in every arm";
            return Err(bad(Field::ARMS, format!("\"{arm}\""), allowed));
        }
        if !(self.sharpness > 0.0 && self.sharpness.is_finite()) {
            return Err(bad(Field::SHARPNESS, self.sharpness, "finite and over 0"));
        }
        super::check_open(Field::LEAVE_ALONE, self.leave_alone)?;
        super::check_open(Field::CONFIDENCE, self.confidence)?;
        for &scale in &self.step_scales {
            super::check_open(Field::STEP_SCALES, scale)?;
        }
        if let ClassLoss::Aitchison { smoothing } = self.loss {
            super::check_open(Field::SMOOTHING, smoothing)?;
        }
        if self.rule == ClassRule::Laplace && self.loss != ClassLoss::CrossEntropy {
            return Err(bad(
                Field::RULE,
                "laplace",
                "leave-one-out unless the loss is cross-entropy",
            ));
        }
        if self.folds.count < 2 {
            return Err(bad(Field::FOLDS, self.folds.count, "at least 2 folds"));
        }
        Ok(())
    }

    /// The same with another confidence.
    pub(super) fn with(&self, confidence: Option<f64>) -> Self {
        Self { confidence: confidence.unwrap_or(self.confidence), ..self.clone() }
    }

    /// The fractions of the largest stable step that are candidates.
    pub(crate) fn scales<'a>(&'a self, own: &'a f64) -> &'a [f64] {
        if self.step_scales.is_empty() { std::slice::from_ref(own) } else { &self.step_scales }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Overrides, Policy};

    fn read(classes: &str) -> Result<Policy, Error> {
        Policy::from_json(&format!(r#"{{"classes": {classes}}}"#))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let arm = |base, depth| ClassArm { base, blocks: "readout,scale".to_owned(), depth };
        for loss in [
            ClassLoss::CrossEntropy,
            ClassLoss::Squared,
            ClassLoss::Aitchison { smoothing: 0.3 },
        ] {
            for depth in [ClassDepth::All, ClassDepth::Pooled, ClassDepth::Best] {
                let classes = ClassPolicy {
                    arms: vec![arm(Base::ZeroShot, depth), arm(Base::FewShot, depth)],
                    loss,
                    step_scales: vec![0.2, 0.9],
                    folds: Folds { exact_up_to: 7, count: 3, seed: u64::MAX },
                    ..ClassPolicy::default()
                };
                let policy = Policy { classes, ..Policy::paper() };
                let again = Policy::from_json(&policy.to_json()).unwrap();
                assert_eq!(again.classes, policy.classes);
                assert_eq!(again.differences(&Policy::paper()), ["classes"]);
            }
        }
    }

    #[test]
    fn what_is_omitted_is_the_default() {
        assert_eq!(Policy::from_json("{}").unwrap(), Policy::default());
        assert_eq!(Policy::paper().classes, ClassPolicy::default());
        let some = read(r#"{"sharpness": 1, "folds": {"count": 5}}"#).unwrap().classes;
        let folds = Folds { count: 5, ..Folds::default() };
        assert_eq!(some, ClassPolicy { sharpness: 1.0, folds, ..ClassPolicy::default() });
        for (json, expected) in [
            (r#""cross-entropy""#, ClassLoss::CrossEntropy),
            (r#"{"rule": "squared"}"#, ClassLoss::Squared),
            (r#""aitchison""#, ClassLoss::Aitchison { smoothing: 0.1 }),
            (r#"{"rule": "aitchison"}"#, ClassLoss::Aitchison { smoothing: 0.1 }),
        ] {
            let found = read(&format!(r#"{{"loss": {json}}}"#)).unwrap().classes.loss;
            assert_eq!(found, expected, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_its_field() {
        for (json, field, found) in [
            (r#"{"sharpness": 0}"#, "sharpness", "0"),
            (r#"{"leave_alone": 1}"#, "leave_alone", "1"),
            (r#"{"leave_alone": 0}"#, "leave_alone", "0"),
            (r#"{"confidence": 1.5}"#, "confidence", "1.5"),
            (r#"{"step_scales": [0.5, 1]}"#, "step_scales", "1"),
            (r#"{"folds": {"count": 1}}"#, "folds", "1"),
            (r#"{"rule": "laplace", "loss": "squared"}"#, "rule", "laplace"),
            (r#"{"loss": {"rule": "aitchison", "smoothing": 0}}"#, "smoothing", "0"),
            (r#"{"arms": [{"base": "few-shot", "blocks": " "}]}"#, "arms", "\"few-shot  \""),
        ] {
            match read(json) {
                Err(Error::Policy { field: at, found: said, .. }) => {
                    assert_eq!((at.name(), said.as_str()), (field, found), "{json}");
                }
                other => panic!("{json}: {other:?}"),
            }
        }
        let arms = vec![ClassPolicy::default().arms[0].clone(); 101];
        let many = ClassPolicy { arms, ..ClassPolicy::default() };
        assert_eq!(many.check().unwrap_err().field(), Some(Field::ARMS));
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        for (json, said) in [
            (r#"{"arm": []}"#, "unknown field `arm`"),
            (r#"{"arms": [{"blocks": "bias"}]}"#, "missing field `base`"),
            (r#"{"arms": [{"base": "one-shot", "blocks": "bias"}]}"#, "few-shot"),
            (r#"{"arms": [{"base": "few-shot", "blocks": "bias", "seed": 1}]}"#, "seed"),
            (r#"{"loss": "absolute"}"#, "expected a loss"),
            (r#"{"loss": {"rule": "squared", "smoothing": 0.1}}"#, "expected a loss"),
            (r#"{"folds": {"number": 3}}"#, "unknown field `number`"),
            (r#"{"arms": [{"base": "few-shot", "blocks": "bias", "depth": "deep"}]}"#, "deep"),
        ] {
            match read(json) {
                Err(Error::PolicyJson { problem, .. }) => {
                    assert!(problem.contains(said), "{json}: {problem}");
                }
                other => panic!("{json}: {other:?}"),
            }
        }
    }

    #[test]
    fn confidence_is_all_that_an_override_changes() {
        let overrides = Overrides { confidence: Some(0.8), ..Overrides::default() };
        let policy = overrides.of(&Policy::default()).unwrap();
        let expected = ClassPolicy { confidence: 0.8, ..ClassPolicy::default() };
        assert_eq!(policy.classes, expected);
        let refused = Overrides { confidence: Some(1.0), ..Overrides::default() };
        let refused = refused.of(&Policy::default()).unwrap_err();
        assert_eq!(refused.with_flags(), "--confidence is 1; it must be over 0 and under 1");
    }

    #[test]
    fn the_step_scale_of_the_policy_is_the_only_one_unless_others_are_named() {
        let mut classes = ClassPolicy::default();
        assert_eq!(classes.scales(&0.3), [0.3]);
        classes.step_scales = vec![0.1, 0.2];
        assert_eq!(classes.scales(&0.3), [0.1, 0.2]);
    }
}
