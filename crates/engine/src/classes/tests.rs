//! Label scores, derivatives and couplings by other routes, in double precision.

use super::*;
use crate::block_kind::BlockKind;
use crate::config::{Config, Family, Llama, Variant};
use crate::layout::Layout;
use crate::parameters::Parameters;
use crate::rotary::{Rotary, Scaling};
use crate::testing::Numbers;
use fewstep_core::{ClassArm, ClassDepth, Residuals, Shots};

fn config(llama: bool) -> Config {
    let rotary = Rotary { base: 100.0, scaling: Scaling::None };
    let variant = Variant::Llama { attention_bias: false, mlp_bias: false };
    let family = Family::Llama(Llama { key_value_heads: 1, head_width: 4, rotary, variant });
    Config {
        layers: 3,
        heads: 2,
        width: 6,
        inner: 10,
        positions: 96,
        vocabulary: 256,
        norm_epsilon: 1e-5,
        tied: !llama,
        bos: None,
        family: if llama { family } else { Family::Gpt2 },
    }
}

/// Random weights in multiples of 2⁻¹², so that a change of 2⁻⁸ is exact.
fn parameters(config: &Config) -> Parameters {
    let mut numbers = Numbers::new(7);
    let mut parameters = Parameters::zeros(config).unwrap();
    let mut fill = |values: &mut [f32], mean: f32| {
        let drawn = numbers.vector(values.len());
        for (value, number) in values.iter_mut().zip(drawn) {
            #[allow(clippy::cast_possible_truncation, reason = "it is a small number")]
            let number = (number * 4096.0).round() as f32 / 4096.0;
            *value = mean + number;
        }
    };
    fill(&mut parameters.token_embedding, 0.0);
    fill(&mut parameters.position_embedding, 0.0);
    for layer in &mut parameters.layers {
        for kind in BlockKind::MATRICES {
            if let Some(linear) = layer.linear_mut(kind) {
                fill(&mut linear.weight, 0.0);
                fill(&mut linear.bias, 0.0);
            }
        }
        fill(&mut layer.attention_norm.scale, 1.0);
        fill(&mut layer.mlp_norm.scale, 1.0);
    }
    fill(&mut parameters.final_norm.scale, 1.0);
    if let Some(unembedding) = &mut parameters.unembedding {
        fill(unembedding, 0.0);
    }
    parameters
}

fn task(labels: &[&str]) -> Task {
    let y = |index: usize| labels[index % labels.len()];
    serde_json::from_value(serde_json::json!({
        "id": "t", "template": "{x}: {y};", "labels": labels,
        "examples": [
            {"x": "a", "y": y(0)}, {"x": "bc", "y": y(1)},
            {"x": "ab", "y": y(2)}, {"x": "d", "y": y(0)},
        ],
        "queries": [{"x": "be"}, {"x": "a"}, {"x": "feed"}]
    }))
    .unwrap()
}

fn policy(blocks: &[(Base, &str)]) -> ClassPolicy {
    let arm = |&(base, blocks): &(Base, &str)| ClassArm {
        base,
        blocks: blocks.to_owned(),
        depth: ClassDepth::All,
    };
    ClassPolicy { arms: blocks.iter().map(arm).collect(), ..ClassPolicy::default() }
}

const BOTH: [Base; 2] = [Base::FewShot, Base::ZeroShot];

struct Case {
    network: Network<f64>,
    task: Task,
    settings: PromptSettings,
    policy: ClassPolicy,
}

impl Case {
    fn new(llama: bool, labels: &[&str], blocks: &str) -> Self {
        let config = config(llama);
        let network = Network::new(&config, parameters(&config)).unwrap();
        let policy = policy(&BOTH.map(|base| (base, blocks)));
        Self { network, task: task(labels), settings: PromptSettings::new(96), policy }
    }

    fn prompts(&self) -> ClassPrompts {
        let bytes = Tokenizer::of_bytes();
        ClassPrompts::build(&self.task, &bytes, &self.settings, &BOTH).unwrap()
    }

    fn observe_with(&self, network: &Network<f64>) -> ObservedClasses<f64> {
        let room = u64::MAX;
        ObservedClasses::new(network, &self.task, self.prompts(), &self.policy, room).unwrap()
    }

    fn observe(&self) -> ObservedClasses<f64> {
        self.observe_with(&self.network)
    }
}

