//! Compares linkages with a matrix on a GPU with the CPU's.

use gmhclust_core::error::Error;
use gmhclust_core::linkage::checks::dissimilarities;
use gmhclust_core::linkage::condensed::{pairs, position};
use gmhclust_core::linkage::{
    matrix, DissimilaritySource, Linkage, LinkageDevice, Recurrence, StoredPrecision,
};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::testing::{array, cloud, correlations, dist_metrics, draw, Random, DATA};
use gmhclust_core::{Cpu, Monitor};

use super::cuda;

/// Checks that GPU and CPU give the same trees, bit for bit. The trees are of given dissimilarities
/// and of points, in both precisions, with and without members.
fn compare_with_the_gpu(rounds: usize, sizes: &[usize]) {
    let cuda = cuda(3);
    let cpu = Cpu::new(3).unwrap();
    let metrics = [dist_metrics(), correlations()].concat();
    let mut random = Random(29);
    for round in 0..rounds {
        let n = sizes[round % sizes.len()];
        let given: Vec<f64> = match round % 5 {
            0 => (0..pairs(n)).map(|_| random.below(4) as f64).collect(),
            1 => vec![1.0; pairs(n)],
            2 => {
                let place = |i: usize| (i * i) as f64;
                let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
                pairs.map(|(i, j)| place(j) - place(i)).collect()
            }
            _ => dissimilarities(&mut random, n, round % 5 == 3),
        };
        let data = DATA[round % DATA.len()];
        let p = 1 + random.below(30);
        let points = Points::new(
            metrics[round % metrics.len()],
            &draw(&mut random, data, n, p),
        );
        let euclidean = Points::new(Metric::Euclidean, &cloud(&mut random, n, 3));
        let members: Vec<f64> = (0..n).map(|_| 1.0 + random.below(9) as f64).collect();
        let members = (round % 2 == 1).then_some(members);
        // The CPU makes the other linkages in any case.
        let on_gpu = |linkage: &Linkage| linkage.is_reducible() && *linkage != Linkage::Single;
        let linkages = Linkage::ALL.into_iter();
        for linkage in linkages.filter(|linkage| n < 30 || on_gpu(linkage)) {
            for precision in [StoredPrecision::Double, StoredPrecision::Single] {
                let recurrence = Recurrence { linkage, precision };
                for (what, source) in [
                    ("given", DissimilaritySource::Given(&given)),
                    ("points", DissimilaritySource::Points(&points)),
                    ("Euclidean", DissimilaritySource::Points(&euclidean)),
                ] {
                    let tree = |device: &dyn LinkageDevice| {
                        let (members, monitor) = (members.clone(), Monitor::default());
                        matrix::linkage(source, n, recurrence, members, device, &monitor)
                    };
                    let case = format!(
                        "{round}: {what} {:?}, {data:?}, {recurrence:?}, {n} x {p}",
                        points.metric()
                    );
                    match (tree(&cuda), tree(&cpu)) {
                        // If several values cannot be used, the error may name any of them.
                        (Err(Error::Input(_)), Err(Error::Input(_))) => {}
                        (on_gpu, on_cpu) => assert!(on_gpu == on_cpu, "{case}"),
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_links_as_the_cpu_does() {
    compare_with_the_gpu(30, &[2, 3, 17, 24, 25, 26, 100, 333]);
    compare_with_the_gpu(12, &[700, 1500]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_links_many_as_the_cpu_does() {
    compare_with_the_gpu(5, &[2000]);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_links_as_the_cpu_does_on_small_data() {
    compare_with_the_gpu(4, &[45, 2, 70, 33]);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_links_or_says_why_not() {
    let cuda = cuda(2);
    let recurrence = Recurrence {
        linkage: Linkage::WardD2,
        precision: StoredPrecision::Single,
    };
    let run =
        |source, n, monitor: &Monitor| matrix::linkage(source, n, recurrence, None, &cuda, monitor);
    let mut d = vec![1.0; pairs(100)];
    d[position(100, 40, 71)] = f64::NAN;
    d[position(100, 41, 50)] = f64::INFINITY;
    match run(DissimilaritySource::Given(&d), 100, &Monitor::default()) {
        Err(Error::Input(message)) => assert!(
            message.contains("NA/NaN/Inf between observations 41 and 72"),
            "{message}"
        ),
        other => panic!("{other:?}"),
    }
    let n = 600_000;
    let many = Points::prepare(
        Metric::Euclidean,
        array(vec![0.0; n], n, 1),
        &Monitor::default(),
    )
    .unwrap();
    match run(DissimilaritySource::Points(&many), n, &Monitor::default()) {
        Err(Error::Memory(message)) => assert!(
            message.starts_with("ward.D2 linkage of 600000 observations needs ")
                && message.contains(" bytes on the device, which has "),
            "{message}"
        ),
        other => panic!("{other:?}"),
    }
    let stopped = Monitor::default();
    stopped.stop();
    let result = run(DissimilaritySource::Given(&d), 100, &stopped);
    assert_eq!(result, Err(Error::Interrupt));
    let monitor = Monitor::default();
    let d = dissimilarities(&mut Random(30), 600, true);
    run(DissimilaritySource::Given(&d), 600, &monitor).unwrap();
    let (done, total) = monitor.progress();
    assert!(
        done <= total && done as f64 > 0.99 * total as f64,
        "{done} of {total}"
    );
}
