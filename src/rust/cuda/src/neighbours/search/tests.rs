//! Compares searches on test doubles of devices with the CPU's, and tests the rounding errors of
//! tensor cores on difficult sums.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};

use super::super::layout::{first_beyond, row_len, NO_GROUP, SCALARS};
use super::super::sweeper::{ReferenceGroups, Swept, SweptCandidates};
use super::super::work_queue::Worker;
use super::*;
use gmhclust_core::knn;
use gmhclust_core::linkage::{geometric, spanning};
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::neighbours::single::{coordinate_of_half, Scalars};
use gmhclust_core::neighbours::{Exclusion, NeighbourDevice};
use gmhclust_core::testing::{
    cloud, correlations, dist_metrics, draw, observations, sum, Data, Random,
};
use gmhclust_core::Cpu;

/// A test double of a device. It sweeps on the host.
struct Fake {
    frame: RowFrame,
    /// The rows, by position. The sweepers of a device share the rows.
    rows: Arc<RwLock<Vec<f32>>>,
    most_queries: usize,
    device: usize,
    /// The number of the sweep that fails.
    fails_at: Option<usize>,
    /// The number of sweeps so far, by all sweepers that share references.
    sweeps: Arc<AtomicUsize>,
    /// The devices that have failed.
    failed: Arc<Mutex<BTreeSet<usize>>>,
}

impl Fake {
    fn new(
        device: usize,
        frame: &RowFrame,
        rows: &Rows,
        most_queries: usize,
        fails_at: Option<usize>,
    ) -> Self {
        Self {
            frame: frame.clone(),
            rows: Arc::new(RwLock::new(rows.between(0..rows.count()).to_vec())),
            most_queries,
            device,
            fails_at,
            sweeps: Arc::default(),
            failed: Arc::default(),
        }
    }

    /// The error of a device that has failed.
    fn gone(device: usize) -> Error {
        Error::Device(format!("device {device} is gone"))
    }

    /// The coordinates and scalars of the row at a position.
    fn row(&self, position: usize) -> (Vec<f32>, Vec<f32>) {
        let row_len = row_len(&self.frame);
        let rows = self.rows.read().unwrap();
        let row = &rows[position * row_len..][..row_len];
        let (coordinates, scalars) = row.split_at(row_len - SCALARS);
        let coordinates = match self.frame.precision() {
            ViewPrecision::Single => coordinates.to_vec(),
            ViewPrecision::Half => {
                let bits = coordinates.iter().map(|number| number.to_bits());
                bits.flat_map(|bits| [bits as u16, (bits >> 16) as u16])
                    .map(coordinate_of_half)
                    .collect()
            }
        };
        (coordinates, scalars.to_vec())
    }

    /// The lower bound on the distance of a query and a reference. `None` if the reference was
    /// merged away.
    fn bound(&self, query: &Scalars, position: usize, reference: usize) -> Option<f32> {
        let (coordinates, scalars) = self.row(reference);
        let [error, factor, half, allowance] = scalars[..] else {
            unreachable!("a row has {SCALARS} scalars");
        };
        let sum = sum(self.frame.sums(), &self.row(position).0, &coordinates);
        (!allowance.is_nan()).then(|| self.frame.bound(sum, query, error, factor, half))
    }
}

impl Worker for Fake {
    fn device(&self) -> usize {
        self.device
    }
}

