//! Compares the kernels of mean_linkage.cu with the CPU's linkages bit for bit. No GPU is needed:
//! kernels/host compiles the kernels for the CPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use gmhclust_core::error::Result;
use gmhclust_core::linkage::geometric;
use gmhclust_core::magnitude::largest;
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::{
    MeanLinkage, NeighbourDevice, Neighbours, RemainingClusters, Space,
};
use gmhclust_core::testing::{draw, observations, Data, Random, DATA};
use gmhclust_core::{Cpu, Device, Merge, Monitor, Observations};
use libloading::{Library, Symbol};

use super::launch::{most_results, Clusters, Counts};
use super::margins::Margins;
use crate::host;

type Round = unsafe extern "C" fn(*const Clusters, u32, u32, bool);

/// A function of host/mean_linkage.cpp.
fn function(name: &str) -> Symbol<'static, Round> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| host::library("mean_linkage.cpp", &[]));
    // SAFETY: all three functions have this type.
    unsafe { host::function(library, name) }
}

/// The kernels on the CPU, as a device with this number of blocks.
struct KernelsOnCpu {
    cpu: Cpu,
    blocks: u32,
    last_first: bool,
    most_open: u64,
    /// Largest number of clusters that the kernels merge.
    most_clusters: usize,
    /// Number of trees that the kernels made.
    made: AtomicUsize,
}

impl KernelsOnCpu {
    fn new(blocks: u32) -> Self {
        Self {
            cpu: Cpu::new(1).unwrap(),
            blocks,
            last_first: false,
            most_open: u64::MAX,
            most_clusters: usize::MAX,
            made: AtomicUsize::new(0),
        }
    }

    /// The merges of points, and the counts after the last one.
    fn merges(&self, points: &Points, sizes: &[f64], linkage: MeanLinkage) -> (Vec<Merge>, Counts) {
        self.merges_of(&RemainingClusters {
            linkage,
            columns: points.columns(),
            means: points.values(),
            sizes,
            half_variances: &vec![0.0; sizes.len()],
            nearest: None,
        })
    }

    /// As [`Self::merges`], of clusters.
    fn merges_of(&self, remaining: &RemainingClusters<'_>) -> (Vec<Merge>, Counts) {
        let (n, columns, linkage) = (remaining.count(), remaining.columns, remaining.linkage);
        let (mut means, mut sizes) = (remaining.means.to_vec(), remaining.sizes.to_vec());
        let mut variances = remaining.half_variances.to_vec();
        let (mut distances, mut nearest) = match remaining.nearest {
            Some((distances, nearest)) => (distances.to_vec(), nearest.to_vec()),
            None => (vec![f64::NAN; n], vec![0; n]),
        };
        let mut single_means = vec![f32::NAN; means.len()];
        let mut merged_in = vec![0u32; n];
        let mut live: Vec<u32> = (0..n as u32).collect();
        let (mut live_after_odd, mut changed) = (vec![0u32; n], live.clone());
        let mut open = vec![0u32; n];
        let results = most_results(n, self.blocks);
        let (mut least, mut second) = (vec![f64::NAN; results], vec![f64::NAN; results]);
        let mut least_slots = vec![0u32; results];
        let (mut heights, mut lower, mut higher) = (vec![0.0; n], vec![0u32; n], vec![0u32; n]);
        let mut counts = Counts::new(n);
        let counts_at = &raw mut counts;
        let margins = Margins::new(columns, largest(&means), linkage);
        let clusters = Clusters {
            means: means.as_mut_ptr() as u64,
            sizes: sizes.as_mut_ptr() as u64,
            variances: variances.as_mut_ptr() as u64,
            single_means: single_means.as_mut_ptr() as u64,
            distances: distances.as_mut_ptr() as u64,
            nearest: nearest.as_mut_ptr() as u64,
            merged_in: merged_in.as_mut_ptr() as u64,
            live_after_even: live.as_mut_ptr() as u64,
            live_after_odd: live_after_odd.as_mut_ptr() as u64,
            changed: changed.as_mut_ptr() as u64,
            open: open.as_mut_ptr() as u64,
            least: least.as_mut_ptr() as u64,
            second: second.as_mut_ptr() as u64,
            least_slots: least_slots.as_mut_ptr() as u64,
            heights: heights.as_mut_ptr() as u64,
            lower: lower.as_mut_ptr() as u64,
            higher: higher.as_mut_ptr() as u64,
            counts: counts_at as u64,
            ..Clusters::new(columns, linkage, margins, self.most_open)
        };
        // SAFETY: all arrays have the sizes that a device's have.
        unsafe {
            let mut round = 0;
            function("host_convert")(&clusters, n as u32, self.blocks, self.last_first);
            if remaining.nearest.is_none() {
                function("host_search")(&clusters, round, self.blocks, self.last_first);
            }
            let ends = |counts: Counts| counts.should_end(n) || counts.merges as usize == n - 1;
            while !ends(counts_at.read_volatile()) {
                round += 1;
                function("host_round")(&clusters, round, self.blocks, self.last_first);
                let merges = counts_at.read_volatile().merges;
                assert!(merges >= round / 2, "{merges} after {round} rounds");
            }
            let counts = counts_at.read_volatile();
            let places = 0..counts.merges as usize;
            let merge = |at: usize| Merge {
                lower: lower[at],
                higher: higher[at],
                height: heights[at],
            };
            (places.map(merge).collect(), counts)
        }
    }
}

