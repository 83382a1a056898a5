//! The live clusters of a problem, and what is known of their neighbours.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clusters::{Clusters, Part, United};
use super::distance;
use super::problem::Problem;
use super::screen::{Found, Frame, View};
use super::subthreshold::ShapeRule;
use crate::error::Result;
use crate::matrix::middle_of;
use crate::memory;
use crate::monitor::Monitor;

/// How many candidates a first sweep keeps; each further sweep of a cluster keeps twice as many.
pub const CANDIDATES: usize = 8;

/// How many clusters are put side by side at the start: as many as the screens' groups have.
pub const SIDE_BY_SIDE: usize = 256;

/// Full distances over more members than this are not decided just to look further ahead.
pub const COSTLY_MEMBERS: usize = 64;

/// A cluster is coarse if its nearest neighbours may be nearer than this times the error of its mean.
const COARSE_ERRORS: f64 = 8.0;

/// A cluster with so many times the members of another hardly changes when they merge.
const MUCH_LARGER: usize = 8;

/// Among so many of the nearest neighbours of two clusters is probably the nearest of their union.
const LIKELY: usize = 6;

/// No cluster is born so late.
pub const NEVER: u32 = u32::MAX;

/// What is known of a pair that belongs to a cluster. The order: the smaller first, bounds before
/// distances (a bound may hide a smaller slot), the lower partner first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The bits of the value: distances are ≥ 0, so their bits order them.
    pub value: u64,
    pub decided: bool,
    pub partner: u32,
    pub partner_birth: u32,
}

impl Candidate {
    /// The same with its distance for the bound.
    pub fn decided(self, distance: f64) -> Self {
        debug_assert!(f64::from_bits(self.value) <= distance, "the bound holds");
        Self {
            value: distance.to_bits(),
            decided: true,
            ..self
        }
    }
}

/// The older neighbours of one cluster.
#[derive(Debug, Default)]
pub struct Candidates {
    pub heap: BinaryHeap<Reverse<Candidate>>,
    /// No older cluster outside the heap is nearer.
    pub floor: f64,
    pub sweeps: u32,
}

