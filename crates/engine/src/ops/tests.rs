//! Each operation against its definition in plain loops, each adjoint against differences.

use super::*;
use crate::testing::{Numbers, assert_close, difference};

const SHAPES: [(usize, usize); 5] = [(1, 1), (1, 16), (3, 5), (4, 33), (7, 48)];

#[test]
fn products_of_strided_views_are_sums_over_the_inner_index() {
    let mut numbers = Numbers::new(1);
    for (rows, inner, columns) in [(1, 1, 1), (3, 5, 2), (17, 9, 33), (2, 0, 3), (0, 3, 2)] {
        let left = numbers.vector(inner * rows);
        let right = numbers.vector((inner + 2) * (columns + 3));
        let mut target = numbers.vector((rows + 1) * (columns + 4));
        let before = target.clone();
        let view = View::new(&left, inner, rows).transposed();
        let factor = View::new(&right, inner + 2, columns + 3)
            .rows(2..inner + 2)
            .columns(1..columns + 1);
        let place = ViewMut::new(&mut target, rows + 1, columns + 4)
            .rows(1..rows + 1)
            .columns(2..columns + 2);
        product(Write::Add, place, view, factor, 0.5);
        for row in 0..=rows {
            for column in 0..columns + 4 {
                let mut expected = before[row * (columns + 4) + column];
                if row >= 1 && (2..columns + 2).contains(&column) {
                    expected += (0..inner)
                        .map(|k| {
                            let factor = right[(k + 2) * (columns + 3) + column - 1];
                            0.5 * left[k * rows + row - 1] * factor
                        })
                        .sum::<f64>();
                }
                let found = target[row * (columns + 4) + column];
                assert_close(found, expected, 1.0 + inner as f64, inner + 1);
            }
        }
    }
}

/// Products that are taken directly, in each order, with whole and with broken blocks.
#[test]
fn direct_products_are_sums_over_the_inner_index() {
    use direct::LoopOrder::{Dots, Rows, Stream};
    let mut numbers = Numbers::new(11);
    let cases = [
        (Rows, (1, 1, 1)),
        (Rows, (16, 60, 64)),
        (Rows, (3, 5, 64 + 2 * 16 + 3)),
        (Rows, (40, 4, 83)),
        (Stream, (1, 130, 600)),
        (Stream, (2, 64, 1024)),
        (Stream, (11, 67, 1100)),
        (Dots, (1, 64, 5)),
        (Dots, (4, 37, 9)),
        (Dots, (11, 33, 40)),
        (Dots, (6, 300, 301)),
    ];
    for (loop_order, (rows, inner, columns)) in cases {
        let left = numbers.vector(rows * (inner + 2));
        let right = numbers.vector(inner * columns);
        let left = View::new(&left, rows, inner + 2).columns(1..inner + 1);
        let right = match loop_order {
            Dots => View::new(&right, columns, inner).transposed(),
            Rows | Stream => View::new(&right, inner, columns),
        };
        assert_eq!(
            direct::loop_order(left, right),
            Some(loop_order),
            "{rows}, {inner}, {columns}"
        );
        for write in [Write::Over, Write::Add] {
            let mut target = numbers.vector(rows * (columns + 3));
            let before = target.clone();
            let place = ViewMut::new(&mut target, rows, columns + 3).columns(2..columns + 2);
            product(write, place, left, right, -0.5);
            for (index, (&found, before)) in target.iter().zip(before).enumerate() {
                let (row, column) = (index / (columns + 3), index % (columns + 3));
                let inside = (2..columns + 2).contains(&column);
                let kept = if inside && write == Write::Over { 0.0 } else { before };
                let at = |view: View<'_, f64>, row: usize, column: usize| {
                    view.values[row * view.row_stride + column * view.column_stride]
                };
                let term = |k: usize| -0.5 * at(left, row, k) * at(right, k, column - 2);
                let sum: f64 = if inside { (0..inner).map(term).sum() } else { 0.0 };
                assert_close(found, kept + sum, 1.0 + inner as f64, inner + 1);
            }
        }
    }
}

/// Factors between small and large, many rows, and views that lie across stay with the general
/// product.
#[test]
fn other_products_are_not_taken_directly() {
    let values = vec![0.0_f64; 1 << 17];
    let view =
        |rows: usize, columns: usize| View::new(&values[..rows * columns], rows, columns);
    assert_eq!(direct::loop_order(view(11, 128), view(128, 128)), None);
    assert_eq!(direct::loop_order(view(17, 17), view(17, 8)), None);
    assert_eq!(direct::loop_order(view(17, 256), view(256, 256)), None);
    assert_eq!(direct::loop_order(view(17, 4), view(8, 4).transposed()), None);
    assert_eq!(direct::loop_order(view(8, 4).transposed(), view(8, 8).transposed()), None);
}

#[test]
fn an_empty_sum_is_zero_and_adds_nothing() {
    let mut target = vec![1.0_f64; 4];
    let (left, right) = (View::new(&[], 2, 0), View::new(&[], 0, 2));
    product(Write::Add, ViewMut::new(&mut target, 2, 2), left, right, 1.0);
    assert_eq!(target, [1.0; 4]);
    product(Write::Over, ViewMut::new(&mut target, 2, 2), left, right, 1.0);
    assert_eq!(target, [0.0; 4]);
}

