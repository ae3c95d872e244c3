//! Tokenizers: ids worked out by hand, and every file that is refused.

use crate::prompts::support::{
    END, MERGES, config, from, tokenizer, tokenizer_json, vocabulary,
};
use fewstep_engine::{Bos, Config, Error, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use tempfile::tempdir;

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[test]
fn ids_are_those_worked_out_by_hand() {
    let tokenizer = tokenizer();
    for (text, ids) in [
        ("", vec![]),
        ("hello", vec![259]),
        ("hell", vec![258]),
        ("he", vec![256]),
        ("hel", vec![256, 108]),
        ("helo", vec![256, 108, 111]),
        ("llhe", vec![257, 256]),
        // The blank belongs to the word behind it, where no merge joins them.
        (" hello", vec![32, 259]),
        (" 0", vec![260]),
        // One blank of two; the first one stands alone.
        ("  0", vec![32, 260]),
        (" 01", vec![260, 49]),
        ("0 1", vec![48, 261]),
        ("é\n", vec![0xc3, 0xa9, 10]),
        ("0<|endoftext|>0", vec![48, END, 48]),
    ] {
        assert_eq!(tokenizer.encode(text), Ok(ids.clone()), "{text:?}");
        assert_eq!(tokenizer.decode(&ids), text);
    }
}

#[test]
fn both_forms_of_a_tokenizer_agree() {
    let directory = tempdir().unwrap();
    let path = directory.path();
    let load = || Tokenizer::load(path, &config());
    let refused = Error::NoTokenizer { directory: path.to_path_buf() };
    assert_eq!(load().unwrap_err(), refused);
    fs::write(path.join("vocab.json"), Value::from(vocabulary()).to_string()).unwrap();
    assert_eq!(load().unwrap_err(), refused);
    let lines: String = MERGES.iter().map(|(l, r)| format!("{l} {r}\n")).collect();
    fs::write(path.join("merges.txt"), format!("#version: 0.2\n{lines}")).unwrap();
    let pair = load().unwrap();

    let saved = tempdir().unwrap();
    pair.save(saved.path()).unwrap();
    let pair_again = Tokenizer::load(saved.path(), &config()).unwrap();
    let saved_whole = tempdir().unwrap();
    tokenizer().save(saved_whole.path()).unwrap();
    let whole_again = Tokenizer::load(saved_whole.path(), &config()).unwrap();
    for text in ["hello 0, hell 1", "a<|endoftext|>b", "naïve\t\u{1f600}"] {
        let ids = tokenizer().encode(text);
        for other in [&pair, &pair_again, &whole_again] {
            assert_eq!(other.encode(text), ids, "{text:?}");
        }
    }

    fs::write(path.join("merges.txt"), [0xff, b'\n']).unwrap();
    let Err(Error::File { file, .. }) = load() else { panic!("these merges are no text") };
    assert_eq!(file, path.join("merges.txt"));
}

#[test]
fn cutting_padding_and_dropout_are_not_done() {
    let text = "hello 0 hello 1";
    let expected = tokenizer().encode(text).unwrap();
    let mut json = tokenizer_json();
    json["truncation"] = json!({"direction": "Right", "max_length": 2,
        "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 32}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    json["model"]["dropout"] = json!(1.0);
    assert_eq!(from(&json).encode(text), Ok(expected));
}

#[test]
fn digits_and_unicode_forms_are_followed() {
    let mut json = tokenizer_json();
    json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]});
    // The blank no longer joins the digit.
    assert_eq!(from(&json).encode(" 01"), Ok(vec![32, 48, 49]));

    let mut json = tokenizer_json();
    json["normalizer"] = json!({"type": "NFC"});
    assert_eq!(from(&json).encode("e\u{301}"), Ok(vec![0xc3, 0xa9]));
    json["normalizer"] = json!({"type": "NFD"});
    assert_eq!(from(&json).encode("é"), Ok(vec![101, 0xcc, 0x81]));

    let mut json = tokenizer_json();
    json["pre_tokenizer"]["add_prefix_space"] = json!(true);
    assert_eq!(from(&json).encode("0"), Ok(vec![260]));
}

#[test]
fn a_token_at_the_start_is_put_there_if_the_model_says_so() {
    let start = |json: &Value, bos| from(json).start(bos);
    let plain = tokenizer_json();
    assert_eq!(start(&plain, Bos::Auto), Ok(vec![]));
    assert_eq!(start(&plain, Bos::Never), Ok(vec![]));
    assert_eq!(start(&plain, Bos::Always), Ok(vec![END]));

    // Tokens behind the text are never wanted.
    let mut template = tokenizer_json();
    let processor = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                   {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [7, 8], "tokens": ["a", "b"]},
                           "</s>": {"id": "</s>", "ids": [9], "tokens": ["c"]}}});
    for processor in [
        processor.clone(),
        json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, processor]}),
    ] {
        template["post_processor"] = processor;
        assert_eq!(start(&template, Bos::Auto), Ok(vec![7, 8]));
        assert_eq!(start(&template, Bos::Always), Ok(vec![7, 8]));
        assert_eq!(start(&template, Bos::Never), Ok(vec![]));
    }

    for bos in [None, Some(300)] {
        let config = Config { bos, ..config() };
        let json = plain.to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), &config).unwrap();
        assert_eq!(tokenizer.start(Bos::Always), Err(Error::NoBos));
    }
}

