//! The Llama family: what its configurations and checkpoints say, and every refusal by name.

use crate::loading::support::{encode, file, values, write_shards};
use fewstep_engine::{
    Config, Error, Family, Llama, Network, Parameters, Precision, Rotary, Scaling, Variant,
    Yarn,
};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::fs;
use tempfile::tempdir;

fn settings() -> Value {
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8,
        "intermediate_size": 6, "max_position_embeddings": 32, "vocab_size": 5,
    })
}

/// The test configuration with some settings changed; null removes one.
fn with(changes: &Value) -> Result<Config, Error> {
    let mut settings = settings();
    for (name, value) in changes.as_object().unwrap() {
        settings[name] = value.clone();
    }
    Config::from_json(settings.to_string().as_bytes())
}

fn parts(changes: &Value) -> Llama {
    match with(changes).unwrap().family {
        Family::Llama(parts) => parts,
        Family::Gpt2 => panic!("it is of the Llama family"),
    }
}

fn plain() -> Config {
    Config {
        layers: 2,
        heads: 4,
        width: 8,
        inner: 6,
        positions: 32,
        vocabulary: 5,
        norm_epsilon: 1e-6,
        tied: false,
        bos: None,
        family: Family::Llama(Llama {
            key_value_heads: 2,
            head_width: 2,
            rotary: Rotary { base: 10000.0, scaling: Scaling::None },
            variant: Variant::Llama { attention_bias: false, mlp_bias: false },
        }),
    }
}

#[test]
fn defaults_are_those_of_the_family() {
    assert_eq!(with(&json!({})), Ok(plain()));
    assert_eq!(parts(&json!({"num_key_value_heads": null})).key_value_heads, 4);
    let silent = with(&json!({
        "hidden_act": "silu", "pretraining_tp": 1, "partial_rotary_factor": 1.0,
        "use_sliding_window": false, "layer_types": ["full_attention", "full_attention"],
        "rope_scaling": null, "rope_theta": 10000.0, "head_dim": null,
        "attention_dropout": 0.1, "initializer_range": 0.5,
    }));
    assert_eq!(silent, Ok(plain()));
}

#[test]
fn every_setting_arrives_and_is_written_again() {
    for changes in [
        json!({"rms_norm_eps": 1e-5, "tie_word_embeddings": true, "bos_token_id": 3}),
        json!({"attention_bias": true, "mlp_bias": true, "head_dim": 6, "rope_theta": 5e5}),
        json!({"attention_bias": true}),
        json!({"model_type": "mistral", "architectures": ["MistralForCausalLM"]}),
        json!({"model_type": "mistral", "architectures": null, "sliding_window": null}),
        json!({"model_type": "mistral", "architectures": null, "sliding_window": 7}),
        json!({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}),
        json!({"rope_scaling": {"type": "linear", "factor": 2.5}}),
        json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}),
        json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
        json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
        json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.5,
            "beta_fast": 16, "beta_slow": 2, "truncate": false, "mscale": 0.7,
            "mscale_all_dim": 0.5, "original_max_position_embeddings": 8}}),
    ] {
        let config = with(&changes).unwrap();
        assert_ne!(config, plain(), "{changes}");
        let again = Config::from_json(config.to_json().as_bytes());
        assert_eq!(again, Ok(config), "{changes}");
    }
    let config =
        with(&json!({"head_dim": 6, "rms_norm_eps": 1e-5, "bos_token_id": 3})).unwrap();
    assert_eq!((config.head_width(), config.bos), (6, Some(3)));
    assert_eq!(config.norm_epsilon.to_bits(), 1e-5_f64.to_bits());
}

#[test]
fn variants_differ_in_their_own_settings() {
    let mistral = |window: Value| {
        let settings = json!({"model_type": "mistral", "architectures": null});
        let mut changes = settings;
        if window != "absent" {
            changes["sliding_window"] = window;
        }
        parts(&changes).variant
    };
    assert_eq!(mistral(json!("absent")), Variant::Mistral { window: Some(4096) });
    assert_eq!(mistral(Value::Null), Variant::Mistral { window: None });
    assert_eq!(mistral(json!(9)), Variant::Mistral { window: Some(9) });
    let qwen2 = json!({"model_type": "qwen2", "architectures": null, "sliding_window": 9});
    assert_eq!(parts(&qwen2).variant, Variant::Qwen2);
}

