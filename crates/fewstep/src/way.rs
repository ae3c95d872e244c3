//! What is asked of every prompt: candidate blocks, and the rules that choose among them.
//!
//! In: the shape of a model. Out: a [`Way`], the usual one or the paper's. Blocks and rules belong
//! together: a step size that suits one matrix overshoots in fifty heads.

use crate::error::Error;
use crate::session::LONGEST_HORIZON;
use clap::ValueEnum;
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::{HorizonRule, Rules, Selection};
use fewstep_engine::Config;
use std::str::FromStr;

/// The most candidate numbers of steps.
const MOST_HORIZONS: usize = 10_000;

/// The step size of the usual way, as a fraction of the largest stable one: 64 such steps go as far
/// as 384 of the paper's.
const LARGE_STEP: f64 = 0.6;

/// Candidate numbers of steps that double: a few steps are as likely to be best as many.
const DOUBLING: [u32; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

/// How sharply the usual way follows left-out errors: two fifths of what it would be if they were
/// independent, which errors that are made from the same ten examples are not.
const GENTLE: f64 = 0.2;

/// The odds of the usual way for leaving the model alone, before left-out errors speak. Where there is
/// nothing to learn they decide how much is lost; where there is much they hardly matter.
const EVEN_ODDS: f64 = 1.0;

/// How many of the last layers the paper looks at.
const PAPER_LAYERS: usize = 4;

/// How an update is carried out.
///
/// # Examples
///
/// ```
/// use fewstep::{Dynamics, Way};
///
/// let model = fewstep::builtin()?;
/// assert_eq!(Way::usual(model.config()).dynamics, Dynamics::Linear);
/// assert_eq!(Way::paper(model.config()).dynamics, Dynamics::Steps);
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dynamics {
    /// In the model: gradient steps, or one update for an average of them
    Steps,
    /// As the linear picture says; the model is not run again
    Linear,
}

/// Candidate blocks, what is chosen of them, and how it is carried out.
///
/// # Examples
///
/// ```
/// use fewstep::Way;
///
/// let model = fewstep::builtin()?;
/// assert_eq!(Way::usual(model.config()).blocks, "mlp-up@last3");
/// assert_eq!(Way::paper(model.config()).blocks, "value@last4");
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Candidate blocks, as [`choose_blocks`](fewstep_engine::choose_blocks) reads them.
    pub blocks: String,
    /// What is chosen of them, and how far it is moved.
    pub rules: Rules,
    /// How a decision is carried out.
    pub dynamics: Dynamics,
}

impl Way {
    /// What is done unless something else is asked for: the first MLP matrices of the last layers,
    /// from one to the upper half of all, moved together along an average of up to 64 steps. Errors
    /// on left-out examples say how many layers, and how much each number of steps weighs. Where
    /// labels are few, every label counts the same and large errors count most; where they are many,
    /// large errors count least. Half of the weight is on leaving the model alone until these errors
    /// speak. They are those of the linear picture, and it is the linear picture that answers: no
    /// other form of the update was tried on the examples.
    ///
    /// It was found on development tasks and judged on others, as `fewstep-lab reproduce rules` does.
    #[must_use]
    pub fn usual(config: &Config) -> Self {
        let blocks = format!("mlp-up@last{}", config.layers.div_ceil(2));
        Self { blocks, rules: usual_rules(), dynamics: Dynamics::Linear }
    }

    /// The paper's: all value heads of the last four layers, steps by evidence (App. I), taken in the
    /// model.
    #[must_use]
    pub fn paper(config: &Config) -> Self {
        let blocks = format!("value@last{}", config.layers.min(PAPER_LAYERS));
        Self { blocks, rules: Rules::default(), dynamics: Dynamics::Steps }
    }

    /// Whether its decision looks at the query, so that it may be another one for another query on
    /// the same examples.
    #[must_use]
    pub fn looks_at_query(&self) -> bool {
        let Rules { select, horizon, leave_one_out, .. } = &self.rules;
        matches!(select, Selection::QueryAware | Selection::QueryScore)
            || *horizon == HorizonRule::BayesGap
            || *leave_one_out == Averaging::QueryWeighted
    }
}

/// What a caller says about the decision, each thing if they say it: the flags of the command line
/// under the same names.
///
/// # Examples
///
/// ```
/// use fewstep::{Asked, Way};
///
/// let model = fewstep::builtin()?;
/// assert_eq!(Asked::default().way(model.config()), Way::usual(model.config()));
/// let asked = Asked { step_scale: Some(0.2), ..Asked::default() };
/// let way = asked.way(model.config());
/// assert_eq!((way.blocks.as_str(), way.rules.step_scale), ("value@last4", 0.2));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Candidate blocks, as [`choose_blocks`](fewstep_engine::choose_blocks) reads them.
    pub blocks: Option<String>,
    /// How blocks are chosen among them.
    pub select: Option<Selection>,
    /// How many are chosen.
    pub budget: Option<usize>,
    /// How the number of steps is found.
    pub horizon: Option<HorizonRule>,
    /// Candidate numbers of steps.
    pub horizons: Option<Horizons>,
    /// Step size as a fraction of the largest stable one.
    pub step_scale: Option<f64>,
    /// How a decision is carried out; it says nothing about the decision by itself.
    pub dynamics: Option<Dynamics>,
    /// Seed of the random selection; it says nothing about the decision by itself either.
    pub seed: u64,
}

