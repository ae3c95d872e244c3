//! Reproducible randomness: probes, random baselines and simulated prompts come from a seed.
//!
//! A seed gives the same numbers on every machine and in every version of this crate, which no
//! general-purpose random library promises for its default generator.

/// A seeded source of random numbers (xoshiro256++ of Blackman and Vigna, 2019).
///
/// Not for secrets.
///
/// # Examples
///
/// ```
/// use fewstep_core::Rng;
///
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.uniform(), b.uniform());
/// assert!((0.0..1.0).contains(&a.uniform()));
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence is fixed by `seed`.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Rng;
    ///
    /// assert_ne!(Rng::new(1).uniform(), Rng::new(2).uniform());
    /// ```
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // SplitMix64 spreads a small seed over the whole state.
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = counter;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number drawn uniformly from `[0, 1)`.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut rng = fewstep_core::Rng::new(0);
    /// assert!((0..100).all(|_| (0.0..1.0).contains(&rng.uniform())));
    /// ```
    pub fn uniform(&mut self) -> f64 {
        // The 53 high bits fill the mantissa exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `+1` or `−1` with equal probability.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Rng::new(0).sign().abs(), 1.0);
    /// ```
    pub fn sign(&mut self) -> f64 {
        if self.next() >> 63 == 0 { 1.0 } else { -1.0 }
    }

    /// A standard normal number (mean 0, variance 1).
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::Rng::new(0).normal().is_finite());
    /// ```
    pub fn normal(&mut self) -> f64 {
        // Box–Muller; 1 − u keeps the logarithm away from 0.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A whole number drawn uniformly from `0..limit`; 0 if `limit` is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::Rng::new(0).below(3) < 3);
    /// ```
    pub fn below(&mut self, limit: usize) -> usize {
        // Multiply-and-shift; its bias of limit/2⁶⁴ is far below anything observable.
        let wide = u128::from(self.next()) * limit as u128;
        usize::try_from(wide >> 64).expect("the high half is below limit")
    }

    /// `count` different numbers out of `0..limit`, in random order.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut drawn = fewstep_core::Rng::new(0).choose(3, 3);
    /// drawn.sort_unstable();
    /// assert_eq!(drawn, [0, 1, 2]);
    /// ```
    pub fn choose(&mut self, count: usize, limit: usize) -> Vec<usize> {
        let mut deck: Vec<usize> = (0..limit).collect();
        for i in 0..count.min(limit) {
            let other = i + self.below(limit - i);
            deck.swap(i, other);
        }
        deck.truncate(count);
        deck
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    /// Mean, variance and fourth moment of the normal draws, in standard errors.
    #[test]
    fn normal_moments() {
        let mut rng = Rng::new(11);
        let draws: Vec<f64> = (0..200_000).map(|_| rng.normal()).collect();
        let count = draws.len() as f64;
        let moment = |power: i32| draws.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        assert!(moment(1).abs() < 4.0 / count.sqrt());
        assert!((moment(2) - 1.0).abs() < 4.0 * (2.0 / count).sqrt());
        assert!((moment(4) - 3.0).abs() < 4.0 * (96.0 / count).sqrt());
    }

    /// Every face of a ten-sided die comes up equally often, in standard errors.
    #[test]
    fn below_is_uniform() {
        let mut rng = Rng::new(3);
        let mut counts = [0.0_f64; 10];
        for _ in 0..100_000 {
            counts[rng.below(10)] += 1.0;
        }
        let standard_error = (100_000.0_f64 * 0.1 * 0.9).sqrt();
        assert!(counts.iter().all(|count| (count - 10_000.0).abs() < 4.5 * standard_error));
    }

    /// The generator itself, against the first outputs of the authors' C program for the state
    /// 1, 2, 3, 4.
    #[test]
    fn reference_outputs() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!(std::array::from_fn(|_| rng.next()), expected);
    }
}
