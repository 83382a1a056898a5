//! Lloyd's iterations, which compare centers only with observations that may change their cluster.

use ndarray::Array2;
use rayon::prelude::*;

use super::device::{Assigned, Start};
use super::exact::{ExactCenters, TwoLeast};
use super::frame::Frame;
use super::margin::{square, Bounds, Margin};
use super::members::{means, OBSERVATIONS_AT_A_TIME};
use super::screen::CenterScreen;
use super::{seed, CLUSTERS};
use crate::error::Result;
use crate::matrix::{self, RowSlices, STANDARD_LAYOUT};
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Observations;

/// Number of pairs of coordinates that a task compares: a fraction of a second. If larger, an
/// interrupt is answered late.
const COORDINATE_PAIRS_AT_A_TIME: usize = 1 << 28;

/// Smallest number of observations per task, however many centers there are: enough to use centers
/// many times while they are in the cache. Only the time depends on it.
const FEWEST_OBSERVATIONS: usize = 96;

/// Clusters the rows of `x` on the threads of the calling pool.
/// [`super::cluster()`] must have checked the centers and values.
///
/// # Errors
/// As [`super::KMeansDevice::iterate`].
pub fn iterate(
    x: &Observations,
    start: Start,
    iterations: usize,
    frame: &Frame,
    monitor: &Monitor,
) -> Result<Assigned> {
    memory::check_working("k-means", x.nrows(), 90)?;
    let centers = match start {
        Start::Centers(centers) => matrix::stacked(&[centers], x.ncols())?,
        Start::Draws(uniforms) => seed::seed(x, frame.scale, uniforms, monitor)?,
    };
    let mut lloyd = Lloyd::new(x, centers, frame)?;
    let iterations = lloyd.run(iterations, monitor)?;
    Ok(Assigned {
        cluster: memory::collected(CLUSTERS, lloyd.clusters())?,
        centers: lloyd.centers,
        iterations,
        sums: None,
    })
}

/// Upper bounds on the distances that centers have moved.
struct Moves {
    /// By center, the bound on the distance that it has moved.
    of: Vec<f64>,
    /// The center that moved the farthest.
    farthest: usize,
    /// The greatest bound of the other centers.
    second: f64,
}

impl Moves {
    fn new(of: Vec<f64>) -> Self {
        let (mut farthest, mut second) = (0, 0.0);
        for (center, &moved) in of.iter().enumerate().skip(1) {
            if moved > of[farthest] {
                second = of[farthest];
                farthest = center;
            } else if moved > second {
                second = moved;
            }
        }
        Self {
            of,
            farthest,
            second,
        }
    }

    /// The greatest bound of centers other than this one.
    fn of_others(&self, center: usize) -> f64 {
        if center == self.farthest {
            self.second
        } else {
            self.of[self.farthest]
        }
    }
}

/// The state of an observation between two iterations.
#[derive(Debug, Clone, Copy)]
struct Assignment {
    /// The number of the observation's cluster; [`NONE`] before the first iteration.
    cluster: u32,
    bounds: Bounds,
}

/// The cluster of an observation before the first iteration.
const NONE: u32 = u32::MAX;

/// The state between two iterations.
struct Lloyd<'a> {
    x: &'a Observations,
    k: usize,
    margin: Margin,
    frame: &'a Frame,
    centers: Array2<f64>,
    assignments: Vec<Assignment>,
}

impl<'a> Lloyd<'a> {
    fn new(x: &'a Observations, centers: Array2<f64>, frame: &'a Frame) -> Result<Self> {
        let unknown = Assignment {
            cluster: NONE,
            bounds: Bounds {
                own: f64::INFINITY,
                others: 0.0,
            },
        };
        Ok(Self {
            x,
            k: centers.nrows(),
            margin: Margin::new(x.ncols()),
            frame,
            centers,
            assignments: memory::filled(CLUSTERS, x.nrows(), unknown)?,
        })
    }

    /// Assigns and updates until no assignment changes; returns [`super::KMeans::iterations`].
    fn run(&mut self, most: usize, monitor: &Monitor) -> Result<usize> {
        let n = self.x.nrows();
        monitor.expect((n * most) as u64);
        let mut moves = None;
        for iteration in 1..=most {
            if !self.assign(moves.as_ref(), monitor)? {
                return Ok(iteration);
            }
            moves = Some(self.update()?);
            monitor.advance(n as u64);
        }
        Ok(most + 1)
    }

    /// Assigns the observations whose nearest center may have changed by the last moves of the
    /// centers; returns whether an assignment changed.
    fn assign(&mut self, moves: Option<&Moves>, monitor: &Monitor) -> Result<bool> {
        let centers = self.centers.values();
        let comparison = Comparison {
            screen: Frame::is_useful(self.x.ncols())
                .then(|| CenterScreen::new(centers, self.frame))
                .transpose()?,
            exact: ExactCenters::new(centers, self.x.ncols())?,
            centers: &self.centers,
            margin: self.margin,
        };
        let x = self.x;
        let rows = COORDINATE_PAIRS_AT_A_TIME / self.centers.len();
        let rows = rows.clamp(FEWEST_OBSERVATIONS, OBSERVATIONS_AT_A_TIME);
        self.assignments
            .par_chunks_mut(rows)
            .enumerate()
            .map(|(chunk, assignments)| {
                monitor.check()?;
                let first = chunk * rows;
                let row = |at: usize| x.row_slice(first + at);
                let open: Vec<usize> = (0..assignments.len())
                    .filter(|&at| comparison.may_change(row(at), &mut assignments[at], moves))
                    .collect();
                let views: Vec<&[f64]> = open.iter().map(|&at| row(at)).collect();
                let mut changed = false;
                for (at, found) in open.into_iter().zip(comparison.assign(&views)) {
                    changed |= assignments[at].cluster != found.cluster;
                    assignments[at] = found;
                }
                Ok(changed)
            })
            .try_reduce(|| false, |one, other| Ok(one || other))
    }

