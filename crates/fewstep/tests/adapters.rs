//! Updates that were saved do later what they did when they were made.
#![allow(clippy::unwrap_used, reason = "a missing record fails the test")]

mod support;

use serde_json::json;
use support::{file_of, printed, records, run, run_with_input, said, task, tasks};

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

#[test]
fn one_file_serves_new_queries_as_the_engine_says() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let adapters = directory.path().join("adapters");
    let made = run(&[
        "predict",
        &name,
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
    let flags = ["predict", "-", "--json", "--horizon", "8"];
    let steps = run_with_input(&flags, input.as_bytes());
    let linear = [&flags[..], &["--dynamics", "linear"]].concat();
    let linear = run_with_input(&linear, input.as_bytes());
    for (steps, linear) in records(&printed(&steps)).iter().zip(records(&printed(&linear))) {
        assert_eq!(linear["prediction"]["adapted"], linear["prediction"]["linear"]);
        assert_ne!(steps["prediction"]["adapted"], steps["prediction"]["linear"]);
        // Steps cost passes through the model; the linear form costs none beyond the look.
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
