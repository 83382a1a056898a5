//! The search for nearest neighbours in a single block.

use super::block::Block;
use super::graph::{Graph, NEIGHBOURS};
use super::update::UpdateProgress;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, Space};

/// The `k` nearest neighbours among the first `references` points: of each of the other points or,
/// if there are no other points, of each reference among the other references.
///
/// Takes O(m·n·p) time for m queries and n references in p dimensions, and O((m + n)·p + m·k)
/// memory.
///
/// # Errors
/// `Error::Input` if `k` is 0 or more than the number of possible neighbours, or if a distance is
/// not a number (see [`Space::check`]); otherwise the errors of the device.
pub fn nearest(
    points: &Points,
    references: usize,
    k: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Graph> {
    let mut search = Search::new(points, references, k, device.cpu())?;
    search.run(device, monitor)?;
    Ok(search.into_graph())
}

/// A search for nearest neighbours that can resume on another device after one failed: finished
/// queries are not searched again.
#[derive(Debug)]
pub struct Search<'a> {
    block: Block<'a>,
    graph: Graph,
    done: UpdateProgress,
}

impl<'a> Search<'a> {
    /// A search with the arguments of [`nearest`].
    ///
    /// # Errors
    /// The input errors of [`nearest`], and `Error::Memory`.
    pub fn new(points: &'a Points, references: usize, k: usize, cpu: &Cpu) -> Result<Self> {
        let among_themselves = references == points.rows();
        let most = references - usize::from(among_themselves);
        if k == 0 || k > most {
            return Err(Error::Input(format!(
                "`k` is {k}; it must be at least 1 and at most {most}, the number of neighbours \
                 there are"
            )));
        }
        Space::Points { points, references }.check()?;
        let queries = if among_themselves {
            0..references
        } else {
            references..points.rows()
        };
        let graph = cpu.install(|| Graph::unknown_on_threads(queries.len(), k))?;
        let own = || memory::collected(NEIGHBOURS, 0..references as u32);
        let block = Block {
            points,
            references,
            first: 0,
            queries,
            own: among_themselves.then(own).transpose()?,
        };
        Ok(Self {
            block,
            graph,
            done: UpdateProgress::default(),
        })
    }

    /// Searches for the neighbours of all unfinished queries on a device.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn run(
        &mut self,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        self.graph
            .update(&self.block, &mut self.done, device, monitor)
    }

    /// The neighbours.
    pub fn into_graph(self) -> Graph {
        self.graph
    }
}
