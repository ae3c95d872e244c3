//! Updates that were saved do later what they did when they were made.

use crate::support::{self, file_of, printed, records, run, run_with_input, said, task, tasks};
use serde_json::json;

/// Rounding of a prediction in single precision, over a model's few layers.
const ROUNDING: f64 = 1e3 * f32::EPSILON as f64;

#[test]
fn a_saved_update_gives_the_prediction_that_it_gave() {
    let (directory, name) = file_of(tasks(4).as_bytes());
    let adapters = directory.path().join("new/adapters");
    let adapters = adapters.to_str().unwrap();
    let mut moved = false;
    for horizon in ["evidence", "gibbs", "5", "0"] {
        let made = run(&[
            "predict",
            &name,
            "--json",
            "--policy",
            "paper",
            "--horizon",
            horizon,
            "--save-adapter",
            adapters,
        ]);
        assert!(made.status.success(), "{}", said(&made));
        let applied = run(&["predict", &name, "--json", "--adapter", adapters]);
        assert!(applied.status.success(), "{}", said(&applied));
        for (made, applied) in records(&printed(&made)).iter().zip(records(&printed(&applied)))
        {
            for form in ["icl", "adapted"] {
                let [a, b] =
                    [made, &applied].map(|report| report["prediction"][form].as_f64().unwrap());
                assert!((a - b).abs() < ROUNDING, "{horizon}, {form}: {a} and {b}");
            }
            let same = applied["prediction"]["icl"] == applied["prediction"]["adapted"];
            moved |= !same;
            assert!(same || horizon != "0", "{applied}");
            assert_eq!(applied["which"]["rule"], "adapter");
            assert_eq!(applied["passes"], json!({"forward": 2, "backward": 0}));
        }
    }
    assert!(moved);
}

/// By the linearised model nothing is run again: what is saved is the update along which it predicts, of
/// rank at most the number of examples in every matrix.
#[test]
fn an_update_is_saved_without_steps() {
    let (directory, name) = file_of(tasks(3).as_bytes());
    let adapters = directory.path().join("adapters");
    let path = adapters.to_str().unwrap();
    let model = fewstep::builtin().unwrap();
    for adjoint in ["local", "whole"] {
        let flags = ["predict", &name, "--json", "--full", "--adjoint", adjoint];
        let plain = run(&flags);
        let made = run(&[&flags[..], &["--save-adapter", path]].concat());
        assert!(made.status.success(), "{}", said(&made));
        assert_eq!(printed(&made), printed(&plain));
        for (report, line) in records(&printed(&made)).iter().zip(tasks(3).lines()) {
            let task: fewstep_engine::Task = serde_json::from_str(line).unwrap();
            let file = adapters.join(format!("{}.safetensors", task.id));
            let update = fewstep_engine::Update::load(&file, model.network()).unwrap();
            let read = model.read(&task).unwrap();
            let query = read.sequences().last().unwrap().clone();
            let layout = fewstep_engine::Layout::shared(&[query]).unwrap();
            let predict = match adjoint {
                "local" => fewstep_engine::predict_linear_local,
                _ => fewstep_engine::predict_linear,
            };
            let found = predict(model.network(), layout, read.labels(), &update).unwrap();
            let linear = report["prediction"]["linear"].as_f64().unwrap();
            assert!(found.change.abs() > 1e-3, "{found:?}");
            assert!((found.prediction + found.change - linear).abs() < 1e-4, "{found:?}");
        }
    }
    let flags = ["predict", &name, "--adjoint", "local", "--save-adapter", path];
    let flags = [&flags[..], &["--adapter-format", "peft"]].concat();
    std::fs::remove_dir_all(&adapters).unwrap();
    assert!(run(&flags).status.success());
    for line in tasks(3).lines() {
        let task: fewstep_engine::Task = serde_json::from_str(line).unwrap();
        let settings =
            std::fs::read(adapters.join(&task.id).join("adapter_config.json")).unwrap();
        let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
        let ranks = settings["rank_pattern"].as_object().unwrap().values();
        for rank in ranks.chain([&settings["r"]]) {
            assert!(rank.as_u64().unwrap() <= task.examples.len() as u64, "{settings}");
        }
    }
}

