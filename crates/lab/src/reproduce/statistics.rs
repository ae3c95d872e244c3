//! Paired comparisons of methods on the same tasks: means, intervals and p-values.
//!
//! In: one number per task, usually the difference of two methods' errors. Out: [`Mean`] (of the
//! assessment) and [`Paired`]. Every resampling comes from a seed; the paper's counts are taken.

use crate::assessment::Mean;
use fewstep_core::Rng;

/// How often tasks are drawn again for an interval.
pub const RESAMPLES: usize = 10_000;

/// How often signs are drawn for a p-value; the paper's smallest, `5·10⁻⁵`, is one in as many.
pub const PERMUTATIONS: usize = 20_000;

/// A difference between two methods on the same tasks.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::statistics::Paired;
///
/// // Ten tasks, each better by one: whatever is drawn, the mean is one.
/// let paired = Paired::of(&[1.0; 10], 0);
/// assert_eq!((paired.difference.mean, paired.low, paired.high), (1.0, 1.0, 1.0));
/// // Of 2¹⁰ ways to choose signs two have a mean as large.
/// assert!((paired.p_value - 2.0 / 1024.0).abs() < 4.0 * (2.0_f64 / 1024.0 / 20_000.0).sqrt());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// The mean difference with its standard error.
    pub difference: Mean,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
    /// The probability of a mean at least as far from 0 if every sign were a coin's.
    pub p_value: f64,
}

impl Paired {
    /// Of one difference per task, with the resampling fixed by a seed.
    ///
    /// The interval holds the middle 95 % of the means of tasks drawn again with replacement. The
    /// p-value counts sign patterns, the observed one among them, so it is never 0. Without a
    /// task everything is 0 and nothing is said against chance.
    #[must_use]
    pub fn of(differences: &[f64], seed: u64) -> Self {
        let difference = Mean::of(differences);
        let mut rng = Rng::new(seed);
        let means = resampled(differences, RESAMPLES, &mut rng);
        let (low, high) = middle(means);
        let p_value = sign_flips(differences, PERMUTATIONS, &mut rng);
        Self { difference, low, high, p_value }
    }

    /// Of two methods' errors on the same tasks: positive where the second one errs less.
    ///
    /// # Panics
    ///
    /// If they are not on the same number of tasks.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::statistics::Paired;
    ///
    /// assert_eq!(Paired::improvement(&[0.5, 0.7], &[0.25, 0.7], 0).difference.mean, 0.125);
    /// ```
    #[must_use]
    pub fn improvement(baseline: &[f64], method: &[f64], seed: u64) -> Self {
        assert_eq!(baseline.len(), method.len(), "both were measured on the same tasks");
        let differences: Vec<f64> = baseline.iter().zip(method).map(|(b, m)| b - m).collect();
        Self::of(&differences, seed)
    }
}

/// The difference between the means of two groups of tasks, with a 95 % interval and a p-value.
///
/// Each group is drawn again by itself; for the p-value tasks change groups.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::statistics::between;
///
/// let apart = between(&[5.0; 20], &[3.0; 20], 0);
/// assert_eq!((apart.difference.mean, apart.low, apart.high), (2.0, 2.0, 2.0));
/// assert!(apart.p_value < 1e-4);
/// ```
#[must_use]
pub fn between(first: &[f64], second: &[f64], seed: u64) -> Paired {
    let (a, b) = (Mean::of(first), Mean::of(second));
    let difference = Mean { mean: a.mean - b.mean, error: a.error.hypot(b.error) };
    let mut rng = Rng::new(seed);
    let seconds = resampled(second, RESAMPLES, &mut rng);
    let firsts = resampled(first, RESAMPLES, &mut rng);
    let (low, high) = middle(firsts.iter().zip(seconds).map(|(a, b)| a - b).collect());
    let p_value = exchanges(first, second, &mut rng);
    Paired { difference, low, high, p_value }
}

/// Means of samples drawn again with replacement.
fn resampled(samples: &[f64], times: usize, rng: &mut Rng) -> Vec<f64> {
    let count = samples.len();
    (0..times)
        .map(|_| {
            let sum: f64 = (0..count).map(|_| samples[rng.below(count)]).sum();
            sum / count.max(1) as f64
        })
        .collect()
}

