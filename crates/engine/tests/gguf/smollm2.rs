//! The real model that `models/smollm2` obtains, if it is there.

use crate::gguf::support::{checksum, fixture, json};
use crate::gguf::texts::Texts;
use crate::gguf::tokenizers::config;
use crate::support::obtained::obtained;
use fewstep_engine::{Bos, Error, Gguf, Layout, Model};
use serde_json::{Value, json as value};
use std::path::PathBuf;

fn model(test: &str) -> Option<PathBuf> {
    obtained(test, "models/smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
}

#[test]
fn every_number_of_the_real_model_is_exact() {
    let Some(file) = model("every_number_of_the_real_model_is_exact") else { return };
    let gguf = Gguf::open(&file).unwrap();
    let expected = json(&fixture("smollm2.json"));
    let tensors = expected["tensors"].as_object().unwrap();
    assert_eq!(gguf.names().count(), tensors.len());
    for (name, sum) in tensors {
        let shape: &[usize] = match name.rsplit('.').nth(1).unwrap() {
            "embed_tokens" => &[49152, 576],
            "q_proj" | "o_proj" => &[576, 576],
            "k_proj" | "v_proj" => &[192, 576],
            "gate_proj" | "up_proj" => &[1536, 576],
            "down_proj" => &[576, 1536],
            _ => &[576],
        };
        let numbers = gguf.tensor(name, shape).unwrap();
        assert_eq!(u64::from(checksum(&numbers)), *sum, "{name}");
    }
}

#[test]
fn ten_thousand_texts_have_the_ids_of_the_python_package() {
    let name = "ten_thousand_texts_have_the_ids_of_the_python_package";
    let Some(file) = model(name) else { return };
    let tokenizer = Gguf::open(&file).unwrap().tokenizer(&config(49152, Some(1))).unwrap();
    let expected = json(&fixture("smollm2.json"));
    assert_eq!(expected["ids"]["ids"].as_array().unwrap().len(), 100);
    // The model has no tokens for some control characters: such texts are refused, not cut.
    Texts::read().check("smollm2", &expected["ids"], |text| match tokenizer.encode(text) {
        Ok(ids) => ids,
        Err(Error::UnknownText { .. }) => vec![u32::MAX - 1],
        Err(other) => panic!("{text:?}: {other}"),
    });

    let ids = tokenizer.encode("The capital of France is").unwrap();
    assert_eq!(ids, [504, 3575, 282, 4649, 314]);
    assert_eq!(tokenizer.start(Bos::Auto), Ok(vec![]));
    assert_eq!(tokenizer.start(Bos::Always), Ok(vec![1]));
}

#[test]
fn the_real_model_has_the_settings_of_its_checkpoint() {
    let Some(file) = model("the_real_model_has_the_settings_of_its_checkpoint") else { return };
    let text = Gguf::open(&file).unwrap().config_json().unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    for (setting, expected) in [
        ("model_type", value!("llama")),
        ("hidden_size", value!(576)),
        ("intermediate_size", value!(1536)),
        ("num_hidden_layers", value!(30)),
        ("num_attention_heads", value!(9)),
        ("num_key_value_heads", value!(3)),
        ("head_dim", value!(64)),
        ("max_position_embeddings", value!(8192)),
        ("rms_norm_eps", value!(1e-5)),
        ("rope_theta", value!(100000.0)),
        ("rope_scaling", Value::Null),
        ("tie_word_embeddings", value!(true)),
        ("vocab_size", value!(49152)),
        ("bos_token_id", value!(1)),
        ("eos_token_id", value!(2)),
        ("attention_bias", value!(false)),
    ] {
        assert_eq!(found[setting], expected, "{setting}");
    }
}

/// The most likely next token after a text that everybody can go on with.
#[test]
fn the_real_model_knows_a_capital() {
    let Some(file) = model("the_real_model_knows_a_capital") else { return };
    let model = Model::open(&file).unwrap();
    let tokenizer = Gguf::open(&file).unwrap().tokenizer(model.config()).unwrap();
    let ids = tokenizer.encode("The capital of France is").unwrap();
    let logits = model.network().logits(Layout::plain(&[ids]).unwrap()).unwrap();
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    assert_eq!(tokenizer.decode(&[u32::try_from(best).unwrap()]), " Paris");
}
