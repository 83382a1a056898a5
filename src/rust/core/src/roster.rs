//! The positions of clusters or references in memory, with gaps where clusters were merged into
//! others.

/// Marks the position of a cluster that was merged into another.
pub const GONE: u32 = u32::MAX;

/// The map between slots and positions.
#[derive(Debug, Clone)]
pub struct Roster {
    /// By position: the slot, or [`GONE`].
    slots: Vec<u32>,
    /// By slot: the position, or [`GONE`].
    positions: Vec<u32>,
    gone: usize,
}

impl Roster {
    /// An empty map for slots below `slots`.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: Vec::new(),
            positions: vec![GONE; slots],
            gone: 0,
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

    /// The slot of a position, or [`GONE`].
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
        debug_assert_eq!(self.slots[position], GONE);
        self.slots[position] = slot;
        self.positions[slot as usize] = position as u32;
        self.gone -= 1;
        position
    }

    /// Turns a slot's position into a gap; returns it.
    pub fn remove(&mut self, slot: u32) -> usize {
        let position = self.position(slot);
        self.slots[position] = GONE;
        self.positions[slot as usize] = GONE;
        self.gone += 1;
        position
    }

    /// Whether there are enough gaps for closing them to save time.
    pub fn is_sparse(&self) -> bool {
        self.gone > 64 + self.slots.len() / 8
    }

    /// Closes the gaps; returns, by new position, the old position.
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
