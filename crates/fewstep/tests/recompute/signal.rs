//! How much of the residuals is signal: `r ~ N(0, τ²K + σ²I)` fitted by elimination alone.

use crate::recompute::arithmetic::{
    Rows, dot, eigen, eliminate, multiply, shifted, solve, within_range,
};

/// The share of the residuals' mean square below which noise is no more than rounding.
const ROUNDING_NOISE: f64 = 1e-8;

/// The two variances under which the residuals are most likely.
pub(crate) struct Fit {
    pub(crate) signal: f64,
    pub(crate) noise: f64,
    /// By how much rounding in the kernel is magnified on its way to the variances.
    pub(crate) magnification: f64,
}

/// The likelihood of the residuals as a function of `λ★ = σ²/τ²`, with `τ²` at its best.
///
/// Directions that the kernel does not reach hold noise alone and are accounted for apart.
struct Likelihood {
    filled: Rows,
    projection: Rows,
    /// The residuals in the range of the kernel.
    inside: Vec<f64>,
    /// The squared length of what is outside, and the number of directions there.
    outside: (f64, f64),
    n: f64,
    largest: f64,
    smallest: f64,
}

impl Likelihood {
    fn of(kernel: &Rows, residuals: &[f64]) -> Self {
        let (filled, projection) = within_range(kernel);
        let inside = multiply(&projection, residuals);
        let rank = (0..residuals.len()).map(|i| projection[i][i]).sum::<f64>().round();
        let n = residuals.len() as f64;
        let apart: Vec<f64> = residuals.iter().zip(&inside).map(|(r, i)| r - i).collect();
        let (apart, all) = (dot(&apart, &apart), dot(residuals, residuals));
        let rounding = (4.0 * n * f64::EPSILON).powi(2) * all;
        let outside = if rank < n && apart > rounding { apart } else { 0.0 };
        let modes = eigen(&filled);
        let (largest, smallest) = (modes[0].0, modes[modes.len() - 1].0);
        Self { filled, projection, inside, outside: (outside, n - rank), n, largest, smallest }
    }

    /// `rᵀ(K + λ★I)⁻¹r/n` is `τ²`, and `2ℓ = log τ² + log det(K + λ★I)/n + 1`.
    fn at(&self, ratio: f64) -> (f64, f64) {
        let filled = shifted(&self.filled, 1.0, ratio);
        let (log_determinant, solved) = eliminate(&filled, std::slice::from_ref(&self.inside));
        let (energy, directions) = self.outside;
        let beyond = if energy > 0.0 { energy / ratio } else { 0.0 };
        let signal = (dot(&self.inside, &solved[0]) + beyond) / self.n;
        let beyond = match directions {
            0.0 => 0.0,
            _ => directions * (ratio / (self.largest + ratio)).ln(),
        };
        (signal, signal.ln() + (log_determinant + beyond) / self.n + 1.0)
    }

    /// The two terms of `2 dℓ/d log λ★`, the falling one and the rising one.
    fn slopes(&self, ratio: f64) -> (f64, f64) {
        let right = [&self.projection[..], std::slice::from_ref(&self.inside)].concat();
        let (_, mut solved) = eliminate(&shifted(&self.filled, 1.0, ratio), &right);
        let once = solved.pop().expect("the residuals are the last");
        let (energy, directions) = self.outside;
        let (beyond, twice_beyond) = (energy / ratio, energy / (ratio * ratio));
        let falling = (dot(&once, &once) + twice_beyond) / (dot(&self.inside, &once) + beyond);
        let trace: f64 = solved.iter().enumerate().map(|(i, column)| column[i]).sum();
        (ratio * falling, (ratio * trace + directions) / self.n)
    }

    fn slope(&self, ratio: f64) -> f64 {
        let (falling, rising) = self.slopes(ratio);
        rising - falling
    }

