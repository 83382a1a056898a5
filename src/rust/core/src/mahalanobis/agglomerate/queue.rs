//! A priority queue whose first elements can be read in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::memory;

/// Number of elements that move from the heap to the sorted part at a time. The sorted part holds
/// up to twice this number. A small number keeps the sorted part in the processor's caches, and
/// insertion cheap. Only the time depends on it.
const NEAR: usize = 128;

/// Elements in increasing order: the first elements in a sorted part, all others in a heap.
#[derive(Debug)]
pub struct Queue<T> {
    /// The sorted part, in decreasing order: its last element is the smallest of the queue.
    near: Vec<T>,
    /// All other elements. None of them comes before an element of `near`.
    far: BinaryHeap<Reverse<T>>,
}

impl<T: Ord + Copy> Queue<T> {
    /// An empty queue with room for `capacity` elements.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Ok(Self {
            near: Vec::with_capacity(2 * NEAR + 1),
            far: BinaryHeap::from(memory::room("the queue of the clusters needs", capacity)?),
        })
    }

    pub fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
    }

    pub fn push(&mut self, element: T) {
        let is_near = match (self.near.first(), self.far.peek()) {
            (Some(last), _) if element < *last => true,
            (Some(_), None) => true,
            (Some(_), Some(Reverse(first))) => element < *first,
            (None, _) => false,
        };
        if !is_near {
            return self.far.push(Reverse(element));
        }
        let at = self.near.partition_point(|other| *other > element);
        self.near.insert(at, element);
        if self.near.len() > 2 * NEAR {
            self.far.extend(self.near.drain(..NEAR).map(Reverse));
        }
    }

    /// The element at this index in increasing order.
    pub fn get(&mut self, index: usize) -> Option<T> {
        while self.near.len() <= index {
            if self.far.is_empty() {
                return None;
            }
            let next = std::iter::from_fn(|| self.far.pop()).take(NEAR);
            let next: Vec<T> = next.map(|Reverse(element)| element).collect();
            self.near.splice(..0, next.into_iter().rev());
        }
        Some(self.near[self.near.len() - 1 - index])
    }

    /// Takes the element at this index in increasing order.
    pub fn take(&mut self, index: usize) -> Option<T> {
        self.get(index)?;
        Some(self.near.remove(self.near.len() - 1 - index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shrink::{cases, for_all};
    use crate::testing::Random;

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        Take(usize),
    }

    /// Steps that grow a queue to some hundreds of elements and shrink it to none, several times.
    fn steps(random: &mut Random, _: usize) -> Vec<Step> {
        let mut step = |number: usize| {
            let grows = (number / 1_000) % 2 == 0;
            if random.below(4) < if grows { 3 } else { 1 } {
                return Step::Push(random.below(100_000));
            }
            let most = random.below(3 * NEAR);
            Step::Take(random.below(1 + most))
        };
        (0..4_000).map(&mut step).collect()
    }

    #[test]
    fn elements_come_in_order() {
        for_all(10, cases(steps), |steps| {
            let mut queue = Queue::with_capacity(0).unwrap();
            let mut sorted: Vec<usize> = Vec::new();
            for step in steps {
                match step {
                    Step::Push(element) => {
                        queue.push(element);
                        let at = sorted.partition_point(|other| *other < element);
                        sorted.insert(at, element);
                    }
                    Step::Take(index) => {
                        assert_eq!(queue.get(index), sorted.get(index).copied());
                        let taken = (index < sorted.len()).then(|| sorted.remove(index));
                        assert_eq!(queue.take(index), taken);
                    }
                }
            }
            assert_eq!(queue.get(0), sorted.first().copied());
        });
    }
}
