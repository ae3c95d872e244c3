//! Tree order: how many tokens it leaves, and that the passes over them are those over all.

use crate::support::{DIGITS, all_blocks, assert_near, blocks, digits, load};
use fewstep_engine::{
    Example, Label, Layout, Network, Order, PassCount, PromptSettings, Prompts, Query, Steps,
    Tape, Task, TokenTask, Tokenizer, Update, descend,
};

/// A task with examples of five bytes, all different or all alike, that asks after three.
fn bytes(examples: u8, alike: bool, order: Order) -> TokenTask {
    let x = |index: u8| char::from(b'0' + if alike { 0 } else { index }).to_string();
    let label = |text: &str, value: f64| Label { text: text.to_owned(), value: Some(value) };
    let task = Task {
        id: "t".to_owned(),
        template: "{x}->{y}".to_owned(),
        separator: "\n".to_owned(),
        labels: vec![label("0", 0.0), label("1", 1.0)],
        examples: (0..examples).map(|i| Example { x: x(i), y: "1".to_owned() }).collect(),
        query: Query { x: x(examples), y: None },
        further: None,
    };
    let settings = PromptSettings { order, ..PromptSettings::new(4096) };
    let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &settings).unwrap();
    TokenTask::of(&prompts).unwrap()
}

/// All prompts show `n²` examples. In tree order `n⌈log₂ n⌉ − 2^⌈log₂ n⌉ + n` of them are left,
/// and the last one of the query's; in the original order `n(n + 1)/2`.
#[test]
fn tree_order_leaves_n_log_n_examples() {
    let rows = |n: u8, order: Order| {
        // What is shared is what shows the same examples, whether or not others read alike.
        let [task, alike] = [false, true].map(|alike| bytes(n, alike, order));
        let rows = task.layout().unwrap().rows();
        assert_eq!(alike.layout().unwrap().rows(), rows, "{n} in {order} order");
        (rows, Layout::plain(task.sequences()).unwrap().rows())
    };
    for n in (2..=17).chain([31, 32, 33, 64, 65]) {
        let count = usize::from(n);
        let levels = count.next_power_of_two().ilog2() as usize;
        let tree = count * levels + count - (1 << levels) + 1;
        let tokens = |shown: usize| 5 * shown + 3 * (count + 1);
        assert_eq!(rows(n, Order::Tree), (tokens(tree), tokens(count * count)), "{n}");
        let original = count * (count + 1) / 2;
        assert_eq!(rows(n, Order::Original), (tokens(original), tokens(count * count)), "{n}");
    }
    // A bit over a third of the tokens at ten examples, and a tenth at 64: 35 of 100 examples and
    // 385 of 4096, and what each prompt asks after.
    assert_eq!(rows(10, Order::Tree), (5 * 35 + 3 * 11, 533));
    assert_eq!(rows(64, Order::Tree), (5 * 385 + 3 * 65, 20675));
}

/// Sharing in tree order changes neither predictions nor gradients, but for rounding.
#[test]
fn tree_and_separate_sequences_agree() {
    let model: Network<f64> = load("gpt2-plain");
    let all = all_blocks(model.config());
    for n in 2..=DIGITS.len() {
        let task = digits(&DIGITS[..n], Order::Tree);
        let run = |layout: Layout| {
            let mut tape = Tape::new(&model, layout, task.labels(), &all).unwrap();
            let seeds: Vec<f64> = (0..=n).map(|i| 0.3 - 0.2 * i as f64).collect();
            tape.pull_back(&seeds).unwrap();
            (tape.predictions().to_vec(), tape.gradient().unwrap())
        };
        let plain = run(Layout::plain(task.sequences()).unwrap());
        let shared = run(task.layout().unwrap());
        assert_near(&shared.0, &plain.0, 1e-13, "predictions");
        for ((block, a), (_, b)) in shared.1.blocks().iter().zip(plain.1.blocks()) {
            assert_near(a, b, 1e-12, &format!("{n} examples, {block}"));
        }
    }
}

/// Steps over a tree are steps over all prompts, written out; and they cost its tokens alone.
#[test]
fn steps_over_a_tree_are_steps_over_all_prompts() {
    let model: Network<f64> = load("gpt2-plain");
    let chosen = blocks("value,mlp-up@all", model.config());
    for n in [2, 3, 6, 11] {
        let task = digits(&DIGITS[..n], Order::Tree);
        let (step_size, horizon) = (0.05, 4);
        let descent = descend(&model, &task, &chosen, &Steps::new(step_size, horizon)).unwrap();

        let layout = Layout::plain(task.sequences()).unwrap();
        let mut tape = Tape::new(&model, layout, task.labels(), &chosen).unwrap();
        let mut update = Update::zeros(&model, &chosen).unwrap();
        for step in 0..=horizon {
            let predictions = tape.run(&update).unwrap().to_vec();
            let what = format!("{n} examples, {step} steps");
            assert_near(&descent.predictions[step], &predictions[..n], 1e-12, &what);
            assert_near(&[descent.query_predictions[step]], &predictions[n..], 1e-12, &what);
            let residuals = task.targets().iter().zip(&predictions).map(|(y, s)| y - s);
            tape.pull_back(&residuals.chain([0.0]).collect::<Vec<f64>>()).unwrap();
            for (block, gradient) in tape.gradient().unwrap().blocks() {
                let weights = update.block_mut(*block).unwrap().iter_mut();
                weights.zip(gradient).for_each(|(weight, g)| *weight += step_size * g);
            }
        }
        let (rows, prompts) = (task.layout().unwrap().rows() as u64, n as u64);
        // The backward pass skips what the query has alone.
        let seeded = Layout::shared(&task.sequences()[..n]).unwrap().rows() as u64;
        let expected = PassCount {
            forward: 5 * (prompts + 1),
            backward: 4 * prompts,
            forward_tokens: 5 * rows,
            backward_tokens: 4 * seeded,
        };
        assert_eq!(descent.passes, expected);
    }
}
