//! Attention over a layout: every group of queries looks at the spans of keys that it may see.
//!
//! In: queries, keys and values by head. Out: probabilities and mixed values, and the adjoints
//! of all three. There is no mask and no padding: what a token may not see is never multiplied.

use crate::config::Config;
use crate::layout::Layout;
use crate::ops::{View, ViewMut, Write, product, softmax, softmax_adjoint};
use crate::real::Real;
use std::ops::Range;

mod local;

pub(crate) use local::{KeptProbabilities, OwnAdjoints};

#[cfg(test)]
mod tests;

/// Queries of a long run of tokens that are taken together: what none of them may see is not
/// multiplied.
pub(crate) const GROUP: usize = 64;

/// Queries that see the same rows, except those after them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Rows of the queries.
    queries: Range<usize>,
    /// Rows of the keys and values; the last span is the group's own if `causal`.
    spans: Vec<Range<usize>>,
    /// Whether query `r` sees only the first `r + 1` rows of the last span.
    causal: bool,
    /// Number of keys.
    keys: usize,
    /// Where its probabilities begin, for one head.
    offset: usize,
}

impl Group {
    /// How many keys query `index` of the group sees.
    fn seen(&self, index: usize) -> usize {
        if self.causal { self.keys - self.queries.len() + index + 1 } else { self.keys }
    }

    /// Spans, each with the columns of the probabilities that belong to it.
    fn parts(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        self.spans.iter().scan(0, |first, span| {
            let columns = *first..*first + span.len();
            *first = columns.end;
            Some((span.clone(), columns))
        })
    }

    fn probabilities(&self, heads: usize, head: usize) -> Range<usize> {
        let size = self.queries.len() * self.keys;
        let first = self.offset * heads + head * size;
        first..first + size
    }
}

/// How many heads of which width there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadCounts {
    /// Heads that queries have.
    pub(crate) heads: usize,
    /// Heads that keys and values have; each serves the same number of query heads, side by side.
    pub(crate) key_value_heads: usize,
    pub(crate) head_width: usize,
}

impl HeadCounts {
    pub(crate) fn of(config: &Config) -> Self {
        let (heads, key_value_heads) = (config.heads, config.key_value_heads());
        Self { heads, key_value_heads, head_width: config.head_width() }
    }

    /// The query heads that a key-value head serves.
    pub(crate) fn served_by(&self, key_value_head: usize) -> Range<usize> {
        let group = self.heads / self.key_value_heads;
        key_value_head * group..(key_value_head + 1) * group
    }

    /// The key-value head that serves a query head.
    pub(crate) fn serving(&self, head: usize) -> usize {
        head / (self.heads / self.key_value_heads)
    }

    /// From `[rows, heads · width]` to `[rows · served, key-value heads · width]`, where each row
    /// has one of the query heads that every key-value head serves.
    pub(crate) fn arrange_served<R: Copy>(&self, values: &[R], width: usize, target: &mut [R]) {
        let group = self.heads / self.key_value_heads;
        let rows = values.chunks_exact(self.heads * width);
        for (row, target) in rows.zip(target.chunks_exact_mut(self.heads * width)) {
            for (head, values) in row.chunks_exact(width).enumerate() {
                let (served, place) = (self.serving(head), head % group);
                let first = (place * self.key_value_heads + served) * width;
                target[first..first + width].copy_from_slice(values);
            }
        }
    }
}

/// Who looks at what, for one kind of layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionPlan {
    groups: Vec<Group>,
    counts: HeadCounts,
    /// Rows of the queries and of the keys.
    queries: usize,
    keys: usize,
    /// Probabilities of one head.
    size: usize,
    /// The width whose root scores are divided by.
    scaling: usize,
}

/// What attention had: `queries [query rows, heads · head width]`, `keys` and `values [rows,
/// key-value heads · head width]`, and the probabilities it made of them.
#[derive(Clone, Copy)]
pub(crate) struct Heads<'a, R> {
    pub(crate) queries: &'a [R],
    pub(crate) keys: &'a [R],
    pub(crate) values: &'a [R],
    pub(crate) probabilities: &'a [R],
}

/// Where the adjoints of queries and keys go.
pub(crate) struct ScoreAdjoints<'a, R> {
    pub(crate) queries: &'a mut [R],
    pub(crate) keys: &'a mut [R],
    /// Room for those of the scores of one group: at least [`AttentionPlan::largest_group`].
    pub(crate) scores: &'a mut [R],
}

