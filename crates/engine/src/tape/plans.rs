//! Who attends to what on a layout, and how sequences that shared their beginnings are told apart.

use super::Streams;
use crate::attention::{AttentionPlan, HeadCounts};
use crate::buffer::Buffer;
use crate::config::Config;
use crate::layer::{
    Depth, LayerAdjoints, LayerPass, LayerSizes, LayerTape, ReadOuts, Sums, gather,
};
use crate::layout::Layout;
use crate::network::Network;
use crate::overlay::Overlay;
use crate::real::Real;
use crate::rotary::Rotations;
use std::ops::Range;

/// The rows of a pass and who attends to what in which layer.
#[derive(Clone, Debug)]
pub(super) struct Plans {
    pub(super) layout: Layout,
    everywhere: AttentionPlan,
    pub(super) at_readouts: AttentionPlan,
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
        model: &'a Network<R>,
        overlay: &'a Overlay<R>,
        rotations: Option<&'a Rotations<R>>,
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

    /// How many scores attending a group at a time holds.
    pub(super) fn group_scores(&self) -> usize {
        self.everywhere.largest_group().max(self.at_readouts.largest_group())
    }

    /// Sizes that serve each of some layers.
    pub(super) fn largest_sizes(&self, layers: Range<usize>, config: &Config) -> LayerSizes {
        let sizes = layers.map(|layer| self.sizes(layer, config));
        sizes.reduce(LayerSizes::larger).expect("there is a layer")
    }

    /// The largest number of probabilities of one head that are handled at once.
    pub(super) fn largest_group(&self) -> usize {
        self.everywhere.largest_group().max(self.folded.largest_group())
    }
}

/// Rows of separate sequences that an adjoint takes at once, if a sequence has not more: enough for
/// products to run at their full rate, few enough that copies of a layer take little memory.
pub(crate) const PART_ROWS: usize = 256;

/// What an adjoint needs to keep sequences apart that shared beginnings on the way forward.
///
/// It takes a few sequences at a time. The activations of one layer at a time are copied from the
/// rows where they were computed to the rows of these sequences.
#[derive(Clone, Debug)]
pub(super) struct Separate<R: Real> {
    /// Every sequence by itself.
    pub(super) plans: Plans,
    /// The row of the forward pass that each row is a copy of.
    pub(super) rows: Vec<usize>,
    pub(super) parts: Vec<Part>,
    /// The adjoint of the stream at the read-outs of all sequences.
    pub(super) asked: Buffer<R>,
    /// While an adjoint runs.
    pub(super) copies: Option<Copies<R>>,
    /// Whether the adjoint of every sequence is known at the last forward pass.
    pub(super) known: bool,
    /// What the sequences are weighed with, once that is asked for.
    pub(super) weights: Option<Vec<R>>,
    sizes: LayerSizes,
}

/// What the adjoint of one part writes over.
#[derive(Clone, Debug)]
pub(super) struct Copies<R: Real> {
    pub(super) streams: Streams<R>,
    pub(super) layer: LayerTape<R>,
    /// What blocks need of each layer.
    pub(super) adjoints: Vec<LayerAdjoints<R>>,
}

/// A layer as the forward pass left it.
#[derive(Clone, Copy)]
pub(super) struct ForwardLayer<'a, R: Real> {
    pub(super) plans: &'a Plans,
    pub(super) tape: &'a LayerTape<R>,
    pub(super) layer: usize,
}

/// A few sequences.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) plans: Plans,
    pub(super) sequences: Range<usize>,
    /// Its rows among those of all sequences.
    pub(super) rows: Range<usize>,
}

impl<R: Real> Separate<R> {
    /// For layers from `lowest` up of a forward pass on a layout.
    pub(super) fn new(forward: &Layout, config: &Config, lowest: usize) -> Self {
        let (layout, rows) = forward.separated();
        let mut first = 0;
        let parts: Vec<Part> = layout
            .parts(PART_ROWS)
            .into_iter()
            .map(|(sequences, layout)| {
                let rows = first..first + layout.rows();
                first = rows.end;
                Part { plans: Plans::apart(layout, config), sequences, rows }
            })
            .collect();
        let sizes =
            parts.iter().map(|part| part.plans.largest_sizes(lowest..config.layers, config));
        let sizes = sizes.reduce(LayerSizes::larger).expect("there is a sequence");
        let asked = Buffer::new(layout.sequences() * config.width);
        let plans = Plans::apart(layout, config);
        let (known, weights) = (false, None);
        Self { plans, rows, parts, asked, copies: None, known, weights, sizes }
    }

    /// Makes room for the adjoint of one part, and for what blocks need of it.
    pub(super) fn allocate(&mut self, adjoints: Vec<LayerAdjoints<R>>) {
        let LayerSizes { rows, width, .. } = self.sizes;
        let streams = Streams {
            rows: Buffer::new(rows * width),
            asked: Buffer::new(Self::most_sequences(&self.parts) * width),
        };
        let layer = LayerTape::for_adjoint(&self.sizes);
        self.copies = Some(Copies { streams, layer, adjoints });
    }

    fn most_sequences(parts: &[Part]) -> usize {
        parts.iter().map(|part| part.sequences.len()).max().unwrap_or(0)
    }

    /// The largest numbers of rows and sequences of a part, and of probabilities that are handled
    /// at once.
    pub(super) fn largest_part(&self) -> [usize; 3] {
        let group = self.parts.iter().map(|part| part.plans.largest_group()).max();
        [self.sizes.rows, Self::most_sequences(&self.parts), group.unwrap_or(0)]
    }

    /// What the adjoint of a layer needs down to `depth`, at the rows of a part. The last layer
    /// comes first and begins with the read-outs.
    ///
    /// In the last layer the asked rows are one per sequence either way.
    pub(super) fn copy_layer(
        &mut self,
        part: usize,
        forward: ForwardLayer<'_, R>,
        depth: Depth,
    ) -> (&Plans, &mut Copies<R>) {
        let ForwardLayer { plans: forward, tape, layer } = forward;
        let Self { rows, parts, asked: readouts, copies, sizes, .. } = self;
        let copies = copies.as_mut().expect("they were allocated before");
        let Copies { streams, layer: copy, .. } = &mut *copies;
        let &mut LayerSizes { width, attention, key_values, inner, .. } = sizes;
        let Part { plans, sequences, rows: own } = &parts[part];
        let (rows, last) = (&rows[own.clone()], plans.is_last(layer));
        let sequences: Vec<usize> = sequences.clone().collect();
        let asked = if last { &sequences[..] } else { rows };
        if last {
            gather(readouts, asked, width, &mut streams.asked);
        }
        if depth > Depth::MlpDown {
            gather(&tape.slopes, asked, inner, &mut copy.slopes);
            if !tape.gate_slopes.is_empty() {
                gather(&tape.gate_slopes, asked, inner, &mut copy.gate_slopes);
            }
        }
        if depth > Depth::MlpUp {
            gather(&tape.mlp_normalised, asked, width, &mut copy.mlp_normalised);
            gather(&tape.mlp_inverse, asked, 1, &mut copy.mlp_inverse);
        }
        if depth > Depth::Output {
            let (from, to) = (&tape.probabilities, &mut copy.probabilities);
            plans.of(layer).copy_probabilities(to, forward.of(layer), from, asked);
        }
        if depth > Depth::Value {
            gather(&tape.queries, asked, attention, &mut copy.queries);
            if !tape.asking.is_empty() {
                let size = tape.asking.len() / forward.layout.sequences();
                gather(&tape.asking, asked, size, &mut copy.asking);
            }
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
        (plans, copies)
    }
}
