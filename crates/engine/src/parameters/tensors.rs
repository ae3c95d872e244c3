//! What a checkpoint calls the weights of each family, and how they stand in it.

use super::{Layer, Linear, Norm, Parameters};
use crate::block_kind::BlockKind;
use crate::config::{Config, Family};
use crate::error::Error;
use crate::modules::{LLAMA, Module, modules};
use std::borrow::Cow;

pub(crate) const UNEMBEDDING: &str = "lm_head.weight";

/// A name with the prefix that the body of the model carries; the output embedding has none.
pub(crate) fn full_name(prefix: &str, name: &str) -> String {
    if name == UNEMBEDDING { name.to_owned() } else { format!("{prefix}{name}") }
}

/// Name and shape of every tensor of a model, in the order of [`Parameters::tensors`]; the names
/// are without prefix.
pub(crate) fn layout(config: &Config) -> Vec<(String, Vec<usize>)> {
    let &Config { layers, width, vocabulary, .. } = config;
    let (start, (head, layer, tail)) = match config.family {
        Family::Gpt2 => ("h", gpt2_layout(config)),
        Family::Llama(_) => ("layers", llama_layout(config)),
    };
    let mut names = head;
    for index in 0..layers {
        for (name, shape) in &layer {
            names.push((format!("{start}.{index}.{name}"), shape.clone()));
        }
    }
    names.extend(tail);
    if !config.tied {
        names.push((UNEMBEDDING.to_owned(), vec![vocabulary, width]));
    }
    names
}

type Shapes = Vec<(String, Vec<usize>)>;

/// Tensors in front of the layers, those of one layer, and those after all.
fn gpt2_layout(config: &Config) -> (Shapes, Shapes, Shapes) {
    let &Config { width, inner, positions, vocabulary, .. } = config;
    let named = |name: &str, shape: Vec<usize>| (name.to_owned(), shape);
    let head = vec![
        named("wte.weight", vec![vocabulary, width]),
        named("wpe.weight", vec![positions, width]),
    ];
    let layer = vec![
        named("ln_1.weight", vec![width]),
        named("ln_1.bias", vec![width]),
        named("attn.c_attn.weight", vec![width, 3 * width]),
        named("attn.c_attn.bias", vec![3 * width]),
        named("attn.c_proj.weight", vec![width, width]),
        named("attn.c_proj.bias", vec![width]),
        named("ln_2.weight", vec![width]),
        named("ln_2.bias", vec![width]),
        named("mlp.c_fc.weight", vec![width, inner]),
        named("mlp.c_fc.bias", vec![inner]),
        named("mlp.c_proj.weight", vec![inner, width]),
        named("mlp.c_proj.bias", vec![width]),
    ];
    let tail = vec![named("ln_f.weight", vec![width]), named("ln_f.bias", vec![width])];
    (head, layer, tail)
}

/// As [`gpt2_layout`].
fn llama_layout(config: &Config) -> (Shapes, Shapes, Shapes) {
    let &Config { width, vocabulary, .. } = config;
    let head = vec![("embed_tokens.weight".to_owned(), vec![vocabulary, width])];
    let mut layer = vec![
        ("input_layernorm.weight".to_owned(), vec![width]),
        ("post_attention_layernorm.weight".to_owned(), vec![width]),
    ];
    for Module { name, kinds, .. } in modules(config) {
        let kind = kinds[0];
        let (inputs, outputs) = config.shape(kind);
        layer.push((format!("{name}.weight"), vec![outputs, inputs]));
        if config.has_bias(kind) {
            layer.push((format!("{name}.bias"), vec![outputs]));
        }
    }
    (head, layer, vec![("norm.weight".to_owned(), vec![width])])
}

/// Whether a name (without prefix) is one of the tables that old checkpoints store with the
/// weights: attention masks, rotary frequencies.
pub(super) fn is_table(name: &str, config: &Config) -> bool {
    let (start, tables) = match config.family {
        Family::Gpt2 => ("h", ["attn.bias", "attn.masked_bias"].as_slice()),
        Family::Llama(_) => ("layers", ["self_attn.rotary_emb.inv_freq"].as_slice()),
    };
    (0..config.layers).any(|layer| {
        name.strip_prefix(&format!("{start}.{layer}."))
            .is_some_and(|rest| tables.contains(&rest))
    })
}

impl Parameters {
    /// Parameters from tensors in the order of [`layout`].
    pub(crate) fn from_tensors(tensors: Vec<Vec<f32>>, config: &Config) -> Self {
        let mut tensors = tensors.into_iter();
        let mut next = || tensors.next().expect("layout lists every tensor of the model");
        let learned = config.rotary().is_none();
        let token_embedding = next();
        let position_embedding = if learned { next() } else { Vec::new() };
        let layers = (0..config.layers)
            .map(|_| match config.family {
                Family::Gpt2 => gpt2_layer(&mut next, config),
                Family::Llama(_) => llama_layer(&mut next, config),
            })
            .collect();
        let scale = next();
        let shift = if learned { next() } else { Vec::new() };
        let final_norm = Norm { scale, shift };
        let unembedding = (!config.tied).then(next);
        Self { token_embedding, position_embedding, layers, final_norm, unembedding }
    }

    /// The tensors in the order of [`layout`], for parameters whose sizes have been checked.
    pub(crate) fn tensors(&self, config: &Config) -> Vec<Cow<'_, [f32]>> {
        let mut tensors: Vec<Cow<'_, [f32]>> = vec![Cow::Borrowed(&self.token_embedding)];
        if config.rotary().is_none() {
            tensors.push(Cow::Borrowed(&self.position_embedding));
        }
        for layer in &self.layers {
            match config.family {
                Family::Gpt2 => gpt2_tensors(layer, config, &mut tensors),
                Family::Llama(_) => llama_tensors(layer, &mut tensors),
            }
        }
        tensors.push(Cow::Borrowed(&self.final_norm.scale));
        if config.rotary().is_none() {
            tensors.push(Cow::Borrowed(&self.final_norm.shift));
        }
        tensors.extend(self.unembedding.as_deref().map(Cow::Borrowed));
        tensors
    }
}

