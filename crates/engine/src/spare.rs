//! Lists of numbers that a thread keeps for its next [`Buffer`](crate::buffer::Buffer).

use std::cell::RefCell;

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

    /// The smallest list with room for `size` numbers, unless it has much more. Without such a list,
    /// lists of that room in total are given back, so that what is kept never adds to the most that
    /// a task takes.
    pub(crate) fn take(&mut self, size: usize) -> Option<Vec<R>> {
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
    pub(crate) fn give(&mut self, list: Vec<R>) {
        let bytes = list.capacity() * size_of::<R>();
        if bytes < SMALL_BYTES || self.bytes + bytes > KEPT_BYTES {
            return;
        }
        self.bytes += bytes;
        let place = self.lists.partition_point(|other| other.capacity() < list.capacity());
        self.lists.insert(place, list);
    }
}

#[cfg(test)]
impl Spare<f64> {
    /// How much room the kept lists have, smallest first.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        assert_eq!(self.bytes, 8 * self.lists.iter().map(Vec::capacity).sum::<usize>());
        self.lists.iter().map(Vec::capacity).collect()
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

    #[test]
    fn the_smallest_list_that_fits_is_taken() {
        let mut spare = spare(&[9000, 4000, 5000]);
        assert_eq!(spare.sizes(), [4000, 5000, 9000]);
        assert_eq!(spare.take(4500).unwrap().capacity(), 5000);
        assert_eq!(spare.sizes(), [4000, 9000]);
    }

    #[test]
    fn what_does_not_fit_makes_room() {
        let mut spare = spare(&[4000, 5000, 9000]);
        assert_eq!(spare.take(6000), None);
        assert_eq!(spare.sizes(), [9000]);
        assert_eq!(spare.take(100_000), None);
        assert_eq!(spare.sizes(), [0; 0]);
    }

    #[test]
    fn neither_small_lists_nor_too_many_are_kept() {
        let most = KEPT_BYTES / 8;
        let mut spare = spare(&[SMALL_BYTES / 8 - 1, most / 2, most / 2]);
        assert_eq!(spare.sizes(), [most / 2, most / 2]);
        spare.give(vec![1.0; 4000]);
        assert_eq!(spare.sizes(), [most / 2, most / 2]);
    }
}
