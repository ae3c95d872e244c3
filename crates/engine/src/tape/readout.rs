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
    pub(super) predictions: Vec<R>,
}

/// Adjoints of what the final norm puts out, or of what is made of it: the rows' sequences, and a row
/// for each.
pub(super) struct RowSeeds<'a, R> {
    pub(super) sequences: &'a [usize],
    /// They are written over.
    pub(super) values: &'a mut [R],
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
        let logits = self.logits_of(seeds);
        let size = seeds.len() * model.config().width;
        let each: Vec<usize> = (0..seeds.len()).collect();
        self.adjoint_of_logits(model, &logits, &mut normed[..size]);
        let seeds = RowSeeds { sequences: &each, values: &mut normed[..size] };
        self.adjoint_of_normed(model, seeds, &mut stream[..size]);
    }

    /// The adjoint of the logits from that of the predictions, `[sequences, labels]`.
    pub(super) fn logits_of(&self, seeds: &[R]) -> Vec<R> {
        let labels = self.values.len();
        let mut logits = vec![R::ZERO; seeds.len() * labels];
        let rows = logits.chunks_exact_mut(labels).zip(self.probabilities.chunks_exact(labels));
        for (&seed, (logits, probabilities)) in seeds.iter().zip(rows) {
            expectation_adjoint(seed, probabilities, &self.values, logits);
        }
        logits
    }

    /// The adjoint of the final norm's output from that of the logits, `[rows, labels]`, written over
    /// `normed [rows, width]`.
    pub(super) fn adjoint_of_logits(&self, model: &Network<R>, logits: &[R], normed: &mut [R]) {
        let (width, labels) = (model.config().width, self.values.len());
        let rows = normed.len() / width;
        let target = ViewMut::new(normed, rows, width);
        let embedding = View::new(&self.embedding, labels, width);
        product(Write::Over, target, View::new(logits, rows, labels), embedding, R::ONE);
    }

    /// The adjoint of the stream from that of the final norm's output, `[rows, width]`, written over
    /// `stream [rows, width]`.
    pub(super) fn adjoint_of_normed(
        &self,
        model: &Network<R>,
        seeds: RowSeeds<'_, R>,
        stream: &mut [R],
    ) {
        let width = model.config().width;
        stream.fill(R::ZERO);
        let (kind, scale) = (model.config().norm_kind(), &model.final_norm.scale);
        let places = seeds.values.chunks_exact_mut(width).zip(stream.chunks_exact_mut(width));
        for (&sequence, (normed, stream)) in seeds.sequences.iter().zip(places) {
            let kept = Normalised {
                normalised: &self.normalised[sequence * width..][..width],
                inverse: &self.inverse[sequence..=sequence],
            };
            norm_adjoint(normed, kind, scale, kept, stream);
        }
    }

    /// How many labels predictions choose between.
    pub(super) fn labels(&self) -> usize {
        self.values.len()
    }
}

/// Predictions in double precision, or the first that is not finite.
pub(crate) fn finite<R: Real>(predictions: &[R], steps: usize) -> Result<Vec<f64>, Error> {
    match predictions.iter().position(|prediction| !prediction.finite()) {
        Some(sequence) => Err(Error::NotFinite { sequence, steps }),
        None => Ok(predictions.iter().map(|prediction| prediction.wide()).collect()),
    }
}
