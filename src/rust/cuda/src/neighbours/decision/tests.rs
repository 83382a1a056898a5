//! Compares the decisions of neighbours/decide.cuh with the CPU's. No GPU is needed: kernels/host
//! compiles the kernel for the CPU.

use gmhclust_core::metric::{Metric, Points, ZeroOverZero};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::cpu::{CpuNeighbours, TopK};
use gmhclust_core::neighbours::{Exclusion, Space};
use gmhclust_core::testing::{draw, Data, Random};

use super::super::exact_rows::parameter;
use super::super::layout::{first_beyond, MOST_CANDIDATES};
use super::super::sweep::Sweep;
use super::*;
use crate::arguments::{check, constants};
use crate::host;

#[test]
fn arguments_are_laid_out_as_the_kernel_reads_them() {
    let mut constants = constants![MOST_CANDIDATES].to_vec();
    constants.push(("NONE", OPEN.into()));
    check(
        "neighbours/decision.cuh",
        &[],
        &[Decision::layout()],
        &constants,
    );
}

/// The metrics, and the numbers of their forms in host/decide.cpp.
fn metrics() -> Vec<(Metric, u32)> {
    let mut metrics = vec![
        (Metric::Euclidean, 0),
        (Metric::Manhattan, 1),
        (Metric::Maximum, 2),
        (Metric::Canberra(ZeroOverZero::Zero), 3),
        (Metric::Canberra(ZeroOverZero::One), 3),
    ];
    for absolute in [false, true] {
        metrics.push((Metric::Pearson { absolute }, 4));
        metrics.push((Metric::Cosine { absolute }, 4));
    }
    metrics
}

/// The candidates of some queries, as a sweep leaves them.
struct SweptCandidates {
    room: usize,
    /// By query, with `room` places each.
    keys: Vec<u64>,
    counts: Vec<u32>,
    floors: Vec<u64>,
}

impl SweptCandidates {
    fn sweep(&self) -> Sweep {
        Sweep {
            shrink: 1.0,
            margin: 0.0,
            references: 0,
            groups: 0,
            queries: 0,
            query_groups: 0,
            slopes: 0,
            bases: 0,
            candidates: self.keys.as_ptr() as u64,
            floors: self.floors.as_ptr() as u64,
            counts: self.counts.as_ptr() as u64,
            kept: 0,
            stride: 0,
            step: 0,
            query_stride: 0,
            query_step: 0,
            columns: 0,
            query_count: self.counts.len() as u32,
            kind: 0,
            capacity: self.room as u32,
            room: self.room as u32,
            first: 0,
            last: 0,
        }
    }
}

/// Some references as candidates of each query, and floors below the distances of the others or,
/// at random, anywhere. Limits at random, some equal to a distance.
fn candidates(
    random: &mut Random,
    points: &Points,
    frame: &RowFrame,
    queries: &[u32],
) -> (SweptCandidates, Vec<f64>) {
    let n = points.rows();
    let room = n;
    let mut candidates = SweptCandidates {
        room,
        keys: vec![u64::MAX; queries.len() * room],
        counts: Vec::new(),
        floors: Vec::new(),
    };
    let mut limits = Vec::new();
    for (at, &query) in queries.iter().enumerate() {
        let distance = |other: usize| points.distance(query as usize, other);
        let share = random.uniform();
        let (some, others): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|_| random.uniform() < share);
        for (place, &position) in candidates.keys[at * room..].iter_mut().zip(&some) {
            // Bounds of 0 are valid.
            *place = position as u64;
        }
        let limit = match random.below(3) {
            0 => f64::INFINITY,
            1 => distance(random.below(n)),
            _ => 2.0 * random.uniform() * distance(random.below(n)),
        };
        let least = others
            .into_iter()
            .map(distance)
            .fold(f64::INFINITY, f64::min);
        let beyond = first_beyond(frame.limit(limit));
        let floor = match random.below(3) {
            0 => distance(random.below(n)),
            _ => least,
        };
        let in_view_units = (floor / frame.distance_unit() * 0.999) as f32;
        let floor = u64::from(in_view_units.to_bits()) << 32 | random.below(n) as u64;
        candidates.floors.push(floor.min(beyond));
        let is_full = random.below(9) == 0;
        let count = if is_full { room + 1 } else { some.len() };
        candidates.counts.push(count as u32);
        limits.push(limit);
    }
    (candidates, limits)
}

