//! The entries of the priority queue of all clusters.

/// The first candidate of a cluster, or its floor. Entries have the order of
/// [`Candidate`](super::candidates::Candidate)s. At equal values, floors come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueEntry {
    /// The bits of the floor, bound or distance.
    pub value: u64,
    pub kind: EntryKind,
    pub lower: u32,
    pub higher: u32,
    pub owner: u32,
    pub owner_birth: u32,
    /// The birth of the other cluster of the pair; meaningless for a floor.
    pub partner_birth: u32,
}

impl QueueEntry {
    pub fn pair(&self) -> (u32, u32) {
        (self.lower, self.higher)
    }

    /// The other cluster of the pair.
    pub fn partner(&self) -> u32 {
        if self.owner == self.lower {
            self.higher
        } else {
            self.lower
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Floor,
    Bound,
    Distance,
}
