//! Models that fuzzing came upon and that are worth keeping: each takes a task, or is refused for
//! its own reason.

use fewstep_core::Rng;
use fewstep_engine::{Config, Error, Model, Parameters, Real, Task, Tokenizer, choose_blocks};
use serde_json::{Value, json};

/// The texts of a configuration and a tokenizer, and weights.
struct Parts {
    config: Value,
    tokenizer: Value,
    weights: Vec<u8>,
}

/// A model of 17 tokens and width 2, with every optional part of a tokenizer.
fn parts() -> Parts {
    let letters =
        ["0", "1", "2", "3", "7", "-", ">", "a", "b", "x", ":", "Ġ", "Ċ", "->", "10", "Ġa"];
    let vocabulary: serde_json::Map<String, Value> =
        letters.iter().zip(0..).map(|(text, id)| ((*text).to_owned(), json!(id))).collect();
    let config = json!({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 2,
                        "n_inner": 2, "n_positions": 32, "vocab_size": 17});
    let weights = weights(&config, |rng| f32::of(rng.normal()));
    Parts {
        config,
        tokenizer: json!({
            "added_tokens": [{"id": 16, "content": "<s>", "single_word": false, "lstrip": false,
                              "rstrip": false, "normalized": false, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Digits"}, {"type": "ByteLevel", "add_prefix_space": false}]},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"ids": [16]}}},
            "model": {"type": "BPE", "ignore_merges": false, "vocab": vocabulary,
                      "merges": ["- >", ["1", "0"], "Ġ a"]},
        }),
        weights,
    }
}

/// The bytes of a weight file, written out here: all numbers from one source.
fn weights(config: &Value, number: impl Fn(&mut Rng) -> f32) -> Vec<u8> {
    let config = Config::from_json(config.to_string().as_bytes()).unwrap();
    let (width, inner) = (config.width, config.inner);
    let mut rng = Rng::new(5);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in [
        ("wte.weight", vec![config.vocabulary, width]),
        ("wpe.weight", vec![config.positions, width]),
        ("h.0.ln_1.weight", vec![width]),
        ("h.0.ln_1.bias", vec![width]),
        ("h.0.attn.c_attn.weight", vec![width, 3 * width]),
        ("h.0.attn.c_attn.bias", vec![3 * width]),
        ("h.0.attn.c_proj.weight", vec![width, width]),
        ("h.0.attn.c_proj.bias", vec![width]),
        ("h.0.ln_2.weight", vec![width]),
        ("h.0.ln_2.bias", vec![width]),
        ("h.0.mlp.c_fc.weight", vec![width, inner]),
        ("h.0.mlp.c_fc.bias", vec![inner]),
        ("h.0.mlp.c_proj.weight", vec![inner, width]),
        ("h.0.mlp.c_proj.bias", vec![width]),
        ("ln_f.weight", vec![width]),
        ("ln_f.bias", vec![width]),
    ] {
        let start = data.len();
        let count: usize = shape.iter().product();
        data.extend((0..count).flat_map(|_| number(&mut rng).to_le_bytes()));
        let place =
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.to_owned(), place);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// Loads the model and lets it look at a task.
fn observe(parts: &Parts) -> Result<f64, Error> {
    let [config, tokenizer] = [&parts.config, &parts.tokenizer].map(ToString::to_string);
    let model = Model::from_bytes(config.as_bytes(), tokenizer.as_bytes(), &parts.weights)?;
    let task: Task = serde_json::from_value(json!({
        "id": "a", "template": "{x}->{y}", "query": {"x": "0"},
        "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
        "examples": [{"x": "0", "y": "1"}, {"x": "1", "y": "0"}, {"x": "10", "y": "1"}],
    }))
    .unwrap();
    let blocks = choose_blocks("value,query,mlp-up@all", model.config())?;
    Ok(model.with_memory_limit(1 << 26).observe(&task, &blocks)?.query_prediction)
}

/// The model with some values of its configuration or tokenizer replaced.
fn with(changes: &[(&str, Value)]) -> Parts {
    let mut parts = parts();
    for (place, value) in changes {
        let (file, place) = place.split_once(':').unwrap();
        let file = if file == "config" { &mut parts.config } else { &mut parts.tokenizer };
        let (parent, name) = place.rsplit_once('/').unwrap();
        match file.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[name.parse::<usize>().unwrap()] = value.clone(),
            object => object[name] = value.clone(),
        }
    }
    parts
}

#[test]
fn odd_models_take_tasks() {
    let usual = observe(&parts()).unwrap();
    let end = parts().tokenizer["added_tokens"][0].clone();
    for changes in [
        // Settings that change nothing: a token beyond the vocabulary, the other name of a size.
        &[("config:/bos_token_id", json!(u32::MAX))][..],
        &[("config:/n_positions", json!(null)), ("config:/n_ctx", json!(32))],
        // The same token added again and again; a list of tokens that only asks for its text.
        &[("tokenizer:/added_tokens", json!(vec![end; 20]))],
        &[
            ("tokenizer:/truncation", json!({"max_length": 0})),
            ("tokenizer:/padding", json!([])),
        ],
        // No pattern for words, where all are short; steps that were taken already.
        &[("tokenizer:/pre_tokenizer/pretokenizers/1/use_regex", json!(false))],
        &[(
            "tokenizer:/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": [
                {"type": "Digits"}, {"type": "Digits"}, {"type": "Digits"},
                {"type": "ByteLevel", "add_prefix_space": false}]}),
        )],
    ] {
        assert_eq!(observe(&with(changes)), Ok(usual), "{changes:?}");
    }
    // Settings that do: one head, the largest epsilon, no token in front, no merges.
    for changes in [
        ("config:/n_head", json!(1)),
        ("config:/layer_norm_epsilon", json!(1.0)),
        ("tokenizer:/post_processor", json!(null)),
        ("tokenizer:/model/merges", json!([])),
    ] {
        let seen = observe(&with(std::slice::from_ref(&changes))).unwrap();
        assert!(seen.is_finite() && seen.to_bits() != usual.to_bits(), "{changes:?}");
    }
}

