//! The rules that are compared: from what was seen to weights over the numbers of steps.
//!
//! A number of steps is a weight of one; everything between, averages and shrinkage among it, is
//! weights too. So every rule is judged on the same stored paths, by real steps and by linear ones.

use super::case::Seen;
use crate::assessment::Mean;
use crate::error::Error;
use fewstep_core::best_horizon;
use fewstep_core::gibbs::GibbsPosterior;
use fewstep_core::leave_one_out::Averaging;
use std::fmt;

/// How weights are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// So many steps, whatever was seen.
    Fixed(u32),
    /// The best evidence, noise variance profiled, up to so many steps.
    Evidence(u32),
    /// The best evidence, noise variance `‖r‖²/n`.
    EvidenceFixed,
    /// All numbers of steps, weighted by their evidence to some power.
    EvidenceAverage(f64),
    /// The smallest plug-in Bayes gap at the query.
    BayesGap,
    /// The smallest leave-one-out risk, if it wins by so many standard errors.
    LeaveOneOut(Averaging, f64),
    /// All numbers of steps, weighted by their leave-one-out likelihood to some power.
    LeaveOneOutAverage(Averaging, f64),
    /// The posterior mean, its ratio of noise to signal fitted by evidence.
    Filter,
    /// The posterior mean, its ratio of noise to signal by the leave-one-out risk.
    FilterLeaveOneOut,
    /// Posterior means of all ratios, weighted by their leave-one-out likelihood to some power.
    FilterAverage(f64),
    /// A number of steps and a share of its correction, both by the leave-one-out risk.
    Shrunk,
    /// The mean of the averages by evidence and by leave-one-out likelihood.
    Both,
    /// All numbers of steps, weighted by their leave-one-out likelihood and by what prompts before
    /// this one were given on average.
    Pooled,
}

/// What the prompts before this one were given: weights over the numbers of steps, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    prompts: usize,
    given: Vec<f64>,
}

/// How many prompts even weights count for, beside those that were seen.
const EVEN: f64 = 10.0;

/// Mean numbers of steps of the posterior means that are tried: a posterior mean is an average
/// over numbers of steps that become rarer at a constant rate (Prop. G.6).
const MEAN_STEPS: [f64; 12] =
    [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

impl Rule {
    /// Weights for a prompt that comes after others.
    pub(crate) fn weights_after(self, past: &mut Past, seen: &Seen) -> Result<Vec<f64>, Error> {
        let mut weights = self.weights(seen)?;
        if self == Self::Pooled {
            past.given.resize(weights.len(), 0.0);
            let even = EVEN / weights.len() as f64;
            for (weight, given) in weights.iter_mut().zip(&past.given) {
                *weight *= (even + given) / (EVEN + past.prompts as f64);
            }
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= total);
            add(&mut past.given, 1.0, &weights);
            past.prompts += 1;
        }
        Ok(weights)
    }

    /// Weights over the numbers of steps, which add up to one.
    pub(crate) fn weights(self, seen: &Seen) -> Result<Vec<f64>, Error> {
        let n = seen.examples();
        let point = |horizon: u32| seen.point(horizon);
        Ok(match self {
            Self::Fixed(horizon) => point(horizon),
            Self::Evidence(longest) => {
                let few = seen.horizons.len().min(longest as usize + 1);
                point(best_horizon(&seen.horizons[..few], &seen.evidence[..few])?.horizon)
            }
            Self::EvidenceFixed => {
                point(best_horizon(&seen.horizons, &seen.evidence_fixed)?.horizon)
            }
            Self::EvidenceAverage(power) => {
                GibbsPosterior::new(&seen.horizons, &seen.evidence, n, power)?
                    .weights()
                    .to_vec()
            }
            Self::BayesGap => match seen.block.query() {
                Some(query) => {
                    let found = seen.signal.bayes_gap_horizon(
                        &seen.spectrum,
                        &query.coupling,
                        seen.step,
                        &seen.horizons,
                    )?;
                    point(found.1.horizon)
                }
                None => point(0),
            },
            Self::LeaveOneOut(averaging, gate) => {
                point(seen.left_out.choose(averaging, gate)?.horizon)
            }
            Self::LeaveOneOutAverage(averaging, power) => {
                likelihoods(&seen.left_out.risk(averaging)?, n, power)
            }
            Self::Pooled => Self::LeaveOneOutAverage(Averaging::Plain, 1.0).weights(seen)?,
            Self::Filter => {
                let ratio = seen.signal.noise_to_signal();
                // Mean steps m of a filter with ratio λ_★ and step ρ: m = 1/(ρ λ_★).
                seen.geometric(1.0 / (seen.step.get() * ratio))
            }
            Self::FilterLeaveOneOut => {
                let (filters, risks) = seen.filters();
                let best = (0..risks.len()).min_by(|&a, &b| risks[a].total_cmp(&risks[b]));
                filters[best.unwrap_or(0)].clone()
            }
            Self::FilterAverage(power) => {
                let (filters, risks) = seen.filters();
                let mut average = vec![0.0; seen.horizons.len()];
                for (share, filter) in likelihoods(&risks, n, power).iter().zip(&filters) {
                    add(&mut average, *share, filter);
                }
                average
            }
            Self::Shrunk => seen.shrunk(),
            Self::Both => {
                let mut average = Self::EvidenceAverage(1.0).weights(seen)?;
                average.iter_mut().for_each(|weight| *weight /= 2.0);
                let other = Self::LeaveOneOutAverage(Averaging::Plain, 1.0).weights(seen)?;
                add(&mut average, 0.5, &other);
                average
            }
        })
    }
}

