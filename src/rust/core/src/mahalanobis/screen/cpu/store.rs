//! The active clusters, in blocks as wide as a vector register.

use super::balls::Balls;
use super::layout::{
    Layout, Row, ERROR, FOURTH, GROUP, GROUP_LANES, LANES, LARGEST, STRETCH, THIRD, VARIANCE,
};
use super::target::WhitenedTarget;
use crate::active_positions::ActivePositions;
use crate::error::Result;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::view::ClusterView;
use crate::memory;

/// First words of a memory error, before the number of bytes.
const SCREEN: &str = "the screen of the clusters needs";

/// The active clusters, in places of a spatial order: one block often holds clusters that are near
/// each other.
#[derive(Debug)]
pub struct ClusterStore {
    pub layout: Layout,
    /// The slots in order of birth.
    pub active: ActivePositions,
    /// The slots in spatial order, the order in which the first clusters were pushed. A later
    /// cluster takes the place of a cluster that was just removed: the two clusters of a merge are
    /// removed before their union is pushed.
    pub places: ActivePositions,
    /// Whether no cluster was removed yet. If so, the places equal the positions.
    is_in_order: bool,
    /// Places from which clusters were removed since the last push.
    vacated: Vec<usize>,
    /// The blocks, [`Layout::height`] rows each.
    pub blocks: Vec<Row>,
    /// The balls around the complete groups.
    pub group_balls: Balls,
    /// The balls around the blocks of the complete groups.
    pub block_balls: Balls,
    /// The whitening factors by place; `None` for the identity.
    pub targets: Vec<Option<WhitenedTarget>>,
}

impl ClusterStore {
    /// An empty store for clusters in slots below `slots`.
    pub fn new(slots: usize, layout: Layout) -> Self {
        Self {
            layout,
            active: ActivePositions::new(slots),
            places: ActivePositions::new(slots),
            is_in_order: true,
            vacated: Vec::new(),
            blocks: Vec::new(),
            group_balls: Balls::new(GROUP),
            block_balls: Balls::new(1),
            targets: Vec::new(),
        }
    }

    /// Adds a cluster as the youngest.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        self.active.push(slot);
        let place = match self.nearest_vacated(view) {
            Some(place) => self.places.refill(place, slot),
            None => self.append(slot)?,
        };
        self.vacated.clear();
        self.write(place, view);
        self.targets[place] = WhitenedTarget::new(view);
        self.enclose(place);
        if self.places.is_sparse() {
            self.compact();
        }
        Ok(())
    }

    /// Removes a cluster.
    pub fn remove(&mut self, slot: u32) {
        self.active.remove(slot);
        if self.active.is_sparse() {
            self.active.compact();
        }
        let place = self.places.remove(slot);
        let least_stretch =
            place / LANES * self.layout.height() + self.layout.coordinates() + STRETCH;
        // A comparison with NaN is false, so no bound of this lane passes a sweep.
        self.blocks[least_stretch][place % LANES] = f32::NAN;
        self.targets[place] = None;
        self.vacated.push(place);
        self.is_in_order = false;
    }

    /// Number of leading blocks that together hold all clusters at positions before this one.
    pub fn blocks_before(&self, position: usize) -> usize {
        let places = if self.is_in_order {
            position
        } else {
            self.places.positions()
        };
        places.div_ceil(LANES)
    }

    /// The vacated place whose removed cluster was nearest to `view`.
    fn nearest_vacated(&self, view: &ClusterView) -> Option<usize> {
        let height = self.layout.height();
        let square = |place: usize| {
            let block = &self.blocks[place / LANES * height..][..height];
            let pairs = view.mean.iter().zip(block);
            pairs
                .map(|(mean, row)| (mean - row[place % LANES]).powi(2))
                .sum::<f32>()
        };
        let places = self.vacated.iter().copied();
        places.min_by(|&a, &b| square(a).total_cmp(&square(b)))
    }

    /// Gives a slot the place after the last place.
    fn append(&mut self, slot: u32) -> Result<usize> {
        let place = self.places.push(slot);
        memory::reserve(&mut self.targets, SCREEN, 1)?;
        self.targets.push(None);
        if place % LANES == 0 {
            let height = self.layout.height();
            memory::reserve(&mut self.blocks, SCREEN, height)?;
            self.blocks.resize(self.blocks.len() + height, [0.0; LANES]);
            let least_stretch = self.blocks.len() - height + self.layout.coordinates() + STRETCH;
            self.blocks[least_stretch] = [f32::NAN; LANES];
        }
        Ok(place)
    }

    /// Writes a cluster to its place.
    fn write(&mut self, place: usize, view: &ClusterView) {
        let (height, lane) = (self.layout.height(), place % LANES);
        let block = &mut self.blocks[place / LANES * height..][..height];
        for (row, &value) in block.iter_mut().zip(view.mean.iter().chain(&view.rest)) {
            row[lane] = value;
        }
        let scalars = &mut block[self.layout.coordinates()..];
        scalars[ERROR][lane] = view.error;
        scalars[STRETCH][lane] = view.least_stretch;
        if self.layout.distance == Distance::FullMahalanobis {
            scalars[VARIANCE][lane] = view.variance;
            scalars[FOURTH][lane] = view.fourth;
            scalars[LARGEST][lane] = view.largest_eigenvalue;
            scalars[THIRD][lane] = view.third;
        }
    }

    /// Extends the balls to contain the cluster of a place.
    fn enclose(&mut self, place: usize) {
        let (index, height) = (place / LANES, self.layout.height());
        if index < self.block_balls.len() {
            let block = &self.blocks[index * height..][..height];
            let (group, lane) = (place / GROUP_LANES, place % LANES);
            self.group_balls.include(group, block, lane, &self.layout);
            self.block_balls.enclose(index, &self.blocks, &self.layout);
        } else if self.places.positions() == (self.group_balls.len() + 1) * GROUP_LANES {
            self.enclose_next_group();
        }
    }

    fn enclose_next_group(&mut self) {
        self.group_balls.enclose_next(&self.blocks, &self.layout);
        for _ in 0..GROUP {
            self.block_balls.enclose_next(&self.blocks, &self.layout);
        }
    }

    /// Closes the gaps and keeps the order of the places.
    fn compact(&mut self) {
        let height = self.layout.height();
        let kept = self.places.compact();
        for (to, from) in kept.iter().map(|&from| from as usize).enumerate() {
            for k in 0..height {
                self.blocks[to / LANES * height + k][to % LANES] =
                    self.blocks[from / LANES * height + k][from % LANES];
            }
            self.targets.swap(to, from);
        }
        self.targets.truncate(kept.len());
        self.blocks.truncate(kept.len().div_ceil(LANES) * height);
        for lane in kept.len()..kept.len().next_multiple_of(LANES) {
            let least_stretch = kept.len() / LANES * height + self.layout.coordinates() + STRETCH;
            self.blocks[least_stretch][lane % LANES] = f32::NAN;
        }
        self.group_balls.clear();
        self.block_balls.clear();
        for _ in 0..kept.len() / GROUP_LANES {
            self.enclose_next_group();
        }
    }
}
