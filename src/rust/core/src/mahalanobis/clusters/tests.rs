//! Bounds against distances.

use super::*;
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::mahalanobis::screen::{ClusterFrame, MeanPrecision, ScreenRequest};
use crate::mahalanobis::{Distance, Options, Problem, Subthreshold};
use crate::monitor::Monitor;
use crate::testing::{draw, Random, DATA};

#[test]
fn bounds_are_below_the_distances_on_data_of_every_sort() {
    let mut random = Random::of(41);
    for round in 0..3 * DATA.len() {
        let data = DATA[round % DATA.len()];
        let (n, p) = (240, 1 + random.below(4));
        let x = draw(&mut random, data, n, p);
        let mut starts = vec![0];
        while starts[starts.len() - 1] < n {
            let size = 1 + random.below(2) * random.below(12);
            starts.push((starts[starts.len() - 1] + size).min(n));
        }
        let options = Options {
            threshold: 6.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::ALL[usize::from(random.below(4) == 0)],
            normalize: true,
            apriori_intra: true,
        };
        let problem = Problem {
            starts: Some(starts),
            ..Problem::of_observations(&x, 0..n as u32, options)
        };
        let rule = options.shape_rule(false);
        let monitor = Monitor::default();
        let bounding_box = problem.bounding_box();
        let clusters = Clusters::new(&problem, bounding_box.diagonal(), &rule, &monitor).unwrap();
        let case = format!("{data:?}, {n} x {p}, {options:?}");
        for precision in [MeanPrecision::Single, MeanPrecision::Double] {
            let mut frame = ClusterFrame::of_problem(&problem, &bounding_box);
            frame.precision = precision;
            check_bounds(&clusters, &frame, &format!("{case}, {precision:?}"));
        }
    }
}

/// Checks all bounds of a screen, and those in double precision, against the distances.
fn check_bounds(clusters: &Clusters, frame: &ClusterFrame, case: &str) {
    let count = clusters.active().count();
    let mut screen = CpuScreen::new(count, frame);
    let view = |slot| frame.view(&clusters.profile(slot));
    for slot in clusters.active() {
        screen.push(slot, &view(slot)).unwrap();
    }
    for slot in clusters.active() {
        let request = ScreenRequest {
            view: &view(slot),
            end: slot as usize,
            capacity: count,
            limit: f64::INFINITY,
            skip: &[],
        };
        let answer = screen.answer(&request, 1);
        assert_eq!(answer.bounds.len(), slot as usize);
        for (bound, other) in answer.bounds {
            let distance = clusters.exact_distance(slot, other).distance;
            let double = clusters.bound(slot, other);
            assert!(bound <= distance, "{bound} is not below {distance}: {case}");
            assert!(
                double <= distance,
                "{double} is not below {distance}: {case}"
            );
        }
    }
}

#[test]
fn a_distance_to_a_tentative_union_is_that_to_the_union() {
    let mut random = Random::of(42);
    for round in 0..2 * DATA.len() {
        let (n, p) = (60, 1 + random.below(4));
        let x = draw(&mut random, DATA[round % DATA.len()], n, p);
        let options = Options {
            threshold: 6.0,
            subthreshold: Subthreshold::Mahal,
            distance: Distance::ALL[usize::from(round % 2 == 0)],
            normalize: false,
            apriori_intra: true,
        };
        let problem = Problem {
            starts: Some(
                (0..=20)
                    .map(|i| if i < 10 { i } else { 5 * i - 40 })
                    .collect(),
            ),
            ..Problem::of_observations(&x, 0..n as u32, options)
        };
        let rule = options.shape_rule(false);
        let monitor = Monitor::default();
        let diagonal = problem.bounding_box().diagonal();
        let mut clusters = Clusters::new(&problem, diagonal, &rule, &monitor).unwrap();
        // Single observations and others, with each other.
        for (lower, higher) in [(0, 1), (2, 15), (10, 11)] {
            let (a, b) = (clusters.part(lower), clusters.part(higher));
            let union = clusters.merged(a, b, &rule);
            let others = [3, 4, 12, 13];
            let tentative =
                others.map(|slot| clusters.exact_distance_to_union(&union, &[lower, higher], slot));
            clusters.replace(lower, higher, union, &rule);
            let expected = others.map(|slot| clusters.exact_distance(lower, slot).distance);
            assert_eq!(tentative, expected, "{options:?}");
        }
    }
}
