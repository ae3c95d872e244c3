//! One layer of a model in training: its forward pass and, next to it, its adjoint.
//!
//! ```text
//! z = norm₁(x);  q, k, v = z W + b;  x ← x + attention(q, k, v) W_O + b_O
//! z = norm₂(x);                      x ← x + gelu(z W_up + b) W_down + b
//! ```
//!
//! Unlike in prediction every token is asked in every layer, and every parameter is trained.

use crate::attention::{AttentionPlan, Heads, ScoreAdjoints};
use crate::config::Config;
use crate::ops::{View, ViewMut, Write, gelu, linear, linear_add, product, scale_by};
use crate::pretrain::buffers::{LayerTape, Scratch};
use crate::pretrain::chunk::{Pass, add_rows, linear_gradient};
use crate::pretrain::places::LayerPlace;
use crate::real::Real;

/// A layer of a model on some sequences.
#[derive(Clone, Copy)]
pub(crate) struct LayerPass<'a, R> {
    pub(crate) pass: Pass<'a, R>,
    pub(crate) place: &'a LayerPlace,
    pub(crate) plan: &'a AttentionPlan,
}

impl<R: Real> LayerPass<'_, R> {
    /// Adds attention's share to `stream [rows, width]`.
    pub(crate) fn attend(
        &self,
        stream: &mut [R],
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
    ) {
        let Self { pass, place, plan } = *self;
        let width = pass.config.width;
        tape.attention_norm.fill(stream, pass.config);
        pass.norm(&place.attention_norm, &tape.attention_norm).affine(&mut scratch.normed);
        let (weight, bias) =
            (pass.matrix(&place.attention_input, width), pass.bias(&place.attention_input));
        // [width, 3 · width] holds queries, keys and values side by side.
        let targets = [&mut tape.queries, &mut tape.keys, &mut tape.values];
        for (part, target) in targets.into_iter().enumerate() {
            let columns = part * width..(part + 1) * width;
            let normed = pass.rows(&scratch.normed);
            linear(target, normed, weight.columns(columns.clone()), &bias[columns]);
        }
        plan.attend(&tape.queries, &tape.keys, &mut tape.probabilities);
        plan.mix(&tape.probabilities, &tape.values, &mut tape.mixed);
        let output = &place.attention_output;
        let weight = pass.matrix(output, width);
        linear_add(stream, pass.rows(&tape.mixed), weight, pass.bias(output));
    }

    /// Turns the adjoint of the output of [`LayerPass::attend`], `stream`, into that of its input.
    pub(crate) fn attend_adjoint(
        &self,
        stream: &mut [R],
        tape: &LayerTape<R>,
        scratch: &mut Scratch<R>,
        gradient: &mut [R],
    ) {
        let Self { pass, place, plan } = *self;
        let width = pass.config.width;
        let Scratch { normed, normed_adjoint, queries, keys, values, mixed, scores, .. } =
            scratch;
        let stream_rows = pass.rows(stream);
        linear_gradient(gradient, &place.attention_output, pass.rows(&tape.mixed), stream);
        let back = pass.matrix(&place.attention_output, width).transposed();
        product(Write::Over, pass.rows_mut(mixed), stream_rows, back, R::ONE);
        plan.adjoint_of_values(&tape.probabilities, mixed, values);
        let heads = Heads {
            queries: &tape.queries,
            keys: &tape.keys,
            values: &tape.values,
            probabilities: &tape.probabilities,
        };
        plan.adjoint_of_scores(heads, mixed, ScoreAdjoints { queries, keys, scores });
        let norm = pass.norm(&place.attention_norm, &tape.attention_norm);
        norm.affine(normed);
        let input = &place.attention_input;
        let mut write = Write::Over;
        for (part, adjoint) in [queries, keys, values].into_iter().enumerate() {
            let columns = part * width..(part + 1) * width;
            add_rows(&mut gradient[input.bias.clone()][columns.clone()], adjoint);
            let target = &mut gradient[input.weight.clone()];
            let target = ViewMut::new(target, width, 3 * width).columns(columns.clone());
            let adjoint = pass.rows(adjoint);
            product(Write::Add, target, pass.rows(normed).transposed(), adjoint, R::ONE);
            let back = pass.matrix(input, width).columns(columns).transposed();
            product(write, pass.rows_mut(normed_adjoint), adjoint, back, R::ONE);
            write = Write::Add;
        }
        norm.adjoint(normed_adjoint, stream, gradient);
    }

    /// Adds the MLP's share to `stream [rows, width]`.
    pub(crate) fn transform(
        &self,
        stream: &mut [R],
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
    ) {
        let Self { pass, place, .. } = *self;
        let Config { width, inner, .. } = *pass.config;
        tape.mlp_norm.fill(stream, pass.config);
        pass.norm(&place.mlp_norm, &tape.mlp_norm).affine(&mut scratch.normed);
        let (weight, bias) = (pass.matrix(&place.mlp_up, width), pass.bias(&place.mlp_up));
        linear(&mut tape.slopes, pass.rows(&scratch.normed), weight, bias);
        gelu(&mut tape.slopes, &mut tape.activated);
        let activated = View::new(&tape.activated, tape.activated.len() / inner, inner);
        let (weight, bias) = (pass.matrix(&place.mlp_down, inner), pass.bias(&place.mlp_down));
        linear_add(stream, activated, weight, bias);
    }

    /// Turns the adjoint of the output of [`LayerPass::transform`], `stream`, into that of its input.
    pub(crate) fn transform_adjoint(
        &self,
        stream: &mut [R],
        tape: &LayerTape<R>,
        scratch: &mut Scratch<R>,
        gradient: &mut [R],
    ) {
        let Self { pass, place, .. } = *self;
        let Config { width, inner, .. } = *pass.config;
        let rows = tape.activated.len() / inner;
        let Scratch { normed, normed_adjoint, inner: adjoint, .. } = scratch;
        let activated = View::new(&tape.activated, rows, inner);
        linear_gradient(gradient, &place.mlp_down, activated, stream);
        let back = pass.matrix(&place.mlp_down, inner).transposed();
        let target = ViewMut::new(adjoint, rows, inner);
        product(Write::Over, target, pass.rows(stream), back, R::ONE);
        scale_by(adjoint, &tape.slopes);
        let norm = pass.norm(&place.mlp_norm, &tape.mlp_norm);
        norm.affine(normed);
        linear_gradient(gradient, &place.mlp_up, pass.rows(normed), adjoint);
        let back = pass.matrix(&place.mlp_up, width).transposed();
        let adjoint = View::new(adjoint, rows, inner);
        product(Write::Over, pass.rows_mut(normed_adjoint), adjoint, back, R::ONE);
        norm.adjoint(normed_adjoint, stream, gradient);
    }
}
