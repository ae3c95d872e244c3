//! Tokenizers in GGUF files and of the same kinds in `tokenizer.json`, against Python's ids.

use crate::gguf::support::{Draft, Meta, fixture, json, open, text, texts};
use crate::gguf::texts::Texts;
use fewstep_engine::{Bos, Config, Error, Tokenizer};
use serde_json::Value;
use std::fs;

/// A model with room for many tokens.
pub(crate) fn config(vocabulary: usize, bos: Option<u64>) -> Config {
    let json = serde_json::json!({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 1,
        "n_ctx": 64, "vocab_size": vocabulary, "bos_token_id": bos});
    Config::from_json(json.to_string().as_bytes()).unwrap()
}

fn from_json(name: &str) -> Tokenizer {
    let text = fs::read(fixture(&format!("{name}.tokenizer.json"))).unwrap();
    Tokenizer::from_json(&text, &config(600, None)).unwrap()
}

#[test]
fn ids_are_those_of_the_python_package() {
    let (all, expected) = (Texts::read(), json(&fixture("expected.json")));
    for (name, sums) in expected["tokenizers"].as_object().unwrap() {
        let tokenizer = from_json(name);
        all.check(name, sums, |text| tokenizer.encode(text).unwrap());
        if name == "metaspace" {
            continue; // a form that only tokenizer.json has
        }
        let gguf = open(&format!("{name}.gguf"));
        let tokenizer = gguf.tokenizer(&config(600, None)).unwrap();
        all.check(name, sums, |text| tokenizer.encode(text).unwrap());

        // What is saved is read as the same by this crate.
        let directory = tempfile::tempdir().unwrap();
        tokenizer.save(directory.path()).unwrap();
        let again = Tokenizer::load(directory.path(), &config(600, None)).unwrap();
        all.check(name, sums, |text| again.encode(text).unwrap());
    }
}

#[test]
fn merges_are_in_the_order_of_the_python_package() {
    let directory = tempfile::tempdir().unwrap();
    open("llama.gguf").tokenizer(&config(600, None)).unwrap().save(directory.path()).unwrap();
    let [found, expected] =
        [directory.path().join("tokenizer.json"), fixture("llama.tokenizer.json")]
            .map(|file| json(&file)["model"]["merges"].clone());
    let count = expected.as_array().unwrap().len();
    assert_eq!((found.as_array().unwrap().len(), found == expected), (count, true));
}

#[test]
fn a_token_at_the_start_is_the_one_that_the_file_names() {
    let expected = json(&fixture("expected.json"));
    for (name, asked) in [("llama", true), ("llama3", true), ("qwen2", false), ("gpt2", false)]
    {
        let bos = &expected["models"][name]["config"]["bos_token_id"];
        let id = bos.as_u64().map(|id| u32::try_from(id).unwrap());
        let gguf = open(&format!("{name}.gguf"));
        let tokenizer = gguf.tokenizer(&config(600, bos.as_u64())).unwrap();
        let start: Vec<u32> = id.filter(|_| asked).into_iter().collect();
        assert_eq!(tokenizer.start(Bos::Auto), Ok(start), "{name}");
        assert_eq!(tokenizer.start(Bos::Always), id.map(|id| vec![id]).ok_or(Error::NoBos));
        assert_eq!(tokenizer.start(Bos::Never), Ok(vec![]));
    }
}

#[test]
fn texts_come_back_and_can_be_cut() {
    let all = Texts::read();
    for name in ["llama", "metaspace", "llama3", "gpt2", "smollm", "tekken"] {
        let tokenizer = from_json(name);
        for index in 0..500 {
            let text = all.text(index);
            let ids = tokenizer.encode(&text).unwrap();
            // SentencePiece cannot tell its own mark from a blank, and drops one at the start.
            let pieces = ["llama", "metaspace"].contains(&name);
            let special = ["<s>", "</s>", "<unk>", "▁", "<0x0A>"];
            if !(pieces && special.iter().any(|token| text.contains(token))) {
                let found = tokenizer.decode(&ids);
                let same =
                    found == text || (name == "metaspace" && format!(" {found}") == text);
                assert!(same, "{name}: {text:?} became {found:?}");
            }
            for most in [0, 1, 2, 5] {
                let cut = tokenizer.cut(&text, most).unwrap();
                assert!(text.starts_with(cut), "{name}: {text:?} {cut:?}");
                assert!(
                    tokenizer.encode(cut).unwrap().len() <= most,
                    "{name}: {text:?} {cut:?}"
                );
            }
            assert_eq!(tokenizer.cut(&text, ids.len()).unwrap(), text, "{name}");
        }
    }
}