/// One head of a group of queries.
#[derive(Clone, Copy)]
struct GroupHead<'a> {
    plan: &'a AttentionPlan,
    group: &'a Group,
    head: usize,
}

impl AttentionPlan {
    /// Every token asks.
    pub(crate) fn everywhere(layout: &Layout, counts: HeadCounts) -> Self {
        let groups = layout.segments().iter().flat_map(|segment| {
            let Range { start, end } = segment.rows;
            let before = layout.computed_before();
            (start..end).step_by(GROUP).map(move |first| {
                let own = first..end.min(first + GROUP);
                let mut spans = segment.ancestors.clone();
                if first > start {
                    spans.push(before + start..before + first);
                }
                spans.push(before + own.start..before + own.end);
                (own, spans, true)
            })
        });
        Self::new(groups, layout.rows(), layout.seen_rows(), counts)
    }

    /// Only the last token of each sequence asks: query row `i` belongs to sequence `i`.
    pub(crate) fn at_readouts(layout: &Layout, counts: HeadCounts) -> Self {
        let each: Vec<usize> = (0..layout.sequences()).collect();
        Self::at_readouts_of(layout, counts, &each)
    }

    /// As [`AttentionPlan::at_readouts`], where each of these tokens asks several times, once for
    /// every output of its prediction: `sequences` says, in ascending order, whose each query row is.
    pub(crate) fn at_readouts_of(
        layout: &Layout,
        counts: HeadCounts,
        sequences: &[usize],
    ) -> Self {
        let first = |sequence: usize| sequences.partition_point(|&other| other < sequence);
        let groups = (0..layout.sequences()).map(|sequence| {
            (first(sequence)..first(sequence + 1), layout.seen_by(sequence), false)
        });
        Self::new(groups, sequences.len(), layout.seen_rows(), counts)
    }

    /// As [`AttentionPlan::at_readouts`], where all heads look at the same keys and values, as wide
    /// as the stream: the inputs of both. Query row `i · heads + head` is that of a head of
    /// sequence `i`; probabilities lie as they do at the read-outs.
    pub(crate) fn folded(layout: &Layout, counts: HeadCounts, width: usize) -> Self {
        let (sequences, heads) = (layout.sequences(), counts.heads);
        let groups = (0..sequences).map(|sequence| {
            let queries = sequence * heads..(sequence + 1) * heads;
            (queries, layout.seen_by(sequence), false)
        });
        let one = HeadCounts { heads: 1, key_value_heads: 1, head_width: width };
        let plan = Self::new(groups, sequences * heads, layout.rows(), one);
        Self { scaling: counts.head_width, ..plan }
    }

    fn new(
        parts: impl Iterator<Item = (Range<usize>, Vec<Range<usize>>, bool)>,
        queries: usize,
        keys: usize,
        counts: HeadCounts,
    ) -> Self {
        let mut offset = 0;
        let groups = parts
            .map(|(queries, spans, causal)| {
                let keys = spans.iter().map(Range::len).sum();
                let group = Group { queries, spans, causal, keys, offset };
                offset += group.queries.len() * keys;
                group
            })
            .collect();
        let scaling = counts.head_width;
        Self { groups, counts, queries, keys, size: offset, scaling }
    }

    /// Number of probabilities.
    pub(crate) fn probabilities(&self) -> usize {
        self.counts.heads * self.size
    }

    /// Number of query rows.
    pub(crate) fn queries(&self) -> usize {
        self.queries
    }

    /// The largest number of probabilities of one head in one group.
    pub(crate) fn largest_group(&self) -> usize {
        self.groups.iter().map(|group| group.queries.len() * group.keys).max().unwrap_or(0)
    }

