//! Attention a group at a time, and its adjoint at the tokens where predictions are read.
//!
//! In: queries, keys and values. Out: what heads mix, and the probabilities of a few queries alone; then
//! the adjoints of those queries and of the keys and values that belong to the same tokens. What
//! other tokens pass on is constant here, so neither their probabilities nor their adjoints exist.

use super::{AttentionPlan, Group, GroupHead, Heads};
use crate::ops::{View, ViewMut, Write, add, product};
use crate::real::Real;

/// The adjoints at the read-outs: of queries `[asked, heads · width]`, and of the keys and values of
/// the same tokens, `[asked, key-value heads · width]`.
pub(crate) struct OwnAdjoints<'a, R> {
    pub(crate) queries: &'a mut [R],
    pub(crate) keys: &'a mut [R],
    pub(crate) values: &'a mut [R],
    /// Room for the scores of one group.
    pub(crate) scores: &'a mut [R],
}

/// What is kept of the probabilities of a forward pass.
pub(crate) struct KeptProbabilities<'a, R> {
    /// Where the queries that are kept stand, and which row of `plan` each has; ascending.
    pub(crate) queries: &'a [(usize, usize)],
    /// In what order they are kept.
    pub(crate) plan: &'a AttentionPlan,
    pub(crate) probabilities: &'a mut [R],
}

impl AttentionPlan {
    /// As [`AttentionPlan::attend`] and [`AttentionPlan::mix`] with room for the scores of one group
    /// of one head.
    ///
    /// Every number is summed as it is there.
    pub(crate) fn attend_in_groups<R: Real>(
        &self,
        heads: Heads<'_, R>,
        scores: &mut [R],
        mixed: &mut [R],
        mut kept: Option<KeptProbabilities<'_, R>>,
    ) {
        for group in &self.groups {
            let scores = &mut scores[..group.queries.len() * group.keys];
            for head in 0..self.counts.heads {
                let part = GroupHead { plan: self, group, head };
                part.attend(heads.queries, heads.keys, scores);
                part.mix(scores, heads.values, mixed);
                if let Some(kept) = &mut kept {
                    part.keep(scores, kept);
                }
            }
        }
    }

    /// The adjoints at the read-outs from that of the mixed heads, `mixed [asked, heads · width]`.
    ///
    /// `heads` holds queries and probabilities of this plan, and the keys and values of all tokens that
    /// are seen. Each group belongs to one token, the last that it sees.
    pub(crate) fn adjoint_at_own<R: Real>(
        &self,
        heads: Heads<'_, R>,
        mixed: &[R],
        adjoints: OwnAdjoints<'_, R>,
    ) {
        let OwnAdjoints { queries, keys, values, scores } = adjoints;
        keys.fill(R::ZERO);
        values.fill(R::ZERO);
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let part = GroupHead { plan: self, group, head };
                let scores = part.scores_adjoint(heads, mixed, scores);
                part.write_queries(heads.keys, scores, queries);
                let weights =
                    &heads.probabilities[group.probabilities(self.counts.heads, head)];
                part.add_own(scores, heads.queries, keys);
                part.add_own(weights, mixed, values);
            }
        }
    }

    /// The keys or values that can be seen, of a buffer that may hold more.
    pub(crate) fn seen<'a, R>(&self, values: &'a [R]) -> &'a [R] {
        &values[..self.keys * self.counts.key_value_heads * self.counts.head_width]
    }

    /// The mean of some rows under the probabilities of each query and head, `[asked, heads, width]`.
    ///
    /// `inputs` are `[seen, width]`.
    pub(crate) fn mix_whole<R: Real>(
        &self,
        probabilities: &[R],
        inputs: View<'_, R>,
        mixed: &mut [R],
    ) {
        let (heads, width) = (self.counts.heads, inputs.shape().1);
        for group in &self.groups {
            for head in 0..heads {
                let weights = &probabilities[group.probabilities(heads, head)];
                let weights = View::new(weights, group.queries.len(), group.keys);
                let mut write = Write::Over;
                for (span, columns) in group.parts() {
                    let target = ViewMut::new(mixed, self.queries, heads * width);
                    let target = target.columns(head * width..(head + 1) * width);
                    let target = target.rows(group.queries.clone());
                    product(write, target, weights.columns(columns), inputs.rows(span), R::ONE);
                    write = Write::Add;
                }
            }
        }
    }
}

impl GroupHead<'_> {
    fn keep<R: Real>(self, weights: &[R], kept: &mut KeptProbabilities<'_, R>) {
        let Self { group, head, .. } = self;
        let Group { queries, keys, .. } = group;
        let first = kept.queries.partition_point(|&(query, _)| query < queries.start);
        let here = kept.queries[first..].iter().take_while(|&&(query, _)| query < queries.end);
        for &(query, place) in here {
            let index = query - queries.start;
            let row = &weights[index * keys..][..group.seen(index)];
            kept.plan.row_mut(kept.probabilities, place, head).copy_from_slice(row);
        }
    }

    fn write_queries<R: Real>(self, keys: &[R], scores: &[R], queries: &mut [R]) {
        let Self { plan, group, head } = self;
        let scores = View::new(scores, group.queries.len(), group.keys);
        let mut write = Write::Over;
        for (span, columns) in group.parts() {
            let seen = plan.of_key(keys, head).rows(span);
            let target = plan.of_query_mut(queries, head).rows(group.queries.clone());
            product(write, target, scores.columns(columns), seen, R::ONE);
            write = Write::Add;
        }
    }

    /// Adds each query's row of one head, weighed as its own token is, to that token's.
    fn add_own<R: Real>(self, weights: &[R], rows: &[R], target: &mut [R]) {
        let Self { plan, group, head } = self;
        let counts = plan.counts;
        let (width, from) = (counts.head_width, counts.serving(head) * counts.head_width);
        let mut scaled = vec![R::ZERO; width];
        for (index, query) in group.queries.clone().enumerate() {
            let weight = weights[(index + 1) * group.keys - 1];
            let row = &rows[(query * counts.heads + head) * width..][..width];
            for (scaled, &value) in scaled.iter_mut().zip(row) {
                *scaled = weight * value;
            }
            let first = query * counts.key_value_heads * width + from;
            add(&mut target[first..first + width], &scaled);
        }
    }
}
