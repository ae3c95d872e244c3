//! Who attends to what on a layout, and how sequences that shared their beginnings are told apart.

use super::Streams;
use crate::attention::{AttentionPlan, HeadCounts};
use crate::config::Config;
use crate::layer::{Depth, LayerPass, LayerSizes, LayerTape, ReadOuts, Sums, gather};
use crate::layout::Layout;
use crate::network::{Network, Overlay};
use crate::real::Real;
use crate::rotary::Rotations;
use std::ops::Range;

/// The rows of a pass and who attends to what in which layer.
#[derive(Debug)]
pub(super) struct Plans {
    pub(super) layout: Layout,
    everywhere: AttentionPlan,
    at_readouts: AttentionPlan,
    folded: AttentionPlan,
    pub(super) readouts: Vec<usize>,
    pub(super) sums: Sums,
    last: usize,
}

impl Plans {
    pub(super) fn new(layout: Layout, config: &Config) -> Self {
        let counts = HeadCounts::of(config);
        Self {
            everywhere: AttentionPlan::everywhere(&layout, counts),
            at_readouts: AttentionPlan::at_readouts(&layout, counts),
            folded: AttentionPlan::folded(&layout, counts, config.width),
            readouts: layout.readout_rows().collect(),
            sums: Sums::together(layout.rows(), layout.sequences()),
            last: config.layers - 1,
            layout,
        }
    }

    /// The same for a layout of separate sequences, none of whose sums are added up.
    fn apart(layout: Layout, config: &Config) -> Self {
        let sequences = layout.segments().iter().map(|segment| segment.rows.clone());
        let sums = Sums::apart(sequences.collect());
        Self { sums, ..Self::new(layout, config) }
    }

    /// Whether only the last token of each sequence is asked in this layer.
    pub(super) fn is_last(&self, layer: usize) -> bool {
        layer == self.last
    }

    pub(super) fn of(&self, layer: usize) -> &AttentionPlan {
        if self.is_last(layer) { &self.at_readouts } else { &self.everywhere }
    }

    pub(super) fn pass<'a, R>(
        &'a self,
        (model, rotations): (&'a Network<R>, Option<&'a Rotations<R>>),
        overlay: &'a Overlay<R>,
        layer: usize,
    ) -> LayerPass<'a, R> {
        let readouts = ReadOuts { rows: &self.readouts, folded: &self.folded };
        let readouts = self.is_last(layer).then_some(readouts);
        let (plan, positions) = (self.of(layer), self.layout.positions());
        let sums = &self.sums;
        LayerPass { model, overlay, layer, plan, readouts, positions, rotations, sums }
    }

    pub(super) fn sizes(&self, layer: usize, config: &Config) -> LayerSizes {
        let (plan, last) = (self.of(layer), self.is_last(layer));
        let key_values = self.layout.rows() * config.key_value_width();
        let folded = self.folded.queries() * config.width;
        let made = !last || config.rotary().is_some();
        let if_so = |wanted: bool, size: usize| if wanted { size } else { 0 };
        LayerSizes {
            rows: self.layout.rows(),
            keys: if_so(made, key_values),
            values: if_so(!last, key_values),
            asking: if_so(!made, folded),
            mixed_inputs: if_so(last, folded),
            asked: plan.queries(),
            width: config.width,
            attention: config.attention_width(),
            key_values: config.key_value_width(),
            inner: config.inner,
            gated: config.gated(),
            probabilities: plan.probabilities(),
        }
    }

    /// Sizes that serve each of some layers.
    pub(super) fn largest_sizes(&self, layers: Range<usize>, config: &Config) -> LayerSizes {
        let first = self.sizes(layers.start, config);
        layers.map(|layer| self.sizes(layer, config)).fold(first, |a, b| LayerSizes {
            asked: a.asked.max(b.asked),
            probabilities: a.probabilities.max(b.probabilities),
            keys: a.keys.max(b.keys),
            values: a.values.max(b.values),
            asking: a.asking.max(b.asking),
            mixed_inputs: a.mixed_inputs.max(b.mixed_inputs),
            ..a
        })
    }

    /// The largest number of probabilities of one head that are handled at once.
    pub(super) fn largest_group(&self) -> usize {
        self.everywhere.largest_group().max(self.folded.largest_group())
    }
}

/// What an adjoint needs to keep sequences apart that shared beginnings on the way forward.
///
/// The activations of one layer at a time are copied from the rows where they were computed to
/// all rows where they are used, so that only one layer is held twice.
#[derive(Debug)]
pub(super) struct Separate<R: Real> {
    /// Every sequence by itself.
    pub(super) plans: Plans,
    /// The row of the forward pass that each row is a copy of.
    pub(super) rows: Vec<usize>,
    /// Of the adjoints.
    pub(super) streams: Streams<R>,
    layer: LayerTape<R>,
    sizes: LayerSizes,
}

impl<R: Real> Separate<R> {
    /// For layers from `lowest` up of a forward pass on a layout.
    pub(super) fn new(forward: &Layout, config: &Config, lowest: usize) -> Self {
        let (layout, rows) = forward.separated();
        let streams = Streams::new(&layout, config.width);
        let plans = Plans::apart(layout, config);
        let sizes = plans.largest_sizes(lowest..config.layers, config);
        Self { plans, rows, streams, layer: LayerTape::for_adjoint(&sizes), sizes }
    }

    /// What the adjoint of a layer needs down to `depth`, at the rows of separate sequences.
    ///
    /// In the last layer the asked rows are one per sequence either way.
    pub(super) fn copy_layer(
        &mut self,
        forward: &Plans,
        tape: &LayerTape<R>,
        layer: usize,
        depth: Depth,
    ) -> (&Plans, &LayerTape<R>, &mut Streams<R>) {
        let Self { plans, rows, layer: copy, streams, sizes } = self;
        let &mut LayerSizes { width, attention, key_values, inner, .. } = sizes;
        let asked = (!plans.is_last(layer)).then_some(&rows[..]);
        let copy_asked = |from: &[R], to: &mut [R], width: usize| match asked {
            None => to[..from.len()].copy_from_slice(from),
            Some(rows) => gather(from, rows, width, to),
        };
        if depth > Depth::MlpDown {
            copy_asked(&tape.slopes, &mut copy.slopes, inner);
            copy_asked(&tape.gate_slopes, &mut copy.gate_slopes, inner);
        }
        if depth > Depth::MlpUp {
            copy_asked(&tape.mlp_normalised, &mut copy.mlp_normalised, width);
            copy_asked(&tape.mlp_inverse, &mut copy.mlp_inverse, 1);
        }
        if depth > Depth::Output {
            let (from, to) = (&tape.probabilities, &mut copy.probabilities);
            plans.of(layer).copy_probabilities(to, forward.of(layer), from, asked);
        }
        let last = plans.is_last(layer);
        if depth > Depth::Value {
            copy_asked(&tape.queries, &mut copy.queries, attention);
            copy.asking[..tape.asking.len()].copy_from_slice(&tape.asking);
            if !tape.keys.is_empty() {
                gather(&tape.keys, rows, key_values, &mut copy.keys);
            }
            if !last {
                gather(&tape.values, rows, key_values, &mut copy.values);
            }
        }
        // In the last layer keys and values are not made, and their inputs stand for them.
        if depth >= Depth::Norm || last && depth > Depth::Value {
            let to = &mut copy.attention_normalised;
            gather(&tape.attention_normalised, rows, width, to);
            gather(&tape.attention_inverse, rows, 1, &mut copy.attention_inverse);
        }
        (plans, copy, streams)
    }
}
