//! Low-rank updates and norms from the command line: the flags reach the model, files come back.

use crate::support::{file_of, printed, records, run, said, task, tasks};
use fewstep_engine::{FirstFactor, Lora, choose_blocks};
use serde_json::Value;

/// Rounding of a prediction in single precision, over a model's few layers.
const ROUNDING: f64 = 1e3 * f32::EPSILON as f64;

/// The trace of every candidate of the only task.
fn traces(report: &Value) -> Vec<(String, f64)> {
    let blocks = report["which"]["blocks"].as_array().unwrap().iter();
    let named = blocks.map(|block| {
        let kernel = block["kernel"].as_array().unwrap().iter().enumerate();
        let trace = kernel.map(|(i, row)| row[i].as_f64().unwrap()).sum();
        (block["name"].as_str().unwrap().to_owned(), trace)
    });
    named.collect()
}

/// Rank, first factor and seed are those of the kernels that both commands report.
#[test]
fn rank_first_factor_and_seed_reach_the_model() {
    let (_directory, name) = file_of(tasks(1).as_bytes());
    let choice = "lora-value,lora-query,norm@last2";
    let mut seen = Vec::new();
    for (rank, first, seed) in
        [(8, "random", 0), (8, "random", 3), (2, "random", 0), (2, "inputs", 0)]
    {
        let (rank_text, seed_text) = (rank.to_string(), seed.to_string());
        let flags = [
            &[
                "--policy", "paper", "--blocks", choice, "--json", "--full", "--seed",
                &seed_text,
            ][..],
            &["--lora-rank", &rank_text, "--lora-first", first],
        ]
        .concat();
        let [predicted, decided] = ["predict", "decide"].map(|command| {
            let output = run(&[&[command, &name][..], &flags].concat());
            assert!(output.status.success(), "{}", said(&output));
            traces(&records(&printed(&output))[0])
        });
        assert_eq!(predicted, decided);

        let lora = Lora { rank, first: first.parse().unwrap(), seed };
        let model = fewstep::builtin().unwrap().with_lora(lora).unwrap();
        let blocks = choose_blocks(choice, model.config()).unwrap();
        let task = serde_json::from_value(task("t0", 7)).unwrap();
        let expected = model.observe(&task, &blocks).unwrap();
        assert_eq!(decided.len(), 6);
        for ((name, trace), block) in decided.iter().zip(expected.geometry.blocks()) {
            assert_eq!(name, block.name());
            let expected: f64 = (0..block.examples()).map(|i| block.kernel()[(i, i)]).sum();
            assert!(
                (trace - expected).abs() <= 1e-12 * expected,
                "{name}: {trace}, {expected}"
            );
        }
        assert!(!seen.contains(&decided[0]), "{rank}, {first}, {seed}");
        seen.push(decided[0].clone());
    }
    // Without flags: rank 8, random, seed 0.
    let output =
        run(&["decide", &name, "--policy", "paper", "--blocks", choice, "--json", "--full"]);
    assert_eq!(traces(&records(&printed(&output))[0])[0], seen[0]);
    assert_eq!(Lora::default(), Lora { rank: 8, first: FirstFactor::Random, seed: 0 });
}

/// A saved update carries its first factor: it is applied without any flag.
#[test]
fn a_saved_low_rank_update_gives_the_prediction_that_it_gave() {
    let (directory, name) = file_of(tasks(3).as_bytes());
    let adapters = directory.path().join("adapters");
    let adapters = adapters.to_str().unwrap();
    let mut moved = false;
    for first in ["random", "inputs"] {
        for horizon in ["6", "gibbs", "0"] {
            let made = run(&[
                &[
                    "predict",
                    &name,
                    "--policy",
                    "paper",
                    "--json",
                    "--horizon",
                    horizon,
                    "--seed",
                    "5",
                ][..],
                &["--blocks", "lora-value,value,norm@last2", "--lora-rank", "3"],
                &["--lora-first", first, "--save-adapter", adapters],
            ]
            .concat());
            assert!(made.status.success(), "{}", said(&made));
            let applied = run(&["predict", &name, "--json", "--adapter", adapters]);
            assert!(applied.status.success(), "{}", said(&applied));
            let (made, applied) = (records(&printed(&made)), records(&printed(&applied)));
            for (made, applied) in made.iter().zip(&applied) {
                let of = |report: &Value| report["prediction"]["adapted"].as_f64().unwrap();
                let gap = (of(made) - of(applied)).abs();
                assert!(gap < ROUNDING, "{first}, {horizon}: {gap}");
                moved |= applied["prediction"]["icl"] != applied["prediction"]["adapted"];
            }
        }
    }
    assert!(moved);
}

#[test]
fn flags_that_would_change_nothing_or_cannot_be_are_refused() {
    let (_directory, name) = file_of(tasks(1).as_bytes());
    for (flags, expected) in [
        (
            vec!["--lora-rank", "4"],
            "--lora-rank concerns low-rank updates, but no low-rank block is a candidate",
        ),
        (
            vec!["--lora-first", "inputs", "--blocks", "value,norm@last1"],
            "--lora-first concerns low-rank updates, but no low-rank block is a candidate",
        ),
        (vec!["--lora-rank", "0"], "it must be a whole number from 1"),
        (
            vec!["--lora-first", "zero"],
            "unknown first factor \"zero\": expected random or inputs",
        ),
        (
            vec!["--lora-rank", "100000", "--blocks", "lora-value@last1"],
            "invalid rank 100000 of a low-rank update: expected 1 to ",
        ),
        (vec!["--blocks", "lora@all"], "lora-value, lora-query, norm"),
    ] {
        for command in ["predict", "decide"] {
            let output = run(&[&[command, &name][..], &flags].concat());
            assert_eq!(output.status.code(), Some(2), "{flags:?}");
            assert!(said(&output).contains(expected), "{}", said(&output));
        }
    }
    let output = run(&["predict", &name, "--adapter", "x", "--lora-rank", "4"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Blocks of whole layers have a chart and a figure with one column.
#[test]
fn layers_are_drawn_without_heads() {
    let (directory, name) = file_of(tasks(1).as_bytes());
    let figures = directory.path().join("figures");
    let figures_name = figures.to_str().unwrap();
    let output = run(&[
        &["decide", &name, "--policy", "paper", "--blocks", "lora-query,norm,value@last2"][..],
        &["--figures", figures_name, "--select", "trace-top", "--budget", "2"],
    ]
    .concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = printed(&output);
    for kind in ["lora-query", "norm"] {
        let title = format!("score of {kind} blocks (layer");
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains(&title)).collect();
        // The title, and a line for each of the two layers.
        assert!(lines.len() >= 3, "{text}");
        assert!(
            lines[1].trim_start().starts_with('4') && lines[2].trim_start().starts_with('5')
        );
        let svg = std::fs::read_to_string(figures.join(format!("t0.{kind}.svg"))).unwrap();
        assert!(svg.contains("the whole layer") && !svg.contains("NaN"), "{kind}");
    }
}
