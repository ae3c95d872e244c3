//! The two precisions that passes run in: `f32` for users, `f64` for references and tests.
//!
//! One code serves both. Only what the passes need is here.

use crate::spare::{self, Spare};
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point number that passes can run in: `f32` or `f64`.
///
/// # Examples
///
/// ```
/// use fewstep_engine::Real;
///
/// fn half<R: Real>(value: R) -> R {
///     value * R::of(0.5)
/// }
/// assert_eq!((half(3.0_f32), half(3.0_f64)), (1.5, 1.5));
/// ```
pub trait Real:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + Display
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + AddAssign
    + Div<Output = Self>
    + DivAssign
    + Mul<Output = Self>
    + MulAssign
    + Neg<Output = Self>
    + Sub<Output = Self>
    + SubAssign
    + Sum
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;

    /// The nearest number of this precision.
    fn of(value: f64) -> Self;

    /// The number in double precision, exactly.
    fn wide(self) -> f64;

    /// A stored weight in this precision, exactly.
    fn of_weight(value: f32) -> Self;

    /// Stored weights in this precision; no copy where it is the stored one.
    fn of_weights(values: Vec<f32>) -> Vec<Self>;

    /// The square root.
    fn root(self) -> Self;

    /// `e` to the power of the number, to a few units in the last place.
    fn exponential(self) -> Self;

    /// Whether it is neither NaN nor infinite.
    fn finite(self) -> bool;

    /// Does something with the lists that this thread keeps for later; nothing while it ends.
    #[doc(hidden)]
    fn with_spare<T>(act: impl FnOnce(&mut Spare<Self>) -> T) -> Option<T>;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[allow(clippy::cast_possible_truncation, reason = "rounding is what it is for")]
    fn of(value: f64) -> Self {
        value as Self
    }

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn of_weight(value: f32) -> Self {
        value
    }

    fn of_weights(values: Vec<f32>) -> Vec<Self> {
        values
    }

    fn root(self) -> Self {
        self.sqrt()
    }

    /// Branch-free, so that loops over it become vector code on every machine.
    ///
    /// ```text
    /// x = k log 2 + r,  |r| ≤ ½ log 2:   e^x = 2^k e^r,   e^r by a polynomial of degree 7
    /// ```
    #[inline(always)]
    fn exponential(self) -> Self {
        // Adding 1.5 · 2^23 rounds to an integer and leaves it in the low bits.
        const ROUNDER: f32 = 12_582_912.0;
        const LOG_2_HIGH: f32 = 0.693_359_4;
        const LOG_2_LOW: f32 = -2.121_944_4e-4;
        const ONE_BITS: u32 = 127 << 23;
        let x = self.clamp(-87.0, 88.0);
        let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
        let k = shifted - ROUNDER;
        let r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW;
        let mut sum = 1.0 / 5040.0;
        for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            sum = sum * r + factor;
        }
        sum * Self::from_bits((shifted.to_bits() << 23).wrapping_add(ONE_BITS))
    }

    fn finite(self) -> bool {
        self.is_finite()
    }

    fn with_spare<T>(act: impl FnOnce(&mut Spare<Self>) -> T) -> Option<T> {
        spare::SINGLE.try_with(|spare| act(&mut spare.borrow_mut())).ok()
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn of(value: f64) -> Self {
        value
    }

    fn wide(self) -> f64 {
        self
    }

    fn of_weight(value: f32) -> Self {
        Self::from(value)
    }

    fn of_weights(values: Vec<f32>) -> Vec<Self> {
        values.into_iter().map(Self::from).collect()
    }

    fn root(self) -> Self {
        self.sqrt()
    }

    fn exponential(self) -> Self {
        self.exp()
    }

    fn finite(self) -> bool {
        self.is_finite()
    }

    fn with_spare<T>(act: impl FnOnce(&mut Spare<Self>) -> T) -> Option<T> {
        spare::DOUBLE.try_with(|spare| act(&mut spare.borrow_mut())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The branch-free exponential agrees with the library's over its whole range.
    #[test]
    fn exponential_is_accurate_over_its_range() {
        let mut worst = 0.0_f64;
        for index in 0..200_000 {
            let x = -87.0 + 175.0 * index as f32 / 200_000.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(x.exponential()) - exact).abs() / exact);
        }
        // Rounding of the argument reduction and of seven polynomial steps.
        assert!(worst < 4.0 * f64::from(f32::EPSILON), "relative error {worst:e}");
    }

    #[test]
    fn exponential_of_the_extremes_is_finite_or_not_a_number() {
        assert_eq!(0.0_f32.exponential().to_bits(), 1.0_f32.to_bits());
        assert!(f32::NEG_INFINITY.exponential() < 1e-37);
        assert!(f32::INFINITY.exponential() > 1e38);
        assert!(f32::NAN.exponential().is_nan());
    }
}
