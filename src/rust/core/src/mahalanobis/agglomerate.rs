//! The merges of a problem on the CPU: Müllner's generic algorithm (arXiv:1109.2378), kept lazy by
//! lower bounds.
//!
//! A pair of clusters belongs to the younger of the two. Each cluster keeps lower bounds on its
//! few nearest older ones ([`Candidates`]) and a floor under all the others; one queue orders the
//! clusters by the least of these. What comes to its top is settled as far as needed: a bound is
//! replaced by the distance that decides, a floor by a new sweep, and a distance is a merge. Since
//! older clusters never change, only the new cluster of a merge is swept against all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::clusters::Clusters;
use super::shape::ShapeRule;
use super::{distance, Problem};
use crate::backend::cpu::screen::{Marks, Nearest, Query, Screen, LANES};
use crate::backend::cpu::simd::dispatch;
use crate::backend::Merge;
use crate::error::Result;
use crate::monitor::Monitor;

/// How many candidates a first sweep keeps; each further sweep of a cluster keeps twice as many.
const CANDIDATES: usize = 8;

/// Sweeps over fewer coordinates than this are not worth dividing among threads.
const PARALLEL_COORDINATES: usize = 1 << 19;

/// The progress units of a problem: pairs of clusters to look at in the first sweeps and in those
/// after each merge.
pub fn work(problem: &Problem) -> u64 {
    let n = problem.clusters() as u64;
    n * (n - 1)
}

/// The merges that make one cluster of `problem`'s clusters, in order.
///
/// Takes about n²·p operations for centroid distances and O(n·p + c·p²) memory, c the most
/// clusters of several members at a time.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop.
pub fn agglomerate(problem: &Problem, monitor: &Monitor) -> Result<Vec<Merge>> {
    let mut state = Agglomeration::new(problem, monitor);
    state.start()?;
    while state.merges.len() + 1 < problem.clusters() {
        let Reverse(head) = state.queue.pop().expect("every live cluster is queued");
        state.settle(head)?;
    }
    Ok(state.merges)
}

/// What is known of a pair that belongs to a cluster. The order: the smaller first, bounds before
/// distances (a bound may hide a smaller slot), the lower partner first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The bits of the value: distances are ≥ 0, so their bits order them.
    value: u64,
    decided: bool,
    partner: u32,
    partner_birth: u32,
}

/// The older neighbours of one cluster.
#[derive(Debug, Default)]
struct Candidates {
    heap: BinaryHeap<Reverse<Candidate>>,
    /// No older cluster outside the heap is nearer.
    floor: f64,
    sweeps: u32,
}

/// The head of a cluster's candidates in the queue of all; orders as [`Candidate`], floors first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    value: u64,
    kind: Kind,
    lower: u32,
    higher: u32,
    owner: u32,
    owner_birth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Floor,
    Bound,
    Distance,
}

struct Agglomeration<'a> {
    problem: &'a Problem<'a>,
    monitor: &'a Monitor,
    rule: ShapeRule,
    clusters: Clusters<'a>,
    /// By slot: when its cluster came to be; 0, 1, … at the start.
    births: Vec<u32>,
    below_full_size: usize,
    candidates: Vec<Candidates>,
    queue: BinaryHeap<Reverse<Head>>,
    screen: Screen,
    marks: Marks,
    merges: Vec<Merge>,
}

impl<'a> Agglomeration<'a> {
    fn new(problem: &'a Problem<'a>, monitor: &'a Monitor) -> Self {
        let n = problem.clusters();
        let below_full_size = (0..n)
            .filter(|&s| (problem.members_of(s).len() as f64) < problem.options.threshold)
            .count();
        let rule = problem.options.shape_rule(below_full_size == 0);
        Self {
            problem,
            monitor,
            rule,
            clusters: Clusters::new(problem, &rule),
            births: vec![0; n],
            below_full_size,
            candidates: (0..n).map(|_| Candidates::default()).collect(),
            queue: BinaryHeap::with_capacity(n),
            screen: new_screen(problem),
            marks: Marks::new(n),
            merges: Vec::with_capacity(n - 1),
        }
    }

    /// Screens all live clusters against each other, and queues them, from scratch.
    fn start(&mut self) -> Result<()> {
        self.screen = new_screen(self.problem);
        for (birth, slot) in self.clusters.live().enumerate() {
            self.births[slot as usize] = birth as u32;
            self.screen.push(slot, &self.clusters.profile(slot));
        }
        let live: Vec<u32> = self.clusters.live().collect();
        let found: Vec<Candidates> = live
            .par_iter()
            .enumerate()
            .map(|(position, &slot)| {
                self.monitor.check()?;
                let found = self.sweep(slot, position, 0, &Marks::default());
                self.monitor.advance(position as u64);
                Ok(found)
            })
            .collect::<Result<_>>()?;
        self.queue.clear();
        for (&slot, found) in live.iter().zip(found) {
            self.candidates[slot as usize] = found;
            self.enqueue(slot);
        }
        Ok(())
    }

    /// The nearest clusters before position `end` of the screen, `marks` left out.
    fn sweep(&self, slot: u32, end: usize, sweeps: u32, marks: &Marks) -> Candidates {
        let query = self.screen.query(&self.clusters.profile(slot));
        let capacity = CANDIDATES << sweeps.min(16);
        let nearest = self.nearest(&query, end, capacity, marks);
        let unit = self.screen.unit();
        let floor = nearest.floor() * unit;
        let heap = nearest
            .into_entries()
            .map(|(bound, partner)| {
                Reverse(Candidate {
                    value: (bound * unit).to_bits(),
                    decided: false,
                    partner,
                    partner_birth: self.births[partner as usize],
                })
            })
            .collect();
        Candidates {
            heap,
            floor,
            sweeps: sweeps + 1,
        }
    }

