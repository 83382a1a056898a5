//! A device that fails, as a lost device would.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::cpu::{Cpu, Device};
use crate::distances::{DistanceDevice, Pairs};
use crate::error::{Error, Result};
use crate::kmeans::{Assigned, KMeansDevice, Start};
use crate::lazy_rows::LazyRows;
use crate::linkage::dissimilarities::Dissimilarities;
use crate::linkage::{DissimilaritySource, LinkageDevice, Recurrence};
use crate::mahalanobis::{AgglomerationDevice, Problem};
use crate::metric::Points;
use crate::neighbours::{
    ClusterMeans, NeighbourDevice, NeighbourLists, NeighbourRequest, Neighbours, Space,
};
use crate::{Merge, Monitor};

/// A device that gives the CPU's answers, and an error after a number of answers.
///
/// An answer is the neighbours of one request, or the whole result of another call of a device; for
/// an agglomeration, the merges of its problems.
pub struct FailingDevice {
    cpu: Cpu,
    error: Error,
    /// Number of answers before the error.
    answers: AtomicUsize,
    /// The queries of the answered requests for neighbours.
    queries: Mutex<Vec<u32>>,
    /// The number of observations of each answered agglomeration.
    agglomerated: Mutex<Vec<usize>>,
}

impl FailingDevice {
    /// A device that fails with `error` after this number of answers.
    pub fn after(answers: usize, error: Error) -> Self {
        Self {
            cpu: Cpu::new(2).unwrap(),
            error,
            answers: AtomicUsize::new(answers),
            queries: Mutex::default(),
            agglomerated: Mutex::default(),
        }
    }

    /// The queries whose neighbours the device has found, in order.
    pub fn queries(&self) -> Vec<u32> {
        self.queries.lock().unwrap().clone()
    }

    /// The number of observations of each answered agglomeration, in order.
    pub fn agglomerated(&self) -> Vec<usize> {
        self.agglomerated.lock().unwrap().clone()
    }

    fn answer(&self) -> Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        self.answers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .map(drop)
            .map_err(|_| self.error.clone())
    }
}

impl Device for FailingDevice {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

/// One answer for each batch of apriori clusters, and one for the tree above them.
impl AgglomerationDevice for FailingDevice {
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        self.answer()?;
        let observations = problems.iter().map(|problem| problem.members.len()).sum();
        self.agglomerated.lock().unwrap().push(observations);
        self.cpu.agglomerate(problems, monitor)
    }
}

/// Answers requests of seven queries.
struct FailingNeighbours<'a> {
    device: &'a FailingDevice,
    neighbours: Box<dyn Neighbours + 'a>,
}

impl Neighbours for FailingNeighbours<'_> {
    fn nearest(&mut self, request: &NeighbourRequest<'_>) -> Result<NeighbourLists> {
        self.device.answer()?;
        let mut queries = self.device.queries.lock().unwrap();
        queries.extend_from_slice(request.queries);
        self.neighbours.nearest(request)
    }

    fn distances(&self, query: u32, references: &[u32], distances: &mut [f64]) {
        self.neighbours.distances(query, references, distances);
    }

    fn clusters(&self) -> &ClusterMeans {
        self.neighbours.clusters()
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        self.neighbours.merge(pairs)
    }

    fn batch(&self) -> usize {
        7
    }
}

impl NeighbourDevice for FailingDevice {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        Ok(Box::new(FailingNeighbours {
            device: self,
            neighbours: self.cpu.references(space, monitor)?,
        }))
    }
}

impl DistanceDevice for FailingDevice {
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.answer()?;
        self.cpu.distances(points, pairs, out, monitor)
    }
}

impl LinkageDevice for FailingDevice {
    fn dissimilarities<'a>(
        &'a self,
        source: DissimilaritySource<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        self.answer()?;
        self.cpu.dissimilarities(source, n, recurrence, monitor)
    }
}

impl KMeansDevice for FailingDevice {
    fn iterate(
        &self,
        x: &LazyRows,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        self.answer()?;
        self.cpu.iterate(x, start, iterations, monitor)
    }
}