const BYTES: u32 = 6;
const ALL: usize = 6 + 256;

/// Tokens `a`, `b`, `ab` and a blank, and one for every byte.
fn pieces() -> Draft {
    let names: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut tokens = vec!["<unk>", "<s>", "a", "b", "▁", "ab"];
    tokens.extend(names.iter().map(String::as_str));
    let scores = [0.0, 0.0, -1.0, -2.0, -3.0, -0.5].into_iter().chain([0.0; 256]);
    let scores = scores.map(Meta::F32).collect();
    Draft::sound()
        .with("tokenizer.ggml.model", text("llama"))
        .with("tokenizer.ggml.tokens", texts(&tokens))
        .with("tokenizer.ggml.token_type", types([2, 3, 1, 1, 1, 1]))
        .with("tokenizer.ggml.scores", Meta::List(6, ALL as u64, scores))
        .with("tokenizer.ggml.bos_token_id", Meta::U32(1))
}

/// The types of the first tokens; the others are bytes.
fn types(first: [i32; 6]) -> Meta {
    let all = first.into_iter().chain([6; 256]).map(Meta::I32).collect();
    Meta::List(5, ALL as u64, all)
}

#[test]
fn pieces_are_put_together_by_their_scores() {
    let tokenizer = |draft: Draft| draft.read().unwrap().tokenizer(&config(ALL, None)).unwrap();
    let plain = tokenizer(pieces());
    assert_eq!(plain.encode("ab a"), Ok(vec![4, 5, 4, 2]));
    assert_eq!(plain.decode(&[4, 5, 4, 2]), "ab a");
    assert_eq!(plain.start(Bos::Auto), Ok(vec![1]));
    assert_eq!(plain.encode("a<s>b"), Ok(vec![4, 2, 1, 4, 3]));
    assert_eq!(plain.encode("é"), Ok(vec![4, BYTES + 0xc3, BYTES + 0xa9]));
    assert_eq!(plain.decode(&[4, BYTES + 0xc3, BYTES + 0xa9]), "é");

    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let bare = tokenizer(pieces().with(&key("add_space_prefix"), Meta::Bool(0)));
    assert_eq!(bare.encode("ab a"), Ok(vec![5, 4, 2]));
    let quiet = tokenizer(pieces().with(&key("add_bos_token"), Meta::Bool(0)));
    assert_eq!(quiet.start(Bos::Auto), Ok(vec![]));
    // A user's own token is found first, whatever it holds.
    let own = tokenizer(pieces().with(&key("token_type"), types([2, 3, 1, 1, 1, 4])));
    assert_eq!(own.encode("aab"), Ok(vec![4, 2, 5]));
    // The better score comes first, wherever its piece stands.
    assert_eq!(plain.encode("aab"), Ok(vec![4, 2, 5]));
    let with_aa = |score| {
        let mut draft = pieces();
        for (name, value) in &mut draft.entries {
            let Meta::List(_, count, elements) = value else { continue };
            match name.strip_prefix("tokenizer.ggml.").unwrap() {
                "tokens" => elements.push(text("aa")),
                "token_type" => elements.push(Meta::I32(1)),
                _ => elements.push(Meta::F32(score)),
            }
            *count += 1;
        }
        draft.read().unwrap().tokenizer(&config(ALL + 1, None)).unwrap()
    };
    assert_eq!(with_aa(-0.25).encode("aab"), Ok(vec![4, u32::try_from(ALL).unwrap(), 3]));
    assert_eq!(with_aa(-0.75).encode("aab"), Ok(vec![4, 2, 5]));
}

#[test]
fn words_that_are_tokens_are_taken_whole_where_the_model_does_so() {
    // No merge leads to `ab`.
    let draft = pieces()
        .with("tokenizer.ggml.model", text("gpt2"))
        .with("tokenizer.ggml.merges", texts(&[]));
    for (pre, ids) in [
        ("llama-bpe", vec![5]),
        ("llama3", vec![5]),
        ("tekken", vec![5]),
        ("qwen2", vec![2, 3]),
        ("smollm", vec![2, 3]),
        ("gpt-2", vec![2, 3]),
    ] {
        let draft = draft.clone().with("tokenizer.ggml.pre", text(pre));
        let draft = if pre == "qwen2" { every_byte(draft) } else { draft };
        let tokenizer = draft.read().unwrap().tokenizer(&config(700, None)).unwrap();
        assert_eq!(tokenizer.encode("ab"), Ok(ids), "{pre}");
        let start =
            if matches!(pre, "llama-bpe" | "llama3" | "tekken") { vec![1] } else { vec![] };
        assert_eq!(tokenizer.start(Bos::Auto), Ok(start), "{pre}");
    }
}

