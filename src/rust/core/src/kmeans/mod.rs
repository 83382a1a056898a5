//! k-means by Lloyd's algorithm (IEEE Transactions on Information Theory 28, 1982), exactly.
//!
//! Every assignment is that of comparing an observation with all centers: the nearest one has the
//! least sum of squares, in double precision and in the order of the coordinates; of several the
//! one with the smallest number. Every center is the sum of its members in the order of their
//! numbers, divided by how many they are. These are the very operations of R's
//! `kmeans(algorithm = "Lloyd")`.
//!
//! Where centers have moved little, bounds on an observation's distances to its own center and to
//! all others prove that it stays (Hamerly, SIAM International Conference on Data Mining, 2010).
//! For the other observations the centers are searched as nearest neighbours are. No search looks
//! farther than to the two centers that were the nearest ones before. A GPU spares nothing: it
//! compares everything in double precision (kernels/kmeans.cu), to the same result.

pub mod seed;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::backend::neighbours::{Except, Neighbours, Request, Space};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::mahalanobis::{check_largest, largest};
use crate::matrix::Matrix;
use crate::memory;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;

/// So many observations, or members of clusters, are worth a thread.
const OBSERVATIONS_AT_A_TIME: usize = 1 << 11;

/// What needs memory here.
const CLUSTERS: &str = "the clusters of the observations need";

/// More than what underflows in the squares of a distance.
const UNDERFLOW: f64 = 1e-150;

/// Observations in clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The number of each observation's cluster.
    pub cluster: Vec<u32>,
    /// Means of the clusters, one after the other; where a cluster has no members, its last
    /// center.
    pub centers: Vec<f64>,
    /// Members of each cluster.
    pub sizes: Vec<usize>,
    /// The sum of squares of each cluster's members about its center.
    pub within: Vec<f64>,
    /// The sum of squares of all observations about their mean.
    pub total: f64,
    /// The iteration that changed nothing; one more than are allowed where all changed something.
    pub iterations: usize,
}

/// Where the first iteration starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start<'a> {
    /// From these centers, row after row.
    Centers(&'a [f64]),
    /// From centers that these numbers from 0 to 1 draw ([`seed::seed`]).
    Draws(&'a [f64]),
}

impl Start<'_> {
    /// How many centers there are.
    pub fn centers(&self, columns: usize) -> usize {
        match self {
            Self::Centers(values) => values.len() / columns,
            Self::Draws(uniforms) => uniforms.len(),
        }
    }
}

/// What iterations come to.
#[derive(Debug)]
pub struct Assigned {
    /// As [`Partition::cluster`], [`Partition::centers`] and [`Partition::iterations`].
    pub cluster: Vec<u32>,
    pub centers: Vec<f64>,
    pub iterations: usize,
}

/// Clusters the rows of `x` in at most so many `iterations`.
///
/// Takes O(n·k·p) time for an iteration with k centers, often less for later ones, and O(n·p + k·p)
/// memory.
///
/// # Errors
/// `Error::Input` where centers are no rows of `x`'s length, or more than `x` has, distinct ones
/// where they are drawn, and where squares overflow; what the backend returns otherwise.
pub fn cluster(
    x: &Matrix,
    start: Start,
    iterations: usize,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Partition> {
    let k = start.centers(x.columns());
    let whole = match start {
        Start::Centers(values) => values.len() == k * x.columns(),
        Start::Draws(_) => true,
    };
    if !whole || k == 0 || k > x.rows() {
        return Err(Error::Input(format!(
            "`centers` has {} values; it must have at least 1 row and at most {}, of {} values",
            match start {
                Start::Centers(values) => values.len(),
                Start::Draws(_) => k * x.columns(),
            },
            x.rows(),
            x.columns()
        )));
    }
    let mut largest = 0.0;
    backend.on_threads(&mut || largest = largest_on_threads(x));
    check_largest(largest)?;
    let assigned = backend.kmeans(x, start, iterations, monitor)?;
    let mut partition = None;
    let mut assigned = Some(assigned);
    backend.on_threads(&mut || {
        let assigned = assigned.take().expect("is made a partition once");
        partition = Some(Partition::new(x, assigned));
    });
    partition.expect("was made")
}

/// Starts and iterates, on the threads of the pool that it is called from, searching with `backend`;
/// for centers and values that [`cluster`] has checked.
///
/// # Errors
/// As [`Backend::kmeans`].
pub fn iterate(
    x: &Matrix,
    start: Start,
    iterations: usize,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Assigned> {
    memory::check_working("k-means", x.rows(), 120 + 8 * x.columns())?;
    let centers = match start {
        Start::Centers(values) => memory::copied(memory::OBSERVATIONS, values)?,
        Start::Draws(uniforms) => seed::seed(x, uniforms, monitor)?,
    };
    let mut lloyd = Lloyd::new(x, centers)?;
    let iterations = lloyd.run(iterations, backend, monitor)?;
    Ok(Assigned {
        cluster: lloyd.cluster,
        centers: lloyd.centers,
        iterations,
    })
}

/// The sum of squared differences, the same bits wherever it is computed.
fn square(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        let difference = a - b;
        sum += difference * difference;
    }
    sum
}

/// What is known of an observation's real distances.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// That to its own center is at most this.
    own: f64,
    /// Those to all others are at least this.
    others: f64,
}