impl Sweeper for Fake {
    fn sweep(
        &mut self,
        positions: &Positions,
        request: &NeighbourRequest,
        capacity: usize,
        groups: &ReferenceGroups,
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept> {
        monitor.check()?;
        let sweeps = 1 + self.sweeps.fetch_add(1, Ordering::Relaxed);
        if self.fails_at.is_some_and(|at| sweeps >= at) {
            self.failed.lock().unwrap().insert(self.device);
            return Err(Self::gone(self.device));
        }
        assert!(batch.len() <= self.most_queries);
        let mut swept = SweptCandidates {
            capacity,
            room: room(capacity),
            counts: Vec::new(),
            floors: Vec::new(),
            keys: Vec::new(),
        };
        for at in batch {
            let query = request.queries[at];
            let position = positions.positions[query as usize] as usize;
            let own = match request.exclusion {
                Exclusion::Nothing => NO_GROUP,
                exclusion => group(exclusion, query),
            };
            let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
            let beyond = first_beyond(self.frame.limit(limit));
            let key = |reference: usize| {
                let bound = self.bound(&positions.scalars[position], position, reference)?;
                Some(u64::from(bound.to_bits()) << 32 | reference as u64)
            };
            let mut keys: Vec<u64> = (0..positions.references)
                .filter(|&reference| groups.values[reference] != own)
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
            // Sometimes there are more candidates than room.
            let is_full = at % 7 == 3;
            swept
                .counts
                .push(if is_full { u32::MAX } else { kept as u32 });
        }
        Ok(Swept::SweptCandidates(swept))
    }

    fn exact_rows(&self) -> Option<Arc<ExactRows>> {
        None
    }

    fn share(&mut self) -> Result<Option<Self>> {
        Ok((self.most_queries > 20).then(|| Self {
            frame: self.frame.clone(),
            rows: self.rows.clone(),
            sweeps: self.sweeps.clone(),
            failed: self.failed.clone(),
            ..*self
        }))
    }

    fn most_queries(&self, _: usize) -> usize {
        self.most_queries
    }

    fn fewest_queries(&self) -> usize {
        1
    }

    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()> {
        let row_len = row_len(&self.frame);
        let mut own = self.rows.write().unwrap();
        for (row, &position) in rows.chunks_exact(row_len).zip(positions) {
            own[position as usize * row_len..][..row_len].copy_from_slice(row);
        }
        Ok(())
    }

    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()> {
        self.rows = Arc::new(RwLock::new(rows.between(0..rows.count()).to_vec()));
        Ok(())
    }
}

/// A machine with devices. Each device sweeps for at most `most_queries` queries at a time.
struct Fakes {
    /// For each device, the number of the first sweep that fails, if any; 0 if the device cannot be
    /// opened.
    fail_at: Vec<Option<usize>>,
    most_queries: usize,
    cpu: Cpu,
    /// The devices that have failed so far.
    failed: Arc<Mutex<BTreeSet<usize>>>,
}

impl Fakes {
    fn new(fail_at: Vec<Option<usize>>, most_queries: usize) -> Self {
        Self {
            fail_at,
            most_queries,
            cpu: Cpu::new(2).unwrap(),
            failed: Arc::default(),
        }
    }

    /// A machine with devices that do not fail.
    fn good(devices: usize, most_queries: usize) -> Self {
        Self::new(vec![None; devices], most_queries)
    }

    /// A search on these devices.
    fn neighbours<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Option<CudaNeighbours<'a, Fake>>> {
        let make = |device, frame: &RowFrame, rows: &Arc<Rows>, _: &Positions| {
            let fails_at = self.fail_at[device];
            if fails_at == Some(0) {
                self.failed.lock().unwrap().insert(device);
                return Err(Fake::gone(device));
            }
            let mut one = Fake::new(device, frame, rows, self.most_queries, fails_at);
            one.failed = self.failed.clone();
            let second = one.share()?;
            Ok([Some(one), second].into_iter().flatten().collect())
        };
        let devices = (0..self.fail_at.len()).collect();
        // Some searches copy changed clusters only, and some copy all clusters.
        let thresholds = GpuThresholds {
            sweeps_per_copy: 8,
            ..GpuThresholds::default()
        };
        let cpu = &self.cpu;
        CudaNeighbours::on(
            cpu,
            space,
            &thresholds,
            true,
            monitor,
            devices,
            Box::new(make),
        )
    }
}

