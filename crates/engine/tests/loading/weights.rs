//! Tensors and parameters: every layout of a checkpoint, and every mismatch with its model.

use crate::loading::support::{
    Tensor, config, encode, names, tensor, tensors, values, write, write_shards,
};
use fewstep_engine::{Config, Error, Parameters, Precision, Weights};
use half::f16;
use safetensors::{Dtype, SafeTensors};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use tempfile::tempdir;

/// The parameters as a list in the order of `names`, spelled out field by field; queries, keys
/// and values stand side by side in each of the four rows.
fn listed(parameters: &Parameters) -> Vec<Vec<f32>> {
    let mut list = vec![&parameters.token_embedding, &parameters.position_embedding];
    let joined: Vec<[Vec<f32>; 2]> = parameters
        .layers
        .iter()
        .map(|layer| {
            let parts = [&layer.query, &layer.key, &layer.value];
            let rows =
                (0..4).flat_map(|row| parts.map(|part| &part.weight[4 * row..4 * row + 4]));
            [rows.collect::<Vec<_>>().concat(), parts.map(|part| &part.bias[..]).concat()]
        })
        .collect();
    for (layer, [weight, bias]) in parameters.layers.iter().zip(&joined) {
        list.push(&layer.attention_norm.scale);
        list.push(&layer.attention_norm.shift);
        list.push(weight);
        list.push(bias);
        list.push(&layer.output.weight);
        list.push(&layer.output.bias);
        list.push(&layer.mlp_norm.scale);
        list.push(&layer.mlp_norm.shift);
        list.push(&layer.mlp_up.weight);
        list.push(&layer.mlp_up.bias);
        list.push(&layer.mlp_down.weight);
        list.push(&layer.mlp_down.bias);
    }
    list.extend([&parameters.final_norm.scale, &parameters.final_norm.shift]);
    list.into_iter().cloned().collect()
}

fn assert_is_the_model(parameters: &Parameters) {
    let found = listed(parameters);
    assert_eq!(found.len(), names().len());
    for (index, ((name, shape), found)) in names().into_iter().zip(found).enumerate() {
        assert_eq!(found, values(index, shape.iter().product()), "{name}");
    }
}

fn load(directory: &Path) -> Result<Parameters, Error> {
    Parameters::load(directory, &config())
}

/// Loads a model made of these tensors.
fn load_all(tensors: &[Tensor]) -> Result<Parameters, Error> {
    let directory = tempdir().unwrap();
    write(directory.path(), tensors);
    load(directory.path())
}

#[test]
fn every_layout_gives_the_same_parameters() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for prefix in ["", "transformer."] {
            let all = tensors(prefix, dtype);
            assert_is_the_model(&load_all(&all).unwrap());

            let directory = tempdir().unwrap();
            let (low, high) = all.split_at(9);
            let shards = [
                ("model-00001-of-00002.safetensors", low),
                ("model-00002-of-00002.safetensors", high),
            ];
            write_shards(directory.path(), &shards);
            assert_is_the_model(&load(directory.path()).unwrap());

            let bytes = crate::loading::support::file(&all);
            assert_is_the_model(&Parameters::from_bytes(&bytes, &config()).unwrap());
        }
    }
}

#[test]
fn stored_masks_are_passed_over() {
    let mut all = tensors("transformer.", Dtype::F32);
    for layer in 0..2 {
        let name = format!("transformer.h.{layer}.attn.bias");
        let bytes = vec![1; 64];
        all.push(Tensor { name, shape: vec![1, 1, 8, 8], dtype: Dtype::U8, bytes });
        let name = format!("transformer.h.{layer}.attn.masked_bias");
        all.push(tensor(&name, &[], Dtype::F32, 0));
    }
    assert_is_the_model(&load_all(&all).unwrap());
    all.push(tensor("transformer.h.2.attn.bias", &[1], Dtype::F32, 0));
    assert!(matches!(
        load_all(&all),
        Err(Error::UnknownTensor { tensor, .. }) if tensor == "transformer.h.2.attn.bias"
    ));
}

#[test]
fn output_embedding_is_tied_or_its_own() {
    let untied = Config { tied: false, ..config() };
    let mut all = tensors("transformer.", Dtype::F32);
    let missing = load_untied(&all, &untied);
    assert!(
        matches!(missing, Err(Error::MissingTensor { tensor, .. }) if tensor == "lm_head.weight")
    );

    all.push(tensor("lm_head.weight", &[5, 4], Dtype::F32, 99));
    let own = load_untied(&all, &untied).unwrap();
    assert_eq!(own.unembedding, Some(values(99, 20)));

    let Err(Error::TiedWeightsDiffer { tensor: name, index, .. }) = load_all(&all) else {
        panic!("two different embeddings were tied");
    };
    assert_eq!((name.as_str(), index), ("lm_head.weight", 0));

    all.last_mut().unwrap().bytes = encode(Dtype::F32, &values(0, 20));
    assert_eq!(load_all(&all).unwrap().unembedding, None);
}

