//! All that a reference file holds against what the engine computes.

use super::{Reference, norm};
use fewstep_engine::{
    BlockId, BlockKind, Config, Descent, Family, KernelForm, Layout, Network, Observation,
    Real, Steps, Tape, TokenTask, Update, descend, observe,
};
use std::ops::Range;

/// How far a quantity is from the reference, relative to the norm of the whole tensor.
#[derive(Clone, Debug)]
pub(crate) struct Deviation {
    pub(crate) what: String,
    pub(crate) relative: f64,
}

fn deviation(what: impl Into<String>, found: &[f64], expected: &[f64]) -> Deviation {
    scaled(what, found, expected, norm(expected))
}

fn scaled(what: impl Into<String>, found: &[f64], expected: &[f64], scale: f64) -> Deviation {
    let what = what.into();
    assert_eq!(found.len(), expected.len(), "{what}: sizes");
    let gaps: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    // NaN stays NaN and fails every comparison.
    Deviation { what, relative: norm(&gaps) / scale }
}

fn wide<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|value| value.wide()).collect()
}

/// The logits of the whole vocabulary, or of the tokens that the reference has, after each prompt.
pub(crate) fn logits<R: Real>(model: &Network<R>, reference: &Reference) -> Vec<Deviation> {
    let (task, vocabulary) = (reference.task(), model.config().vocabulary);
    let layout = Layout::shared(task.sequences()).unwrap();
    let mut found = wide(&model.logits(layout).unwrap());
    if reference.tokens.contains_key("logit_tokens") {
        let some = reference.ids("logit_tokens");
        let rows = found.chunks_exact(vocabulary);
        found = rows.flat_map(|row| some.iter().map(|&token| row[token as usize])).collect();
    }
    let (prompts, query) =
        found.split_at(found.len() / (task.examples() + 1) * task.examples());
    vec![
        deviation("prompt_logits", prompts, &reference.floats["prompt_logits"]),
        deviation("query_logits", query, &reference.floats["query_logits"]),
    ]
}

/// Predictions, residuals, and kernel, coupling and query variance of every block.
pub(crate) fn observation<R: Real>(
    model: &Network<R>,
    reference: &Reference,
    form: KernelForm,
) -> Vec<Deviation> {
    let see =
        |task: &TokenTask, blocks: &[BlockId]| observe(model, task, blocks, form).unwrap();
    observed(model.config(), reference, see)
}

/// The same of what a function sees of the blocks that the reference holds.
pub(crate) fn observed(
    config: &Config,
    reference: &Reference,
    see: impl Fn(&TokenTask, &[BlockId]) -> Observation,
) -> Vec<Deviation> {
    let (task, floats) = (reference.task(), &reference.floats);
    let places = places(config, reference);
    let blocks: Vec<BlockId> = places.iter().map(|(block, _)| *block).collect();
    let seen = see(&task, &blocks);
    let query = &floats["query_prediction"];
    let mut all = vec![
        deviation("predictions", &seen.predictions, &floats["predictions"]),
        deviation("query_prediction", &[seen.query_prediction], query),
        deviation("residuals", seen.geometry.residuals(), &floats["residuals"]),
    ];
    let n = task.examples();
    for ((block, index), seen) in places.iter().zip(seen.geometry.blocks()) {
        let kind = block.kind();
        let at = |name: &str, size: usize| {
            (
                format!("{name}.{kind}"),
                &floats[&format!("{name}.{kind}")][index * size..][..size],
            )
        };
        let query = seen.query().unwrap();
        let (what, kernel) = at("kernel", n * n);
        all.push(deviation(what, seen.kernel().values(), kernel));
        let (what, variance) = at("query_variance", 1);
        all.push(deviation(what, &[query.variance], variance));
        // A coupling may vanish; its scale is that of the features.
        let scale = (norm(kernel) * variance[0]).sqrt();
        let (what, coupling) = at("coupling", n);
        all.push(scaled(what, &query.coupling, coupling, scale));
    }
    all
}

/// The random first factors of the LoRA blocks that a reference holds.
pub(crate) fn first_factors<R: Real>(
    model: &Network<R>,
    reference: &Reference,
) -> Vec<Deviation> {
    let held = reference.floats.iter();
    let held = held.filter_map(|(key, first)| Some((key.strip_prefix("first.")?, first)));
    held.map(|(name, first)| {
        let block: BlockId = name.parse().unwrap();
        let update = Update::zeros(model, &[block]).unwrap();
        deviation(name, &wide(update.first(block).unwrap()), first)
    })
    .collect()
}

/// The blocks whose kernels a reference holds, each with its place along the first axes.
fn places(config: &Config, reference: &Reference) -> Vec<(BlockId, usize)> {
    let layers = reference.provenance["layers"].as_array().unwrap();
    let layers: Vec<usize> =
        layers.iter().map(|layer| usize::try_from(layer.as_u64().unwrap()).unwrap()).collect();
    let held = |kind: &BlockKind| reference.floats.contains_key(&format!("kernel.{kind}"));
    let mut places = Vec::new();
    for kind in BlockKind::ALL.into_iter().filter(held) {
        for (row, &layer) in layers.iter().enumerate() {
            match heads(config, kind) {
                None => places.push((BlockId::of_layer(kind, layer).unwrap(), row)),
                Some(heads) => places.extend((0..heads).map(|head| {
                    let block = BlockId::of_head(kind, layer, head).unwrap();
                    (block, row * heads + head)
                })),
            }
        }
    }
    assert!(!places.is_empty(), "the reference holds kernels");
    places
}

