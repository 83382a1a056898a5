//! Tests that lose a device in the middle of its work.

use std::num::NonZero;
use std::thread::available_parallelism;

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::kmeans::{self, KMeansDevice, Start};
use gmhclust_core::knn;
use gmhclust_core::linkage::{
    geometric, linkage, spanning, DissimilaritySource, Linkage, LinkageDevice, Recurrence,
    StoredPrecision,
};
use gmhclust_core::mahalanobis::{cluster, AgglomerationDevice, Distance, Options, Subthreshold};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::NeighbourDevice;
use gmhclust_core::testing::{draw, Data, Random};
use gmhclust_core::{Cpu, Device, Monitor};

use super::{cuda, try_cuda_on};
use crate::testing::{in_processes, lose, too_late, LOSSES};
use crate::Cuda;

/// Runs `cases` cases of the test with this name, each in a new process.
fn alone(name: &str, cases: usize, test: impl FnOnce(usize)) {
    in_processes(&format!("tests::loss::{name}"), cases, test);
}

/// Number of cases of [`lose_in_the_middle_of`].
const CASES: usize = LOSSES.len();

/// A device for all of the work.
trait AnyDevice: AgglomerationDevice + KMeansDevice + LinkageDevice + NeighbourDevice {}

impl<D: AgglomerationDevice + KMeansDevice + LinkageDevice + NeighbourDevice> AnyDevice for D {}

/// The devices that a test uses, and limits on their use.
struct Setting {
    devices: Option<&'static [usize]>,
    memory: Option<usize>,
    /// Whether thread blocks merge even the largest problems.
    blocks: bool,
    /// See [`Cuda::with_mean_linkage`].
    mean_linkage: usize,
}

impl Setting {
    fn open(&self) -> Result<Cuda> {
        let mut cuda = try_cuda_on(self.devices, 4)?;
        if let Some(bytes) = self.memory {
            cuda = cuda.with_memory(bytes);
        }
        if !self.blocks {
            cuda = cuda.without_blocks();
        }
        Ok(cuda.with_mean_linkage(self.mean_linkage))
    }
}

/// One device.
const ONE: Setting = Setting {
    devices: Some(&[0]),
    memory: None,
    blocks: false,
    mean_linkage: 0,
};

/// Loses device 0, and with it all devices of the process, in the middle of some work. Checks that
/// the error names the device.
fn lose_in_the_middle_of<T: PartialEq>(
    case: usize,
    setting: &Setting,
    work: impl Fn(&dyn AnyDevice, &Monitor) -> Result<T>,
) {
    let loss = LOSSES[case];
    let named = match setting.devices {
        Some(only) => format!("CUDA device {}: ", only[0]),
        // With several devices, any of them may be named.
        None => "CUDA device ".to_owned(),
    };
    let cuda = setting.open().unwrap();
    let right = work(&cuda, &Monitor::default());
    assert!(right.is_ok());
    // The cases of a test do the same work: comparing it once with the CPU's is enough.
    if case == 0 {
        let threads = available_parallelism().map_or(4, NonZero::get);
        assert!(work(&Cpu::new(threads).unwrap(), &Monitor::default()) == right);
    }
    let monitor = Monitor::default();
    let result = lose(0, loss, &monitor, || work(&cuda, &monitor));
    match result.inspect_err(|error| cuda.failed(error)) {
        Err(Error::Device(reason)) => {
            eprintln!("{loss:?}: {reason}");
            assert!(reason.starts_with(&named));
            assert!(reason.ends_with("; its context is lost"));
        }
        Err(other) => panic!("{loss:?}: {other}"),
        Ok(_) => too_late(loss),
    }
    drop(cuda);
    // The next call works if the driver gives this process another context.
    match setting.open() {
        Ok(cuda) => assert!(work(&cuda, &Monitor::default()) == right),
        Err(Error::Device(reason)) => {
            eprintln!("{reason}");
            assert!(reason.contains(": its context was lost"));
        }
        Err(other) => panic!("{other}"),
    }
}

