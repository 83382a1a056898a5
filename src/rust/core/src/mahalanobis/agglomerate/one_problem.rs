//! The merges of one problem: first the merges of equal clusters, then all others, by distance.

use super::agglomeration::Agglomeration;
use super::work::work;
use crate::error::Result;
use crate::mahalanobis::duplicates::Deduplicated;
use crate::mahalanobis::problem::{BoundingBox, Problem};
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A problem that needs a search for its merges: the caller's problem, or the caller's problem
/// after the merges of its equal clusters.
#[derive(Clone, Copy)]
pub struct DistinctProblem<'p, 'x> {
    pub problem: &'p Problem<'x>,
    /// The bounding box of all observations.
    pub bounding_box: &'p BoundingBox,
    /// The merges of equal clusters; `None` for the caller's problem itself.
    united: Option<&'p Deduplicated<'x>>,
}

impl DistinctProblem<'_, '_> {
    /// Whether the first merge by distance, at this height, comes after all merges of equal
    /// clusters. If not, the merges of this problem are discarded.
    pub fn accepts(&self, height: f64) -> bool {
        self.united.is_none_or(|united| united.accepts(height))
    }
}

/// A problem and the merges of its equal clusters, which need no search.
pub struct UnitedProblem<'p, 'x> {
    problem: &'p Problem<'x>,
    bounding_box: BoundingBox,
    /// `None` if all clusters differ.
    united: Option<Deduplicated<'x>>,
}

impl<'p, 'x> UnitedProblem<'p, 'x> {
    /// Finds the bounding box and the equal clusters of a problem. Takes O(n·p) time.
    ///
    /// # Errors
    /// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if there is not enough memory.
    pub fn new(problem: &'p Problem<'x>, monitor: &Monitor) -> Result<Self> {
        let bounding_box = problem.bounding_box();
        let united = Deduplicated::new(problem, bounding_box.diagonal(), monitor)?;
        Ok(Self {
            problem,
            bounding_box,
            united,
        })
    }

    /// The merges of the problem, in their order, until it is one cluster. `by_distance` returns
    /// all merges but those of equal clusters, or `None` if the first of them is not
    /// [accepted](DistinctProblem::accepts). If so, `by_distance` is called again, with the
    /// original problem.
    ///
    /// # Errors
    /// The errors of `by_distance`.
    pub fn merges(
        self,
        monitor: &Monitor,
        by_distance: impl Fn(DistinctProblem<'_, '_>) -> Result<Option<Vec<Merge>>>,
    ) -> Result<Vec<Merge>> {
        let accepted = |distinct: DistinctProblem| {
            if distinct.problem.clusters() == 1 {
                return Ok(Some(Vec::new()));
            }
            let merges = by_distance(distinct)?;
            Ok(merges.filter(|merges| distinct.accepts(merges[0].height)))
        };
        let Self {
            problem,
            ref bounding_box,
            united,
        } = self;
        if let Some(united) = united {
            monitor.advance(work(problem.clusters()) - work(united.problem.clusters()));
            let distinct = DistinctProblem {
                problem: &united.problem,
                bounding_box,
                united: Some(&united),
            };
            if let Some(merges) = accepted(distinct)? {
                return Ok(united.join(merges));
            }
        }
        let merges = accepted(DistinctProblem {
            problem,
            bounding_box,
            united: None,
        })?;
        Ok(merges.expect("any height is accepted"))
    }
}

/// The merges of a problem, as [`UnitedProblem::merges`] makes them.
///
/// # Errors
/// As [`UnitedProblem::new`], and the errors of `by_distance`.
pub fn merges_of(
    problem: &Problem,
    monitor: &Monitor,
    by_distance: impl Fn(DistinctProblem<'_, '_>) -> Result<Option<Vec<Merge>>>,
) -> Result<Vec<Merge>> {
    UnitedProblem::new(problem, monitor)?.merges(monitor, by_distance)
}

/// The merges of a problem by the generic algorithm, on the threads of the caller's pool. Returns
/// `None` if the first merge is not [accepted](DistinctProblem::accepts).
///
/// Takes about n²·p operations for n clusters in p columns with centroid distances. Takes O(n·p +
/// c·p²) memory, where c is the largest number of clusters with several different members that are
/// active at the same time.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if there is not enough memory.
pub fn with_cpu_screens(
    distinct: DistinctProblem<'_, '_>,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    let DistinctProblem {
        problem,
        bounding_box,
        ..
    } = distinct;
    let mut state = Agglomeration::new(problem, bounding_box, monitor)?;
    state.start()?;
    while state.count() > 1 {
        let head = state
            .queue
            .take(0)
            .expect("all active clusters but the oldest are queued");
        state.process(head)?;
        if let [first] = &state.merges[..] {
            if !distinct.accepts(first.height) {
                return Ok(None);
            }
        }
    }
    // If the monitor said stop, some work ended early, and the merges are meaningless.
    monitor.check()?;
    Ok(Some(state.merges))
}

/// The merges of a problem, in their order, until the problem is one cluster. Uses the threads of
/// the caller's pool.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, `Error::Memory` if there is not enough memory.
pub fn merges_on_cpu(problem: &Problem, monitor: &Monitor) -> Result<Vec<Merge>> {
    merges_of(problem, monitor, |distinct| {
        with_cpu_screens(distinct, monitor)
    })
}
