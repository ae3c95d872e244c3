//! How a model is trained: the numbers of the optimiser and the course of its learning rate.

use crate::error::Error;

/// How a model is trained.
///
/// | name | default | meaning | range |
/// |---|---|---|---|
/// | `seed` | 0 | where the initial parameters come from | |
/// | `steps` | 4000 | where the learning rate has come down to its last value | at least 1 |
/// | `warmup_steps` | 200 | steps in which the learning rate rises | at most `steps` |
/// | `learning_rate` | 1e-3 | its highest value | finite, at least 0 |
/// | `final_learning_rate` | 1e-4 | its last value | 0 to `learning_rate` |
/// | `mean_decay` | 0.9 | `β₁`, share of the old mean of gradients | 0 to under 1 |
/// | `square_decay` | 0.95 | `β₂`, share of the old mean of their squares | 0 to under 1 |
/// | `epsilon` | 1e-8 | added to the root of the mean square | finite, not 0 in `f32` |
/// | `weight_decay` | 0.1 | how fast matrices are drawn to 0, per unit of learning rate | finite, at least 0 |
/// | `largest_gradient_norm` | 1.0 | longer gradients are shortened to it | over 0 |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, PretrainSettings};
///
/// let refused = PretrainSettings { mean_decay: 1.0, ..PretrainSettings::default() }.check();
/// assert!(matches!(refused, Err(Error::OutOfRange { quantity: "mean_decay", .. })));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PretrainSettings {
    /// Where the initial parameters come from.
    pub seed: u64,
    /// Where the learning rate has come down to its last value.
    pub steps: usize,
    /// Number of steps over which the learning rate rises to its highest value.
    pub warmup_steps: usize,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// The learning rate at the end.
    pub final_learning_rate: f64,
    /// `β₁`: the share of the old mean of gradients in the new one.
    pub mean_decay: f64,
    /// `β₂`: the share of the old mean of squared gradients in the new one.
    pub square_decay: f64,
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// How fast matrices and embeddings are drawn to 0, per unit of learning rate.
    pub weight_decay: f64,
    /// The norm of all gradients together that longer ones are shortened to.
    pub largest_gradient_norm: f64,
}

impl Default for PretrainSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            steps: 4000,
            warmup_steps: 200,
            learning_rate: 1e-3,
            final_learning_rate: 1e-4,
            mean_decay: 0.9,
            square_decay: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            largest_gradient_norm: 1.0,
        }
    }
}

impl PretrainSettings {
    /// Whether every number is within its range.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for the first that is not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PretrainSettings};
    /// PretrainSettings::default().check()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        let decay = |value: f64| (0.0..1.0).contains(&value);
        let size = |value: f64| value >= 0.0 && value.is_finite();
        let fraction = "at least 0 and under 1";
        for (sound, quantity, found, allowed) in [
            (self.steps >= 1, "steps", self.steps as f64, "at least 1"),
            (
                self.warmup_steps <= self.steps,
                "warmup_steps",
                self.warmup_steps as f64,
                "at most steps",
            ),
            (
                size(self.learning_rate),
                "learning_rate",
                self.learning_rate,
                "finite and at least 0",
            ),
            (
                size(self.final_learning_rate)
                    && self.final_learning_rate <= self.learning_rate,
                "final_learning_rate",
                self.final_learning_rate,
                "at least 0 and at most learning_rate",
            ),
            (decay(self.mean_decay), "mean_decay", self.mean_decay, fraction),
            (decay(self.square_decay), "square_decay", self.square_decay, fraction),
            (
                size(self.epsilon) && self.epsilon >= f64::from(f32::MIN_POSITIVE),
                "epsilon",
                self.epsilon,
                "finite and at least 1.2e-38, so that it is not 0 in float32",
            ),
            (
                size(self.weight_decay),
                "weight_decay",
                self.weight_decay,
                "finite and at least 0",
            ),
            (
                self.largest_gradient_norm > 0.0,
                "largest_gradient_norm",
                self.largest_gradient_norm,
                "over 0",
            ),
        ] {
            if !sound {
                return Err(Error::OutOfRange { quantity, found, allowed });
            }
        }
        Ok(())
    }

    /// The learning rate of a step, counted from 0: up in a line, down along half a cosine.
    ///
    /// ```text
    /// t < warmup:   highest · (t + 1)/warmup
    /// t ≥ warmup:   last + ½ (highest − last)(1 + cos(π · (t − warmup)/(steps − warmup)))
    /// t ≥ steps:    last
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::PretrainSettings;
    ///
    /// let settings = PretrainSettings {
    ///     steps: 20,
    ///     warmup_steps: 4,
    ///     learning_rate: 1.0,
    ///     final_learning_rate: 0.5,
    ///     ..PretrainSettings::default()
    /// };
    /// let rates = [0, 3, 4, 12, 20, 99].map(|step| settings.learning_rate_at(step));
    /// assert_eq!(rates, [0.25, 1.0, 1.0, 0.75, 0.5, 0.5]);
    /// ```
    #[must_use]
    pub fn learning_rate_at(&self, step: usize) -> f64 {
        let (highest, last) = (self.learning_rate, self.final_learning_rate);
        if step < self.warmup_steps {
            return highest * (step + 1) as f64 / self.warmup_steps as f64;
        }
        if step >= self.steps {
            return last;
        }
        let done = (step - self.warmup_steps) as f64 / (self.steps - self.warmup_steps) as f64;
        last + 0.5 * (highest - last) * (1.0 + (std::f64::consts::PI * done).cos())
    }
}
