//! Memory that passes from one task to the next.
//!
//! Every task needs the same few dozen large lists of numbers. When they are allocated anew, the
//! system clears each page first, which took a seventh of the time of observing. So a dropped [`Buffer`]
//! leaves its memory to its thread, and the next one that fits takes it over. What a buffer holds
//! at first is undefined: numbers of an earlier task, and in debug builds NaN, so that tests see
//! what is read before it was written.

use crate::real::Real;
use crate::spare::Spare;
use std::ops::{Deref, DerefMut};

/// Gives the memory back that this thread keeps for the passes of later tasks.
///
/// Nothing but the memory changes. A program that is done with models for a while may want it.
///
/// # Examples
///
/// ```
/// fewstep_engine::release_buffers();
/// ```
pub fn release_buffers() {
    f32::with_spare(|spare| *spare = Spare::new());
    f64::with_spare(|spare| *spare = Spare::new());
}

/// Numbers whose memory goes to the next buffer of the thread.
#[derive(Debug)]
pub(crate) struct Buffer<R: Real>(Vec<R>);

impl<R: Real> Buffer<R> {
    /// A buffer of `size` undefined numbers.
    pub(crate) fn new(size: usize) -> Self {
        let kept = if size == 0 { None } else { R::with_spare(|spare| spare.take(size)) };
        let mut list = match kept.flatten() {
            Some(mut list) => {
                list.resize(size, R::ZERO);
                list
            }
            None => vec![R::ZERO; size],
        };
        if cfg!(debug_assertions) {
            list.fill(R::of(f64::NAN));
        }
        Self(list)
    }
}

/// A list of `size` undefined numbers in memory that goes back to the system: for lists that are
/// handed out.
pub(crate) fn list<R: Real>(size: usize) -> Vec<R> {
    std::mem::take(&mut Buffer::new(size).0)
}

impl<R: Real> Clone for Buffer<R> {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<R: Real> Drop for Buffer<R> {
    fn drop(&mut self) {
        let list = std::mem::take(&mut self.0);
        R::with_spare(|spare| spare.give(list));
    }
}

impl<R: Real> Deref for Buffer<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.0
    }
}

impl<R: Real> DerefMut for Buffer<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read before it is written would show in every test.
    #[test]
    fn nothing_is_known_of_a_new_buffer() {
        release_buffers();
        for _ in 0..2 {
            let mut buffer: Buffer<f64> = Buffer::new(4000);
            assert!(buffer.iter().all(|value| value.is_nan()));
            buffer.fill(2.0);
        }
        f64::with_spare(|spare| assert_eq!(spare.sizes(), [4000]));
        release_buffers();
        f64::with_spare(|spare| assert_eq!(spare.sizes(), [0; 0]));
    }
}
