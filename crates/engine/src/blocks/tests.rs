use super::*;

/// A model of a given number of layers and heads, gated and with fewer key-value heads or not.
fn config(layers: usize, heads: usize, gated: bool) -> Config {
    let json = if gated {
        format!(
            r#"{{"model_type": "llama", "num_hidden_layers": {layers}, "hidden_size": 24,
                 "num_attention_heads": {heads}, "num_key_value_heads": {},
                 "intermediate_size": 8, "max_position_embeddings": 8, "vocab_size": 9}}"#,
            heads / 2
        )
    } else {
        format!(
            r#"{{"model_type": "gpt2", "n_layer": {layers}, "n_head": {heads},
                 "n_embd": 24, "n_ctx": 8, "vocab_size": 9}}"#
        )
    };
    Config::from_json(json.as_bytes()).unwrap()
}

#[test]
fn names_read_back_as_the_blocks_they_name() {
    for kind in BlockKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for choice in [
        "value,output,query,key,mlp-up,mlp-down,mlp-gate,norm,lora-query,lora-value@all",
        "key@1..3",
    ] {
        for block in choose_blocks(choice, &config(11, 12, true)).unwrap() {
            assert_eq!(block.to_string().parse(), Ok(block));
            assert_eq!(BlockId::from_number(block.number()), Some(block));
        }
    }
}

/// Values and keys are counted by key-value head, queries and outputs by query head.
#[test]
fn heads_are_those_that_a_kind_has() {
    let counts = |kind: &str, gated: bool| {
        choose_blocks(&format!("{kind}@last1"), &config(2, 6, gated)).unwrap().len()
    };
    for (kind, grouped) in [("value", 3), ("key", 3), ("query", 6), ("output", 6)] {
        assert_eq!((counts(kind, true), counts(kind, false)), (grouped, 6), "{kind}");
    }
    let block = |name: &str| -> BlockId { name.parse().unwrap() };
    let grouped = config(2, 6, true);
    assert_eq!(check_blocks(&grouped, &[block("value.1.2"), block("query.1.5")]), Ok(()));
    for (name, heads) in [("value.1.3", 3), ("key.0.3", 3), ("output.0.6", 6)] {
        let refused = check_blocks(&grouped, &[block(name)]);
        let (block, layers) = (name.to_owned(), 2);
        assert_eq!(refused, Err(Error::NoSuchBlock { block, layers, heads }));
    }
}

#[test]
fn a_gate_is_refused_where_there_is_none() {
    let (plain, gated) = (config(2, 2, false), config(2, 2, true));
    let names = |config| choose_blocks("mlp-gate@all", config).map(|all| all.len());
    assert_eq!(names(&gated), Ok(2));
    assert_eq!(names(&plain), Err(Error::NoGate { block: "mlp-gate".to_owned() }));
    let refused = check_blocks(&plain, &["mlp-gate.1".parse().unwrap()]);
    assert_eq!(refused, Err(Error::NoGate { block: "mlp-gate.1".to_owned() }));
}

#[test]
fn choices_name_layers_from_either_end() {
    let layers = |choice: &str| -> Vec<usize> {
        choose_blocks(choice, &config(5, 1, false))
            .unwrap()
            .iter()
            .map(BlockId::layer)
            .collect()
    };
    assert_eq!(layers("value@all"), [0, 1, 2, 3, 4]);
    assert_eq!(layers("value@last2"), [3, 4]);
    // A policy is meant for models of any size: one with fewer layers takes all of them.
    assert_eq!(layers("value@last6"), [0, 1, 2, 3, 4]);
    assert_eq!(layers("value@upper-half"), [2, 3, 4]);
    assert_eq!(layers("mlp-up@1..3"), [1, 2]);
}

#[test]
fn what_cannot_be_read_is_named_in_the_error() {
    let names = [
        "value.1",
        "mlp-up.1.2",
        "lora-value.1.2",
        "norm.1.2",
        "value",
        "value.x.1",
        "value.1.2.3",
    ];
    for name in names.into_iter().chain(["value.01.0"]) {
        let refused = name.parse::<BlockId>();
        assert_eq!(refused, Err(Error::BadBlockName { found: name.to_owned() }));
    }
    for layers in ["", "last0", "3..3", "4..2", "0..6", "2", "lastx", "..", "-1..2"] {
        let refused = choose_blocks(&format!("value@{layers}"), &config(5, 2, false));
        assert_eq!(refused, Err(Error::BadLayers { found: layers.to_owned(), layers: 5 }));
    }
    for choice in ["value", "value@all@all", ""] {
        let refused = choose_blocks(choice, &config(5, 2, false));
        assert_eq!(refused, Err(Error::BadChoice { found: choice.to_owned() }));
    }
    let refused = choose_blocks("values@all", &config(5, 2, false));
    assert_eq!(refused, Err(Error::UnknownKind { found: "values".to_owned() }));
    let refused = choose_blocks("key,key@last1", &config(5, 2, false));
    assert_eq!(refused, Err(Error::DuplicateBlock { block: "key.4.0".to_owned() }));
}

/// Lists of matrices are indexed by kind: matrices come first, in order, and are their own.
#[test]
fn matrices_are_the_first_kinds() {
    for (index, kind) in BlockKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, index);
        assert_eq!(BlockKind::MATRICES.get(index) == Some(&kind), kind.matrix() == Some(kind));
    }
}
