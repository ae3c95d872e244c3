//! Whole models: names, layouts and settings are those of the checkpoints they were made from.

use crate::gguf::support::{Draft, Meta, checksum, encoding, fixture, json, open, text};
use fewstep_engine::{Encoding, Error, Gguf};
use serde_json::{Value, json};
use std::fs;

fn expected() -> Value {
    json(&fixture("expected.json"))
}

fn shape_of(tensor: &Value) -> Vec<usize> {
    serde_json::from_value(tensor["shape"].clone()).unwrap()
}

#[test]
fn tensors_are_those_of_the_checkpoint_to_the_bit() {
    let expected = expected();
    for (model, entry) in expected["models"].as_object().unwrap() {
        let mapped = open(&format!("{model}.gguf"));
        let bytes = fs::read(fixture(&format!("{model}.gguf"))).unwrap();
        for gguf in [mapped, Gguf::from_bytes(bytes).unwrap()] {
            let tensors = entry["tensors"].as_object().unwrap();
            let mut names: Vec<&str> = tensors.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(gguf.names().collect::<Vec<_>>(), names);
            for (name, tensor) in tensors {
                let numbers = gguf.tensor(name, &shape_of(tensor)).unwrap();
                assert_eq!(u64::from(checksum(&numbers)), tensor["sum"], "{model} {name}");
            }
        }
    }
}

#[test]
fn matrices_stay_packed_and_have_outputs_as_rows() {
    let expected = expected();
    for (model, entry) in expected["models"].as_object().unwrap() {
        let gguf = open(&format!("{model}.gguf"));
        for (name, tensor) in entry["tensors"].as_object().unwrap() {
            let &[mut rows, mut columns] = &shape_of(tensor)[..] else { continue };
            let turned = model == "gpt2" && name.starts_with("h.");
            if turned {
                (rows, columns) = (columns, rows);
            }
            let matrix = gguf.matrix(name, [rows, columns]).unwrap();
            assert_eq!((matrix.rows(), matrix.columns()), (rows, columns));
            assert_eq!(matrix.encoding(), encoding(tensor["encoding"].as_str().unwrap()));
            let all = if turned { matrix.dequantise_transposed() } else { matrix.dequantise() };
            assert_eq!(u64::from(checksum(&all)), tensor["sum"], "{model} {name}");

            // Row by row it is the same, in whatever order the file keeps them.
            let mut row = vec![0.0; columns];
            for (index, whole) in matrix.dequantise().chunks(columns).enumerate() {
                matrix.dequantise_rows(index..index + 1, &mut row).unwrap();
                assert_eq!(checksum(&row), checksum(whole), "{model} {name} {index}");
            }
        }
    }
}

#[test]
fn the_configuration_is_that_of_the_checkpoint() {
    for (model, entry) in expected()["models"].as_object().unwrap() {
        let text = open(&format!("{model}.gguf")).config_json().unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        for (setting, value) in entry["config"].as_object().unwrap() {
            let mut found = found[setting].clone();
            if let Some(scaling) = found.as_object_mut() {
                // The older name for the same, for readers that look for it.
                if let Some(kind) = scaling.remove("type") {
                    assert_eq!(kind, scaling["rope_type"]);
                }
            }
            assert_eq!(found, *value, "{model} {setting}");
        }
    }
}

