//! The decision about the candidates of sweeps, by exact distances in double precision. Where the
//! device has not decided, the CPU does.
//!
//! A query is settled once its candidates prove which references are nearest. Otherwise it stays
//! open. A second sweep collects more candidates of open queries. The CPU searches for queries that
//! stay open after the second sweep.

use std::collections::BTreeMap;
use std::ops::Range;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::cpu::{CpuNeighbours, TopK};
use gmhclust_core::neighbours::single::RowFrame;
use gmhclust_core::neighbours::{NeighbourLists, NeighbourRequest, Neighbours};
use rayon::prelude::*;

use super::layout::{room, MOST_CANDIDATES};
use super::positions::Positions;
use super::sweeper::{Decided, ReferenceGroups, Sweeper, Swept, SweptCandidates};
use super::work_queue::DeviceLoss;
use crate::policy;

/// Largest number of bytes of candidates that are collected at a time.
pub const BATCH_BYTES: usize = 1 << 31;

/// Number of candidates that the second sweep keeps, as a multiple of those that the first sweep
/// keeps. Only the time depends on it.
const SECOND_SWEEP_FACTOR: usize = 8;

/// Largest number of queries that a thread settles at a time, with one set of buffers. If it is
/// smaller, threads allocate buffers more often.
const QUERIES_PER_TASK: usize = 1 << 7;

/// Number of tasks for each thread, if a batch has few queries. Some queries take longer.
const TASKS_PER_THREAD: usize = 4;

/// Number of queries of a batch that may stay open before the next frame takes over: a constant,
/// plus one in `ratio`.
fn may_stay_open(batch: usize, ratio: usize) -> usize {
    policy::FEW_OPEN + batch / ratio
}

/// The outcome of [`Settler::settle`].
pub enum Settled {
    /// The nearest references of all queries of the batch.
    All(NeighbourLists),
    /// Too many queries are open: the next frame is faster.
    TooManyOpen,
}

/// Settles the batches of a request.
pub struct Settler<'s, 'a, S> {
    pub host: &'s mut CpuNeighbours<'a>,
    /// The device for second sweeps, if any.
    pub second_sweeper: Option<&'s mut S>,
    /// The failure of the second sweeper's device.
    pub loss: Option<DeviceLoss>,
    pub frame: &'s RowFrame,
    pub positions: &'s Positions,
    pub request: &'s NeighbourRequest<'s>,
    pub groups: &'s ReferenceGroups,
    /// Number of candidates that the first sweep keeps of each query.
    pub capacity: usize,
    /// Whether there is a more precise frame.
    pub has_more_precise_frame: bool,
    pub monitor: &'s Monitor,
}

impl<S: Sweeper> Settler<'_, '_, S> {
    /// Settles a batch, given the result of its sweep.
    ///
    /// # Errors
    /// As [`Neighbours::nearest`], except that the failure of a device is stored in
    /// [`Settler::loss`].
    pub fn settle(&mut self, batch: Range<usize>, swept: Swept) -> Result<Settled> {
        self.monitor.check()?;
        let first = self.decide(self.request, batch.clone(), swept);
        let queries = &self.request.queries[batch.clone()];
        let mut open = OpenQueries::default();
        for (at, limit) in first.open() {
            open.push(at, queries[at], limit);
        }
        if self.has_more_precise_frame
            && open.len() > may_stay_open(batch.len(), policy::OPEN_RATIO)
        {
            return Ok(Settled::TooManyOpen);
        }
        if open.len() == 0 {
            return Ok(Settled::All(first.into_lists()));
        }
        // Answers of later searches, by the query's index in the batch.
        let mut later = BTreeMap::new();
        let open = self.sweep_again(open, &mut later)?;
        if self.has_more_precise_frame
            && open.len() > may_stay_open(batch.len(), policy::HOST_RATIO)
        {
            return Ok(Settled::TooManyOpen);
        }
        if open.len() > 0 {
            let rest = self.host.nearest(&open.request(self.request))?;
            for (&at, found) in open.at.iter().zip(rest.iter()) {
                later.insert(at, found.to_vec());
            }
        }
        let settled = |at: usize| later.get(&at).map_or(first.of(at), |found| found);
        Ok(Settled::All(NeighbourLists::of_all(batch.len(), settled)))
    }

    /// Sweeps again for more candidates of open queries, if there is a device with enough memory.
    /// Adds the answers to `later`. Returns the queries that stay open.
    fn sweep_again(
        &mut self,
        open: OpenQueries,
        later: &mut BTreeMap<usize, Vec<(f64, u32)>>,
    ) -> Result<OpenQueries> {
        let capacity = (SECOND_SWEEP_FACTOR * self.capacity).min(MOST_CANDIDATES);
        let most = match &self.second_sweeper {
            Some(sweeper) if self.loss.is_none() => sweeper.most_queries(capacity),
            _ => 0,
        };
        if most == 0 {
            return Ok(open);
        }
        let most = most.min(BATCH_BYTES / (8 * room(capacity)));
        let request = open.request(self.request);
        let mut still_open = OpenQueries::default();
        for start in (0..open.len()).step_by(most) {
            let some = start..(start + most).min(open.len());
            let Some(swept) = self.second_sweep(&request, capacity, some.clone())? else {
                // The host searches for the remaining queries.
                for i in start..open.len() {
                    still_open.push(open.at[i], open.queries[i], open.limits[i]);
                }
                break;
            };
            let second = self.decide(&request, some.clone(), swept);
            for (i, &at) in open.at[some.clone()].iter().enumerate() {
                match second.limit(i) {
                    Some(limit) => still_open.push(at, open.queries[some.start + i], limit),
                    None => drop(later.insert(at, second.of(i).to_vec())),
                }
            }
        }
        Ok(still_open)
    }

