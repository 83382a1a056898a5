//! Checks the answers of the screen.

use std::collections::HashMap;

use super::CpuScreen;
use crate::active_positions::INACTIVE;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::packed::packed_len;
use crate::mahalanobis::screen::{
    ClusterFrame, ClusterView, MeanPrecision, Profile, ScreenAnswer, ScreenRequest, Spread,
};
use crate::matrix::RowSlices;
use crate::observations::Observations;
use crate::testing::{draw, Data, Random};

/// Some clusters in a frame. Every cluster, or every other one, has a diagonal whitening factor.
struct Sample {
    means: Observations,
    diagonals: Vec<Vec<f64>>,
    frame: ClusterFrame,
}

impl Sample {
    /// The elements of whitening factors are near `scale`. Every cluster has a factor unless
    /// `scale` is 1.
    fn new(
        random: &mut Random,
        (data, n, p): (Data, usize, usize),
        precision: MeanPrecision,
        scale: f64,
    ) -> Self {
        let means = draw(random, data, n, p);
        let largest = means.values().iter().fold(0.0f64, |r, v| r.max(v.abs()));
        let mut diagonal = |i: usize| {
            let element = |_| {
                if scale != 1.0 || i % 2 == 0 {
                    scale * (0.3 + random.uniform())
                } else {
                    1.0
                }
            };
            (0..p).map(element).collect()
        };
        let mut frame = ClusterFrame::new(vec![0.0; p], largest, Distance::Centroid, 0);
        frame.precision = precision;
        Self {
            means,
            diagonals: (0..n).map(&mut diagonal).collect(),
            frame,
        }
    }

    fn view(&self, i: usize) -> ClusterView {
        let diagonal = &self.diagonals[i];
        let mut whitening = vec![0.0; packed_len(diagonal.len())];
        for (k, &element) in diagonal.iter().enumerate() {
            whitening[packed_len(k) + k] = element;
        }
        let is_identity = diagonal.iter().all(|&element| element == 1.0);
        self.frame.view(&Profile {
            mean: self.means.row_slice(i),
            whitening: if is_identity { &[] } else { &whitening },
            least_stretch: diagonal.iter().copied().fold(f64::INFINITY, f64::min),
            stretch: diagonal.iter().copied().fold(0.0, f64::max),
            spread: Spread::default(),
            mean_error: 0.0,
        })
    }

    /// The clusters sorted by their first coordinate, so that a screen can skip many of them.
    fn sorted(&self) -> Vec<usize> {
        let first = |i: usize| self.means.row_slice(i)[0];
        let mut order: Vec<usize> = (0..self.diagonals.len()).collect();
        order.sort_by(|&a, &b| first(a).total_cmp(&first(b)));
        order
    }

    fn distance(&self, i: usize, j: usize) -> f64 {
        let means = self.means.row_slice(i).iter().zip(self.means.row_slice(j));
        let difference: Vec<f64> = means.map(|(a, b)| a - b).collect();
        let norm = |diagonal: &[f64]| {
            let elements = diagonal.iter().zip(&difference);
            elements.map(|(w, d)| (w * d).powi(2)).sum::<f64>().sqrt()
        };
        0.5 * (norm(&self.diagonals[i]) + norm(&self.diagonals[j]))
    }
}

#[test]
fn answers_are_what_they_promise() {
    for precision in [MeanPrecision::Single, MeanPrecision::Double] {
        check_answers(precision, 1.0);
    }
}

/// Squares of small whitening factors are subnormal in single precision, or zero.
#[test]
fn small_whitening_factors_are_bounded() {
    for exponent in 15..40 {
        check_answers(MeanPrecision::Single, 0.1f64.powi(exponent));
    }
}

/// Checks answers against the contract of [`ScreenRequest`] and [`ScreenAnswer`], for several
/// capacities. `scale` is that of the whitening factors.
fn check_answers(precision: MeanPrecision, scale: f64) {
    const CAPACITIES: [usize; 5] = [1, 8, 65, 300, 2_000];
    let mut random = Random::of(64);
    let large = if scale == 1.0 { 6_000 } else { 300 };
    for (data, n, p) in [
        (Data::Plain, 3, 2),
        (Data::Duplicates, 700, 5),
        (Data::Islands, 900, 4),
        (Data::Mixture, large, 39),
    ] {
        let clusters = Sample::new(&mut random, (data, n, p), precision, scale);
        let mut screen = CpuScreen::new(n, &clusters.frame);
        for slot in clusters.sorted() {
            screen.push(slot as u32, &clusters.view(slot)).unwrap();
        }
        // So many clusters are removed that the screen closes the gaps.
        for slot in (0..n).step_by(5) {
            screen.remove(slot as u32);
        }
        // As a merge does, removes two clusters, and adds a cluster in one of their slots.
        for slot in (1..n - 1).step_by(10) {
            screen.remove(slot as u32);
            screen.remove(slot as u32 + 1);
            screen.push(slot as u32, &clusters.view(slot)).unwrap();
        }
        for asked in 0..60 {
            let query = random.below(n);
            let end = screen.active().positions() - random.below(2) * random.below(n / 2);
            let mut others: Vec<(f64, u32)> = (0..end)
                .map(|position| screen.active().slot(position))
                .filter(|&slot| slot != INACTIVE)
                .map(|slot| (clusters.distance(query, slot as usize), slot))
                .collect();
            others.sort_by(|a, b| a.0.total_cmp(&b.0));
            // Leaves out some of the nearest clusters, as a second sweep does.
            let nearest = others.drain(..random.below(others.len() / 2 + 1));
            let mut skip: Vec<u32> = nearest.map(|(_, slot)| slot).collect();
            skip.sort_unstable();
            let limit = others.get(random.below(2 * n));
            let limit = limit.map_or(f64::INFINITY, |(distance, _)| *distance);
            let capacity = CAPACITIES[asked % CAPACITIES.len()];
            let request = ScreenRequest {
                view: &clusters.view(query),
                end,
                capacity,
                limit,
                skip: &skip,
            };
            let found = screen.answer(&request, 1 + asked % 3);

            let case = format!("{data:?}, {n} x {p}, {capacity} wanted, limit {limit}, {found:?}");
            check_answer(&found, &others, capacity, limit, &case);
        }
    }
}

/// Checks an answer against all clusters, given as distances and slots, nearest first.
fn check_answer(
    found: &ScreenAnswer,
    others: &[(f64, u32)],
    capacity: usize,
    limit: f64,
    case: &str,
) {
    let bounds: HashMap<u32, f64> = found
        .bounds
        .iter()
        .map(|&(bound, slot)| (slot, bound))
        .collect();
    assert_eq!(
        bounds.len(),
        found.bounds.len(),
        "one is there twice: {case}"
    );
    let mut count = 0;
    for &(distance, slot) in others {
        match bounds.get(&slot) {
            Some(&bound) => assert!(bound <= distance, "{slot}: {case}"),
            None => assert!(found.floor <= distance, "{slot} is missing: {case}"),
        }
        count += usize::from(bounds.contains_key(&slot));
    }
    assert_eq!(count, bounds.len(), "others are there: {case}");
    let enough = count >= capacity.min(others.len()) || found.floor >= limit;
    assert!(enough, "{count} are too few: {case}");
}