/// How bounds are made of computed distances, and computed distances are told apart by bounds.
#[derive(Debug, Clone, Copy)]
struct Margin(f64);

impl Margin {
    /// A sum of p squares is off by at most (p + 2)·2⁻⁵³ of it, and its root by half as much, both
    /// with a few roundings more.
    fn new(columns: usize) -> Self {
        Self((columns as f64 + 16.0) * f64::EPSILON)
    }

    fn above(self, distance: f64) -> f64 {
        distance * (1.0 + self.0) + UNDERFLOW
    }

    fn below(self, distance: f64) -> f64 {
        distance * (1.0 - self.0) - UNDERFLOW
    }

    /// Whether every sum of squares for the own center is computed below those for all others.
    fn proves(self, bounds: &Bounds) -> bool {
        self.above(bounds.own) < self.below(bounds.others)
    }
}

/// How far centers have moved, at most.
struct Moves {
    of: Vec<f64>,
    /// The center that moved the farthest.
    farthest: usize,
    /// The farthest that another one moved.
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

    /// How far centers other than this one have moved.
    fn of_others(&self, center: usize) -> f64 {
        if center == self.farthest {
            self.second
        } else {
            self.of[self.farthest]
        }
    }
}

/// An observation to search for.
#[derive(Debug, Clone, Copy)]
struct Open {
    observation: u32,
    /// Two centers, if there are as many, are not farther away.
    limit: f64,
}

/// What a search finds for an observation: the nearest center and the next one with their
/// distances.
#[derive(Debug, Clone, Copy)]
struct Found {
    nearest: (f64, u32),
    next: (f64, u32),
}

/// The members of clusters.
struct Members {
    /// Cluster after cluster, in increasing order.
    observations: Vec<u32>,
    ends: Vec<usize>,
}

impl Members {
    fn new(cluster: &[u32], k: usize) -> Result<Self> {
        // Starts that become ends as members come.
        let mut ends = memory::filled(CLUSTERS, k + 1, 0)?;
        for &c in cluster {
            ends[c as usize + 1] += 1;
        }
        for c in 0..k {
            ends[c + 1] += ends[c];
        }
        let mut observations = memory::filled(CLUSTERS, cluster.len(), 0)?;
        for (i, &c) in cluster.iter().enumerate() {
            observations[ends[c as usize]] = i as u32;
            ends[c as usize] += 1;
        }
        ends.truncate(k);
        Ok(Self { observations, ends })
    }

    fn of(&self, cluster: usize) -> &[u32] {
        let start = if cluster == 0 {
            0
        } else {
            self.ends[cluster - 1]
        };
        &self.observations[start..self.ends[cluster]]
    }
}