/// Values and keys belong to key-value heads, queries and outputs to query heads.
fn heads(config: &Config, kind: BlockKind) -> Option<usize> {
    match (kind, &config.family) {
        (BlockKind::Value | BlockKind::Key, Family::Llama(parts)) => {
            Some(parts.key_value_heads)
        }
        _ => kind.per_head().then_some(config.heads),
    }
}

/// Steps for every set of blocks: predictions and losses after each.
pub(crate) fn steps<R: Real>(model: &Network<R>, reference: &Reference) -> Vec<Deviation> {
    descended(reference, |task, blocks, steps| descend(model, task, blocks, steps).unwrap())
}

/// The same for steps that a function takes.
pub(crate) fn descended<R: Real>(
    reference: &Reference,
    act: impl Fn(&TokenTask, &[BlockId], &Steps) -> Descent<R>,
) -> Vec<Deviation> {
    let task = reference.task();
    let mut all = Vec::new();
    for (name, chosen) in reference.provenance["steps"].as_object().unwrap() {
        let chosen: Vec<BlockId> = chosen
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block.as_str().unwrap().parse().unwrap())
            .collect();
        let key = |part: &str| format!("steps.{name}.{part}");
        let at = |part: &str| &reference.floats[&key(part)];
        let steps = Steps::new(at("step_size")[0], at("loss").len() - 1);
        let descent = act(&task, &chosen, &steps);
        let predictions = descent.predictions.concat();
        all.push(deviation(key("predictions"), &predictions, at("predictions")));
        let query = &descent.query_predictions;
        all.push(deviation(key("query_prediction"), query, at("query_prediction")));
        all.push(deviation(key("loss"), &descent.losses, at("loss")));
    }
    assert!(!all.is_empty(), "the reference holds steps");
    all
}

/// The gradient of `½ Σ_i (y_i − s_i)²` for every block, cut out of that of whole matrices.
pub(crate) fn gradients<R: Real>(
    model: &Network<R>,
    reference: &Reference,
    blocks: &[BlockId],
) -> Vec<Deviation> {
    let (task, config) = (reference.task(), model.config());
    let layout = Layout::shared(task.sequences()).unwrap();
    let mut tape = Tape::new(model, layout, task.labels(), blocks).unwrap();
    // The derivative of the loss for s_i is −r_i; the query takes no part.
    let seeds: Vec<R> =
        reference.floats["residuals"].iter().map(|r| R::of(-r)).chain([R::ZERO]).collect();
    tape.pull_back(&seeds).unwrap();
    let gradient = tape.gradient().unwrap();
    gradient
        .blocks()
        .iter()
        .map(|(block, found)| {
            let whole = matrix_of(config, reference, block);
            let (rows, columns, stride) = slice(config, block, whole.len());
            let at = |row: usize, column: usize| match config.family {
                // [in, out] and [out, in].
                Family::Gpt2 => whole[row * stride + column],
                Family::Llama(_) => whole[column * stride + row],
            };
            let expected: Vec<f64> = rows
                .flat_map(|row| columns.clone().map(move |column| (row, column)))
                .map(|(row, column)| at(row, column))
                .collect();
            deviation(format!("gradient.{}", block.kind()), &wide(found), &expected)
        })
        .collect()
}

fn matrix_of<'a>(config: &Config, reference: &'a Reference, block: &BlockId) -> &'a [f64] {
    let (start, name) = match (&config.family, block.kind()) {
        (Family::Gpt2, BlockKind::MlpUp) => ("h", "mlp.c_fc"),
        (Family::Gpt2, BlockKind::MlpDown) => ("h", "mlp.c_proj"),
        (Family::Gpt2, BlockKind::Output) => ("h", "attn.c_proj"),
        (Family::Gpt2, _) => ("h", "attn.c_attn"),
        (_, BlockKind::Query) => ("layers", "self_attn.q_proj"),
        (_, BlockKind::Key) => ("layers", "self_attn.k_proj"),
        (_, BlockKind::Value) => ("layers", "self_attn.v_proj"),
        (_, BlockKind::Output) => ("layers", "self_attn.o_proj"),
        (_, BlockKind::MlpUp) => ("layers", "mlp.up_proj"),
        (_, BlockKind::MlpDown) => ("layers", "mlp.down_proj"),
        (_, BlockKind::MlpGate) => ("layers", "mlp.gate_proj"),
        (_, kind) => panic!("{kind} is no matrix of its own"),
    };
    let end = format!("{start}.{}.{name}.weight", block.layer());
    let mut found = reference
        .floats
        .iter()
        .filter(|(key, _)| key.starts_with("gradient.") && key.ends_with(&end));
    found.next().unwrap_or_else(|| panic!("no gradient ends with {end}")).1
}

/// Inputs and outputs of a block within the stored matrix, and the length of the matrix's rows.
/// In GPT-2 queries, keys and values stand side by side.
fn slice(config: &Config, block: &BlockId, all: usize) -> (Range<usize>, Range<usize>, usize) {
    let (gpt2, kind) = (config.family == Family::Gpt2, block.kind());
    let size = config.head_width();
    let inputs = match kind {
        BlockKind::MlpDown => config.inner,
        BlockKind::Output => config.heads * size,
        _ => config.width,
    };
    let outputs = all / inputs;
    let first = match kind {
        BlockKind::Key if gpt2 => config.width,
        BlockKind::Value if gpt2 => 2 * config.width,
        _ => 0,
    };
    let part = block.head().map(|head| first + head * size..first + (head + 1) * size);
    let stride = if gpt2 { outputs } else { inputs };
    match (kind, part) {
        (_, None) => (0..inputs, 0..outputs, stride),
        (BlockKind::Output, Some(part)) => (part, 0..outputs, stride),
        (_, Some(part)) => (0..inputs, part, stride),
    }
}
