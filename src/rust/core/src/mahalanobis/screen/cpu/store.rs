//! The active clusters, in blocks as wide as a vector register.

use super::balls::Balls;
use super::layout::{
    Layout, Row, ERROR, FOURTH, GROUP_LANES, LANES, LARGEST, LOW, THIRD, VARIANCE,
};
use super::target::WhitenedTarget;
use crate::error::Result;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::view::ClusterView;
use crate::memory;
use crate::roster::Roster;

/// The active clusters, in order of birth.
#[derive(Debug)]
pub struct ClusterStore {
    pub layout: Layout,
    pub roster: Roster,
    /// Of each block, [`Layout::height`] rows.
    pub blocks: Vec<Row>,
    pub balls: Balls,
    /// By slot; `None` for the identity.
    pub targets: Vec<Option<Box<WhitenedTarget>>>,
}

impl ClusterStore {
    /// Empty, for clusters in slots below `slots`.
    pub fn new(slots: usize, layout: Layout) -> Self {
        Self {
            layout,
            roster: Roster::new(slots),
            blocks: Vec::new(),
            balls: Balls::default(),
            targets: vec![None; slots],
        }
    }

    /// Adds a cluster as the youngest.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        let (height, coordinates) = (self.layout.height(), self.layout.coordinates());
        let position = self.roster.push(slot);
        let lane = position % LANES;
        if lane == 0 {
            memory::reserve(&mut self.blocks, "the screen of the clusters needs", height)?;
            self.blocks.resize(self.blocks.len() + height, [0.0; LANES]);
            let start = self.blocks.len() - height;
            self.blocks[start + coordinates + LOW] = [f32::NAN; LANES];
        }
        let block = &mut self.blocks[position / LANES * height..][..height];
        for (row, &value) in block.iter_mut().zip(view.mean.iter().chain(&view.rest)) {
            row[lane] = value;
        }
        let scalars = &mut block[coordinates..];
        scalars[ERROR][lane] = view.error;
        scalars[LOW][lane] = view.low;
        if self.layout.distance == Distance::FullMahalanobis {
            scalars[VARIANCE][lane] = view.variance;
            scalars[FOURTH][lane] = view.fourth;
            scalars[LARGEST][lane] = view.largest;
            scalars[THIRD][lane] = view.third;
        }
        self.targets[slot as usize] = WhitenedTarget::new(view);
        if self.roster.positions() == (self.balls.len() + 1) * GROUP_LANES {
            self.balls.enclose_next(&self.blocks, &self.layout);
        }
        Ok(())
    }

    /// Removes a cluster.
    pub fn remove(&mut self, slot: u32) {
        let position = self.roster.remove(slot);
        let low = position / LANES * self.layout.height() + self.layout.coordinates() + LOW;
        // A comparison with NaN is false, so no bound of this lane passes a sweep.
        self.blocks[low][position % LANES] = f32::NAN;
        self.targets[slot as usize] = None;
        if self.roster.is_sparse() {
            self.compact();
        }
    }

    /// Closes the gaps and keeps the order of birth.
    fn compact(&mut self) {
        let height = self.layout.height();
        let kept = self.roster.compact();
        for (to, from) in kept.iter().map(|&from| from as usize).enumerate() {
            for k in 0..height {
                self.blocks[to / LANES * height + k][to % LANES] =
                    self.blocks[from / LANES * height + k][from % LANES];
            }
        }
        self.blocks.truncate(kept.len().div_ceil(LANES) * height);
        for lane in kept.len()..kept.len().next_multiple_of(LANES) {
            let low = kept.len() / LANES * height + self.layout.coordinates() + LOW;
            self.blocks[low][lane % LANES] = f32::NAN;
        }
        self.balls.clear();
        for _ in 0..kept.len() / GROUP_LANES {
            self.balls.enclose_next(&self.blocks, &self.layout);
        }
    }
}
