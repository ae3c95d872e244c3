//! A layer whose derivatives are taken at the tokens where predictions are read, and nowhere else.
//!
//! Going forward, every token is computed, and what the backward pass needs of the read-outs is copied to
//! rows of their own. Going back, one row per prediction passes through the layer; the keys and values
//! of the other tokens are constants. A [`LayerPass`] for the way back has the read-outs as its rows.

use super::{Depth, LayerBackward, LayerPass, LayerTape, ReadOuts, Scratch, either, gather};
use crate::attention::{AttentionPlan, Heads, KeptProbabilities, OwnAdjoints};
use crate::block_kind::BlockKind;
use crate::buffer::Buffer;
use crate::ops::{NormalisedMut, View, Write, affine, normalise};
use crate::real::Real;
use crate::rotary::Turn;

/// What a forward pass writes over in every layer.
pub(crate) struct LocalForward<'a, R: Real> {
    pub(crate) tape: &'a mut LayerTape<R>,
    pub(crate) scratch: &'a mut Scratch<R>,
    /// Keys and values of all tokens that can be seen, of which the last rows are the layer's own.
    pub(crate) keys: &'a mut [R],
    pub(crate) values: &'a mut [R],
    /// Normalised inputs of the tokens that were computed earlier, if something is made of them.
    pub(crate) earlier: &'a [R],
    /// Room for the scores of one group.
    pub(crate) scores: &'a mut [R],
}

/// What is kept of the read-outs, and which tokens they are.
pub(crate) struct LocalKeep<'a, R: Real> {
    pub(crate) tape: &'a mut LayerTape<R>,
    /// The row of each sequence's last token.
    pub(crate) rows: &'a [usize],
    /// The same in ascending order, each with its sequence.
    pub(crate) ascending: &'a [(usize, usize)],
    /// Of the read-outs.
    pub(crate) plan: &'a AttentionPlan,
}

