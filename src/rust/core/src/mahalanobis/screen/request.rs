//! A search on a screen, and its answer.

use super::view::ClusterView;

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
    /// Clusters whose lower bound is at or above this limit, in data units, are not wanted.
    pub limit: f64,
    /// Slots to leave out, in increasing order.
    pub skip: &'a [u32],
}

/// The answer to a [`ScreenRequest`]: of the clusters that are wanted, all whose lower bound is
/// below `floor`, and possibly some at `floor`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreenAnswer {
    /// Lower bounds, in data units, and slots, in no order.
    pub bounds: Vec<(f64, u32)>,
    /// A lower bound on the distances to all clusters that are not in `bounds`, in data units.
    pub floor: f64,
}

impl ScreenAnswer {
    /// Keeps the `count` nearest clusters, except clusters that tie with the next cluster.
    pub fn keep_nearest(&mut self, count: usize) {
        if self.bounds.len() > count {
            let by_bound = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0);
            let (_, &mut (floor, _), _) = self.bounds.select_nth_unstable_by(count, by_bound);
            self.bounds.retain(|&(bound, _)| bound < floor);
            self.floor = floor;
        }
    }
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
