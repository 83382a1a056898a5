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
//! While the device works on them, the host looks further ([`Outlook`]).

use std::cmp::Reverse;
use std::collections::HashMap;

use rayon::prelude::*;

use super::clusters::{Clusters, Decision};
use super::device::AgglomerationDevice;
use super::duplicates::Deduplicated;
use super::forest::{
    Candidate, Candidates, Draft, Forest, Guess, Next, Outlook, CANDIDATES, COSTLY_MEMBERS, NEVER,
    SIDE_BY_SIDE,
};
use super::problem::Problem;
use super::queue::Queue;
use super::screen::{Found, Frame, Precision, Request, Screen, View};
use crate::error::Result;
use crate::memory;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// To find more candidates than this takes longer than another sweep now and then.
const FAR_TOO_MANY: usize = 8 * CANDIDATES;

/// Fewer clusters than this are swept as they come: to put them in order takes longer than it saves.
const WORTH_ORDER: usize = 16 * SIDE_BY_SIDE;

/// How far down the queue the next merge is looked for.
const LOOKED_THROUGH: usize = 64;

/// What takes fewer operations than this is done before other threads have begun.
const WORTH_THREADS: usize = 1 << 17;

/// If one in so many clusters is coarse ([`Forest::is_coarse`]), the screen's means are made more
/// precise: a sweep then takes about twice as long, while each coarse cluster costs the distances to
/// all clusters within its error.
const TOO_COARSE: usize = 64;

/// Of how many clusters it is estimated how many are coarse.
const SAMPLE: usize = 1024;

/// Pairs that the first sweeps look at between two looks at the monitor, in up to so many dimensions;
/// fewer in more.
const PAIRS_BETWEEN_CHECKS: usize = 1 << 27;
const DIMENSIONS_BETWEEN_CHECKS: usize = 64;

/// The progress units of a problem: pairs of clusters to look at in the first sweeps and in those
/// after each merge.
pub fn work(problem: &Problem) -> u64 {
    let n = problem.clusters() as u64;
    n * (n - 1)
}