#[test]
fn foreign_tokenizers_are_refused_by_name() {
    let hidden_template = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {}});
    for (setting, path, value, found) in [
        ("model", "/model/type", json!("WordPiece"), "WordPiece"),
        ("model", "/model/type", json!("Unigram"), "Unigram"),
        ("continuing_subword_prefix", "/model/continuing_subword_prefix", json!("##"), "##"),
        ("end_of_word_suffix", "/model/end_of_word_suffix", json!("</w>"), "</w>"),
        ("normalizer", "/normalizer", json!({"type": "Lowercase"}), "Lowercase"),
        (
            "normalizer",
            "/normalizer",
            json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}),
            "Replace",
        ),
        ("pre_tokenizer", "/pre_tokenizer", Value::Null, "null"),
        ("pre_tokenizer", "/pre_tokenizer", json!({"type": "Metaspace"}), "Metaspace"),
        (
            "pre_tokenizer",
            "/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": [{"type": "Split",
                "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false}]}),
            "Split by \"(a+)+$\"",
        ),
        (
            "pre_tokenizer",
            "/pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": []}),
            "Sequence",
        ),
        (
            "post_processor",
            "/post_processor",
            json!({"type": "BertProcessing"}),
            "BertProcessing",
        ),
        ("post_processor", "/post_processor", hidden_template, "TemplateProcessing"),
        (
            "post_processor",
            "/post_processor",
            json!({"type": "Sequence", "processors": [{"type": "Sequence", "processors": []}]}),
            "Sequence",
        ),
        ("added_tokens", "/added_tokens/0/id", json!(299), "\"<|endoftext|>\" with id 299"),
        ("added_tokens", "/added_tokens/0/content", json!(""), "\"\" with id 262"),
    ] {
        let mut json = tokenizer_json();
        *json.pointer_mut(path).unwrap() = value;
        if path == "/added_tokens/0/content" {
            json["model"]["vocab"].as_object_mut().unwrap().remove("<|endoftext|>");
        }
        let refused = Tokenizer::from_json(json.to_string().as_bytes(), &config());
        let Err(Error::Unsupported { file, setting: named, found: shown, .. }) = refused else {
            panic!("{path} was accepted: {refused:?}");
        };
        assert_eq!(
            (file.to_str(), named, shown.as_str()),
            (Some("tokenizer.json"), setting, found)
        );
    }
}

#[test]
fn contradictions_are_refused() {
    let with = |path: &str, value: Value| {
        let mut json = tokenizer_json();
        *json.pointer_mut(path).unwrap() = value;
        Tokenizer::from_json(json.to_string().as_bytes(), &config()).unwrap_err()
    };
    // The union is longer than every token, one part is unknown, there are not two parts.
    for (merges, index, left, right) in [
        (json!(["hello hello"]), 0, "hello", "hello"),
        (json!([["<|endoftext|>", "<|endoftext|>"]]), 0, "<|endoftext|>", "<|endoftext|>"),
        (json!(["h e", "he xyz"]), 1, "he", "xyz"),
        (json!(["h e l"]), 0, "h e l", ""),
        (json!(["he"]), 0, "he", ""),
    ] {
        let Error::BadMerge { index: at, left: l, right: r, .. } =
            with("/model/merges", merges)
        else {
            panic!("{left} {right} was accepted");
        };
        assert_eq!((at, l.as_str(), r.as_str()), (index, left, right));
    }
    let Error::DuplicateToken { first, second, id, .. } = with("/model/vocab/he", json!(104))
    else {
        panic!("two tokens with one id were accepted");
    };
    assert_eq!((first.as_str(), second.as_str(), id), ("h", "he", 104));
    let Error::TokenBeyondVocabulary { token, id, vocabulary, .. } =
        with("/model/vocab/he", json!(300))
    else {
        panic!("a token that the model does not have was accepted");
    };
    assert_eq!((token.as_str(), id, vocabulary), ("he", 300, 300));
    let template = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}],
        "special_tokens": {"s": {"ids": [300]}}});
    assert!(matches!(
        with("/post_processor", template),
        Error::TokenBeyondVocabulary { id: 300, .. }
    ));
    let twice = tokenizer_json().to_string().replacen("\"he\":256", "\"h\":256", 1);
    let refused = Tokenizer::from_json(twice.as_bytes(), &config()).unwrap_err();
    assert!(matches!(refused, Error::Json { problem, .. } if problem.contains("twice")));
}

