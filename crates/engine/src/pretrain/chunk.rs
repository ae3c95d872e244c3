//! Some sequences through a whole model, forward and back: the loss and all its derivatives.
//!
//! In: parameters in one vector, packed sequences and their targets. Out: the summed loss, and
//! its gradient added to another vector of the same form. Each forward step stands next to its
//! adjoint. Products run over all tokens at once; nothing here allocates.

use crate::attention::AttentionPlan;
use crate::config::Config;
use crate::layer::{gather, scatter_add};
use crate::layout::Layout;
use crate::ops::{NormKind, Normalised, View, ViewMut, Write, add, norm_adjoint, product};
use crate::pretrain::buffers::{Buffers, HeadTape, NormTape};
use crate::pretrain::layer::LayerPass;
use crate::pretrain::places::{LinearPlace, NormPlace, Places};
use crate::real::Real;

/// Packed sequences and what should follow in them.
pub(crate) struct Chunk {
    pub(crate) layout: Layout,
    pub(crate) plan: AttentionPlan,
    /// The row of each target and the token that should follow there.
    pub(crate) rows: Vec<usize>,
    pub(crate) tokens: Vec<u32>,
}

/// A model whose parameters are one vector.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a, R> {
    pub(crate) config: &'a Config,
    pub(crate) places: &'a Places,
    pub(crate) weights: &'a [R],
}

impl<'a, R: Real> Pass<'a, R> {
    /// Adds `weight` times the gradient of the summed loss to `gradient`; returns the loss.
    pub(crate) fn run(
        &self,
        chunk: &Chunk,
        weight: f64,
        buffers: &mut Buffers<R>,
        gradient: &mut [R],
    ) -> f64 {
        buffers.fit(self.config, &chunk.layout, &chunk.plan, chunk.rows.len());
        let Buffers { stream, layers, head, scratch } = buffers;
        self.embed(&chunk.layout, stream);
        let pass = |place| LayerPass { pass: *self, place, plan: &chunk.plan };
        for (place, tape) in self.places.layers.iter().zip(&mut *layers) {
            pass(place).attend(stream, tape, scratch);
            pass(place).transform(stream, tape, scratch);
        }
        let loss = self.read(chunk, weight, stream, head);
        self.read_adjoint(chunk, head, stream, gradient);
        for (place, tape) in self.places.layers.iter().zip(&*layers).rev() {
            pass(place).transform_adjoint(stream, tape, scratch, gradient);
            pass(place).attend_adjoint(stream, tape, scratch, gradient);
        }
        self.embed_adjoint(&chunk.layout, stream, gradient);
        loss
    }

    pub(crate) fn matrix(&self, place: &LinearPlace, inputs: usize) -> View<'a, R> {
        let values = &self.weights[place.weight.clone()];
        View::new(values, inputs, values.len() / inputs)
    }

    pub(crate) fn bias(&self, place: &LinearPlace) -> &'a [R] {
        &self.weights[place.bias.clone()]
    }

    /// A buffer of rows that are as wide as the stream.
    pub(crate) fn rows<'b>(&self, values: &'b [R]) -> View<'b, R> {
        View::new(values, values.len() / self.config.width, self.config.width)
    }

    pub(crate) fn rows_mut<'b>(&self, values: &'b mut [R]) -> ViewMut<'b, R> {
        let rows = values.len() / self.config.width;
        ViewMut::new(values, rows, self.config.width)
    }

    /// Token plus position: `stream [rows, width]`.
    fn embed(&self, layout: &Layout, stream: &mut [R]) {
        let width = self.config.width;
        let tokens = &self.weights[self.places.token_embedding.clone()];
        let positions = &self.weights[self.places.position_embedding.clone()];
        let rows = layout.tokens().iter().zip(layout.positions());
        for ((&token, &position), row) in rows.zip(stream.chunks_exact_mut(width)) {
            row.copy_from_slice(&tokens[token as usize * width..][..width]);
            add(row, &positions[position * width..][..width]);
        }
    }

    fn embed_adjoint(&self, layout: &Layout, stream: &[R], gradient: &mut [R]) {
        let width = self.config.width;
        let rows = layout.tokens().iter().zip(layout.positions());
        for ((&token, &position), row) in rows.zip(stream.chunks_exact(width)) {
            let token = self.places.token_embedding.start + token as usize * width;
            add(&mut gradient[token..][..width], row);
            let position = self.places.position_embedding.start + position * width;
            add(&mut gradient[position..][..width], row);
        }
    }

    /// A norm and what it remembers of the forward pass.
    pub(crate) fn norm<'b>(
        &self,
        place: &'b NormPlace,
        tape: &'b NormTape<R>,
    ) -> NormPass<'b, R>
    where
        'a: 'b,
    {
        NormPass { pass: *self, place, tape }
    }

    /// From the stream to the summed loss; leaves the adjoint of the logits in `head`.
    fn read(&self, chunk: &Chunk, weight: f64, stream: &[R], head: &mut HeadTape<R>) -> f64 {
        let Config { width, vocabulary, .. } = *self.config;
        gather(stream, &chunk.rows, width, &mut head.stream);
        head.norm.fill(&head.stream, self.config);
        self.norm(&self.places.final_norm, &head.norm).affine(&mut head.normed);
        let target = ViewMut::new(&mut head.logits, chunk.rows.len(), vocabulary);
        let embedding = self.rows(&self.weights[self.places.unembedding.clone()]);
        let normed = self.rows(&head.normed);
        product(Write::Over, target, normed, embedding.transposed(), R::ONE);
        let rows = head.logits.chunks_exact_mut(vocabulary).zip(&chunk.tokens);
        rows.map(|(row, &token)| cross_entropy(row, token as usize, R::of(weight))).sum()
    }

    /// From the adjoint of the logits to that of the stream, `[rows, width]`.
    fn read_adjoint(
        &self,
        chunk: &Chunk,
        head: &mut HeadTape<R>,
        stream: &mut [R],
        gradient: &mut [R],
    ) {
        let Config { width, vocabulary, .. } = *self.config;
        let logits = View::new(&head.logits, chunk.rows.len(), vocabulary);
        let place = self.places.unembedding.clone();
        let target = self.rows_mut(&mut gradient[place.clone()]);
        product(Write::Add, target, logits.transposed(), self.rows(&head.normed), R::ONE);
        let embedding = self.rows(&self.weights[place]);
        let target = self.rows_mut(&mut head.normed_adjoint);
        product(Write::Over, target, logits, embedding, R::ONE);
        head.stream.fill(R::ZERO);
        let norm = self.norm(&self.places.final_norm, &head.norm);
        norm.adjoint(&mut head.normed_adjoint, &mut head.stream, gradient);
        stream.fill(R::ZERO);
        scatter_add(&head.stream, &chunk.rows, width, stream);
    }
}

