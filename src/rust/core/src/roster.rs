//! Positions of clusters or references in the memory of a device, with gaps where some were merged
//! away.

/// Marks the position of a cluster that was merged away.
pub const GONE: u32 = u32::MAX;

/// Who is where in a screen.
#[derive(Debug, Clone)]
pub struct Roster {
    /// By position, the slot, or [`GONE`].
    slots: Vec<u32>,
    /// By slot.
    positions: Vec<u32>,
    gone: usize,
}

impl Roster {
    /// Empty, for slots below `slots`.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: Vec::new(),
            positions: vec![GONE; slots],
            gone: 0,
        }
    }

    /// Number of positions in use, those of clusters merged away included.
    pub fn positions(&self) -> usize {
        self.slots.len()
    }

    /// Where a slot's cluster is.
    pub fn position(&self, slot: u32) -> usize {
        self.positions[slot as usize] as usize
    }

    /// Whose position it is, or [`GONE`].
    pub fn slot(&self, position: usize) -> u32 {
        self.slots[position]
    }

    /// Gives the next position to a slot.
    pub fn push(&mut self, slot: u32) -> usize {
        let position = self.slots.len();
        self.slots.push(slot);
        self.positions[slot as usize] = position as u32;
        position
    }

    /// Takes a slot's position from it.
    pub fn remove(&mut self, slot: u32) -> usize {
        let position = self.position(slot);
        self.slots[position] = GONE;
        self.positions[slot as usize] = GONE;
        self.gone += 1;
        position
    }

    /// Whether so many positions are empty that closing the gaps pays.
    pub fn is_sparse(&self) -> bool {
        self.gone > 64 + self.slots.len() / 8
    }

    /// Closes the gaps; for each new position, the old one.
    pub fn compact(&mut self) -> Vec<u32> {
        let kept: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&position| self.slots[position as usize] != GONE)
            .collect();
        for (to, &from) in kept.iter().enumerate() {
            let slot = self.slots[from as usize];
            self.slots[to] = slot;
            self.positions[slot as usize] = to as u32;
        }
        self.slots.truncate(kept.len());
        self.gone = 0;
        kept
    }
}
