//! From the last layer to the predictions: the final norm, the labels' logits, their expectation.

use crate::error::Error;
use crate::labels::Labels;
use crate::network::Network;
use crate::ops::{
    Normalised, NormalisedMut, View, ViewMut, Write, affine, expectation, expectation_adjoint,
    norm_adjoint, normalise, product,
};
use crate::real::Real;

/// From the last layer to the predictions.
#[derive(Clone, Debug)]
pub(super) struct Readout<R> {
    /// Output embedding of the labels, `[labels, width]`, and their values.
    embedding: Vec<R>,
    values: Vec<R>,
    /// `[sequences, width]` and `[sequences]`.
    normalised: Vec<R>,
    inverse: Vec<R>,
    /// `[sequences, labels]`.
    probabilities: Vec<R>,
    /// The adjoint of the logits, `[sequences, labels]`.
    logits: Vec<R>,
    pub(super) predictions: Vec<R>,
}

impl<R: Real> Readout<R> {
    pub(super) fn new(model: &Network<R>, labels: &Labels, sequences: usize) -> Self {
        let (width, count) = (model.config().width, labels.tokens().len());
        Self {
            embedding: model.unembedding_of(labels.tokens()),
            values: labels.values().iter().map(|&value| R::of(value)).collect(),
            normalised: vec![R::ZERO; sequences * width],
            inverse: vec![R::ZERO; sequences],
            probabilities: vec![R::ZERO; sequences * count],
            logits: vec![R::ZERO; sequences * count],
            predictions: vec![R::ZERO; sequences],
        }
    }

    /// `stream` and `normed` are `[sequences, width]`, for the first sequences of the layout.
    pub(super) fn run(&mut self, model: &Network<R>, stream: &[R], normed: &mut [R]) {
        let (width, labels) = (model.config().width, self.values.len());
        let sequences = stream.len() / width;
        let kept = NormalisedMut {
            normalised: &mut self.normalised[..stream.len()],
            inverse: &mut self.inverse[..sequences],
        };
        let (kind, epsilon) = (model.config().norm_kind(), model.config().norm_epsilon);
        normalise(stream, kind, width, R::of(epsilon), kept);
        affine(&self.normalised[..stream.len()], &model.final_norm, normed);
        let logits = &mut self.probabilities[..sequences * labels];
        let target = ViewMut::new(logits, sequences, labels);
        let embedding = View::new(&self.embedding, labels, width).transposed();
        product(Write::Over, target, View::new(normed, sequences, width), embedding, R::ONE);
        let logits = self.probabilities.chunks_exact_mut(labels);
        for (prediction, logits) in self.predictions.iter_mut().zip(logits) {
            *prediction = expectation(logits, &self.values);
        }
    }

    /// The adjoint of the stream, written over `stream [sequences, width]`, one
    /// sequence per seed.
    pub(super) fn adjoint(
        &mut self,
        model: &Network<R>,
        seeds: &[R],
        normed: &mut [R],
        stream: &mut [R],
    ) {
        let (width, labels) = (model.config().width, self.values.len());
        let rows = self.logits.chunks_exact_mut(labels);
        for ((&seed, logits), probabilities) in
            seeds.iter().zip(rows).zip(self.probabilities.chunks_exact(labels))
        {
            expectation_adjoint(seed, probabilities, &self.values, logits);
        }
        let size = seeds.len() * width;
        let (normed, stream) = (&mut normed[..size], &mut stream[..size]);
        let logits = View::new(&self.logits[..seeds.len() * labels], seeds.len(), labels);
        let embedding = View::new(&self.embedding, labels, width);
        product(
            Write::Over,
            ViewMut::new(normed, seeds.len(), width),
            logits,
            embedding,
            R::ONE,
        );
        stream.fill(R::ZERO);
        let kept = Normalised {
            normalised: &self.normalised[..size],
            inverse: &self.inverse[..seeds.len()],
        };
        let (kind, scale) = (model.config().norm_kind(), &model.final_norm.scale);
        norm_adjoint(normed, kind, scale, kept, stream);
    }
}

/// Predictions in double precision, or the first that is not finite.
pub(crate) fn finite<R: Real>(predictions: &[R], steps: usize) -> Result<Vec<f64>, Error> {
    match predictions.iter().position(|prediction| !prediction.finite()) {
        Some(sequence) => Err(Error::NotFinite { sequence, steps }),
        None => Ok(predictions.iter().map(|prediction| prediction.wide()).collect()),
    }
}