#[test]
fn settings_become_those_of_a_checkpoint() {
    let config = |draft: Draft| -> Value {
        serde_json::from_str(&draft.read().unwrap().config_json().unwrap()).unwrap()
    };
    let plain = config(Draft::sound());
    for (setting, value) in [
        ("model_type", json!("llama")),
        ("head_dim", json!(2)),
        ("num_key_value_heads", json!(2)),
        ("rms_norm_eps", json!(1e-5)),
        ("rope_theta", json!(10000.0)),
        ("rope_scaling", Value::Null),
        ("tie_word_embeddings", json!(true)),
        ("vocab_size", json!(3)),
        ("bos_token_id", Value::Null),
        ("attention_bias", json!(false)),
        ("mlp_bias", json!(false)),
    ] {
        assert_eq!(plain[setting], value, "{setting}");
    }
    // Every type of number is read; those of 64 bits are not rounded.
    for (value, found) in [
        (Meta::U8(1), 1),
        (Meta::I8(1), 1),
        (Meta::U16(1), 1),
        (Meta::I16(1), 1),
        (Meta::I32(1), 1),
        (Meta::U64(1), 1),
        (Meta::I64(1), 1),
    ] {
        let draft = Draft::sound().with("llama.attention.head_count_kv", value);
        assert_eq!(config(draft)["num_key_value_heads"], found);
    }
    let theta = Draft::sound().with("llama.rope.freq_base", Meta::F64(1e6 + 0.1));
    assert_eq!(config(theta)["rope_theta"], 1e6 + 0.1);
    let bos = Draft::sound().with("tokenizer.ggml.bos_token_id", Meta::U32(2));
    assert_eq!(config(bos)["bos_token_id"], 2);

    let window = Draft::sound().with("llama.attention.sliding_window", Meta::U32(8));
    let found = config(window);
    assert_eq!(
        (&found["model_type"], &found["sliding_window"]),
        (&json!("mistral"), &json!(8))
    );
    let linear = Draft::sound()
        .with("llama.rope.scaling.type", text("linear"))
        .with("llama.rope.scaling.factor", Meta::F32(2.5));
    assert_eq!(config(linear)["rope_scaling"]["factor"], 2.5);
    let old = Draft::sound().with("llama.rope.scale_linear", Meta::F32(4.0));
    assert_eq!(config(old)["rope_scaling"]["rope_type"], "linear");
    let none = Draft::sound().with("llama.rope.scaling.type", text("none"));
    assert_eq!(config(none)["rope_scaling"], Value::Null);
    for version in [2, 3] {
        assert_eq!(config(Draft { version, ..Draft::sound() }), plain);
    }
    let mut wide = Draft { alignment: 128, ..Draft::sound() };
    wide.tensors[1].3 = 128;
    wide.data.resize(128 + 16, 0);
    assert_eq!(config(wide.with("general.alignment", Meta::U32(128))), plain);
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let list = Meta::List(4, 1, vec![Meta::U32(2)]);
    for (key, value, found) in [
        ("llama.block_count", list, "a list"),
        ("llama.block_count", Meta::I32(-1), "-1"),
        ("llama.attention.layer_norm_rms_epsilon", Meta::F32(f32::NAN), "NaN"),
        ("llama.attention.layer_norm_rms_epsilon", text("small"), "a text"),
        ("llama.attention.causal", Meta::Bool(0), "not understood"),
        ("llama.logit_scale", Meta::F32(2.0), "not understood"),
        ("llama.rope.scaling.yarn_beta_fast", Meta::F32(2.0), "not understood"),
        ("llama.expert_count", Meta::U32(8), "8"),
        ("llama.tensor_data_layout", text("other"), "other"),
        ("llama.rope.dimension_count", Meta::U32(1), "1 for heads of 2"),
        ("llama.attention.value_length", Meta::U32(4), "4 for heads of 2"),
        ("llama.attention.head_count", Meta::U32(3), "3 for a width of 4"),
        ("llama.attention.head_count", Meta::U32(0), "0 for a width of 4"),
        ("llama.rope.scaling.type", text("longrope"), "longrope"),
        ("llama.rope.scaling.type", text("yarn"), "yarn"),
        ("general.alignment", Meta::U32(48), "48"),
        ("general.alignment", Meta::U32(0), "0"),
        ("general.architecture", Meta::Text(vec![0xff]), "no UTF-8"),
    ] {
        let draft = Draft::sound().with(key, value);
        let refused = draft.read().and_then(|gguf| gguf.config_json()).unwrap_err();
        let Error::Metadata { key: named, found: shown, file, .. } = refused else {
            panic!("{key}: {refused}");
        };
        assert_eq!((named.as_str(), shown.as_str()), (key, found));
        assert_eq!(file.to_str(), Some("model.gguf"));
    }
    for key in ["general.architecture", "llama.block_count", "llama.context_length"] {
        let refused = Draft::sound().without(key).read().and_then(|gguf| gguf.config_json());
        let Err(Error::Metadata { key: named, found, .. }) = refused else {
            panic!("{key} was not missed");
        };
        assert_eq!((named.as_str(), found.as_str()), (key, "absent"));
    }
    for (setting, value, found) in [
        ("general.architecture", text("mamba"), "mamba"),
        ("general.type", text("adapter"), "adapter"),
        ("split.count", Meta::U16(2), "2"),
    ] {
        let refused = Draft::sound().with(setting, value).read().unwrap_err();
        let Error::Unsupported { setting: named, found: shown, .. } = refused else {
            panic!("{setting}: {refused}");
        };
        assert_eq!((named, shown.as_str()), (setting, found));
    }
    for name in [
        "blk.1.attn_norm.weight",
        "blk.00.attn_norm.weight",
        "blk.0.attn_norm.bias",
        "blk.0.attn_qkv.weight",
        "blk.0.ffn_gate_inp.weight",
        "position_embd.weight",
        "output.bias",
        "model.norm.weight",
    ] {
        let mut draft = Draft::sound();
        draft.tensors[1].0 = name;
        let Err(Error::UnknownTensor { tensor, .. }) = draft.read() else {
            panic!("{name} was accepted");
        };
        assert_eq!(tensor, name);
    }
}