#[test]
fn positions_are_read_in_both_forms() {
    let rotary = |changes: Value| parts(&changes).rotary;
    let linear = Rotary { base: 500.0, scaling: Scaling::Linear { factor: 2.0 } };
    for changes in [
        json!({"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}),
        json!({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}),
        json!({"rope_theta": 500.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}),
        json!({"rope_theta": 9.0,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}),
    ] {
        assert_eq!(rotary(changes), linear);
    }
    let default = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 7.5}});
    assert_eq!(rotary(default), Rotary { base: 7.5, scaling: Scaling::None });
    // The length that a model first saw is that of its longest sequence unless said.
    let yarn = |more: Value| {
        let mut given = json!({"rope_type": "yarn", "factor": 4.0});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rotary(json!({"rope_scaling": given})).scaling
    };
    let expected = Yarn {
        factor: 4.0,
        original: 32,
        fast: 32.0,
        slow: 1.0,
        truncate: true,
        attention: None,
        scales: None,
    };
    assert_eq!(yarn(json!({})), Scaling::Yarn(expected));
    let given = json!({"original_max_position_embeddings": 8, "mscale": 2.0});
    assert_eq!(yarn(given), Scaling::Yarn(Yarn { original: 8, ..expected }));
    let given = json!({"mscale": 2.0, "mscale_all_dim": 0.5, "beta_fast": 0});
    assert_eq!(yarn(given), Scaling::Yarn(Yarn { scales: Some((2.0, 0.5)), ..expected }));
}

/// The setting that is named, and its value.
fn refused(changes: &Value) -> (&'static str, String) {
    match with(changes) {
        Err(Error::Unsupported { setting, found, .. }) => (setting, found),
        other => panic!("{changes}: {other:?}"),
    }
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    for (setting, value) in [
        ("model_type", json!("qwen2_moe")),
        ("model_type", json!("llama4")),
        ("architectures", json!(["LlamaForSequenceClassification"])),
        ("architectures", json!(["MistralForCausalLM"])),
        ("hidden_act", json!("gelu")),
        ("pretraining_tp", json!(2)),
        ("partial_rotary_factor", json!(0.5)),
        ("use_sliding_window", json!(true)),
        ("layer_types", json!(["full_attention", "sliding_attention"])),
        ("quantization_config", json!({"bits": 4})),
    ] {
        assert_eq!(refused(&json!({setting: value})), (setting, value.to_string()));
    }
    let qwen2 =
        json!({"model_type": "qwen2", "architectures": null, "num_key_value_heads": null});
    assert_eq!(refused(&qwen2), ("num_key_value_heads", "absent".to_owned()));
    assert_eq!(refused(&json!({"head_dim": 5})), ("head_dim", "5".to_owned()));
}