fn options() -> Options {
    Options {
        threshold: 50.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_a_clustering() {
    alone("the_gpu_may_be_lost_in_a_clustering", CASES, |case| {
        let x = draw(&mut Random(1), Data::Mixture, 6000, 6);
        lose_in_the_middle_of(case, &ONE, |device, monitor| {
            cluster(&x, None, &options(), device, monitor)
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_apriori_clusters() {
    alone("the_gpu_may_be_lost_in_apriori_clusters", CASES, |case| {
        let mut random = Random(2);
        let x = draw(&mut random, Data::Mixture, 40_000, 8);
        let labels: Vec<u32> = (0..40_000).map(|_| 1 + random.below(20) as u32).collect();
        let setting = Setting {
            blocks: true,
            ..ONE
        };
        lose_in_the_middle_of(case, &setting, |device, monitor| {
            cluster(&x, Some(&labels), &options(), device, monitor)
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_a_search() {
    alone("the_gpu_may_be_lost_in_a_search", CASES, |case| {
        // With fewer points, or in half precision, a fast device finishes before it is lost.
        let n = 240_000;
        let x = draw(&mut Random(3), Data::Mixture, n, 30);
        let points = Points::new(Metric::Manhattan, &x);
        lose_in_the_middle_of(case, &ONE, |device, monitor| {
            knn::nearest(&points, n, 10, device, monitor)
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_a_tree() {
    alone("the_gpu_may_be_lost_in_a_tree", CASES, |case| {
        let x = draw(&mut Random(3), Data::Mixture, 60_000, 30);
        let points = Points::new(Metric::Manhattan, &x);
        lose_in_the_middle_of(case, &ONE, |device, monitor| {
            spanning::tree(&points, device, monitor)
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_distances() {
    alone("the_gpu_may_be_lost_in_distances", CASES, |case| {
        let n = 20_000;
        let x = draw(&mut Random(4), Data::Mixture, n, 20);
        let points = Points::new(Metric::Euclidean, &x);
        let pairs = Pairs::within(n);
        lose_in_the_middle_of(case, &ONE, |device, monitor| {
            let mut out = vec![0.0; pairs.count()];
            device.distances(&points, &pairs, &mut out, monitor)?;
            Ok(out)
        });
    });
}

/// Average linkage of 6000 points, or of the distances between them.
fn lose_in_the_middle_of_linkage(case: usize, given: bool) {
    let n = 6000;
    let x = draw(&mut Random(5), Data::Mixture, n, 10);
    let points = Points::new(Metric::Euclidean, &x);
    let mut distances = vec![0.0; Pairs::within(n).count()];
    let cpu = Cpu::new(4).unwrap();
    cpu.distances(
        &points,
        &Pairs::within(n),
        &mut distances,
        &Monitor::default(),
    )
    .unwrap();
    let recurrence = Recurrence {
        linkage: Linkage::Average,
        precision: StoredPrecision::Double,
    };
    let source = if given {
        DissimilaritySource::Given(&distances)
    } else {
        DissimilaritySource::Points(&points)
    };
    lose_in_the_middle_of(case, &ONE, |device, monitor| {
        linkage(source, n, recurrence, None, device, monitor)
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_linkage_of_points() {
    alone("the_gpu_may_be_lost_in_linkage_of_points", CASES, |case| {
        lose_in_the_middle_of_linkage(case, false);
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_linkage_of_distances() {
    alone(
        "the_gpu_may_be_lost_in_linkage_of_distances",
        CASES,
        |case| {
            lose_in_the_middle_of_linkage(case, true);
        },
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_linkage_by_means() {
    alone("the_gpu_may_be_lost_in_linkage_by_means", CASES, |case| {
        let x = draw(&mut Random(5), Data::Mixture, 40_000, 30);
        let setting = Setting {
            // From the beginning, or for the last 20,000 clusters.
            mean_linkage: [usize::MAX, 20_000 * 20_000 * 30][case % 2],
            ..ONE
        };
        lose_in_the_middle_of(case, &setting, |device, monitor| {
            geometric::ward(&x, device, monitor)
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_may_be_lost_in_k_means() {
    alone("the_gpu_may_be_lost_in_k_means", CASES, |case| {
        let x = draw(&mut Random(6), Data::Mixture, 50_000, 10);
        let mut random = Random(7);
        let uniforms: Vec<f64> = (0..200).map(|_| random.uniform()).collect();
        lose_in_the_middle_of(case, &ONE, |device, monitor| {
            kmeans::cluster(&(&x).into(), Start::Draws(&uniforms), 30, device, monitor)
        });
    });
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_gpus_are_lost_together() {
    alone("the_gpus_are_lost_together", 4 * CASES, |case| {
        assert!(cuda(4).devices() >= 2, "there is one");
        // With fewer points, two fast devices finish before they are lost.
        let (metric, n) =
            [(Metric::Euclidean, 600_000), (Metric::Manhattan, 200_000)][case / CASES % 2];
        let x = draw(&mut Random(8), Data::Mixture, n, 30);
        let points = Points::new(metric, &x);
        let setting = Setting {
            devices: None,
            // All references on each device, or in chunks.
            memory: [None, Some(8 << 20)][case / CASES / 2],
            ..ONE
        };
        lose_in_the_middle_of(case % CASES, &setting, |device, monitor| {
            knn::nearest(&points, n, 10, device, monitor)
        });
    });
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_gpus_are_lost_together_in_k_means() {
    alone("the_gpus_are_lost_together_in_k_means", CASES, |case| {
        assert!(cuda(4).devices() >= 2, "there is one");
        let x = draw(&mut Random(9), Data::Mixture, 200_000, 20);
        let mut random = Random(10);
        let uniforms: Vec<f64> = (0..200).map(|_| random.uniform()).collect();
        let setting = Setting {
            devices: None,
            ..ONE
        };
        lose_in_the_middle_of(case, &setting, |device, monitor| {
            kmeans::cluster(&(&x).into(), Start::Draws(&uniforms), 30, device, monitor)
        });
    });
}
