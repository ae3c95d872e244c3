//! What the tests of passes share: fixtures, random small models, and one way to say "close".

use fewstep_core::Rng;
use fewstep_engine::{
    BlockId, BlockKind, Config, Family, Labels, Layer, Linear, Llama, Model, Network, Norm,
    Order, Parameters, PromptSettings, Real, Rotary, Scaling, Task, TokenTask, Variant, Yarn,
    choose_blocks,
};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) mod comparison;
pub(crate) mod obtained;

/// The checkpoints with references.
pub(crate) const FOLDERS: [&str; 8] = [
    "gpt2-plain",
    "gpt2-inner",
    "gpt2-half",
    "llama-plain",
    "llama-biases",
    "llama-yarn",
    "mistral-heads",
    "qwen2-biases",
];

/// The kinds that a model has, for a choice of blocks.
pub(crate) fn kinds(config: &Config) -> String {
    let gate = |kind: &BlockKind| *kind != BlockKind::MlpGate || config.family != Family::Gpt2;
    let names = BlockKind::ALL.into_iter().filter(gate).map(|kind| kind.to_string());
    names.collect::<Vec<_>>().join(",")
}

/// All blocks of a model.
pub(crate) fn all_blocks(config: &Config) -> Vec<BlockId> {
    blocks(&format!("{}@all", kinds(config)), config)
}

/// All blocks that are matrices or parts of them as they are.
pub(crate) fn matrix_blocks(config: &Config) -> Vec<BlockId> {
    let mut all = all_blocks(config);
    all.retain(|block| {
        !matches!(block.kind(), BlockKind::LoraValue | BlockKind::LoraQuery | BlockKind::Norm)
    });
    all
}

pub(crate) fn fixture(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder)
}

/// A reference file: its float tensors, its token lists, its provenance.
pub(crate) struct Reference {
    pub(crate) floats: BTreeMap<String, Vec<f64>>,
    pub(crate) tokens: BTreeMap<String, (Vec<usize>, Vec<i64>)>,
    pub(crate) provenance: serde_json::Value,
}

impl Reference {
    pub(crate) fn read(folder: &str, task: &str) -> Self {
        Self::open(&fixture(folder).join(format!("reference-{task}.safetensors")))
    }

