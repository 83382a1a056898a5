//! The merges of a problem: Müllner's generic algorithm (arXiv:1109.2378), kept lazy by lower
//! bounds.
//!
//! A pair of clusters belongs to the younger of the two. Each cluster keeps lower bounds on its
//! few nearest older ones ([`Candidates`]) and a floor under all the others; one queue orders the
//! clusters by the least of these. What comes to its top is settled as far as needed: a bound is
//! replaced by the distance that decides, a floor by a new sweep, and a distance is a merge. Since
//! older clusters never change, only the new cluster of a merge is swept against all.
//!
//! The bounds come from a [`Screen`] on some device. To keep it busy, the merges that look like
//! the next ones are prepared together ([`Prepared`]): what becomes of two clusters depends on
//! nothing else, so a preparation stays good for as long as both live, whatever comes between.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use super::clusters::{Clusters, United};
use super::shape::ShapeRule;
use super::{distance, Problem};
use crate::backend::screen::{Found, Frame, Request, Screen};
use crate::backend::Merge;
use crate::error::Result;
use crate::monitor::Monitor;

/// How many candidates a first sweep keeps; each further sweep of a cluster keeps twice as many.
const CANDIDATES: usize = 8;

/// To find more candidates than this takes longer than another sweep now and then.
const FAR_TOO_MANY: usize = 8 * CANDIDATES;

/// A cluster with so many times the members of another hardly changes when they merge.
const MUCH_LARGER: usize = 8;

/// How many clusters are put side by side at the start: as many as the screens' groups have.
const SIDE_BY_SIDE: usize = 256;

/// Fewer clusters than this are swept as they come: to put them in order takes longer than it saves.
const WORTH_ORDER: usize = 16 * SIDE_BY_SIDE;

/// Full distances over more members than this are not decided before it is their turn.
const COSTLY_MEMBERS: usize = 64;

/// Uniting pairs with fewer operations than this is done before other threads have begun.
const WORTH_THREADS: usize = 1 << 17;

/// Pairs that the first sweeps look at between two looks at the monitor.
const PAIRS_BETWEEN_CHECKS: usize = 1 << 27;

/// The progress units of a problem: pairs of clusters to look at in the first sweeps and in those
/// after each merge.
pub fn work(problem: &Problem) -> u64 {
    let n = problem.clusters() as u64;
    n * (n - 1)
}

/// How the problem's data units and a screen's units relate.
pub fn frame(problem: &Problem) -> Frame {
    let (least, greatest) = problem.bounding_box();
    let spans = || least.iter().zip(&greatest);
    Frame::new(
        spans().map(|(l, g)| l + (g - l) / 2.0).collect(),
        spans().fold(0.0f64, |reach, (l, g)| reach.max(g - l)),
        !problem.options.quick,
        distance::log2_ceil(problem.members.len()),
    )
}

/// The merges that make one cluster of `problem`'s clusters, in order; `new_screen` makes an empty
/// screen for a number of live clusters.
///
/// Takes about n²·p operations for centroid distances and O(n·p + c·p²) memory, c the most
/// clusters of several members at a time.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, and what the screen returns.
pub fn agglomerate(
    problem: &Problem,
    new_screen: impl Fn(usize) -> Result<Box<dyn Screen>>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let mut state = Agglomeration::new(problem, &new_screen, monitor)?;
    state.start()?;
    while state.live() > 1 {
        let Reverse(head) = state.queue.pop().expect("every live cluster is queued");
        state.settle(head)?;
    }
    Ok(state.merges)
}

