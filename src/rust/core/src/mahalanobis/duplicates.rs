//! Equal observations: their merges come first, and follow from the definition without a search.
//!
//! Call clusters *equal* when all their members are the same point. Their distance is 0, whatever
//! their shapes: every member of one lies on the mean of the other. Their union is again a cluster
//! whose members are all that point. Its scatter is zero, so its covariance is singular and its
//! shape is the identity (up to a scale of 1 ± rounding). As long as no other pair is at distance
//! 0, all pairs at distance 0 lie within sets of equal clusters, and the order of (distance, lower
//! slot, higher slot) merges one whole set after the other: sets in the order of their least slots,
//! and slots within a set in increasing order. This holds also when a merge makes all clusters
//! full-size: distances are recomputed, and zeros stay zeros. So the agglomeration can start with
//! one cluster per set.
//!
//! Two cases break the condition: a cluster of several different points whose mean is exactly that
//! of another cluster (centroid distances, above apriori clusters), and different points whose
//! computed distance is 0. In both cases, the first merge by distance is at height 0 or nearly 0
//! ([`Deduplicated::accepts`]). Then the agglomeration starts again, without this shortcut.

use super::distance;
use super::problem::{Problem, RowNumbers};
use crate::distinct::Distinct;
use crate::error::Result;
use crate::matrix::RowSlices;
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A problem in which equal clusters are one cluster.
pub struct Deduplicated<'a> {
    pub problem: Problem<'a>,
    /// The merges of equal clusters, in slots of the original problem.
    merges: Vec<Merge>,
    /// By slot, the slot in the original problem.
    slots: Vec<u32>,
    /// The height that the first merge must exceed; see [`Deduplicated::accepts`].
    margin: f64,
}

impl<'a> Deduplicated<'a> {
    /// Unites the equal clusters of `problem`; `None` if all clusters differ. `diagonal` is the
    /// diagonal of the problem's bounding box.
    ///
    /// # Errors
    /// As [`Distinct::new`].
    pub fn new(problem: &Problem<'a>, diagonal: f64, monitor: &Monitor) -> Result<Option<Self>> {
        let (points, rows): (Vec<u32>, Vec<u32>) = (0..problem.clusters() as u32)
            .filter_map(|slot| Some((slot, point(problem, slot)?)))
            .unzip();
        let row = |at: u32| problem.x.row_slice(rows[at as usize] as usize);
        let distinct = Distinct::of_rows(rows.len(), row, monitor)?;
        if distinct.count() == rows.len() {
            return Ok(None);
        }
        let what = "clusters of equal observations need";
        let mut merges = memory::room(what, problem.clusters())?;
        let mut slots = memory::room(what, problem.clusters())?;
        let mut starts = memory::room(what, problem.clusters() + 1)?;
        let mut members: Vec<u32> = memory::room(what, problem.members.len())?;
        let mut is_united = memory::zeros(what, problem.clusters())?;
        let mut sets = distinct.sets().peekable();
        starts.push(0);
        for slot in 0..problem.clusters() as u32 {
            if is_united[slot as usize] {
                continue;
            }
            slots.push(slot);
            members.extend(problem.members_of(slot as usize));
            // Both the slots and the sets' least slots increase.
            let set = sets.next_if(|set| points[set[0] as usize] == slot);
            for &at in set.unwrap_or_default().iter().skip(1) {
                let higher = points[at as usize];
                is_united[higher as usize] = true;
                members.extend(problem.members_of(higher as usize));
                merges.push(Merge {
                    lower: slot,
                    higher,
                    height: 0.0,
                });
            }
            starts.push(members.len());
        }
        Ok(Some(Self {
            problem: Problem {
                members: RowNumbers::Listed(members),
                starts: Some(starts),
                ..*problem
            },
            merges,
            slots,
            margin: margin(problem, diagonal),
        }))
    }

    /// Whether only equal clusters are at distance 0, given the height of the first merge of
    /// [`Deduplicated::problem`].
    ///
    /// While equal clusters are merged, the distances to them change by rounding; `margin` is
    /// larger than this change.
    pub fn accepts(&self, height: f64) -> bool {
        height > self.margin
    }

    /// The merges of the original problem, given the merges of [`Deduplicated::problem`].
    pub fn join(self, later: Vec<Merge>) -> Vec<Merge> {
        let slot = |slot: u32| self.slots[slot as usize];
        let mut merges = self.merges;
        merges.extend(later.into_iter().map(|merge| Merge {
            lower: slot(merge.lower),
            higher: slot(merge.higher),
            height: merge.height,
        }));
        merges
    }
}

/// An upper bound on a computed distance between equal clusters, which differs from 0 by the
/// rounding of identity shapes and of sums of distances.
fn margin(problem: &Problem, diagonal: f64) -> f64 {
    let p = problem.x.ncols() as f64;
    let log2_terms = distance::log2_ceil(problem.members.len());
    let quanta = distance::quanta(2.0 * p.sqrt(), diagonal, log2_terms);
    (8.0 * quanta.rounding()).max(LEAST_DISTANCE)
}

/// The distance below which squared differences of coordinates may underflow (the least normal
/// number is 2.2e-308), so that distances lose digits. In data units.
const LEAST_DISTANCE: f64 = 1e-140;

/// The first member of a cluster, if all members are equal observations.
fn point(problem: &Problem, slot: u32) -> Option<u32> {
    let mut rows = problem.rows_of(slot as usize);
    let first = rows.next()?;
    let all_equal = rows.all(|row| row == first);
    all_equal.then_some(problem.members.at(problem.indices_of(slot as usize).start))
}