impl gmhclust_core::Device for Fakes {
    fn name(&self) -> &'static str {
        "fakes"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl NeighbourDevice for Fakes {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        Ok(match self.neighbours(space, monitor)? {
            Some(fakes) => Box::new(fakes),
            None => Box::new(CpuNeighbours::new(space, monitor)?),
        })
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
        let fakes = Fakes::good(1 + round % 4, 1 + random.below(90));
        let case = format!("{round}: {metric:?}, {n}, {references}, k = {k}");
        let graph =
            |device: &dyn NeighbourDevice| knn::nearest(&points, references, k, device, &monitor);
        assert!(graph(&fakes) == graph(&cpu), "{case}");
        let tree = |device: &dyn NeighbourDevice| spanning::tree(&points, device, &monitor);
        assert!(tree(&fakes) == tree(&cpu), "{case}");
        let ward = |device: &dyn NeighbourDevice| geometric::ward(&x, device, &monitor);
        assert!(ward(&fakes) == ward(&cpu), "{case}");
        if geometric::has_means(&metric) && points.constant().is_empty() {
            let average =
                |device: &dyn NeighbourDevice| geometric::average(points.clone(), device, &monitor);
            assert!(average(&fakes) == average(&cpu), "{case}");
        }
    }
}

/// 400 points to search.
fn points_of_400(metric: Metric) -> Points {
    Points::new(metric, &draw(&mut Random(3), Data::Mixture, 400, 9))
}

#[test]
fn where_all_devices_fail_the_search_ends_and_what_came_before_is_right() {
    let points = points_of_400(Metric::Euclidean);
    let space = Space::Points {
        points: &points,
        references: 400,
    };
    let monitor = Monitor::default();
    let queries: Vec<u32> = (0..400).collect();
    let request = NeighbourRequest {
        queries: &queries,
        wanted: 3,
        limits: None,
        exclusion: Exclusion::Itself,
    };
    let expected = CpuNeighbours::new(space, &monitor)
        .unwrap()
        .nearest(&request)
        .unwrap();
    for fails_at in [1, 2, 3] {
        let fakes = Fakes::new(vec![Some(fails_at); 2], 10);
        let mut fakes = fakes.neighbours(space, &monitor).unwrap().unwrap();
        let mut taken = 0;
        let result = fakes.nearest_in_blocks(&request, &mut |nearest| {
            for found in nearest.iter() {
                assert_eq!(found, expected.of(taken));
                taken += 1;
            }
            Ok(())
        });
        assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
        assert!(taken <= 20 * (fails_at - 1), "{taken}");
    }
    let nowhere = Fakes::new(vec![Some(0); 2], 10);
    let nowhere = nowhere.neighbours(space, &monitor).err();
    assert_eq!(nowhere, Some(Fake::gone(1)));
    assert!(monitor.warnings().is_empty());
}

#[test]
fn the_others_go_on_where_a_device_fails_and_the_monitor_learns_of_it() {
    let cpu = Cpu::new(2).unwrap();
    for metric in [Metric::Euclidean, Metric::Manhattan] {
        let points = points_of_400(metric);
        let expected = knn::nearest(&points, 400, 4, &cpu, &Monitor::default());
        let expected_tree = spanning::tree(&points, &cpu, &Monitor::default());
        // With one sweeper for each device and with two. The device fails when it is opened, in the
        // first sweep, in the middle, or about the last sweep.
        for most_queries in [10, 30] {
            for at in [0, 1, 4, 400 / most_queries / 3, 400 / most_queries] {
                for fail_at in [
                    vec![Some(at), None],
                    vec![None, Some(at), Some(at)],
                    vec![Some(at), None, Some(at + 1)],
                ] {
                    let case = format!("{metric:?}, {most_queries}, {fail_at:?}");
                    let fakes = Fakes::new(fail_at.clone(), most_queries);
                    let monitor = Monitor::default();
                    let found = knn::nearest(&points, 400, 4, &fakes, &monitor);
                    assert_eq!(found, expected, "{case}");
                    let tree = spanning::tree(&points, &fakes, &monitor);
                    assert_eq!(tree, expected_tree, "{case}");
                    let warnings = monitor.warnings();
                    for (device, at) in fail_at.into_iter().enumerate() {
                        let text = format!(
                            "device {device} is gone; the other devices did its part of the work"
                        );
                        let warned = warnings.contains(&text);
                        // The other devices may have finished before the sweep that fails.
                        let failed = fakes.failed.lock().unwrap().contains(&device);
                        assert_eq!(warned, failed, "{case}");
                        assert!(at != Some(0) || failed, "{case}");
                    }
                }
            }
        }
        // If the only device fails, no other device can continue.
        let only = Fakes::new(vec![Some(2)], 30);
        let monitor = Monitor::default();
        let found = knn::nearest(&points, 400, 4, &only, &monitor);
        assert_eq!(found, Err(Fake::gone(0)));
        assert!(monitor.warnings().is_empty());
    }
}