    /// Sweeps for the candidates of some open queries. Returns `None` if the device fails.
    fn second_sweep(
        &mut self,
        request: &NeighbourRequest,
        capacity: usize,
        some: Range<usize>,
    ) -> Result<Option<Swept>> {
        let Some(sweeper) = &mut self.second_sweeper else {
            return Ok(None);
        };
        let (positions, groups) = (self.positions, self.groups);
        match sweeper.sweep(positions, request, capacity, groups, some, self.monitor) {
            Err(error @ Error::Device(_)) => {
                let device = sweeper.device();
                self.loss = Some(DeviceLoss { device, error });
                Ok(None)
            }
            swept => swept.map(Some),
        }
    }

    /// The decisions about the queries of a batch.
    fn decide(&self, request: &NeighbourRequest, batch: Range<usize>, swept: Swept) -> Decisions {
        match swept {
            Swept::SweptCandidates(candidates) => self.decide_on_host(request, batch, &candidates),
            Swept::Decided(all) => Decisions {
                each: batch.len(),
                parts: vec![all],
            },
        }
    }

    /// Decides about the candidates of the queries of a batch.
    fn decide_on_host(
        &self,
        request: &NeighbourRequest,
        batch: Range<usize>,
        candidates: &SweptCandidates,
    ) -> Decisions {
        let (host, frame, positions) = (&*self.host, self.frame, self.positions);
        let tasks = TASKS_PER_THREAD * rayon::current_num_threads();
        let each = batch.len().div_ceil(tasks).clamp(1, QUERIES_PER_TASK);
        let decide = |start: usize| {
            let mut some = Decided::default();
            let mut best = TopK::default();
            let mut found = Vec::new();
            for i in start..(start + each).min(batch.len()) {
                let at = batch.start + i;
                let floor = candidates.of(i, frame, positions, request, at, &mut found);
                let decided = floor.and_then(|floor| {
                    let found = found.iter().copied();
                    host.decide(request, at, found, floor, &mut best)
                });
                match decided {
                    Ok(()) => some.nearest.push(best.sorted()),
                    Err(_) => some.nearest.push(&[]),
                }
                some.limits.push(decided.err());
            }
            some
        };
        let starts = (0..batch.len().div_ceil(each)).into_par_iter();
        let parts = starts.map(|part| decide(part * each)).collect();
        Decisions { parts, each }
    }
}

/// The queries of a batch that are not settled yet.
#[derive(Default)]
struct OpenQueries {
    /// The indices of the queries in the batch.
    at: Vec<usize>,
    queries: Vec<u32>,
    /// By query, an upper bound on the distances in the answer.
    limits: Vec<f64>,
}

impl OpenQueries {
    fn push(&mut self, at: usize, query: u32, limit: f64) {
        self.at.push(at);
        self.queries.push(query);
        self.limits.push(limit);
    }

    fn len(&self) -> usize {
        self.at.len()
    }

    /// A request for these queries only.
    fn request<'a>(&'a self, request: &NeighbourRequest<'a>) -> NeighbourRequest<'a> {
        NeighbourRequest {
            queries: &self.queries,
            limits: Some(&self.limits),
            ..*request
        }
    }
}

/// The decisions about a batch's queries. A query stays open if its candidates do not suffice.
struct Decisions {
    parts: Vec<Decided>,
    /// Number of queries in each part; the last part may have fewer.
    each: usize,
}

impl Decisions {
    /// The nearest references of all queries, none of which is open.
    fn into_lists(mut self) -> NeighbourLists {
        if self.parts.len() == 1 {
            return self.parts.remove(0).nearest;
        }
        let queries = self.parts.iter().map(|part| part.limits.len()).sum();
        NeighbourLists::of_all(queries, |at| self.of(at))
    }

    /// The nearest references of the `i`-th query.
    fn of(&self, i: usize) -> &[(f64, u32)] {
        self.parts[i / self.each].nearest.of(i % self.each)
    }

    /// The limit of the `i`-th query, if it stays open.
    fn limit(&self, i: usize) -> Option<f64> {
        self.parts[i / self.each].limits[i % self.each]
    }

    /// The open queries, and their limits.
    fn open(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let limits = self.parts.iter().flat_map(|some| &some.limits);
        let limits = limits.enumerate();
        limits.filter_map(|(i, limit)| Some((i, (*limit)?)))
    }
}
