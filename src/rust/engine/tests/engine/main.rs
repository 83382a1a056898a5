//! Tests of the engine without R: which device a job gets, and which device replaces one that
//! fails.

mod loss;

use std::sync::Arc;

use gmhclust_core::distances::Pairs;
use gmhclust_core::kmeans::{self, Start};
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::mahalanobis::{
    AprioriPartition, Clusterer, Distance, Options, ProblemSizes, Subthreshold,
};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::testing::FailingDevice;
use gmhclust_core::{knn, Cpu, Error, Monitor, Observations};
use gmhclust_engine::{BackendChoice, Engine, Workload};
use ndarray::Array2;

fn cpu() -> Arc<Cpu> {
    Arc::new(Cpu::new(1).unwrap())
}

fn gone() -> Error {
    Error::Device("gone".into())
}

fn failing_after(answers: usize, error: Error) -> Arc<FailingDevice> {
    Arc::new(FailingDevice::after(answers, error))
}

fn lost() -> Engine {
    Engine::on(failing_after(0, gone())).with_fallback(cpu())
}

fn observations(rows: usize, modulus: i32) -> Observations {
    let values = (0..3 * rows as i32).map(|i| f64::from(i * i % modulus));
    let x = Array2::from_shape_vec((rows, 3), values.collect()).unwrap();
    Observations::new(x).unwrap()
}

fn points(metric: Metric, x: &Observations) -> Points {
    Points::prepare(metric, x.view().to_owned(), &Monitor::default()).unwrap()
}

const OPTIONS: Options = Options {
    threshold: 5.0,
    subthreshold: Subthreshold::Mahal,
    distance: Distance::FullMahalanobis,
    normalize: false,
    apriori_intra: true,
};

#[test]
fn a_lost_device_is_stood_in_for_and_an_interrupt_is_not() {
    let x = observations(20, 17);
    let run = |engine: &Engine| {
        let monitor = Monitor::default();
        let mut clusterer = Clusterer::new(&x, None, &OPTIONS, &cpu())?;
        engine.run(&monitor, |device| clusterer.merge(device, &monitor))?;
        clusterer.tree(engine.cpu())
    };
    let expected = run(&Engine::on(cpu()));
    for error in [gone(), Error::Memory("full".into())] {
        let engine = Engine::on(failing_after(0, error)).with_fallback(cpu());
        assert_eq!(engine.name(), "failing");
        assert_eq!(run(&engine), expected);
        assert_eq!(engine.name(), "cpu");
    }
    let interrupted = Engine::on(failing_after(0, Error::Interrupt)).with_fallback(cpu());
    assert_eq!(run(&interrupted), Err(Error::Interrupt));
    let alone = Engine::on(failing_after(0, gone()));
    assert_eq!(run(&alone), Err(gone()));
}

#[test]
fn the_monitor_learns_of_a_lost_device_once_and_not_of_a_small_one() {
    let warnings = |error: Error| {
        let (monitor, engine) = (Monitor::default(), Engine::on(failing_after(0, error)));
        let engine = engine.with_fallback(cpu());
        let points = points(Metric::Manhattan, &observations(9, 5));
        for _ in 0..2 {
            let distances = engine.run(&monitor, |device| {
                let mut out = vec![0.0; 36];
                device.distances(&points, &Pairs::within(9), &mut out, &monitor)?;
                Ok(out)
            });
            assert!(distances.is_ok());
        }
        monitor.warnings()
    };
    assert_eq!(warnings(gone()), ["gone; the CPU did the rest of the work"]);
    assert!(warnings(Error::Memory("full".into())).is_empty());
}

#[test]
fn merges_within_apriori_clusters_are_kept_where_a_device_is_lost_above_them() {
    let x = observations(40, 37);
    let labels: Vec<u32> = (0..40).map(|i| 1 + i % 4).collect();
    let monitor = Monitor::default();
    let mut clusterer = Clusterer::new(
        &x,
        AprioriPartition::new(&labels).unwrap(),
        &OPTIONS,
        &cpu(),
    )
    .unwrap();
    let engine = Engine::on(failing_after(1, gone())).with_fallback(cpu());
    let found = engine.run(&monitor, |device| clusterer.merge(device, &monitor));
    let found = found.and_then(|()| clusterer.tree(&cpu()));
    let progress = monitor.progress();
    let again = Clusterer::new(
        &x,
        AprioriPartition::new(&labels).unwrap(),
        &OPTIONS,
        &cpu(),
    )
    .unwrap();
    let whole = Monitor::default();
    assert_eq!(found, again.run(&*cpu(), &whole));
    assert_eq!(
        progress,
        whole.progress(),
        "nothing was done or expected twice"
    );
}

#[test]
fn a_search_goes_on_where_a_device_is_lost_in_the_middle_of_it() {
    let x = observations(30, 53);
    let points = points(Metric::Euclidean, &x);
    let monitor = Monitor::default();
    let graph = |engine: &Engine| {
        let mut search = knn::Search::new(&points, 30, 4, engine.cpu())?;
        engine.run(&monitor, |device| search.run(device, &monitor))?;
        Ok::<_, Error>(search.into_graph())
    };
    let lost = || Engine::on(failing_after(1, gone())).with_fallback(cpu());
    let right = Engine::on(cpu());
    let engine = lost();
    assert_eq!(graph(&engine), graph(&right));
    assert_eq!(engine.name(), "cpu");
    let tree = |engine: &Engine| engine.run(&monitor, |on| spanning::tree(&points, on, &monitor));
    assert_eq!(tree(&lost()), tree(&right));
    let ward = |engine: &Engine| engine.run(&monitor, |on| geometric::ward(&x, on, &monitor));
    assert_eq!(ward(&lost()), ward(&right));
}

#[test]
fn k_means_is_stood_in_for_as_well() {
    let x = observations(20, 17);
    let partition = |engine: &Engine| {
        let monitor = Monitor::default();
        let start = Start::Draws(&[0.5; 4]);
        engine.run(&monitor, |on| {
            kmeans::cluster(&(&x).into(), start, 9, on, &monitor)
        })
    };
    let engine = lost();
    assert_eq!(partition(&engine), partition(&Engine::on(cpu())));
    assert_eq!(engine.name(), "cpu");
}

#[test]
fn an_unknown_backend_is_refused() {
    let choice = BackendChoice {
        backend: "gpu".into(),
        threads: 1,
        devices: None,
    };
    let work = Workload::Agglomeration {
        sizes: ProblemSizes::new(10, None),
        columns: 2,
        distance: Distance::Centroid,
    };
    assert!(matches!(Engine::new(&choice, &work), Err(Error::Input(_))));
}
