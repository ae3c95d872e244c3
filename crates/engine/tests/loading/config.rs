//! `config.json`: what is accepted, and every refusal by name.

use crate::loading::support::CONFIG;
use fewstep_engine::{Config, Error, Family};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;

/// The test configuration with some settings changed; null removes one.
fn with(changes: &Value) -> Result<Config, Error> {
    let mut settings: Value = serde_json::from_str(CONFIG).unwrap();
    for (name, value) in changes.as_object().unwrap() {
        settings[name] = value.clone();
    }
    Config::from_json(settings.to_string().as_bytes())
}

#[test]
fn every_setting_arrives() {
    let config = with(&json!({
        "layer_norm_epsilon": 1e-6, "tie_word_embeddings": false, "bos_token_id": 3,
        "activation_function": "gelu_pytorch_tanh", "reorder_and_upcast_attn": true,
        "scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false, "n_ctx": 99,
    }));
    let expected = Config {
        layers: 2,
        heads: 2,
        width: 4,
        inner: 6,
        positions: 8,
        vocabulary: 5,
        norm_epsilon: 1e-6,
        tied: false,
        bos: Some(3),
        family: Family::Gpt2,
    };
    assert_eq!(config, Ok(expected.clone()));
    assert_eq!(Config::from_json(expected.to_json().as_bytes()), Ok(expected));
}

#[test]
fn defaults_are_those_of_the_family() {
    let config = with(&json!({"n_inner": null, "n_positions": null, "n_ctx": 7})).unwrap();
    assert_eq!((config.inner, config.positions), (16, 7));
    assert_eq!(config.norm_epsilon.to_bits(), 1e-5_f64.to_bits());
    assert_eq!((config.tied, config.bos), (true, None));
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    for (setting, value) in [
        ("model_type", json!("bert")),
        ("model_type", Value::Null),
        ("architectures", json!(["GPT2ForSequenceClassification"])),
        ("architectures", json!("GPT2LMHeadModel")),
        ("activation_function", json!("gelu")),
        ("activation_function", json!(1)),
        ("scale_attn_weights", json!(false)),
        ("scale_attn_by_inverse_layer_idx", json!(true)),
        ("add_cross_attention", json!(true)),
        ("quantization_config", json!({"bits": 4})),
    ] {
        let Err(Error::Unsupported { file, setting: named, found, .. }) =
            with(&json!({setting: value}))
        else {
            panic!("{setting} = {value} was accepted");
        };
        assert_eq!((named, found), (setting, value.to_string()));
        assert_eq!(file.to_str(), Some("config.json"));
    }
    let Err(Error::Unsupported { setting: "n_positions", found, .. }) =
        with(&json!({"n_positions": null}))
    else {
        panic!("a model without a longest sequence was accepted");
    };
    assert_eq!(found, "absent");
}

#[test]
fn absurd_sizes_are_refused() {
    for (name, limit) in [
        ("n_layer", 1 << 10),
        ("n_embd", 1 << 16),
        ("n_head", 1 << 16),
        ("n_inner", 1 << 18),
        ("n_positions", 1 << 20),
        ("vocab_size", 1 << 22),
    ] {
        for value in [0, limit + 1, usize::MAX] {
            let Err(Error::SizeOutOfRange { setting, found, largest, .. }) =
                with(&json!({name: value}))
            else {
                panic!("{name} = {value} was accepted");
            };
            assert_eq!((setting, found, largest), (name, value, limit));
        }
    }
    assert!(matches!(
        with(&json!({"n_head": 3})),
        Err(Error::HeadsDoNotDivide { heads: 3, width: 4, .. })
    ));
    for value in [0.0, -1e-5, 1.5] {
        let Err(Error::EpsilonOutOfRange { found, .. }) =
            with(&json!({"layer_norm_epsilon": value}))
        else {
            panic!("epsilon {value} was accepted");
        };
        assert_eq!(found.to_bits(), f64::to_bits(value));
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.json");
    assert_eq!(
        Config::load(directory.path()),
        Err(Error::File { file: file.clone(), action: "read", kind: ErrorKind::NotFound })
    );

    fs::create_dir(&file).unwrap();
    assert_eq!(Config::load(directory.path()), Err(Error::NotAFile { file: file.clone() }));
    fs::remove_dir(&file).unwrap();

    fs::write(&file, vec![b' '; (1 << 20) + 1]).unwrap();
    let (found, limit) = ((1 << 20) + 1, 1 << 20);
    let refused = Error::FileTooLarge { file: file.clone(), found, limit };
    assert_eq!(Config::load(directory.path()), Err(refused));

    fs::write(&file, "{\"model_type\": \"gpt2\",\n \"n_layer\": -1}").unwrap();
    let Err(Error::Json { file: named, line, column, problem }) =
        Config::load(directory.path())
    else {
        panic!("a negative size was accepted");
    };
    assert_eq!((named, line, column), (file.clone(), 2, 14));
    assert!(problem.contains("-1"), "{problem}");

    fs::write(&file, CONFIG).unwrap();
    assert_eq!(Config::load(directory.path()).unwrap().layers, 2);
}