    /// The number of the cluster of each observation.
    fn clusters(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.assignments.iter().map(|assigned| assigned.cluster)
    }

    /// Moves every center with members to their mean.
    fn update(&mut self) -> Result<Moves> {
        let (p, margin) = (self.x.ncols(), self.margin);
        let assignments = &self.assignments;
        let (means, sizes) = means(self.x, self.k, |i| assignments[i].cluster)?;
        let centers = self.centers.as_slice_mut().expect(STANDARD_LAYOUT);
        let moved = centers
            .chunks_mut(p)
            .zip(means.values().chunks(p))
            .zip(sizes);
        let moved = moved.map(|((center, mean), size)| {
            if size == 0 {
                return 0.0;
            }
            let moved = margin.above(square(center, mean).sqrt());
            center.copy_from_slice(mean);
            moved
        });
        Ok(Moves::new(moved.collect()))
    }
}

/// Compares observations with all centers of an iteration.
struct Comparison<'a> {
    /// `None` if bounds in single precision are not useful.
    screen: Option<CenterScreen<'a>>,
    exact: ExactCenters,
    centers: &'a Array2<f64>,
    margin: Margin,
}

impl Comparison<'_> {
    /// Whether an observation's nearest center may have changed, given the last moves of the
    /// centers. Updates its bounds.
    fn may_change(&self, row: &[f64], assigned: &mut Assignment, moves: Option<&Moves>) -> bool {
        let Some(moves) = moves else {
            return true;
        };
        let (cluster, margin) = (assigned.cluster as usize, self.margin);
        let bounds = &mut assigned.bounds;
        bounds.own = margin.above(bounds.own + moves.of[cluster]);
        bounds.others = margin.below(bounds.others - moves.of_others(cluster));
        if !margin.proves(bounds) {
            bounds.own = self.own(row, cluster);
        }
        !margin.proves(bounds)
    }

    /// An upper bound on the distance to a center.
    fn own(&self, row: &[f64], center: usize) -> f64 {
        let square = square(row, self.centers.row_slice(center));
        self.margin.above(square.sqrt())
    }

    /// The assignments of observations.
    fn assign(&self, rows: &[&[f64]]) -> Vec<Assignment> {
        let Some(screen) = &self.screen else {
            return self.assign_exactly(rows);
        };
        let mut found: Vec<Assignment> = rows
            .iter()
            .zip(screen.compare(rows))
            .map(|(row, screened)| Assignment {
                cluster: screened.center,
                bounds: Bounds {
                    own: self.own(row, screened.center as usize),
                    others: self.margin.below(screened.others),
                },
            })
            .collect();
        let open: Vec<usize> = (0..rows.len())
            .filter(|&at| !self.margin.proves(&found[at].bounds))
            .collect();
        let rows: Vec<&[f64]> = open.iter().map(|&at| rows[at]).collect();
        for (at, exact) in open.into_iter().zip(self.assign_exactly(&rows)) {
            found[at] = exact;
        }
        found
    }

    fn assign_exactly(&self, rows: &[&[f64]]) -> Vec<Assignment> {
        let assigned = |found: TwoLeast| Assignment {
            cluster: found.center,
            bounds: Bounds {
                own: self.margin.above(found.square.sqrt()),
                others: self.margin.below(found.next.sqrt()),
            },
        };
        self.exact.compare(rows).into_iter().map(assigned).collect()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::*;
    use crate::cpu::Cpu;
    use crate::kmeans::checks::check;
    use crate::testing::{draw, Data, Random};

    #[test]
    fn bounds_spare_comparisons_in_the_end_and_change_nothing() {
        let mut random = Random::of(12);
        let x = draw(&mut random, Data::Mixture, 5000, 6);
        let all = x.view();
        let centers = all.slice(s![..50, ..]);
        let monitor = Monitor::default();
        let partitions = [1, 2].map(|threads| {
            let cpu = Cpu::new(threads).unwrap();
            check(&x, centers, 40, &cpu, &format!("{threads} threads"))
        });
        assert_eq!(partitions[0], partitions[1]);
        // In the last of many iterations, few observations are compared with all centers.
        let frame = Frame::new(x.view(), x.largest());
        let mut lloyd = Lloyd::new(&x, centers.to_owned(), &frame).unwrap();
        lloyd.run(40, &monitor).unwrap();
        let moves = lloyd.update().unwrap();
        let comparison = Comparison {
            screen: None,
            exact: ExactCenters::new(&[], x.ncols()).unwrap(),
            centers: &lloyd.centers,
            margin: lloyd.margin,
        };
        let mut assigned = lloyd.assignments.iter().copied().enumerate();
        let may_change = |(i, mut assigned): (usize, Assignment)| {
            comparison.may_change(x.row_slice(i), &mut assigned, Some(&moves))
        };
        assert!(assigned.by_ref().filter(|&one| may_change(one)).count() < 2500);
    }
}
