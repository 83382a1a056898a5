//! Preparation on threads: each thread prepares a merge, then the probable next merge of its union
//! (its successor), and so on.
//!
//! Where the metric of a union differs from the metrics of its parts, the union and its nearest
//! neighbour are often nearer than all other pairs. Then their merge is the next merge. Without
//! this preparation, one thread would prepare the next merge while all other threads wait.

use std::cmp::Reverse;

use super::active::ActiveClusters;
use super::candidates::Candidates;
use super::radius::{RadiusEstimate, RadiusFactors};
use super::tentative::{PreparedMerge, TentativeMerge};
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::mahalanobis::screen::ScreenRequest;

/// A pair that is probably merged at this height.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedMerge {
    pub pair: (u32, u32),
    pub height: f64,
}

/// Prepares merges on the threads of a pool.
pub struct Preparer<'s> {
    pub active: &'s ActiveClusters<'s>,
    pub screen: &'s CpuScreen,
    /// Number of candidates that each search asks for.
    pub wanted: usize,
    pub radius: &'s RadiusFactors,
    /// The probable next merges, in order of their heights.
    pub expected: &'s [ExpectedMerge],
    /// Largest number of threads for each search.
    pub threads: usize,
    /// Largest number of successors of a merge.
    pub most_successors: usize,
}

/// An estimate of a search radius, and the number of clusters that the search found.
pub type SearchOutcome = (RadiusEstimate, usize);

