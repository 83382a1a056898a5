//! What an algorithm asks of a device, and the choice of the device.

pub mod cpu;
pub mod cuda;
pub mod dissimilarities;
pub mod neighbours;
pub mod screen;
pub mod single;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::distances::Pairs;
use crate::error::{Error, Result};
use crate::kmeans::{Assigned, Start};
use crate::linkage::lance_williams::{Linkage, Recurrence};
use crate::linkage::matrix::Origin;
use crate::mahalanobis::Problem;
use crate::matrix::Matrix;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
use neighbours::{Neighbours, Space};

/// Two clusters, named by their slots, becoming one in the lower slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merge {
    pub lower: u32,
    pub higher: u32,
    pub height: f64,
}

/// A device. Every backend gives the same answers, bit for bit.
pub trait Backend: Send + Sync {
    /// As the user names it: `"cpu"` or `"cuda"`.
    fn name(&self) -> &'static str;

    /// Runs `work` where rayon divides it among the threads that the user chose.
    fn on_threads(&self, work: &mut (dyn FnMut() + Send));

    /// Merges each problem's clusters to one; for each problem its merges in order.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` as the
    /// device has it.
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;

    /// Prepares observations, row-major and with NaN where a value is missing, for a metric.
    ///
    /// # Errors
    /// `Error::Input` when there are not `rows * columns` values, `Error::Interrupt` when the monitor
    /// says stop; otherwise as the device has it.
    fn prepare(
        &self,
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Points>;

    /// Has `task` ask for nearest references in `space`. A task may be begun anew, on another device,
    /// where one fails.
    ///
    /// # Errors
    /// What the task returns; otherwise as [`Backend::agglomerate`].
    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()>;

    /// Merges all observations to one cluster, through the matrix of their dissimilarities; each
    /// merge comes after those that made its parts.
    ///
    /// # Errors
    /// As [`crate::linkage::matrix::linkage`].
    fn link(
        &self,
        origin: Origin,
        recurrence: Recurrence,
        sizes: Vec<f64>,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>>;

    /// Writes the distances of `pairs` of points into `out`, which has room for just these.
    ///
    /// # Errors
    /// As [`Backend::agglomerate`].
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()>;

    /// Clusters the rows of `x` by Lloyd's algorithm, for centers and values that
    /// [`crate::kmeans::cluster`] has checked.
    ///
    /// # Errors
    /// `Error::Input` where `x` has fewer distinct rows than centers to draw; otherwise as
    /// [`Backend::agglomerate`].
    fn kmeans(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned>;
}

/// What is done with the nearest references, from beginning to end.
pub type Task<'a> = dyn FnMut(&mut dyn Neighbours) -> Result<()> + Send + 'a;

/// What the user chooses.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// `"auto"`, `"cpu"` or `"cuda"`.
    pub backend: &'a str,
    /// How many threads the CPU works with.
    pub threads: usize,
    /// Which CUDA devices, from 0; all that can be used where `None`.
    pub devices: Option<&'a [usize]>,
}

/// What there is to do, for the choice of a backend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    Agglomeration {
        /// How many clusters the largest problem starts with.
        largest: usize,
        /// How many problems are small: those of apriori clusters.
        small: usize,
        /// The observations in the small ones.
        observations: usize,
    },
    /// Pairs of observations to compare, each in so many columns.
    Pairs { count: usize, columns: usize },
    /// Linkage of observations through a matrix, of their distances in so many columns, or of
    /// dissimilarities that are given.
    Linkage {
        linkage: Linkage,
        observations: usize,
        columns: Option<usize>,
    },
}

/// The backend that the user asked for. `"auto"` takes a GPU where there is one and the work is
/// large enough to profit.
///
/// # Errors
/// `Error::Device` for `"cuda"` where no device can be used, `Error::Input` for another word and for
/// what [`cuda::Cuda::new`] refuses.
pub fn select(choice: &Choice, work: &Workload) -> Result<Box<dyn Backend>> {
    let cpu = || cpu::Cpu::new(choice.threads);
    match choice.backend {
        "cpu" => Ok(Box::new(cpu()?)),
        "cuda" => match cuda::Cuda::new(choice.devices, choice.threads) {
            Ok(cuda) => Ok(Box::new(cuda)),
            Err(Error::Device(reason)) => Err(Error::Device(format!(
                "`backend` is \"cuda\", but {reason}; \"cpu\" needs no device, and \"auto\" does \
                 without one"
            ))),
            Err(other) => Err(other),
        },
        "auto" if !cuda::profits(work, choice.threads) => Ok(Box::new(cpu()?)),
        "auto" => match cuda::Cuda::new(choice.devices, choice.threads) {
            Ok(cuda) => Ok(Box::new(Fallback::new(cuda, cpu()?))),
            Err(error @ Error::Input(_)) => Err(error),
            Err(_) => Ok(Box::new(cpu()?)),
        },
        other => Err(Error::Input(format!(
            "`backend` is \"{other}\", it needs to be \"auto\", \"cpu\" or \"cuda\""
        ))),
    }
}