#[test]
fn one_file_serves_new_queries_as_the_engine_says() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let adapters = directory.path().join("adapters");
    let made = run(&[
        "predict",
        &name,
        "--policy",
        "paper",
        "--horizon",
        "20",
        "--save-adapter",
        adapters.to_str().unwrap(),
    ]);
    assert!(made.status.success(), "{}", said(&made));
    let file = adapters.join("t0.safetensors");

    let mut new = task("another query", 7);
    new["query"] = json!({"x": "7"});
    let applied = run_with_input(
        &["predict", "-", "--json", "--adapter", file.to_str().unwrap()],
        new.to_string().as_bytes(),
    );
    let applied = &records(&printed(&applied))[0]["prediction"];

    let model = fewstep::builtin().unwrap();
    let update = fewstep_engine::Update::load(&file, model.network()).unwrap();
    let task = serde_json::from_value(new).unwrap();
    let expected = model.predict(&task, &update).unwrap();
    assert!((applied["adapted"].as_f64().unwrap() - expected).abs() < ROUNDING);
    assert!((applied["icl"].as_f64().unwrap() - expected).abs() > 10.0 * ROUNDING);
    let keys: Vec<&String> = applied.as_object().unwrap().keys().collect();
    assert!(!keys.iter().any(|key| *key == "target"));
}

#[test]
fn a_task_without_a_saved_update_is_a_failure_that_says_what_to_do() {
    let (directory, name) = file_of(tasks(2).as_bytes());
    let adapters = directory.path().to_str().unwrap();
    let output = run(&["predict", &name, "--json", "--adapter", adapters]);
    assert_eq!(output.status.code(), Some(1));
    let error = records(&printed(&output))[0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("t0.safetensors does not exist; make it with predict --save-adapter"),
        "{error}"
    );

    std::fs::write(directory.path().join("t0.safetensors"), b"nothing").unwrap();
    let output = run(&["predict", &name, "--json", "--adapter", adapters]);
    let error = records(&printed(&output))[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("safetensors"), "{error}");
}

#[test]
fn the_linear_form_is_the_prediction_if_it_is_asked_for() {
    let input = tasks(2);
    let flags = ["predict", "-", "--json", "--policy", "paper", "--horizon", "8"];
    let steps = run_with_input(&flags, input.as_bytes());
    let linear = [&flags[..], &["--dynamics", "linear"]].concat();
    let linear = run_with_input(&linear, input.as_bytes());
    for (steps, linear) in records(&printed(&steps)).iter().zip(records(&printed(&linear))) {
        assert_eq!(linear["prediction"]["adapted"], linear["prediction"]["linear"]);
        assert_ne!(steps["prediction"]["adapted"], steps["prediction"]["linear"]);
        // Steps cost passes through the model; the linearised model costs none beyond observing.
        assert_eq!(linear["passes"], json!({"forward": 7, "backward": 7}));
        assert!(steps["passes"]["forward"].as_u64() > Some(7));
    }
}

