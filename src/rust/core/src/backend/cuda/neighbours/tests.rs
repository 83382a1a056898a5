//! Searches dealt out to stand-ins for devices, against the CPU's.

use super::searcher::NO_GROUP;
use super::*;
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, Fallback, Merge, Task};
use crate::distances::Pairs;
use crate::knn;
use crate::linkage::lance_williams::Recurrence;
use crate::linkage::matrix::Origin;
use crate::linkage::{geometric, spanning};
use crate::mahalanobis::Problem;
use crate::metric::{Metric, Points};
use crate::testing::{cloud, correlations, dist_metrics, draw, sum, Data, Random};

/// Sweeps as a device does, only that the host does the work.
struct Fake {
    frame: Frame,
    /// By position.
    rows: Vec<f32>,
    most_queries: usize,
    /// The sweep that fails, and those so far.
    fails_at: Option<usize>,
    sweeps: usize,
}

impl Fake {
    fn new(frame: &Frame, rows: &Rows, most_queries: usize) -> Self {
        Self {
            frame: frame.clone(),
            rows: rows.between(0..rows.count()).to_vec(),
            most_queries,
            fails_at: None,
            sweeps: 0,
        }
    }

    fn row(&self, position: usize) -> &[f32] {
        let height = self.frame.columns() + SCALARS;
        &self.rows[position * height..][..height]
    }

    /// The bound of a query and a reference; `None` where the reference is none any more.
    fn bound(&self, query: &Scalars, position: usize, reference: usize) -> Option<f32> {
        let columns = self.frame.columns();
        let (coordinates, scalars) = self.row(reference).split_at(columns);
        let &[error, factor, half, allowance] = scalars else {
            unreachable!("a row has {SCALARS} scalars");
        };
        let sum = sum(
            self.frame.sums(),
            &self.row(position)[..columns],
            coordinates,
        );
        (!allowance.is_nan()).then(|| self.frame.bound(sum, query, error, factor, half))
    }
}

impl Sweeper for Fake {
    fn sweep(
        &mut self,
        copy: &Copy,
        request: &Request,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept> {
        monitor.check()?;
        self.sweeps += 1;
        if self.fails_at == Some(self.sweeps) {
            return Err(Error::Device("gone".into()));
        }
        assert!(batch.len() <= self.most_queries);
        let capacity = CpuNeighbours::capacity(request);
        let mut swept = Swept {
            capacity,
            room: room(capacity),
            counts: Vec::new(),
            floors: Vec::new(),
            keys: Vec::new(),
        };
        for at in batch {
            let query = request.queries[at];
            let position = copy.positions[query as usize] as usize;
            let own = match request.except {
                Except::Nobody => NO_GROUP,
                except => group(except, query),
            };
            let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
            let beyond = first_beyond(self.frame.limit(limit));
            let key = |reference: usize| {
                let bound = self.bound(&copy.scalars[position], position, reference)?;
                Some(u64::from(bound.to_bits()) << 32 | reference as u64)
            };
            let mut keys: Vec<u64> = (0..copy.references)
                .filter(|&reference| groups[reference] != own)
                .filter_map(key)
                .filter(|&key| key < beyond)
                .collect();
            keys.sort_unstable();
            swept
                .floors
                .push(keys.get(capacity).copied().unwrap_or(beyond));
            let kept = keys.len().min(capacity);
            keys.resize(capacity, u64::MAX);
            swept.keys.extend(keys);
            // Now and then more were found than there is room for.
            let is_full = at % 7 == 3;
            swept
                .counts
                .push(if is_full { u32::MAX } else { kept as u32 });
        }
        Ok(swept)
    }

    fn most_queries(&self, _: usize) -> usize {
        self.most_queries
    }

    fn fewest_queries(&self) -> usize {
        1
    }

    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        let height = self.frame.columns() + SCALARS;
        for (row, &position) in rows.chunks_exact(height).zip(positions) {
            self.rows[position as usize * height..][..height].copy_from_slice(row);
        }
        Ok(())
    }

    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()> {
        self.rows = rows.between(0..rows.count()).to_vec();
        Ok(())
    }
}

/// A machine with so many devices, which sweep for so many queries at a time at most.
struct Fakes {
    devices: usize,
    most_queries: usize,
    /// Which sweep of each device fails, if any.
    fails_at: Option<usize>,
}

