//! The memory that observing takes is planned before it is taken.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

#[path = "support/allocations.rs"]
mod allocations;
#[allow(dead_code, reason = "memory needs a part of it")]
mod support;

use allocations::{MOST, NOW};
use fewstep_core::Rng;
use fewstep_engine::{
    BlockId, BlockKind, Config, Family, FirstFactor, KernelForm, Labels, Llama, Lora, Network,
    Order, Real, Rotary, Scaling, TokenTask, Variant, local_memory_plan, memory_plan, observe,
    observe_local, release_buffers,
};
use std::sync::atomic::Ordering;
use support::{blocks, kinds, random_parameters};

/// Prompts that each leave one example of five tokens out, and the query's; in tree order those
/// that differ in the highest bit come first.
fn task(examples: u32, order: Order) -> TokenTask {
    let shown = |example: u32| [0, 1, 2, 3, 4].map(|token| (7 * example + token) % 50);
    let prompt = |asked: u32| -> Vec<u32> {
        let mut others: Vec<u32> = (0..examples).filter(|&other| other != asked).collect();
        if order == Order::Tree && asked < examples {
            others.sort_by_key(|other| (other ^ asked).leading_zeros());
        }
        others.into_iter().flat_map(shown).chain(shown(asked)[..3].to_vec()).collect()
    };
    let labels = Labels::new(vec![1, 2], vec![0.0, 1.0]).unwrap();
    let targets = (0..examples).map(|example| f64::from(example % 2)).collect();
    TokenTask::new((0..examples).map(prompt).collect(), prompt(examples), labels, targets)
        .unwrap()
}

/// Peak bytes of observing beyond what was there before.
fn peak<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    chosen: &[BlockId],
    form: KernelForm,
) -> u64 {
    release_buffers();
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let seen = observe(model, task, chosen, form).unwrap();
    let most = MOST.load(Ordering::Relaxed);
    assert_eq!(seen.predictions.len(), task.examples());
    (most - before) as u64
}

fn check<R: Real>(config: &Config, first: FirstFactor) {
    let parameters = random_parameters(config, &mut Rng::new(7));
    let lora = Lora { rank: 5, first, seed: 0 };
    let model: Network<R> = Network::new(config, parameters).unwrap().with_lora(lora).unwrap();
    for (examples, order) in [(2, Order::Original), (12, Order::Original), (8, Order::Tree)] {
        let all = format!("{}@all", kinds(config));
        let choices =
            ["value@all", "value@last2", "mlp-down@last1", "mlp-up@0..2", "norm@last2"];
        let low_rank = ["lora-value@all", "lora-query@0..2"];
        // With few tokens of one layer the plan's allowance for what is small shows.
        let last = ["value@last1", "lora-value,lora-query@last1", "key@last1"];
        let last = last.into_iter().filter(|_| examples > 2);
        for choice in choices.into_iter().chain(low_rank).chain(last).chain([&all[..]]) {
            check_plan(&model, &task(examples, order), choice);
            check_local_plan(&model, &task(examples, order), choice);
        }
    }
}

/// Peak bytes of observing by local adjoints beyond what was there before.
fn local_peak<R: Real>(model: &Network<R>, task: &TokenTask, chosen: &[BlockId]) -> u64 {
    release_buffers();
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let seen = observe_local(model, task, chosen).unwrap();
    let most = MOST.load(Ordering::Relaxed);
    assert_eq!(seen.predictions.len(), task.examples());
    (most - before) as u64
}

/// What a plan allows for lists that do not grow with the task.
const SMALL: u64 = 1 << 14;

/// As [`check_plan`] with local adjoints, where the plan may be half as much again.
fn check_local_plan<R: Real>(model: &Network<R>, task: &TokenTask, choice: &str) {
    let (config, layout) = (model.config(), task.layout().unwrap());
    let mut chosen = blocks(choice, config);
    chosen.retain(|block| block.kind() != BlockKind::Key);
    if chosen.is_empty() {
        return;
    }
    local_peak(model, task, &chosen);
    let plan = local_memory_plan(config, &layout, &chosen, model.lora(), size_of::<R>());
    let most = local_peak(model, task, &chosen);
    let (examples, rows) = (task.examples(), layout.rows());
    let what = format!(
        "local {choice}, {examples} examples, {rows} rows: {most} bytes, planned {plan}"
    );
    assert!(most <= plan && plan <= most + most / 2 + SMALL, "{what}");
}

fn check_plan<R: Real>(model: &Network<R>, task: &TokenTask, choice: &str) {
    let (config, layout) = (model.config(), task.layout().unwrap());
    let chosen = blocks(choice, config);
    // Made by the first adjoint: the model's transposes, and what products keep for the thread.
    peak(model, task, &chosen, KernelForm::Cheapest);
    let plan = memory_plan(config, &layout, &chosen, model.lora(), size_of::<R>());
    let forms = [KernelForm::Ghost, KernelForm::Explicit];
    let most = forms.map(|form| peak(model, task, &chosen, form));
    let most = most.into_iter().max().unwrap();
    let (examples, rows) = (task.examples(), layout.rows());
    let what =
        format!("{choice}, {examples} examples, {rows} rows: {most} bytes, planned {plan}");
    // Whether products of tokens hold the adjoints of an MLP matrix a second time depends on the
    // machine; the plan says that they do.
    let tokens: usize = task.sequences().iter().map(Vec::len).sum();
    let again =
        if choice.contains("mlp-up") { tokens * config.inner * size_of::<R>() } else { 0 };
    assert!(most <= plan && plan <= most + most / 10 + again as u64, "{what}");
}

/// The plan is at least what observing holds at once, and at most a tenth more, but for what
/// depends on the machine.
///
/// One test only: the counters are those of the whole program.
#[test]
fn the_plan_is_what_observing_holds_at_once() {
    let config = Config {
        layers: 4,
        heads: 4,
        width: 64,
        inner: 256,
        positions: 80,
        vocabulary: 50,
        norm_epsilon: 1e-5,
        tied: true,
        bos: None,
        family: Family::Gpt2,
    };
    check::<f32>(&config, FirstFactor::Random);
    check::<f64>(
        &Config { layers: 3, heads: 2, width: 32, inner: 48, ..config.clone() },
        FirstFactor::Inputs,
    );
    // Heads that share keys and values, wider together than the stream, and a gate.
    let rotary = Rotary { base: 10000.0, scaling: Scaling::None };
    let variant = Variant::Qwen2;
    let parts = Llama { key_value_heads: 2, head_width: 24, rotary, variant };
    let llama = Config { family: Family::Llama(parts), inner: 144, ..config.clone() };
    check::<f32>(&llama, FirstFactor::Inputs);
    check::<f64>(&Config { layers: 2, width: 32, ..llama }, FirstFactor::Random);
    // Neither a model that cannot be nor a block that it does not have stops the count.
    let layout = task(2, Order::Original).layout().unwrap();
    let far = [BlockId::of_head(BlockKind::Value, usize::MAX, usize::MAX).unwrap()];
    assert!(memory_plan(&config, &layout, &far, &Lora::default(), 8) < u64::MAX);
    let endless = Config { layers: usize::MAX, heads: 0, ..config };
    assert_eq!(memory_plan(&endless, &layout, &far, &Lora::default(), 8), u64::MAX);
}