fn load_untied(tensors: &[Tensor], config: &Config) -> Result<Parameters, Error> {
    Parameters::from_bytes(&crate::loading::support::file(tensors), config)
}

#[test]
fn a_tensor_that_does_not_fit_is_named_with_its_file() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("model.safetensors");
    let all = tensors("", Dtype::F32);
    let load_with = |change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut changed = all.clone();
        change(&mut changed);
        write(directory.path(), &changed);
        load(directory.path()).unwrap_err()
    };
    let name = |text: &str| text.to_owned();

    let refused = load_with(&|all| {
        all.remove(3);
    });
    let expected = Error::MissingTensor { file: file.clone(), tensor: name("h.0.ln_1.bias") };
    assert_eq!(refused, expected);

    // The transposed layout of a linear layer is a different shape.
    let refused = load_with(&|all| all[4].shape = vec![12, 4]);
    let expected = Error::TensorShape {
        file: file.clone(),
        tensor: name("h.0.attn.c_attn.weight"),
        found: vec![12, 4],
        expected: vec![4, 12],
    };
    assert_eq!(refused, expected);

    let refused = load_with(&|all| {
        all[5].dtype = Dtype::I32;
    });
    let expected = Error::TensorType {
        file: file.clone(),
        tensor: name("h.0.attn.c_attn.bias"),
        found: name("I32"),
    };
    assert_eq!(refused, expected);

    let refused = load_with(&|all| all.push(tensor("score.weight", &[1], Dtype::F32, 0)));
    let expected = Error::UnknownTensor { file: file.clone(), tensor: name("score.weight") };
    assert_eq!(refused, expected);

    let again = tensor("transformer.ln_f.bias", &[4], Dtype::F32, 0);
    let refused = load_with(&|all| all.push(again.clone()));
    let expected = Error::DuplicateTensor {
        tensor: name("ln_f.bias"),
        first: file.clone(),
        second: file.clone(),
    };
    assert_eq!(refused, expected);

    // One name with a prefix among names without.
    let refused = load_with(&|all| all[7].name.insert_str(0, "transformer."));
    let expected =
        Error::UnknownTensor { file: file.clone(), tensor: name("h.0.attn.c_attn.bias") };
    assert_eq!(refused, expected);
}

#[test]
fn weights_that_are_no_numbers_are_named_with_their_position() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut all = tensors("", dtype);
            let mut broken = values(1, 32);
            broken[17] = bad;
            broken[30] = bad;
            all[1].bytes = encode(dtype, &broken);
            let Err(Error::WeightNotFinite { tensor, index, value, .. }) = load_all(&all)
            else {
                panic!("{bad} in {dtype} was accepted");
            };
            assert_eq!((tensor.as_str(), index), ("wpe.weight", 17));
            assert_eq!((value.is_nan(), value > 0.0), (bad.is_nan(), bad > 0.0));
        }
    }
}