/// Clusters on their way.
struct Lloyd<'a> {
    x: &'a Matrix,
    k: usize,
    margin: Margin,
    centers: Vec<f64>,
    /// The number of each observation's cluster; `k` before the first iteration.
    cluster: Vec<u32>,
    /// The center that was the next one when an observation was last searched for.
    rivals: Vec<u32>,
    bounds: Vec<Bounds>,
}

impl<'a> Lloyd<'a> {
    fn new(x: &'a Matrix, centers: Vec<f64>) -> Result<Self> {
        let k = centers.len() / x.columns();
        let unknown = Bounds {
            own: f64::INFINITY,
            others: 0.0,
        };
        Ok(Self {
            x,
            k,
            margin: Margin::new(x.columns()),
            centers,
            cluster: memory::filled(CLUSTERS, x.rows(), k as u32)?,
            rivals: memory::filled(CLUSTERS, x.rows(), 0)?,
            bounds: memory::filled(CLUSTERS, x.rows(), unknown)?,
        })
    }

    /// Assigns and updates until nothing changes; [`Partition::iterations`].
    fn run(&mut self, most: usize, backend: &dyn Backend, monitor: &Monitor) -> Result<usize> {
        let n = self.x.rows();
        monitor.expect((n * most) as u64);
        let everyone = (0..n as u32).map(|observation| Open {
            observation,
            limit: f64::INFINITY,
        });
        let mut open: Vec<Open> = memory::room(CLUSTERS, n)?;
        open.extend(everyone);
        for iteration in 1..=most {
            monitor.check()?;
            if !self.assign(&open, backend, monitor)? {
                return Ok(iteration);
            }
            let moves = self.update()?;
            open = self.open(&moves);
            monitor.advance(n as u64);
        }
        Ok(most + 1)
    }