/// The same with the characters of a byte-level vocabulary, which normalising needs.
fn every_byte(mut draft: Draft) -> Draft {
    for (name, value) in &mut draft.entries {
        let Meta::List(_, count, elements) = value else { continue };
        for character in (0x21..=0x17e).filter_map(char::from_u32) {
            if ['a', 'b'].contains(&character) {
                continue;
            }
            match name.strip_prefix("tokenizer.ggml.").unwrap() {
                "tokens" => elements.push(text(&character.to_string())),
                "token_type" => elements.push(Meta::I32(1)),
                "scores" => elements.push(Meta::F32(0.0)),
                _ => continue,
            }
            *count += 1;
        }
    }
    draft
}

#[test]
fn lists_and_merges_without_end_are_refused() {
    let key = "tokenizer.ggml.tokens";
    let read = |draft: Draft| draft.read().unwrap().tokenizer(&config(600, None)).unwrap_err();
    let long = "a".repeat(1 << 24);
    let Error::Metadata { found, .. } = read(pieces().with(key, texts(&[&long]))) else {
        panic!("the list is too long");
    };
    assert_eq!(found, "a list of 16777224 bytes");

    // Every word of two letters up to length 16: each can be cut anywhere.
    let words: Vec<String> = (1..=16)
        .flat_map(|length: usize| (0..1_usize << length).map(move |word| (length, word)))
        .map(|(length, word)| format!("{word:0length$b}"))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let scores = Meta::List(6, words.len() as u64, vec![Meta::F32(0.0); words.len()]);
    let draft = pieces().without("tokenizer.ggml.token_type");
    let Error::Metadata { key: named, found, .. } =
        read(draft.with(key, texts(&words)).with("tokenizer.ggml.scores", scores))
    else {
        panic!("there are too many merges");
    };
    assert_eq!(named, key);
    assert!(found.starts_with("pieces of 10485"), "{found}");
}

