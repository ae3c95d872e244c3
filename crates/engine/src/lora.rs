//! Low-rank updates of a matrix: which directions of its inputs they act on.
//!
//! In: [`Lora`], a setting of a [`Network`](crate::Network). Out: the first factor of every LoRA
//! block. An update changes the second factor, which starts at 0:
//!
//! ```text
//! W' = W + Aθ,   A [in, rank] fixed,   θ [rank, out],   ∂s/∂θ = Aᵀ ∂s/∂W
//! ```

use crate::blocks::BlockId;
use crate::config::Config;
use crate::error::Error;
use crate::ops::{View, ViewMut, Write, dot, product};
use crate::real::Real;
use fewstep_core::{Matrix, Rng, Spectrum};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where the first factor of low-rank updates comes from.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, FirstFactor};
///
/// assert_eq!("inputs".parse(), Ok(FirstFactor::Inputs));
/// assert_eq!(
///     "zero".parse::<FirstFactor>(),
///     Err(Error::UnknownFirstFactor { found: "zero".to_owned() })
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstFactor {
    /// Normal numbers of variance `1/rank`: on average over seeds the kernel of a block is that
    /// of its whole matrix.
    #[default]
    Random,
    /// The leading principal directions of what the matrix takes in over a task's leave-one-out
    /// prompts: orthonormal, not centred, every distinct token of the layout once. A direction
    /// that the prompts do not have is a column of zeros.
    ///
    /// The prompts show all answers, so that the directions, unlike the predictions, know of
    /// every example's own.
    Inputs,
}

impl fmt::Display for FirstFactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Random => "random",
            Self::Inputs => "inputs",
        })
    }
}

impl FromStr for FirstFactor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = [Self::Random, Self::Inputs].into_iter().find(|f| f.to_string() == text);
        found.ok_or_else(|| Error::UnknownFirstFactor { found: text.to_owned() })
    }
}

/// What the LoRA blocks of a model look like.
///
/// | name | default | meaning | range |
/// |---|---|---|---|
/// | `rank` | 8, or the model's width if that is less | columns of the first factor | 1 to the model's width |
/// | `first` | `random` | where the first factor comes from | |
/// | `seed` | 0 | which random numbers; each kind and layer has its own | |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{FirstFactor, Lora};
///
/// let lora = Lora { rank: 4, ..Lora::default() };
/// assert_eq!((lora.first, lora.seed, Lora::default().rank), (FirstFactor::Random, 0, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lora {
    /// How many columns the first factor has.
    pub rank: usize,
    /// Where the first factor comes from.
    pub first: FirstFactor,
    /// Which random numbers.
    pub seed: u64,
}

impl Default for Lora {
    fn default() -> Self {
        Self { rank: 8, first: FirstFactor::default(), seed: 0 }
    }
}

impl Lora {
    /// The default for a model.
    pub(crate) fn of(config: &Config) -> Self {
        let default = Self::default();
        Self { rank: default.rank.min(config.width), ..default }
    }

    /// `Err` unless the rank is possible for a model: queries and values have its width as inputs.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Error> {
        check_rank(self.rank, config.width)
    }

    /// `A [in, rank]` of normal numbers: the same for a seed and a block, whoever asks.
    pub(crate) fn random<R: Real>(&self, block: &BlockId, inputs: usize) -> Arc<[R]> {
        let mut rng = Rng::new(fingerprint(self.seed, &block.to_string()));
        let deviation = (1.0 / self.rank as f64).sqrt();
        (0..inputs * self.rank).map(|_| R::of(deviation * rng.normal())).collect()
    }

    /// `A [in, rank]` of the leading principal directions of some inputs, `rows [count, in]`.
    ///
    /// They are the eigenvectors of the smaller of the two Gram matrices. Each is turned so that
    /// its largest entry, the first of those, is positive.
    pub(crate) fn leading<R: Real>(
        &self,
        rows: &[f64],
        inputs: usize,
    ) -> Result<Arc<[R]>, Error> {
        let count = rows.len() / inputs;
        let view = View::new(rows, count, inputs);
        let size = count.min(inputs);
        let (left, right) =
            if count < inputs { (view, view.transposed()) } else { (view.transposed(), view) };
        let mut gram = vec![0.0; size * size];
        product(Write::Over, ViewMut::new(&mut gram, size, size), left, right, 1.0);
        let spectrum = Spectrum::of(Matrix::new(size, size, gram)?)?;
        let mut directions: Vec<Vec<f64>> = Vec::new();
        for mode in 0..spectrum.rank().min(self.rank) {
            let mut direction = spectrum.mode(mode).to_vec();
            if count < inputs {
                let weights = View::new(&direction, 1, count);
                let mut combined = vec![0.0; inputs];
                let target = ViewMut::new(&mut combined, 1, inputs);
                product(Write::Over, target, weights, view, 1.0);
                direction = combined;
            }
            orient(&mut direction, &directions);
            directions.push(direction);
        }
        let entry = |row: usize, column: usize| {
            directions.get(column).map_or(R::ZERO, |direction| R::of(direction[row]))
        };
        Ok((0..inputs * self.rank).map(|at| entry(at / self.rank, at % self.rank)).collect())
    }
}