/// Sorts slots so that clusters that are near each other are near each other in the order, too: a
/// screen can then rule out many at once. Halves them, again and again, along the coordinate that
/// varies most.
fn side_by_side(slots: &mut [u32], clusters: &Clusters) {
    if slots.len() <= SIDE_BY_SIDE {
        return;
    }
    let first = clusters.profile(slots[0]).mean;
    let mut sums = vec![(0.0, 0.0); first.len()];
    for &slot in slots.iter() {
        let mean = clusters.profile(slot).mean;
        for ((sum, squares), (x, first)) in sums.iter_mut().zip(mean.iter().zip(first)) {
            *sum += x - first;
            *squares += (x - first) * (x - first);
        }
    }
    let n = slots.len() as f64;
    let variation = |k: &usize| sums[*k].1 - sums[*k].0 * sums[*k].0 / n;
    let most = (0..first.len()).max_by(|a, b| variation(a).total_cmp(&variation(b)));
    let coordinate = most.expect("there is a column");
    let middle = (slots.len() / 2).next_multiple_of(SIDE_BY_SIDE);
    let value = |slot: &u32| clusters.profile(*slot).mean[coordinate];
    slots.select_nth_unstable_by(middle - 1, |a, b| {
        value(a).total_cmp(&value(b)).then(a.cmp(b))
    });
    let (left, right) = slots.split_at_mut(middle);
    rayon::join(
        || side_by_side(left, clusters),
        || side_by_side(right, clusters),
    );
}

/// Where the first candidates of a cluster probably end, by the last of the older ones. As
/// [`Agglomeration::guess`], it may be wrong.
fn first_limit(older: &[u32], slot: u32, clusters: &Clusters, quick: bool) -> f64 {
    let last = &older[older.len().saturating_sub(SIDE_BY_SIDE / 4)..];
    let is_cheap =
        |other: &&u32| quick || clusters.size(slot) + clusters.size(**other) <= COSTLY_MEMBERS;
    let distance = |&other: &u32| clusters.decide(slot, other).distance;
    let mut distances: Vec<f64> = last.iter().filter(is_cheap).map(distance).collect();
    if distances.len() < CANDIDATES {
        return f64::INFINITY;
    }
    let (_, &mut limit, _) = distances.select_nth_unstable_by(CANDIDATES - 1, f64::total_cmp);
    limit.next_up()
}

