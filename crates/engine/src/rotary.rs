//! Positions that turn queries and keys: the angles, and the turning with its adjoint.
//!
//! In: the settings of a `config.json`. Out: [`Rotary`], and tables of cosines and sines for as
//! many positions as a pass has. Entry `j` of a head and entry `j + half` are a pair, which is
//! turned by the position times the pair's frequency; the adjoint turns back.

use crate::error::Error;
use crate::files;
use crate::ops::wide;
use crate::real::Real;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::path::Path;

#[cfg(test)]
mod tests;

/// How the position of a token turns its queries and keys.
///
/// ```text
/// angle = position · frequency_j,   frequency_j = base^(−2j/head width), then scaled
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Family, Scaling};
///
/// let config = Config::from_json(
///     br#"{"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1,
///          "hidden_size": 4, "intermediate_size": 8, "max_position_embeddings": 64,
///          "vocab_size": 256,
///          "rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}}"#,
/// )?;
/// let Family::Llama(parts) = config.family else { panic!("it is one") };
/// assert_eq!(parts.rotary.base, 500.0);
/// assert_eq!(parts.rotary.scaling, Scaling::Linear { factor: 4.0 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// What the frequencies are powers of; over 1.
    pub base: f64,
    /// How the frequencies are changed for longer sequences than a model first saw.
    pub scaling: Scaling,
}

/// How rotary frequencies are changed for longer sequences than a model first saw.
///
/// # Examples
///
/// See [`Rotary`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all (`default`).
    None,
    /// All are divided by `factor`.
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// None up to the model's longest sequence, and more beyond; sequences beyond are refused.
    Dynamic {
        /// At least 1.
        factor: f64,
    },
    /// Waves longer than `original / low` are divided by `factor`, those shorter than
    /// `original / high` are not, those between in part (`llama3`).
    Llama3 {
        /// At least 1.
        factor: f64,
        /// `low_freq_factor`, over 0.
        low: f64,
        /// `high_freq_factor`, over `low`.
        high: f64,
        /// The length of sequences that the model first saw.
        original: usize,
    },
    /// As `llama3`, by the number of turns within the original length, with longer queries and
    /// keys (`yarn`).
    Yarn(Yarn),
}

/// The settings of the scaling named `yarn`.
///
/// | name | in `config.json` | default | range |
/// |---|---|---|---|
/// | `factor` | `factor` | | at least 1 |
/// | `original` | `original_max_position_embeddings` | the longest sequence | at least 1 |
/// | `fast`, `slow` | `beta_fast`, `beta_slow` | 32, 1 | over 0 |
/// | `truncate` | `truncate` | true | |
/// | `attention` | `attention_factor` | from `factor` | over 0 |
/// | `scales` | `mscale`, `mscale_all_dim` | none | over 0 |
///
/// # Examples
///
/// See [`Rotary`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// By what low frequencies are divided.
    pub factor: f64,
    /// The length of sequences that the model first saw.
    pub original: usize,
    /// Turns within that length from which on a frequency is kept.
    pub fast: f64,
    /// Turns within that length up to which a frequency is divided by `factor`.
    pub slow: f64,
    /// Whether the ramp between the two begins and ends at whole pairs.
    pub truncate: bool,
    /// What cosines and sines are multiplied with, if it is given.
    pub attention: Option<f64>,
    /// Two numbers that it is made of otherwise, if they are given.
    pub scales: Option<(f64, f64)>,
}

/// The settings of a file that concern positions, in the older and the newer form.
#[derive(Deserialize)]
struct RotarySettings {
    rope_theta: Option<f64>,
    rope_scaling: Option<RotaryParameters>,
    rope_parameters: Option<RotaryParameters>,
    original_max_position_embeddings: Option<usize>,
}

