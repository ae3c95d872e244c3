//! How much arithmetic observing and stepping take, to the last multiplication: a reduction that
//! is lost fails here, on any machine.

use crate::support::{blocks, random_parameters};
use fewstep_core::Rng;
use fewstep_engine::{
    BlockId, Config, Family, Follow, KernelForm, Labels, Layout, Network, Order, Prepared,
    Steps, TokenTask, Update, count_operations, descend, descend_local, observe, observe_local,
    predict_updated,
};

const LAYERS: u64 = 5;
const LOWEST: u64 = 2;
const HEADS: u64 = 3;
const WIDTH: u64 = 24;
const INNER: u64 = 40;
const LABELS: u64 = 3;

/// Tokens per example, the answer included.
const LENGTH: usize = 4;

fn model() -> Network {
    let size = |value: u64| usize::try_from(value).unwrap();
    let config = Config {
        layers: size(LAYERS),
        heads: size(HEADS),
        width: size(WIDTH),
        inner: size(INNER),
        positions: 128,
        vocabulary: 200,
        norm_epsilon: 1e-5,
        tied: true,
        bos: None,
        family: Family::Gpt2,
    };
    let parameters = random_parameters(&config, &mut Rng::new(3));
    Network::new(&config, parameters).unwrap()
}

/// Prompts that each leave one example out, and the query's. No two examples have a token in
/// common.
fn task(examples: u32, order: Order) -> TokenTask {
    let length = u32::try_from(LENGTH).unwrap();
    let shown = |example: u32| (length * example..length * (example + 1)).collect::<Vec<u32>>();
    let prompt = |asked: u32| -> Vec<u32> {
        let mut others: Vec<u32> = (0..examples).filter(|&other| other != asked).collect();
        if order == Order::Tree && asked < examples {
            others.sort_by_key(|other| (other ^ asked).leading_zeros());
        }
        let others = others.into_iter().flat_map(shown);
        others.chain(shown(asked)[..LENGTH - 1].to_vec()).collect()
    };
    let labels = Labels::new(vec![1, 2, 3], vec![0.0, 0.5, 1.0]).unwrap();
    let targets = (0..examples).map(|example| f64::from(example % 2)).collect();
    TokenTask::new((0..examples).map(prompt).collect(), prompt(examples), labels, targets)
        .unwrap()
}

/// What counts depend on, taken from the prompts alone.
struct Tokens {
    sequences: u64,
    /// All tokens, and the sum of squared lengths: what prompts side by side attend to.
    all: u64,
    squares: u64,
    /// Distinct beginnings, and what each stretch between two branchings attends to.
    shared: u64,
    seen: u64,
    /// The same without what the query has alone.
    prompts: u64,
    prompts_seen: u64,
    prompts_all: u64,
}

impl Tokens {
    fn of(task: &TokenTask) -> Self {
        let lengths = || task.sequences().iter().map(|sequence| sequence.len() as u64);
        let mut beginnings: Vec<&[u32]> = Vec::new();
        for sequence in task.sequences() {
            beginnings.extend((1..=sequence.len()).map(|end| &sequence[..end]));
        }
        beginnings.sort_unstable();
        beginnings.dedup();
        // A stretch ends where prompts part, or where one of them ends.
        let follows = |start: &[u32]| {
            let next = beginnings.iter().filter(|other| other.len() == start.len() + 1);
            next.filter(|other| other.starts_with(start)).count()
        };
        let ends = |start: &[u32]| {
            follows(start) != 1 || task.sequences().iter().any(|sequence| sequence == start)
        };
        let prompts = &task.sequences()[..task.examples()];
        let of_prompts = |start: &[u32]| prompts.iter().any(|prompt| prompt.starts_with(start));
        let (mut seen, mut prompts_seen) = (0, 0);
        for end in beginnings.iter().filter(|start| ends(start)) {
            let before = (1..end.len()).rev().find(|&length| ends(&end[..length]));
            let looked = (end.len() - before.unwrap_or(0)) * end.len();
            seen += looked;
            prompts_seen += if of_prompts(end) { looked } else { 0 };
        }
        Self {
            sequences: lengths().count() as u64,
            all: lengths().sum(),
            squares: lengths().map(|length| length * length).sum(),
            shared: beginnings.len() as u64,
            seen: seen as u64,
            prompts: beginnings.iter().filter(|start| of_prompts(start)).count() as u64,
            prompts_seen: prompts_seen as u64,
            prompts_all: prompts.iter().map(|prompt| prompt.len() as u64).sum(),
        }
    }