const LABELS: [&str; 4] = ["no", "new", "ne", "yes"];

fn near(found: &[f64], expected: &[f64], allowed: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let gap = (found - expected).abs();
        assert!(gap <= allowed * scale, "{what}, {index}: {found} against {expected}");
    }
}

/// The score of a text as the model's own logits have it: all tokens, one after the other.
fn by_logits(network: &Network<f64>, before: &str, label: &str) -> f64 {
    let vocabulary = network.config().vocabulary;
    let mut tokens: Vec<u32> = before.bytes().map(u32::from).collect();
    let mut sum = 0.0;
    for token in label.bytes() {
        let logits = network.logits(Layout::plain(&[tokens.clone()]).unwrap()).unwrap();
        assert_eq!(logits.len(), vocabulary);
        let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
        sum += logits[usize::from(token)] - total.ln();
        tokens.push(u32::from(token));
    }
    sum
}

#[test]
fn scores_are_sums_of_log_probabilities_up_to_a_shift() {
    for llama in [false, true] {
        for labels in [&LABELS[..], &["0", "1", "7"], &["same a", "same b", "same cd"]] {
            let case = Case::new(llama, labels, "bias");
            let seen = case.observe();
            let examples = &case.task.examples;
            // "ne" begins "new", so that what follows an answer ends each label.
            let end = if labels.contains(&"ne") { ";" } else { "" };
            for (index, example) in examples.iter().enumerate() {
                let others = (0..examples.len()).filter(|&other| other != index);
                let shown: String = others
                    .map(|other| format!("{}: {};\n", examples[other].x, examples[other].y))
                    .collect();
                for (base, before) in seen.geometry().bases().iter().zip([shown.as_str(), ""]) {
                    let text = format!("{before}{}: ", example.x);
                    let expected: Vec<f64> = labels
                        .iter()
                        .map(|label| by_logits(&case.network, &text, &format!("{label}{end}")))
                        .collect();
                    let found = base.scores().row(index);
                    let shift = expected[0] - found[0];
                    let found: Vec<f64> = found.iter().map(|score| score + shift).collect();
                    near(&found, &expected, 1e-11, &format!("{labels:?} {index}"));
                }
            }
        }
    }
}

/// Scores of all examples and of the first query, by bases.
fn all_scores(seen: &ObservedClasses<f64>) -> Vec<Vec<f64>> {
    let bases = seen.geometry().bases().iter().zip(&seen.first().bases);
    bases.map(|(base, query)| [base.scores().values(), &query.scores[..]].concat()).collect()
}

/// The slopes of all scores for each of some numbers, by five-point differences.
fn slopes(
    case: &Case,
    count: usize,
    change: impl Fn(&mut Parameters, usize, f32),
) -> Vec<Vec<Vec<f64>>> {
    let (config, width) = (case.network.config().clone(), 2.0_f32.powi(-8));
    let at = |index: usize, offset: f32| {
        let mut moved = parameters(&config);
        change(&mut moved, index, offset * width);
        all_scores(&case.observe_with(&Network::new(&config, moved).unwrap()))
    };
    let one = |index: usize| {
        let values = [-2.0, -1.0, 1.0, 2.0].map(|offset| at(index, offset));
        let slope = |base: usize, output: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|which: usize| values[which][base][output]);
            (a - 8.0 * b + 8.0 * c - d) / (12.0 * f64::from(width))
        };
        let outputs = values[0][0].len();
        (0..2).map(|base| (0..outputs).map(|output| slope(base, output)).collect()).collect()
    };
    (0..count).map(one).collect()
}

/// Less its mean over the labels of each prediction, since scores matter up to a shift.
fn centred(values: &[f64], labels: usize) -> Vec<f64> {
    let centre = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / labels as f64;
        row.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    values.chunks_exact(labels).flat_map(centre).collect()
}

/// `P K P` of a kernel or coupling, where `P` subtracts means over labels.
fn centred_kernel(values: &[f64], rows: usize, columns: usize, labels: usize) -> Vec<f64> {
    let half = centred(values, labels);
    let flip = |values: &[f64], rows: usize, columns: usize| -> Vec<f64> {
        (0..rows * columns).map(|at| values[at % rows * columns + at / rows]).collect()
    };
    flip(&centred(&flip(&half, rows, columns), labels), columns, rows)
}

