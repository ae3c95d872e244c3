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
    ]
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
    let mut scratch = vec![f64::NAN; plan.largest_group()];
    let inputs = Heads {
        queries: &queries,
        keys: &keys,
        values: &values,
        probabilities: &probabilities,
    };
    let [of_queries, of_keys, of_values] = &mut adjoints;
    plan.adjoint_of_values(&probabilities, &seed, of_values);
    let targets = (&mut of_queries[..], &mut of_keys[..]);
    plan.adjoint_of_scores(inputs, &seed, targets, &mut scratch);

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
