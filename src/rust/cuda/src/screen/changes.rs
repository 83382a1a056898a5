//! Changes of the clusters that were not sent to the device yet.

use gmhclust_core::mahalanobis::screen::ClusterView;

use super::wire::{
    as_words, entry_factor, entry_scalar, entry_words, Scalars, ENTRY_POSITION, LOW, NO_SHAPE,
    SHAPE,
};

/// Changes since the last batch of requests, in the wire format.
pub struct Changes {
    dimensions: usize,
    /// Positions of clusters that were merged away.
    pub removed: Vec<u32>,
    /// Entries of new clusters.
    pub added: Vec<u32>,
    /// The number of each factor in `factors`.
    pub shaped: Vec<u32>,
    /// Whitening factors of new clusters, column by column.
    pub factors: Vec<f32>,
}

impl Changes {
    pub fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            removed: Vec::new(),
            added: Vec::new(),
            shaped: Vec::new(),
            factors: Vec::new(),
        }
    }

    /// Number of words of all changes.
    pub fn len(&self) -> usize {
        self.removed.len() + self.added.len() + self.shaped.len() + self.factors.len()
    }

    /// Number of new clusters.
    pub fn added_count(&self) -> usize {
        self.added.len() / entry_words(self.dimensions)
    }

    pub fn clear(&mut self) {
        self.removed.clear();
        self.added.clear();
        self.shaped.clear();
        self.factors.clear();
    }

    /// Adds a cluster at a position.
    pub fn add(&mut self, position: u32, view: &ClusterView, shape: u32) {
        self.added.push(position);
        self.added.extend_from_slice(as_words(&view.mean));
        self.added
            .extend_from_slice(Scalars::new(view, shape).as_words());
        self.added.push(self.shaped.len() as u32);
        if shape != NO_SHAPE {
            self.shaped.push(shape);
            self.factors.extend_from_slice(view.columns());
        }
    }

    /// Removes the cluster at a position.
    pub fn remove(&mut self, position: u32) {
        if !self.withdraw(position) {
            self.removed.push(position);
        }
    }

    /// Invalidates the entry of a cluster that was not sent to the device yet, if there is one,
    /// since the memory of its factor may already belong to another cluster. Returns whether there
    /// was an entry.
    fn withdraw(&mut self, position: u32) -> bool {
        let p = self.dimensions;
        let mut entries = self.added.chunks_mut(entry_words(p)).rev();
        let Some(entry) = entries.find(|entry| entry[ENTRY_POSITION] == position) else {
            return false;
        };
        entry[entry_scalar(p, LOW)] = f32::NAN.to_bits();
        if entry[entry_scalar(p, SHAPE)] != NO_SHAPE {
            self.shaped[entry[entry_factor(p)] as usize] = NO_SHAPE;
        }
        entry[entry_scalar(p, SHAPE)] = NO_SHAPE;
        true
    }
}