#[test]
fn foreign_tokenizers_are_refused_by_name() {
    let read = |draft: Draft| draft.read().unwrap().tokenizer(&config(ALL, None)).unwrap_err();
    let bytes = || {
        pieces()
            .with("tokenizer.ggml.model", text("gpt2"))
            .with("tokenizer.ggml.merges", texts(&["a b"]))
    };
    let first = ["<unk>", "<s>", "a", "b", "▁", "ab"];
    let short = || {
        let kinds = [2, 3, 1, 1, 1, 1].map(Meta::I32).to_vec();
        pieces()
            .with("tokenizer.ggml.tokens", texts(&first))
            .with("tokenizer.ggml.token_type", Meta::List(5, 6, kinds))
            .with("tokenizer.ggml.scores", Meta::List(6, 6, vec![Meta::F32(0.0); 6]))
    };
    for (draft, setting, found) in [
        (pieces().with("tokenizer.ggml.model", text("bert")), "tokenizer.ggml.model", "bert"),
        (bytes(), "tokenizer.ggml.pre", "absent"),
        (bytes().with("tokenizer.ggml.pre", text("default")), "tokenizer.ggml.pre", "default"),
        (bytes().with("tokenizer.ggml.pre", text("falcon")), "tokenizer.ggml.pre", "falcon"),
        (short(), "byte_fallback", "without a token for some bytes, or not used"),
    ] {
        let error = read(draft);
        let Error::Unsupported { setting: named, found: shown, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((named, shown.as_str()), (setting, found));
    }
    let floats = |count: u64, value| {
        Meta::List(6, count, (0..count).map(|_| Meta::F32(value)).collect())
    };
    let long = "a".repeat(257);
    let long = texts(&["<unk>", "<s>", "a", "b", "▁", &long]);
    for (key, value, found) in [
        ("tokens", texts(&["a", "b", "a"]), "a list of 6 for 3 tokens"),
        ("tokens", texts(&["a", "b", "c", "d", "e", "a"]), "\"a\" at 0 and at 5"),
        ("tokens", Meta::List(4, 0, vec![]), "a list of 6 for 0 tokens"),
        ("tokens", Meta::List(4, 1, vec![Meta::U32(0)]), "a list of an integer"),
        ("tokens", Meta::U32(0), "an integer"),
        ("tokens", long, "a piece of 257 bytes at 5"),
        ("scores", floats(5, 0.0), "a list of 5 for 6 tokens"),
        ("scores", floats(6, f32::NAN), "a list of 6 for 6 tokens"),
        ("bos_token_id", Meta::U32(6), "6"),
        ("add_bos_token", Meta::Bool(2), "the byte 2"),
        ("remove_extra_whitespaces", Meta::Bool(1), "true"),
        ("precompiled_charsmap", Meta::List(0, 1, vec![Meta::U8(1)]), "given"),
    ] {
        let error = read(short().with(&format!("tokenizer.ggml.{key}"), value));
        let Error::Metadata { found: shown, .. } = error else { panic!("{key}: {error}") };
        assert_eq!(shown, found, "{key}");
    }
    for key in ["model", "tokens", "scores", "bos_token_id"] {
        let error = read(pieces().without(&format!("tokenizer.ggml.{key}")));
        let Error::Metadata { key: named, found, .. } = error else { panic!("{error}") };
        assert_eq!((named, found.as_str()), (format!("tokenizer.ggml.{key}"), "absent"));
    }
    // Merges and sizes are checked where those of tokenizer.json are.
    let bad = bytes().with("tokenizer.ggml.pre", text("gpt-2"));
    let bad = bad.with("tokenizer.ggml.merges", texts(&["a x"]));
    assert!(matches!(read(bad), Error::BadMerge { index: 0, .. }));
    let small = pieces().read().unwrap().tokenizer(&config(ALL - 1, None)).unwrap_err();
    assert!(matches!(small, Error::TokenBeyondVocabulary { id: 261, vocabulary: 261, .. }));
}

#[test]
fn foreign_forms_of_tokenizer_json_are_refused_by_name() {
    let replace =
        serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "▁"});
    let step = |pattern: &str, behavior: &str, invert: bool| {
        serde_json::json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior,
            "invert": invert})
    };
    let known =
        json(&fixture("llama3.tokenizer.json"))["pre_tokenizer"]["pretokenizers"][0]["pattern"]
            ["Regex"]
            .as_str()
            .unwrap()
            .to_owned();
    for (name, path, value, setting, found) in [
        (
            "llama3",
            "/pre_tokenizer/pretokenizers/0",
            step("(a+)+$", "Isolated", false),
            "pre_tokenizer",
            "Split by \"(a+)+$\"",
        ),
        (
            "llama3",
            "/pre_tokenizer/pretokenizers/0",
            step(&known, "Removed", false),
            "pre_tokenizer",
            "Split",
        ),
        (
            "llama3",
            "/pre_tokenizer/pretokenizers/0",
            step(&known, "Isolated", true),
            "pre_tokenizer",
            "Split",
        ),
        ("llama", "/normalizer/normalizers/1", replace.clone(), "normalizer", "Sequence"),
        ("llama", "/normalizer/normalizers/0", replace, "normalizer", "Sequence"),
        ("llama", "/normalizer", Value::Null, "pre_tokenizer", "null"),
        (
            "llama",
            "/pre_tokenizer",
            serde_json::json!({"type": "Metaspace"}),
            "pre_tokenizer",
            "Metaspace",
        ),
        (
            "metaspace",
            "/pre_tokenizer/replacement",
            serde_json::json!("_"),
            "pre_tokenizer",
            "Metaspace with '_'",
        ),
        (
            "metaspace",
            "/pre_tokenizer/prepend_scheme",
            serde_json::json!("often"),
            "pre_tokenizer",
            "Metaspace",
        ),
        (
            "metaspace",
            "/normalizer",
            serde_json::json!({"type": "Lowercase"}),
            "normalizer",
            "Lowercase",
        ),
    ] {
        let mut file = json(&fixture(&format!("{name}.tokenizer.json")));
        *file.pointer_mut(path).unwrap() = value;
        let refused = Tokenizer::from_json(file.to_string().as_bytes(), &config(600, None));
        let Err(Error::Unsupported { setting: named, found: shown, .. }) = refused else {
            panic!("{name} {path} was accepted: {refused:?}");
        };
        assert_eq!((named, shown.as_str()), (setting, found), "{name} {path}");
    }
}