impl<R: Real> LayerPass<'_, R> {
    /// From the stream to the mixed heads, `stream [rows, width]`, with keys and values of every token.
    pub(crate) fn attend_in_groups(
        &self,
        stream: &[R],
        forward: &mut LocalForward<'_, R>,
        keep: Option<&mut LocalKeep<'_, R>>,
    ) {
        let LocalForward { tape, scratch, keys, values, earlier, scores } = forward;
        let (width, count) = (self.width(), self.positions.len());
        let (rows, asked) = (count * width, self.asked());
        let kept = NormalisedMut {
            normalised: &mut tape.attention_normalised[..rows],
            inverse: &mut tape.attention_inverse[..count],
        };
        let config = self.model.config();
        normalise(stream, config.norm_kind(), width, R::of(config.norm_epsilon), kept);
        let normed = &mut scratch.normed[..rows];
        affine(&tape.attention_normalised[..rows], self.norms()[0], normed);
        let first = keys.len() - self.key_values();
        self.project(BlockKind::Key, normed, &mut keys[first..]);
        self.turn_keys(Turn::Forward, &mut keys[first..]);
        self.project(BlockKind::Value, normed, &mut values[first..]);
        let queries = &mut tape.queries[..asked];
        match self.readouts {
            None => self.project(BlockKind::Query, normed, queries),
            Some(ReadOuts { rows, .. }) => {
                let gathered = &mut scratch.gathered[..rows.len() * width];
                gather(normed, rows, width, gathered);
                self.project(BlockKind::Query, gathered, queries);
            }
        }
        self.turn_queries(Turn::Forward, queries);
        let heads = Heads { queries, keys, values, probabilities: &[] };
        let mixed = &mut scratch.normed[..asked];
        let Some(LocalKeep { tape: own, rows: readouts, ascending, plan }) = keep else {
            return self.plan.attend_in_groups(heads, scores, mixed, None);
        };
        let last: Vec<(usize, usize)>;
        let queries = if self.readouts.is_some() {
            last = (0..readouts.len()).map(|sequence| (sequence, sequence)).collect();
            &last[..]
        } else {
            ascending
        };
        let probabilities = &mut own.probabilities[..plan.probabilities()];
        let kept = KeptProbabilities { queries, plan, probabilities };
        self.plan.attend_in_groups(heads, scores, mixed, Some(kept));
        let places = Places { rows: readouts, own: self.readouts.is_some() };
        gather(&tape.attention_normalised, readouts, width, &mut own.attention_normalised);
        gather(&tape.attention_inverse, readouts, 1, &mut own.attention_inverse);
        places.copy(&tape.queries, config.attention_width(), &mut own.queries);
        places.copy(mixed, config.attention_width(), &mut own.mixed);
        if own.mixed_inputs.is_empty() {
            return;
        }
        let all;
        let seen = if earlier.is_empty() {
            &tape.attention_normalised[..rows]
        } else {
            all = [*earlier, &tape.attention_normalised[..rows]].concat();
            &all[..]
        };
        let inputs = View::new(seen, seen.len() / width, width);
        let size = readouts.len() * config.heads * width;
        // Probabilities sum to one, so a norm's weights may come after the mean.
        let mut means = Buffer::new(size);
        plan.mix_whole(&own.probabilities[..plan.probabilities()], inputs, &mut means);
        affine(&means, self.norms()[0], &mut own.mixed_inputs[..size]);
    }

    /// Keeps what the MLP left behind at the read-outs, after [`LayerPass::transform`].
    pub(crate) fn keep_transformed(
        &self,
        forward: &LocalForward<'_, R>,
        keep: &mut LocalKeep<'_, R>,
    ) {
        let LocalForward { tape, scratch, .. } = forward;
        let LocalKeep { tape: own, rows, .. } = keep;
        let (width, inner) = (self.width(), self.model.config().inner);
        let places = Places { rows, own: self.readouts.is_some() };
        places.copy(&tape.mlp_normalised, width, &mut own.mlp_normalised);
        places.copy(&tape.mlp_inverse, 1, &mut own.mlp_inverse);
        places.copy(&tape.slopes, inner, &mut own.slopes);
        places.copy(&tape.gate_slopes, inner, &mut own.gate_slopes);
        places.copy(&scratch.activated, inner, &mut own.activated);
    }

    /// The adjoints of the queries, keys and values of the read-outs, from that of the mixed heads.
    pub(crate) fn attend_adjoint_at_own(&self, backward: &mut LayerBackward<'_, R>) {
        let LayerBackward { tape, adjoints, scratch, depth } = backward;
        let (asked, own, depth) = (self.asked(), self.key_values(), *depth);
        let mixed = &scratch.mixed[..asked];
        self.keep_served(mixed, &mut adjoints.kept[BlockKind::Value as usize]);
        if depth <= Depth::Value {
            return;
        }
        let [values, _, own_queries, keys, ..] = &mut scratch.outputs;
        let kept_queries = &mut adjoints.kept[BlockKind::Query as usize];
        let queries = &mut either(kept_queries, own_queries)[..asked];
        let keys = &mut keys[..own];
        let heads = Heads {
            queries: &tape.queries[..asked],
            keys: self.plan.seen(&tape.keys),
            values: self.plan.seen(&tape.values),
            probabilities: &tape.probabilities[..self.plan.probabilities()],
        };
        let targets = OwnAdjoints {
            queries: &mut *queries,
            keys: &mut *keys,
            values: &mut values[..own],
            scores: &mut scratch.scores,
        };
        self.plan.adjoint_at_own(heads, mixed, targets);
        self.turn_queries(Turn::Back, queries);
        self.turn_keys(Turn::Back, keys);
    }

    /// The adjoint of the first norm's output, left in the scratch, and that of its weights.
    pub(crate) fn normed_adjoint_at_own(&self, backward: &mut LayerBackward<'_, R>) {
        let LayerBackward { tape, adjoints, scratch, .. } = backward;
        let (rows, own) = (self.positions.len() * self.width(), self.key_values());
        let [values, _, own_queries, keys, ..] = &mut scratch.outputs;
        let kept_queries = &mut adjoints.kept[BlockKind::Query as usize];
        let queries = &either(kept_queries, own_queries)[..self.asked()];
        let normed = &mut scratch.normed[..rows];
        self.back(Write::Over, BlockKind::Value, &values[..own], normed);
        self.back(Write::Add, BlockKind::Key, &keys[..own], normed);
        self.back(Write::Add, BlockKind::Query, queries, normed);
        let normalised = &tape.attention_normalised[..rows];
        self.keep_norm(0, &mut adjoints.norms, normed, normalised);
    }
}

/// Where the read-outs stand among the asked rows of a layer.
struct Places<'a> {
    rows: &'a [usize],
    /// Whether the asked rows are theirs alone.
    own: bool,
}

impl Places<'_> {
    /// Copies the rows of the read-outs, if there is room for them.
    fn copy<R: Real>(&self, values: &[R], width: usize, target: &mut [R]) {
        let size = self.rows.len() * width;
        if target.is_empty() {
            return;
        }
        if self.own {
            target[..size].copy_from_slice(&values[..size]);
        } else {
            gather(values, self.rows, width, target);
        }
    }
}