/// The ends of the middle 95 %: the smallest values that 2.5 % and 97.5 % do not exceed.
fn middle(mut means: Vec<f64>) -> (f64, f64) {
    means.sort_by(f64::total_cmp);
    let last = means.len().saturating_sub(1);
    let tail = means.len() / 40;
    let at = |place: usize| means.get(place).copied().unwrap_or(0.0);
    (at(tail), at(last.saturating_sub(tail)))
}

/// The share of sign patterns whose mean is at least as far from 0 as that of the samples.
fn sign_flips(samples: &[f64], times: usize, rng: &mut Rng) -> f64 {
    let observed = samples.iter().sum::<f64>().abs();
    // Sums in another order may differ in the last bits; ties are meant to count.
    let slack = observed_slack(samples);
    let as_far = (0..times)
        .filter(|_| {
            let sum: f64 = samples.iter().map(|sample| rng.sign() * sample).sum();
            sum.abs() >= observed - slack
        })
        .count();
    (as_far + 1) as f64 / (times + 1) as f64
}

/// The share of divisions into two groups whose means differ at least as much.
fn exchanges(first: &[f64], second: &[f64], rng: &mut Rng) -> f64 {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let (n, m) = (first.len(), second.len());
    if n == 0 || m == 0 {
        return 1.0;
    }
    let total: f64 = all.iter().sum();
    let apart = |sum: f64| (sum / n as f64 - (total - sum) / m as f64).abs();
    let observed = apart(first.iter().sum());
    let slack = observed_slack(&all) / n.min(m) as f64;
    let mut deck = all;
    let times = PERMUTATIONS;
    let as_far = (0..times)
        .filter(|_| {
            let mut sum = 0.0;
            for place in 0..n {
                let other = place + rng.below(deck.len() - place);
                deck.swap(place, other);
                sum += deck[place];
            }
            apart(sum) >= observed - slack
        })
        .count();
    (as_far + 1) as f64 / (times + 1) as f64
}