    fn nearest(&self, query: &Query, end: usize, capacity: usize, marks: &Marks) -> Nearest {
        let part = |blocks: std::ops::Range<usize>| {
            let nearest = Nearest::new(capacity);
            dispatch(self.screen.sweep(query, blocks, end, marks, nearest))
        };
        let blocks = end.div_ceil(LANES);
        let threads = rayon::current_num_threads();
        if threads == 1 || end * self.problem.x.columns() < PARALLEL_COORDINATES {
            return part(0..blocks);
        }
        let share = blocks.div_ceil(threads);
        (0..threads)
            .into_par_iter()
            .map(|t| part((t * share).min(blocks)..((t + 1) * share).min(blocks)))
            .reduce_with(|mut all, other| {
                all.merge(other);
                all
            })
            .expect("there is a thread")
    }

    /// Queues a cluster by the least that it has.
    fn enqueue(&mut self, owner: u32) {
        let candidates = &self.candidates[owner as usize];
        let floor = candidates.floor.to_bits();
        let (value, kind, partner) = match candidates.heap.peek() {
            Some(Reverse(first)) if first.value < floor => {
                let kind = if first.decided {
                    Kind::Distance
                } else {
                    Kind::Bound
                };
                (first.value, kind, first.partner)
            }
            // No older cluster is left; a younger one owns the pairs with this one.
            None if candidates.floor == f64::INFINITY => return,
            _ => (floor, Kind::Floor, owner),
        };
        self.queue.push(Reverse(Head {
            value,
            kind,
            lower: owner.min(partner),
            higher: owner.max(partner),
            owner,
            owner_birth: self.births[owner as usize],
        }));
    }

    fn is_live(&self, slot: u32, birth: u32) -> bool {
        self.clusters.size(slot) > 0 && self.births[slot as usize] == birth
    }

    /// Takes the head of the queue one step further.
    fn settle(&mut self, head: Head) -> Result<()> {
        let owner = head.owner;
        if !self.is_live(owner, head.owner_birth) {
            return Ok(());
        }
        if head.kind == Kind::Floor {
            self.monitor.check()?;
            self.sweep_again(owner);
            self.enqueue(owner);
            return Ok(());
        }
        let heap = &mut self.candidates[owner as usize].heap;
        let Reverse(first) = heap.pop().expect("the head stands for a candidate");
        if self.is_live(first.partner, first.partner_birth) {
            if first.decided {
                return self.merge(head.lower, head.higher, f64::from_bits(first.value));
            }
            let decided = self.clusters.distance(head.lower, head.higher);
            debug_assert!(f64::from_bits(first.value) <= decided, "the bound holds");
            self.candidates[owner as usize]
                .heap
                .push(Reverse(Candidate {
                    value: decided.to_bits(),
                    decided: true,
                    ..first
                }));
        }
        self.enqueue(owner);
        Ok(())
    }

    /// Looks for more candidates of a cluster whose floor was reached.
    fn sweep_again(&mut self, owner: u32) {
        let old = std::mem::take(&mut self.candidates[owner as usize]);
        let known: Vec<_> = old
            .heap
            .into_iter()
            .filter(|Reverse(c)| c.decided && self.is_live(c.partner, c.partner_birth))
            .collect();
        self.marks.clear();
        for Reverse(candidate) in &known {
            self.marks.mark(candidate.partner);
        }
        let end = self.screen.position(owner);
        let mut found = self.sweep(owner, end, old.sweeps, &self.marks);
        found.heap.extend(known);
        self.candidates[owner as usize] = found;
    }

    fn merge(&mut self, lower: u32, higher: u32, height: f64) -> Result<()> {
        self.monitor.check()?;
        self.merges.push(Merge {
            lower,
            higher,
            height,
        });
        self.candidates[higher as usize] = Candidates::default();
        self.screen.remove(lower);
        self.screen.remove(higher);
        let is_full_size = |size: usize| size as f64 >= self.problem.options.threshold;
        let below = |size: usize| usize::from(!is_full_size(size));
        let before = below(self.clusters.size(lower)) + below(self.clusters.size(higher));
        self.clusters.unite(lower, higher);
        self.below_full_size -= before - below(self.clusters.size(lower));
        if self.below_full_size == 0 && !self.rule.all_full_size {
            return self.switch();
        }
        self.clusters.reshape(lower, &self.rule);
        self.births[lower as usize] = (self.problem.clusters() + self.merges.len()) as u32;
        let end = self.screen.positions();
        self.candidates[lower as usize] = self.sweep(lower, end, 0, &Marks::default());
        self.screen.push(lower, &self.clusters.profile(lower));
        self.monitor.advance(end as u64);
        self.enqueue(lower);
        Ok(())
    }

    /// All clusters have become full-size: all distances are computed anew.
    fn switch(&mut self) -> Result<()> {
        self.rule = self.problem.options.shape_rule(true);
        let live: Vec<u32> = self.clusters.live().collect();
        for slot in live {
            self.clusters.reshape(slot, &self.rule);
        }
        self.start()
    }
}

/// An empty screen around the middle of the problem's bounding box.
fn new_screen(problem: &Problem) -> Screen {
    let (least, greatest) = problem.bounding_box();
    let center: Vec<f64> = least
        .iter()
        .zip(&greatest)
        .map(|(l, g)| l + (g - l) / 2.0)
        .collect();
    let reach = least
        .iter()
        .zip(&greatest)
        .fold(0.0f64, |reach, (l, g)| reach.max(g - l));
    Screen::new(
        problem.clusters(),
        center,
        reach,
        !problem.options.quick,
        distance::log2_ceil(problem.members.len()),
    )
}