    /// Where the slope turns from negative to positive between two ratios.
    fn minimum(&self, mut low: f64, mut high: f64) -> f64 {
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if self.slope(middle) > 0.0 { high = middle } else { low = middle }
        }
        (low * high).sqrt()
    }

    /// The ratios to look between, largest first, ten for each factor of 10: down to where the
    /// noise outside the range of the kernel is, or to where the kernel is all.
    fn grid(&self) -> Vec<f64> {
        let (energy, directions) = self.outside;
        let mut least = self.smallest / 1e8;
        if energy > 0.0 {
            let signal = dot(&self.inside, &solve(&self.filled, &self.inside));
            let noise = energy / directions * (self.n - directions) / signal;
            least = least.min(noise / 100.0);
        }
        let ratios = (0..).map(|i| 1e8 * self.largest * 10.0_f64.powf(-0.1 * f64::from(i)));
        ratios.take_while(|&ratio| ratio > least).collect()
    }

    /// How many times the rounding of the kernel is in the logarithm of a minimum: the terms of
    /// the slope over how fast it grows, times what elimination makes of rounding.
    fn magnification(&self, ratio: f64) -> f64 {
        let wide = 1.01_f64;
        let growth = (self.slope(ratio * wide) - self.slope(ratio / wide)) / (2.0 * wide.ln());
        let (falling, rising) = self.slopes(ratio);
        let condition = (self.largest + ratio) / (self.smallest + ratio);
        (1.0 + (falling + rising) / growth) * condition
    }
}

impl Fit {
    /// The more likely of noise alone, every minimum from much noise to little, signal alone.
    pub(crate) fn of(kernel: &Rows, residuals: &[f64]) -> Self {
        let likelihood = Likelihood::of(kernel, residuals);
        let noise = dot(residuals, residuals) / likelihood.n;
        let mut best = noise.ln() + 1.0;
        let mut fit = Self { signal: 0.0, noise, magnification: 1.0 };
        for pair in likelihood.grid().windows(2) {
            let (high, low) = (pair[0], pair[1]);
            if likelihood.slope(low) < 0.0 && likelihood.slope(high) > 0.0 {
                let ratio = likelihood.minimum(low, high);
                let (signal, value) = likelihood.at(ratio);
                if value < best {
                    let magnification = likelihood.magnification(ratio);
                    (best, fit) =
                        (value, Self { signal, noise: ratio * signal, magnification });
                }
            }
        }
        let (energy, _) = likelihood.outside;
        let (signal, value) = likelihood.at(0.0);
        if energy == 0.0 && value < best {
            let magnification = likelihood.largest / likelihood.smallest;
            fit = Self { signal, noise: 0.0, magnification };
        }
        fit
    }

    /// Whether the noise is less than what numbers in single precision can tell.
    pub(crate) fn is_silent(&self, mean_square: f64) -> bool {
        self.noise < ROUNDING_NOISE * mean_square
    }

    /// The noise kept over 0, as gaps and error bars are given.
    pub(crate) fn with_some_noise(&self, mean_square: f64) -> Self {
        let noise = self.noise.max(ROUNDING_NOISE * mean_square);
        Self { signal: self.signal, noise, magnification: self.magnification }
    }

    /// `q★(K) v = τ²(τ²K + σ²I)⁻¹ v`.
    pub(crate) fn ideal(&self, kernel: &Rows, vector: &[f64]) -> Vec<f64> {
        let solved = solve(&shifted(kernel, self.signal, self.noise), vector);
        solved.iter().map(|x| self.signal * x).collect()
    }

    /// The expected squared distance between a correction `k_xᵀ q(K) r` and the ideal one, from
    /// `q(K) k_x`.
    pub(crate) fn gap(&self, kernel: &Rows, coupling: &[f64], taken: &[f64]) -> f64 {
        let ideal = self.ideal(kernel, coupling);
        let apart: Vec<f64> = taken.iter().zip(ideal).map(|(a, b)| a - b).collect();
        let spread = multiply(&shifted(kernel, self.signal, self.noise), &apart);
        dot(&apart, &spread)
    }
}