#[test]
fn an_index_is_not_believed() {
    let all = tensors("", Dtype::F32);
    let (low, high) = all.split_at(9);
    let directory = tempdir().unwrap();
    let path = directory.path();
    assert_eq!(load(path), Err(Error::NoWeights { directory: path.to_path_buf() }));

    let index = path.join("model.safetensors.index.json");
    fs::create_dir(path.join("inside")).unwrap();
    for shard in
        ["../model.safetensors", "/etc/passwd", "inside/a", "..", ".", "", "a\\b", "c:d", "a/"]
    {
        crate::loading::support::write_index(path, &serde_json::json!({"wte.weight": shard}));
        let refused = Error::ShardName { file: index.clone(), shard: shard.to_owned() };
        assert_eq!(load(path), Err(refused), "{shard:?}");
    }

    let many: serde_json::Map<_, _> =
        (0..1025).map(|i| (format!("t{i}"), format!("s{i}").into())).collect();
    for (found, map) in [(0, serde_json::Map::new()), (1025, many)] {
        crate::loading::support::write_index(path, &map.into());
        let refused = Error::ShardCount { file: index.clone(), found, limit: 1024 };
        assert_eq!(load(path), Err(refused));
    }

    write_shards(path, &[("a", low), ("b", high)]);
    fs::remove_file(path.join("b")).unwrap();
    let (file, action, kind) = (path.join("b"), "read", ErrorKind::NotFound);
    assert_eq!(load(path), Err(Error::File { file, action, kind }));

    // `b` repeats the first tensor of `a`.
    write_shards(path, &[("a", low), ("b", &[high, &low[..1]].concat())]);
    let Err(Error::DuplicateTensor { tensor, first, second }) = load(path) else {
        panic!("a tensor in two shards was accepted");
    };
    assert_eq!((tensor, first, second), ("wte.weight".into(), path.join("a"), path.join("b")));

    // The index says that everything is in `a`.
    write_shards(path, &[("b", high), ("a", low)]);
    let everything: serde_json::Map<_, _> =
        all.iter().map(|t| (t.name.clone(), "a".into())).collect();
    crate::loading::support::write_index(path, &everything.into());
    let Err(Error::MissingTensor { file, .. }) = load(path) else {
        panic!("an index that is wrong was accepted");
    };
    assert_eq!(file, path.join("a"));

    fs::write(&index, r#"{"weight_map": {"x": "a", "x": "b"}}"#).unwrap();
    assert!(
        matches!(load(path), Err(Error::Json { problem, .. }) if problem.contains("twice"))
    );
}

#[test]
fn saving_and_loading_is_the_identity() {
    let untied = Config { tied: false, bos: Some(4), ..config() };
    let mut all = tensors("", Dtype::F32);
    all.push(tensor("lm_head.weight", &[5, 4], Dtype::F32, 7));
    // Values that half precision must round.
    for tensor in &mut all {
        let exact: Vec<f32> =
            tensor.bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let odd: Vec<f32> = exact.iter().map(|v| v * 0.123_456_79).collect();
        tensor.bytes = encode(Dtype::F32, &odd);
    }
    let parameters = load_untied(&all, &untied).unwrap();
    let directory = tempdir().unwrap();
    let path = directory.path();

    parameters.save(path, &untied, Precision::Single).unwrap();
    let config = Config::load(path).unwrap();
    assert_eq!(config, untied);
    assert_eq!(Parameters::load(path, &config), Ok(parameters.clone()));

    // What was written is what another reader finds, under the names others use.
    let bytes = fs::read(path.join("model.safetensors")).unwrap();
    let others = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(others.len(), all.len());
    for tensor in &all {
        let prefix = if tensor.name == "lm_head.weight" { "" } else { "transformer." };
        let view = others.tensor(&format!("{prefix}{}", tensor.name)).unwrap();
        assert_eq!((view.shape(), view.data()), (&tensor.shape[..], &tensor.bytes[..]));
    }

    parameters.save(path, &untied, Precision::Half).unwrap();
    let halved = Parameters::load(path, &untied).unwrap();
    for (half, single) in listed(&halved).into_iter().zip(listed(&parameters)) {
        let rounded: Vec<f32> = single.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
        assert_eq!(half, rounded);
    }
    assert_ne!(halved, parameters);
}

#[test]
fn what_cannot_be_saved_is_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path();
    let (config, good) = (config(), Parameters::zeros(&config()).unwrap());
    let save = |change: &dyn Fn(&mut Parameters), precision| {
        let mut parameters = good.clone();
        change(&mut parameters);
        parameters.save(path, &config, precision).unwrap_err()
    };

    let large: &dyn Fn(&mut Parameters) = &|p| p.layers[1].mlp_up.bias[2] = 70000.0;
    let Error::WeightNotFinite { tensor, index, value, .. } = save(large, Precision::Half)
    else {
        panic!("70000 fits no half");
    };
    assert_eq!(
        (tensor.as_str(), index, value.to_bits()),
        ("transformer.h.1.mlp.c_fc.bias", 2, 70000_f32.to_bits())
    );
    let refused = save(&|p| p.final_norm.shift[3] = f32::NAN, Precision::Single);
    assert!(matches!(refused, Error::WeightNotFinite { index: 3, .. }));

    let refused = save(
        &|p| {
            p.token_embedding.pop();
        },
        Precision::Single,
    );
    let quantity = "token embedding";
    assert_eq!(refused, Error::SizeMismatch { quantity, found: 19, expected: 20 });
    let refused = save(
        &|p| {
            p.layers.pop();
        },
        Precision::Single,
    );
    let quantity = "list of layers";
    assert_eq!(refused, Error::SizeMismatch { quantity, found: 1, expected: 2 });
    let refused = save(&|p| p.unembedding = Some(vec![0.0; 20]), Precision::Single);
    let quantity = "output embedding";
    assert_eq!(refused, Error::SizeMismatch { quantity, found: 20, expected: 0 });

    let nowhere = path.join("nowhere");
    let Err(Error::File { file, action, kind }) =
        good.save(&nowhere, &config, Precision::Single)
    else {
        panic!("there is no such directory");
    };
    assert_eq!((file, action), (nowhere.join("model.safetensors"), "write"));
    assert_eq!(kind, ErrorKind::NotFound);
}

#[test]
fn tensors_are_listed_and_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let bytes = crate::loading::support::file(&tensors("", Dtype::F32));
    let weights = Weights::from_bytes(&bytes).unwrap();
    shared(&weights);
    let mut expected: Vec<String> = names().into_iter().map(|(name, _)| name).collect();
    expected.sort();
    assert_eq!(weights.names().collect::<Vec<_>>(), expected);
}