impl Preparer<'_> {
    /// Prepares the merge of a pair and its successors.
    pub fn prepare(&self, pair: (u32, u32)) -> (PreparedMerge, Vec<SearchOutcome>) {
        let estimate = RadiusEstimate::new(self.active, pair, self.wanted);
        let tentative = TentativeMerge::new(self.active, pair);
        let mut outcomes = Vec::with_capacity(1 + self.most_successors);
        let mut skip = vec![pair.0, pair.1];
        let prepared = self.with_successors(tentative, estimate, &mut skip, &mut outcomes);
        (prepared, outcomes)
    }

    /// Searches for the candidates of a tentative merge's union, and prepares its successors.
    /// `skip` has the slots of all clusters in the union, in increasing order.
    fn with_successors(
        &self,
        tentative: TentativeMerge,
        estimate: RadiusEstimate,
        skip: &mut Vec<u32>,
        outcomes: &mut Vec<SearchOutcome>,
    ) -> PreparedMerge {
        let limit = self.radius.radius(&estimate);
        let request = ScreenRequest {
            view: &tentative.view,
            end: self.screen.active().positions(),
            capacity: self.wanted,
            limit,
            skip,
        };
        let mut answer = self.screen.answer(&request, self.threads);
        outcomes.push((estimate, answer.bounds.len()));
        answer.keep_nearest(4 * self.wanted);
        let mut prepared = PreparedMerge {
            candidates: Candidates::new(answer, &self.active.births),
            as_of: self.active.next_birth,
            tentative,
            successor: None,
        };
        if outcomes.len() <= self.most_successors {
            prepared.successor = self.successor(&mut prepared, skip, outcomes).map(Box::new);
        }
        prepared
    }

    /// Prepares the probable next merge of a union: the merge with its nearest neighbour. Returns
    /// `None` if the neighbour is not known, if the neighbour is in an expected merge that comes
    /// before, if the merge comes after all expected merges, or if the union lacks moments that the
    /// merge needs.
    fn successor(
        &self,
        prepared: &mut PreparedMerge,
        skip: &mut Vec<u32>,
        outcomes: &mut Vec<SearchOutcome>,
    ) -> Option<PreparedMerge> {
        let horizon = self.expected.last()?.height;
        let (distance, partner) = self.nearest(prepared, skip)?;
        let comes_before = |other: &ExpectedMerge| {
            other.height <= distance && (other.pair.0 == partner || other.pair.1 == partner)
        };
        if distance > horizon || self.expected.iter().any(comes_before) {
            return None;
        }
        let next = prepared.tentative.with_next(self.active, partner)?;
        let estimate = RadiusEstimate::after(self.active, prepared, partner, self.wanted);
        let at = skip.partition_point(|&slot| slot < partner);
        skip.insert(at, partner);
        Some(self.with_successors(next, estimate, skip, outcomes))
    }

    /// The nearest neighbour of the union of the clusters in slots `of`: its distance, then its
    /// slot. Returns `None` if the nearest neighbour is not among the candidates, or if a distance
    /// is costly to compute.
    fn nearest(&self, prepared: &mut PreparedMerge, of: &[u32]) -> Option<(f64, u32)> {
        let union = &prepared.tentative.merged;
        let Candidates { heap, floor, .. } = &mut prepared.candidates;
        loop {
            let mut first = heap.peek_mut()?;
            let Reverse(candidate) = *first;
            if candidate.value >= floor.to_bits() {
                return None;
            }
            if candidate.is_exact {
                return Some((f64::from_bits(candidate.value), candidate.partner));
            }
            let clusters = &self.active.clusters;
            let members = union.part().size() + clusters.size(candidate.partner);
            if self.active.is_costly_for(members) {
                return None;
            }
            let distance = clusters.exact_distance_to_union(union, of, candidate.partner);
            *first = Reverse(candidate.with_distance(distance));
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;
    use crate::mahalanobis::{Distance, Options, Problem, Subthreshold};
    use crate::monitor::Monitor;
    use crate::observations::Observations;

    /// The pairs of a prepared merge and of its successors. The merge is that of the first two
    /// clusters, and `others` are other expected merges.
    fn prepared(others: &[((u32, u32), f64)], most_successors: usize) -> Vec<(u32, u32)> {
        let x = arr2(&[
            [0.0, 0.0],
            [2.0, 0.0],
            [1.0, 1.8],
            [1.0, -1.4],
            [50.0, 0.0],
            [52.5, 0.0],
        ]);
        let x = Observations::new(x).unwrap();
        let options = Options {
            threshold: 6.0,
            subthreshold: Subthreshold::Euclid,
            distance: Distance::Centroid,
            normalize: false,
            apriori_intra: true,
        };
        let problem = Problem::of_observations(&x, 0..6, options);
        let (bounding_box, monitor) = (problem.bounding_box(), Monitor::default());
        let rule = options.shape_rule(false);
        let mut active = ActiveClusters::new(&problem, &bounding_box, rule, &monitor).unwrap();
        let mut screen = CpuScreen::new(6, &active.frame);
        for slot in 0..6 {
            active.assign_birth(slot);
            screen.push(slot, &active.view(slot)).unwrap();
        }
        let others = others
            .iter()
            .map(|&(pair, height)| ExpectedMerge { pair, height });
        let first = ExpectedMerge {
            pair: (0, 1),
            height: 2.0,
        };
        let expected: Vec<ExpectedMerge> = std::iter::once(first).chain(others).collect();
        let preparer = Preparer {
            active: &active,
            screen: &screen,
            wanted: 4,
            radius: &RadiusFactors::default(),
            expected: &expected,
            threads: 1,
            most_successors,
        };
        let (prepared, outcomes) = preparer.prepare((0, 1));
        let mut next = Some(&prepared);
        let all = std::iter::from_fn(|| {
            let merge = next?;
            next = merge.successor.as_deref();
            Some(merge.tentative.pair)
        });
        let all: Vec<(u32, u32)> = all.collect();
        assert_eq!(outcomes.len(), all.len());
        all
    }

    #[test]
    fn the_union_of_a_merge_is_followed_as_far_as_it_comes_next() {
        assert_eq!(prepared(&[], 0), [(0, 1)]);
        assert_eq!(prepared(&[], 1), [(0, 1), (0, 3)]);
        // The third cluster is 2.27 away from the union of the three other clusters.
        assert_eq!(prepared(&[], 4), [(0, 1), (0, 3)]);
        assert_eq!(prepared(&[((4, 5), 2.5)], 4), [(0, 1), (0, 3), (0, 2)]);
    }

    #[test]
    fn a_neighbour_that_is_merged_before_is_no_successor() {
        assert_eq!(prepared(&[((3, 4), 1.3)], 4), [(0, 1)]);
        assert_eq!(prepared(&[((3, 4), 1.5)], 4), [(0, 1), (0, 3)]);
    }
}