/// `Err` unless a first factor may have this number of columns.
pub(crate) fn check_rank(found: usize, largest: usize) -> Result<(), Error> {
    if (1..=largest).contains(&found) {
        return Ok(());
    }
    Err(Error::LoraRank { found, largest })
}

/// A number of its own for a seed and a name (FNV-1a).
fn fingerprint(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Makes a direction orthogonal to others, of length 1, and fixes its sign.
fn orient(direction: &mut [f64], others: &[Vec<f64>]) {
    // What rounding left along the others goes in the first round, what that left in the second.
    for _ in 0..2 {
        for other in others {
            let along = dot(direction, other);
            direction.iter_mut().zip(other).for_each(|(entry, other)| *entry -= along * other);
        }
        let length = dot(direction, direction).sqrt();
        direction.iter_mut().for_each(|entry| *entry /= length);
    }
    let largest = direction.iter().fold(0.0_f64, |most, entry| most.max(entry.abs()));
    let sign = direction.iter().find(|entry| entry.abs() >= largest).copied().unwrap_or(1.0);
    if sign < 0.0 {
        direction.iter_mut().for_each(|entry| *entry = -*entry);
    }
}

/// The first factors of some LoRA blocks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FirstFactors<R>(Vec<(BlockId, Arc<[R]>)>);

impl<R> FirstFactors<R> {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn get(&self, block: &BlockId) -> Option<&Arc<[R]>> {
        self.0.iter().find(|(other, _)| other == block).map(|(_, first)| first)
    }

    /// Adds the factor of a block, in the place of one that it has.
    pub(crate) fn set(&mut self, block: BlockId, first: Arc<[R]>) {
        self.0.retain(|(other, _)| *other != block);
        self.0.push((block, first));
    }

    /// All that are there, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&BlockId, &Arc<[R]>)> {
        self.0.iter().map(|(block, first)| (block, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Numbers, assert_close};

    fn block(name: &str) -> BlockId {
        name.parse().unwrap()
    }

    /// The numbers that a seed stands for do not change, and each block has its own.
    #[test]
    fn random_factors_are_fixed_by_seed_and_block() {
        let draw = |seed: u64, name: &str| -> Arc<[f64]> {
            Lora { rank: 2, seed, ..Lora::default() }.random(&block(name), 5)
        };
        let mut seen = Vec::new();
        for seed in [0, 1, u64::MAX] {
            for name in ["lora-value.0", "lora-query.0", "lora-value.1", "lora-value.10"] {
                assert_eq!(draw(seed, name), draw(seed, name));
                assert!(!seen.contains(&draw(seed, name)), "{seed}, {name}");
                seen.push(draw(seed, name));
            }
        }
        // From the description of FNV-1a: eight bytes of 0 and the letter "a".
        let prime = 0x0000_0100_0000_01B3_u64;
        let mut expected = 0xCBF2_9CE4_8422_2325_u64;
        for byte in [0, 0, 0, 0, 0, 0, 0, 0, 97] {
            expected = (expected ^ byte).wrapping_mul(prime);
        }
        assert_eq!(fingerprint(0, "a"), expected);
        assert_ne!(fingerprint(1, "a"), fingerprint(256, "a"));
    }

    /// Mean and variance of the entries, in standard errors.
    #[test]
    fn random_factors_have_variance_one_over_rank() {
        let lora = Lora { rank: 16, ..Lora::default() };
        let draws: Arc<[f64]> = lora.random(&block("lora-query.3"), 10_000);
        let count = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / count;
        let square = 16.0 * draws.iter().map(|x| x * x).sum::<f64>() / count;
        assert!(mean.abs() < 4.0 / (16.0 * count).sqrt(), "{mean}");
        assert!((square - 1.0).abs() < 4.0 * (2.0 / count).sqrt(), "{square}");
    }

    /// Rows along three known directions: those come back, largest first, the rest is 0.
    #[test]
    fn leading_directions_are_the_principal_ones() {
        // Orthogonal directions of five inputs, and how far rows reach along each.
        let axes =
            [[3.0, 0.0, 4.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0, 0.0], [4.0, 0.0, -3.0, 0.0, 0.0]];
        let spread = [3.0, 2.0, 1.0];
        let mut numbers = Numbers::new(4);
        for count in [3, 4, 5, 40] {
            // Amounts that are uncorrelated: orthonormal columns, by Gram–Schmidt.
            let mut amounts: Vec<Vec<f64>> = Vec::new();
            for _ in 0..3 {
                let mut column = numbers.vector(count);
                orient(&mut column, &amounts);
                amounts.push(column);
            }
            let rows: Vec<f64> = (0..count)
                .flat_map(|t| {
                    let amounts = &amounts;
                    (0..5).map(move |i| {
                        let along = |a: usize| spread[a] * amounts[a][t] * axes[a][i];
                        let length = |a: usize| if a == 1 { 1.0 } else { 5.0 };
                        (0..3).map(|a| along(a) / length(a)).sum()
                    })
                })
                .collect();
            for rank in 1..=5 {
                let lora = Lora { rank, first: FirstFactor::Inputs, seed: 0 };
                let found: Arc<[f64]> = lora.leading(&rows, 5).unwrap();
                let expected = [
                    [0.6, 0.0, 0.8, 0.0, 0.0],
                    [0.0, 1.0, 0.0, 0.0, 0.0],
                    [0.8, 0.0, -0.6, 0.0, 0.0],
                ];
                for column in 0..rank {
                    for row in 0..5 {
                        let entry = expected.get(column).map_or(0.0, |axis| axis[row]);
                        assert_close(found[row * rank + column], entry, 9.0, count);
                    }
                }
            }
        }
        let nothing: Arc<[f64]> = Lora::default().leading(&[0.0; 20], 10).unwrap();
        assert!(nothing.iter().all(|&entry| entry.to_bits() == 0));
    }

    /// Orthonormal to the last digits also where the inputs reach far along one direction and
    /// hardly along the others.
    #[test]
    fn leading_directions_are_orthonormal() {
        let mut numbers = Numbers::new(8);
        for (count, inputs) in [(6, 9), (9, 6), (30, 7)] {
            let mut rows = numbers.vector(count * inputs);
            for row in rows.chunks_exact_mut(inputs) {
                for (column, entry) in row.iter_mut().enumerate() {
                    *entry *= (10.0_f64).powi(-i32::try_from(column).unwrap());
                }
            }
            let rank = count.min(inputs);
            let lora = Lora { rank, first: FirstFactor::Inputs, seed: 0 };
            let found: Arc<[f64]> = lora.leading(&rows, inputs).unwrap();
            for i in 0..rank {
                for j in 0..rank {
                    let inner: f64 =
                        (0..inputs).map(|t| found[t * rank + i] * found[t * rank + j]).sum();
                    let here = (0..inputs).any(|t| found[t * rank + i] != 0.0);
                    let expected = if i == j && here { 1.0 } else { 0.0 };
                    assert_close(inner, expected, 1.0, inputs);
                }
            }
        }
    }
}
