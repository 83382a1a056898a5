//! The nearest cluster of each cluster.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::memory;

/// First words of a memory error, before the number of bytes.
pub const CLUSTERS: &str = "the clusters of a linkage need";

/// No slot.
pub const NONE: u32 = u32::MAX;

/// The nearest cluster of each cluster, by slot. A slot is a reverse neighbour of the slot of its
/// nearest cluster.
pub struct Nearest {
    /// By slot: the distance of the nearest cluster and its slot; [`NONE`] if it is not known.
    of: Vec<(f64, u32)>,
    /// The slots of clusters that [`Nearest::forget`] was called for.
    unknown: BTreeSet<u32>,
    /// By slot, its first reverse neighbour.
    first_reverse_neighbour: Vec<u32>,
    /// By slot, the next reverse neighbour of the same slot.
    next_reverse_neighbour: Vec<u32>,
}

impl Nearest {
    /// `n` slots whose nearest clusters are not known.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Self {
            of: memory::filled(CLUSTERS, n, (f64::NAN, NONE))?,
            unknown: BTreeSet::new(),
            first_reverse_neighbour: memory::filled(CLUSTERS, n, NONE)?,
            next_reverse_neighbour: memory::filled(CLUSTERS, n, NONE)?,
        })
    }

    /// The distance and the slot of a slot's nearest; [`NONE`] if it is not known.
    pub fn of(&self, slot: u32) -> (f64, u32) {
        self.of[slot as usize]
    }

    /// Records the nearest cluster of a slot that is no reverse neighbour, and makes the slot a
    /// reverse neighbour.
    pub fn set(&mut self, slot: u32, nearest: (f64, u32)) {
        self.of[slot as usize] = nearest;
        self.unknown.remove(&slot);
        let first = &mut self.first_reverse_neighbour[nearest.1 as usize];
        self.next_reverse_neighbour[slot as usize] = std::mem::replace(first, slot);
    }

    /// Marks the nearest cluster of a slot that is no reverse neighbour as not known.
    pub fn forget(&mut self, slot: u32) {
        self.of[slot as usize] = (f64::NAN, NONE);
        self.unknown.insert(slot);
    }

    /// Whether the nearest of a slot was forgotten, and not found again.
    pub fn is_unknown(&self, slot: u32) -> bool {
        self.unknown.contains(&slot)
    }

    /// Whether no nearest was forgotten.
    pub fn are_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// The first slot whose nearest was forgotten.
    pub fn first_unknown(&self) -> Option<u32> {
        self.unknown.first().copied()
    }

    /// The reverse neighbours of a slot.
    pub fn reverse_neighbours(&self, of: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.first_reverse_neighbour[of as usize];
        std::iter::from_fn(move || {
            let neighbour = next;
            next = *self.next_reverse_neighbour.get(neighbour as usize)?;
            Some(neighbour)
        })
    }

    /// Removes the reverse neighbours of a slot.
    pub fn clear_reverse_neighbours_of(&mut self, slot: u32) {
        self.first_reverse_neighbour[slot as usize] = NONE;
    }

    /// Removes all reverse neighbours.
    pub fn clear_reverse_neighbours(&mut self) {
        self.first_reverse_neighbour.fill(NONE);
    }
}