/// By how much rounding may move a sum of samples.
fn observed_slack(samples: &[f64]) -> f64 {
    let sum: f64 = samples.iter().map(|sample| sample.abs()).sum();
    4.0 * f64::EPSILON * samples.len() as f64 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest count whose probability of not being exceeded reaches `share`, for so many
    /// coins that show 1 with probability `chance`.
    fn binomial_quantile(coins: u32, chance: f64, share: f64) -> f64 {
        let mut probability = (1.0 - chance).powi(coins.cast_signed());
        let (mut reached, mut count) = (probability, 0);
        while reached < share {
            let more = f64::from(coins - count) / f64::from(count + 1);
            probability *= more * chance / (1.0 - chance);
            reached += probability;
            count += 1;
        }
        f64::from(count)
    }

    /// Resampling zeros and ones draws from a binomial distribution, whose quantiles are known.
    #[test]
    fn an_interval_of_zeros_and_ones_ends_at_binomial_quantiles() {
        for (ones, count) in [(30, 100), (12, 40), (200, 500)] {
            let samples: Vec<f64> =
                (0..count).map(|index| f64::from(u8::from(index < ones))).collect();
            let chance = f64::from(ones) / f64::from(count);
            // Between the quantiles of shares that 10,000 draws cannot tell from 2.5 %.
            let error = (0.025_f64 * 0.975 / RESAMPLES as f64).sqrt();
            let found = Paired::of(&samples, 3);
            for (end, share) in [(found.low, 0.025), (found.high, 0.975)] {
                let least = binomial_quantile(count, chance, share - 4.0 * error);
                let most = binomial_quantile(count, chance, share + 4.0 * error);
                let end = end * f64::from(count);
                assert!(
                    least - 0.01 < end && end < most + 0.01,
                    "{end} not in {least}..{most}"
                );
            }
        }
    }

    /// The p-value against all sign patterns of a few samples.
    #[test]
    fn a_p_value_is_the_share_of_sign_patterns() {
        let samples = [0.3, -0.1, 0.7, 0.4, -0.2, 0.9, 0.05];
        let observed = samples.iter().sum::<f64>();
        let patterns = 1_u32 << samples.len();
        let as_far = (0..patterns)
            .filter(|pattern| {
                let signed = samples.iter().enumerate().map(|(place, sample)| {
                    if pattern >> place & 1 == 1 { -sample } else { *sample }
                });
                signed.sum::<f64>().abs() >= observed - 1e-9
            })
            .count();
        let exact = as_far as f64 / f64::from(patterns);
        let error = (exact * (1.0 - exact) / PERMUTATIONS as f64).sqrt();
        let found = Paired::of(&samples, 8).p_value;
        assert!((found - exact).abs() < 4.0 * error, "{found}, not {exact}");
    }

    /// The p-value of two groups against all divisions.
    #[test]
    fn a_p_value_between_groups_is_the_share_of_divisions() {
        let all = [5.0, 3.0, 4.5, 1.0, 2.0, 3.5, 0.5];
        let apart = |chosen: &dyn Fn(usize) -> bool| {
            let mean = |wanted: bool| {
                let of: Vec<f64> =
                    (0..7).filter(|&i| chosen(i) == wanted).map(|i| all[i]).collect();
                of.iter().sum::<f64>() / of.len() as f64
            };
            mean(true) - mean(false)
        };
        let observed = apart(&|place| place < 3);
        let divisions: Vec<u32> = (0_u32..128).filter(|set| set.count_ones() == 3).collect();
        let far = |set: &&u32| apart(&|place| *set >> place & 1 == 1).abs() >= observed - 1e-9;
        let exact = divisions.iter().filter(far).count() as f64 / divisions.len() as f64;
        let found = between(&all[..3], &all[3..], 4);
        let error = (exact * (1.0 - exact) / PERMUTATIONS as f64).sqrt();
        assert!((found.p_value - exact).abs() < 4.0 * error, "{}, not {exact}", found.p_value);
        assert!((found.difference.mean - observed).abs() < 1e-12);
    }

    /// Intervals of simulated normal differences hold the truth as often as theory says, and
    /// p-values below 5 % are as rare as that where there is no difference.
    #[test]
    fn intervals_cover_and_p_values_do_not_cry_wolf() {
        let (experiments, count, truth) = (1500, 100, 0.2);
        let (mut covered, mut alarms) = (0.0, 0.0);
        let mut rng = Rng::new(12);
        for seed in 0..experiments {
            let noise: Vec<f64> = (0..count).map(|_| rng.normal()).collect();
            let shifted: Vec<f64> = noise.iter().map(|sample| sample + truth).collect();
            let (low, high) = middle(resampled(&shifted, 1000, &mut Rng::new(seed)));
            covered += f64::from(u8::from(low < truth && truth < high));
            let p_value = sign_flips(&noise, 1000, &mut Rng::new(seed));
            alarms += f64::from(u8::from(p_value < 0.05));
        }
        let experiments = f64::from(u32::try_from(experiments).unwrap());
        // Resampling takes the deviation with n instead of n − 1 and the normal quantile instead
        // of Student's: |t₉₉| < 1.96 √(99/100) has the probability 0.9460.
        let error = (0.946_f64 * 0.054 / experiments).sqrt();
        assert!((covered / experiments - 0.946).abs() < 4.0 * error, "{covered} covered");
        let error = (0.05_f64 * 0.95 / experiments).sqrt();
        assert!((alarms / experiments - 0.05).abs() < 4.0 * error, "{alarms} alarms");
    }

    #[test]
    fn a_seed_fixes_everything_and_no_task_says_nothing() {
        let samples: Vec<f64> = (0..50).map(|i| f64::from(i % 7) - 2.5).collect();
        assert_eq!(Paired::of(&samples, 1), Paired::of(&samples, 1));
        assert_ne!(Paired::of(&samples, 1), Paired::of(&samples, 2));
        let none = Paired::of(&[], 0);
        assert_eq!((none.low, none.high, none.p_value), (0.0, 0.0, 1.0));
        assert!(between(&[1.0], &[], 0).p_value > 0.99);
    }
}