impl Seen {
    /// So many steps, or as many as there are.
    fn point(&self, horizon: u32) -> Vec<f64> {
        let mut weights = vec![0.0; self.horizons.len()];
        let last = weights.len() - 1;
        weights[last.min(horizon as usize)] = 1.0;
        weights
    }

    /// Weights that fall by a constant factor, with so many steps in the mean; what is beyond the
    /// last number of steps goes there.
    fn geometric(&self, mean: f64) -> Vec<f64> {
        let count = self.horizons.len();
        if !mean.is_finite() {
            return self.point(u32::MAX);
        }
        let kept = mean / (1.0 + mean);
        let mut weights: Vec<f64> = self
            .horizons
            .iter()
            .map(|&horizon| (1.0 - kept) * kept.powf(f64::from(horizon)))
            .collect();
        weights[count - 1] = kept.powf(f64::from(self.horizons[count - 1]));
        weights
    }

    /// Posterior means with the numbers of steps that are tried, and their leave-one-out risks.
    fn filters(&self) -> ([Vec<f64>; 12], [f64; 12]) {
        let filters = MEAN_STEPS.map(|mean| self.geometric(mean));
        let risks = filters.each_ref().map(|filter| mean(&self.left_out_errors(filter)));
        (filters, risks)
    }

    /// The number of steps and the share of its correction that predict left-out examples best.
    fn shrunk(&self) -> Vec<f64> {
        let residuals = self.geometry.residuals();
        let mut best = (f64::INFINITY, 0, 0.0);
        for horizon in 0..self.horizons.len() {
            let errors = self.left_out.errors().row(horizon);
            let predicted = || residuals.iter().zip(errors).map(|(r, e)| (r, r - e));
            let along: f64 = predicted().map(|(r, p)| r * p).sum();
            let length: f64 = predicted().map(|(_, p)| p * p).sum();
            let share = if length > 0.0 { (along / length).clamp(0.0, 1.0) } else { 0.0 };
            let left: f64 = predicted().map(|(r, p)| (r - share * p).powi(2)).sum();
            if left < best.0 {
                best = (left, horizon, share);
            }
        }
        let mut weights = self.point(0);
        weights[0] -= best.2;
        weights[best.1] += best.2;
        weights
    }
}