/// A norm of a model on some sequences.
#[derive(Clone, Copy)]
pub(crate) struct NormPass<'a, R> {
    pass: Pass<'a, R>,
    place: &'a NormPlace,
    tape: &'a NormTape<R>,
}

impl<R: Real> NormPass<'_, R> {
    /// `y = scale · x̂ + shift` for every row: `target [rows, width]`.
    pub(crate) fn affine(&self, target: &mut [R]) {
        let Self { pass, place, tape } = *self;
        let width = pass.config.width;
        let scale = &pass.weights[place.scale.clone()];
        let shift = &pass.weights[place.shift.clone()];
        let rows = tape.normalised.chunks_exact(width).zip(target.chunks_exact_mut(width));
        for (row, target) in rows {
            let weights = scale.iter().zip(shift);
            for ((target, &value), (&scale, &shift)) in target.iter_mut().zip(row).zip(weights)
            {
                *target = value * scale + shift;
            }
        }
    }

    /// Adds the adjoint of the norm's input to `stream`, from that of its output, which is lost.
    pub(crate) fn adjoint(&self, adjoint: &mut [R], stream: &mut [R], gradient: &mut [R]) {
        let Self { pass, place, tape } = *self;
        let width = pass.config.width;
        let scale = &mut gradient[place.scale.clone()];
        let rows = adjoint.chunks_exact(width).zip(tape.normalised.chunks_exact(width));
        for (row, normalised) in rows {
            for ((scale, &row), &x) in scale.iter_mut().zip(row).zip(normalised) {
                *scale += row * x;
            }
        }
        add_rows(&mut gradient[place.shift.clone()], adjoint);
        let scale = &pass.weights[place.scale.clone()];
        let kept = Normalised { normalised: &tape.normalised, inverse: &tape.inverse };
        norm_adjoint(adjoint, NormKind::Deviation, scale, kept, stream);
    }
}

/// `−log softmax(z)_target`, turning the logits `z` into `weight` times their adjoint.
///
/// ```text
/// loss = log Σ_j e^(z_j − z_max) − (z_target − z_max)      z̄_j = weight · (p_j − [j = target])
/// ```
pub(crate) fn cross_entropy<R: Real>(logits: &mut [R], target: usize, weight: R) -> f64 {
    let largest = logits
        .iter()
        .fold(R::of(f64::NEG_INFINITY), |most, &logit| if logit > most { logit } else { most });
    let own = logits[target] - largest;
    let mut sum = R::ZERO;
    for logit in logits.iter_mut() {
        *logit = (*logit - largest).exponential();
        sum += *logit;
    }
    let scale = weight / sum;
    for logit in logits.iter_mut() {
        *logit *= scale;
    }
    logits[target] -= weight;
    sum.wide().ln() - own.wide()
}

/// Adds `inputᵀ · adjoint` and the sum of the rows of `adjoint [rows, out]` to the gradient.
pub(crate) fn linear_gradient<R: Real>(
    gradient: &mut [R],
    place: &LinearPlace,
    input: View<'_, R>,
    adjoint: &[R],
) {
    let (rows, inputs) = input.shape();
    let outputs = place.bias.len();
    add_rows(&mut gradient[place.bias.clone()], adjoint);
    let target = ViewMut::new(&mut gradient[place.weight.clone()], inputs, outputs);
    let adjoint = View::new(adjoint, rows, outputs);
    product(Write::Add, target, input.transposed(), adjoint, R::ONE);
}

/// `target += Σ rows` of `values [rows, target.len()]`.
pub(crate) fn add_rows<R: Real>(target: &mut [R], values: &[R]) {
    for row in values.chunks_exact(target.len()) {
        add(target, row);
    }
}