#[derive(Default, Deserialize)]
struct RotaryParameters {
    rope_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    truncate: Option<bool>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Rotary {
    /// From the text of a `config.json`; `positions` is the model's longest sequence.
    ///
    /// As in other tools the older form, if it is there, goes before the newer one, and a base
    /// inside either before one beside it.
    pub(crate) fn parse(file: &Path, json: &[u8], positions: usize) -> Result<Self, Error> {
        let settings: RotarySettings = files::parse(file, json)?;
        let mut given = settings.rope_scaling.or(settings.rope_parameters).unwrap_or_default();
        if let Some((name, _)) = given.others.iter().find(|(_, value)| value.is_object()) {
            let allowed = "the same in all layers";
            return Err(refused(file, "rope_parameters", name.clone(), allowed));
        }
        if let Some(part) =
            given.partial_rotary_factor.filter(|part| part.to_bits() != 1.0_f64.to_bits())
        {
            return Err(refused(file, "partial_rotary_factor", part.to_string(), "1"));
        }
        let original = settings.original_max_position_embeddings;
        let original = original.or(given.original_max_position_embeddings);
        given.original_max_position_embeddings = Some(original.unwrap_or(positions));
        let base = given.rope_theta.or(settings.rope_theta).unwrap_or(10000.0);
        Ok(Self { base, scaling: given.scaling(file)? })
    }

    /// Whether all numbers are within their ranges.
    pub(crate) fn check(&self, file: &Path) -> Result<(), Error> {
        let (over_0, over_1) = (|x: f64| x > 0.0, |x: f64| x > 1.0);
        check(file, "rope_theta", self.base, "finite and over 1", over_1)?;
        let factor =
            |factor| check(file, "factor", factor, "finite and at least 1", |x| x >= 1.0);
        let positive = |name, x| check(file, name, x, "finite and over 0", over_0);
        let length = |original: usize| {
            let name = "original_max_position_embeddings";
            check(file, name, original as f64, "at least 1", over_0)
        };
        match self.scaling {
            Scaling::None => Ok(()),
            Scaling::Linear { factor: by } | Scaling::Dynamic { factor: by } => factor(by),
            Scaling::Llama3 { factor: by, low, high, original } => {
                factor(by)?;
                length(original)?;
                positive("low_freq_factor", low)?;
                positive("high_freq_factor", high)?;
                if high > low {
                    return Ok(());
                }
                let allowed = "over low_freq_factor";
                Err(refused(file, "high_freq_factor", high.to_string(), allowed))
            }
            Scaling::Yarn(yarn) => {
                factor(yarn.factor)?;
                length(yarn.original)?;
                positive("beta_fast", yarn.fast)?;
                positive("beta_slow", yarn.slow)?;
                positive("attention_factor", yarn.attention.unwrap_or(1.0))?;
                let (one, all) = yarn.scales.unwrap_or((1.0, 1.0));
                positive("mscale", one)?;
                positive("mscale_all_dim", all)
            }
        }
    }

    /// Angles per position, one for each pair of a head, and what cosines and sines are multiplied
    /// with.
    fn frequencies(&self, head_width: usize) -> (Vec<f64>, f64) {
        let width = head_width as f64;
        let plain = (0..head_width / 2).map(|j| 1.0 / self.base.powf(2.0 * j as f64 / width));
        match self.scaling {
            Scaling::None | Scaling::Dynamic { .. } => (plain.collect(), 1.0),
            Scaling::Linear { factor } => (plain.map(|f| f / factor).collect(), 1.0),
            Scaling::Llama3 { factor, low, high, original } => {
                // Turns within the original length, from `low` (divided) to `high` (kept).
                let kept = |f: f64| {
                    let turns = original as f64 * f / (2.0 * PI);
                    ((turns - low) / (high - low)).clamp(0.0, 1.0)
                };
                let scaled = |f: f64| (1.0 - kept(f)) * f / factor + kept(f) * f;
                (plain.map(scaled).collect(), 1.0)
            }
            Scaling::Yarn(yarn) => {
                let (first, last) = yarn.ramp(self.base, width);
                let scaled = plain.enumerate().map(|(j, f)| {
                    let divided = ((j as f64 - first) / (last - first)).clamp(0.0, 1.0);
                    f / yarn.factor * divided + f * (1.0 - divided)
                });
                (scaled.collect(), yarn.length())
            }
        }
    }
}

impl Yarn {
    /// The pairs between which frequencies go from kept to divided.
    fn ramp(&self, base: f64, width: f64) -> (f64, f64) {
        // The pair that turns so often within the original length.
        let pair = |turns: f64| {
            width * (self.original as f64 / (turns * 2.0 * PI)).ln() / (2.0 * base.ln())
        };
        let (mut first, mut last) = (pair(self.fast), pair(self.slow));
        if self.truncate {
            (first, last) = (first.floor(), last.ceil());
        }
        (first, last) = (first.max(0.0), last.min(width - 1.0));
        // A ramp of no length is a step.
        (first, if (last - first).abs() > 0.0 { last } else { last + 0.001 })
    }

