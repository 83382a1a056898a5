//! Exhaustive (brute-force) search by exact distances, for metrics that are not screened and for
//! queries that single precision cannot settle.

use pulp::{Simd, WithSimd};

use super::search_space::SearchSpace;
use super::top_k::TopK;
use crate::active_positions::{ActivePositions, INACTIVE};
use crate::distances::cpu::{distances_of_tile, LANES, REGISTERS, TILE_COLUMNS};
use crate::error::Result;
use crate::metric::form::{Form, WithForm};
use crate::monitor::Monitor;
use crate::neighbours::request::{Exclusion, NeighbourRequest};
use crate::simd::{dispatch, doubles};

/// Largest number of queries that share a pass over the references, and with it the cost of
/// transposing the references. Only the time depends on it.
pub const QUERIES_PER_PASS: usize = 64;

/// A query and its nearest references so far.
pub struct ExactQuery {
    pub index: u32,
    /// [Restarted](TopK::restart) with the search radius.
    pub best: TopK,
}

/// Finds the nearest references of at most [`QUERIES_PER_PASS`] queries of a request.
///
/// Takes O(n·p) time per query, for n references of p columns.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop.
pub fn search(
    space: &SearchSpace,
    active: &ActivePositions,
    request: &NeighbourRequest,
    queries: &mut [ExactQuery],
    monitor: &Monitor,
) -> Result<()> {
    let search = ExactSearch {
        space,
        active,
        exclusion: request.exclusion,
        queries,
        monitor,
    };
    match space {
        SearchSpace::Points(points, _) => points.with_form(search),
        SearchSpace::Clusters(clusters) => search.with_form(clusters.form()),
    }
}

/// The arguments of a search, for [`WithForm`].
struct ExactSearch<'a> {
    space: &'a SearchSpace<'a>,
    active: &'a ActivePositions,
    exclusion: Exclusion<'a>,
    queries: &'a mut [ExactQuery],
    monitor: &'a Monitor,
}

impl WithForm for ExactSearch<'_> {
    type Output = Result<()>;

    fn with_form<F: Form>(self, form: F) -> Result<()> {
        dispatch(ExactSearchKernel { search: self, form })
    }

    fn pairwise(self) -> Result<()> {
        unreachable!("where values are missing there are no searches")
    }
}

/// A kernel that searches with one form.
struct ExactSearchKernel<'a, F> {
    search: ExactSearch<'a>,
    form: F,
}

impl<F: Form> WithSimd for ExactSearchKernel<'_, F> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { search, form } = self;
        let (space, active) = (search.space, search.active);
        let mut values = vec![0.0; LANES * space.columns()];
        for first in (0..active.positions()).step_by(LANES) {
            let references: [u32; LANES] = std::array::from_fn(|lane| {
                let position = first + lane;
                if position < active.positions() {
                    active.slot(position)
                } else {
                    INACTIVE
                }
            });
            for (lane, &reference) in references.iter().enumerate() {
                if reference != INACTIVE {
                    let (row, _) = space.row(reference as usize);
                    let to = values[lane..].iter_mut().step_by(LANES);
                    to.zip(row).for_each(|(to, &value)| *to = value);
                }
            }
            for queries in search.queries.chunks_mut(TILE_COLUMNS) {
                let rows = std::array::from_fn(|q| {
                    // Repeats the last query to fill the tile.
                    let query = &queries[q.min(queries.len() - 1)];
                    space.row(query.index as usize).0
                });
                let mut tile = [[0.0; LANES]; TILE_COLUMNS];
                for part in 0..LANES / (S::F64_LANES * REGISTERS) {
                    let values = doubles::<S>(&values);
                    distances_of_tile(simd, form, values, part, rows, &mut tile, search.monitor)?;
                }
                for (query, distances) in queries.iter_mut().zip(&mut tile) {
                    space.finish_distances(query.index, &references, distances);
                    query.take(distances, &references, search.exclusion);
                }
            }
        }
        Ok(())
    }
}

impl SearchSpace<'_> {
    /// Converts the results of a form to the distances between a query and some references.
    #[inline(always)]
    fn finish_distances(
        &self,
        query: u32,
        references: &[u32; LANES],
        distances: &mut [f64; LANES],
    ) {
        let SearchSpace::Clusters(clusters) = self else {
            return;
        };
        for (distance, &reference) in distances.iter_mut().zip(references) {
            if reference != INACTIVE {
                *distance = clusters.distance_of(query as usize, reference as usize, *distance);
            }
        }
    }
}

impl ExactQuery {
    /// Inserts the references that are near enough. References must come in the order of their
    /// indices.
    #[inline(always)]
    fn take(&mut self, distances: &[f64; LANES], references: &[u32; LANES], exclusion: Exclusion) {
        let limit = self.best.limit_of_later();
        let mut near = 0u32;
        for (lane, distance) in distances.iter().enumerate() {
            near |= u32::from(*distance <= limit) << lane;
        }
        while near != 0 {
            let lane = near.trailing_zeros() as usize;
            near &= near - 1;
            let reference = references[lane];
            let excluded = reference == INACTIVE
                || match exclusion {
                    Exclusion::Nothing => false,
                    Exclusion::Itself => reference == self.index,
                    Exclusion::Group(groups) => {
                        groups[reference as usize] == groups[self.index as usize]
                    }
                };
            if !excluded {
                self.best.insert(distances[lane], reference);
            }
        }
    }
}