#[test]
#[should_panic(expected = "columns are inside")]
fn a_view_beyond_its_buffer_is_refused() {
    let values = [0.0_f64; 6];
    let _ = View::new(&values, 2, 3).columns(1..4);
}

/// A norm, as its definition reads, for one row.
fn norm_by_definition(
    row: &[f64],
    kind: NormKind,
    norm: &NormWeights<f64>,
    epsilon: f64,
) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = match kind {
        NormKind::Deviation => row.iter().sum::<f64>() / count,
        NormKind::MeanSquare => 0.0,
    };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let shift = |k: usize| norm.shift.get(k).copied().unwrap_or(0.0);
    (0..row.len())
        .map(|k| (row[k] - mean) / (variance + epsilon).sqrt() * norm.scale[k] + shift(k))
        .collect()
}

fn norms_follow_the_definition(kind: NormKind, seed: u64) {
    let (mut numbers, epsilon) = (Numbers::new(seed), 1e-3);
    for (rows, width) in SHAPES {
        let input = numbers.vector(rows * width);
        let shift = if kind == NormKind::Deviation { width } else { 0 };
        let norm = NormWeights { scale: numbers.vector(width), shift: numbers.vector(shift) };
        let (mut normalised, mut inverse) = (vec![0.0; rows * width], vec![0.0; rows]);
        let mut output = vec![0.0; rows * width];
        let kept = NormalisedMut { normalised: &mut normalised, inverse: &mut inverse };
        normalise(&input, kind, width, epsilon, kept);
        affine(&normalised, &norm, &mut output);
        let definition = |input: &[f64]| -> Vec<f64> {
            let rows = input.chunks_exact(width);
            rows.flat_map(|row| norm_by_definition(row, kind, &norm, epsilon)).collect()
        };
        for (&found, expected) in output.iter().zip(definition(&input)) {
            assert_close(found, expected, 10.0, width);
        }
        let (seed, direction) = (numbers.vector(rows * width), numbers.vector(rows * width));
        let base = numbers.vector(rows * width);
        let mut adjoint = base.clone();
        let kept = Normalised { normalised: &normalised, inverse: &inverse };
        norm_adjoint(&mut seed.clone(), kind, &norm.scale, kept, &mut adjoint);
        for (adjoint, base) in adjoint.iter_mut().zip(&base) {
            *adjoint -= base;
        }
        let slope = difference(&input, &direction, |input| dot(&seed, &definition(input)));
        assert_close(
            dot(&adjoint, &direction),
            slope,
            1e5 * slope.abs().max(1.0),
            rows * width,
        );
    }
}

#[test]
fn layer_norm_and_its_adjoint_follow_the_definition() {
    norms_follow_the_definition(NormKind::Deviation, 2);
}

#[test]
fn mean_square_norm_and_its_adjoint_follow_the_definition() {
    norms_follow_the_definition(NormKind::MeanSquare, 5);
}

#[test]
fn a_norm_that_overflows_is_not_a_number() {
    for (kind, second) in [(NormKind::Deviation, 3.0), (NormKind::MeanSquare, -1.0)] {
        let (mut normalised, mut inverse) = ([0.0_f32; 4], [0.0_f32; 2]);
        let kept = NormalisedMut { normalised: &mut normalised, inverse: &mut inverse };
        normalise(&[1e30, -1e30, 1.0, second], kind, 2, 1e-5, kept);
        assert!(normalised[..2].iter().all(|value| value.is_nan()));
        assert!(normalised[2..].iter().all(|value| (value.abs() - 1.0).abs() < 1e-5));
    }
}

#[test]
fn gelu_and_its_derivative_follow_the_tanh_form() {
    let definition = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        0.5 * x * (1.0 + u.tanh())
    };
    let inputs: Vec<f64> = (-120..=120).map(|k| f64::from(k) / 10.0).collect();
    let (mut slopes, mut outputs) = (inputs.clone(), vec![0.0; inputs.len()]);
    gelu(&mut slopes, &mut outputs);
    for ((&x, slope), output) in inputs.iter().zip(slopes).zip(outputs) {
        assert_close(output, definition(x), x.abs().max(1.0), 1);
        let found = difference(&[x], &[1.0], |x| definition(x[0]));
        assert_close(slope, found, 1e5, 1);
    }
}

#[test]
fn gelu_in_single_precision_is_finite_far_out() {
    let mut inputs = vec![-1e4_f32, -50.0, 50.0, 1e4];
    let mut outputs = vec![0.0; 4];
    gelu(&mut inputs, &mut outputs);
    assert_eq!(outputs[2..], [50.0, 1e4]);
    assert!(outputs[..2].iter().chain(&inputs).all(|value| value.is_finite()));
}

