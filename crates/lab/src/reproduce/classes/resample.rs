//! Intervals for what is computed of many prompts: prompts are drawn again, set by set.
//!
//! In: the number of prompts of each set and a statistic of drawn prompts. Out: [`Interval`]. Whatever
//! is compared is computed of the same drawn prompts, so that all comparisons are paired.

use fewstep_core::Rng;

/// How often prompts are drawn again.
pub(super) const RESAMPLES: usize = 2000;

/// A number, and the middle 95 % of what it is when prompts are drawn again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) at: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Interval {
    /// The same in another unit.
    pub(super) fn times(self, factor: f64) -> Self {
        let Self { at, low, high } = self;
        Self { at: at * factor, low: low * factor, high: high * factor }
    }
}

/// Prompts that were drawn again: for every draw and every set the numbers of its prompts.
pub(super) struct Resampling {
    whole: Vec<Vec<usize>>,
    draws: Vec<Vec<Vec<usize>>>,
}

impl Resampling {
    /// Draws prompts of sets with these numbers of them; fixed by a seed.
    pub(super) fn new(counts: &[usize], seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut draw = || {
            let of = |&count: &usize| (0..count).map(|_| rng.below(count)).collect();
            counts.iter().map(of).collect()
        };
        let draws = (0..RESAMPLES).map(|_| draw()).collect();
        Self { whole: counts.iter().map(|&count| (0..count).collect()).collect(), draws }
    }

    /// The interval of a statistic of all sets.
    pub(super) fn interval(&self, statistic: impl Fn(&[Vec<usize>]) -> f64) -> Interval {
        let mut values: Vec<f64> = self.draws.iter().map(|draw| statistic(draw)).collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let at = statistic(&self.whole);
        let tail = values.len() / 40;
        let end = |place: usize| values.get(place).copied().unwrap_or(at);
        Interval { at, low: end(tail), high: end(values.len().saturating_sub(1 + tail)) }
    }

    /// The interval of the mean over sets of the mean over prompts; one number per set and prompt.
    pub(super) fn mean(&self, values: &[Vec<f64>]) -> Interval {
        self.interval(|draw| {
            let means = draw.iter().zip(values).filter(|(drawn, _)| !drawn.is_empty());
            average(&means.map(|(drawn, of)| mean_at(of, drawn)).collect::<Vec<f64>>())
        })
    }

    /// The same of one set alone.
    pub(super) fn mean_of(&self, set: usize, values: &[f64]) -> Interval {
        self.interval(|draw| mean_at(values, &draw[set]))
    }
}

/// The mean of some numbers by their places.
pub(super) fn mean_at(values: &[f64], places: &[usize]) -> f64 {
    places.iter().map(|&place| values[place]).sum::<f64>() / places.len() as f64
}

/// The mean; NaN of nothing.
pub(super) fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal means: the interval of two sets' mean is 1.96 standard errors wide on each side.
    #[test]
    fn an_interval_is_as_wide_as_theory_says() {
        let mut rng = Rng::new(5);
        let mut normals = |count: usize, mean: f64| -> Vec<f64> {
            (0..count).map(|_| mean + rng.normal()).collect()
        };
        let values = [normals(400, 1.0), normals(100, 3.0)];
        let resampling = Resampling::new(&[400, 100], 3);
        let found = resampling.mean(&values);
        let variance = |of: &[f64]| {
            let mean = average(of);
            of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / of.len() as f64
        };
        let error = 0.5 * (variance(&values[0]) / 400.0 + variance(&values[1]) / 100.0).sqrt();
        let half = 0.5 * (found.high - found.low);
        assert!((half / (1.96 * error) - 1.0).abs() < 0.08, "{half} against {error}");
        let middle = 0.5 * (average(&values[0]) + average(&values[1]));
        assert!((found.at - middle).abs() < 1e-12);
        let one = resampling.mean_of(1, &values[1]);
        assert!((one.at - average(&values[1])).abs() < 1e-12 && one.low < one.high);
    }

    #[test]
    fn a_seed_fixes_the_draws_and_equal_numbers_have_no_width() {
        let values = [vec![2.0; 7], vec![4.0; 3]];
        let found = Resampling::new(&[7, 3], 1).mean(&values);
        assert_eq!((found.at, found.low, found.high), (3.0, 3.0, 3.0));
        let half = found.times(0.5);
        assert_eq!((half.at, half.low, half.high), (1.5, 1.5, 1.5));
        let draws = |seed| Resampling::new(&[5], seed).draws;
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        // A set without prompts takes no part.
        let empty = Resampling::new(&[0, 3], 1).mean(&[vec![], vec![1.0, 1.0, 1.0]]);
        assert_eq!((empty.at, empty.low), (1.0, 1.0));
    }
}