    /// The query's prompt by itself.
    fn of_query(task: &TokenTask) -> Self {
        let length = task.sequences()[task.examples()].len() as u64;
        let (seen, nothing) = (length * length, 0);
        Self {
            sequences: 1,
            all: length,
            squares: seen,
            shared: length,
            seen,
            prompts: nothing,
            prompts_seen: nothing,
            prompts_all: nothing,
        }
    }

    /// From the tokens to the stream that enters the lowest layer.
    fn lower(&self) -> u64 {
        LOWEST * (whole_layer(self.shared) + 2 * WIDTH * self.seen)
    }

    /// The same for the leave-one-out prompts alone.
    fn without_query(&self) -> Self {
        Self {
            sequences: self.sequences - 1,
            all: self.prompts_all,
            shared: self.prompts,
            seen: self.prompts_seen,
            ..*self
        }
    }

    /// The layers above the lowest one and the read-out. In the last layer no matrix meets a token
    /// but the last of each sequence: queries, their products with the keys' matrix transposed, mixed
    /// inputs through the values', the output; and every head looks at whole inputs twice.
    fn upper(&self) -> u64 {
        let between = LAYERS - LOWEST - 2;
        let last = 4 * WIDTH * WIDTH * self.sequences
            + 2 * WIDTH * INNER * self.sequences
            + 2 * HEADS * WIDTH * self.all;
        between * (whole_layer(self.shared) + 2 * WIDTH * self.seen)
            + last
            + WIDTH * LABELS * self.sequences
    }

    /// The lowest layer the first time, and after an update of its values: norm, queries, keys
    /// and attention are what they were.
    fn lowest(&self) -> [u64; 2] {
        let first = whole_layer(self.shared) + 2 * WIDTH * self.seen;
        let again = first - 2 * WIDTH * WIDTH * self.shared - WIDTH * self.seen;
        [first, again]
    }

    /// The adjoint of every sequence by itself.
    fn adjoint_apart(&self) -> u64 {
        self.adjoint(AdjointRows {
            sequences: self.sequences,
            all: self.all,
            rows: self.all,
            seen: self.squares,
        })
    }

    /// The adjoint of the sum over the leave-one-out prompts: what the query has alone is skipped.
    fn adjoint_together(&self) -> u64 {
        self.adjoint(AdjointRows {
            sequences: self.sequences - 1,
            all: self.prompts_all,
            rows: self.prompts,
            seen: self.prompts_seen,
        })
    }

    /// The adjoint down to the values of the lowest layer.
    fn adjoint(&self, of: AdjointRows) -> u64 {
        let AdjointRows { sequences, all, rows, seen } = of;
        let read_out = WIDTH * LABELS * sequences;
        let last = 2 * WIDTH * INNER * sequences
            + 4 * WIDTH * WIDTH * sequences
            + 4 * HEADS * WIDTH * all;
        let between = LAYERS - LOWEST - 2;
        let lowest = 2 * WIDTH * INNER * rows + WIDTH * WIDTH * rows + WIDTH * seen;
        read_out + last + between * (whole_layer(rows) + 4 * WIDTH * seen) + lowest
    }

    /// The gradient of all value matrices above: of every token, and in the last layer of what
    /// each sequence mixed.
    fn gradients(&self) -> u64 {
        WIDTH * WIDTH * ((LAYERS - LOWEST - 1) * self.prompts + self.sequences - 1)
    }
}

/// What an adjoint runs through: a number of sequences, whose last tokens look at `all`, and `rows`
/// tokens of which each stretch saw `seen`.
struct AdjointRows {
    sequences: u64,
    all: u64,
    rows: u64,
    seen: u64,
}

/// Four attention matrices and two of the MLP.
fn whole_layer(rows: u64) -> u64 {
    (4 * WIDTH * WIDTH + 2 * WIDTH * INNER) * rows
}

fn value_blocks(model: &Network) -> Vec<BlockId> {
    blocks(&format!("value@last{}", LAYERS - LOWEST), model.config())
}