/// Weights by the likelihood of `n` errors with these mean squares, at the best variance each.
fn likelihoods(risks: &[f64], n: usize, power: f64) -> Vec<f64> {
    let least = risks.iter().copied().fold(f64::INFINITY, f64::min);
    if least == 0.0 {
        let zeros = risks.iter().filter(|&&risk| risk == 0.0).count() as f64;
        return risks.iter().map(|&risk| if risk == 0.0 { 1.0 / zeros } else { 0.0 }).collect();
    }
    let weight = |&risk: &f64| (risk / least).powf(-power * n as f64 / 2.0);
    let weights: Vec<f64> = risks.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

fn add(total: &mut [f64], share: f64, weights: &[f64]) {
    for (total, weight) in total.iter_mut().zip(weights) {
        *total += share * weight;
    }
}

fn mean(values: &[f64]) -> f64 {
    Mean::of(values).mean
}

/// Every rule that was tried on the tasks for development.
pub(crate) const TRIED: [Rule; 28] = [
    Rule::Fixed(0),
    Rule::Fixed(8),
    Rule::Fixed(30),
    Rule::Fixed(100),
    Rule::Evidence(30),
    Rule::Evidence(u32::MAX),
    Rule::EvidenceFixed,
    Rule::EvidenceAverage(0.25),
    Rule::EvidenceAverage(1.0),
    Rule::BayesGap,
    Rule::LeaveOneOut(Averaging::Plain, 0.0),
    Rule::LeaveOneOut(Averaging::Trimmed, 0.0),
    Rule::LeaveOneOut(Averaging::Median, 0.0),
    Rule::LeaveOneOut(Averaging::QueryWeighted, 0.0),
    Rule::LeaveOneOut(Averaging::Plain, 1.0),
    Rule::LeaveOneOutAverage(Averaging::Plain, 0.25),
    Rule::LeaveOneOutAverage(Averaging::Plain, 0.5),
    Rule::LeaveOneOutAverage(Averaging::Plain, 1.0),
    Rule::LeaveOneOutAverage(Averaging::Trimmed, 0.5),
    Rule::LeaveOneOutAverage(Averaging::Trimmed, 1.0),
    Rule::LeaveOneOutAverage(Averaging::ByLabel, 0.4),
    Rule::Filter,
    Rule::FilterLeaveOneOut,
    Rule::FilterAverage(0.5),
    Rule::FilterAverage(1.0),
    Rule::Shrunk,
    Rule::Both,
    Rule::Pooled,
];

/// The rules that are judged.
pub(crate) const FINALISTS: [Rule; 4] = [
    Rule::Fixed(0),
    Rule::Fixed(8),
    Rule::Evidence(30),
    Rule::LeaveOneOutAverage(Averaging::Plain, 1.0),
];

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let averaging = |averaging: Averaging| match averaging {
            Averaging::Plain => "plain",
            Averaging::Trimmed => "trimmed",
            Averaging::Median => "median",
            Averaging::Balanced => "balanced",
            Averaging::QueryWeighted => "weighted by the query",
            Averaging::ByLabel => "by label",
        };
        match *self {
            Self::Fixed(0) => write!(formatter, "no adaptation"),
            Self::Fixed(horizon) => write!(formatter, "fixed T = {horizon}"),
            Self::Evidence(u32::MAX) => write!(formatter, "evidence, all T"),
            Self::Evidence(longest) => {
                write!(formatter, "evidence, T ≤ {longest} (the paper's)")
            }
            Self::EvidenceFixed => write!(formatter, "evidence, fixed σ"),
            Self::EvidenceAverage(power) => {
                write!(formatter, "average by evidence, power {power}")
            }
            Self::BayesGap => write!(formatter, "query Bayes gap"),
            Self::LeaveOneOut(kind, 0.0) => {
                write!(formatter, "leave-one-out, {}", averaging(kind))
            }
            Self::LeaveOneOut(kind, gate) => {
                write!(formatter, "leave-one-out, {}, gate {gate}", averaging(kind))
            }
            Self::LeaveOneOutAverage(kind, power) => {
                let kind = averaging(kind);
                write!(formatter, "average by leave-one-out, {kind}, power {power}")
            }
            Self::Filter => write!(formatter, "Bayes filter, fitted"),
            Self::FilterLeaveOneOut => write!(formatter, "Bayes filter by leave-one-out"),
            Self::FilterAverage(power) => {
                write!(formatter, "average of Bayes filters, power {power}")
            }
            Self::Shrunk => write!(formatter, "leave-one-out T and share"),
            Self::Both => write!(formatter, "mean of both averages"),
            Self::Pooled => write!(formatter, "average by leave-one-out, pooled over prompts"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::case;
    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_weights_that_add_up_to_one() {
        let case = case(0.3, 0.1, 40);
        let seen = case.seen.as_ref().unwrap();
        let mut names = vec![];
        for rule in TRIED {
            let weights = rule.weights(seen).unwrap();
            assert_eq!(weights.len(), 41, "{rule}");
            assert!(weights.iter().all(|&weight| weight >= 0.0), "{rule}: {weights:?}");
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{rule}");
            names.push(rule.to_string());
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), TRIED.len());
        assert!(FINALISTS.iter().all(|rule| TRIED.contains(rule)));
    }

    /// The first prompt decides alone; after many like it, less is needed to go where they went.
    #[test]
    fn prompts_before_this_one_weigh_in() {
        let case = case(0.3, 0.1, 4);
        let seen = case.seen.as_ref().unwrap();
        let alone = Rule::LeaveOneOutAverage(Averaging::Plain, 1.0).weights(seen).unwrap();
        let mut past = Past::default();
        let first = Rule::Pooled.weights_after(&mut past, seen).unwrap();
        assert!(alone.iter().zip(&first).all(|(a, b)| (a - b).abs() < 1e-12));
        // Its second look counts even weights ten times and itself once.
        let second = Rule::Pooled.weights_after(&mut past, seen).unwrap();
        let prior: Vec<f64> = first.iter().map(|given| (2.0 + given) / 11.0).collect();
        let total: f64 = prior.iter().zip(&alone).map(|(p, a)| p * a).sum();
        for ((p, a), found) in prior.iter().zip(&alone).zip(&second) {
            assert!((p * a / total - found).abs() < 1e-12);
        }
        assert_ne!(first, second);
        let other = Rule::Fixed(2).weights_after(&mut past, seen).unwrap();
        assert_eq!((other[2], past.prompts), (1.0, 2));
    }

    /// Rules of the tool, asked for by name, choose the same.
    #[test]
    fn rules_that_the_tool_has_decide_as_the_tool_does() {
        use fewstep_core::{HorizonRule, Rules, decide};
        let case = case(0.3, 0.1, 30);
        let seen = case.seen.as_ref().unwrap();
        for (rule, name) in [
            (Rule::Evidence(30), HorizonRule::Evidence),
            (Rule::EvidenceFixed, HorizonRule::EvidenceFixed),
            (Rule::BayesGap, HorizonRule::BayesGap),
            (Rule::LeaveOneOut(Averaging::Trimmed, 0.0), HorizonRule::LeaveOneOut),
        ] {
            let settings = Rules { horizon: name, ..Rules::default() };
            let expected = decide(&seen.geometry, &settings).unwrap().how_far.horizon;
            let found = rule.weights(seen).unwrap();
            assert!((found[expected as usize] - 1.0).abs() < 1e-12, "{rule}: {expected}");
        }
        let settings = Rules { horizon: HorizonRule::Gibbs, ..Rules::default() };
        let expected = decide(&seen.geometry, &settings).unwrap().how_far.posterior;
        let found = Rule::EvidenceAverage(1.0).weights(seen).unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    /// Prop. G.6: numbers of steps that become rarer at a constant rate are a posterior mean.
    #[test]
    fn averages_at_a_constant_rate_filter_as_the_posterior_mean_does() {
        let case = case(0.3, 0.1, 4000);
        let seen = case.seen.as_ref().unwrap();
        let (step, mean) = (seen.step.get(), 20.0);
        let weights = seen.geometric(mean);
        for &eigenvalue in seen.spectrum.eigenvalues() {
            let left = weights.iter().zip(&seen.horizons);
            let left: f64 =
                left.map(|(w, &t)| w * (1.0 - step * eigenvalue).powf(f64::from(t))).sum();
            let ratio = 1.0 / (step * mean);
            let expected = ratio / (eigenvalue + ratio);
            assert!((left - expected).abs() < 1e-9, "{left} {expected}");
        }
        assert!((seen.geometric(f64::INFINITY)[4000] - 1.0).abs() < 1e-12);
        assert!((seen.geometric(0.0)[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn likelihoods_follow_risks() {
        // Four errors with a mean square twice as large are 2^(4/2) times less likely.
        let weights = likelihoods(&[1.0, 2.0], 4, 1.0);
        assert!((weights[0] - 0.8).abs() < 1e-12);
        assert!((likelihoods(&[1.0, 2.0], 4, 0.5)[0] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(likelihoods(&[0.0, 2.0, 0.0], 4, 1.0), [0.5, 0.0, 0.5]);
    }

    /// The share that a number of steps should have is that of a line through the origin.
    #[test]
    fn shrinkage_is_the_best_of_all_steps_and_shares() {
        let case = case(0.3, 0.1, 40);
        let seen = case.seen.as_ref().unwrap();
        let risk = |weights: &[f64]| mean(&seen.left_out_errors(weights));
        let found = risk(&seen.shrunk());
        for horizon in 0..=40_u32 {
            for share in (0..=20).map(|share| f64::from(share) / 20.0) {
                let mut weights = seen.point(0);
                weights[0] -= share;
                weights[horizon as usize] += share;
                assert!(found <= risk(&weights) + 1e-12);
            }
        }
        assert!(found < risk(&seen.point(0)));
    }
}
