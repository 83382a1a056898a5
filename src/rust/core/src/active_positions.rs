//! The positions of clusters or references in memory, with gaps where clusters were merged into
//! others.

/// Stands for the slot of a gap, and for the position of a slot that is not active.
pub const INACTIVE: u32 = u32::MAX;

/// The map between slots and positions.
#[derive(Debug, Clone)]
pub struct ActivePositions {
    /// By position: the slot, or [`INACTIVE`].
    slots: Vec<u32>,
    /// By slot: the position, or [`INACTIVE`].
    positions: Vec<u32>,
    inactive: usize,
}

impl ActivePositions {
    /// An empty map for slots below `slots`.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: Vec::new(),
            positions: vec![INACTIVE; slots],
            inactive: 0,
        }
    }

    /// Number of positions, gaps included.
    pub fn positions(&self) -> usize {
        self.slots.len()
    }

    /// The position of a slot's cluster.
    pub fn position(&self, slot: u32) -> usize {
        self.positions[slot as usize] as usize
    }

    /// The slot of a position, or [`INACTIVE`].
    pub fn slot(&self, position: usize) -> u32 {
        self.slots[position]
    }

    /// Assigns the next position to a slot; returns it.
    pub fn push(&mut self, slot: u32) -> usize {
        let position = self.slots.len();
        self.slots.push(slot);
        self.positions[slot as usize] = position as u32;
        position
    }

    /// Assigns a position that is a gap to a slot; returns it.
    pub fn refill(&mut self, position: usize, slot: u32) -> usize {
        debug_assert_eq!(self.slots[position], INACTIVE);
        self.slots[position] = slot;
        self.positions[slot as usize] = position as u32;
        self.inactive -= 1;
        position
    }

    /// Turns a slot's position into a gap; returns it.
    pub fn remove(&mut self, slot: u32) -> usize {
        let position = self.position(slot);
        self.slots[position] = INACTIVE;
        self.positions[slot as usize] = INACTIVE;
        self.inactive += 1;
        position
    }

    /// Whether there are enough gaps for closing them to save time.
    pub fn is_sparse(&self) -> bool {
        self.inactive > 64 + self.slots.len() / 8
    }

    /// Closes the gaps; returns, by new position, the old position.
    pub fn compact(&mut self) -> Vec<u32> {
        let kept: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&position| self.slots[position as usize] != INACTIVE)
            .collect();
        for (to, &from) in kept.iter().enumerate() {
            let slot = self.slots[from as usize];
            self.slots[to] = slot;
            self.positions[slot as usize] = to as u32;
        }
        self.slots.truncate(kept.len());
        self.inactive = 0;
        kept
    }
}
