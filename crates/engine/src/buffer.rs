//! Memory that passes from one task to the next.
//!
//! Every task needs the same few dozen large lists of numbers. Asked for anew, the system clears
//! each page of them first, which took a seventh of the time of observing. So a dropped [`Buffer`]
//! leaves its memory to its thread, and the next one that fits takes it over. What a buffer holds
//! at first is undefined: numbers of an earlier task, and in debug builds NaN, so that tests see
//! what is read before it was written.

use crate::real::Real;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Bytes that a thread keeps for later at most.
const KEPT_BYTES: usize = 256 << 20;

/// Bytes below which the allocator is quick by itself.
const SMALL_BYTES: usize = 16 << 10;

/// Lists that nobody uses.
#[derive(Debug, Default)]
pub struct Spare<R> {
    lists: Vec<Vec<R>>,
    bytes: usize,
}

impl<R> Spare<R> {
    pub(crate) const fn new() -> Self {
        Self { lists: Vec::new(), bytes: 0 }
    }

    /// The smallest list with room for so many numbers, unless it has much more. If there is none,
    /// lists with as much room together are given back, so that what is kept never adds to what
    /// a task takes at most.
    fn take(&mut self, size: usize) -> Option<Vec<R>> {
        let first = self.lists.partition_point(|list| list.capacity() < size);
        let fits = |list: &Vec<R>| list.capacity() <= size.saturating_add(size / 8);
        if self.lists.get(first).is_some_and(fits) {
            return Some(self.remove(first));
        }
        let mut released = 0;
        while released < size && !self.lists.is_empty() {
            released += self.remove(0).capacity();
        }
        None
    }

    fn remove(&mut self, index: usize) -> Vec<R> {
        let list = self.lists.remove(index);
        self.bytes -= list.capacity() * size_of::<R>();
        list
    }

    /// Keeps a list, if there is room for it.
    fn give(&mut self, list: Vec<R>) {
        let bytes = list.capacity() * size_of::<R>();
        if bytes < SMALL_BYTES || self.bytes + bytes > KEPT_BYTES {
            return;
        }
        self.bytes += bytes;
        let place = self.lists.partition_point(|other| other.capacity() < list.capacity());
        self.lists.insert(place, list);
    }
}

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
    /// So many numbers, of which none is known.
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

/// So many numbers, of which none is known, in memory that goes back to the system: for lists that
/// are handed out.
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

thread_local! {
    pub(crate) static SINGLE: RefCell<Spare<f32>> = const { RefCell::new(Spare::new()) };
    pub(crate) static DOUBLE: RefCell<Spare<f64>> = const { RefCell::new(Spare::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(capacities: &[usize]) -> Spare<f64> {
        let mut spare = Spare::new();
        for &capacity in capacities {
            spare.give(vec![1.0; capacity]);
        }
        spare
    }

    fn sizes(spare: &Spare<f64>) -> Vec<usize> {
        assert_eq!(spare.bytes, 8 * spare.lists.iter().map(Vec::capacity).sum::<usize>());
        spare.lists.iter().map(Vec::capacity).collect()
    }

    #[test]
    fn the_smallest_list_that_fits_is_taken() {
        let mut spare = spare(&[9000, 4000, 5000]);
        assert_eq!(sizes(&spare), [4000, 5000, 9000]);
        assert_eq!(spare.take(4500).unwrap().capacity(), 5000);
        assert_eq!(sizes(&spare), [4000, 9000]);
    }

    #[test]
    fn what_does_not_fit_makes_room() {
        let mut spare = spare(&[4000, 5000, 9000]);
        assert_eq!(spare.take(6000), None);
        assert_eq!(sizes(&spare), [9000]);
        assert_eq!(spare.take(100_000), None);
        assert_eq!(sizes(&spare), [0; 0]);
    }

    #[test]
    fn neither_small_lists_nor_too_many_are_kept() {
        let most = KEPT_BYTES / 8;
        let mut spare = spare(&[SMALL_BYTES / 8 - 1, most / 2, most / 2]);
        assert_eq!(sizes(&spare), [most / 2, most / 2]);
        spare.give(vec![1.0; 4000]);
        assert_eq!(sizes(&spare), [most / 2, most / 2]);
    }

    /// What is read before it is written would show in every test.
    #[test]
    fn nothing_is_known_of_a_new_buffer() {
        release_buffers();
        for _ in 0..2 {
            let mut buffer: Buffer<f64> = Buffer::new(4000);
            assert!(buffer.iter().all(|value| value.is_nan()));
            buffer.fill(2.0);
        }
        f64::with_spare(|spare| assert_eq!(sizes(spare), [4000]));
        release_buffers();
        f64::with_spare(|spare| assert_eq!(sizes(spare), [0; 0]));
    }
}
