//! Lloyd's iterations, which search centers only for observations that may change their cluster.

use ndarray::Array2;
use rayon::prelude::*;

use super::device::{Assigned, Start};
use super::margin::{square, Bounds, Margin};
use super::members::KMeansMembers;
use super::seed;
use crate::error::Result;
use crate::matrix::{self, RowSlices, STANDARD_LAYOUT};
use crate::memory;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use crate::neighbours::{Except, NeighbourDevice, NeighbourRequest, Space};
use crate::observations::Observations;

/// Number of observations, or members of clusters, per task: enough work for a thread. Only the
/// time depends on it.
const OBSERVATIONS_AT_A_TIME: usize = 1 << 11;

/// The start of memory errors: what needs the memory.
const CLUSTERS: &str = "the clusters of the observations need";

/// Clusters the rows of `x` on the threads of the calling pool, with searches on `device`.
/// [`super::cluster()`] must have checked the centers and values.
///
/// # Errors
/// As [`super::KMeansDevice::iterate`].
pub fn iterate(
    x: &Observations,
    start: Start,
    iterations: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Assigned> {
    memory::check_working("k-means", x.nrows(), 120 + 8 * x.ncols())?;
    let centers = match start {
        Start::Centers(centers) => matrix::stacked(&[centers], x.ncols())?,
        Start::Draws(uniforms) => seed::seed(x, uniforms, monitor)?,
    };
    let mut lloyd = Lloyd::new(x, centers)?;
    let iterations = lloyd.run(iterations, device, monitor)?;
    Ok(Assigned {
        cluster: lloyd.cluster,
        centers: lloyd.centers,
        iterations,
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

/// An observation whose nearest center has to be searched for.
#[derive(Debug, Clone, Copy)]
struct OpenObservation {
    observation: u32,
    /// The two nearest centers, if there are two, are within this distance.
    limit: f64,
}

/// The two nearest centers of an observation, with their distances.
#[derive(Debug, Clone, Copy)]
struct TwoNearest {
    nearest: (f64, u32),
    next: (f64, u32),
}

/// The state between two iterations.
struct Lloyd<'a> {
    x: &'a Observations,
    k: usize,
    margin: Margin,
    centers: Array2<f64>,
    /// By observation: the number of its cluster; `k` before the first iteration.
    cluster: Vec<u32>,
    /// By observation: the second of its two nearest centers in its last search.
    rivals: Vec<u32>,
    bounds: Vec<Bounds>,
}

impl<'a> Lloyd<'a> {
    fn new(x: &'a Observations, centers: Array2<f64>) -> Result<Self> {
        let k = centers.nrows();
        let unknown = Bounds {
            own: f64::INFINITY,
            others: 0.0,
        };
        Ok(Self {
            x,
            k,
            margin: Margin::new(x.ncols()),
            centers,
            cluster: memory::filled(CLUSTERS, x.nrows(), k as u32)?,
            rivals: memory::filled(CLUSTERS, x.nrows(), 0)?,
            bounds: memory::filled(CLUSTERS, x.nrows(), unknown)?,
        })
    }

    /// Assigns and updates until no assignment changes; returns [`super::KMeans::iterations`].
    fn run(
        &mut self,
        most: usize,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<usize> {
        let n = self.x.nrows();
        monitor.expect((n * most) as u64);
        let all = (0..n as u32).map(|observation| OpenObservation {
            observation,
            limit: f64::INFINITY,
        });
        let mut open: Vec<OpenObservation> = memory::room(CLUSTERS, n)?;
        open.extend(all);
        for iteration in 1..=most {
            monitor.check()?;
            if !self.assign(&open, device, monitor)? {
                return Ok(iteration);
            }
            let moves = self.update()?;
            open = self.open(&moves);
            monitor.advance(n as u64);
        }
        Ok(most + 1)
    }

    /// The observations whose nearest center may have changed by these moves.
    fn open(&mut self, moves: &Moves) -> Vec<OpenObservation> {
        let Self {
            x,
            margin,
            centers,
            cluster,
            rivals,
            bounds,
            ..
        } = self;
        bounds
            .par_iter_mut()
            .enumerate()
            .with_min_len(OBSERVATIONS_AT_A_TIME)
            .filter_map(|(i, bounds)| {
                let cluster = cluster[i] as usize;
                bounds.own = margin.above(bounds.own + moves.of[cluster]);
                bounds.others = margin.below(bounds.others - moves.of_others(cluster));
                if margin.proves(bounds) {
                    return None;
                }
                let at_most = |center: usize| {
                    margin.above(square(x.row_slice(i), centers.row_slice(center)).sqrt())
                };
                bounds.own = at_most(cluster);
                (!margin.proves(bounds)).then(|| OpenObservation {
                    observation: i as u32,
                    limit: bounds.own.max(at_most(rivals[i] as usize)),
                })
            })
            .collect()
    }

    /// Assigns the open observations; returns whether an assignment changed.
    fn assign(
        &mut self,
        open: &[OpenObservation],
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<bool> {
        let found = self.search(open, device, monitor)?;
        let mut decided: Vec<u32> = memory::filled(CLUSTERS, open.len(), 0)?;
        decided
            .par_iter_mut()
            .zip(open)
            .zip(&found)
            .with_min_len(OBSERVATIONS_AT_A_TIME)
            .try_for_each(|((center, open), found)| {
                *center = found.nearest.1;
                if found.nearest.0 >= found.next.0 {
                    // Sums of squares can differ although their roots are equal.
                    monitor.check()?;
                    *center = self.nearest(self.x.row_slice(open.observation as usize));
                }
                Ok(())
            })?;
        let mut changed = false;
        for ((open, found), center) in open.iter().zip(&found).zip(decided) {
            let i = open.observation as usize;
            self.bounds[i] = Bounds {
                own: self.margin.above(found.nearest.0),
                others: self.margin.below(found.next.0),
            };
            changed |= self.cluster[i] != center;
            self.cluster[i] = center;
            // If roots tie, the assigned center may be the second one found.
            self.rivals[i] = if found.next.1 == center {
                found.nearest.1
            } else {
                found.next.1
            };
        }
        Ok(changed)
    }

    /// The nearest center by sums of squares.
    fn nearest(&self, row: &[f64]) -> u32 {
        let (mut best, mut nearest) = (f64::INFINITY, 0);
        for (c, center) in self.centers.values().chunks_exact(row.len()).enumerate() {
            let square = square(row, center);
            if square < best {
                (best, nearest) = (square, c as u32);
            }
        }
        nearest
    }

    /// The two nearest centers of each open observation.
    fn search(
        &self,
        open: &[OpenObservation],
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Vec<TwoNearest>> {
        let (k, p) = (self.k, self.x.ncols());
        let mut values = matrix::zeros(k + open.len(), p)?;
        let all = values.as_slice_mut().expect(STANDARD_LAYOUT);
        let (references, queries) = all.split_at_mut(k * p);
        references.copy_from_slice(self.centers.values());
        queries
            .par_chunks_mut(p)
            .zip(open)
            .with_min_len(OBSERVATIONS_AT_A_TIME)
            .for_each(|(copy, open)| {
                copy.copy_from_slice(self.x.row_slice(open.observation as usize))
            });
        let points = Points::prepare(Metric::Euclidean, values, monitor)?;
        let space = Space::Points {
            points: &points,
            references: k,
        };
        let queries = memory::collected(CLUSTERS, k as u32..points.rows() as u32)?;
        let limits = memory::collected(CLUSTERS, open.iter().map(|open| open.limit))?;
        let mut all = memory::room(CLUSTERS, open.len())?;
        let mut neighbours = device.references(space, monitor)?;
        while all.len() < queries.len() {
            let batch = neighbours.batch().min(queries.len() - all.len());
            let nearest = neighbours.nearest(&NeighbourRequest {
                queries: &queries[all.len()..][..batch],
                wanted: 2,
                limits: Some(&limits[all.len()..][..batch]),
                except: Except::Nothing,
            })?;
            all.extend(nearest.iter().map(|found| TwoNearest {
                nearest: found[0],
                // With one center, there is no second one.
                next: *found.get(1).unwrap_or(&(f64::INFINITY, 0)),
            }));
        }
        Ok(all)
    }

    /// Moves every center with members to their mean.
    fn update(&mut self) -> Result<Moves> {
        let (x, p, margin) = (self.x, self.x.ncols(), self.margin);
        let members = KMeansMembers::new(&self.cluster, self.k)?;
        let centers = self.centers.as_slice_mut().expect(STANDARD_LAYOUT);
        let moved = centers
            .par_chunks_mut(p)
            .enumerate()
            .with_min_len(OBSERVATIONS_AT_A_TIME.div_ceil(x.nrows() / self.k))
            .map(|(c, center)| {
                let members = members.of(c);
                if members.is_empty() {
                    return 0.0;
                }
                let mut mean = vec![0.0; p];
                for &i in members {
                    let row = x.row_slice(i as usize);
                    mean.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
                }
                mean.iter_mut().for_each(|sum| *sum /= members.len() as f64);
                let moved = margin.above(square(center, &mean).sqrt());
                center.copy_from_slice(&mean);
                moved
            })
            .collect();
        Ok(Moves::new(moved))
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
        let centers = x.slice(s![..50, ..]);
        let monitor = Monitor::default();
        let partitions = [1, 2].map(|threads| {
            let cpu = Cpu::new(threads).unwrap();
            check(&x, centers, 40, &cpu, &format!("{threads} threads"))
        });
        assert_eq!(partitions[0], partitions[1]);
        // In the last of many iterations, few observations are compared with all centers.
        let cpu = Cpu::new(1).unwrap();
        let mut lloyd = Lloyd::new(&x, centers.to_owned()).unwrap();
        lloyd.run(40, &cpu, &monitor).unwrap();
        let moves = lloyd.update().unwrap();
        assert!(lloyd.open(&moves).len() < 2500);
    }
}