#[test]
fn observing_shares_the_forward_and_leaves_out_what_nobody_reads() {
    let model = model();
    for (examples, order) in [(3, Order::Original), (8, Order::Original), (8, Order::Tree)] {
        let task = task(examples, order);
        let tokens = Tokens::of(&task);
        assert!(tokens.shared < tokens.all);
        let run = || observe(&model, &task, &value_blocks(&model), KernelForm::Explicit);
        run().unwrap();
        let found = count_operations(run).1;
        // Derivatives of all heads of a matrix, then their inner products.
        let n = tokens.sequences;
        let tokens_of_all = (LAYERS - LOWEST - 1) * tokens.all + n;
        let kernels = WIDTH * WIDTH * (tokens_of_all + (LAYERS - LOWEST) * n * n);
        let forward = tokens.lower() + tokens.lowest()[0] + tokens.upper();
        let expected = forward + tokens.adjoint_apart() + kernels;
        assert_eq!(found, expected, "{examples} {order}");
    }
}

#[test]
fn steps_share_both_ways_and_keep_what_does_not_change() {
    let model = model();
    for (examples, order) in [(3, Order::Original), (8, Order::Original), (8, Order::Tree)] {
        let task = task(examples, order);
        let tokens = Tokens::of(&task);
        let chosen = value_blocks(&model);
        let run = |steps| {
            count_operations(|| descend(&model, &task, &chosen, &Steps::new(1e-3, steps))).1
        };
        let start = tokens.lower() + tokens.lowest()[0] + tokens.upper();
        assert_eq!(run(0), start, "{examples} {order}");
        let step = tokens.adjoint_together()
            + tokens.gradients()
            + tokens.lowest()[1]
            + tokens.upper();
        assert_eq!(run(1) - run(0), step, "{examples} {order}");
        assert_eq!(run(4) - run(3), step, "{examples} {order}");
        // After an observation nothing is run again before the first step, whose gradient is made
        // of what is known of every prompt.
        let known =
            WIDTH * WIDTH * (LAYERS - LOWEST - 1) * (tokens.prompts_all - tokens.prompts);
        let begun = step - tokens.adjoint_together() + known;
        let prepare = || Prepared::new(&model, &task, &chosen).unwrap();
        prepare();
        let (prepared, _) = count_operations(prepare);
        let steps = Steps::new(1e-3, 4);
        assert_eq!(count_operations(|| prepared.descend(&chosen, &steps)).1, begun + 3 * step);
        // And the query can wait for the last step.
        let steps = Steps { follow: Follow::Prompts, ..steps };
        let prompts = tokens.without_query();
        let saved = tokens.lowest()[1] + tokens.upper() - prompts.lowest()[1] - prompts.upper();
        let found = count_operations(|| prepare().descend(&chosen, &steps)).1;
        assert_eq!(found - count_operations(prepare).1, begun + 3 * step - 3 * saved);
        // By itself, if the prompts are not asked for after it.
        let steps = Steps { follow: Follow::Query, ..steps };
        let query = Tokens::of_query(&task);
        let alone = query.lowest()[0] + query.upper();
        let least =
            begun + 3 * step - 4 * saved - prompts.lowest()[1] - prompts.upper() + alone;
        let found = count_operations(|| prepare().descend(&chosen, &steps)).1;
        assert_eq!(found - count_operations(prepare).1, least);
    }
    // Of the tokens of eight leave-one-out prompts and the query's, the tree has fewer.
    let [original, tree] = [Order::Original, Order::Tree].map(|order| {
        let tokens = Tokens::of(&task(8, order));
        (tokens.shared, tokens.all)
    });
    assert_eq!((original, tree), ((168, 283), (124, 283)));
}

/// Further queries on the same examples cost their own tokens only.
#[test]
fn further_queries_share_all_examples() {
    let model = model();
    let update = Update::zeros(&model, &value_blocks(&model)).unwrap();
    let run = |queries: u32| {
        let labels = Labels::new(vec![1, 2], vec![0.0, 1.0]).unwrap();
        let prompt =
            |query: u32| -> Vec<u32> { (0..32).chain([100 + query, 33, 34]).collect() };
        let prompts: Vec<Vec<u32>> = (0..queries).map(prompt).collect();
        let targets = vec![0.0; prompts.len()];
        let task = TokenTask::new(prompts.clone(), prompt(99), labels, targets).unwrap();
        let rows = Layout::shared(&prompts).unwrap().rows();
        (count_operations(|| predict_updated(&model, &task, &update)).1, rows)
    };
    let ((few, rows), (many, more)) = (run(2), run(42));
    assert_eq!(more - rows, 40 * 3);
    // Each of the forty more costs less than a tenth of the first three together.
    assert!((many - few) / 40 < few / 10, "{few} for 3 queries, {many} for 43");
}

