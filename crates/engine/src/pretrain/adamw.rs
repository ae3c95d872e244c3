//! The optimiser: shortens a gradient that is too long and takes one step of AdamW.

use crate::pretrain::places::Places;
use crate::pretrain::settings::PretrainSettings;
use crate::real::Real;

/// Running means of the gradients and of their squares, one entry per parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moments<R> {
    pub(crate) mean: Vec<R>,
    pub(crate) square: Vec<R>,
}

impl<R: Real> Moments<R> {
    pub(crate) fn zeros(size: usize) -> Self {
        Self { mean: vec![R::ZERO; size], square: vec![R::ZERO; size] }
    }
}

/// Everything that changes from step to step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) steps: usize,
    pub(crate) weights: Vec<f32>,
    pub(crate) moments: Moments<f32>,
}

impl State {
    /// Parameters, means and squares.
    pub(crate) fn parts(&self) -> [&[f32]; 3] {
        [&self.weights, &self.moments.mean, &self.moments.square]
    }
}

/// The Euclidean norm, summed in double precision from first to last.
pub(crate) fn norm<R: Real>(values: &[R]) -> f64 {
    values.iter().map(|value| value.wide() * value.wide()).sum::<f64>().sqrt()
}

/// What a gradient of this norm is multiplied with, so that it is no longer than `largest`.
pub(crate) fn clip_factor(norm: f64, largest: f64) -> f64 {
    if norm > largest { largest / norm } else { 1.0 }
}

/// One step of AdamW (Loshchilov and Hutter, 2019) on all parameters.
///
/// ```text
/// m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
/// w ← (1 − η · decay) w − η · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)
/// ```
///
/// `t` is the number of this step, counted from 1, `η` the learning rate and `g` the gradient times
/// `factor`. Norms and biases do not decay.
pub(crate) fn update(
    state: &mut State,
    gradient: &[f32],
    factor: f64,
    places: &Places,
    settings: &PretrainSettings,
) {
    let State { steps: step, weights, moments } = state;
    let step = *step;
    let rate = settings.learning_rate_at(step);
    let (mean_decay, square_decay) = (settings.mean_decay, settings.square_decay);
    // A decay of 0.95 has vanished long before a count leaves the range of an exponent.
    let count = i32::try_from(step).unwrap_or(i32::MAX).saturating_add(1);
    let mean_share = 1.0 - mean_decay.powi(count);
    let square_share = 1.0 - square_decay.powi(count);
    let (factor, epsilon) = (f32::of(factor), f32::of(settings.epsilon));
    let (old_mean, new_mean) = (f32::of(mean_decay), f32::of(1.0 - mean_decay));
    let (old_square, new_square) = (f32::of(square_decay), f32::of(1.0 - square_decay));
    let (length, root) = (f32::of(rate / mean_share), f32::of(1.0 / square_share.sqrt()));
    for tensor in &places.tensors {
        let decay = if tensor.decays() { settings.weight_decay } else { 0.0 };
        let kept = f32::of(1.0 - rate * decay);
        let range = tensor.range.clone();
        let weights = weights[range.clone()].iter_mut().zip(&gradient[range.clone()]);
        let means = moments.mean[range.clone()].iter_mut();
        let squares = moments.square[range].iter_mut();
        for ((weight, &gradient), (mean, square)) in weights.zip(means.zip(squares)) {
            let gradient = gradient * factor;
            *mean = old_mean * *mean + new_mean * gradient;
            *square = old_square * *square + new_square * gradient * gradient;
            *weight = kept * *weight - length * *mean / (square.sqrt() * root + epsilon);
        }
    }
}
