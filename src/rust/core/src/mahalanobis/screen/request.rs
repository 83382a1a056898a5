//! A search on a screen, its answer, and the trait of all screens.

use super::view::ClusterView;
use crate::error::Result;
use crate::roster::Roster;

/// A search for the clusters near one cluster.
#[derive(Debug, Clone)]
pub struct ScreenRequest<'a> {
    pub view: &'a ClusterView,
    /// The search covers the positions before this one.
    pub end: usize,
    /// Number of clusters wanted. The answer holds at least this number of clusters that are not in
    /// `skip`, or all clusters below the limit. So a caller that doubles the capacity finds all
    /// clusters in the end.
    pub capacity: usize,
    /// Clusters whose lower bound is at or above this limit are not wanted. In data units.
    pub limit: f64,
    /// Whether the caller expects about `capacity` clusters below the limit. Then the screen need
    /// not search for a lower limit first.
    pub is_tight: bool,
    /// Slots to leave out, in increasing order.
    pub skip: &'a [u32],
}

/// The answer to a [`ScreenRequest`]: all clusters whose lower bound is below `floor`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScreenAnswer {
    /// Lower bounds, in data units, and slots, in no order.
    pub bounds: Vec<(f64, u32)>,
    /// A lower bound on the distances to all clusters that are not in `bounds`, in data units.
    pub floor: f64,
}

impl ScreenAnswer {
    /// Keeps the `count` nearest clusters, except those that tie with the next one.
    pub fn keep_nearest(&mut self, count: usize) {
        if self.bounds.len() > count {
            let by_bound = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0);
            let (_, &mut (floor, _), _) = self.bounds.select_nth_unstable_by(count, by_bound);
            self.bounds.retain(|&(bound, _)| bound < floor);
            self.floor = floor;
        }
    }
}

/// The active clusters of one problem on a device, which finds lower bounds on their distances.
/// Positions are in order of birth.
pub trait Screen: Send {
    /// Adds a cluster as the youngest.
    fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()>;

    /// Removes a cluster.
    fn remove(&mut self, slot: u32) -> Result<()>;

    /// The position of each slot.
    fn roster(&self) -> &Roster;

    /// Answers all requests. A screen that would otherwise wait for its device calls `meanwhile`,
    /// once.
    fn sweep(
        &mut self,
        requests: &[ScreenRequest<'_>],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<ScreenAnswer>>;

    /// This screen, if several threads can search it at the same time.
    fn on_threads(&self) -> Option<&dyn ThreadedScreen> {
        None
    }

    /// Number of requests in one sweep that keep the device busy.
    fn batch(&self) -> usize;

    /// Number of candidates that the first search for a cluster with this number of members asks
    /// for. A smaller number means more searches, a larger one longer searches; only the time
    /// depends on it.
    fn wanted(&self, _members: usize) -> usize {
        8
    }

    /// Whether another screen would be faster for the remaining `active` clusters.
    fn is_outgrown(&self, active: usize) -> bool;
}

/// A screen that several threads can search at the same time.
pub trait ThreadedScreen: Sync {
    /// Answers a request, with up to this many threads of the pool that it is called in.
    fn answer(&self, request: &ScreenRequest<'_>, threads: usize) -> ScreenAnswer;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_are_kept_and_the_floor_is_below_the_others() {
        let bounds = vec![(4.0, 1), (1.0, 2), (3.0, 3), (2.0, 4), (3.0, 5)];
        let floor = 9.0;
        let answer = ScreenAnswer { bounds, floor };
        let mut all = answer.clone();
        all.keep_nearest(5);
        assert_eq!(all, answer);
        // If several clusters are at the floor, none of them is kept.
        for count in [2, 3] {
            let mut some = answer.clone();
            some.keep_nearest(count);
            some.bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            let bounds = vec![(1.0, 2), (2.0, 4)];
            assert_eq!(some, ScreenAnswer { bounds, floor: 3.0 });
        }
    }
}