/// A backend that another stands in for when its device fails or is too small.
struct Fallback<A, B> {
    first: A,
    second: B,
    /// Whether the second had to stand in.
    failed: AtomicBool,
}

impl<A, B> Fallback<A, B> {
    fn new(first: A, second: B) -> Self {
        Self {
            first,
            second,
            failed: AtomicBool::new(false),
        }
    }
}

impl<A: Backend, B: Backend> Fallback<A, B> {
    /// Does something on the first; where that has failed, or fails now, on the second. The monitor
    /// learns of a device that fails, but not of one that is too small.
    fn run<T>(
        &self,
        monitor: &Monitor,
        mut on: impl FnMut(&dyn Backend) -> Result<T>,
    ) -> Result<T> {
        if !self.failed.load(Ordering::Relaxed) {
            match on(&self.first) {
                Err(error @ (Error::Device(_) | Error::Memory(_))) => {
                    self.failed.store(true, Ordering::Relaxed);
                    if let Error::Device(reason) = error {
                        monitor.warn(format!("{reason}; the CPU did the rest of the work"));
                    }
                }
                result => return result,
            }
        }
        on(&self.second)
    }
}

impl<A: Backend, B: Backend> Backend for Fallback<A, B> {
    fn name(&self) -> &'static str {
        if self.failed.load(Ordering::Relaxed) {
            self.second.name()
        } else {
            self.first.name()
        }
    }

    fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
        self.second.on_threads(work);
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        self.run(monitor, |backend| backend.agglomerate(problems, monitor))
    }

    fn prepare(
        &self,
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Points> {
        self.run(monitor, |backend| {
            backend.prepare(metric, values, rows, columns, monitor)
        })
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        self.run(monitor, |backend| backend.search(space, monitor, task))
    }

    fn link(
        &self,
        origin: Origin,
        recurrence: Recurrence,
        sizes: Vec<f64>,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        self.run(monitor, |backend| {
            backend.link(origin, recurrence, sizes.clone(), monitor)
        })
    }

    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.run(monitor, |backend| {
            backend.distances(points, pairs, out, monitor)
        })
    }

    fn kmeans(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        self.run(monitor, |backend| {
            backend.kmeans(x, start, iterations, monitor)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::neighbours::{Nearest, Request};
    use super::*;
    use crate::linkage::{geometric, spanning};
    use crate::mahalanobis::{cluster, workload, Options, Subthreshold};
    use crate::{kmeans, knn};

    /// A device that is lost in the middle of the work.
    struct Lost(Error);

    impl Backend for Lost {
        fn name(&self) -> &'static str {
            "lost"
        }

        fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
            work();
        }

        fn agglomerate(&self, _: &[Problem<'_>], _: &Monitor) -> Result<Vec<Vec<Merge>>> {
            Err(self.0.clone())
        }

        fn prepare(&self, _: Metric, _: &[f64], _: usize, _: usize, _: &Monitor) -> Result<Points> {
            Err(self.0.clone())
        }

        fn search(&self, _: Space<'_>, _: &Monitor, _: &mut Task<'_>) -> Result<()> {
            Err(self.0.clone())
        }

        fn link(&self, _: Origin, _: Recurrence, _: Vec<f64>, _: &Monitor) -> Result<Vec<Merge>> {
            Err(self.0.clone())
        }

        fn distances(&self, _: &Points, _: &Pairs, _: &mut [f64], _: &Monitor) -> Result<()> {
            Err(self.0.clone())
        }

        fn kmeans(&self, _: &Matrix, _: Start, _: usize, _: &Monitor) -> Result<Assigned> {
            Err(self.0.clone())
        }
    }

    #[test]
    fn a_lost_device_is_stood_in_for_and_an_interrupt_is_not() {
        let values = (0..60).map(|i| f64::from(i * i % 17)).collect();
        let x = Matrix::from_row_major(values, 20, 3).unwrap();
        let options = Options {
            threshold: 5.0,
            subthreshold: Subthreshold::Mahal,
            quick: false,
            normalize: false,
            apriori_intra: true,
        };
        let run = |backend: &dyn Backend| cluster(&x, None, &options, backend, &Monitor::default());
        let cpu = || cpu::Cpu::new(1).unwrap();
        let expected = run(&cpu());
        for error in [Error::Device("gone".into()), Error::Memory("full".into())] {
            let backend = Fallback::new(Lost(error), cpu());
            assert_eq!(backend.name(), "lost");
            assert_eq!(run(&backend), expected);
            assert_eq!(backend.name(), "cpu");
        }
        let interrupted = Fallback::new(Lost(Error::Interrupt), cpu());
        assert_eq!(run(&interrupted), Err(Error::Interrupt));
    }

    /// A device that is lost after its first answer.
    struct LostInTheMiddle(cpu::Cpu);

    struct OneAnswer<'a> {
        neighbours: &'a mut dyn Neighbours,
        answered: bool,
    }

    impl Neighbours for OneAnswer<'_> {
        fn nearest(&mut self, request: &Request<'_>) -> Result<Nearest> {
            if std::mem::replace(&mut self.answered, true) {
                return Err(Error::Device("gone".into()));
            }
            self.neighbours.nearest(request)
        }

        fn distances(&mut self, pairs: &[(u32, u32)]) -> Result<Vec<f64>> {
            self.neighbours.distances(pairs)
        }

        fn merge(&mut self, lower: u32, higher: u32) -> Result<()> {
            self.neighbours.merge(lower, higher)
        }

        fn batch(&self) -> usize {
            7
        }
    }

    impl Backend for LostInTheMiddle {
        fn name(&self) -> &'static str {
            "lost"
        }

        fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
            work();
        }

        fn agglomerate(&self, _: &[Problem<'_>], _: &Monitor) -> Result<Vec<Vec<Merge>>> {
            unreachable!("searches only")
        }

        fn prepare(&self, _: Metric, _: &[f64], _: usize, _: usize, _: &Monitor) -> Result<Points> {
            unreachable!("searches only")
        }

        fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
            self.0.search(space, monitor, &mut |neighbours| {
                task(&mut OneAnswer {
                    neighbours,
                    answered: false,
                })
            })
        }

        fn link(&self, _: Origin, _: Recurrence, _: Vec<f64>, _: &Monitor) -> Result<Vec<Merge>> {
            unreachable!("searches only")
        }

        fn distances(&self, _: &Points, _: &Pairs, _: &mut [f64], _: &Monitor) -> Result<()> {
            unreachable!("searches only")
        }

        fn kmeans(&self, _: &Matrix, _: Start, _: usize, _: &Monitor) -> Result<Assigned> {
            unreachable!("searches only")
        }
    }

    #[test]
    fn a_search_goes_on_where_a_device_is_lost_in_the_middle_of_it() {
        let values = (0..90).map(|i| f64::from(i * i % 53)).collect();
        let x = Matrix::from_row_major(values, 30, 3).unwrap();
        let points = Points::new(Metric::Euclidean, &x);
        let monitor = Monitor::default();
        let cpu = || cpu::Cpu::new(1).unwrap();
        let lost = || Fallback::new(LostInTheMiddle(cpu()), cpu());
        let graph = |backend: &dyn Backend| knn::nearest(&points, 30, 4, backend, &monitor);
        assert_eq!(graph(&lost()), graph(&cpu()));
        let tree = |backend: &dyn Backend| spanning::tree(&points, backend, &monitor);
        assert_eq!(tree(&lost()), tree(&cpu()));
        let ward = |backend: &dyn Backend| geometric::ward(&x, backend, &monitor);
        assert_eq!(ward(&lost()), ward(&cpu()));
        let backend = lost();
        assert!(graph(&backend).is_ok());
        assert_eq!(backend.name(), "cpu");
    }

    #[test]
    fn distances_are_stood_in_for_as_well() {
        let values = [0.0, 1.0, 3.0, 6.0];
        let distances = |backend: &dyn Backend| {
            let monitor = Monitor::default();
            let points = backend.prepare(Metric::Manhattan, &values, 4, 1, &monitor)?;
            let mut out = vec![0.0; 6];
            let pairs = Pairs::within(4);
            backend.distances(&points, &pairs, &mut out, &monitor)?;
            Ok(out)
        };
        let cpu = || cpu::Cpu::new(1).unwrap();
        let backend = Fallback::new(Lost(Error::Memory("full".into())), cpu());
        assert_eq!(distances(&backend), Ok(vec![1.0, 3.0, 6.0, 2.0, 5.0, 3.0]));
        assert_eq!(backend.name(), "cpu");
        let interrupted = Fallback::new(Lost(Error::Interrupt), cpu());
        assert_eq!(distances(&interrupted), Err(Error::Interrupt));
    }

    #[test]
    fn k_means_is_stood_in_for_as_well() {
        let values = (0..60).map(|i| f64::from(i * i % 17)).collect();
        let x = Matrix::from_row_major(values, 20, 3).unwrap();
        let partition = |backend: &dyn Backend| {
            kmeans::cluster(&x, Start::Draws(&[0.5; 4]), 9, backend, &Monitor::default())
        };
        let cpu = || cpu::Cpu::new(1).unwrap();
        let backend = Fallback::new(Lost(Error::Device("gone".into())), cpu());
        assert_eq!(partition(&backend), partition(&cpu()));
        assert_eq!(backend.name(), "cpu");
    }

    #[test]
    fn an_unknown_backend_is_refused() {
        let choice = Choice {
            backend: "gpu",
            threads: 1,
            devices: None,
        };
        let work = workload(10, None);
        assert!(matches!(select(&choice, &work), Err(Error::Input(_))));
    }
}
