//! A file of tasks: every line is answered or refused, and none is lost.
#![no_main]

use fewstep::Error;
use fewstep::tasks::{Tasks, parse};
use fewstep_core::Rng;
use fewstep_engine::{Config, Model, Parameters, Task, Tokenizer};
use fewstep_fuzz::{MEMORY_LIMIT, answer, assert_refusal};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The file that the bytes are written to: tasks are read from files.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!("fewstep-fuzz-{}.jsonl", std::process::id()))
});

static BUILTIN: LazyLock<Model> =
    LazyLock::new(|| fewstep::builtin().expect("the model in the program is one"));

/// A model so small that a task is answered in less than a millisecond.
static SMALL: LazyLock<Model> = LazyLock::new(|| {
    let config = Config::from_json(
        br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4, "n_inner": 4,
             "n_positions": 128, "vocab_size": 256}"#,
    )
    .expect("this is a configuration");
    let mut parameters = Parameters::zeros(&config).expect("the sizes are in range");
    let layer = &mut parameters.layers[0];
    let mut rng = Rng::new(1);
    for weights in [
        &mut parameters.token_embedding,
        &mut parameters.position_embedding,
        &mut layer.attention_norm.scale,
        &mut layer.query.weight,
        &mut layer.key.weight,
        &mut layer.value.weight,
        &mut layer.output.weight,
        &mut layer.mlp_norm.scale,
        &mut layer.mlp_up.weight,
        &mut layer.mlp_down.weight,
        &mut parameters.final_norm.scale,
    ] {
        weights.iter_mut().for_each(|weight| *weight = rng.normal() as f32);
    }
    let model = Model::new(config, Tokenizer::of_bytes(), parameters).expect("the sizes fit");
    model.with_memory_limit(MEMORY_LIMIT)
});

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).expect("there is room for a file");
    let tasks = Tasks::open(vec![FILE.clone()]).expect("the file can be read");
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    let mut expected = (1_u64..).zip(&lines).filter(|(number, line)| {
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| *number == 1).unwrap_or(line);
        !line.trim_ascii().is_empty()
    });
    let mut ids = Vec::new();
    let mut any = false;
    for line in tasks {
        if matches!(line.task, Err(Error::NoTasks { .. })) {
            assert!(!any && expected.next().is_none());
            return;
        }
        any = true;
        let (number, bytes) = expected.next().expect("every record has a line");
        assert_eq!((line.number, &line.file), (number, &None));
        match &line.task {
            Ok(task) => {
                assert_eq!(line.id.as_ref(), Some(&task.id));
                assert!(!ids.contains(&task.id), "an id was accepted twice");
                ids.push(task.id.clone());
                check(task);
            }
            Err(refused) => {
                assert_refusal(refused);
                check_place(refused, bytes);
            }
        }
    }
    assert!(any && expected.next().is_none(), "a line was lost");
});

/// The place that a refusal names lies on its line.
fn check_place(refused: &Error, line: &[u8]) {
    match refused {
        Error::Json { column, .. } => assert!(*column <= line.len() + 1),
        Error::NotUtf8 { column, byte } => assert!(line[column - 1..].contains(byte)),
        Error::DuplicateId { first, .. } => assert!(*first > 0),
        other => panic!("{other:?} is no problem of a line"),
    }
}

/// A task is the same when it is written and read again, is tokenised within the limits of its
/// model, and is answered or refused.
fn check(task: &Task) {
    let written = serde_json::to_vec(task).expect("a task can be written");
    assert_eq!(parse(&written).as_ref(), Ok(task));
    match BUILTIN.read(task) {
        Ok(read) => {
            assert_eq!(read.sequences().len(), task.examples.len() + 1);
            let config = BUILTIN.config();
            for sequence in read.sequences() {
                assert!((1..=config.positions).contains(&sequence.len()));
                assert!(sequence.iter().all(|&token| (token as usize) < config.vocabulary));
            }
        }
        Err(refused) => assert_refusal(&refused),
    }
    answer(&SMALL, task);
}
