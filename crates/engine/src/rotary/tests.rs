//! Frequencies against the definitions of their scalings, turning against complex numbers.

use super::*;
use crate::ops::dot;
use crate::testing::{Numbers, assert_close, difference};

fn rotary(scaling: Scaling) -> Rotary {
    Rotary { base: 10000.0, scaling }
}

fn yarn() -> Yarn {
    Yarn {
        factor: 4.0,
        original: 64,
        fast: 32.0,
        slow: 1.0,
        truncate: true,
        attention: None,
        scales: None,
    }
}

#[test]
fn plain_frequencies_fall_from_one_by_equal_ratios() {
    let (frequencies, length) = rotary(Scaling::None).frequencies(8);
    for (found, expected) in frequencies.iter().zip([1.0, 0.1, 0.01, 0.001]) {
        assert_close(*found, expected, 1.0, 1);
    }
    assert_close(length, 1.0, 1.0, 1);
    let linear = rotary(Scaling::Linear { factor: 4.0 }).frequencies(8).0;
    for (scaled, plain) in linear.iter().zip(&frequencies) {
        assert_close(4.0 * scaled, *plain, 1.0, 1);
    }
    let dynamic = rotary(Scaling::Dynamic { factor: 4.0 }).frequencies(8).0;
    assert_eq!(dynamic, frequencies);
}

/// Waves of 2π to 2000π tokens: the first turns more than `high` times in 64 tokens and is kept,
/// the last two turn less than once and are divided, the second is between.
#[test]
fn llama3_divides_long_waves_and_keeps_short_ones() {
    let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64 };
    let found = rotary(scaling).frequencies(8).0;
    assert_close(found[0], 1.0, 1.0, 1);
    let turns = 64.0 * 0.1 / (2.0 * PI);
    let kept = (turns - 1.0) / 3.0;
    assert!(0.0 < kept && kept < 1.0);
    assert_close(found[1], kept * 0.1 + (1.0 - kept) * 0.1 / 8.0, 1.0, 1);
    assert_close(found[2], 0.01 / 8.0, 1.0, 1);
    assert_close(found[3], 0.001 / 8.0, 1.0, 1);
}

/// The pairs that turn 32 times and once in 64 tokens are −1 and 1.008 of width 8: with whole
/// ends the ramp goes from pair 0 to pair 2, else to 1.008.
#[test]
fn yarn_goes_from_kept_to_divided_along_a_ramp() {
    let found = rotary(Scaling::Yarn(yarn())).frequencies(8);
    for (pair, divided) in [0.0, 0.5, 1.0, 1.0].into_iter().enumerate() {
        let plain = 10.0_f64.powi(-i32::try_from(pair).unwrap());
        assert_close(found.0[pair], plain * (1.0 - divided) + plain / 4.0 * divided, 1.0, 1);
    }
    assert_close(found.1, 0.1 * 4.0_f64.ln() + 1.0, 1.0, 1);
    let loose = Yarn { truncate: false, ..yarn() };
    let end = 8.0 * (64.0 / (2.0 * PI)).ln() / (2.0 * 10000.0_f64.ln());
    let found = rotary(Scaling::Yarn(loose)).frequencies(8).0[1];
    assert_close(found, 0.1 * (1.0 - 1.0 / end) + 0.1 / 4.0 / end, 1.0, 1);
}

#[test]
fn yarn_lengthens_queries_and_keys_as_it_is_told() {
    let length = |yarn: Yarn| yarn.length();
    assert_close(length(Yarn { attention: Some(1.5), ..yarn() }), 1.5, 1.0, 1);
    assert_close(length(Yarn { factor: 1.0, ..yarn() }), 1.0, 1.0, 1);
    let (one, all) = (0.1 * 2.0 * 4.0_f64.ln() + 1.0, 0.1 * 0.5 * 4.0_f64.ln() + 1.0);
    assert_close(length(Yarn { scales: Some((2.0, 0.5)), ..yarn() }), one / all, 1.0, 1);
    // A ramp without length is a step, and not a division by 0.
    let steep = Yarn { fast: 1.0, truncate: false, ..yarn() };
    // The ends are pair 0 from below: 0 and −0.
    let flat = Yarn { original: 6, fast: 1.0, ..yarn() };
    for yarn in [steep, flat] {
        let found = rotary(Scaling::Yarn(yarn)).frequencies(8).0;
        assert!(found.iter().all(|frequency| frequency.is_finite()), "{found:?}");
    }
}

/// A pair is a complex number times e^(i · position · frequency).
#[test]
fn turning_multiplies_pairs_with_unit_numbers_and_its_adjoint_turns_back() {
    let (mut numbers, width, heads) = (Numbers::new(8), 6, 2);
    let positions = [3, 0, 11, 3];
    for scaling in [Scaling::None, Scaling::Yarn(yarn())] {
        let rotary = rotary(scaling);
        let (frequencies, length) = rotary.frequencies(width);
        let table: Rotations<f64> = Rotations::new(&rotary, width, 12);
        let definition = |values: &[f64]| -> Vec<f64> {
            let mut turned = values.to_vec();
            for (row, &position) in positions.iter().enumerate() {
                for head in 0..heads {
                    for (pair, frequency) in frequencies.iter().enumerate() {
                        let at = row * heads * width + head * width + pair;
                        let (x, y) = (values[at], values[at + width / 2]);
                        let (radius, angle) = (x.hypot(y) * length, y.atan2(x));
                        let angle = angle + position as f64 * frequency;
                        turned[at] = radius * angle.cos();
                        turned[at + width / 2] = radius * angle.sin();
                    }
                }
            }
            turned
        };
        let size = positions.len() * heads * width;
        let values = numbers.vector(size);
        let mut turned = values.clone();
        table.turn(Turn::Forward, &mut turned, positions.into_iter());
        for (&found, expected) in turned.iter().zip(definition(&values)) {
            assert_close(found, expected, 20.0, 1);
        }
        let (seed, direction) = (numbers.vector(size), numbers.vector(size));
        let mut adjoint = seed.clone();
        table.turn(Turn::Back, &mut adjoint, positions.into_iter());
        let slope = difference(&values, &direction, |at| dot(&seed, &definition(at)));
        assert_close(dot(&adjoint, &direction), slope, 1e5, 1);
    }
}
