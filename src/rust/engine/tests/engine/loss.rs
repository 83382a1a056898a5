//! Tests that lose a GPU in the middle of work under `backend = "auto"`: the CPU does the rest.

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::kmeans::{self, Start};
use gmhclust_core::linkage::{
    linkage, spanning, DissimilaritySource, Linkage, Recurrence, StoredPrecision,
};
use gmhclust_core::mahalanobis::{
    AprioriPartition, Clusterer, Distance, Options, ProblemSizes, Subthreshold,
};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::testing::{draw, Data, Random};
use gmhclust_core::{knn, Cpu, Error, Monitor, Result};
use gmhclust_cuda::testing::{in_processes, lose, too_late, LOSSES};
use gmhclust_engine::{BackendChoice, Engine, Workload};

/// The setting of a test.
#[derive(Clone, Copy)]
struct Setting {
    threads: usize,
    /// The numbers of the devices; `None` for all devices.
    devices: Option<&'static [usize]>,
    /// The backend that computes the expected result.
    right: &'static str,
}

const ONE_DEVICE: Setting = Setting {
    threads: 4,
    devices: Some(&[0]),
    right: "cpu",
};

/// One device beside many threads. The planner gives only larger work to a GPU if there are more
/// threads, and fast devices do not finish larger work before they are lost.
const ONE_DEVICE_MANY_THREADS: Setting = Setting {
    threads: 16,
    ..ONE_DEVICE
};

/// All devices, and the result of a GPU as the expected result. The CPU would take a minute for
/// this work, and other tests compare GPUs with the CPU.
const ALL_DEVICES: Setting = Setting {
    threads: 16,
    devices: None,
    right: "cuda",
};

/// Number of cases of [`fall_back_in_the_middle_of`].
const CASES: usize = LOSSES.len();

/// Runs the cases of the test with this name, each in a process of its own.
fn alone(name: &str, cases: usize, test: impl FnOnce(usize)) {
    in_processes(&format!("loss::{name}"), cases, test);
}

fn choice(backend: &str, setting: Setting) -> BackendChoice {
    BackendChoice {
        backend: backend.into(),
        threads: setting.threads,
        devices: setting.devices.map(<[usize]>::to_vec),
    }
}

/// Loses device 0, and with it all other devices of this process, in the middle of some work. The
/// planner must prefer a GPU for work of this size.
fn fall_back_in_the_middle_of<T: PartialEq>(
    case: usize,
    size: &Workload,
    setting: Setting,
    work: impl Fn(&Engine, &Monitor) -> Result<T>,
) {
    let open = |backend| Engine::new(&choice(backend, setting), size);
    let right = work(&open(setting.right).unwrap(), &Monitor::default());
    assert!(right.is_ok());
    let engine = open("auto").unwrap();
    must_work_on_the_gpu(&engine, &right, &work);
    let (loss, monitor) = (LOSSES[case], Monitor::default());
    let result = lose(0, loss, &monitor, || work(&engine, &monitor));
    assert!(result == right, "{loss:?}");
    let warnings = monitor.warnings();
    eprintln!("{loss:?}: {warnings:?}");
    if engine.name() == "cuda" {
        assert!(warnings.is_empty());
        too_late(loss);
    }
    assert_eq!(engine.name(), "cpu");
    assert_eq!(warnings.len(), 1);
    // With several devices, the warning names the device whose loss was noticed last.
    let device = match setting.devices {
        None => "CUDA device ",
        Some(_) => "CUDA device 0: ",
    };
    assert!(warnings[0].starts_with(device));
    assert!(warnings[0].ends_with("; its context is lost; the CPU did the rest of the work"));
    drop(engine);
    // The driver may not give this process another context. The next call works, or returns an
    // error that says so.
    match open("cuda") {
        Ok(_) => must_work_on_the_gpu(&open("auto").unwrap(), &right, &work),
        Err(Error::Device(reason)) => {
            eprintln!("{reason}");
            assert!(reason.contains(": its context was lost"));
            assert_eq!(open("auto").unwrap().name(), "cpu");
        }
        Err(other) => panic!("{other}"),
    }
}

fn must_work_on_the_gpu<T: PartialEq>(
    engine: &Engine,
    right: &Result<T>,
    work: impl Fn(&Engine, &Monitor) -> Result<T>,
) {
    assert_eq!(engine.name(), "cuda");
    let monitor = Monitor::default();
    assert!(work(engine, &monitor) == *right);
    assert!(monitor.warnings().is_empty());
    assert_eq!(engine.name(), "cuda");
}

const OPTIONS: Options = Options {
    threshold: 50.0,
    subthreshold: Subthreshold::Mahal,
    distance: Distance::Centroid,
    normalize: false,
    apriori_intra: true,
};