#[test]
fn the_kernel_decides_as_the_cpu() {
    type Function = unsafe extern "C" fn(u32, bool, *const Sweep, *const Decision);
    let library = host::library("decide.cpp", &[]);
    // SAFETY: the function has this type.
    let decide = unsafe { host::function::<Function>(&library, "host_decide") };
    let mut random = Random::of(17);
    let monitor = Monitor::default();
    for case in 0..60 {
        let (n, p) = (2 + random.below(300), 2 + random.below(40));
        let data = [Data::Plain, Data::Mixture, Data::Duplicates][case % 3];
        let x = draw(&mut random, data, n, p);
        for (metric, form) in metrics() {
            let points = Points::new(metric, &x);
            if !points.constant().is_empty() {
                continue;
            }
            let space = Space::Points {
                points: &points,
                references: n,
            };
            let host = CpuNeighbours::new(space, &monitor).unwrap();
            let frame = &host.frames()[0];
            let queries: Vec<u32> = (0..7).map(|_| random.below(n) as u32).collect();
            let (candidates, limits) = candidates(&mut random, &points, frame, &queries);
            let request = NeighbourRequest {
                queries: &queries,
                wanted: 1 + random.below(12),
                limits: Some(&limits),
                exclusion: Exclusion::Nothing,
            };
            // Positions in reverse order of the indices.
            let indices: Vec<u32> = (0..n as u32).rev().collect();
            let k = request.wanted;
            let mut new_limits = limits.clone();
            let mut distances = vec![f64::NAN; queries.len() * k];
            let mut nearest = vec![u32::MAX; queries.len() * k];
            let mut counts = vec![u32::MAX; queries.len()];
            let sweep = candidates.sweep();
            let decision = Decision {
                rows: points.values().as_ptr() as u64,
                indices: indices.as_ptr() as u64,
                queries: queries.as_ptr() as u64,
                limits: new_limits.as_mut_ptr() as u64,
                distances: distances.as_mut_ptr() as u64,
                nearest: nearest.as_mut_ptr() as u64,
                counts: counts.as_mut_ptr() as u64,
                unit: frame.distance_unit(),
                columns: p as u32,
                wanted: k as u32,
                parameter: parameter(&metric),
            };
            // SAFETY: the arrays have the sizes that the arguments give.
            unsafe { decide(form, case % 2 == 0, &sweep, &decision) };
            for (at, &limit) in limits.iter().enumerate() {
                let case = format!("{case}: {metric:?}, {n} x {p}, query {at}");
                let count = candidates.counts[at] as usize;
                let mut best = TopK::default();
                let expected = if count > candidates.room {
                    Err(limit)
                } else {
                    let keys = &candidates.keys[at * candidates.room..][..count];
                    let found = keys.iter().map(|&key| (0.0, indices[key as u32 as usize]));
                    let floor = candidates.floors[at];
                    let bound = frame.in_data_units(f32::from_bits((floor >> 32) as u32));
                    let floor = (floor != first_beyond(frame.limit(limit))).then_some(bound);
                    host.decide(&request, at, found, floor, &mut best)
                };
                match expected {
                    Ok(()) => {
                        let expected = best.sorted();
                        assert_eq!(counts[at] as usize, expected.len(), "{case}");
                        let places = at * k..at * k + expected.len();
                        let indices = nearest[places.clone()].iter().copied();
                        let found = distances[places].iter().copied().zip(indices);
                        let found: Vec<(f64, u32)> = found.collect();
                        assert_eq!(found, expected, "{case}");
                    }
                    Err(limit) => {
                        assert_eq!(counts[at], OPEN, "{case}");
                        assert_eq!(new_limits[at], limit, "{case}");
                    }
                }
            }
        }
    }
}