#[test]
fn a_damaged_file_never_panics() {
    let whole = tokenizer_json().to_string().into_bytes();
    for length in (0..whole.len()).step_by(7) {
        let cut = Tokenizer::from_json(&whole[..length], &config());
        assert!(matches!(cut, Err(Error::Json { .. })), "{length} bytes");
    }
    for position in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[position] = b"\"0-{},["[position % 7];
        if let Ok(tokenizer) = Tokenizer::from_json(&changed, &config()) {
            let _ = tokenizer.encode("hello 0<|endoftext|>\u{1f600}");
        }
    }
}

#[test]
fn text_without_tokens_is_refused_and_not_lost() {
    let mut json = tokenizer_json();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.remove("q");
    vocabulary.remove("Ċ");
    let tokenizer = from(&json);
    assert_eq!(tokenizer.encode("hello 0"), Ok(vec![259, 260]));
    assert_eq!(
        tokenizer.encode("éqa"),
        Err(Error::UnknownText { position: 2, character: 'q' })
    );
    assert_eq!(
        tokenizer.encode("a\n"),
        Err(Error::UnknownText { position: 1, character: '\n' })
    );

    json["normalizer"] = json!({"type": "NFC"});
    let refused = Tokenizer::from_json(json.to_string().as_bytes(), &config());
    assert!(matches!(refused, Err(Error::Unsupported { setting: "normalizer", .. })));
}

#[test]
fn long_texts_are_bounded_and_still_exact() {
    let tokenizer = tokenizer();
    let limit = Tokenizer::LONGEST_TEXT;
    let refused = Error::TextTooLong { length: limit + 1, limit };
    assert_eq!(tokenizer.encode(&"a".repeat(limit + 1)), Err(refused.clone()));
    assert_eq!(tokenizer.cut(&"a".repeat(limit + 1), 1), Err(refused));

    // One word, blanks that the pattern must give one back from, and many words.
    assert_eq!(tokenizer.encode(&"a".repeat(limit)), Ok(vec![97; limit]));
    let mut blanks = vec![32; limit - 2];
    blanks.push(260);
    assert_eq!(tokenizer.encode(&format!("{}0", " ".repeat(limit - 1))), Ok(blanks));
    let words = tokenizer.encode(&" 0".repeat(limit / 2)).unwrap();
    assert_eq!(words, vec![260; limit / 2]);
    // Token by token this would take hours.
    assert_eq!(tokenizer.cut(&"ab".repeat(limit / 2), 3), Ok("aba"));
}

/// The pattern's engine gives up on long runs, and what follows would not be split: no text that
/// is taken may be so long.
#[test]
fn the_longest_run_of_blanks_is_still_split() {
    let steps = |pattern: &str| {
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
             "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})
    };
    let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let plain = json!({"type": "ByteLevel", "add_prefix_space": false});
    for step in [plain, steps(llama)] {
        let mut json = tokenizer_json();
        // Two blanks join before a blank joins a word.
        json["model"]["merges"] = json!(["Ġ Ġ", "Ġ 0", "Ġ 1", "Ġ a"]);
        json["model"]["vocab"]["ĠĠ"] = json!(263);
        json["model"]["vocab"]["Ġa"] = json!(264);
        json["pre_tokenizer"] = step;
        let blanks = Tokenizer::LONGEST_TEXT - 2;
        let ids = from(&json).encode(&format!("{}a ", " ".repeat(blanks))).unwrap();
        // The last blank belongs to the word, so an odd number is left and one stands alone.
        assert_eq!(ids.len(), (blanks - 2) / 2 + 3);
        assert_eq!(ids[ids.len() - 3..], [32, 264, 32]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every text comes back, whatever it holds.
    #[test]
    fn decoding_gives_back_the_text(text in any::<String>()) {
        for tokenizer in [tokenizer(), Tokenizer::of_bytes()] {
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids), text.clone());
        }
        prop_assert_eq!(Tokenizer::of_bytes().encode(&text).unwrap(), bytes(&text));
    }

    /// A cut text is a start of the text, has few enough tokens, and loses less than a token
    /// more than it must.
    #[test]
    fn cutting_keeps_as_many_tokens_as_asked(text in "(hello| 0|é|\u{1f600}|x){0,12}", most in 0_usize..10) {
        let tokenizer = tokenizer();
        let cut = tokenizer.cut(&text, most).unwrap();
        let (all, kept) = (tokenizer.encode(&text).unwrap(), tokenizer.encode(cut).unwrap());
        prop_assert!(text.starts_with(cut));
        prop_assert!(kept.len() <= most);
        if all.len() <= most {
            prop_assert_eq!(cut, &text);
        } else {
            // At most the three further bytes of one character are given up.
            prop_assert!(kept.len() + 3 >= most, "{} {}", kept.len(), most);
        }
    }
}
