//! The merges of one problem.

use super::agglomeration::Agglomeration;
use super::work::work;
use crate::error::Result;
use crate::mahalanobis::device::AgglomerationDevice;
use crate::mahalanobis::duplicates::Deduplicated;
use crate::mahalanobis::problem::{BoundingBox, Problem};
use crate::mahalanobis::screen::ClusterFrame;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// The merges that make one cluster of `problem`'s clusters, the `number`-th on this device, in
/// order.
///
/// Takes about n²·p operations for centroid distances, n the number of different clusters, and
/// O(n·p + c·p²) memory, c the largest number of clusters of several different members at a time.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, and the errors of the device.
pub fn agglomerate(
    number: usize,
    problem: &Problem,
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let bounding_box = problem.bounding_box();
    if let Some(distinct) = Deduplicated::new(problem, bounding_box.diagonal(), monitor)? {
        monitor.advance(work(problem) - work(&distinct.problem));
        let accepts = |height| distinct.accepts(height);
        let (problem, boxed) = (&distinct.problem, &bounding_box);
        if let Some(merges) = search(number, problem, boxed, device, accepts, monitor)? {
            return Ok(distinct.join(merges));
        }
    }
    let merges = search(number, problem, &bounding_box, device, |_| true, monitor)?;
    Ok(merges.expect("any height is accepted"))
}

/// The merges of a problem; `None` where the height of the first is not accepted.
fn search(
    number: usize,
    problem: &Problem,
    bounding_box: &BoundingBox,
    device: &(impl AgglomerationDevice + ?Sized),
    accepts: impl Fn(f64) -> bool,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    if problem.clusters() == 1 {
        return Ok(Some(Vec::new()));
    }
    if let Some(merges) = device.grow(number, problem, bounding_box, monitor)? {
        return Ok(accepts(merges[0].height).then_some(merges));
    }
    let new_screen = |active, frame: ClusterFrame| device.screen(number, problem, active, frame);
    let mut state = Agglomeration::new(problem, bounding_box, &new_screen, monitor)?;
    state.start()?;
    while state.count() > 1 {
        let head = state.queue.take(0).expect("every active cluster is queued");
        state.settle(head)?;
        if let [first] = &state.merges[..] {
            if !accepts(first.height) {
                return Ok(None);
            }
        }
    }
    // Work that ended early when the monitor said stop is meaningless.
    monitor.check()?;
    Ok(Some(state.merges))
}