#[test]
fn a_gated_product_and_its_derivatives_follow_the_definition() {
    let definition = |gate: f64, up: f64| up * gate / (1.0 + (-gate).exp());
    let gates: Vec<f64> = (-60..=60).map(|k| f64::from(k) / 5.0).collect();
    let ups = Numbers::new(9).vector(gates.len());
    let (mut gate_slopes, mut up_slopes) = (gates.clone(), ups.clone());
    let mut outputs = vec![f64::NAN; gates.len()];
    gated_silu(&mut gate_slopes, &mut up_slopes, &mut outputs);
    for (index, (&gate, &up)) in gates.iter().zip(&ups).enumerate() {
        assert_close(outputs[index], definition(gate, up), gate.abs().max(1.0), 1);
        let slope = difference(&[gate], &[1.0], |gate| definition(gate[0], up));
        assert_close(gate_slopes[index], slope, 1e5, 1);
        let slope = difference(&[up], &[1.0], |up| definition(gate, up[0]));
        assert_close(up_slopes[index], slope, 1e5, 1);
    }
}

#[test]
fn a_gated_product_in_single_precision_is_finite_far_out() {
    let mut gates = vec![-1e4_f32, -100.0, 100.0, 1e4];
    let (mut ups, mut outputs) = (vec![2.0; 4], vec![0.0; 4]);
    gated_silu(&mut gates, &mut ups, &mut outputs);
    assert_eq!(outputs[2..], [200.0, 2e4]);
    assert!(outputs.iter().chain(&gates).chain(&ups).all(|value| value.is_finite()));
    assert!(outputs[..2].iter().all(|value| value.abs() < 1e-30));
}

#[test]
fn the_expectation_and_its_adjoint_follow_the_definition() {
    let mut numbers = Numbers::new(3);
    for labels in [2, 3, 10, 40] {
        let (logits, values) = (numbers.vector(labels), numbers.vector(labels));
        let definition = |logits: &[f64]| -> f64 {
            let sum: f64 = logits.iter().map(|z| z.exp()).sum();
            logits.iter().zip(&values).map(|(z, value)| z.exp() / sum * value).sum()
        };
        let mut probabilities = logits.clone();
        let found = expectation(&mut probabilities, &values);
        assert_close(found, definition(&logits), 10.0, labels);
        let (mut adjoint, direction) = (vec![0.0; labels], numbers.vector(labels));
        expectation_adjoint(-1.5, &probabilities, &values, &mut adjoint);
        let slope = difference(&logits, &direction, |logits| -1.5 * definition(logits));
        assert_close(dot(&adjoint, &direction), slope, 1e5, labels);
    }
}

#[test]
fn a_softmax_of_huge_scores_does_not_overflow() {
    let mut scores = [1e30_f32, 1e30, -1e30];
    softmax(&mut scores);
    assert_eq!(scores[..2], [0.5, 0.5]);
}

/// A product that is divided between threads is the same to the bit, in either direction, and
/// leaves what is beside it as it was.
#[test]
fn divided_products_are_the_same_to_the_bit() {
    fn check<R: Real>(pool: &rayon::ThreadPool, seed: u64) {
        let mut numbers = Numbers::new(seed);
        for (rows, inner, columns) in
            [(97, 500, 700), (250, 768, 768), (431, 97, 130), (200, 300, 100), (192, 700, 192)]
        {
            let mut vector = |size: usize| -> Vec<R> {
                numbers.vector(size).into_iter().map(R::of).collect()
            };
            let (left, right) = (vector(rows * inner), vector(inner * columns));
            let before = vector(rows * (columns + 5));
            for (write, turned) in
                [(Write::Over, false), (Write::Add, false), (Write::Over, true)]
            {
                let run = || {
                    let mut target = before.clone();
                    let place =
                        ViewMut::new(&mut target, rows, columns + 5).columns(3..columns + 3);
                    let (left, right) = match turned {
                        false => {
                            (View::new(&left, rows, inner), View::new(&right, inner, columns))
                        }
                        true => (
                            View::new(&left, inner, rows).transposed(),
                            View::new(&right, columns, inner).transposed(),
                        ),
                    };
                    product(write, place, left, right, R::of(0.5));
                    target.iter().map(|value| value.wide().to_bits()).collect::<Vec<_>>()
                };
                assert_eq!(pool.install(run), run(), "{rows} {inner} {columns} {turned}");
            }
        }
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert!(pool.install(pooled) && !pooled());
    check::<f32>(&pool, 4);
    check::<f64>(&pool, 5);
}

#[test]
fn operations_are_those_of_the_products_within() {
    let (left, right) = (vec![1.0; 6], vec![1.0; 12]);
    let run = |columns: usize| {
        let mut target = vec![0.0; 2 * columns];
        let place = ViewMut::new(&mut target, 2, columns);
        let right = View::new(&right, 3, 4).columns(0..columns);
        product(Write::Over, place, View::new(&left, 2, 3), right, 1.0);
    };
    run(4);
    let ((), counted) = count_operations(|| {
        run(4);
        run(0);
        run(1);
    });
    assert_eq!(counted, 2 * 3 * 4 + 2 * 3);
}