impl Device for KernelsOnCpu {
    fn name(&self) -> &'static str {
        "kernels"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl NeighbourDevice for KernelsOnCpu {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        self.cpu.references(space, monitor)
    }

    fn prefers_merges_of_means(&self, clusters: usize, _columns: usize) -> bool {
        clusters <= self.most_clusters
    }

    fn merges_of_means(
        &self,
        clusters: &RemainingClusters<'_>,
        monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        let (merges, counts) = self.merges_of(clusters);
        if counts.should_end(clusters.count()) {
            return Ok(None);
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let searches = clusters.nearest.map_or(clusters.count(), |_| 0);
        monitor.advance((searches + merges.len()) as u64);
        Ok(Some(merges))
    }
}

/// The trees of all linkages by means, by a device.
fn trees(x: &Observations, on: &dyn NeighbourDevice) -> Vec<gmhclust_core::dendrogram::Dendrogram> {
    let monitor = Monitor::default();
    let mut trees = vec![geometric::ward(x, on, &monitor).unwrap()];
    let points = Points::new(Metric::Cosine { absolute: false }, x);
    if points.constant().is_empty() {
        trees.push(geometric::average(points.clone(), on, &monitor).unwrap());
        trees.push(geometric::mcquitty(points, on, &monitor).unwrap());
    }
    let (done, expected) = monitor.progress();
    assert_eq!(done, expected, "the work that was announced");
    trees
}

#[test]
fn trees_have_the_bits_of_the_cpu() {
    let (cpu, mut random) = (Cpu::new(2).unwrap(), Random(41));
    let (mut made, mut all) = (0, 0);
    for (round, data) in DATA.into_iter().cycle().take(3 * DATA.len()).enumerate() {
        // No two of these numbers have a common divisor.
        let n = [2, 3, 40, 150, 70, 230, 90][round % 7];
        // A tile has 8 or 16 coordinates at a time.
        let p = [1, 2, 8, 17, 33][round % 5];
        let x = draw(&mut random, data, n, p);
        let device = KernelsOnCpu {
            last_first: round % 2 == 0,
            // Searches find the first nearest clusters, and may make the first merges.
            most_clusters: [usize::MAX, n - 1, n / 2 + 2][round % 3],
            ..KernelsOnCpu::new([1, 3, 40, 7, 2, 5, 1, 3, 1, 2, 1][round % 11])
        };
        let found = trees(&x, &device);
        assert_eq!(found, trees(&x, &cpu), "{data:?}, {n} x {p}");
        made += device.made.load(Ordering::Relaxed);
        all += found.len();
    }
    // The others are left to searches.
    assert!(5 * made > 4 * all, "{made} of {all}");
}

#[test]
fn nearly_tied_distances_are_decided_in_double_precision() {
    let (cpu, mut random) = (Cpu::new(2).unwrap(), Random(43));
    for (round, noise) in [1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12]
        .into_iter()
        .enumerate()
    {
        for (n, p) in [(60, 2), (150, 1), (50, 24)] {
            let mut value = || random.below(3) as f64 + noise * random.normal();
            let mut values: Vec<f64> = (0..n * p).map(|_| value()).collect();
            // Clusters of many members at the start.
            for _ in 0..20 * (round % 2) {
                values.extend_from_within(..3 * p);
            }
            let x = observations(values.clone(), values.len() / p, p);
            let device = KernelsOnCpu::new(2);
            assert_eq!(trees(&x, &device), trees(&x, &cpu), "{noise}, {n} x {p}");
            assert!(device.made.load(Ordering::Relaxed) > 0);
        }
    }
}

/// n points at equal distances from each other, or at distances that increase with both numbers.
fn star(n: usize, step: f64) -> Points {
    let mut values = vec![0.0; n * n];
    for (i, row) in values.chunks_exact_mut(n).enumerate() {
        row[i] = 1.0 + step * i as f64;
    }
    Points::new(Metric::Euclidean, &observations(values, n, n))
}

#[test]
fn clusters_tie_only_if_distances_are_about_equal() {
    let flags = |points: &Points| {
        let merges = |linkage| {
            let ones = vec![1.0; points.rows()];
            KernelsOnCpu::new(5).merges(points, &ones, linkage).1
        };
        let linkages = [
            MeanLinkage::Ward,
            MeanLinkage::Average,
            MeanLinkage::Mcquitty,
        ];
        linkages.map(|linkage| merges(linkage).tied)
    };
    let of_data = |data| {
        let x = draw(&mut Random::of(3), data, 120, 3);
        flags(&Points::new(Metric::Euclidean, &x))
    };
    assert_eq!(of_data(Data::Plain), [0; 3]);
    assert_eq!(of_data(Data::Mixture), [0; 3]);
    assert_eq!(of_data(Data::Grid), [1; 3]);
}

#[test]
fn rounds_end_if_many_clusters_share_their_nearest_cluster() {
    let counts = |n: usize, step| {
        let merges = KernelsOnCpu::new(3).merges(&star(n, step), &vec![1.0; n], MeanLinkage::Ward);
        merges.1
    };
    // Each merge repeats the searches of all.
    let untied = counts(100, 1e-3);
    assert!(
        untied.crowded != 0 && untied.tied == 0 && untied.should_end(100),
        "{untied:?}"
    );
    assert!((untied.merges as usize) < 99);
    let tied = counts(100, 0.0);
    assert!(
        tied.crowded != 0 && tied.tied != 0 && tied.should_end(100),
        "{tied:?}"
    );
    let few = counts(20, 1e-3);
    assert!(!few.should_end(20) && few.merges == 19, "{few:?}");
}

#[test]
fn rounds_end_if_too_many_comparisons_need_double_precision() {
    let x = draw(&mut Random::of(3), Data::Grid, 60, 3);
    let points = Points::new(Metric::Euclidean, &x);
    let ward = |most_open| {
        let device = KernelsOnCpu {
            most_open,
            ..KernelsOnCpu::new(2)
        };
        device.merges(&points, &[1.0; 60], MeanLinkage::Ward).1
    };
    assert!(ward(60 * 60).given_up == 0);
    let given_up = ward(100);
    assert!(
        given_up.should_end(60) && given_up.given_up == 1,
        "{given_up:?}"
    );
    assert_eq!(given_up.merges, 0);
}

#[test]
fn a_cycle_of_nearest_clusters_is_searched_again() {
    let x = draw(&mut Random::of(9), Data::Plain, 5, 2);
    let points = Points::new(Metric::Euclidean, &x);
    let clusters = RemainingClusters {
        linkage: MeanLinkage::Ward,
        columns: 2,
        means: points.values(),
        sizes: &[1.0; 5],
        half_variances: &[0.0; 5],
        nearest: None,
    };
    let device = KernelsOnCpu::new(2);
    let expected = device.merges_of(&clusters).0;
    let cycle = Some(([1.0; 5].as_slice(), [1, 2, 3, 4, 0].as_slice()));
    let found = device.merges_of(&RemainingClusters {
        nearest: cycle,
        ..clusters
    });
    assert_eq!(found.0, expected);
    assert_eq!(found.0.len(), 4);
}