    /// What cosines and sines are multiplied with.
    fn length(&self) -> f64 {
        let grown = |by: f64| {
            if self.factor <= 1.0 { 1.0 } else { 0.1 * by * self.factor.ln() + 1.0 }
        };
        match (self.attention, self.scales) {
            (Some(length), _) => length,
            (None, Some((one, all))) => grown(one) / grown(all),
            (None, None) => grown(1.0),
        }
    }
}

impl RotaryParameters {
    fn scaling(&self, file: &Path) -> Result<Scaling, Error> {
        let needed = |name: &'static str, value: Option<f64>| {
            value.ok_or_else(|| refused(file, name, "absent".to_owned(), "given"))
        };
        let factor = || needed("factor", self.factor);
        let original = self.original_max_position_embeddings.unwrap_or_default();
        // 0 counts as absent, as in other tools.
        let set = |value: Option<f64>| value.filter(|&value| value != 0.0);
        let kind = self.rope_type.as_deref().or(self.kind.as_deref());
        Ok(match kind.unwrap_or("default") {
            "default" => Scaling::None,
            "linear" => Scaling::Linear { factor: factor()? },
            "dynamic" => Scaling::Dynamic { factor: factor()? },
            "llama3" => Scaling::Llama3 {
                factor: factor()?,
                low: needed("low_freq_factor", self.low_freq_factor)?,
                high: needed("high_freq_factor", self.high_freq_factor)?,
                original,
            },
            "yarn" => Scaling::Yarn(Yarn {
                factor: factor()?,
                original,
                fast: set(self.beta_fast).unwrap_or(32.0),
                slow: set(self.beta_slow).unwrap_or(1.0),
                truncate: self.truncate.unwrap_or(true),
                attention: self.attention_factor,
                scales: set(self.mscale).zip(set(self.mscale_all_dim)),
            }),
            other => {
                let allowed = "default, linear, dynamic, llama3 or yarn";
                return Err(refused(file, "rope_type", format!("{other:?}"), allowed));
            }
        })
    }
}

impl Scaling {
    /// The settings that other tools read as well.
    pub(crate) fn settings(&self) -> Value {
        match *self {
            Self::None => Value::Null,
            Self::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
            Self::Dynamic { factor } => json!({"rope_type": "dynamic", "factor": factor}),
            Self::Llama3 { factor, low, high, original } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }),
            Self::Yarn(yarn) => json!({
                "rope_type": "yarn",
                "factor": yarn.factor,
                "original_max_position_embeddings": yarn.original,
                "beta_fast": yarn.fast,
                "beta_slow": yarn.slow,
                "truncate": yarn.truncate,
                "attention_factor": yarn.attention,
                "mscale": yarn.scales.map(|(one, _)| one),
                "mscale_all_dim": yarn.scales.map(|(_, all)| all),
            }),
        }
    }
}

fn refused(file: &Path, setting: &'static str, found: String, allowed: &'static str) -> Error {
    Error::Unsupported { file: file.to_path_buf(), setting, found, allowed }
}

fn check(
    file: &Path,
    setting: &'static str,
    found: f64,
    allowed: &'static str,
    holds: impl Fn(f64) -> bool,
) -> Result<(), Error> {
    if found.is_finite() && holds(found) {
        return Ok(());
    }
    Err(refused(file, setting, found.to_string(), allowed))
}

/// The cosines and sines of the first positions, `[positions, half]` each.
#[derive(Clone, Debug)]
pub(crate) struct Rotations<R> {
    cosines: Vec<R>,
    sines: Vec<R>,
    half: usize,
}

/// Which way queries and keys are turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Forward,
    /// The adjoint.
    Back,
}

impl<R: Real> Rotations<R> {
    /// For positions under `count`.
    pub(crate) fn new(rotary: &Rotary, head_width: usize, count: usize) -> Self {
        let (frequencies, length) = rotary.frequencies(head_width);
        let angles = (0..count).flat_map(|position| {
            frequencies.iter().map(move |frequency| (position as f64 * frequency).sin_cos())
        });
        let (sines, cosines) =
            angles.map(|(sine, cosine)| (R::of(length * sine), R::of(length * cosine))).unzip();
        Self { cosines, sines, half: head_width / 2 }
    }

    /// Turns every head of every row of `values [positions, heads · head width]`.
    ///
    /// ```text
    /// a ← a cos − b sin,   b ← b cos + a sin     forward; back with −sin
    /// ```
    pub(crate) fn turn(
        &self,
        turn: Turn,
        values: &mut [R],
        positions: impl ExactSizeIterator<Item = usize>,
    ) {
        let width = values.len() / positions.len().max(1);
        for (row, position) in values.chunks_exact_mut(width.max(1)).zip(positions) {
            let place = position * self.half..(position + 1) * self.half;
            let (cosines, sines) = (&self.cosines[place.clone()], &self.sines[place]);
            wide(
                #[inline(always)]
                || {
                    for head in row.chunks_exact_mut(2 * self.half) {
                        let (left, right) = head.split_at_mut(self.half);
                        let pairs = left.iter_mut().zip(right);
                        for ((a, b), (&cosine, &sine)) in pairs.zip(cosines.iter().zip(sines)) {
                            let sine = if turn == Turn::Forward { sine } else { -sine };
                            (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
                        }
                    }
                },
            );
        }
    }
}
