//! From numbers to places on an axis, and the numbers that are written beside it.

use super::Axis;

/// The part of an axis that is drawn; in logarithms where equal distances are equal ratios.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// The axis over some numbers, with a little room at both ends unless it was told its range.
    pub(super) fn of(axis: &Axis, values: Vec<f64>) -> Self {
        let place = |value: f64| if axis.log { value.log10() } else { value };
        let fits = |place: &f64| place.is_finite();
        let given = axis.range.map(|(low, high)| (place(low), place(high)));
        if let Some((low, high)) =
            given.filter(|(low, high)| fits(low) && fits(high) && low < high)
        {
            return Self { low, high, log: axis.log };
        }
        let places = || values.iter().map(|&value| place(value)).filter(fits);
        let (low, high) = places()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
                (low.min(at), high.max(at))
            });
        if low > high {
            return Self { low: 0.0, high: 1.0, log: axis.log };
        }
        let room = match high - low {
            span if span > 1e-12 * high.abs().max(low.abs()) => 0.04 * span,
            _ if axis.log => 0.5,
            _ => 0.1 * high.abs().max(1e-300),
        };
        Self { low: low - room, high: high + room, log: axis.log }
    }

    /// Where a number is, from 0 at one end to 1 at the other; outside it is less or more, and
    /// nowhere if the axis has no place for it.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let place = if self.log { value.log10() } else { value };
        place.is_finite().then(|| (place - self.low) / (self.high - self.low))
    }

    /// Numbers to write beside the axis, at most about so many, with how they are written.
    pub(super) fn ticks(&self, most: u32) -> Vec<(f64, String)> {
        let powers = if self.log { self.powers(most) } else { Vec::new() };
        if self.log && (powers.len() > 1 || self.high - self.low > 1.0) {
            return powers;
        }
        // Between two powers an even scale says more.
        let number = |place: f64| if self.log { 10.0_f64.powf(place) } else { place };
        Self { low: number(self.low), high: number(self.high), log: false }.even(most)
    }

    fn even(&self, most: u32) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / f64::from(most.max(1));
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).max(0.0);
        let largest = self.low.abs().max(self.high.abs());
        (0..=most.saturating_mul(2))
            .map(f64::from)
            .take_while(|index| *index <= count)
            .map(|index| {
                // A multiple of the step, so that 0 is 0.
                let value = (first + index) * step;
                (value, even_label(value, step, largest))
            })
            .collect()
    }

    fn powers(&self, most: u32) -> Vec<(f64, String)> {
        let decades = self.high - self.low;
        let factors: &[f64] = match decades {
            _ if decades > 2.0 => &[1.0],
            _ if decades > 1.0 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 3.0, 5.0, 7.0],
        };
        let every = (decades / f64::from(most.max(1))).ceil().max(1.0);
        // All as decimals, or all as powers.
        let plain = self.low > -3.5 && self.high < 4.5;
        let mut ticks = Vec::new();
        let mut power = (self.low / every).floor() * every;
        while power <= self.high && ticks.len() < 40 {
            for &factor in factors {
                let value = factor * 10.0_f64.powf(power);
                if self.at(value).is_some_and(|at| (-1e-9..=1.0 + 1e-9).contains(&at)) {
                    ticks.push((value, power_label(factor, power, plain)));
                }
            }
            power += every;
        }
        ticks
    }
}

fn even_label(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let power = largest.log10().floor();
    if !(-4.0..6.0).contains(&power) {
        let unit = 10.0_f64.powf(power);
        let digits = decimals(step / unit);
        return format!("{:.digits$}·10{}", value / unit, superscript(power)).replace('-', "−");
    }
    let digits = decimals(step);
    format!("{value:.digits$}").replace('-', "−")
}

/// How many digits behind the point a step of 1, 2 or 5 times a power of ten needs.
fn decimals(step: f64) -> usize {
    (0_u8..15)
        .find(|&digits| step * 10.0_f64.powi(i32::from(digits)) > 0.999)
        .map_or(15, usize::from)
}

fn power_label(factor: f64, power: f64, plain: bool) -> String {
    match plain {
        true => {
            let digits = decimals(10.0_f64.powf(power));
            format!("{:.digits$}", factor * 10.0_f64.powf(power))
        }
        false if factor > 1.0 => format!("{factor}·10{}", superscript(power)),
        false => format!("10{}", superscript(power)),
    }
}

/// A whole number in raised digits.
fn superscript(number: f64) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' | '4'..='9' => char::from_u32('⁰' as u32 + (c as u32 - '0' as u32))
            .expect("raised digits are in a row"),
        other => other,
    };
    format!("{number:.0}").chars().map(raised).collect()
}
