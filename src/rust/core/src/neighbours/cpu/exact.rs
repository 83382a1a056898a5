//! Nearest references by the distances that decide, in double precision: for metrics that are not
//! screened, and for queries that single precision cannot settle.

use pulp::{Simd, WithSimd};

use super::best::Best;
use super::place::Place;
use crate::distances::cpu::{distances_of_tile, ABREAST, LANES, REGISTERS};
use crate::error::Result;
use crate::metric::form::{Form, Sum, Term};
use crate::metric::WithForm;
use crate::monitor::Monitor;
use crate::neighbours::request::{Except, Request};
use crate::roster::{Roster, GONE};
use crate::simd::{dispatch, doubles};

/// Queries that share a pass over the references, so that turning these round is cheap.
pub const QUERIES: usize = 64;

/// A query, and what is known of its answer.
pub struct Query {
    pub index: u32,
    /// Begun anew with the greatest distance that is of interest.
    pub best: Best,
}

/// Finds the nearest references of some queries of a request, at most [`QUERIES`].
///
/// Takes O(n·p) time for each.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop.
pub fn search(
    place: &Place,
    roster: &Roster,
    request: &Request,
    queries: &mut [Query],
    monitor: &Monitor,
) -> Result<()> {
    let search = Search {
        place,
        roster,
        except: request.except,
        queries,
        monitor,
    };
    match place {
        Place::Points(points, _) => points.with_form(search),
        Place::Clusters(_) => search.with_form(Sum::<Square, false> {
            term: Square,
            columns: place.columns() as f64,
        }),
    }
}

/// A sum of squares, of which distances of clusters are made.
#[derive(Debug, Clone, Copy)]
struct Square;

impl Term for Square {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, difference: S::f64s) -> S::f64s {
        simd.mul_f64s(difference, difference)
    }

    #[inline(always)]
    fn last<S: Simd>(self, _: S, sum: S::f64s) -> S::f64s {
        sum
    }
}

/// What is to be done, until it is known for which form.
struct Search<'a> {
    place: &'a Place<'a>,
    roster: &'a Roster,
    except: Except<'a>,
    queries: &'a mut [Query],
    monitor: &'a Monitor,
}

impl WithForm for Search<'_> {
    type Output = Result<()>;

    fn with_form<F: Form>(self, form: F) -> Result<()> {
        dispatch(Over { search: self, form })
    }

    fn pairwise(self) -> Result<()> {
        unreachable!("where values are missing there are no searches")
    }
}

struct Over<'a, F> {
    search: Search<'a>,
    form: F,
}

impl<F: Form> WithSimd for Over<'_, F> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { search, form } = self;
        let (place, roster) = (search.place, search.roster);
        let mut values = vec![0.0; LANES * place.columns()];
        for first in (0..roster.positions()).step_by(LANES) {
            let references: [u32; LANES] = std::array::from_fn(|lane| {
                let position = first + lane;
                if position < roster.positions() {
                    roster.slot(position)
                } else {
                    GONE
                }
            });
            for (lane, &reference) in references.iter().enumerate() {
                if reference != GONE {
                    let (row, _) = place.row(reference as usize);
                    let to = values[lane..].iter_mut().step_by(LANES);
                    to.zip(row).for_each(|(to, &value)| *to = value);
                }
            }
            for queries in search.queries.chunks_mut(ABREAST) {
                let rows = std::array::from_fn(|q| {
                    // Beyond the last query, the last one again.
                    let query = &queries[q.min(queries.len() - 1)];
                    place.row(query.index as usize).0
                });
                let mut tile = [[0.0; LANES]; ABREAST];
                for part in 0..LANES / (S::F64_LANES * REGISTERS) {
                    let values = doubles::<S>(&values);
                    distances_of_tile(simd, form, values, part, rows, &mut tile, search.monitor)?;
                }
                for (query, distances) in queries.iter_mut().zip(&mut tile) {
                    place.finish(query.index, &references, distances);
                    query.take(distances, &references, search.except);
                }
            }
        }
        Ok(())
    }
}

impl Place<'_> {
    /// Makes distances of what forms give for a query and some references.
    #[inline(always)]
    fn finish(&self, query: u32, references: &[u32; LANES], distances: &mut [f64; LANES]) {
        let Place::Clusters(centroids) = self else {
            return;
        };
        for (distance, &reference) in distances.iter_mut().zip(references) {
            if reference != GONE {
                *distance = centroids.distance_of(query as usize, reference as usize, *distance);
            }
        }
    }
}

impl Query {
    /// Takes in what is near among some references; these come in the order of their indices.
    #[inline(always)]
    fn take(&mut self, distances: &[f64; LANES], references: &[u32; LANES], except: Except) {
        let limit = self.best.limit_of_later();
        let mut near = 0u32;
        for (lane, distance) in distances.iter().enumerate() {
            near |= u32::from(*distance <= limit) << lane;
        }
        while near != 0 {
            let lane = near.trailing_zeros() as usize;
            near &= near - 1;
            let reference = references[lane];
            let left_out = reference == GONE
                || match except {
                    Except::Nobody => false,
                    Except::Itself => reference == self.index,
                    Except::Group(groups) => {
                        groups[reference as usize] == groups[self.index as usize]
                    }
                };
            if !left_out {
                self.best.insert(distances[lane], reference);
            }
        }
    }
}
