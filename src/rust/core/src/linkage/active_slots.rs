//! The slots of active clusters: clusters that were not merged into another.

/// Active slots, in increasing order.
#[derive(Debug, Clone)]
pub struct ActiveSlots {
    slots: Vec<u32>,
}

impl ActiveSlots {
    /// The slots 0 to `n` − 1, all active.
    pub fn new(n: usize) -> Self {
        Self {
            slots: (0..n as u32).collect(),
        }
    }

    /// Number of active slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no slot is active.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The lowest active slot.
    pub fn first(&self) -> usize {
        self.slots[0] as usize
    }

    /// The highest active slot.
    pub fn last(&self) -> usize {
        self.slots[self.slots.len() - 1] as usize
    }

    /// All active slots.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().map(|&slot| slot as usize)
    }

    /// Active slots below `slot`.
    pub fn below(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.slots.partition_point(|&s| (s as usize) < slot);
        self.slots[..end].iter().map(|&slot| slot as usize)
    }

    /// Active slots above `slot`.
    pub fn above(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.slots.partition_point(|&s| s as usize <= slot);
        self.slots[start..].iter().map(|&slot| slot as usize)
    }

    /// Removes an active slot. O(n) time.
    pub fn remove(&mut self, slot: usize) {
        let at = self.slots.partition_point(|&s| (s as usize) < slot);
        debug_assert_eq!(self.slots[at] as usize, slot);
        self.slots.remove(at);
    }
}