fn mlp_blocks(model: &Network) -> Vec<BlockId> {
    blocks(&format!("mlp-up@last{}", LAYERS - LOWEST), model.config())
}

impl Tokens {
    /// The forward pass of local adjoints: in the last layer keys and values of every token, and the rest
    /// at the last token of each sequence.
    fn local_forward(&self) -> u64 {
        let square = WIDTH * WIDTH;
        let last = 2 * square * self.shared
            + 2 * (square + WIDTH * INNER) * self.sequences
            + 2 * WIDTH * self.all;
        (LAYERS - 1) * (whole_layer(self.shared) + 2 * WIDTH * self.seen)
            + last
            + WIDTH * LABELS * self.sequences
    }

    /// One row back per sequence: through the MLP and the four matrices of attention, and twice over
    /// what its token sees; in the lowest layer to the inside of the MLP.
    fn local_backward(&self) -> u64 {
        let above = whole_layer(self.sequences) + 2 * WIDTH * self.all;
        WIDTH * LABELS * self.sequences
            + (LAYERS - LOWEST - 1) * above
            + WIDTH * INNER * self.sequences
    }
}

/// With local adjoints the backward pass and the kernels do not depend on the number of tokens, but for
/// what the read-outs see.
#[test]
fn local_adjoints_take_one_row_per_prediction() {
    let model = model();
    for (examples, order) in [(3, Order::Original), (8, Order::Original), (8, Order::Tree)] {
        let (task, chosen) = (task(examples, order), mlp_blocks(&model));
        let tokens = Tokens::of(&task);
        let found = count_operations(|| observe_local(&model, &task, &chosen).unwrap()).1;
        let pairs = tokens.sequences * (tokens.sequences + 1) / 2;
        let kernels = (LAYERS - LOWEST) * pairs * (WIDTH + INNER);
        let expected = tokens.local_forward() + tokens.local_backward() + kernels;
        assert_eq!(found, expected, "{examples} {order}");
    }
}

/// A step in the model runs the layers from the lowest one on again, and one row back per example.
#[test]
fn a_local_step_runs_what_changed_and_one_row_per_example() {
    let model = model();
    for examples in [3, 8] {
        let (task, chosen) = (task(examples, Order::Tree), mlp_blocks(&model));
        let tokens = Tokens::of(&task);
        let run = |steps| {
            let steps = Steps { follow: Follow::Prompts, ..Steps::new(1e-3, steps) };
            count_operations(|| descend_local(&model, &task, &chosen, &steps).unwrap()).1
        };
        let prompts = tokens.without_query();
        let lower = LOWEST * (whole_layer(prompts.shared) + 2 * WIDTH * prompts.seen);
        let gradients = (LAYERS - LOWEST) * WIDTH * INNER * prompts.sequences;
        let step = prompts.local_forward() - lower + prompts.local_backward() + gradients;
        assert_eq!(run(4) - run(3), step, "{examples}");
    }
}

/// A further query behind the examples' keys and values costs its own tokens forward and one row back.
#[test]
fn a_further_query_costs_its_own_tokens_and_one_row() {
    let model = model();
    let (task, chosen) = (task(8, Order::Tree), mlp_blocks(&model));
    let prepared = Prepared::local(&model, &task, &chosen).unwrap();
    let query = task.sequences().last().unwrap();
    let before = (query.len() - (LENGTH - 1)) as u64;
    let queries = |count: u32| -> Vec<Vec<u32>> {
        let further = |token: u32| [&query[..query.len() - 3], &[token, 34, 35]].concat();
        (0..count).map(|token| further(40 + token)).collect()
    };
    let run = |count: u32| count_operations(|| prepared.further(&queries(count)).unwrap()).1;
    let forward = |count: u32| {
        count_operations(|| prepared.further_predictions(&queries(count)).unwrap()).1
    };
    let (own, all) = (LENGTH as u64 - 1, query.len() as u64);
    let tokens = Tokens {
        sequences: 1,
        all,
        squares: 0,
        shared: own,
        seen: own * all,
        prompts: 0,
        prompts_seen: 0,
        prompts_all: 0,
    };
    let sequences = task.sequences().len() as u64;
    let couplings = (LAYERS - LOWEST) * (sequences + 1) * (WIDTH + INNER);
    let each = tokens.local_forward() + tokens.local_backward() + couplings;
    assert_eq!((run(1), run(5)), (each, 5 * each));
    assert_eq!((forward(1), forward(5)), (tokens.local_forward(), 5 * tokens.local_forward()));
    assert_eq!(before + own, all);
}
