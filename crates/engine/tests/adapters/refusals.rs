//! Adapters that are not read, each with what was found and what is allowed.

use crate::adapters::peft::rename;
use crate::support::fixture;
use fewstep_engine::{Error, Model, Update};
use serde_json::{Value, json};
use std::path::Path;

/// A copy of an adapter that PEFT made, to be damaged, and its model.
struct Copy {
    directory: tempfile::TempDir,
    model: Model,
}

const PATH: &str = "base_model.model.model.layers.1.self_attn.q_proj";

impl Copy {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["adapter_config.json", "adapter_model.safetensors"] {
            let file = fixture("adapters/qwen2-layers").join(name);
            std::fs::copy(file, directory.path().join(name)).unwrap();
        }
        Self { directory, model: Model::open(&fixture("qwen2-biases")).unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn load(&self) -> Result<Update, Error> {
        Update::load_peft(self.path(), self.model.network())
    }

    /// Sets settings and loads.
    fn with(&self, changes: Value) -> Result<Update, Error> {
        let original = fixture("adapters/qwen2-layers/adapter_config.json");
        let mut settings: Value =
            serde_json::from_slice(&std::fs::read(original).unwrap()).unwrap();
        for (name, value) in changes.as_object().unwrap() {
            settings[name] = value.clone();
        }
        let file = self.path().join("adapter_config.json");
        std::fs::write(file, settings.to_string()).unwrap();
        self.load()
    }

    fn weights(&self) -> Vec<u8> {
        std::fs::read(fixture("adapters/qwen2-layers/adapter_model.safetensors")).unwrap()
    }

    /// Sets the weights and loads.
    fn with_weights(&self, bytes: &[u8]) -> Result<Update, Error> {
        std::fs::write(self.path().join("adapter_model.safetensors"), bytes).unwrap();
        self.load()
    }
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    let copy = Copy::new();
    assert!(copy.load().is_ok());
    for (setting, found) in [
        ("peft_type", json!("ADALORA")),
        ("peft_type", json!(null)),
        ("bias", json!("all")),
        ("use_dora", json!(true)),
        ("use_qalora", json!(true)),
        ("lora_bias", json!(true)),
        ("trainable_token_indices", json!([1, 2])),
        ("target_parameters", json!(["mlp.experts"])),
        ("layer_replication", json!([[0, 2], [1, 2]])),
        ("alora_invocation_tokens", json!([3])),
        ("arrow_config", json!({"top_k": 1})),
        ("init_lora_weights", json!("pissa")),
    ] {
        let text = found.to_string();
        let refused = copy.with(json!({setting: found}));
        let file = copy.path().join("adapter_config.json");
        let Err(Error::Unsupported { file: named, setting: other, found, allowed }) = refused
        else {
            panic!("{setting}: {refused:?}");
        };
        assert_eq!((named, other, found), (file, setting, text));
        assert!(!allowed.is_empty());
    }
    // What is switched off, or says nothing about numbers, is read.
    for changes in [
        json!({"new_method": null, "other_method": false, "third": {}, "fourth": []}),
        json!({"task_type": "SEQ_CLS", "lora_dropout": 0.5, "target_modules": "all-linear"}),
        json!({"init_lora_weights": "gaussian", "modules_to_save": ["ln_1"]}),
    ] {
        assert!(copy.with(changes.clone()).is_ok(), "{changes}");
    }
    let refused = copy.with(json!({"new_method": {"strength": 2}}));
    let Err(Error::UnknownSetting { setting, found, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((setting.as_str(), found.as_str()), ("new_method", r#"{"strength":2}"#));
}

#[test]
fn ranks_and_patterns_must_make_sense() {
    let copy = Copy::new();
    for (changes, expected) in [
        (json!({"r": 0}), 0),
        (json!({"r": 16385}), 16385),
        (json!({"rank_pattern": {"q_proj": 0}}), 0),
    ] {
        let refused = copy.with(changes);
        let Err(Error::SizeOutOfRange { setting: "r", found, largest: 16384, .. }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(found, expected);
    }
    for changes in [
        json!({"r": -1}),
        json!({"r": 2.5}),
        json!({"rank_pattern": {"q_proj": 2.5}}),
        json!({"alpha_pattern": [1]}),
        json!({"lora_alpha": "large"}),
        json!({"use_rslora": 1}),
    ] {
        assert!(matches!(copy.with(changes), Err(Error::Json { line: 1, .. })));
    }
    for pattern in ["(q_proj", "(?=q)q_proj", &"q{1000}".repeat(20)] {
        let refused = copy.with(json!({"alpha_pattern": {pattern: 1}}));
        let Err(Error::BadPattern { setting: "alpha_pattern", found, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(found, pattern);
    }
    let many: serde_json::Map<String, Value> =
        (0..8193).map(|n| (format!("p{n}"), json!(1))).collect();
    let refused = copy.with(json!({"alpha_pattern": many}));
    assert!(matches!(
        refused,
        Err(Error::SizeOutOfRange { setting: "alpha_pattern", found: 8193, largest: 8192, .. })
    ));
    // A rank that is not that of the tensors.
    let refused = copy.with(json!({"r": 3}));
    let Err(Error::TensorShape { tensor, found, expected, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(tensor, format!("{PATH}.lora_A.weight"));
    assert_eq!((found, expected), (vec![2, 16], vec![3, 16]));
    // A scaling that no number holds.
    let refused = copy.with(json!({"lora_alpha": 1e300}));
    let Err(Error::WeightNotFinite { tensor, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(tensor, PATH);
}

#[test]
fn the_first_pattern_in_the_file_counts() {
    let copy = Copy::new();
    let file = copy.path().join("adapter_config.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut loaded = Vec::new();
    for patterns in [
        r#"{"self_attn.q_proj": 10, ".*q_proj": 5}"#,
        r#"{".*q_proj": 5, "self_attn.q_proj": 10}"#,
    ] {
        let text =
            text.replace(r#""alpha_pattern": {}"#, &format!(r#""alpha_pattern": {patterns}"#));
        std::fs::write(&file, text).unwrap();
        let update = copy.load().unwrap();
        let (_, change) =
            update.blocks().iter().find(|(b, _)| b.to_string() == "query.1.0").unwrap();
        loaded.push(change[5]);
    }
    assert!(loaded[1].abs() > 0.0);
    assert!((loaded[0] - 2.0 * loaded[1]).abs() < 1e-6 * loaded[0].abs(), "{loaded:?}");
}

#[test]
fn tensors_must_be_factors_of_the_models_matrices() {
    let copy = Copy::new();
    let weights = copy.weights();
    let name = "self_attn.q_proj.lora_A.weight";
    for (old, new) in [
        (name, "self_attn.q_proj.lora_A.default.weight"),
        (name, "self_attn.q_proj.lora_magnitude_vector"),
        (name, "self_attn.qkv_proj.lora_A.weight"),
        (name, "input_layernorm.bias"),
        (name, "norm.weight"),
        ("model.model.layers.1.", "model.model.layers.2."),
        ("model.model.layers.1.", "model.model.layers.01."),
        ("model.model.layers.1.", "model.model.layers.18446744073709551616."),
        (
            "base_model.model.model.layers.1.self_attn.q_proj.lora_A",
            "base_model.model.lm_head.lora_A",
        ),
        ("base_model.model.model", "model"),
    ] {
        let refused = copy.with_weights(&rename(&weights, old, new));
        let Err(Error::NotAdaptable { file, tensor, allowed }) = refused else {
            panic!("{new}: {refused:?}");
        };
        assert_eq!(file, copy.path().join("adapter_model.safetensors"));
        assert!(tensor.contains(new), "{tensor}");
        assert!(allowed.starts_with("model.layers. with a layer from 0 to 1"), "{allowed}");
    }
    // A norm of another size.
    let refused = copy.with_weights(&rename(&weights, name, "input_layernorm.weight"));
    assert!(matches!(refused, Err(Error::TensorShape { .. })), "{refused:?}");
    // The same matrix under both of its names.
    let half = "model.model.layers.1.self_attn.q_proj.lora_B";
    let refused =
        copy.with_weights(&rename(&weights, half, "model.layers.1.self_attn.q_proj.lora_B"));
    assert!(matches!(refused, Err(Error::DuplicateTensor { .. })), "{refused:?}");
    // A factor without its other half.
    let other = rename(&weights, "q_proj.lora_B", "k_proj.lora_B");
    let refused = copy.with_weights(&other);
    let Err(Error::MissingTensor { tensor, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(tensor, format!("{PATH}.lora_B.weight"));
    // No factors at all.
    let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
    assert_eq!(copy.with_weights(&empty), Err(Error::Empty { quantity: "adapter" }));
    let refused = copy.with_weights(b"");
    assert!(matches!(refused, Err(Error::HeaderLength { available: 0, .. })), "{refused:?}");
    // NaN, and types that are not read.
    let mut broken = weights.clone();
    let end = broken.len();
    broken[end - 2..].copy_from_slice(&[0x80, 0x7f]);
    let refused = copy.with_weights(&broken);
    assert!(matches!(refused, Err(Error::WeightNotFinite { .. })), "{refused:?}");
    let refused = copy.with_weights(&rename(&weights, "BF16", "U16"));
    assert!(matches!(refused, Err(Error::TensorType { found, .. }) if found == "U16"));
}

#[test]
fn files_must_be_there() {
    let copy = Copy::new();
    for name in ["adapter_model.safetensors", "adapter_config.json"] {
        std::fs::remove_file(copy.path().join(name)).unwrap();
        let refused = copy.load();
        let Err(Error::File { file, action: "read", .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(file, copy.path().join(name));
    }
}

/// Whatever byte is another, or missing, the answer is an update or an error.
#[test]
fn damaged_files_are_answered() {
    let copy = Copy::new();
    let weights = copy.weights();
    for at in 0..weights.len() {
        let mut damaged = weights.clone();
        damaged[at] ^= 0x15;
        let _ = copy.with_weights(&damaged);
        let _ = copy.with_weights(&weights[..at]);
    }
    assert!(copy.with_weights(&weights).is_ok());
    let file = copy.path().join("adapter_config.json");
    let settings = std::fs::read(&file).unwrap();
    for at in 0..settings.len() {
        let mut damaged = settings.clone();
        damaged[at] ^= 0x15;
        std::fs::write(&file, damaged).unwrap();
        let _ = copy.load();
    }
}
