use super::*;
use crate::cpu::Cpu;
use crate::testing::Random;

/// A random tree: each merge joins two of the clusters that are left, or the last one and a leaf.
fn random_tree(random: &mut Random, n: usize, is_chain: bool) -> Vec<[i32; 2]> {
    let mut open: Vec<i32> = (1..=n as i32).map(|i| -i).collect();
    let mut merge = Vec::new();
    while open.len() > 1 {
        let a = if is_chain && !merge.is_empty() {
            open.len() - 1
        } else {
            random.below(open.len())
        };
        let a = open.swap_remove(a);
        let b = open.swap_remove(random.below(open.len()));
        merge.push(if random.below(2) == 0 { [a, b] } else { [b, a] });
        open.push(merge.len() as i32);
    }
    merge
}

/// The sum of the distances between neighbours in an order of leaves from 1.
fn length(order: &[i32], n: usize, distances: &[f64]) -> f64 {
    let pair = |a: i32, b: i32| {
        let (low, high) = (a.min(b) as usize - 1, a.max(b) as usize - 1);
        low * (2 * n - 1 - low) / 2 + high - low - 1
    };
    let neighbours = order.windows(2);
    neighbours.map(|two| distances[pair(two[0], two[1])]).sum()
}

/// The least sum among all 2^(n - 1) orders.
fn least_length(merge: &[[i32; 2]], distances: &[f64]) -> f64 {
    let n = merge.len() + 1;
    let lengths = (0..1u32 << (n - 1)).map(|flips| {
        let rows = merge.iter().enumerate();
        let flipped: Vec<[i32; 2]> = rows
            .map(|(at, &[a, b])| if flips >> at & 1 == 1 { [b, a] } else { [a, b] })
            .collect();
        length(
            &crate::dendrogram::leaf_order(&flipped).unwrap(),
            n,
            distances,
        )
    });
    lengths.fold(f64::INFINITY, f64::min)
}

fn ordered(merge: &[[i32; 2]], distances: &[f64], threads: usize) -> Vec<i32> {
    let cpu = Cpu::new(threads).unwrap();
    cpu.install(|| optimal_order(merge, distances, &Monitor::default()))
        .unwrap()
}

fn assert_no_branches_cross(merge: &[[i32; 2]], order: &[i32]) {
    let faults = crate::dendrogram::Faults::of(merge, order).unwrap();
    assert!(faults.has_all && faults.crossing.is_empty(), "{order:?}");
}

#[test]
fn no_flips_of_branches_are_shorter() {
    let mut random = Random::of(5);
    for round in 0..120 {
        let n = 2 + round % 8;
        let merge = random_tree(&mut random, n, round % 5 == 0);
        let has_ties = round % 2 == 0;
        let draw = |random: &mut Random| match has_ties {
            true => random.below(4) as f64,
            false => random.uniform() * 10.0 - 2.0,
        };
        let distances: Vec<f64> = (0..n * (n - 1) / 2).map(|_| draw(&mut random)).collect();
        let order = ordered(&merge, &distances, 1);
        assert_no_branches_cross(&merge, &order);
        let found = length(&order, n, &distances);
        let best = least_length(&merge, &distances);
        assert!(
            (found - best).abs() < 1e-9,
            "{merge:?}: {found}, not {best}"
        );
    }
}

#[test]
fn ties_keep_the_order_at_the_start() {
    let mut random = Random::of(6);
    for round in 0..20 {
        let n = 2 + round;
        let merge = random_tree(&mut random, n, round % 2 == 0);
        let start = crate::dendrogram::leaf_order(&merge).unwrap();
        let order = ordered(&merge, &vec![1.0; n * (n - 1) / 2], 1);
        assert_eq!(order[0], start[0]);
        // The first half of the last merge stays on the left.
        let sides = merge.last().unwrap().map(|id| {
            let mut leaves = vec![id];
            let mut at = 0;
            while at < leaves.len() {
                if leaves[at] > 0 {
                    let row = merge[leaves[at] as usize - 1];
                    leaves.extend(row);
                }
                at += 1;
            }
            leaves.retain(|&id| id < 0);
            leaves
        });
        let left = &order[..sides[0].len()];
        assert!(sides[0].iter().all(|&id| left.contains(&-id)));
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let mut random = Random::of(7);
    let n = 300;
    let merge = random_tree(&mut random, n, false);
    let distances: Vec<f64> = (0..n * (n - 1) / 2)
        .map(|_| random.below(20) as f64)
        .collect();
    let one = ordered(&merge, &distances, 1);
    assert_no_branches_cross(&merge, &one);
    let start = crate::dendrogram::leaf_order(&merge).unwrap();
    assert!(length(&one, n, &distances) < length(&start, n, &distances));
    assert_eq!(ordered(&merge, &distances, 4), one);
}

#[test]
fn a_chain_of_many_leaves_is_ordered() {
    let n = 3000;
    // Leaf i joins the chain of the leaves before it.
    let merge: Vec<[i32; 2]> = (2..=n as i32)
        .map(|i| [-i, if i == 2 { -1 } else { i - 2 }])
        .collect();
    let distances = vec![1.0; n * (n - 1) / 2];
    assert_no_branches_cross(&merge, &ordered(&merge, &distances, 2));
}

#[test]
fn a_stop_is_noticed_and_distances_must_fit() {
    let monitor = Monitor::default();
    let merge = [[-1, -2], [-3, 1]];
    let misfit = optimal_order(&merge, &[1.0], &monitor);
    assert!(matches!(misfit, Err(Error::Input(_))));
    monitor.stop();
    let stopped = optimal_order(&merge, &[1.0; 3], &monitor);
    assert_eq!(stopped, Err(Error::Interrupt));
}