    /// The observations that may have another nearest center now that centers have moved.
    fn open(&mut self, moves: &Moves) -> Vec<Open> {
        let Self {
            x,
            margin,
            centers,
            cluster,
            rivals,
            bounds,
            ..
        } = self;
        let p = x.columns();
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
                    let center = &centers[center * p..][..p];
                    margin.above(square(x.row(i), center).sqrt())
                };
                bounds.own = at_most(cluster);
                (!margin.proves(bounds)).then(|| Open {
                    observation: i as u32,
                    limit: bounds.own.max(at_most(rivals[i] as usize)),
                })
            })
            .collect()
    }

    /// Assigns the observations that are open; whether that changed anything.
    fn assign(&mut self, open: &[Open], backend: &dyn Backend, monitor: &Monitor) -> Result<bool> {
        let found = self.search(open, backend, monitor)?;
        let mut decided: Vec<u32> = memory::filled(CLUSTERS, open.len(), 0)?;
        decided
            .par_iter_mut()
            .zip(open)
            .zip(&found)
            .with_min_len(OBSERVATIONS_AT_A_TIME)
            .try_for_each(|((center, open), found)| {
                *center = found.nearest.1;
                if found.nearest.0 >= found.next.0 {
                    // Sums of squares can differ where their roots do not.
                    monitor.check()?;
                    *center = self.nearest(self.x.row(open.observation as usize));
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
            self.rivals[i] = found.next.1;
        }
        Ok(changed)
    }

    /// The nearest center by the sums that decide.
    fn nearest(&self, row: &[f64]) -> u32 {
        let (mut best, mut nearest) = (f64::INFINITY, 0);
        for (c, center) in self.centers.chunks_exact(row.len()).enumerate() {
            let square = square(row, center);
            if square < best {
                (best, nearest) = (square, c as u32);
            }
        }
        nearest
    }

    /// The nearest center of each of the observations and the distance of the next.
    fn search(
        &self,
        open: &[Open],
        backend: &dyn Backend,
        monitor: &Monitor,
    ) -> Result<Vec<Found>> {
        let (k, p) = (self.k, self.x.columns());
        let mut values = memory::zeros(memory::OBSERVATIONS, (k + open.len()) * p)?;
        let (references, queries) = values.split_at_mut(k * p);
        references.copy_from_slice(&self.centers);
        queries
            .par_chunks_mut(p)
            .zip(open)
            .with_min_len(OBSERVATIONS_AT_A_TIME)
            .for_each(|(copy, open)| copy.copy_from_slice(self.x.row(open.observation as usize)));
        let points = Points::from_row_major(Metric::Euclidean, values, k + open.len(), p, monitor)?;
        let space = Space::Points {
            points: &points,
            references: k,
        };
        let queries = memory::collected(CLUSTERS, k as u32..points.rows() as u32)?;
        let limits = memory::collected(CLUSTERS, open.iter().map(|open| open.limit))?;
        let mut all = memory::room(CLUSTERS, open.len())?;
        backend.search(space, monitor, &mut |neighbours: &mut dyn Neighbours| {
            // Queries that are done stay so where another device takes over.
            while all.len() < queries.len() {
                let batch = neighbours.batch().min(queries.len() - all.len());
                let nearest = neighbours.nearest(&Request {
                    queries: &queries[all.len()..][..batch],
                    wanted: 2,
                    limits: Some(&limits[all.len()..][..batch]),
                    except: Except::Nobody,
                })?;
                all.extend(nearest.iter().map(|found| Found {
                    nearest: found[0],
                    // None where there is one center only.
                    next: *found.get(1).unwrap_or(&(f64::INFINITY, 0)),
                }));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Moves every center to the mean of its members, if it has any.
    fn update(&mut self) -> Result<Moves> {
        let (x, p, margin) = (self.x, self.x.columns(), self.margin);
        let members = Members::new(&self.cluster, self.k)?;
        let moved = self
            .centers
            .par_chunks_mut(p)
            .enumerate()
            .with_min_len(OBSERVATIONS_AT_A_TIME.div_ceil(x.rows() / self.k))
            .map(|(c, center)| {
                let members = members.of(c);
                if members.is_empty() {
                    return 0.0;
                }
                let mut mean = vec![0.0; p];
                for &i in members {
                    let row = x.row(i as usize);
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

impl Partition {
    /// What has become of the observations.
    fn new(x: &Matrix, assigned: Assigned) -> Result<Self> {
        let Assigned {
            cluster,
            centers,
            iterations,
        } = assigned;
        let k = centers.len() / x.columns();
        let members = Members::new(&cluster, k)?;
        let within = |(c, center): (usize, &[f64])| {
            let mut sum = 0.0;
            for &i in members.of(c) {
                for (v, center) in x.row(i as usize).iter().zip(center) {
                    sum += (v - center) * (v - center);
                }
            }
            sum
        };
        Ok(Self {
            within: centers
                .par_chunks(x.columns())
                .enumerate()
                .map(within)
                .collect(),
            sizes: (0..k).map(|c| members.of(c).len()).collect(),
            total: total(x),
            iterations,
            cluster,
            centers,
        })
    }
}

/// The largest magnitude of a value.
fn largest_on_threads(x: &Matrix) -> f64 {
    let parts = x.values().par_chunks(OBSERVATIONS_AT_A_TIME * x.columns());
    parts.map(largest).reduce(|| 0.0, f64::max)
}

/// The sum of squares about the mean.
fn total(x: &Matrix) -> f64 {
    let mean: Vec<f64> = column_sums(x, |_, value| value)
        .into_iter()
        .map(|sum| sum / x.rows() as f64)
        .collect();
    let squares = column_sums(x, |k, value| (value - mean[k]) * (value - mean[k]));
    squares.iter().sum()
}

/// The sums of what `term` makes of each column's values, in one order whatever the threads.
fn column_sums(x: &Matrix, term: impl Fn(usize, f64) -> f64 + Sync) -> Vec<f64> {
    let of_some_rows = |rows: &[f64]| {
        let mut sums = vec![0.0; x.columns()];
        for row in rows.chunks_exact(x.columns()) {
            for (k, (sum, &value)) in sums.iter_mut().zip(row).enumerate() {
                *sum += term(k, value);
            }
        }
        sums
    };
    let parts: Vec<Vec<f64>> = x
        .values()
        .par_chunks(OBSERVATIONS_AT_A_TIME * x.columns())
        .map(of_some_rows)
        .collect();
    let mut sums = vec![0.0; x.columns()];
    for part in parts {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += part);
    }
    sums
}