impl Asked {
    /// The decision that is asked for: the usual one if nothing is said, and else the paper's with
    /// what is said. People try one thing at a time and know the paper; what they get must not
    /// depend on how the usual decision happens to be made.
    #[must_use]
    pub fn way(&self, config: &Config) -> Way {
        let mut way = if self.decides() { Way::paper(config) } else { Way::usual(config) };
        way.blocks = self.blocks.clone().unwrap_or(way.blocks);
        way.dynamics = self.dynamics.unwrap_or(way.dynamics);
        let rules = &mut way.rules;
        rules.horizon = self.horizon.unwrap_or(rules.horizon);
        rules.select = self.select.unwrap_or(rules.select);
        rules.step_scale = self.step_scale.unwrap_or(rules.step_scale);
        if let Some(Horizons(horizons)) = &self.horizons {
            rules.horizons.clone_from(horizons);
        }
        rules.budget = self.budget.or(rules.budget);
        rules.seed = self.seed;
        way
    }

    /// Whether anything says how to decide.
    fn decides(&self) -> bool {
        let Self {
            blocks,
            select,
            budget,
            horizon,
            horizons,
            step_scale,
            dynamics: _,
            seed: _,
        } = self;
        blocks.is_some()
            || select.is_some()
            || budget.is_some()
            || horizon.is_some()
            || horizons.is_some()
            || step_scale.is_some()
    }
}

/// Candidate numbers of steps: ascending, and neither too many nor too large for any machine.
///
/// # Examples
///
/// ```
/// use fewstep::{Error, Horizons};
///
/// assert_eq!("0..3".parse::<Horizons>()?, Horizons::new([0, 1, 2, 3], "")?);
/// assert_eq!("0,1,8".parse::<Horizons>()?.get(), [0, 1, 8]);
/// assert!(matches!("8,1".parse::<Horizons>(), Err(Error::BadHorizons { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizons(Vec<u32>);

impl Horizons {
    /// Some numbers, once they are known to be candidates; `found` is what messages call them. No
    /// more are asked for than may be taken.
    ///
    /// # Errors
    ///
    /// [`Error::BadHorizons`] if they are none.
    pub fn new(horizons: impl IntoIterator<Item = u32>, found: &str) -> Result<Self, Error> {
        let horizons: Vec<u32> = horizons.into_iter().take(MOST_HORIZONS + 1).collect();
        let ascending = horizons.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = horizons.last().is_some_and(|&last| last <= LONGEST_HORIZON);
        if ascending && fits && horizons.len() <= MOST_HORIZONS {
            Ok(Self(horizons))
        } else {
            Err(bad(found))
        }
    }

    /// The numbers.
    #[must_use]
    pub fn get(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for Horizons {
    type Err = Error;

    /// `A..B`, both included, or a list.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| bad(text));
        match text.split_once("..") {
            Some((first, last)) => Self::new(number(first)?..=number(last)?, text),
            None => {
                Self::new(text.split(',').map(number).collect::<Result<Vec<_>, _>>()?, text)
            }
        }
    }
}

fn bad(found: &str) -> Error {
    let (largest, most) = (LONGEST_HORIZON, MOST_HORIZONS);
    Error::BadHorizons { found: found.to_owned(), largest, most }
}

/// The rules of the usual way, which are the same for every model.
#[must_use]
pub fn usual_rules() -> Rules {
    Rules {
        select: Selection::Depth,
        horizon: HorizonRule::LeaveOneOutAverage,
        horizons: DOUBLING.to_vec(),
        step_scale: LARGE_STEP,
        leave_one_out: Averaging::ByLabel,
        inverse_temperature: GENTLE,
        leave_alone_odds: EVEN_ODDS,
        ..Rules::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other decisions than the usual one are carried out in the model unless somebody says otherwise,
    /// and how one is carried out says nothing about what it is.
    #[test]
    fn dynamics_are_those_of_the_decision_unless_they_are_said() {
        let config = crate::builtin().unwrap().config().clone();
        let said = |dynamics| Asked { dynamics, ..Asked::default() };
        let usual = Way::usual(&config);
        for dynamics in [Dynamics::Steps, Dynamics::Linear] {
            let way = said(Some(dynamics)).way(&config);
            assert_eq!(way, Way { dynamics, ..usual.clone() });
            let asked = Asked { budget: Some(2), ..said(Some(dynamics)) };
            assert_eq!(asked.way(&config).dynamics, dynamics);
        }
        let asked = Asked { step_scale: Some(0.2), ..Asked::default() };
        assert_eq!(asked.way(&config).dynamics, Dynamics::Steps);
    }

    #[test]
    fn horizons_are_ranges_with_both_ends_or_lists() {
        let read = |text: &str| text.parse::<Horizons>().map(|horizons| horizons.0);
        assert_eq!(read("0..3").unwrap(), [0, 1, 2, 3]);
        assert_eq!(read("0, 1,8").unwrap(), [0, 1, 8]);
        assert_eq!(read("5").unwrap(), [5]);
        assert_eq!(read("0..9999").unwrap().len(), MOST_HORIZONS);
        for text in
            ["", "3..1", "0,0", "2,1", "a", "0..10000", "0..4294967295", "100001", "-1..2"]
        {
            let found = text.to_owned();
            let refused =
                Error::BadHorizons { found, largest: LONGEST_HORIZON, most: MOST_HORIZONS };
            assert_eq!(read(text), Err(refused));
        }
    }
}
