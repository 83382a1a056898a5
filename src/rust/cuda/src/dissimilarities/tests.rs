//! Runs a plan by a sequential version of the kernels and compares the results with the CPU's, and
//! tests the device's chain.

use std::ops::Range;

use super::launch::{Merging, Rest, Search, Step, NONE, WARP};
use super::matrix::CudaDissimilarities;
use super::memory::memory;
use super::plan::Plan;
use crate::device::Device;
use crate::sender::Sender;
use crate::stored::OnDevice;
use gmhclust_core::linkage::condensed::Stored;
use gmhclust_core::linkage::condensed::{pairs, position};
use gmhclust_core::linkage::cpu::CpuDissimilarities;
use gmhclust_core::linkage::dissimilarities::ContractedMerge;
use gmhclust_core::linkage::dissimilarities::{Contraction, Dissimilarities};
use gmhclust_core::linkage::lance_williams::{Linkage, MergedPair};
use gmhclust_core::linkage::lance_williams::{Recurrence, StoredPrecision};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::testing::Random;
use gmhclust_core::Cpu;

/// A sequential version of the kernels, with a square matrix stored as `T`.
struct Model<T> {
    values: Vec<Vec<T>>,
    squared: bool,
}

impl<T: Stored> Model<T> {
    fn load(&self, i: u32, j: u32, squared: bool) -> f64 {
        let value = self.values[i as usize][j as usize].load();
        if squared {
            value * value
        } else {
            value
        }
    }

    fn store(&mut self, i: u32, j: u32, value: f64) {
        self.values[i as usize][j as usize] = T::store(value);
        self.values[j as usize][i as usize] = T::store(value);
    }

    fn contract(&mut self, contraction: &Contraction) {
        let plan = Plan::new(contraction);
        let union = |step: &Step| MergedPair {
            height: step.height,
            sizes: step.sizes,
        };
        let mut step_of = vec![0; contraction.sizes.len()];
        for batch in &plan.batches {
            for at in batch.clone() {
                step_of[plan.steps[at].lower as usize] = at as u32 + 1;
                step_of[plan.steps[at].higher as usize] = NONE;
            }
            for at in batch.clone() {
                for slot in 0..step_of.len() as u32 {
                    self.merge(contraction, &plan, &step_of, batch, (at, slot), union);
                }
            }
        }
        let left = plan.active.iter().map(|&i| {
            let row = plan.active.iter().map(|&j| {
                let is_old = step_of[i as usize] == 0 && step_of[j as usize] == 0;
                T::store(self.load(i, j, self.squared && is_old))
            });
            row.collect()
        });
        self.values = left.collect();
        self.squared = false;
    }

    fn merge(
        &mut self,
        contraction: &Contraction,
        plan: &Plan,
        step_of: &[u32],
        batch: &Range<usize>,
        (at, slot): (usize, u32),
        union: impl Fn(&Step) -> MergedPair,
    ) {
        let recurrence = contraction.recurrence;
        let step = plan.steps[at];
        let last = step_of[slot as usize];
        if last == NONE || slot == step.lower {
            return;
        }
        let of_parts = |third: u32, merged: bool, size: f64| {
            let plain = self.squared && !merged;
            let first = self.load(step.lower, third, plain && step.merged[0] == 0);
            let second = self.load(step.higher, third, plain && step.merged[1] == 0);
            recurrence.update(&union(&step), first, second, size)
        };
        if last as usize <= batch.start {
            let size = match last {
                0 => contraction.sizes[slot as usize],
                last => union(&plan.steps[last as usize - 1]).size(),
            };
            let updated = of_parts(slot, last > 0, size);
            self.store(step.lower, slot, updated);
        } else if last as usize > at + 1 {
            let later = plan.steps[last as usize - 1];
            let [first, second] = [0, 1].map(|part| {
                let third = [later.lower, later.higher][part];
                of_parts(third, later.merged[part] > 0, later.sizes[part])
            });
            let size = union(&step).size();
            let updated = recurrence.update(&union(&later), first, second, size);
            self.store(step.lower, later.lower, updated);
        }
    }
}

