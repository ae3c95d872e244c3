//! Derivatives against differences of the loss, in double precision.

use super::*;
use crate::pretrain::chunk::cross_entropy;
use crate::testing::{Numbers, difference};

fn config(tied: bool) -> Config {
    Config {
        layers: 2,
        heads: 3,
        width: 6,
        inner: 10,
        positions: 9,
        vocabulary: 7,
        norm_epsilon: 1e-5,
        tied,
        bos: None,
        family: crate::config::Family::Gpt2,
    }
}

/// Lengths from 1 to all positions; no target, one, several, and two at one position.
fn batch() -> Batch {
    let sequences = vec![
        vec![1, 2, 3, 4],
        vec![6],
        vec![0, 5, 5, 2, 1, 3, 6, 6, 0],
        vec![2, 2],
        vec![3, 1, 4, 1, 5],
        vec![4, 0, 3],
    ];
    let targets = vec![
        vec![(0, 2), (3, 5)],
        vec![(0, 1)],
        vec![(8, 3), (2, 0), (5, 5)],
        vec![],
        vec![(1, 4), (1, 6)],
        vec![(0, 0), (1, 3), (2, 2)],
    ];
    Batch::new(sequences, targets).unwrap()
}

fn weights(places: &Places, seed: u64) -> Vec<f64> {
    Numbers::new(seed).vector(places.size())
}

fn loss(config: &Config, weights: &[f64]) -> f64 {
    Machine::new(config).run(config, weights, &batch(), 1)
}

/// A difference with five points leaves about `h⁴` of the fifth derivative and `ε/h` of the
/// loss; both are far below this share of the derivative's norm.
const ALLOWED: f64 = 1e-8;

/// For every tensor, along a random direction in it.
#[test]
fn every_tensor_agrees_with_differences_along_a_direction() {
    for (seed, tied) in [(1, true), (2, false), (3, true)] {
        let config = config(tied);
        let mut machine = Machine::new(&config);
        let weights = weights(&machine.places, seed);
        machine.run(&config, &weights, &batch(), 1);
        let mut numbers = Numbers::new(seed + 100);
        for tensor in &machine.places.tensors {
            let mut direction = vec![0.0; weights.len()];
            let inside = &mut direction[tensor.range.clone()];
            inside.copy_from_slice(&numbers.vector(tensor.range.len()));
            let expected = difference(&weights, &direction, |at| loss(&config, at));
            let gradient = &machine.gradient()[tensor.range.clone()];
            let inside = &direction[tensor.range.clone()];
            let found: f64 = gradient.iter().zip(inside).map(|(g, d)| g * d).sum();
            let scale = norm(gradient) * norm(inside);
            let gap = (found - expected).abs();
            assert!(scale > 1e-4, "{}: the derivative does not vanish", tensor.name);
            assert!(gap <= ALLOWED * scale, "{}: {found} for {expected}", tensor.name);
        }
    }
}

/// For some single entries of every tensor: the first, the last, and some in between.
#[test]
fn single_entries_agree_with_differences() {
    let config = config(true);
    let mut machine = Machine::new(&config);
    let weights = weights(&machine.places, 4);
    machine.run(&config, &weights, &batch(), 1);
    for tensor in &machine.places.tensors {
        let scale = norm(&machine.gradient()[tensor.range.clone()]);
        let last = tensor.range.end - 1;
        let every = tensor.range.clone().step_by(17);
        for entry in every.chain([last]) {
            let mut direction = vec![0.0; weights.len()];
            direction[entry] = 1.0;
            let expected = difference(&weights, &direction, |at| loss(&config, at));
            let gap = (machine.gradient()[entry] - expected).abs();
            assert!(gap <= ALLOWED * scale, "{}, entry {entry}", tensor.name);
        }
    }
}

/// Shards and chunks only regroup sums: the gradient is the mean over targets of the gradients of
/// single sequences.
#[test]
fn a_batch_is_the_mean_of_its_sequences() {
    let config = config(true);
    let mut machine = Machine::new(&config);
    let weights = weights(&machine.places, 5);
    // More than one chunk in every shard.
    let sequences: Vec<_> = batch().sequences().iter().cycle().take(700).cloned().collect();
    let targets: Vec<_> = batch().targets().iter().cycle().take(700).cloned().collect();
    let whole = Batch::new(sequences.clone(), targets.clone()).unwrap();
    let loss = machine.run(&config, &weights, &whole, 1);
    let found = machine.gradient().to_vec();
    let (mut summed_loss, mut expected) = (0.0, vec![0.0; weights.len()]);
    for (sequence, targets) in sequences.into_iter().zip(targets) {
        if targets.is_empty() {
            continue;
        }
        let count = targets.len() as f64;
        let single = Batch::new(vec![sequence], vec![targets]).unwrap();
        summed_loss += count * machine.run(&config, &weights, &single, 1);
        for (sum, value) in expected.iter_mut().zip(machine.gradient()) {
            *sum += count * value / whole.target_count() as f64;
        }
    }
    let rounding = 1e3 * f64::EPSILON;
    assert!((loss - summed_loss / whole.target_count() as f64).abs() <= rounding * loss);
    let gaps: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
    assert!(norm(&gaps) <= rounding * norm(&expected), "off by {:e}", norm(&gaps));
}

/// By hand: two logits whose difference is `log 3` have the probabilities 1/4 and 3/4.
#[test]
fn cross_entropy_by_hand() {
    let mut logits = [1000.0, 1000.0 + 3.0_f64.ln()];
    let loss = cross_entropy(&mut logits, 0, 0.5);
    assert!((loss - 4.0_f64.ln()).abs() < 1e3 * f64::EPSILON * 1000.0);
    assert!((logits[0] + 0.375).abs() < 1e3 * f64::EPSILON * 1000.0);
    assert!((logits[1] - 0.375).abs() < 1e3 * f64::EPSILON * 1000.0);
}

/// A token that the model finds impossible costs its distance, not the logarithm of 0.
#[test]
fn cross_entropy_of_the_impossible_is_finite() {
    let mut logits = [0.0_f32, 500.0];
    assert_eq!(cross_entropy(&mut logits, 0, 1.0).to_bits(), 500.0_f64.to_bits());
    assert!(logits.iter().all(|logit| logit.is_finite()));
}