impl Candidates {
    /// What a sweep found; the distances to some slots are `decided`.
    pub fn new(found: Found, decided: &[(f64, u32)], births: &[u32]) -> Self {
        let candidate = |(bound, partner): (f64, u32)| {
            let known = decided.iter().find(|(_, slot)| *slot == partner);
            let value = known.map_or(bound, |(distance, _)| *distance);
            debug_assert!(bound <= value, "the bound holds");
            Reverse(Candidate {
                value: value.to_bits(),
                decided: known.is_some(),
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

/// What becomes of two clusters if they are merged.
#[derive(Debug)]
pub struct Draft {
    pub pair: (u32, u32),
    pub births: (u32, u32),
    pub united: United,
    pub view: View,
}

/// What probably comes after some merges.
#[derive(Debug, Default)]
pub struct Outlook {
    /// For each merge that was looked at, the distances that are decided of the union.
    pub decided: Vec<Vec<(f64, u32)>>,
    pub next: Option<Next>,
}

/// A merge of what becomes of two clusters that are yet to be merged.
#[derive(Debug)]
pub struct Next {
    /// The births of those two.
    after: (u32, u32),
    /// The slot where they are merged.
    slot: u32,
    /// As long as they are not, one of its births is [`NEVER`].
    draft: Draft,
}

impl Next {
    /// Two clusters were merged: their births, and that of the union.
    pub fn born(&mut self, parents: (u32, u32), birth: u32) {
        if self.after == parents {
            let draft = &mut self.draft;
            if draft.pair.0 == self.slot {
                draft.births.0 = birth;
            } else {
                draft.births.1 = birth;
            }
        }
    }

    /// What becomes of these two, if it is they that were foreseen.
    pub fn of(self, pair: (u32, u32), births: (u32, u32)) -> Option<Draft> {
        let draft = self.draft;
        (draft.pair == pair && draft.births == births).then_some(draft)
    }
}

/// About how far the candidates of a cluster to come are.
pub struct Guess {
    pub by: GuessedBy,
    pub distance: f64,
}

/// By whose candidates those of a union are guessed.
#[derive(Clone, Copy)]
pub enum GuessedBy {
    Both,
    /// The larger of the two clusters hardly changes.
    Larger,
}

/// The live clusters, by slot.
pub struct Forest<'a> {
    pub problem: &'a Problem<'a>,
    pub rule: ShapeRule,
    pub frame: Frame,
    pub clusters: Clusters<'a>,
    /// When a slot's cluster came to be, 0, 1, … at the start; [`NEVER`] when it was merged away.
    pub births: Vec<u32>,
    pub next_birth: u32,
    pub candidates: Vec<Candidates>,
}

impl<'a> Forest<'a> {
    /// The problem's clusters at the start, which have shapes under `rule` and no births yet.
    ///
    /// # Errors
    /// As [`Clusters::new`].
    pub fn new(problem: &'a Problem<'a>, rule: ShapeRule, monitor: &'a Monitor) -> Result<Self> {
        let n = problem.clusters();
        Ok(Self {
            problem,
            rule,
            frame: frame(problem),
            clusters: Clusters::new(problem, &rule, monitor)?,
            births: memory::filled("the clusters need", n, 0)?,
            next_birth: 0,
            candidates: memory::collected(
                "the candidates of the clusters need",
                (0..n).map(|_| Candidates::default()),
            )?,
        })
    }

    /// The cluster of a slot is born.
    pub fn give_birth(&mut self, slot: u32) -> u32 {
        let birth = self.next_birth;
        self.births[slot as usize] = birth;
        self.next_birth += 1;
        birth
    }

    pub fn is_live(&self, slot: u32, birth: u32) -> bool {
        self.births[slot as usize] == birth
    }

    pub fn births_of(&self, pair: (u32, u32)) -> (u32, u32) {
        (self.births[pair.0 as usize], self.births[pair.1 as usize])
    }

    /// How a screen sees a slot's cluster.
    pub fn view(&self, slot: u32) -> View {
        self.frame.view(&self.clusters.profile(slot))
    }

    /// How a screen sees a slot's cluster, and where its first candidates among the `older` ones
    /// probably end; for all anyone knows where these are not in order.
    pub fn see(&self, older: &[u32], slot: u32, in_order: bool) -> (View, f64) {
        let limit = if in_order {
            self.first_limit(older, slot)
        } else {
            f64::INFINITY
        };
        (self.view(slot), limit)
    }

    /// Where the first candidates of a cluster probably end, by the last of the older ones. As
    /// [`Forest::guess`], it may be wrong.
    fn first_limit(&self, older: &[u32], slot: u32) -> f64 {
        let clusters = &self.clusters;
        let last = &older[older.len().saturating_sub(SIDE_BY_SIDE / 4)..];
        let is_cheap = |other: &&u32| {
            self.problem.options.quick
                || clusters.size(slot) + clusters.size(**other) <= COSTLY_MEMBERS
        };
        let distance = |&other: &u32| clusters.decide(slot, other).distance;
        let mut distances: Vec<f64> = last.iter().filter(is_cheap).map(distance).collect();
        if distances.len() < CANDIDATES {
            return f64::INFINITY;
        }
        let (_, &mut limit, _) = distances.select_nth_unstable_by(CANDIDATES - 1, f64::total_cmp);
        limit.next_up()
    }

    /// Whether a screen cannot tell a cluster's nearest neighbours, which end at `limit`, from all
    /// that are within the error of its mean.
    pub fn is_coarse(&self, view: &View, limit: f64) -> bool {
        let error = f64::from(view.error * view.absolute) * self.frame.unit();
        limit < COARSE_ERRORS * error
    }

    /// The candidates of one cluster of a pair that live, but for the other one.
    fn neighbours(&self, owner: u32, pair: (u32, u32)) -> impl Iterator<Item = &Candidate> {
        let heap = self.candidates[owner as usize].heap.iter();
        let is_other = move |c: &&Candidate| c.partner != pair.0 && c.partner != pair.1;
        heap.map(|Reverse(candidate)| candidate)
            .filter(is_other)
            .filter(|c| self.is_live(c.partner, c.partner_birth))
    }

    /// About how many operations it takes to unite a pair.
    pub fn operations(&self, pair: (u32, u32)) -> usize {
        let p = self.problem.x.columns();
        let size = self.clusters.size(pair.0) + self.clusters.size(pair.1);
        match (self.rule.may_have_shape(size), self.problem.options.quick) {
            (true, _) => p * p * p,
            (false, false) => p * p,
            (false, true) => p,
        }
    }

    /// What becomes of a pair.
    pub fn draft(&self, pair: (u32, u32)) -> Draft {
        let (lower, higher) = (self.clusters.part(pair.0), self.clusters.part(pair.1));
        self.draft_of_parts(pair, self.births_of(pair), lower, higher)
    }

    fn draft_of_parts(
        &self,
        pair: (u32, u32),
        births: (u32, u32),
        lower: Part,
        higher: Part,
    ) -> Draft {
        let united = self.clusters.united(lower, higher, &self.rule);
        let view = self.frame.view(&united.profile());
        Draft {
            pair,
            births,
            united,
            view,
        }
    }

    /// Where the candidates of what becomes of two clusters probably end. A bad guess costs time only:
    /// a second sweep, or candidates that nobody needs.
    pub fn guess(&self, pair: (u32, u32)) -> Guess {
        let size = |slot: u32| self.clusters.size(slot);
        let (larger, smaller) = if size(pair.0) < size(pair.1) {
            (pair.1, pair.0)
        } else {
            pair
        };
        let known = |owner: u32| self.neighbours(owner, pair).map(|c| c.value);
        let mut values: Vec<u64> = Vec::with_capacity(8 * CANDIDATES);
        values.extend(known(larger));
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

    /// What probably comes after some merges, in the order of their `heights`: that what becomes of
    /// one of the pairs is merged with a cluster that is near to it.
    pub fn look_out(&self, drafts: &[Draft], heights: &[f64]) -> Outlook {
        let mut outlook = Outlook::default();
        let mut next: Option<(f64, &Draft, u32)> = None;
        for (draft, &height) in drafts.iter().zip(heights) {
            if next.is_some_and(|(distance, ..)| distance <= height) {
                break;
            }
            let part = draft.united.part();
            let distance = |slot| (self.clusters.centroid_distance(part, slot), slot);
            let near: Vec<(f64, u32)> = self.near(draft.pair).into_iter().map(distance).collect();
            for &(distance, slot) in &near {
                if next.is_none_or(|(least, ..)| distance < least) {
                    next = Some((distance, draft, slot));
                }
            }
            if self.problem.options.quick {
                outlook.decided.push(near);
            }
        }
        outlook.next = next.and_then(|(_, draft, slot)| self.next(draft, slot));
        outlook
    }

    /// The nearest neighbours of a pair.
    fn near(&self, pair: (u32, u32)) -> Vec<u32> {
        let mut near: Vec<(u64, u32)> = Vec::with_capacity(8 * CANDIDATES);
        for owner in [pair.0, pair.1] {
            let others = self.neighbours(owner, pair);
            near.extend(others.map(|c| (c.value, c.partner)));
        }
        if near.len() > LIKELY {
            near.select_nth_unstable(LIKELY);
            near.truncate(LIKELY);
        }
        // What is near to both is there twice.
        near.sort_unstable_by_key(|(_, slot)| *slot);
        near.dedup_by_key(|(_, slot)| *slot);
        near.into_iter().map(|(_, slot)| slot).collect()
    }

    /// The merge of what a draft stands for with a slot's cluster.
    fn next(&self, draft: &Draft, partner: u32) -> Option<Next> {
        let (part, other) = (draft.united.part(), self.clusters.part(partner));
        if self.clusters.lacks_moments(part, other, &self.rule) {
            return None;
        }
        let slot = draft.pair.0;
        let birth = self.births[partner as usize];
        let draft_next = if slot < partner {
            self.draft_of_parts((slot, partner), (NEVER, birth), part, other)
        } else {
            self.draft_of_parts((partner, slot), (birth, NEVER), other, part)
        };
        Some(Next {
            after: draft.births,
            slot,
            draft: draft_next,
        })
    }
}

/// How the problem's data units and a screen's units relate. The centre is robust: about it, single
/// precision resolves the bulk of the data, whatever else lies far away.
pub fn frame(problem: &Problem) -> Frame {
    let center = middle_of(problem.rows(), problem.x.columns());
    let (least, greatest) = problem.bounding_box();
    let reach = center
        .iter()
        .zip(least.iter().zip(&greatest))
        .fold(0.0f64, |reach, (c, (l, g))| reach.max(c - l).max(g - c));
    Frame::new(
        center,
        reach,
        !problem.options.quick,
        distance::log2_ceil(problem.members.len()),
    )
}