/// Merges of random clusters, in rounds or one by one.
fn fuse(random: &mut Random, sizes: &[f64]) -> Vec<ContractedMerge> {
    let mut sizes = sizes.to_vec();
    let mut live: Vec<u32> = (0..sizes.len() as u32).collect();
    let mut merges = Vec::new();
    while live.len() > 2 && random.below(12) > 0 {
        let a = random.below(live.len());
        let b = (a + 1 + random.below(live.len() - 1)) % live.len();
        let (lower, higher) = (live[a.min(b)], live[a.max(b)]);
        let union = MergedPair {
            height: random.uniform(),
            sizes: [sizes[lower as usize], sizes[higher as usize]],
        };
        sizes[lower as usize] = union.size();
        live.retain(|&slot| slot != higher);
        merges.push(ContractedMerge {
            lower,
            higher,
            pair: union,
        });
    }
    merges
}

fn plans_contract_as_the_cpu_does<T: Stored>(precision: StoredPrecision) {
    let mut random = Random(31);
    for round in 0..300 {
        let n = 3 + random.below(40);
        let linkages = Linkage::ALL
            .into_iter()
            .filter(|linkage| linkage.merges_reciprocal_pairs());
        let linkages: Vec<Linkage> = linkages.collect();
        let recurrence = Recurrence {
            linkage: linkages[round % linkages.len()],
            precision,
        };
        let squared = recurrence.linkage.squares();
        let given: Vec<f64> = (0..pairs(n)).map(|_| 1.0 + random.uniform()).collect();
        let at = |i: usize, j: usize| {
            T::store(if i == j {
                0.0
            } else {
                given[position(n, i, j)]
            })
        };
        let mut model = Model {
            values: (0..n).map(|i| (0..n).map(|j| at(i, j)).collect()).collect(),
            squared,
        };
        let mut cpu = CpuDissimilarities::<T>::given(&given, n, squared);
        let mut sizes: Vec<f64> = (0..n).map(|_| 1.0 + random.below(5) as f64).collect();
        // Values are squares only the first time.
        for time in 0..2 {
            let merges = fuse(&mut random, &sizes);
            let contraction = Contraction {
                recurrence,
                sizes: &sizes,
                merges: &merges,
            };
            model.contract(&contraction);
            cpu.contract(&contraction, &[], &Monitor::default())
                .unwrap();
            let left = model.values.len();
            assert_eq!(left, sizes.len() - merges.len());
            let all = (0..left as u32).flat_map(|j| (0..j).map(move |i| (i, j)));
            let all: Vec<(u32, u32)> = all.collect();
            let found: Vec<f64> = all.iter().map(|&(i, j)| model.load(i, j, false)).collect();
            assert_eq!(
                found,
                cpu.entries(&all).unwrap(),
                "{recurrence:?}, {n}, {time}"
            );
            let Plan { active, .. } = Plan::new(&contraction);
            for merge in &merges {
                sizes[merge.lower as usize] = merge.pair.size();
            }
            sizes = active.iter().map(|&slot| sizes[slot as usize]).collect();
        }
    }
}

fn compare_chains_with_the_gpu<T: OnDevice>(precision: StoredPrecision, numbers: &[usize]) {
    let device = Device::shared(0).unwrap();
    let cpu = Cpu::new(2).unwrap();
    let monitor = Monitor::default();
    let mut random = Random(32);
    for (round, &n) in numbers.iter().enumerate() {
        let given: Vec<f64> = match round % 3 {
            0 => (0..pairs(n)).map(|_| random.below(3) as f64).collect(),
            _ => (0..pairs(n)).map(|_| 1.0 + random.uniform()).collect(),
        };
        let sizes: Vec<f64> = (0..n).map(|_| 1.0 + random.below(5) as f64).collect();
        for linkage in Linkage::ALL
            .into_iter()
            .filter(|linkage| linkage.merges_reciprocal_pairs())
        {
            let recurrence = Recurrence { linkage, precision };
            let squared = linkage.squares();
            let mut there = CudaDissimilarities::<T>::new(&device, n, squared).unwrap();
            let mut sender = Sender::with_buffers(&device, given.len(), 1, 1000, &cpu).unwrap();
            sender
                .send(there.values_mut(), 0, &given, &cpu, &monitor)
                .unwrap();
            let mut here = CpuDissimilarities::<T>::given(&given, n, squared);
            let chain = |matrix: &mut dyn Dissimilarities| {
                let nothing = Contraction {
                    recurrence,
                    sizes: &sizes,
                    merges: &[],
                };
                matrix.contract(&nothing, &[], &monitor).unwrap();
                matrix.chain(recurrence, &sizes, &monitor).unwrap()
            };
            assert!(chain(&mut there) == chain(&mut here), "{recurrence:?}, {n}");
        }
    }
}

