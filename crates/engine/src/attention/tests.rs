//! Attention against its definition, one query and one visible row at a time.

use super::*;
use crate::testing::{Numbers, assert_close, difference};

const HEADS: usize = 2;
const HEAD_WIDTH: usize = 3;
const WIDTH: usize = HEADS * HEAD_WIDTH;

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
fn definition(seen: &[Vec<usize>], queries: &[f64], keys: &[f64], values: &[f64]) -> Vec<f64> {
    let mut mixed = vec![0.0; seen.len() * WIDTH];
    for (query, rows) in seen.iter().enumerate() {
        for head in 0..HEADS {
            let at = |row: usize, k: usize| row * WIDTH + head * HEAD_WIDTH + k;
            let weights: Vec<f64> = rows
                .iter()
                .map(|&row| {
                    let score: f64 =
                        (0..HEAD_WIDTH).map(|k| queries[at(query, k)] * keys[at(row, k)]).sum();
                    (score / (HEAD_WIDTH as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            for (weight, &row) in weights.iter().zip(rows) {
                for k in 0..HEAD_WIDTH {
                    mixed[at(query, k)] += weight / sum * values[at(row, k)];
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
fn plans(layout: &Layout) -> [(AttentionPlan, Vec<Vec<usize>>); 2] {
    let seen = everywhere(layout);
    let asked = layout.readout_rows().map(|row| seen[row].clone()).collect();
    [
        (AttentionPlan::everywhere(layout, HEADS, HEAD_WIDTH), seen),
        (AttentionPlan::at_readouts(layout, HEADS, HEAD_WIDTH), asked),
    ]
}

#[test]
fn attention_and_its_adjoint_follow_the_definition() {
    let mut numbers = Numbers::new(4);
    for layout in layouts() {
        for (plan, seen) in plans(&layout) {
            let (asking, rows) = (plan.queries() * WIDTH, layout.rows() * WIDTH);
            let queries = numbers.vector(asking);
            let (keys, values) = (numbers.vector(rows), numbers.vector(rows));
            let mut probabilities = vec![f64::NAN; plan.probabilities()];
            let mut mixed = vec![f64::NAN; asking];
            plan.attend(&queries, &keys, &mut probabilities);
            plan.mix(&probabilities, &values, &mut mixed);
            for (&found, expected) in
                mixed.iter().zip(definition(&seen, &queries, &keys, &values))
            {
                assert_close(found, expected, 1.0, layout.rows());
            }

            let seed = numbers.vector(asking);
            let mut adjoints =
                [vec![f64::NAN; asking], vec![f64::NAN; rows], vec![f64::NAN; rows]];
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
                    let mut inputs = at.clone();
                    inputs[which] = moved.to_vec();
                    let mixed = definition(&seen, &inputs[0], &inputs[1], &inputs[2]);
                    crate::ops::dot(&seed, &mixed)
                });
                let found = crate::ops::dot(adjoint, &direction);
                assert_close(found, slope, 1e3, asking);
            }
        }
    }
}