/// Clustering of a mixture in this number of dimensions.
fn fall_back_in_a_clustering(case: usize, n: usize, columns: usize, apriori: Option<&[u32]>) {
    let x = draw(&mut Random(1), Data::Mixture, n, columns);
    let apriori = apriori.and_then(|labels| AprioriPartition::new(labels).unwrap());
    let size = Workload::Agglomeration {
        sizes: ProblemSizes::new(n, apriori.as_ref()),
        columns,
        distance: OPTIONS.distance,
    };
    fall_back_in_the_middle_of(case, &size, ONE_DEVICE, |engine, monitor| {
        let mut clusterer = Clusterer::new(&x, apriori.clone(), &OPTIONS, &Cpu::new(2)?)?;
        engine.run(monitor, |on| clusterer.merge(on, monitor))?;
        clusterer.tree(engine.cpu())
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_a_clustering() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_a_clustering";
    alone(name, CASES, |case| {
        fall_back_in_a_clustering(case, 14_000, 6, None);
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_apriori_clusters() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_apriori_clusters";
    alone(name, CASES, |case| {
        // Enough problems for the planner to choose thread blocks.
        let mut random = Random(2);
        let labels: Vec<u32> = (0..40_000).map(|_| 1 + random.below(20) as u32).collect();
        fall_back_in_a_clustering(case, 40_000, 8, Some(&labels));
    });
}

/// The graph of the 10 nearest neighbours of `n` points in 30 dimensions.
fn fall_back_in_a_search(case: usize, metric: Metric, n: usize, setting: Setting) {
    let x = draw(&mut Random(3), Data::Mixture, n, 30);
    let points = Points::new(metric, &x);
    let size = Workload::Pairs {
        count: n * n,
        columns: 30,
    };
    fall_back_in_the_middle_of(case, &size, setting, |engine, monitor| {
        let mut search = knn::Search::new(&points, n, 10, engine.cpu())?;
        engine.run(monitor, |on| search.run(on, monitor))?;
        Ok(search.into_graph())
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_a_search() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_a_search";
    alone(name, CASES, |case| {
        fall_back_in_a_search(case, Metric::Euclidean, 160_000, ONE_DEVICE_MANY_THREADS);
    });
}

#[test]
#[ignore = "needs two NVIDIA GPUs"]
fn the_cpu_goes_on_where_the_gpus_are_lost_together() {
    let name = "the_cpu_goes_on_where_the_gpus_are_lost_together";
    alone(name, CASES, |case| {
        let usable = gmhclust_engine::devices().unwrap();
        let usable = usable.iter().filter(|device| device.problem.is_none());
        assert!(usable.count() >= 2, "there is one");
        // With fewer points, two fast devices finish before they are lost.
        let (metric, n) = [(Metric::Euclidean, 300_000), (Metric::Manhattan, 150_000)][case % 2];
        fall_back_in_a_search(case, metric, n, ALL_DEVICES);
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_a_tree() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_a_tree";
    alone(name, CASES, |case| {
        let n = 20_000;
        let x = draw(&mut Random(4), Data::Mixture, n, 30);
        let points = Points::new(Metric::Manhattan, &x);
        let size = Workload::Pairs {
            count: n * n,
            columns: 30,
        };
        fall_back_in_the_middle_of(case, &size, ONE_DEVICE, |engine, monitor| {
            engine.run(monitor, |on| spanning::tree(&points, on, monitor))
        });
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_distances() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_distances";
    alone(name, CASES, |case| {
        let (n, columns) = (20_000, 45);
        let x = draw(&mut Random(5), Data::Mixture, n, columns);
        let points = Points::new(Metric::Euclidean, &x);
        let pairs = Pairs::within(n);
        let count = pairs.count();
        let size = Workload::Pairs { count, columns };
        fall_back_in_the_middle_of(case, &size, ONE_DEVICE, |engine, monitor| {
            let mut out = vec![0.0; count];
            engine.run(monitor, |on| {
                on.distances(&points, &pairs, &mut out, monitor)
            })?;
            Ok(out)
        });
    });
}

/// Average linkage of points, or of the distances between them.
fn fall_back_in_a_linkage(case: usize, given: bool) {
    let (n, columns) = (6_000, 10);
    let x = draw(&mut Random(6), Data::Mixture, n, columns);
    let points = Points::new(Metric::Euclidean, &x);
    let pairs = Pairs::within(n);
    let mut distances = vec![0.0; pairs.count()];
    let cpu = Cpu::new(ONE_DEVICE.threads).unwrap();
    cpu.distances(&points, &pairs, &mut distances, &Monitor::default())
        .unwrap();
    let recurrence = Recurrence {
        linkage: Linkage::Average,
        precision: StoredPrecision::Double,
    };
    let size = Workload::Linkage {
        linkage: recurrence.linkage,
        observations: n,
        columns: if given { None } else { Some(columns) },
    };
    let source = if given {
        DissimilaritySource::Given(&distances)
    } else {
        DissimilaritySource::Points(&points)
    };
    fall_back_in_the_middle_of(case, &size, ONE_DEVICE, |engine, monitor| {
        engine.run(monitor, |on| {
            linkage(source, n, recurrence, None, on, monitor)
        })
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_linkage_of_points() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_linkage_of_points";
    alone(name, CASES, |case| fall_back_in_a_linkage(case, false));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_linkage_of_distances() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_linkage_of_distances";
    alone(name, CASES, |case| fall_back_in_a_linkage(case, true));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_cpu_goes_on_where_the_gpu_is_lost_in_k_means() {
    let name = "the_cpu_goes_on_where_the_gpu_is_lost_in_k_means";
    alone(name, CASES, |case| {
        let (n, columns, centers, iterations) = (100_000, 15, 200, 30);
        let x = draw(&mut Random(7), Data::Mixture, n, columns);
        let mut random = Random(8);
        let uniforms: Vec<f64> = (0..centers).map(|_| random.uniform()).collect();
        let size = Workload::Pairs {
            count: n * centers * iterations,
            columns,
        };
        fall_back_in_the_middle_of(case, &size, ONE_DEVICE, |engine, monitor| {
            engine.run(monitor, |on| {
                kmeans::cluster(
                    &(&x).into(),
                    Start::Draws(&uniforms),
                    iterations,
                    on,
                    monitor,
                )
            })
        });
    });
}
