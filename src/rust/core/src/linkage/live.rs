//! The slots of the clusters that have not become part of others, in increasing order.

/// Slots that live, of 0, 1, ….
#[derive(Debug, Clone)]
pub struct Live {
    slots: Vec<u32>,
}

impl Live {
    /// All of `n` slots.
    pub fn new(n: usize) -> Self {
        Self {
            slots: (0..n as u32).collect(),
        }
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The lowest.
    pub fn first(&self) -> usize {
        self.slots[0] as usize
    }

    /// The highest.
    pub fn last(&self) -> usize {
        self.slots[self.slots.len() - 1] as usize
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.slots.iter().map(|&slot| slot as usize)
    }

    /// Those below `slot`.
    pub fn below(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.slots.partition_point(|&s| (s as usize) < slot);
        self.slots[..end].iter().map(|&slot| slot as usize)
    }

    /// Those above `slot`.
    pub fn above(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.slots.partition_point(|&s| s as usize <= slot);
        self.slots[start..].iter().map(|&slot| slot as usize)
    }

    /// Leaves one out from now on.
    pub fn remove(&mut self, slot: usize) {
        let at = self.slots.partition_point(|&s| (s as usize) < slot);
        debug_assert_eq!(self.slots[at] as usize, slot);
        self.slots.remove(at);
    }
}