    /// What one query attends to: its probabilities, head by head.
    pub(crate) fn row<'a, R>(&self, probabilities: &'a [R], query: usize) -> Vec<&'a [R]> {
        (0..self.counts.heads).map(|head| self.head_row(probabilities, query, head)).collect()
    }

    /// What one query of one head attends to: a probability for each key that it sees.
    fn head_row<'a, R>(&self, probabilities: &'a [R], query: usize, head: usize) -> &'a [R] {
        // Groups follow each other.
        let group = self.groups.partition_point(|group| group.queries.end <= query);
        let group = &self.groups[group];
        let index = query - group.queries.start;
        let part = &probabilities[group.probabilities(self.counts.heads, head)];
        &part[index * group.keys..][..group.seen(index)]
    }

    /// As [`AttentionPlan::head_row`], to write to.
    fn row_mut<'a, R>(
        &self,
        probabilities: &'a mut [R],
        query: usize,
        head: usize,
    ) -> &'a mut [R] {
        let group = self.groups.partition_point(|group| group.queries.end <= query);
        let group = &self.groups[group];
        let index = query - group.queries.start;
        let part = &mut probabilities[group.probabilities(self.counts.heads, head)];
        &mut part[index * group.keys..][..group.seen(index)]
    }

    /// Copies probabilities from a plan on which `sources[i]` sees what query `i` sees here.
    pub(crate) fn copy_probabilities<R: Real>(
        &self,
        target: &mut [R],
        other: &Self,
        probabilities: &[R],
        sources: &[usize],
    ) {
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let target = &mut target[group.probabilities(self.counts.heads, head)];
                for (query, row) in
                    group.queries.clone().zip(target.chunks_exact_mut(group.keys))
                {
                    let seen = other.head_row(probabilities, sources[query], head);
                    let (own, unseen) = row.split_at_mut(seen.len());
                    own.copy_from_slice(seen);
                    unseen.fill(R::ZERO);
                }
            }
        }
    }

    /// A query head's columns of a buffer `[query rows, heads · head width]`.
    fn of_query<'a, R>(&self, values: &'a [R], head: usize) -> View<'a, R> {
        let HeadCounts { heads, head_width, .. } = self.counts;
        let columns = head * head_width..(head + 1) * head_width;
        View::new(values, self.queries, heads * head_width).columns(columns)
    }

    fn of_query_mut<'a, R>(&self, values: &'a mut [R], head: usize) -> ViewMut<'a, R> {
        let HeadCounts { heads, head_width, .. } = self.counts;
        let columns = head * head_width..(head + 1) * head_width;
        ViewMut::new(values, self.queries, heads * head_width).columns(columns)
    }

    /// The columns of a buffer `[rows, key-value heads · head width]` that serve a query head.
    fn of_key<'a, R>(&self, values: &'a [R], head: usize) -> View<'a, R> {
        let HeadCounts { key_value_heads, head_width, .. } = self.counts;
        let first = self.counts.serving(head) * head_width;
        let view = View::new(values, self.keys, key_value_heads * head_width);
        view.columns(first..first + head_width)
    }

    fn of_key_mut<'a, R>(&self, values: &'a mut [R], head: usize) -> ViewMut<'a, R> {
        let HeadCounts { key_value_heads, head_width, .. } = self.counts;
        let first = self.counts.serving(head) * head_width;
        let view = ViewMut::new(values, self.keys, key_value_heads * head_width);
        view.columns(first..first + head_width)
    }

    /// What scores are multiplied with: one over the square root of the head width.
    fn scale<R: Real>(&self) -> R {
        R::of(1.0 / (self.scaling as f64).sqrt())
    }

    /// How much each query attends to each key it sees: `softmax(q·k/√width)`.
    pub(crate) fn attend<R: Real>(&self, queries: &[R], keys: &[R], probabilities: &mut [R]) {
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let scores = &mut probabilities[group.probabilities(self.counts.heads, head)];
                GroupHead { plan: self, group, head }.attend(queries, keys, scores);
            }
        }
    }

    /// Values averaged with the probabilities: `mixed [query rows, heads · head width]`.
    pub(crate) fn mix<R: Real>(&self, probabilities: &[R], values: &[R], mixed: &mut [R]) {
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let weights = &probabilities[group.probabilities(self.counts.heads, head)];
                GroupHead { plan: self, group, head }.mix(weights, values, mixed);
            }
        }
    }

    /// The adjoint of the values, over all heads that they serve, from that of the mixed values.
    pub(crate) fn adjoint_of_values<R: Real>(
        &self,
        probabilities: &[R],
        mixed: &[R],
        values: &mut [R],
    ) {
        values.fill(R::ZERO);
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let weights = &probabilities[group.probabilities(self.counts.heads, head)];
                let weights = View::new(weights, group.queries.len(), group.keys);
                let mixed = self.of_query(mixed, head).rows(group.queries.clone());
                for (span, columns) in group.parts() {
                    let target = self.of_key_mut(values, head).rows(span);
                    let weights = weights.columns(columns).transposed();
                    product(Write::Add, target, weights, mixed, R::ONE);
                }
            }
        }
    }

    /// The adjoints of queries and keys from that of the mixed values.
    pub(crate) fn adjoint_of_scores<R: Real>(
        &self,
        inputs: Heads<'_, R>,
        mixed: &[R],
        adjoints: ScoreAdjoints<'_, R>,
    ) {
        let ScoreAdjoints { queries, keys, scores } = adjoints;
        keys.fill(R::ZERO);
        for group in &self.groups {
            for head in 0..self.counts.heads {
                let part = GroupHead { plan: self, group, head };
                let scores = part.scores_adjoint(inputs, mixed, scores);
                part.spread(inputs, scores, queries, keys);
            }
        }
    }

    /// Adds the adjoints of queries and keys where this plan mixed the values and `asking` made the
    /// probabilities, for the same sequences; those of queries are written over.
    pub(crate) fn adjoint_of_asking<R: Real>(
        &self,
        asking: &Self,
        inputs: Heads<'_, R>,
        mixed: &[R],
        adjoints: ScoreAdjoints<'_, R>,
    ) {
        let ScoreAdjoints { queries, keys, scores } = adjoints;
        for (group, asked) in self.groups.iter().zip(&asking.groups) {
            let part = GroupHead { plan: self, group, head: 0 };
            let scores = part.scores_adjoint(inputs, mixed, scores);
            let size = asked.queries.len() * asked.keys;
            for (head, scores) in scores.chunks_exact(size).enumerate() {
                let part = GroupHead { plan: asking, group: asked, head };
                part.spread(inputs, scores, queries, keys);
            }
        }
    }
}