/// Weights may be any finite numbers; what they lead to may be none.
#[test]
fn extreme_weights_are_refused_or_give_numbers() {
    for largest in [1e-45_f32, 1e-20, 1e10, 1e19, f32::MAX] {
        let mut parts = parts();
        parts.weights =
            weights(&parts.config, |rng| largest * f32::of(2.0 * rng.uniform() - 1.0));
        match observe(&parts) {
            Ok(prediction) => assert!((0.0..=1.0).contains(&prediction), "{largest}"),
            Err(refused) => assert!(
                matches!(refused, Error::NotFinite { steps: 0, .. } | Error::Core(_)),
                "{largest}: {refused}"
            ),
        }
    }
    // An epsilon that vanishes in single precision, and a norm of numbers that are all alike.
    let mut parts = with(&[("config:/layer_norm_epsilon", json!(1e-52))]);
    parts.weights = weights(&parts.config, |_| 0.0);
    assert_eq!(observe(&parts), Err(Error::NotFinite { sequence: 0, steps: 0 }));
}

#[test]
fn odd_models_are_refused_where_they_are_odd() {
    for (changes, variant) in [
        (("config:/n_embd", json!(u64::MAX)), "SizeOutOfRange"),
        (("config:/n_embd", json!(1e15)), "Json"),
        (("config:/n_head", json!(0)), "SizeOutOfRange"),
        (("config:/n_positions", json!(null)), "Unsupported"),
        (("config:/layer_norm_epsilon", json!(-1e-320)), "EpsilonOutOfRange"),
        (("config:/layer_norm_epsilon", json!("1e-5")), "Json"),
        (("config:/n_layer", json!(2)), "MissingTensor"),
        (("config:/n_inner", json!(null)), "TensorShape"),
        (("config:/tie_word_embeddings", json!(false)), "MissingTensor"),
        (("config:/vocab_size", json!(1)), "TokenBeyondVocabulary"),
        (
            ("config:/architectures", json!(["GPT2LMHeadModel", "GPT2LMHeadModel"])),
            "Unsupported",
        ),
        (("tokenizer:/model/vocab/a", json!(1e155)), "Json"),
        (("tokenizer:/model/vocab/a", json!(8)), "DuplicateToken"),
        (("tokenizer:/model/vocab", json!({})), "BadMerge"),
        (("tokenizer:/model/merges/1", json!(["1"])), "Json"),
        (("tokenizer:/model/merges/0", json!("")), "BadMerge"),
        (("tokenizer:/added_tokens/0/content", json!("a")), "Unsupported"),
        (("tokenizer:/added_tokens/0/id", json!(-1)), "Json"),
        (("tokenizer:/post_processor/special_tokens/<s>/ids", json!([true])), "Unsupported"),
        (("tokenizer:/post_processor/single", json!([])), "Unsupported"),
        (("tokenizer:/normalizer", json!({"type": "NFKC"})), "Unsupported"),
    ] {
        let refused =
            observe(&with(std::slice::from_ref(&changes))).expect_err(&format!("{changes:?}"));
        assert!(format!("{refused:?}").starts_with(variant), "{changes:?}: {refused:?}");
    }
}

/// Bytes of characters may be tokens of their own; others are refused, not lost.
#[test]
fn a_tokenizer_of_few_letters_says_what_it_cannot_write() {
    let parts = parts();
    let config = Config::from_json(parts.config.to_string().as_bytes()).unwrap();
    assert!(Parameters::from_bytes(&parts.weights, &config).is_ok());
    let tokenizer =
        Tokenizer::from_json(parts.tokenizer.to_string().as_bytes(), &config).unwrap();
    assert_eq!(tokenizer.encode("10->a a<s>"), Ok(vec![14, 13, 7, 15, 16]));
    let refused = tokenizer.encode("a\u{301}");
    assert_eq!(refused, Err(Error::UnknownText { position: 1, character: '\u{301}' }));
}