/// In the last layer local derivatives are all there are: kernels and couplings are products of
/// differences, for labels of one token and of several.
#[test]
fn kernels_of_the_last_layer_are_products_of_differences() {
    for llama in [false, true] {
        for labels in [&["no", "new", "ye"][..], &["0", "1", "7"]] {
            let case = Case::new(llama, labels, "mlp-down@last1");
            let seen = case.observe();
            let own = case.network.config();
            let slopes = slopes(&case, own.inner * own.width, |parameters, index, change| {
                parameters.layers[2].mlp_down.weight[index] += change;
            });
            let (n, count) = (case.task.examples.len(), labels.len());
            for (base, observed) in seen.geometry().bases().iter().enumerate() {
                let slope = |parameter: usize| centred(&slopes[parameter][base], count);
                let slopes: Vec<Vec<f64>> = (0..slopes.len()).map(slope).collect();
                let product = |a: usize, b: usize| -> f64 {
                    slopes.iter().map(|slope| slope[a] * slope[b]).sum()
                };
                let size = n * count;
                let expected: Vec<f64> =
                    (0..size * size).map(|at| product(at / size, at % size)).collect();
                let ClassKernel::Dense(kernel) = observed.blocks()[0].kernel() else {
                    panic!("a kernel of weights is written out")
                };
                let found = centred_kernel(kernel.values(), size, size, count);
                near(&found, &expected, 1e-6, &format!("{llama} {labels:?} base {base}"));
                let ClassCoupling::Dense(coupling) = &seen.first().bases[base].couplings[0]
                else {
                    panic!("a coupling of weights is written out")
                };
                let expected: Vec<f64> =
                    (0..count * size).map(|at| product(size + at / size, at % size)).collect();
                let found = centred_kernel(coupling.values(), count, size, count);
                near(&found, &expected, 1e-6, &format!("{llama} {labels:?} coupling {base}"));
            }
        }
    }
}

/// A row of the unembedding changes one label's score by what the final norm puts out.
#[test]
fn the_readout_is_the_rows_of_the_unembedding() {
    let labels = ["0", "1", "7"];
    let case = Case::new(true, &labels, "readout");
    let seen = case.observe();
    let (n, width) = (case.task.examples.len(), case.network.config().width);
    let slopes = slopes(&case, 3 * width, |parameters, index, change| {
        let token = usize::from(labels[index / width].as_bytes()[0]);
        parameters.unembedding.as_mut().unwrap()[token * width + index % width] += change;
    });
    for (base, observed) in seen.geometry().bases().iter().enumerate() {
        let ClassKernel::Shared(gram) = observed.blocks()[0].kernel() else {
            panic!("labels have rows of their own")
        };
        let product = |a: usize, b: usize| -> f64 {
            slopes.iter().map(|slope| slope[base][a] * slope[base][b]).sum()
        };
        for i in 0..n {
            for j in 0..n {
                let found = gram[(i, j)];
                near(&[found], &[product(3 * i + 1, 3 * j + 1)], 1e-9, "gram");
                assert!(product(3 * i + 1, 3 * j).abs() < 1e-9);
            }
        }
        let ClassCoupling::Shared(coupling) = &seen.first().bases[base].couplings[0] else {
            panic!("labels have rows of their own")
        };
        let expected: Vec<f64> = (0..n).map(|i| product(3 * n + 2, 3 * i + 2)).collect();
        near(coupling, &expected, 1e-9, "coupling");
    }
}

fn numbers(query: &ClassQuery) -> Vec<f64> {
    let coupling = |coupling: &ClassCoupling| match coupling {
        ClassCoupling::Dense(matrix) | ClassCoupling::Features(matrix) => {
            matrix.values().to_vec()
        }
        ClassCoupling::Shared(values) => values.clone(),
    };
    let base = |base: &QueryBase| {
        let couplings = base.couplings.iter().flat_map(coupling);
        base.scores.iter().copied().chain(couplings).collect::<Vec<f64>>()
    };
    query.bases.iter().flat_map(base).collect()
}