impl GroupHead<'_> {
    /// The probabilities of a group of queries, `scores [queries, keys]`.
    fn attend<R: Real>(self, queries: &[R], keys: &[R], scores: &mut [R]) {
        let Self { plan, group, head } = self;
        let queries = plan.of_query(queries, head).rows(group.queries.clone());
        for (span, columns) in group.parts() {
            let keys = plan.of_key(keys, head).rows(span).transposed();
            let target = ViewMut::new(scores, group.queries.len(), group.keys);
            product(Write::Over, target.columns(columns), queries, keys, plan.scale());
        }
        for (index, row) in scores.chunks_exact_mut(group.keys).enumerate() {
            let (seen, unseen) = row.split_at_mut(group.seen(index));
            softmax(seen);
            unseen.fill(R::ZERO);
        }
    }

    /// Values mixed by the probabilities of a group, `weights [queries, keys]`.
    fn mix<R: Real>(self, weights: &[R], values: &[R], mixed: &mut [R]) {
        let Self { plan, group, head } = self;
        let weights = View::new(weights, group.queries.len(), group.keys);
        let mut write = Write::Over;
        for (span, columns) in group.parts() {
            let values = plan.of_key(values, head).rows(span);
            let target = plan.of_query_mut(mixed, head).rows(group.queries.clone());
            product(write, target, weights.columns(columns), values, R::ONE);
            write = Write::Add;
        }
    }

    /// The adjoint of the scores from that of the mixed values, written to `scratch`.
    fn scores_adjoint<'a, R: Real>(
        self,
        inputs: Heads<'_, R>,
        mixed: &[R],
        scratch: &'a mut [R],
    ) -> &'a [R] {
        let Self { plan, group, head } = self;
        let weights = &inputs.probabilities[group.probabilities(plan.counts.heads, head)];
        let scores = &mut scratch[..weights.len()];
        let outer = plan.of_query(mixed, head).rows(group.queries.clone());
        for (span, columns) in group.parts() {
            let values = plan.of_key(inputs.values, head).rows(span);
            let target = ViewMut::new(scores, group.queries.len(), group.keys);
            product(Write::Over, target.columns(columns), outer, values.transposed(), R::ONE);
        }
        let rows = scores.chunks_exact_mut(group.keys);
        for (row, weights) in rows.zip(weights.chunks_exact(group.keys)) {
            softmax_adjoint(row, weights, plan.scale());
        }
        scores
    }

    /// The adjoints of queries and keys from that of the scores.
    fn spread<R: Real>(
        self,
        inputs: Heads<'_, R>,
        scores: &[R],
        queries: &mut [R],
        keys: &mut [R],
    ) {
        let Self { plan, group, head } = self;
        let scores = View::new(scores, group.queries.len(), group.keys);
        let asking = plan.of_query(inputs.queries, head).rows(group.queries.clone());
        let mut write = Write::Over;
        for (span, columns) in group.parts() {
            let part = scores.columns(columns);
            let seen = plan.of_key(inputs.keys, head).rows(span.clone());
            let target = plan.of_query_mut(queries, head);
            product(write, target.rows(group.queries.clone()), part, seen, R::ONE);
            let target = plan.of_key_mut(keys, head).rows(span);
            product(Write::Add, target, part.transposed(), asking, R::ONE);
            write = Write::Add;
        }
    }
}