fn gpt2_layer(next: &mut impl FnMut() -> Vec<f32>, config: &Config) -> Layer {
    let attention_norm = Norm { scale: next(), shift: next() };
    let [query, key, value] = split(&Linear { weight: next(), bias: next() }, config.width);
    Layer {
        attention_norm,
        query,
        key,
        value,
        output: Linear { weight: next(), bias: next() },
        mlp_norm: Norm { scale: next(), shift: next() },
        mlp_gate: None,
        mlp_up: Linear { weight: next(), bias: next() },
        mlp_down: Linear { weight: next(), bias: next() },
    }
}

fn gpt2_tensors<'a>(layer: &'a Layer, config: &Config, tensors: &mut Vec<Cow<'a, [f32]>>) {
    let joined = join([&layer.query, &layer.key, &layer.value], config.width);
    let linear = |linear: &'a Linear| [&linear.weight[..], &linear.bias].map(Cow::Borrowed);
    let norm = |norm: &'a Norm| [&norm.scale[..], &norm.shift].map(Cow::Borrowed);
    tensors.extend(norm(&layer.attention_norm));
    tensors.extend([Cow::Owned(joined.weight), Cow::Owned(joined.bias)]);
    tensors.extend(linear(&layer.output));
    tensors.extend(norm(&layer.mlp_norm));
    tensors.extend(linear(&layer.mlp_up));
    tensors.extend(linear(&layer.mlp_down));
}

/// Queries, keys and values, which stand side by side in `[width, 3 · width]`.
fn split(joined: &Linear, width: usize) -> [Linear; 3] {
    [0, 1, 2].map(|part| {
        let columns = part * width..(part + 1) * width;
        let rows = joined.weight.chunks_exact(3 * width);
        Linear {
            weight: rows.flat_map(|row| &row[columns.clone()]).copied().collect(),
            bias: joined.bias[columns].to_vec(),
        }
    })
}

/// The inverse of [`split`].
fn join(parts: [&Linear; 3], width: usize) -> Linear {
    let rows = (0..width).flat_map(|row| {
        parts.into_iter().flat_map(move |part| &part.weight[row * width..(row + 1) * width])
    });
    Linear {
        weight: rows.copied().collect(),
        bias: parts.iter().flat_map(|part| &part.bias).copied().collect(),
    }
}

/// The matrices of a layer of the Llama family, in the order of its files.
fn llama_kinds() -> [BlockKind; LLAMA.len()] {
    LLAMA.map(|module| module.kinds[0])
}

fn llama_layer(next: &mut impl FnMut() -> Vec<f32>, config: &Config) -> Layer {
    let mut norm = || Norm { scale: next(), shift: Vec::new() };
    let (attention_norm, mlp_norm) = (norm(), norm());
    let mut linear = |kind: BlockKind| {
        let weight = next();
        let bias = if config.has_bias(kind) { next() } else { Vec::new() };
        Linear { weight, bias }
    };
    let [query, key, value, output, gate, mlp_up, mlp_down] = llama_kinds().map(&mut linear);
    let mlp_gate = Some(gate);
    Layer { attention_norm, query, key, value, output, mlp_norm, mlp_gate, mlp_up, mlp_down }
}

fn llama_tensors<'a>(layer: &'a Layer, tensors: &mut Vec<Cow<'a, [f32]>>) {
    for norm in [&layer.attention_norm, &layer.mlp_norm] {
        tensors.push(Cow::Borrowed(&norm.scale));
    }
    for linear in llama_kinds().into_iter().filter_map(|kind| layer.linear(kind)) {
        tensors.push(Cow::Borrowed(&linear.weight));
        if !linear.bias.is_empty() {
            tensors.push(Cow::Borrowed(&linear.bias));
        }
    }
}

/// `Err(Error::SizeMismatch)` for the first parameter of another size than it should have.
pub(crate) fn check_sizes(config: &Config, parameters: &Parameters) -> Result<(), Error> {
    let &Config { layers, width, positions, vocabulary, tied, .. } = config;
    let places = if config.rotary().is_none() { positions * width } else { 0 };
    let shift = config.shift_width();
    check("token embedding", parameters.token_embedding.len(), vocabulary * width)?;
    check("position embedding", parameters.position_embedding.len(), places)?;
    check("list of layers", parameters.layers.len(), layers)?;
    check("final norm scale", parameters.final_norm.scale.len(), width)?;
    check("final norm shift", parameters.final_norm.shift.len(), shift)?;
    let own = parameters.unembedding.as_ref().map_or(0, Vec::len);
    check("output embedding", own, if tied { 0 } else { vocabulary * width })?;
    for layer in &parameters.layers {
        for kind in BlockKind::MATRICES {
            let (inputs, outputs) = if config.has(kind) { config.shape(kind) } else { (0, 0) };
            let (weight, bias) = layer
                .linear(kind)
                .map_or((0, 0), |linear| (linear.weight.len(), linear.bias.len()));
            check(kind.name(), weight, inputs * outputs)?;
            check(kind.name(), bias, if config.has_bias(kind) { outputs } else { 0 })?;
        }
        for norm in [&layer.attention_norm, &layer.mlp_norm] {
            check("norm scale", norm.scale.len(), width)?;
            check("norm shift", norm.shift.len(), shift)?;
        }
    }
    Ok(())
}

fn check(quantity: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::SizeMismatch { quantity, found, expected })
}