#[test]
fn figures_are_drawn_for_every_task_whatever_its_id() {
    let (directory, name) =
        file_of((task("../a b", 1).to_string() + "\n" + &tasks(1)).as_bytes());
    let figures = directory.path().join("figures");
    let output = run(&[
        "decide",
        &name,
        "--figures",
        figures.to_str().unwrap(),
        "--policy",
        "paper",
        "--select",
        "trace-top",
        "--budget",
        "2",
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let mut names: Vec<String> = std::fs::read_dir(&figures)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "%2e%2e%2fa%20b.evidence.svg",
            "%2e%2e%2fa%20b.value.svg",
            "t0.evidence.svg",
            "t0.value.svg"
        ]
    );
    for name in names {
        let svg = std::fs::read_to_string(figures.join(&name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(svg.contains("prefers-color-scheme: dark") && !svg.contains("NaN"), "{name}");
        let dots = svg.matches("fill=\"#FEFEFE\"").count();
        assert_eq!(dots, if name.contains("value") { 2 } else { 0 }, "{name}");
    }
}

/// Saves the updates of a file of tasks, for the model of a fixture, in a format.
fn save(
    name: &str,
    model: &str,
    format: &str,
    directory: &std::path::Path,
) -> Vec<serde_json::Value> {
    let made = run(&[
        "predict",
        name,
        "--model",
        model,
        "--json",
        "--policy",
        "paper",
        "--blocks",
        "value,output,query,key,mlp-up,mlp-down@all",
        "--horizon",
        "20",
        "--step-scale",
        "0.5",
        "--save-adapter",
        directory.to_str().unwrap(),
        "--adapter-format",
        format,
    ]);
    assert!(made.status.success(), "{}", said(&made));
    records(&printed(&made))
}

/// What the tool predicts with what it saved.
fn apply(name: &str, flags: &[&str]) -> Vec<serde_json::Value> {
    let applied = run(&[&["predict", name, "--json"], flags].concat());
    assert!(applied.status.success(), "{}", said(&applied));
    records(&printed(&applied))
}

fn names(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_same(made: &serde_json::Value, again: &serde_json::Value, form: &str) {
    let [a, b] = [
        made["prediction"]["adapted"].as_f64().unwrap(),
        again["prediction"][form].as_f64().unwrap(),
    ];
    assert!((a - b).abs() < ROUNDING, "{a} and {b}");
    let plain = made["prediction"]["icl"].as_f64().unwrap();
    assert!((a - plain).abs() > 10.0 * ROUNDING, "the update matters: {a} and {plain}");
}

/// For each family: a PEFT adapter per task, one for all tasks, and a merged model predict what
/// was predicted when they were made.
#[test]
fn every_format_gives_the_prediction_that_it_gave() {
    for model in ["fixtures/gpt2-plain", "fixtures/llama-plain", "fixtures/qwen2-biases"] {
        let directory = tempfile::tempdir().unwrap();
        let tasks = "fixtures/tasks.jsonl";
        let peft = directory.path().join("new/peft");
        let made = save(tasks, model, "peft", &peft);
        assert_eq!(names(&peft), ["digits", "text", "words"]);
        assert_eq!(
            names(&peft.join("text")),
            ["adapter_config.json", "adapter_model.safetensors"]
        );
        let settings = std::fs::read(peft.join("text/adapter_config.json")).unwrap();
        let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
        assert_eq!(settings["base_model_name_or_path"], model);

        let each = apply(tasks, &["--model", model, "--adapter", peft.to_str().unwrap()]);
        let one = peft.join("words");
        let one = apply(tasks, &["--model", model, "--adapter", one.to_str().unwrap()]);
        for (made, each) in made.iter().zip(&each) {
            assert_same(made, each, "adapted");
            assert_eq!(each["which"]["rule"], "adapter");
        }
        assert_same(&made[1], &one[1], "adapted");
        assert_ne!(one[0]["prediction"]["adapted"], each[0]["prediction"]["adapted"]);

        let merged = directory.path().join("merged");
        let made = save(tasks, model, "merged", &merged);
        let folder = merged.join("digits");
        let expected = ["config.json", "fewstep.json", "model.safetensors", "tokenizer.json"];
        assert_eq!(names(&folder), expected);
        let again = apply(tasks, &["--model", folder.to_str().unwrap(), "--horizon", "0"]);
        assert_same(&made[0], &again[0], "icl");

        let gguf = directory.path().join("gguf");
        save(tasks, model, "gguf", &gguf);
        assert_eq!(names(&gguf), ["digits.gguf", "text.gguf", "words.gguf"]);
        assert_eq!(std::fs::read(gguf.join("text.gguf")).unwrap()[..4], *b"GGUF");
    }
}

/// The built-in model has no name that other tools know, and an update of zeros is an adapter too.
#[test]
fn an_adapter_of_the_model_in_the_program_names_none() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let peft = directory.path().join("peft");
    let path = peft.to_str().unwrap();
    let flags = ["--horizon", "0", "--save-adapter", path, "--adapter-format", "peft"];
    apply(&name, &flags);
    let settings = std::fs::read(peft.join("t0/adapter_config.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
    assert_eq!(settings["base_model_name_or_path"], serde_json::Value::Null);
    let applied = &apply(&name, &["--adapter", path])[0]["prediction"];
    assert_eq!(applied["icl"], applied["adapted"]);
}

/// A directory of an earlier run is replaced, whole; one that holds anything else is left alone.
#[test]
fn a_directory_is_replaced_only_by_its_like() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let top = directory.path().join("saved");
    let path = top.to_str().unwrap();
    let flags = |horizon, format| {
        [
            "--policy",
            "paper",
            "--horizon",
            horizon,
            "--save-adapter",
            path,
            "--adapter-format",
            format,
        ]
    };
    let weights = top.join("t0/adapter_model.safetensors");
    // What a run that was killed leaves behind is in nobody's way.
    std::fs::create_dir_all(top.join(".t0.partial/rest")).unwrap();
    std::fs::create_dir_all(top.join(".t0.old")).unwrap();
    std::fs::create_dir(top.join("t0")).unwrap();
    apply(&name, &flags("3", "peft"));
    let first = std::fs::read(&weights).unwrap();
    apply(&name, &flags("9", "peft"));
    assert_ne!(std::fs::read(&weights).unwrap(), first);
    assert_eq!(names(&top), ["t0"]);

    // Another format, or a stranger's file: nothing is touched.
    let before = std::fs::read(&weights).unwrap();
    for (format, stray) in [("merged", None), ("peft", Some("notes.txt"))] {
        if let Some(stray) = stray {
            std::fs::write(top.join("t0").join(stray), "mine").unwrap();
        }
        let refused = run(&[&["predict", &name, "--json"], &flags("9", format)[..]].concat());
        assert_eq!(refused.status.code(), Some(1));
        let error = records(&printed(&refused))[0]["error"].as_str().unwrap().to_owned();
        assert!(error.contains("t0 exists already and is not an update"), "{error}");
        assert!(stray.is_none_or(|stray| error.contains(stray)), "{error}");
        assert_eq!(std::fs::read(&weights).unwrap(), before);
        assert_eq!(names(&top), ["t0"]);
    }
}

/// A model that this program did not merge is not replaced by one that it did.
#[test]
fn a_model_of_another_origin_is_left_alone() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let model = directory.path().join("t0");
    std::fs::create_dir(&model).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(support::root().join("models/builtin").join(file), model.join(file))
            .unwrap();
    }
    let before = std::fs::read(model.join("model.safetensors")).unwrap();
    let path = directory.path().to_str().unwrap();
    let flags = ["predict", &name, "--json", "--model", model.to_str().unwrap()];
    let save = ["--save-adapter", path, "--adapter-format", "merged"];
    let refused = run(&[&flags[..], &save].concat());
    let error = records(&printed(&refused))[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("fewstep.json"), "{error}");
    assert_eq!(std::fs::read(model.join("model.safetensors")).unwrap(), before);
}

/// A format without a place to save to would be ignored, so it is refused.
#[test]
fn a_format_needs_a_directory() {
    let refused = run(&["predict", "examples/digits.jsonl", "--adapter-format", "peft"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("--save-adapter <DIR>"), "{}", said(&refused));
}