/// A further query is what it would be as the first; it runs its own tokens behind the examples.
#[test]
fn further_queries_are_as_the_first() {
    for llama in [false, true] {
        for residuals in [Residuals::LeaveOneOut, Residuals::Prefix { orders: 2 }] {
            for most in [None, Some(2)] {
                let blocks = "bias,scale,readout,mlp-up,value,output@all";
                let mut case = Case::new(llama, &LABELS, blocks);
                let shots = Some(Shots { most, seed: 3 });
                case.settings = PromptSettings { residuals, shots, ..case.settings };
                let seen = case.observe();
                assert_eq!(seen.shown(), most.unwrap_or(4));
                let asked: Vec<Query> = case.task.queries().cloned().collect();
                let bytes = Tokenizer::of_bytes();
                let (further, passes) =
                    seen.ask(&case.task, &bytes, &case.settings, &asked).unwrap();
                for (query, found) in asked.iter().zip(&further) {
                    let alone = Case { task: case.task.asking(query), ..copy(&case) };
                    let expected = numbers(alone.observe().first());
                    let found = numbers(found.as_ref().unwrap());
                    near(&found, &expected, 1e-10, &format!("{} {most:?}", query.x));
                }
                let nodes = seen.tree.nodes() as u64;
                assert_eq!(passes.forward, 2 * 3 * nodes);
                // Each asks its own text and each label's first tokens, once per base.
                let own = |query: &Query| query.x.len() as u64 + 2;
                let below: u64 = seen.tree.longest() as u64 * nodes;
                let most = 2 * asked.iter().map(|query| own(query) + below).sum::<u64>();
                assert!(passes.forward_tokens <= most, "{} {most}", passes.forward_tokens);
            }
        }
    }
}

fn copy(case: &Case) -> Case {
    let Case { network, task, settings, policy } = case;
    let (network, task, policy) = (network.clone(), task.clone(), policy.clone());
    Case { network, task, settings: *settings, policy }
}

/// No prompt of an example depends on its answer, to the bit.
#[test]
fn an_answer_changes_nothing_of_its_own_prediction() {
    let case = Case::new(false, &LABELS, "readout,mlp-up@all");
    let before = case.observe();
    for other in 1..LABELS.len() {
        let mut changed = copy(&case);
        changed.task.examples[1].y = LABELS[(1 + other) % LABELS.len()].to_owned();
        let after = changed.observe();
        for (a, b) in before.geometry().bases().iter().zip(after.geometry().bases()) {
            let bits = |row: &[f64]| row.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(a.scores().row(1)), bits(b.scores().row(1)));
        }
    }
}

#[test]
fn what_is_too_large_is_left_out_and_said() {
    let mut case = Case::new(false, &["0", "1"], "bias");
    case.policy.arms.extend(policy(&[(Base::FewShot, "readout,mlp-up@all")]).arms);
    let example = case.task.examples[0].clone();
    case.task.examples = vec![example; MOST_OUTPUTS / 2 + 1];
    let few = Shots { most: Some(2), seed: 0 };
    case.settings = PromptSettings { shots: Some(few), ..case.settings };
    let seen = case.observe();
    let blocks: Vec<&[usize]> = seen.arms().iter().map(|arm| &arm.blocks[..]).collect();
    assert_eq!(blocks, [&[0][..], &[0], &[]]);
    assert_eq!([0, 1, 2].map(|arm| seen.too_large(arm)), [false, false, true]);
    assert_eq!(seen.geometry().examples(), MOST_OUTPUTS / 2 + 1);
}

#[test]
fn labels_that_cannot_be_told_apart_are_refused() {
    let refused = |labels: &[&str], template: &str, separator: &str| {
        let mut task = task(labels);
        (task.template, task.separator) = (template.to_owned(), separator.to_owned());
        let settings = PromptSettings::new(96);
        ClassPrompts::build(&task, &Tokenizer::of_bytes(), &settings, &BOTH).unwrap_err()
    };
    let begins = refused(&["a", "ab"], "{x}:{y}", "");
    let id = || "t".to_owned();
    assert_eq!(
        begins,
        Error::LabelBegins { task: id(), first: "a".into(), second: "ab".into() }
    );
    // What ends a label may be the beginning of another.
    let begins = refused(&["a", "a;b"], "{x}:{y};", "");
    assert!(matches!(begins, Error::LabelBegins { .. }), "{begins:?}");
    let one = refused(&["a"], "{x}:{y}", "\n");
    assert_eq!(one, Error::TooFewLabels { task: id(), found: 1 });
    let long = "x".repeat(100);
    let refused_length = refused(&["a", &long], "{x}:{y}", "\n");
    assert!(matches!(refused_length, Error::ContextTooLong { .. }), "{refused_length:?}");
}