#[test]
fn an_interrupt_is_no_devices_failure() {
    let points = points_of_400(Metric::Euclidean);
    let monitor = Monitor::default();
    monitor.stop();
    let found = knn::nearest(&points, 400, 4, &Fakes::good(3, 10), &monitor);
    assert_eq!(found, Err(Error::Interrupt));
}

#[test]
fn the_cpu_goes_on_where_all_devices_fail() {
    let points = points_of_400(Metric::Manhattan);
    let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
    let expected = knn::nearest(&points, 400, 4, &cpu, &monitor).unwrap();
    for fails_at in [0, 1, 4] {
        let lost = Fakes::new(vec![Some(fails_at); 3], 10);
        let mut search = knn::Search::new(&points, 400, 4, &cpu).unwrap();
        let failed = search.run(&lost, &monitor);
        assert!(matches!(failed, Err(Error::Device(_))), "{failed:?}");
        search.run(&cpu, &monitor).unwrap();
        assert_eq!(search.into_graph(), expected);
        let failed = spanning::tree(&points, &lost, &monitor).err();
        assert!(matches!(failed, Some(Error::Device(_))), "{failed:?}");
    }
}

#[test]
fn a_search_without_memory_for_a_query_says_so() {
    let x = draw(&mut Random(3), Data::Plain, 50, 5);
    let points = Points::new(Metric::Euclidean, &x);
    let fakes = Fakes::good(1, 0);
    let error = knn::nearest(&points, 50, 3, &fakes, &Monitor::default()).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
}

/// Rows of data whose sums of products easily lose digits.
fn adversarial(random: &mut Random, sort: usize, n: usize, p: usize) -> Vec<f64> {
    let mut values = vec![1.0; n * p];
    for (i, row) in values.chunks_mut(p).enumerate() {
        for (k, value) in row.iter_mut().enumerate() {
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            *value = match sort {
                // All ones, with a sign that alternates in every second row.
                0 => [1.0, -1.0][k % 2 * (i % 2)],
                1 => sign,
                // One huge term, first or elsewhere, among tiny terms that are all truncated in the
                // same way.
                2 if k == 0 => 1.0,
                3 if k == i % p => -1.0,
                2 | 3 => 2f64.powi(-12) * (1.0 - 2f64.powi(-10)),
                // Huge terms that cancel each other, with some digits in between.
                4 if k % 16 < 2 => 1000.0 * [1.0, -1.0][(k + i * (k / 16)) % 2],
                4 => random.uniform(),
                // Terms and sums have few digits in common: each term begins near the last digits
                // of the sum before.
                5 => sign * 2f64.powi(-((k % 24) as i32) / 2) * (1.0 + random.uniform()),
                _ => random.normal(),
            };
        }
    }
    values
}

