//! Attention against its definition, one query and one visible row at a time.

use super::*;
use crate::testing::{Numbers, assert_close, difference};

/// Every head with its own keys and values, pairs of heads that share them, and all that do.
const COUNTS: [HeadCounts; 3] = [
    HeadCounts { heads: 2, key_value_heads: 2, head_width: 3 },
    HeadCounts { heads: 4, key_value_heads: 2, head_width: 3 },
    HeadCounts { heads: 3, key_value_heads: 1, head_width: 2 },
];

/// Every query row with the rows it sees, from the layout's segments alone.
fn everywhere(layout: &Layout) -> Vec<Vec<usize>> {
    let mut seen = vec![Vec::new(); layout.rows()];
    for segment in layout.segments() {
        for row in segment.rows.clone() {
            seen[row] = segment.ancestors.iter().cloned().flatten().collect();
            seen[row].extend(segment.rows.start..=row);
        }
    }
    seen
}

/// `Σ_t softmax(q·k_t/√w)_t v_t` in plain loops.
fn definition(
    counts: HeadCounts,
    seen: &[Vec<usize>],
    [queries, keys, values]: [&[f64]; 3],
) -> Vec<f64> {
    let HeadCounts { heads, key_value_heads, head_width } = counts;
    let mut mixed = vec![0.0; seen.len() * heads * head_width];
    for (query, rows) in seen.iter().enumerate() {
        for head in 0..heads {
            let at = |k: usize| query * heads * head_width + head * head_width + k;
            let shared = head * key_value_heads / heads;
            let of = |row: usize, k: usize| (row * key_value_heads + shared) * head_width + k;
            let weights: Vec<f64> = rows
                .iter()
                .map(|&row| {
                    let score: f64 =
                        (0..head_width).map(|k| queries[at(k)] * keys[of(row, k)]).sum();
                    (score / (head_width as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            for (weight, &row) in weights.iter().zip(rows) {
                for k in 0..head_width {
                    mixed[at(k)] += weight / sum * values[of(row, k)];
                }
            }
        }
    }
    mixed
}

fn layouts() -> Vec<Layout> {
    let prompts = [vec![1, 2, 3, 4], vec![1, 2, 5], vec![1, 2, 3, 6, 7], vec![8], vec![1, 2]];
    vec![
        Layout::plain(&[vec![1]]).unwrap(),
        Layout::plain(&prompts).unwrap(),
        Layout::shared(&prompts).unwrap(),
        Layout::shared(&[long(GROUP - 1), long(2 * GROUP), long(3 * GROUP + 5)]).unwrap(),
    ]
}

/// A sequence that begins as every longer one does.
fn long(length: usize) -> Vec<u32> {
    (0..length).map(|token| u32::try_from(token % 7).unwrap()).collect()
}

/// Where all heads share keys and values and one token of each sequence asks, the heads of a
/// sequence may be rows.
#[test]
fn heads_may_be_rows_at_readouts() {
    let mut numbers = Numbers::new(5);
    let counts = HeadCounts { heads: 3, key_value_heads: 1, head_width: 4 };
    for layout in layouts() {
        let [asked, folded] = [
            AttentionPlan::at_readouts(&layout, counts),
            AttentionPlan::folded(&layout, counts, counts.head_width),
        ];
        assert_eq!(asked.probabilities(), folded.probabilities());
        let asking = asked.queries() * counts.heads * counts.head_width;
        let [queries, seed] = [(); 2].map(|()| numbers.vector(asking));
        let rows = layout.rows() * counts.head_width;
        let [keys, values] = [(); 2].map(|()| numbers.vector(rows));
        let found = [&asked, &folded].map(|plan| {
            let mut probabilities = vec![f64::NAN; plan.probabilities()];
            let mut mixed = vec![f64::NAN; asking];
            plan.attend(&queries, &keys, &mut probabilities);
            plan.mix(&probabilities, &values, &mut mixed);
            let inputs = Heads {
                queries: &queries,
                keys: &keys,
                values: &values,
                probabilities: &probabilities,
            };
            let mut adjoints = [vec![f64::NAN; asking], vec![0.0; rows]];
            let [of_queries, of_keys] = &mut adjoints;
            let scores = &mut vec![f64::NAN; folded.largest_group()];
            let targets = ScoreAdjoints { queries: of_queries, keys: of_keys, scores };
            folded.adjoint_of_asking(plan, inputs, &seed, targets);
            [mixed, probabilities.clone(), adjoints.concat()].concat()
        });
        for (&a, &b) in found[0].iter().zip(&found[1]) {
            assert_close(a, b, 10.0, rows);
        }
    }
}

#[test]
fn heads_are_arranged_by_who_serves_them() {
    // Key-value head 0 serves 10 and 11, head 1 serves 12 and 13.
    let counts = HeadCounts { heads: 4, key_value_heads: 2, head_width: 1 };
    let mut arranged = [0; 8];
    counts.arrange_served(&[10, 11, 12, 13, 20, 21, 22, 23], 1, &mut arranged);
    assert_eq!(arranged, [10, 12, 11, 13, 20, 22, 21, 23]);
}

/// The two plans of a layout, each with what its queries see by definition.
fn plans(layout: &Layout, counts: HeadCounts) -> [(AttentionPlan, Vec<Vec<usize>>); 2] {
    let seen = everywhere(layout);
    let asked = layout.readout_rows().map(|row| seen[row].clone()).collect();
    [
        (AttentionPlan::everywhere(layout, counts), seen),
        (AttentionPlan::at_readouts(layout, counts), asked),
    ]
}

#[test]
fn attention_and_its_adjoint_follow_the_definition() {
    let mut numbers = Numbers::new(4);
    for counts in COUNTS {
        for layout in layouts() {
            for (plan, seen) in plans(&layout, counts) {
                check(counts, &plan, &seen, &mut numbers);
            }
        }
    }
}

fn check(counts: HeadCounts, plan: &AttentionPlan, seen: &[Vec<usize>], numbers: &mut Numbers) {
    let asking = plan.queries() * counts.heads * counts.head_width;
    let rows = plan.keys * counts.key_value_heads * counts.head_width;
    let queries = numbers.vector(asking);
    let (keys, values) = (numbers.vector(rows), numbers.vector(rows));
    let mut probabilities = vec![f64::NAN; plan.probabilities()];
    let mut mixed = vec![f64::NAN; asking];
    plan.attend(&queries, &keys, &mut probabilities);
    plan.mix(&probabilities, &values, &mut mixed);
    let expected = definition(counts, seen, [&queries, &keys, &values]);
    for (&found, expected) in mixed.iter().zip(expected) {
        assert_close(found, expected, 1.0, plan.keys);
    }

    let seed = numbers.vector(asking);
    let mut adjoints = [vec![f64::NAN; asking], vec![f64::NAN; rows], vec![f64::NAN; rows]];
    let scores = &mut vec![f64::NAN; plan.largest_group()];
    let inputs = Heads {
        queries: &queries,
        keys: &keys,
        values: &values,
        probabilities: &probabilities,
    };
    let [of_queries, of_keys, of_values] = &mut adjoints;
    plan.adjoint_of_values(&probabilities, &seed, of_values);
    let targets = ScoreAdjoints { queries: of_queries, keys: of_keys, scores };
    plan.adjoint_of_scores(inputs, &seed, targets);

    let at = [queries, keys, values];
    for (which, adjoint) in adjoints.iter().enumerate() {
        let direction = numbers.vector(adjoint.len());
        let slope = difference(&at[which], &direction, |moved| {
            let mut inputs = [&at[0][..], &at[1], &at[2]];
            inputs[which] = moved;
            crate::ops::dot(&seed, &definition(counts, seen, inputs))
        });
        let found = crate::ops::dot(adjoint, &direction);
        assert_close(found, slope, 1e3, asking);
    }
}