/// The merges of each problem's clusters to one, in order.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop, `Error::Memory` where there is not enough, and what
/// the device returns.
pub fn agglomerate_all(
    problems: &[Problem<'_>],
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let Some(whole) = device.whole_problems() else {
        let all: Vec<usize> = (0..problems.len()).collect();
        return agglomerate_on_screens(problems, &all, device, monitor);
    };
    let chosen = whole.choose(problems, monitor)?;
    let is_left = |number: &usize| chosen.binary_search(number).is_err();
    let left: Vec<usize> = (0..problems.len()).filter(is_left).collect();
    let (by_device, on_screens) = std::thread::scope(|scope| {
        let by_device = scope.spawn(|| {
            let problems: Vec<&Problem> = chosen.iter().map(|&i| &problems[i]).collect();
            whole.merge(&problems, monitor)
        });
        let on_screens = agglomerate_on_screens(problems, &left, device, monitor);
        let by_device = by_device.join();
        let by_device = by_device.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((by_device?, on_screens?))
    })?;
    let mut merges = vec![Vec::new(); problems.len()];
    let numbers = chosen.iter().chain(&left);
    for (&number, found) in numbers.zip(by_device.into_iter().chain(on_screens)) {
        merges[number] = found;
    }
    Ok(merges)
}

/// The merges of the problems of these numbers, each with a screen of its own.
fn agglomerate_on_screens(
    problems: &[Problem<'_>],
    numbers: &[usize],
    device: &(impl AgglomerationDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Vec<Merge>>> {
    let each = || numbers.iter().map(|&number| &problems[number]);
    let largest = each().map(Problem::working_memory).fold(0.0, f64::max);
    memory::check("the clustering needs", largest)?;
    for problem in each() {
        monitor.expect(work(problem));
    }
    let merges = |(place, &number): (usize, &usize)| {
        let problem = &problems[number];
        let screen = |live, frame| device.screen(place, problem, live, frame);
        agglomerate(problem, screen, monitor)
    };
    let cpu = device.cpu();
    cpu.install(|| numbers.par_iter().enumerate().map(merges).collect())
}

/// The merges that make one cluster of `problem`'s clusters, in order; `new_screen` makes an empty
/// screen for a number of live clusters in a frame.
///
/// Takes about n²·p operations for centroid distances, n the number of different clusters, and
/// O(n·p + c·p²) memory, c the most clusters of several different members at a time.
///
/// # Errors
/// `Error::Interrupt` when `monitor` says stop, and what the screen returns.
pub fn agglomerate(
    problem: &Problem,
    new_screen: impl Fn(usize, Frame) -> Result<Box<dyn Screen>>,
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    if let Some(deduplicated) = Deduplicated::new(problem, monitor)? {
        monitor.advance(work(problem) - work(&deduplicated.problem));
        let accepts = |height| deduplicated.accepts(height);
        if let Some(merges) = search(&deduplicated.problem, &new_screen, accepts, monitor)? {
            return Ok(deduplicated.join(merges));
        }
    }
    let merges = search(problem, &new_screen, |_| true, monitor)?;
    Ok(merges.expect("any height is accepted"))
}

/// The merges of a problem; `None` where the height of the first is not accepted.
fn search(
    problem: &Problem,
    new_screen: &impl Fn(usize, Frame) -> Result<Box<dyn Screen>>,
    accepts: impl Fn(f64) -> bool,
    monitor: &Monitor,
) -> Result<Option<Vec<Merge>>> {
    if problem.clusters() == 1 {
        return Ok(Some(Vec::new()));
    }
    let mut state = Agglomeration::new(problem, new_screen, monitor)?;
    state.start()?;
    while state.live() > 1 {
        let head = state.queue.take(0).expect("every live cluster is queued");
        state.settle(head)?;
        if let [first] = &state.merges[..] {
            if !accepts(first.height) {
                return Ok(None);
            }
        }
    }
    // What ended early when the monitor said stop is of no meaning.
    monitor.check()?;
    Ok(Some(state.merges))
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

/// Where to look for clusters that are not nearer than `floor`, after so many sweeps: first not much
/// further, for that is quick.
fn further(floor: f64, sweeps: u32) -> f64 {
    if floor > 0.0 && sweeps < 4 {
        2.0 * floor
    } else {
        f64::INFINITY
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
    /// Of the other one of the pair; of no meaning for a floor.
    partner_birth: u32,
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
    draft: Draft,
    candidates: Candidates,
    /// The candidates are all from before this birth.
    as_of: u32,
}

struct Agglomeration<'a, F> {
    monitor: &'a Monitor,
    forest: Forest<'a>,
    /// The births and slots since the oldest preparation that is kept.
    recent: Vec<(u32, u32)>,
    below_full_size: usize,
    queue: Queue<Head>,
    new_screen: &'a F,
    screen: Box<dyn Screen>,
    prepared: HashMap<(u32, u32), Prepared>,
    /// What is probably the first to be prepared next.
    next: Option<Next>,
    /// How many merges to prepare at a time.
    batch: usize,
    /// How far beyond the candidates of two clusters those of their union are looked for, by the kind
    /// of [`Guess`]: adapts itself so that a few times [`CANDIDATES`] are found.
    reach: [f64; 2],
    merges: Vec<Merge>,
}

impl<'a, F: Fn(usize, Frame) -> Result<Box<dyn Screen>>> Agglomeration<'a, F> {
    fn new(problem: &'a Problem<'a>, new_screen: &'a F, monitor: &'a Monitor) -> Result<Self> {
        let n = problem.clusters();
        let full = problem.options.shape_rule(true);
        let below_full_size = (0..n)
            .filter(|&s| !full.is_full_size(problem.members_of(s).len()))
            .count();
        let rule = problem.options.shape_rule(below_full_size == 0);
        let forest = Forest::new(problem, rule, monitor)?;
        Ok(Self {
            monitor,
            screen: new_screen(n, forest.frame.clone())?,
            forest,
            recent: Vec::new(),
            below_full_size,
            queue: Queue::with_capacity(n)?,
            new_screen,
            prepared: HashMap::new(),
            next: None,
            batch: 1,
            reach: [1.0; 2],
            merges: memory::room("the merges need", n - 1)?,
        })
    }

    /// Screens all live clusters against each other, and queues them, from scratch; with more precise
    /// means where too many clusters cannot be told from their neighbours.
    fn start(&mut self) -> Result<()> {
        let mut live: Vec<u32> = self.forest.clusters.live().collect();
        let in_order = live.len() >= WORTH_ORDER;
        if in_order {
            side_by_side(&mut live, &self.forest.clusters);
        }
        // Better told before the sweeps than by all that they find.
        if in_order && self.forest.frame.precision == Precision::Single {
            let step = live.len().div_ceil(SAMPLE);
            let sample: Vec<usize> = (SIDE_BY_SIDE..live.len()).step_by(step).collect();
            let of_limit = |&at: &usize| {
                let (view, limit) = self.forest.see(&live[..at], live[at], in_order);
                usize::from(self.forest.is_coarse(&view, limit))
            };
            let coarse: usize = sample.par_iter().map(of_limit).sum();
            if TOO_COARSE * coarse >= sample.len() {
                self.sharpen()?;
            }
        }
        let coarse = self.sweep_all(&live, in_order)?;
        let is_single = self.forest.frame.precision == Precision::Single;
        if is_single && TOO_COARSE * coarse >= live.len() {
            self.sharpen()?;
            self.sweep_all(&live, in_order)?;
        }
        Ok(())
    }

    /// Takes a new screen of more precise means.
    fn sharpen(&mut self) -> Result<()> {
        self.forest.frame.precision = Precision::Double;
        self.screen = (self.new_screen)(self.live(), self.forest.frame.clone())?;
        Ok(())
    }

    /// Screens all live clusters, given in their order, against each other, and queues them. Returns
    /// how many are coarse.
    fn sweep_all(&mut self, live: &[u32], in_order: bool) -> Result<usize> {
        for &slot in live {
            self.forest.give_birth(slot);
            self.screen.push(slot, &self.forest.view(slot))?;
        }
        self.queue.clear();
        self.prepared.clear();
        self.next = None;
        self.recent.clear();
        let mut coarse = 0;
        self.batch = self.screen.batch();
        let p = self.forest.problem.x.columns();
        let coordinates = live.len() * p.div_ceil(DIMENSIONS_BETWEEN_CHECKS);
        let at_a_time = (PAIRS_BETWEEN_CHECKS / coordinates).max(1);
        for (chunk, slots) in live.chunks(at_a_time).enumerate() {
            self.monitor.check()?;
            let end = |i: usize| chunk * at_a_time + i;
            let forest = &self.forest;
            let seen: Vec<(View, f64)> = (0..slots.len())
                .into_par_iter()
                .map(|i| forest.see(&live[..end(i)], live[end(i)], in_order))
                .collect();
            let requests: Vec<Request> = seen
                .iter()
                .enumerate()
                .map(|(i, &(ref view, limit))| Request {
                    view,
                    end: end(i),
                    capacity: CANDIDATES,
                    limit,
                    is_tight: false,
                    skip: &[],
                })
                .collect();
            let answers = self.screen.sweep(&requests, &mut || ())?;
            let is_coarse =
                |((view, _), found): &(&(View, f64), &Found)| forest.is_coarse(view, found.floor);
            coarse += seen.iter().zip(&answers).filter(is_coarse).count();
            for (i, (&slot, found)) in slots.iter().zip(answers).enumerate() {
                self.forest.candidates[slot as usize] =
                    Candidates::new(found, &[], &self.forest.births);
                self.enqueue(slot);
                self.monitor.advance(end(i) as u64);
            }
        }
        Ok(coarse)
    }

    /// Queues a cluster by the least that it has.
    fn enqueue(&mut self, owner: u32) {
        let candidates = &self.forest.candidates[owner as usize];
        let floor = candidates.floor.to_bits();
        let (value, kind, partner, partner_birth) = match candidates.heap.peek() {
            Some(Reverse(first)) if first.value < floor => {
                let kind = if first.decided {
                    Kind::Distance
                } else {
                    Kind::Bound
                };
                (first.value, kind, first.partner, first.partner_birth)
            }
            // No older cluster is left; a younger one owns the pairs with this one.
            None if candidates.floor == f64::INFINITY => return,
            _ => (floor, Kind::Floor, owner, NEVER),
        };
        self.queue.push(Head {
            value,
            kind,
            lower: owner.min(partner),
            higher: owner.max(partner),
            owner,
            owner_birth: self.forest.births[owner as usize],
            partner_birth,
        });
    }

    /// Takes the head of the queue one step further.
    fn settle(&mut self, head: Head) -> Result<()> {
        if !self.forest.is_live(head.owner, head.owner_birth) {
            return Ok(());
        }
        match head.kind {
            Kind::Floor => self.sweep_again(head.owner),
            _ if !self.has_partner(&head) => {
                self.drop_first(head.owner);
                Ok(())
            }
            Kind::Bound => {
                self.decide(&head);
                Ok(())
            }
            Kind::Distance => self.merge(head),
        }
    }

    /// Replaces the bound that a head stands for by the distance.
    fn decide(&mut self, head: &Head) {
        if self.is_costly(head) && self.is_worth_threads(head) {
            return self.decide_together(head.owner);
        }
        let decision = self.forest.clusters.decide(head.lower, head.higher);
        let distance = self.forest.clusters.keep(decision);
        let heap = &mut self.forest.candidates[head.owner as usize].heap;
        let mut first = heap.peek_mut().expect("there is a first candidate");
        first.0 = first.0.decided(distance);
        drop(first);
        self.enqueue(head.owner);
    }

    /// Whether there is enough to do for all threads if each decides a distance like this one.
    fn is_worth_threads(&self, head: &Head) -> bool {
        let threads = rayon::current_num_threads();
        let clusters = &self.forest.clusters;
        threads > 1
            && threads * clusters.operations_to_decide(head.lower, head.higher) >= WORTH_THREADS
    }

    /// Replaces a cluster's first bound, which takes long, by the distance; so, too, as many as there
    /// are threads of the bounds that will be asked for before the next merge.
    fn decide_together(&mut self, owner: u32) {
        let most = rayon::current_num_threads();
        let (owners, mut next_merge) = self.take_costly(owner, most);
        let forest = &mut self.forest;
        let mut bounds: Vec<(u32, Candidate)> = Vec::with_capacity(most);
        for &owner in &owners {
            while let Some(&Reverse(first)) = forest.candidates[owner as usize].heap.peek() {
                let is_live = forest.is_live(first.partner, first.partner_birth);
                if first.decided && is_live {
                    next_merge = next_merge.min(first.value);
                }
                let is_asked_for = bounds.is_empty() || first.value < next_merge;
                if first.decided || !is_asked_for || bounds.len() == most {
                    break;
                }
                forest.candidates[owner as usize].heap.pop();
                if is_live {
                    bounds.push((owner, first));
                }
            }
        }
        let decide = |&(owner, bound): &(u32, Candidate)| {
            let (lower, higher) = (owner.min(bound.partner), owner.max(bound.partner));
            forest.clusters.decide(lower, higher)
        };
        let decisions: Vec<Decision> = bounds.par_iter().map(decide).collect();
        for ((owner, bound), decision) in bounds.into_iter().zip(decisions) {
            let heap = &mut forest.candidates[owner as usize].heap;
            let distance = forest.clusters.keep(decision);
            heap.push(Reverse(bound.decided(distance)));
        }
        for owner in owners {
            self.enqueue(owner);
        }
    }

    /// Takes from the queue the clusters whose first bound takes long to decide and will be asked for
    /// before the next merge: this first one and others, at most so many. Also says how high that merge
    /// is at least, as far as the queue was looked through (`u64::MAX`: there is none in it).
    fn take_costly(&mut self, owner: u32, most: usize) -> (Vec<u32>, u64) {
        let mut owners = vec![owner];
        let mut at = 0;
        while let Some(head) = self.queue.get(at) {
            let is_live = self.forest.is_live(head.owner, head.owner_birth)
                && (head.kind == Kind::Floor || self.has_partner(&head));
            let is_merge = is_live && head.kind == Kind::Distance;
            if is_merge || owners.len() == most || at == LOOKED_THROUGH {
                return (owners, head.value);
            }
            if is_live && head.kind == Kind::Bound && self.is_costly(&head) {
                self.queue.take(at);
                owners.push(head.owner);
            } else {
                at += 1;
            }
        }
        (owners, u64::MAX)
    }

    /// Drops a cluster's first candidate, whose partner is gone.
    fn drop_first(&mut self, owner: u32) {
        self.forest.candidates[owner as usize].heap.pop();
        self.enqueue(owner);
    }

    /// Whether the other one of a head's pair lives.
    fn has_partner(&self, head: &Head) -> bool {
        let partner = if head.owner == head.lower {
            head.higher
        } else {
            head.lower
        };
        self.forest.is_live(partner, head.partner_birth)
    }

    /// Looks for more candidates of a cluster whose floor was reached.
    fn sweep_again(&mut self, owner: u32) -> Result<()> {
        self.monitor.check()?;
        let old = std::mem::take(&mut self.forest.candidates[owner as usize]);
        let known: Vec<_> = old
            .heap
            .into_iter()
            .filter(|Reverse(c)| c.decided && self.forest.is_live(c.partner, c.partner_birth))
            .collect();
        let mut skip: Vec<u32> = known.iter().map(|Reverse(c)| c.partner).collect();
        skip.sort_unstable();
        let view = self.forest.view(owner);
        let end = self.screen.roster().position(owner);
        let request = Request {
            view: &view,
            end,
            // In the end all there are, and one more, so that none is at the floor.
            capacity: (CANDIDATES << old.sweeps.min(28)).min(end + 1),
            limit: further(old.floor, old.sweeps),
            is_tight: false,
            skip: &skip,
        };
        let found = self.screen.sweep(&[request], &mut || ())?.swap_remove(0);
        let mut candidates = Candidates::new(found, &[], &self.forest.births);
        candidates.sweeps = old.sweeps + 1;
        // A screen that breaks its promise would be asked for ever.
        assert!(
            candidates.floor > old.floor || !candidates.heap.is_empty(),
            "a sweep finds something new"
        );
        candidates.heap.extend(known);
        self.forest.candidates[owner as usize] = candidates;
        self.enqueue(owner);
        Ok(())
    }

    /// Merges the pair that a head stands for.
    fn merge(&mut self, head: Head) -> Result<()> {
        self.monitor.check()?;
        let (lower, higher) = (head.lower, head.higher);
        let births = self.forest.births_of((lower, higher));
        let is_prepared = |p: &Prepared| p.draft.births == births;
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
        self.forest.candidates[higher as usize] = Candidates::default();
        self.forest.births[higher as usize] = NEVER;
        let below = |size: usize| usize::from(!self.forest.rule.is_full_size(size));
        let before =
            below(self.forest.clusters.size(lower)) + below(self.forest.clusters.size(higher));
        self.forest
            .clusters
            .replace(lower, higher, prepared.draft.united, &self.forest.rule);
        self.below_full_size -= before - below(self.forest.clusters.size(lower));
        if self.live() == 1 {
            return Ok(());
        }
        if self.below_full_size == 0 && !self.forest.rule.all_full_size {
            return self.switch();
        }
        let birth = self.forest.give_birth(lower);
        if let Some(next) = &mut self.next {
            next.born(prepared.draft.births, birth);
        }
        let mut candidates = prepared.candidates;
        for &(birth, slot) in &self.recent {
            if birth < prepared.as_of || !self.forest.is_live(slot, birth) {
                continue;
            }
            let bound = self.forest.clusters.bound(lower, slot);
            if bound < candidates.floor {
                candidates.heap.push(Reverse(Candidate {
                    value: bound.to_bits(),
                    decided: false,
                    partner: slot,
                    partner_birth: birth,
                }));
            }
        }
        self.forest.candidates[lower as usize] = candidates;
        self.recent.push((birth, lower));
        self.screen.push(lower, &prepared.draft.view)?;
        self.enqueue(lower);
        if self.screen.is_outgrown(self.live()) {
            self.change_screen()?;
        }
        Ok(())
    }

    /// Prepares the merge that a head stands for, and those that look like the next ones.
    fn prepare(&mut self, head: &Head) -> Result<()> {
        self.forget_preparations();
        let (pairs, heights) = self.look_ahead(head);
        let drafts = self.drafts(&pairs);
        let skips: Vec<[u32; 2]> = pairs.iter().map(|&(l, h)| [l, h]).collect();
        let forest = &self.forest;
        let guesses: Vec<Guess> = pairs.iter().map(|&pair| forest.guess(pair)).collect();
        let requests: Vec<Request> = drafts
            .iter()
            .zip(&skips)
            .zip(&guesses)
            .map(|((draft, skip), guess)| {
                let limit = self.reach[guess.by as usize] * guess.distance;
                Request {
                    view: &draft.view,
                    end: self.screen.roster().positions(),
                    capacity: CANDIDATES,
                    limit,
                    is_tight: limit < f64::INFINITY,
                    skip,
                }
            })
            .collect();
        let mut outlook = Outlook::default();
        let has_time = forest.operations(pairs[0]) < WORTH_THREADS;
        let mut answers = self.screen.sweep(&requests, &mut || {
            if has_time {
                outlook = forest.look_out(&drafts, &heights);
            }
        })?;
        drop(requests);
        self.next = outlook.next;
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
        for (i, (draft, found)) in drafts.into_iter().zip(answers).enumerate() {
            let decided = outlook.decided.get(i).map_or(&[][..], |decided| decided);
            let prepared = Prepared {
                candidates: Candidates::new(found, decided, &self.forest.births),
                as_of: self.forest.next_birth,
                draft,
            };
            self.prepared.insert(prepared.draft.pair, prepared);
        }
        Ok(())
    }

    /// What becomes of these pairs.
    fn drafts(&mut self, pairs: &[(u32, u32)]) -> Vec<Draft> {
        let next = self.next.take();
        let forest = &self.forest;
        let ready = next.and_then(|next| next.of(pairs[0], forest.births_of(pairs[0])));
        let rest = &pairs[usize::from(ready.is_some())..];
        let mut drafts: Vec<Draft> = ready.into_iter().collect();
        let operations: usize = rest.iter().map(|&pair| forest.operations(pair)).sum();
        if operations < WORTH_THREADS {
            drafts.extend(rest.iter().map(|&pair| forest.draft(pair)));
        } else {
            drafts.par_extend(rest.par_iter().map(|&pair| forest.draft(pair)));
        }
        drafts
    }

    /// Drops preparations for clusters that are gone or that have waited long (the more births
    /// since, the more a preparation lacks), and recent births that none needs.
    fn forget_preparations(&mut self) {
        let age = 2 * self.screen.batch() as u32;
        let oldest = self.forest.next_birth.saturating_sub(age);
        let mut prepared = std::mem::take(&mut self.prepared);
        prepared.retain(|&(lower, higher), prepared| {
            prepared.as_of >= oldest
                && self.forest.is_live(lower, prepared.draft.births.0)
                && self.forest.is_live(higher, prepared.draft.births.1)
        });
        self.prepared = prepared;
        let oldest = self.prepared.values().map(|p| p.as_of).min();
        self.recent
            .retain(|&(birth, _)| oldest.is_some_and(|oldest| birth >= oldest));
    }

    /// The pair of a head and the next ones in the queue that share no cluster with each other, and
    /// their heights.
    fn look_ahead(&mut self, head: &Head) -> (Vec<(u32, u32)>, Vec<f64>) {
        let mut pairs = vec![(head.lower, head.higher)];
        let mut heights = vec![f64::from_bits(head.value)];
        let mut busy = vec![head.lower, head.higher];
        let mut at = 0;
        for _ in 1..2 * self.batch {
            let Some(next) = self.queue.get(at) else {
                break;
            };
            if !self.forest.is_live(next.owner, next.owner_birth) {
                self.queue.take(at);
                continue;
            }
            if next.kind == Kind::Floor || next.kind == Kind::Bound && self.is_costly(&next) {
                at += 1;
                continue;
            }
            if !self.has_partner(&next) {
                self.queue.take(at);
                self.drop_first(next.owner);
                continue;
            }
            if next.kind == Kind::Bound {
                self.queue.take(at);
                self.decide(&next);
                continue;
            }
            let pair = (next.lower, next.higher);
            let is_free = !busy.contains(&pair.0) && !busy.contains(&pair.1);
            if is_free && !self.prepared.contains_key(&pair) {
                pairs.push(pair);
                heights.push(f64::from_bits(next.value));
            }
            busy.extend([pair.0, pair.1]);
            at += 1;
        }
        // Look further while most of what is found is new, less far while hardly anything is.
        if 2 * pairs.len() >= self.batch {
            self.batch = (2 * self.batch).min(self.screen.batch());
        } else if 4 * pairs.len() <= self.batch {
            self.batch = (self.batch / 2).max(2);
        }
        (pairs, heights)
    }

    /// Whether the distance that a head stands for takes long to decide.
    fn is_costly(&self, head: &Head) -> bool {
        let members =
            self.forest.clusters.size(head.lower) + self.forest.clusters.size(head.higher);
        !self.forest.problem.options.quick && members > COSTLY_MEMBERS
    }

    /// All clusters have become full-size: all distances are computed anew.
    fn switch(&mut self) -> Result<()> {
        self.forest.rule = self.forest.problem.options.shape_rule(true);
        let live: Vec<u32> = self.forest.clusters.live().collect();
        for slot in live {
            self.forest.clusters.reshape(slot, &self.forest.rule);
        }
        self.forest.clusters.forget_sums();
        self.screen = (self.new_screen)(self.live(), self.forest.frame.clone())?;
        self.start()
    }

    /// Number of live clusters.
    fn live(&self) -> usize {
        self.forest.problem.clusters() - self.merges.len()
    }

    /// Moves the live clusters to a new screen, in the order of their births.
    fn change_screen(&mut self) -> Result<()> {
        let mut live: Vec<u32> = self.forest.clusters.live().collect();
        live.sort_unstable_by_key(|&slot| self.forest.births[slot as usize]);
        self.screen = (self.new_screen)(live.len(), self.forest.frame.clone())?;
        for slot in live {
            self.screen.push(slot, &self.forest.view(slot))?;
        }
        Ok(())
    }
}