#[test]
fn scalings_that_are_unknown_or_out_of_range_are_refused_by_name() {
    let rope = |given: Value| refused(&json!({"rope_scaling": given}));
    for unknown in ["longrope", "mrope", "su"] {
        assert_eq!(rope(json!({"type": unknown})), ("rope_type", format!("{unknown:?}")));
    }
    assert_eq!(rope(json!({"type": "linear"})), ("factor", "absent".to_owned()));
    let llama3 = |low: f64, high: f64| {
        json!({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": low,
               "high_freq_factor": high})
    };
    assert_eq!(rope(llama3(0.0, 4.0)), ("low_freq_factor", "0".to_owned()));
    assert_eq!(rope(llama3(4.0, 4.0)), ("high_freq_factor", "4".to_owned()));
    let yarn = |name: &str, value: Value| {
        let mut given = json!({"rope_type": "yarn", "factor": 2.0});
        given[name] = value;
        rope(given)
    };
    for (name, value) in [
        ("factor", 0.5),
        ("beta_fast", -1.0),
        ("beta_slow", -2.0),
        ("attention_factor", 0.0),
        ("original_max_position_embeddings", 0.0),
    ] {
        let given = if value == 0.0 { json!(0) } else { json!(value) };
        assert_eq!(yarn(name, given), (name, value.to_string()));
    }
    for base in [1.0, 0.0, -5.0] {
        assert_eq!(refused(&json!({"rope_theta": base})), ("rope_theta", base.to_string()));
    }
    let part =
        json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}});
    assert_eq!(refused(&part), ("partial_rotary_factor", "0.5".to_owned()));
    let nested = json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}});
    assert_eq!(refused(&nested), ("rope_parameters", "full_attention".to_owned()));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    for (name, limit) in [
        ("num_hidden_layers", 1 << 10),
        ("hidden_size", 1 << 16),
        ("intermediate_size", 1 << 18),
        ("max_position_embeddings", 1 << 20),
        ("vocab_size", 1 << 22),
        ("num_key_value_heads", 4),
        ("head_dim", (1 << 18) / 4),
    ] {
        for value in [0, limit + 1] {
            // A width that heads cannot share is another mistake.
            let refused = with(&json!({"head_dim": 2, name: value}));
            let Err(Error::SizeOutOfRange { setting, found, largest, .. }) = refused else {
                panic!("{name} = {value}: {refused:?}");
            };
            assert_eq!((setting, found, largest), (name, value, limit));
        }
    }
    let refused = with(&json!({"num_attention_heads": 3, "num_key_value_heads": 3}));
    assert!(matches!(refused, Err(Error::HeadsDoNotDivide { heads: 3, width: 8, .. })));
    let refused = with(&json!({"num_key_value_heads": 3}));
    let Err(Error::KeyValueHeadsDoNotDivide { heads, key_value_heads, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((heads, key_value_heads), (4, 3));
    let refused = with(&json!({"num_attention_heads": 0}));
    assert!(matches!(refused, Err(Error::HeadsDoNotDivide { heads: 0, .. })));
    let window = json!({"model_type": "mistral", "architectures": null, "sliding_window": 0});
    let refused = with(&window);
    assert!(matches!(refused, Err(Error::SizeOutOfRange { setting: "sliding_window", .. })));
    let Err(Error::EpsilonOutOfRange { setting, found, .. }) =
        with(&json!({"rms_norm_eps": 2}))
    else {
        panic!("epsilon 2 was accepted");
    };
    assert_eq!((setting, found.to_bits()), ("rms_norm_eps", 2.0_f64.to_bits()));
}

/// Names and shapes of a model with all biases, written out by hand for the sizes above.
fn names(prefix: &str) -> Vec<(String, Vec<usize>)> {
    let mut names = vec![("embed_tokens.weight".to_owned(), vec![5, 8])];
    for layer in ["layers.0", "layers.1"] {
        for (name, shape) in [
            ("input_layernorm.weight", vec![8]),
            ("post_attention_layernorm.weight", vec![8]),
            ("self_attn.q_proj.weight", vec![8, 8]),
            ("self_attn.q_proj.bias", vec![8]),
            ("self_attn.k_proj.weight", vec![4, 8]),
            ("self_attn.k_proj.bias", vec![4]),
            ("self_attn.v_proj.weight", vec![4, 8]),
            ("self_attn.v_proj.bias", vec![4]),
            ("self_attn.o_proj.weight", vec![8, 8]),
            ("self_attn.o_proj.bias", vec![8]),
            ("mlp.gate_proj.weight", vec![6, 8]),
            ("mlp.gate_proj.bias", vec![6]),
            ("mlp.up_proj.weight", vec![6, 8]),
            ("mlp.up_proj.bias", vec![6]),
            ("mlp.down_proj.weight", vec![8, 6]),
            ("mlp.down_proj.bias", vec![8]),
        ] {
            names.push((format!("{layer}.{name}"), shape));
        }
    }
    names.push(("norm.weight".to_owned(), vec![8]));
    for (name, _) in &mut names {
        *name = format!("{prefix}{name}");
    }
    names.push(("lm_head.weight".to_owned(), vec![5, 8]));
    names
}

fn tensors(prefix: &str) -> Vec<crate::loading::support::Tensor> {
    names(prefix)
        .into_iter()
        .enumerate()
        .map(|(index, (name, shape))| {
            let bytes = encode(Dtype::F32, &values(index, shape.iter().product()));
            crate::loading::support::Tensor { name, shape, dtype: Dtype::F32, bytes }
        })
        .collect()
}

fn biased() -> Config {
    with(&json!({"attention_bias": true, "mlp_bias": true})).unwrap()
}

/// Every tensor arrives in its place: with and without prefix, in one file and in shards, and
/// with the table of frequencies that older files hold.
#[test]
fn weights_arrive_under_all_names() {
    let config = biased();
    let at = |index: usize, size: usize| values(index, size);
    for prefix in ["model.", ""] {
        let mut all = tensors(prefix);
        all.push(crate::loading::support::Tensor {
            name: format!("{prefix}layers.1.self_attn.rotary_emb.inv_freq"),
            shape: vec![1],
            dtype: Dtype::F32,
            bytes: encode(Dtype::F32, &[1.0]),
        });
        let loaded = Parameters::from_bytes(&file(&all), &config).unwrap();
        assert_eq!(loaded.token_embedding, at(0, 40));
        assert!(loaded.position_embedding.is_empty());
        let layer = &loaded.layers[1];
        assert_eq!(layer.attention_norm.scale, at(17, 8));
        assert_eq!(layer.mlp_norm.scale, at(18, 8));
        assert!(layer.mlp_norm.shift.is_empty());
        let gate = layer.mlp_gate.as_ref().unwrap();
        for (index, linear, size, bias) in [
            (19, &layer.query, 64, 8),
            (21, &layer.key, 32, 4),
            (23, &layer.value, 32, 4),
            (25, &layer.output, 64, 8),
            (27, gate, 48, 6),
            (29, &layer.mlp_up, 48, 6),
            (31, &layer.mlp_down, 48, 8),
        ] {
            assert_eq!(
                (&linear.weight, &linear.bias),
                (&at(index, size), &at(index + 1, bias))
            );
        }
        assert_eq!(loaded.final_norm.scale, at(33, 8));
        assert_eq!(loaded.unembedding, Some(at(34, 40)));

        let directory = tempdir().unwrap();
        let (low, high) = all.split_at(11);
        write_shards(directory.path(), &[("a", low), ("b", high)]);
        assert_eq!(Parameters::load(directory.path(), &config), Ok(loaded));
    }
}

#[test]
fn weights_of_another_variant_are_refused() {
    let all = tensors("model.");
    // Without biases in the configuration the file's are unknown, and the other way round.
    let refused = Parameters::from_bytes(&file(&all), &plain());
    let Err(Error::UnknownTensor { tensor, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(tensor.ends_with(".bias"), "{tensor}");
    let bare: Vec<_> = all.iter().filter(|t| !t.name.ends_with("bias")).cloned().collect();
    let refused = Parameters::from_bytes(&file(&bare), &biased());
    let Err(Error::MissingTensor { tensor, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(tensor, "model.layers.0.self_attn.q_proj.bias");
    let qwen2 = json!({"model_type": "qwen2", "architectures": null});
    let refused = Parameters::from_bytes(&file(&all), &with(&qwen2).unwrap());
    let Err(Error::UnknownTensor { tensor, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(tensor, "model.layers.0.mlp.down_proj.bias");
}

#[test]
fn saving_and_loading_is_the_identity() {
    let config = biased();
    let parameters = Parameters::from_bytes(&file(&tensors("")), &config).unwrap();
    let directory = tempdir().unwrap();
    let path = directory.path();
    parameters.save(path, &config, Precision::Single).unwrap();
    assert_eq!(Config::load(path), Ok(config.clone()));
    assert_eq!(Parameters::load(path, &config), Ok(parameters.clone()));
    let bytes = fs::read(path.join("model.safetensors")).unwrap();
    let others = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(others.len(), names("").len());
    for tensor in tensors("model.") {
        let view = others.tensor(&tensor.name).unwrap();
        assert_eq!((view.shape(), view.data()), (&tensor.shape[..], &tensor.bytes[..]));
    }
    let network: Network = Network::new(&config, parameters.clone()).unwrap();
    assert_eq!(network.parameters(), parameters);
    let mut wrong = parameters;
    wrong.layers[1].mlp_gate = None;
    let refused = wrong.save(path, &config, Precision::Single).unwrap_err();
    let quantity = "mlp-gate";
    assert_eq!(refused, Error::SizeMismatch { quantity, found: 0, expected: 48 });
}
