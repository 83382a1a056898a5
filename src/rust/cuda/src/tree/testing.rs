//! A device for tests, and the host's steps between two launches of the kernels. The device asks a
//! given function for the merges of a problem, and makes the merges on the CPU if the function
//! gives up.

use std::sync::atomic::{AtomicUsize, Ordering};

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::agglomerate::{merges_in_parallel, merges_of, with_cpu_screens};
use gmhclust_core::mahalanobis::{AgglomerationDevice, BoundingBox, Problem};
use gmhclust_core::{Cpu, Device, Merge, Monitor};

use super::arrays::{control, Status, Tree};
use super::clusters::Clusters;

type Grow<'a> =
    dyn Fn(&Problem, &BoundingBox, &Monitor) -> Result<Option<Vec<Merge>>> + Send + Sync + 'a;

pub struct Trees<'a> {
    grow: Box<Grow<'a>>,
    pub cpu: Cpu,
    /// Number of calls of `grow`.
    asked: AtomicUsize,
    /// Number of calls of `grow` that returned merges.
    grown: AtomicUsize,
}

impl<'a> Trees<'a> {
    pub fn new<G>(cpu: Cpu, grow: G) -> Self
    where
        G: Fn(&Problem, &BoundingBox, &Monitor) -> Result<Option<Vec<Merge>>> + Send + Sync + 'a,
    {
        Self {
            grow: Box::new(grow),
            cpu,
            asked: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
        }
    }

    /// Number of calls of `grow`, and number of calls that returned merges.
    pub fn counts(&self) -> (usize, usize) {
        let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (number(&self.asked), number(&self.grown))
    }
}

impl Device for Trees<'_> {
    fn name(&self) -> &'static str {
        "trees"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl AgglomerationDevice for Trees<'_> {
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let problems: Vec<&Problem> = problems.iter().collect();
        merges_in_parallel(&problems, &self.cpu, |problem| {
            merges_of(problem, monitor, |distinct| {
                let merges = (self.grow)(distinct.problem, distinct.bounding_box, monitor)?;
                self.asked.fetch_add(1, Ordering::Relaxed);
                if merges.is_none() {
                    return with_cpu_screens(distinct, monitor);
                }
                self.grown.fetch_add(1, Ordering::Relaxed);
                Ok(merges)
            })
        })
    }
}

/// Fails if the CPU made a tree between two [counts](Trees::counts), `before` and `after`.
pub fn assert_grown(before: (usize, usize), after: (usize, usize), case: &str) {
    let (asked, grown) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(grown, asked, "trees of the device: {case}");
}

/// Prepares the next launch after a launch that ended with `status`.
///
/// `run` runs a step of `host_tree` (kernels/host/tree.cpp): a function of the tree, the clusters,
/// the number of the step, the positions in use, and the clusters that are left. `used` is the
/// number of positions in use. If this function removes gaps, the next launch ends at `until`
/// merges.
///
/// Returns `true` if the tree is complete, `false` if a launch must follow, and `None` if the
/// kernels gave up.
pub fn prepare_launch(
    status: Status,
    tree: &mut Tree,
    clusters: &mut Clusters,
    used: &mut u32,
    (left, until): (u32, u32),
    observations: usize,
    run: impl Fn(&Tree, &Clusters, u32, u32, u32),
) -> Option<bool> {
    match status {
        Status::TimeIsUp => {}
        Status::ManyGone => {
            run(tree, clusters, 4, *used, left);
            tree.use_spare(clusters, left);
            *used = left;
            tree.merges_until = until;
            run(tree, clusters, 0, *used, *used);
        }
        Status::NoRoom => {
            // SAFETY: the control state has CONTROL_WORDS words, both arrays of members have room
            // for all observations, and nothing else uses them now.
            unsafe {
                let control = tree.arrays.control as *mut [u32; control::CONTROL_WORDS];
                (*control)[control::MEMBERS_USED] = 0;
                run(tree, clusters, 5, *used, *used);
                let gathered = tree.arrays.spare_members as *const u32;
                gathered.copy_to_nonoverlapping(tree.arrays.members as *mut u32, observations);
            }
        }
        Status::AllFullSize => {
            tree.all_full_size = 1;
            for step in [3, 0, 1] {
                run(tree, clusters, step, *used, *used);
            }
        }
        Status::AllMerged => return Some(true),
        _ => return None,
    }
    Some(false)
}
