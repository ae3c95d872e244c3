//! A GGUF file: refused, or a model that is able to take a task, packed or not.
#![no_main]

use fewstep::tasks::parse;
use fewstep_engine::{Gguf, Model, Task};
use fewstep_fuzz::{MEMORY_LIMIT, answer, assert_refusal};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::LazyLock;

static TASK: LazyLock<Task> = LazyLock::new(|| {
    parse(
        br#"{"id": "a", "template": "{x}->{y}", "query": {"x": "0"},
             "labels": [{"text": "0", "value": 0}, {"text": "1", "value": 1}],
             "examples": [{"x": "0", "y": "1"}, {"x": "1", "y": "0"}]}"#,
    )
    .expect("this is a task")
});

fuzz_target!(|data: &[u8]| {
    let gguf = match Gguf::from_bytes(data.to_vec()) {
        Ok(gguf) => gguf,
        Err(refused) => return assert_refusal(&refused),
    };
    match Model::from_gguf(&gguf) {
        Ok(model) => {
            let model = model.with_memory_limit(MEMORY_LIMIT);
            answer(&model, &TASK);
            answer(&model.dequantised(), &TASK);
        }
        Err(refused) => assert_refusal(&refused),
    }
});

// Most of a file are numbers, which may be anything: changes mostly go into what stands before.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let head = size.min(4096);
    if seed % 4 == 0 || head == size {
        return fuzzer_mutate(data, size, max_size);
    }
    // Of the same length, so that what follows stays where the file says it is.
    let mut changed = data[..head].to_vec();
    fuzzer_mutate(&mut changed, head, head);
    data[..head].copy_from_slice(&changed);
    size
});