/// Where to look for clusters that are not nearer than `floor`, after so many sweeps: first not much
/// further, for that is quick.
fn further(floor: f64, sweeps: u32) -> f64 {
    if floor > 0.0 && sweeps < 4 {
        2.0 * floor
    } else {
        f64::INFINITY
    }
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

impl Candidates {
    /// What a sweep found.
    fn new(found: Found, births: &[u32]) -> Self {
        let candidate = |(bound, partner): (f64, u32)| {
            Reverse(Candidate {
                value: bound.to_bits(),
                decided: false,
                partner,
                partner_birth: births[partner as usize],
            })
        };
        Self {
            heap: found.bounds.into_iter().map(candidate).collect(),
            floor: found.floor,
            sweeps: 1,
        }
    }
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

/// A merge made ahead of its time.
#[derive(Debug)]
struct Prepared {
    births: (u32, u32),
    united: United,
    candidates: Candidates,
    /// The candidates are all from before this birth.
    as_of: u32,
}

/// About how far the candidates of a cluster to come are.
struct Guess {
    by: GuessedBy,
    distance: f64,
}

/// By whose candidates those of a union are guessed.
#[derive(Clone, Copy)]
enum GuessedBy {
    Both,
    /// The larger of the two clusters hardly changes.
    Larger,
}

struct Agglomeration<'a, F> {
    problem: &'a Problem<'a>,
    monitor: &'a Monitor,
    rule: ShapeRule,
    clusters: Clusters<'a>,
    /// By slot: when its cluster came to be; 0, 1, … at the start.
    births: Vec<u32>,
    next_birth: u32,
    /// The births and slots since the oldest preparation that is kept.
    recent: Vec<(u32, u32)>,
    below_full_size: usize,
    candidates: Vec<Candidates>,
    queue: BinaryHeap<Reverse<Head>>,
    new_screen: &'a F,
    screen: Box<dyn Screen>,
    prepared: HashMap<(u32, u32), Prepared>,
    /// How many merges to prepare at a time.
    batch: usize,
    /// How far beyond the candidates of two clusters those of their union are looked for, by the kind
    /// of [`Guess`]: adapts itself so that a few times [`CANDIDATES`] are found.
    reach: [f64; 2],
    merges: Vec<Merge>,
}

impl<'a, F: Fn(usize) -> Result<Box<dyn Screen>>> Agglomeration<'a, F> {
    fn new(problem: &'a Problem<'a>, new_screen: &'a F, monitor: &'a Monitor) -> Result<Self> {
        let n = problem.clusters();
        let full = problem.options.shape_rule(true);
        let below_full_size = (0..n)
            .filter(|&s| !full.is_full_size(problem.members_of(s).len()))
            .count();
        let rule = problem.options.shape_rule(below_full_size == 0);
        Ok(Self {
            problem,
            monitor,
            rule,
            clusters: Clusters::new(problem, &rule)?,
            births: vec![0; n],
            next_birth: 0,
            recent: Vec::new(),
            below_full_size,
            candidates: (0..n).map(|_| Candidates::default()).collect(),
            queue: BinaryHeap::with_capacity(n),
            new_screen,
            screen: new_screen(n)?,
            prepared: HashMap::new(),
            batch: 1,
            reach: [1.0; 2],
            merges: Vec::with_capacity(n - 1),
        })
    }

    /// Screens all live clusters against each other, and queues them, from scratch.
    fn start(&mut self) -> Result<()> {
        let mut live: Vec<u32> = self.clusters.live().collect();
        let in_order = live.len() >= WORTH_ORDER;
        if in_order {
            side_by_side(&mut live, &self.clusters);
        }
        for &slot in &live {
            self.births[slot as usize] = self.next_birth;
            self.next_birth += 1;
            self.screen.push(slot, &self.clusters.profile(slot))?;
        }
        self.queue.clear();
        self.prepared.clear();
        self.recent.clear();
        self.batch = self.screen.batch();
        let at_a_time = (PAIRS_BETWEEN_CHECKS / live.len()).max(1);
        for (chunk, slots) in live.chunks(at_a_time).enumerate() {
            self.monitor.check()?;
            let end = |i: usize| chunk * at_a_time + i;
            let (clusters, quick) = (&self.clusters, self.problem.options.quick);
            let limits: Vec<f64> = slots
                .par_iter()
                .enumerate()
                .map(|(i, &slot)| {
                    let older = if in_order { &live[..end(i)] } else { &[] };
                    first_limit(older, slot, clusters, quick)
                })
                .collect();
            let requests: Vec<Request> = slots
                .iter()
                .enumerate()
                .zip(limits)
                .map(|((i, &slot), limit)| Request {
                    profile: self.clusters.profile(slot),
                    end: end(i),
                    capacity: CANDIDATES,
                    limit,
                    is_tight: false,
                    skip: &[],
                })
                .collect();
            let answers = self.screen.sweep(&requests)?;
            for (i, (&slot, found)) in slots.iter().zip(answers).enumerate() {
                self.candidates[slot as usize] = Candidates::new(found, &self.births);
                self.enqueue(slot);
                self.monitor.advance(end(i) as u64);
            }
        }
        Ok(())
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
        if !self.is_live(head.owner, head.owner_birth) {
            return Ok(());
        }
        match head.kind {
            Kind::Floor => self.sweep_again(head.owner),
            Kind::Bound => {
                self.decide(head.owner);
                Ok(())
            }
            Kind::Distance if self.first_pair(head.owner).is_none() => {
                self.drop_first(head.owner);
                Ok(())
            }
            Kind::Distance => self.merge(head),
        }
    }

    /// Replaces a cluster's first bound by the distance, or drops it if the partner is gone.
    fn decide(&mut self, owner: u32) {
        let Some((lower, higher)) = self.first_pair(owner) else {
            return self.drop_first(owner);
        };
        let decision = self.clusters.decide(lower, higher);
        let distance = self.clusters.keep(decision);
        let heap = &mut self.candidates[owner as usize].heap;
        let mut first = heap.peek_mut().expect("there is a first candidate");
        debug_assert!(f64::from_bits(first.0.value) <= distance, "the bound holds");
        first.0.value = distance.to_bits();
        first.0.decided = true;
        drop(first);
        self.enqueue(owner);
    }

    /// Drops a cluster's first candidate, whose partner is gone.
    fn drop_first(&mut self, owner: u32) {
        self.candidates[owner as usize].heap.pop();
        self.enqueue(owner);
    }

    /// The pair that a cluster's first candidate stands for, if its partner lives.
    fn first_pair(&self, owner: u32) -> Option<(u32, u32)> {
        let Reverse(first) = self.candidates[owner as usize].heap.peek()?;
        let pair = (owner.min(first.partner), owner.max(first.partner));
        self.is_live(first.partner, first.partner_birth)
            .then_some(pair)
    }

    /// Looks for more candidates of a cluster whose floor was reached.
    fn sweep_again(&mut self, owner: u32) -> Result<()> {
        self.monitor.check()?;
        let old = std::mem::take(&mut self.candidates[owner as usize]);
        let known: Vec<_> = old
            .heap
            .into_iter()
            .filter(|Reverse(c)| c.decided && self.is_live(c.partner, c.partner_birth))
            .collect();
        let mut skip: Vec<u32> = known.iter().map(|Reverse(c)| c.partner).collect();
        skip.sort_unstable();
        let request = Request {
            profile: self.clusters.profile(owner),
            end: self.screen.roster().position(owner),
            capacity: CANDIDATES << old.sweeps.min(16),
            limit: further(old.floor, old.sweeps),
            is_tight: false,
            skip: &skip,
        };
        let found = self.screen.sweep(&[request])?.swap_remove(0);
        let mut candidates = Candidates::new(found, &self.births);
        candidates.sweeps = old.sweeps + 1;
        candidates.heap.extend(known);
        self.candidates[owner as usize] = candidates;
        self.enqueue(owner);
        Ok(())
    }

    /// Merges the pair that a head stands for.
    fn merge(&mut self, head: Head) -> Result<()> {
        self.monitor.check()?;
        let (lower, higher) = (head.lower, head.higher);
        let births = |state: &Self| (state.births[lower as usize], state.births[higher as usize]);
        let is_prepared = |p: &Prepared| p.births == births(self);
        if !self.prepared.get(&(lower, higher)).is_some_and(is_prepared) {
            self.prepare(&head)?;
        }
        let prepared = self.prepared.remove(&(lower, higher)).expect("is prepared");
        self.merges.push(Merge {
            lower,
            higher,
            height: f64::from_bits(head.value),
        });
        self.monitor
            .advance(self.screen.roster().positions() as u64);
        self.screen.remove(lower)?;
        self.screen.remove(higher)?;
        self.candidates[higher as usize] = Candidates::default();
        let below = |size: usize| usize::from(!self.rule.is_full_size(size));
        let before = below(self.clusters.size(lower)) + below(self.clusters.size(higher));
        self.clusters
            .replace(lower, higher, prepared.united, &self.rule);
        self.below_full_size -= before - below(self.clusters.size(lower));
        if self.live() == 1 {
            return Ok(());
        }
        if self.below_full_size == 0 && !self.rule.all_full_size {
            return self.switch();
        }
        let birth = self.next_birth;
        self.next_birth += 1;
        self.births[lower as usize] = birth;
        let mut candidates = prepared.candidates;
        for &(birth, slot) in &self.recent {
            if birth >= prepared.as_of && self.is_live(slot, birth) {
                candidates.heap.push(Reverse(Candidate {
                    value: self.clusters.bound(lower, slot).to_bits(),
                    decided: false,
                    partner: slot,
                    partner_birth: birth,
                }));
            }
        }
        self.candidates[lower as usize] = candidates;
        self.recent.push((birth, lower));
        self.screen.push(lower, &self.clusters.profile(lower))?;
        self.enqueue(lower);
        if self.screen.is_outgrown(self.live()) {
            self.change_screen()?;
        }
        Ok(())
    }

    /// Prepares the merge that a head stands for, and those that look like the next ones.
    fn prepare(&mut self, head: &Head) -> Result<()> {
        self.forget_preparations();
        let pairs = self.look_ahead(head);
        let rule = &self.rule;
        let clusters = &self.clusters;
        let unite = |&(lower, higher): &(u32, u32)| clusters.united(lower, higher, rule);
        let united: Vec<United> = if self.operations(&pairs) < WORTH_THREADS {
            pairs.iter().map(unite).collect()
        } else {
            pairs.par_iter().map(unite).collect()
        };
        let skips: Vec<[u32; 2]> = pairs.iter().map(|&(l, h)| [l, h]).collect();
        let guesses: Vec<Guess> = skips.iter().map(|&pair| self.guess(pair)).collect();
        let requests: Vec<Request> = united
            .iter()
            .zip(&skips)
            .zip(&guesses)
            .map(|((united, skip), guess)| {
                let limit = self.reach[guess.by as usize] * guess.distance;
                Request {
                    profile: united.profile(),
                    end: self.screen.roster().positions(),
                    capacity: CANDIDATES,
                    limit,
                    is_tight: limit < f64::INFINITY,
                    skip,
                }
            })
            .collect();
        let mut answers = self.screen.sweep(&requests)?;
        drop(requests);
        for (found, guess) in answers.iter_mut().zip(&guesses) {
            let adapted = match found.bounds.len() {
                0..CANDIDATES => 1.03,
                count if count > FAR_TOO_MANY => 0.98,
                _ => 1.0,
            };
            let reach = &mut self.reach[guess.by as usize];
            *reach = (*reach * adapted).clamp(0.1, 10.0);
            found.keep_nearest(4 * CANDIDATES);
        }
        for ((&(lower, higher), united), found) in pairs.iter().zip(united).zip(answers) {
            let prepared = Prepared {
                births: (self.births[lower as usize], self.births[higher as usize]),
                united,
                candidates: Candidates::new(found, &self.births),
                as_of: self.next_birth,
            };
            self.prepared.insert((lower, higher), prepared);
        }
        Ok(())
    }

    /// About how many operations it takes to unite these pairs.
    fn operations(&self, pairs: &[(u32, u32)]) -> usize {
        let p = self.problem.x.columns();
        let operations = |&(lower, higher): &(u32, u32)| {
            let size = self.clusters.size(lower) + self.clusters.size(higher);
            match (self.rule.may_have_shape(size), self.problem.options.quick) {
                (true, _) => p * p * p,
                (false, false) => p * p,
                (false, true) => p,
            }
        };
        pairs.iter().map(operations).sum()
    }

    /// Where the candidates of what becomes of two clusters probably end. A bad guess costs time only:
    /// a second sweep, or candidates that nobody needs.
    fn guess(&self, pair: [u32; 2]) -> Guess {
        let size = |slot: u32| self.clusters.size(slot);
        let (mut larger, mut smaller) = (pair[0], pair[1]);
        if size(larger) < size(smaller) {
            std::mem::swap(&mut larger, &mut smaller);
        }
        let known = |owner: u32| {
            let others = self.candidates[owner as usize].heap.iter();
            others
                .filter(|Reverse(c)| {
                    !pair.contains(&c.partner) && self.is_live(c.partner, c.partner_birth)
                })
                .map(|Reverse(c)| c.value)
        };
        let mut values: Vec<u64> = known(larger).collect();
        let hardly_changes = size(larger) >= MUCH_LARGER * size(smaller);
        let by = if hardly_changes && values.len() >= CANDIDATES {
            GuessedBy::Larger
        } else {
            values.extend(known(smaller));
            GuessedBy::Both
        };
        let wanted = CANDIDATES.min(values.len());
        let distance = if wanted == 0 {
            f64::INFINITY
        } else {
            f64::from_bits(*values.select_nth_unstable(wanted - 1).1)
        };
        Guess { by, distance }
    }

    /// Drops preparations for clusters that are gone or that have waited long (the more births
    /// since, the more a preparation lacks), and recent births that none needs.
    fn forget_preparations(&mut self) {
        let age = 2 * self.screen.batch() as u32;
        let oldest = self.next_birth.saturating_sub(age);
        let mut prepared = std::mem::take(&mut self.prepared);
        prepared.retain(|&(lower, higher), prepared| {
            prepared.as_of >= oldest
                && self.is_live(lower, prepared.births.0)
                && self.is_live(higher, prepared.births.1)
        });
        self.prepared = prepared;
        let oldest = self.prepared.values().map(|p| p.as_of).min();
        self.recent
            .retain(|&(birth, _)| oldest.is_some_and(|oldest| birth >= oldest));
    }

    /// The pair of a head and the next ones in the queue that share no cluster with each other.
    fn look_ahead(&mut self, head: &Head) -> Vec<(u32, u32)> {
        let mut pairs = vec![(head.lower, head.higher)];
        let mut busy = vec![head.lower, head.higher];
        let mut aside = Vec::new();
        for _ in 1..2 * self.batch {
            let Some(Reverse(next)) = self.queue.pop() else {
                break;
            };
            if !self.is_live(next.owner, next.owner_birth) {
                continue;
            }
            if next.kind == Kind::Floor || next.kind == Kind::Bound && self.is_costly(&next) {
                aside.push(next);
                continue;
            }
            if next.kind == Kind::Bound {
                self.decide(next.owner);
                continue;
            }
            if self.first_pair(next.owner).is_none() {
                self.drop_first(next.owner);
                continue;
            }
            let pair = (next.lower, next.higher);
            if !busy.contains(&pair.0)
                && !busy.contains(&pair.1)
                && !self.prepared.contains_key(&pair)
            {
                pairs.push(pair);
            }
            busy.extend([pair.0, pair.1]);
            aside.push(next);
        }
        self.queue.extend(aside.into_iter().map(Reverse));
        // Look further while most of what is found is new, less far while hardly anything is.
        if 2 * pairs.len() >= self.batch {
            self.batch = (2 * self.batch).min(self.screen.batch());
        } else if 4 * pairs.len() <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
        pairs
    }

    /// Whether the distance that a head stands for takes long to decide.
    fn is_costly(&self, head: &Head) -> bool {
        let members = self.clusters.size(head.lower) + self.clusters.size(head.higher);
        !self.problem.options.quick && members > COSTLY_MEMBERS
    }

    /// All clusters have become full-size: all distances are computed anew.
    fn switch(&mut self) -> Result<()> {
        self.rule = self.problem.options.shape_rule(true);
        let live: Vec<u32> = self.clusters.live().collect();
        for slot in live {
            self.clusters.reshape(slot, &self.rule);
        }
        self.clusters.forget_sums();
        self.screen = (self.new_screen)(self.live())?;
        self.start()
    }

    /// Number of live clusters.
    fn live(&self) -> usize {
        self.problem.clusters() - self.merges.len()
    }

    /// Moves the live clusters to a new screen, in the order of their births.
    fn change_screen(&mut self) -> Result<()> {
        let mut live: Vec<u32> = self.clusters.live().collect();
        live.sort_unstable_by_key(|&slot| self.births[slot as usize]);
        self.screen = (self.new_screen)(live.len())?;
        for slot in live {
            self.screen.push(slot, &self.clusters.profile(slot))?;
        }
        Ok(())
    }
}