impl Backend for Fakes {
    fn name(&self) -> &'static str {
        "fakes"
    }

    fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }

    fn agglomerate(&self, _: &[Problem<'_>], _: &Monitor) -> Result<Vec<Vec<Merge>>> {
        unreachable!("searches only")
    }

    fn prepare(&self, _: Metric, _: &[f64], _: usize, _: usize) -> Result<Points> {
        unreachable!("searches only")
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        let fakes = CudaNeighbours::on(space, 0, monitor, |frame, rows, _| {
            let fake = |_| Fake {
                fails_at: self.fails_at,
                ..Fake::new(frame, rows, self.most_queries)
            };
            Ok((0..self.devices).map(fake).collect())
        })?;
        match fakes {
            Some(mut fakes) => task(&mut fakes),
            None => task(&mut CpuNeighbours::new(space, monitor)),
        }
    }

    fn link(&self, _: Origin, _: Recurrence, _: Vec<f64>, _: &Monitor) -> Result<Vec<Merge>> {
        unreachable!("searches only")
    }

    fn distances(&self, _: &Points, _: &Pairs, _: &mut [f64], _: &Monitor) -> Result<()> {
        unreachable!("searches only")
    }
}

#[test]
fn any_number_of_devices_and_any_batches_have_the_bits_of_the_cpu() {
    let mut random = Random(31);
    let monitor = Monitor::default();
    let cpu = Cpu::new(2).unwrap();
    let metrics = [dist_metrics(), correlations()].concat();
    for round in 0..60 {
        let metric = metrics[round % metrics.len()];
        let n = 3 + random.below(200);
        let p = 2 + random.below(30);
        let x = cloud(&mut random, n, p);
        let points = Points::new(metric, &x);
        let references = if round % 3 == 0 {
            n
        } else {
            2 + random.below(n - 2)
        };
        let k = 1 + random.below(references - 1);
        let fakes = Fakes {
            devices: 1 + round % 4,
            most_queries: 1 + random.below(90),
            fails_at: None,
        };
        let case = format!("{round}: {metric:?}, {n}, {references}, k = {k}");
        let graph = |backend: &dyn Backend| knn::nearest(&points, references, k, backend, &monitor);
        assert!(graph(&fakes) == graph(&cpu), "{case}");
        let tree = |backend: &dyn Backend| spanning::tree(&points, backend, &monitor);
        assert!(tree(&fakes) == tree(&cpu), "{case}");
        let ward = |backend: &dyn Backend| geometric::ward(&x, backend, &monitor);
        assert!(ward(&fakes) == ward(&cpu), "{case}");
    }
}

#[test]
fn a_device_that_fails_ends_the_search_and_what_came_before_is_right() {
    let x = draw(&mut Random(3), Data::Mixture, 400, 5);
    let points = Points::new(Metric::Euclidean, &x);
    let space = Space::Points {
        points: &points,
        references: 400,
    };
    let monitor = Monitor::default();
    let queries: Vec<u32> = (0..400).collect();
    let request = Request {
        queries: &queries,
        wanted: 3,
        limits: None,
        except: Except::Itself,
    };
    let expected = CpuNeighbours::new(space, &monitor)
        .nearest(&request)
        .unwrap();
    for fails_at in [1, 2, 3] {
        let mut fakes = CudaNeighbours::on(space, 0, &monitor, |frame, rows, _| {
            let mut fakes: Vec<Fake> = (0..2).map(|_| Fake::new(frame, rows, 10)).collect();
            fakes
                .iter_mut()
                .for_each(|fake| fake.fails_at = Some(fails_at));
            Ok(fakes)
        })
        .unwrap()
        .unwrap();
        let mut taken = 0;
        let result = fakes.nearest_in_blocks(&request, &mut |nearest| {
            for found in nearest.iter() {
                assert_eq!(found, expected.of(taken));
                taken += 1;
            }
            Ok(())
        });
        assert_eq!(result, Err(Error::Device("gone".into())));
        assert!(taken <= 20 * (fails_at - 1), "{taken}");
    }
}

#[test]
fn the_cpu_goes_on_where_a_device_fails() {
    let x = draw(&mut Random(3), Data::Mixture, 400, 5);
    let points = Points::new(Metric::Manhattan, &x);
    let graph = |backend: &dyn Backend| knn::nearest(&points, 400, 4, backend, &Monitor::default());
    let tree = |backend: &dyn Backend| spanning::tree(&points, backend, &Monitor::default());
    let cpu = || Cpu::new(2).unwrap();
    for fails_at in [1, 4] {
        let lost = || {
            let fakes = Fakes {
                devices: 3,
                most_queries: 10,
                fails_at: Some(fails_at),
            };
            Fallback::new(fakes, cpu())
        };
        let backend = lost();
        assert_eq!(graph(&backend), graph(&cpu()));
        assert_eq!(backend.name(), "cpu");
        assert_eq!(tree(&lost()), tree(&cpu()));
    }
}

#[test]
fn a_search_without_memory_for_a_query_says_so() {
    let x = draw(&mut Random(3), Data::Plain, 50, 5);
    let points = Points::new(Metric::Euclidean, &x);
    let fakes = Fakes {
        devices: 1,
        most_queries: 0,
        fails_at: None,
    };
    let error = knn::nearest(&points, 50, 3, &fakes, &Monitor::default()).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
}