#[test]
fn arguments_are_laid_out_as_the_kernels_read_them() {
    use crate::arguments::{check, constants};

    let mut constants = constants![WARP, NONE].to_vec();
    constants.extend([
        ("WARD_D", Linkage::WardD as u64),
        ("SINGLE", Linkage::Single as u64),
        ("COMPLETE", Linkage::Complete as u64),
        ("AVERAGE", Linkage::Average as u64),
        ("MCQUITTY", Linkage::Mcquitty as u64),
        ("MEDIAN", Linkage::Median as u64),
        ("CENTROID", Linkage::Centroid as u64),
        ("WARD_D2", Linkage::WardD2 as u64),
    ]);
    for stored in ["STORED=double", "STORED=float"] {
        let structs = [
            Search::layout(),
            Step::layout(),
            Merging::layout(),
            Rest::layout(),
        ];
        check(
            "dissimilarities/launch.cuh",
            &[stored],
            &structs,
            &constants,
        );
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_gpu_links_by_chains_as_the_cpu_does() {
    let numbers = [40, 41, 513, 1100, 100, 2000, 30];
    compare_chains_with_the_gpu::<f64>(StoredPrecision::Double, &numbers);
    compare_chains_with_the_gpu::<f32>(StoredPrecision::Single, &numbers);
}

#[test]
#[ignore = "needs an NVIDIA GPU; small, for compute-sanitizer"]
fn the_gpu_links_by_chains_as_the_cpu_does_on_small_data() {
    compare_chains_with_the_gpu::<f64>(StoredPrecision::Double, &[50]);
    compare_chains_with_the_gpu::<f32>(StoredPrecision::Single, &[50]);
}

#[test]
fn batches_of_steps_contract_as_the_cpu_does() {
    plans_contract_as_the_cpu_does::<f64>(StoredPrecision::Double);
    plans_contract_as_the_cpu_does::<f32>(StoredPrecision::Single);
}

#[test]
fn batches_have_no_slot_twice_and_are_as_long_as_can_be() {
    let merge = |lower, higher| ContractedMerge {
        lower,
        higher,
        pair: MergedPair {
            height: 1.0,
            sizes: [1.0, 1.0],
        },
    };
    let merges = [
        merge(0, 5),
        merge(2, 3),
        merge(1, 4),
        merge(0, 2),
        merge(1, 6),
        merge(0, 7),
    ];
    let plan = Plan::new(&Contraction {
        recurrence: Recurrence {
            linkage: Linkage::Average,
            precision: StoredPrecision::Double,
        },
        sizes: &[1.0; 9],
        merges: &merges,
    });
    assert_eq!(plan.batches, [0..3, 3..5, 5..6]);
    assert_eq!(plan.active, [0, 1, 8]);
    let merged: Vec<[u32; 2]> = plan.steps.iter().map(|step| step.merged).collect();
    assert_eq!(merged, [[0, 0], [0, 0], [0, 0], [1, 1], [1, 0], [1, 0]]);
}

#[test]
fn memory_is_that_of_a_matrix_and_little_more() {
    let matrix = pairs(100_000) * 8;
    let needed = memory::<f64>(100_000, 64 * 100_000);
    assert!(
        needed > matrix && (needed as f64) < 1.08 * matrix as f64,
        "{needed}"
    );
    let single = memory::<f32>(140_000, 64 * 140_000);
    assert!((single as f64) < 1.14 * matrix as f64, "{single}");
    assert!(memory::<f64>(2, 2) < 1000);
}