#[test]
fn rotary_factors_are_those_of_a_known_scaling_or_refused() {
    // The fixture holds the factors of a scaling from 8192; here they are changed.
    let whole = fs::read(fixture("llama3.gguf")).unwrap();
    let name = b"rope_freqs.weight";
    let at = whole.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    // One side of 32, the type, and the place in the data.
    let side = u64::from_le_bytes(whole[at + 4..at + 12].try_into().unwrap());
    assert_eq!(side, 32);
    let place = u64::from_le_bytes(whole[at + 16..at + 24].try_into().unwrap());
    assert_eq!(place, 0);
    let first = 1_f32.to_le_bytes().repeat(8);
    let data = whole.windows(first.len()).position(|window| window == first).unwrap();
    let with = |factors: &dyn Fn(usize, f32) -> f32| {
        let mut changed = whole.clone();
        for (pair, bytes) in changed[data..data + 128].as_chunks_mut().0.iter_mut().enumerate()
        {
            *bytes = factors(pair, f32::from_le_bytes(*bytes)).to_le_bytes();
        }
        Gguf::from_bytes(changed).unwrap().config_json()
    };
    assert!(with(&|_, factor| factor).unwrap().contains("llama3"));
    let plain: Value = serde_json::from_str(&with(&|_, _| 1.0).unwrap()).unwrap();
    assert_eq!(plain["rope_scaling"], Value::Null);
    for (case, factors) in [
        (&|pair: usize, factor: f32| if pair == 20 { 1.01 * factor } else { factor })
            as &dyn Fn(usize, f32) -> f32,
        &|_, factor| 0.5 * factor,
        &|_, _| f32::NAN,
        &|pair, _| if pair < 16 { 1.0 } else { 4.0 },
    ]
    .into_iter()
    .enumerate()
    {
        let Err(Error::Unsupported { setting, found, .. }) = with(factors) else {
            panic!("case {case} was accepted");
        };
        assert_eq!((setting, found.as_str()), ("rope_freqs.weight", "32 factors"));
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let gguf = Draft::sound().read().unwrap();
    let (name, norm) = ("model.embed_tokens.weight", "model.norm.weight");
    assert_eq!(gguf.tensor(norm, &[4]).unwrap(), [16.0, 17.0, 18.0, 19.0]);
    let Err(Error::TensorShape { tensor, found, expected, .. }) = gguf.tensor(name, &[4, 3])
    else {
        panic!("the shape is another");
    };
    assert_eq!((tensor.as_str(), found, expected), (name, vec![3, 4], vec![4, 3]));
    assert!(matches!(gguf.matrix(name, [4, 3]), Err(Error::TensorShape { .. })));
    assert!(matches!(gguf.matrix(norm, [1, 4]), Err(Error::TensorShape { .. })));
    let Err(Error::MissingTensor { tensor, .. }) = gguf.tensor("lm_head.weight", &[3, 4])
    else {
        panic!("there is none");
    };
    assert_eq!(tensor, "lm_head.weight");

    for (number, value) in [(5, f32::NAN), (11, f32::INFINITY), (0, f32::NEG_INFINITY)] {
        let mut draft = Draft::sound();
        draft.data[4 * number..4 * number + 4].copy_from_slice(&value.to_le_bytes());
        let gguf = draft.read().unwrap();
        for refused in
            [gguf.tensor(name, &[3, 4]).map(|_| ()), gguf.matrix(name, [3, 4]).map(|_| ())]
        {
            let Err(Error::WeightNotFinite { tensor, index, value: found, .. }) = refused
            else {
                panic!("{value} was accepted");
            };
            assert_eq!((tensor.as_str(), index), (name, number));
            assert_eq!(found.to_bits(), value.to_bits());
        }
    }
    // Three heads cannot share the four rows of the queries.
    let mut draft = Draft::sound().with("llama.attention.head_count", Meta::U32(3));
    draft.tensors[1] = ("blk.0.attn_q.weight", vec![1, 4], 0, 64);
    let Err(Error::Metadata { key, found, .. }) = draft.read() else { panic!("they cannot") };
    assert_eq!(key, "llama.attention.head_count");
    assert_eq!(found, "3 heads for 4 rows");
}

#[test]
fn a_scale_that_is_not_finite_is_found_in_every_encoding() {
    use Encoding::*;
    // (encoding, its number, bytes per block, numbers per block, where its halves lie)
    for (encoding, code, bytes, numbers, halves) in [
        (F16, 1, 2, 1, &[0][..]),
        (Q4_0, 2, 18, 32, &[0]),
        (Q4_1, 3, 20, 32, &[0, 2]),
        (Q5_0, 6, 22, 32, &[0]),
        (Q5_1, 7, 24, 32, &[0, 2]),
        (Q8_0, 8, 34, 32, &[0]),
        (Q2K, 10, 84, 256, &[80, 82]),
        (Q3K, 11, 110, 256, &[108]),
        (Q4K, 12, 144, 256, &[0, 2]),
        (Q5K, 13, 176, 256, &[0, 2]),
        (Q6K, 14, 210, 256, &[208]),
        (Bf16, 30, 2, 1, &[0]),
    ] {
        assert_eq!((encoding.block_numbers(), encoding.block_bytes()), (numbers, bytes));
        for &at in halves {
            let mut draft = Draft::sound();
            draft.tensors = vec![("token_embd.weight", vec![2 * numbers as u64, 2], code, 0)];
            draft.data = vec![0; 4 * bytes];
            assert!(
                draft
                    .read()
                    .unwrap()
                    .matrix("model.embed_tokens.weight", [2, 2 * numbers])
                    .is_ok()
            );
            draft.data[3 * bytes + at..3 * bytes + at + 2].copy_from_slice(&[0xff, 0xff]);
            let gguf = draft.read().unwrap();
            let refused =
                gguf.matrix("model.embed_tokens.weight", [2, 2 * numbers]).unwrap_err();
            let Error::WeightNotFinite { index, .. } = refused else { panic!("{refused}") };
            assert_eq!(index, 3 * numbers, "{encoding} {at}");
        }
    }
}