/// The largest error of the tensor cores' sums of products, as a share of the margin. The
/// references are the negatives of the queries, so that no bound is truncated to 0.
fn share_of_margin(
    random: &mut Random,
    device: &Arc<Device>,
    sort: usize,
    n: usize,
    p: usize,
) -> f64 {
    let queries = adversarial(random, sort, n, p);
    let mut values: Vec<f64> = queries.iter().map(|value| -value).collect();
    values.extend(queries);
    let x = observations(values, 2 * n, p);
    let points = Points::new(Metric::Cosine { absolute: false }, &x);
    let space = Space::Points {
        points: &points,
        references: n,
    };
    let monitor = Monitor::default();
    let devices = std::slice::from_ref(device);
    let thresholds = GpuThresholds::default();
    let cpu = Cpu::new(2).unwrap();
    let neighbours = CudaNeighbours::new(devices, &cpu, space, &thresholds, None, &monitor);
    let mut neighbours = neighbours.unwrap().unwrap();
    let indices: Vec<u32> = (n as u32..2 * n as u32).collect();
    let request = NeighbourRequest {
        queries: &indices,
        wanted: n,
        limits: None,
        exclusion: Exclusion::Nothing,
    };
    let CudaNeighbours {
        sweepers,
        frames,
        positions,
        ..
    } = &mut neighbours;
    let frame = &frames[0];
    assert_eq!(frame.precision(), ViewPrecision::Half);
    let capacity = capacity(frame, &request);
    let groups = ReferenceGroups {
        values: vec![0; n],
        request: 1,
    };
    sweepers[0].leave_decisions_to_the_host();
    let swept = sweepers[0].sweep(positions, &request, capacity, &groups, 0..n, &monitor);
    let Ok(Swept::SweptCandidates(swept)) = swept else {
        unreachable!("the host decides");
    };
    let (_, margin) = frame.margins();
    let view = |index: u32| frame.view(points.row(index as usize), 1.0);
    let mut largest = 0.0f64;
    for (i, &index) in indices.iter().enumerate() {
        let query = view(index);
        assert_eq!(swept.counts[i] as usize, n);
        for &key in &swept.keys[i * swept.capacity..][..n] {
            let reference = positions.indices[key as u32 as usize];
            let bound = f64::from(f32::from_bits((key >> 32) as u32));
            let distance = points.distance(index as usize, reference as usize);
            assert!(bound <= distance, "{sort}, {p}: {bound} above {distance}");
            let reference = view(reference);
            let lost = f64::from(query.scalars.error) + f64::from(reference.scalars.error);
            let sum = bound - 1.0 + margin + lost;
            let pairs = query.values.iter().zip(&reference.values);
            let exact: f64 = pairs.map(|(&a, &b)| -f64::from(a) * f64::from(b)).sum();
            if bound > 0.0 {
                largest = largest.max((sum - exact).abs() / margin);
            }
        }
    }
    assert!(neighbours.nearest(&request).is_ok());
    largest
}

/// Device 0; `None` if it has no tensor cores for products in half precision.
fn device_with_tensor_cores() -> Option<Arc<Device>> {
    let device = Device::shared(0).unwrap();
    let suits = products::suits(&device).unwrap();
    if !suits {
        eprintln!("skipped: this GPU does not use tensor cores");
    }
    suits.then_some(device)
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_adds_up_halves_within_the_margin() {
    let Some(device) = device_with_tensor_cores() else {
        return;
    };
    let mut random = Random(3);
    for p in [8, 16, 31, 64, 295, 1024, 4096] {
        for sort in 0..7 {
            let share = share_of_margin(&mut random, &device, sort, 100, p);
            // The sums of bounds are rounded to single precision, too.
            assert!(
                share < 0.5,
                "sort {sort}, {p} columns: {share} of the margin"
            );
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_adds_up_halves_within_the_margin_on_small_data() {
    let Some(device) = device_with_tensor_cores() else {
        return;
    };
    for (n, p) in [(30, 8), (150, 70), (300, 150)] {
        let share = share_of_margin(&mut Random(4), &device, 5, n, p);
        assert!(share < 0.5, "{p} columns: {share} of the margin");
    }
}