    pub(crate) fn open(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = header.metadata().clone().unwrap();
        let provenance = serde_json::from_str(&metadata["provenance"]).unwrap();
        let (mut floats, mut tokens) = (BTreeMap::new(), BTreeMap::new());
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().iter() {
            let words = tensor.data().as_chunks::<8>().0.iter();
            if tensor.dtype() == safetensors::Dtype::F64 {
                floats.insert(name.to_owned(), words.map(|w| f64::from_le_bytes(*w)).collect());
            } else {
                let ids = words.map(|w| i64::from_le_bytes(*w)).collect();
                tokens.insert(name.to_owned(), (tensor.shape().to_vec(), ids));
            }
        }
        Self { floats, tokens, provenance }
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<u32> {
        let known = self.tokens[name].1.iter().filter(|&&id| id >= 0);
        known.map(|&id| u32::try_from(id).unwrap()).collect()
    }

    /// The task as the reference has it, in tokens.
    pub(crate) fn task(&self) -> TokenTask {
        let (shape, ids) = &self.tokens["prompt_tokens"];
        let prompts = ids.chunks_exact(shape[1]).map(|row| {
            row.iter().filter(|&&id| id >= 0).map(|&id| u32::try_from(id).unwrap()).collect()
        });
        let labels =
            Labels::new(self.ids("label_tokens"), self.floats["label_values"].clone()).unwrap();
        TokenTask::new(
            prompts.collect(),
            self.ids("query_tokens"),
            labels,
            self.floats["targets"].clone(),
        )
        .unwrap()
    }
}

pub(crate) fn load<R: Real>(folder: &str) -> Network<R> {
    open(&fixture(folder))
}

pub(crate) fn open<R: Real>(directory: &Path) -> Network<R> {
    let config = Config::load(directory).unwrap();
    Network::new(&config, Parameters::load(directory, &config).unwrap()).unwrap()
}

pub(crate) fn blocks(text: &str, config: &Config) -> Vec<BlockId> {
    choose_blocks(text, config).unwrap()
}

/// The first task of the fixtures with other examples, for `gpt2-plain` and models like it.
pub(crate) fn digits(examples: &[(&str, &str)], order: Order) -> TokenTask {
    let tasks = std::fs::read_to_string(fixture("tasks.jsonl")).unwrap();
    let mut task: Task = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
    task.examples = examples
        .iter()
        .map(|(x, y)| fewstep_engine::Example { x: (*x).to_owned(), y: (*y).to_owned() })
        .collect();
    let model = Model::open(&fixture("gpt2-plain")).unwrap();
    let settings = PromptSettings { order, ..PromptSettings::new(model.config().positions) };
    model.with_prompts(settings).read(&task).unwrap()
}

/// Eleven different examples, the most that fit.
pub(crate) const DIGITS: [(&str, &str); 11] = [
    ("3", "0"),
    ("5", "2"),
    ("8", "5"),
    ("0", "7"),
    ("1", "8"),
    ("9", "1"),
    ("2", "9"),
    ("7", "4"),
    ("4", "6"),
    ("6", "3"),
    ("3", "1"),
];

/// A family by its number: GPT-2, and the Llama family with all that its members differ in.
fn family(number: u64) -> Family {
    let llama = |key_value_heads, head_width, scaling, variant| {
        let rotary = Rotary { base: 100.0, scaling };
        Family::Llama(Llama { key_value_heads, head_width, rotary, variant })
    };
    let biases = |attention_bias, mlp_bias| Variant::Llama { attention_bias, mlp_bias };
    let yarn = Yarn {
        factor: 2.0,
        original: 8,
        fast: 4.0,
        slow: 0.5,
        truncate: false,
        attention: None,
        scales: None,
    };
    let llama3 = Scaling::Llama3 { factor: 4.0, low: 1.0, high: 2.0, original: 12 };
    match number {
        0 => Family::Gpt2,
        1 => llama(2, 4, Scaling::None, biases(false, false)),
        2 => llama(1, 6, llama3, biases(true, true)),
        3 => llama(4, 2, Scaling::Yarn(yarn), Variant::Qwen2),
        _ => llama(2, 8, Scaling::Linear { factor: 2.0 }, Variant::Mistral { window: Some(9) }),
    }
}

/// How many families there are.
pub(crate) const FAMILIES: u64 = 5;

/// A small random GPT-2 model and a task for it; lengths and shared beginnings differ.
pub(crate) fn random_case(seed: u64) -> (Config, Parameters, TokenTask) {
    random_case_of(0, seed)
}

/// As [`random_case`], for one of the families.
pub(crate) fn random_case_of(number: u64, seed: u64) -> (Config, Parameters, TokenTask) {
    let mut rng = Rng::new(seed);
    let config = Config {
        layers: 3,
        heads: if number == 0 { 2 } else { 4 },
        width: 6,
        inner: 10,
        positions: 16,
        vocabulary: 11,
        norm_epsilon: 1e-5,
        tied: seed.is_multiple_of(2),
        bos: None,
        family: family(number),
    };
    let parameters = random_parameters(&config, &mut rng);
    let prompts = [
        vec![1, 2, 3, 4, 5],
        vec![1, 2, 3, 6],
        vec![7, 8, 3, 4, 5, 9, 1],
        vec![7, 8],
        vec![1, 2, 3, 4, 5, 9, 10],
    ];
    let (query, leave_one_out) = prompts.split_last().unwrap();
    let labels = Labels::new(vec![2, 9, 4], vec![-0.5, 0.25, 1.0]).unwrap();
    let targets = vec![0.3, -0.4, 1.0, 0.1];
    let task = TokenTask::new(leave_one_out.to_vec(), query.clone(), labels, targets).unwrap();
    (config, parameters, task)
}

pub(crate) fn random_parameters(config: &Config, rng: &mut Rng) -> Parameters {
    let Config { width, inner, .. } = *config;
    let gpt2 = config.family == Family::Gpt2;
    let mut vector = |size: usize, mean: f64, spread: f64| -> Vec<f32> {
        (0..size).map(|_| f32::of(mean + spread * rng.normal())).collect()
    };
    let token_embedding = vector(config.vocabulary * width, 0.0, 0.6);
    let places = if gpt2 { config.positions } else { 0 };
    let position_embedding = vector(places * width, 0.0, 0.4);
    let shift = if gpt2 { width } else { 0 };
    let attention = config.heads * config.head_width();
    let key_values = config.key_value_heads() * config.head_width();
    let mut layers = Vec::new();
    for _ in 0..config.layers {
        let mut norm =
            || Norm { scale: vector(width, 1.0, 0.3), shift: vector(shift, 0.0, 0.3) };
        let (attention_norm, mlp_norm) = (norm(), norm());
        let mut linear = |kind: BlockKind, inputs: usize, outputs: usize| Linear {
            weight: vector(inputs * outputs, 0.0, 0.5),
            bias: vector(if has_bias(config, kind) { outputs } else { 0 }, 0.0, 0.3),
        };
        layers.push(Layer {
            attention_norm,
            query: linear(BlockKind::Query, width, attention),
            key: linear(BlockKind::Key, width, key_values),
            value: linear(BlockKind::Value, width, key_values),
            output: linear(BlockKind::Output, attention, width),
            mlp_norm,
            mlp_gate: (!gpt2).then(|| linear(BlockKind::MlpGate, width, inner)),
            mlp_up: linear(BlockKind::MlpUp, width, inner),
            mlp_down: linear(BlockKind::MlpDown, inner, width),
        });
    }
    let final_norm = Norm { scale: vector(width, 1.0, 0.3), shift: vector(shift, 0.0, 0.3) };
    let unembedding = (!config.tied).then(|| vector(config.vocabulary * width, 0.0, 0.6));
    Parameters { token_embedding, position_embedding, layers, final_norm, unembedding }
}

/// Which matrices have biases, from the models' descriptions.
fn has_bias(config: &Config, kind: BlockKind) -> bool {
    let attention = kind.per_head();
    match &config.family {
        Family::Gpt2 => true,
        Family::Llama(parts) => match parts.variant {
            Variant::Llama { attention_bias, mlp_bias } => {
                if attention {
                    attention_bias
                } else {
                    mlp_bias
                }
            }
            Variant::Mistral { .. } => false,
            Variant::Qwen2 => attention && kind != BlockKind::Output,
        },
    }
}

pub(crate) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Asserts that two lists differ by at most `tolerance` times the norm of the expected one.
#[track_caller]
pub(crate) fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: sizes");
    let gaps: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    let (gap, scale) = (norm(&gaps), norm(expected));
    assert!(gap <= tolerance * scale, "{what}: off by {gap:e} of {scale:e}");
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
