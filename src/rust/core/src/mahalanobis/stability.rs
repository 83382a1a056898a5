//! The stability of branches: the leaves of the top of a tree, which are apriori clusters and loose
//! observations, are drawn anew many times, each draw is clustered, and sets of leaves are compared
//! with the branches of the new trees (Hennig 2007, doi:10.1016/j.csda.2006.11.025).

use super::agglomerate::work;
use super::apriori::upper_leaf_starts;
use super::arranged::Arranged;
use super::device::AgglomerationDevice;
use super::input::{check, check_labels};
use super::options::Options;
use super::partition::AprioriPartition;
use super::problem::{Problem, RowNumbers, UnionRule};
use crate::agreement::{LeafSets, SomeTree};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::magnitude::check_magnitude;
use crate::memory;
use crate::monitor::Monitor;
use crate::observations::Input;

/// The agreements of sets of leaves with trees of drawn leaves. The work can go on, on another
/// device, after a device failed.
#[derive(Debug)]
pub struct Stability<'a> {
    arranged: Arranged<'a>,
    /// By slot of the top, the first row of its observations; then the number of rows.
    starts: Vec<usize>,
    /// By slot of the top, its leaf.
    leaves: Vec<u32>,
    options: Options,
    /// By draw, the slots of the top in increasing order.
    draws: Vec<Vec<u32>>,
    sets: LeafSets,
    /// By finished draw, the agreement of each set.
    agreements: Vec<Vec<f64>>,
    /// Largest number of draws that are clustered together.
    at_a_time: usize,
    work_announced: bool,
}

impl<'a> Stability<'a> {
    /// Prepares to cluster each of `draws`, sets of leaves from 0, and to compare `sets` with it.
    /// `leaf` is the leaf of each observation, from 1, every number at least once; `None` if each
    /// observation is a leaf. A draw is clustered as [`cluster`](super::cluster()) clusters its
    /// observations above apriori clusters; leaves of one observation are loose.
    ///
    /// # Errors
    /// `Error::Input` if the arguments do not fit each other, and as [`cluster`](super::cluster()).
    pub fn new(
        x: impl Into<Input<'a>>,
        leaf: Option<&[u32]>,
        options: &Options,
        draws: &[Vec<u32>],
        sets: LeafSets,
        cpu: &Cpu,
    ) -> Result<Self> {
        let input = x.into();
        let n = input.dim().0;
        check(input.dim(), None, options)?;
        check_labels(n, leaf.map(<[u32]>::len))?;
        let partition = leaf.map(|leaf| cpu.install(|| AprioriPartition::by_label(leaf)));
        let partition = partition.transpose()?;
        let leaves = match (&partition, leaf) {
            (Some(partition), Some(leaf)) => leaves_of_slots(partition, leaf)?,
            _ => memory::collected(memory::COPY_OF_OBSERVATIONS, 0..n as u32)?,
        };
        let arranged = Arranged::new(input, partition, cpu)?;
        check_magnitude(arranged.x.largest())?;
        let starts = upper_leaf_starts(n, arranged.partition.as_ref())?;
        Ok(Self {
            draws: slots_of_draws(&leaves, draws)?,
            arranged,
            starts,
            leaves,
            options: *options,
            sets,
            agreements: Vec::new(),
            at_a_time: usize::MAX,
            work_announced: false,
        })
    }

    /// Clusters all draws that are not finished yet, on a device, and compares the sets with them.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn run(
        &mut self,
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        if !self.work_announced {
            self.work_announced = true;
            let draws = self.draws.iter();
            monitor.expect(draws.map(|slots| work(slots.len())).sum());
        }
        while self.agreements.len() < self.draws.len() {
            let first = self.agreements.len();
            let some = self.next_batch(device.observations_at_a_time());
            let some = &self.draws[first..first + some];
            match self.trees(some, device, monitor) {
                Ok(trees) => {
                    for tree in trees {
                        let compared = || self.sets.agreements(&tree, monitor);
                        self.agreements.push(device.cpu().install(compared)?);
                    }
                }
                Err(Error::Memory(_)) if some.len() > 1 => self.at_a_time = some.len() / 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Number of draws that are clustered next, with about this many observations at most.
    fn next_batch(&self, most_observations: usize) -> usize {
        let mut observations = 0;
        let left = self.draws[self.agreements.len()..].iter();
        let fitting = left.take_while(|slots| {
            let fits = observations < most_observations;
            observations += slots.iter().map(|&slot| self.size(slot)).sum::<usize>();
            fits
        });
        fitting.count().min(self.at_a_time)
    }

    /// Number of observations of a slot of the top.
    fn size(&self, slot: u32) -> usize {
        self.starts[slot as usize + 1] - self.starts[slot as usize]
    }

    /// The trees of some draws.
    fn trees(
        &self,
        draws: &[Vec<u32>],
        device: &(impl AgglomerationDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<Vec<SomeTree>> {
        let problems = draws.iter().filter(|slots| slots.len() > 1);
        let problems = problems.map(|slots| self.problem(slots));
        let problems = problems.collect::<Result<Vec<_>>>()?;
        let mut merges = device.agglomerate(&problems, monitor)?.into_iter();
        let tree = |slots: &Vec<u32>| SomeTree {
            leaves: slots
                .iter()
                .map(|&slot| self.leaves[slot as usize])
                .collect(),
            merges: match slots.len() {
                0 | 1 => Vec::new(),
                _ => merges.next().expect("each problem has merges"),
            },
        };
        Ok(draws.iter().map(tree).collect())
    }

    /// The problem of a draw.
    fn problem(&self, slots: &[u32]) -> Result<Problem<'_>> {
        let sizes = slots.iter().map(|&slot| self.size(slot));
        let mut members = memory::room(memory::COPY_OF_OBSERVATIONS, sizes.sum())?;
        let mut starts = memory::room(memory::COPY_OF_OBSERVATIONS, slots.len() + 1)?;
        starts.push(0);
        for &slot in slots {
            let rows = self.starts[slot as usize]..self.starts[slot as usize + 1];
            members.extend(rows.map(|row| row as u32));
            starts.push(members.len());
        }
        Ok(Problem {
            x: &self.arranged.x,
            members: RowNumbers::Listed(members),
            starts: Some(starts),
            options: self.options,
            union: UnionRule::Shape,
        })
    }

    /// By draw, the agreement of each set, as [`LeafSets::agreements`].
    pub fn into_agreements(self) -> Vec<Vec<f64>> {
        self.agreements
    }
}

/// The leaf, from 0, of each slot of the top: of each apriori cluster, then of each loose
/// observation.
fn leaves_of_slots(partition: &AprioriPartition, leaf: &[u32]) -> Result<Vec<u32>> {
    let loose = &partition.order()[partition.in_clusters()..];
    let of_loose = loose.iter().map(|&observation| leaf[observation as usize]);
    let labels = partition.labels().iter().copied().chain(of_loose);
    let leaves: Vec<u32> = labels.map(|label| label.wrapping_sub(1)).collect();
    let mut sorted = memory::copied(memory::COPY_OF_OBSERVATIONS, &leaves)?;
    sorted.sort_unstable();
    if sorted.iter().zip(0..).all(|(&leaf, number)| leaf == number) {
        return Ok(leaves);
    }
    Err(Error::Input("the leaves are not numbered 1, 2, ...".into()))
}

/// The slots of the leaves of each draw, in increasing order.
fn slots_of_draws(leaves: &[u32], draws: &[Vec<u32>]) -> Result<Vec<Vec<u32>>> {
    let mut slot_of = memory::zeros::<u32>(memory::COPY_OF_OBSERVATIONS, leaves.len())?;
    for (slot, &leaf) in (0..).zip(leaves) {
        slot_of[leaf as usize] = slot;
    }
    let slots_of = |draw: &Vec<u32>| {
        let mut slots = memory::room(memory::COPY_OF_OBSERVATIONS, draw.len())?;
        for &leaf in draw {
            let slot = slot_of.get(leaf as usize).copied();
            slots.push(slot.ok_or_else(|| Error::Input(format!("there is no leaf {leaf}")))?);
        }
        slots.sort_unstable();
        slots.dedup();
        Ok(slots)
    };
    draws.iter().map(slots_of).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::Axis;

    use super::*;
    use crate::agreement::LeafSet;
    use crate::mahalanobis::{cluster, Distance, Subthreshold};
    use crate::testing::{draw, Data, Random};
    use crate::Observations;

    const OPTIONS: Options = Options {
        threshold: 6.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::FullMahalanobis,
        normalize: false,
        apriori_intra: false,
    };

    fn no_sets(leaves: usize) -> LeafSets {
        let order: Vec<usize> = (0..leaves).collect();
        LeafSets::new(vec![1.0; leaves], &order, Vec::new()).unwrap()
    }

    /// The heights above the leaves of the clustering of some rows.
    fn heights(
        x: &Observations,
        rows: &[usize],
        leaf: Option<&[u32]>,
        options: &Options,
    ) -> Vec<f64> {
        let some = Observations::new(x.view().select(Axis(0), rows)).unwrap();
        let labels = leaf.map(|leaf| rows.iter().map(|&row| leaf[row]).collect::<Vec<u32>>());
        let cpu = Cpu::new(1).unwrap();
        let found = cluster(&some, labels.as_deref(), options, &cpu, &Monitor::default()).unwrap();
        found.dendrogram.height[found.apriori_merges..].to_vec()
    }

    #[test]
    fn a_draw_has_the_tree_of_its_observations() {
        let n = 120;
        let mut random = Random::of(41);
        let x = draw(&mut random, Data::Mixture, n, 3);
        // Some leaves have one observation.
        let labels: Vec<u32> = (0..n as u32)
            .map(|i| 1 + (i * i + i / 3) % 37 % 30)
            .collect();
        let mut used = labels.clone();
        used.sort_unstable();
        used.dedup();
        let rank = |label: &u32| used.binary_search(label).unwrap() as u32 + 1;
        let labels: Vec<u32> = labels.iter().map(rank).collect();
        let cpu = Cpu::new(2).unwrap();
        for distance in Distance::ALL {
            let options = Options {
                distance,
                ..OPTIONS
            };
            for leaf in [None, Some(&labels[..])] {
                let leaves = leaf.map_or(n, |_| used.len());
                let draws: Vec<Vec<u32>> = (0..4)
                    .map(|_| (0..leaves as u32).filter(|_| random.below(3) > 0).collect())
                    .collect();
                let stability =
                    Stability::new(&x, leaf, &options, &draws, no_sets(leaves), &cpu).unwrap();
                let monitor = Monitor::default();
                let trees = stability.trees(&stability.draws, &cpu, &monitor).unwrap();
                for (tree, drawn) in trees.iter().zip(&draws) {
                    let of = |row: usize| leaf.map_or(row as u32, |leaf| leaf[row] - 1);
                    let rows: Vec<usize> = (0..n).filter(|&i| drawn.contains(&of(i))).collect();
                    let found: Vec<f64> = tree.merges.iter().map(|merge| merge.height).collect();
                    assert_eq!(found, heights(&x, &rows, leaf, &options));
                    let mut leaves = tree.leaves.clone();
                    leaves.sort_unstable();
                    assert_eq!(&leaves, drawn);
                }
            }
        }
    }

    #[test]
    fn agreements_do_not_depend_on_threads_and_batches() {
        let n = 90;
        let x = draw(&mut Random::of(43), Data::Mixture, n, 3);
        let mut random = Random::of(47);
        let draws: Vec<Vec<u32>> = (0..9)
            .map(|_| (0..n as u32).filter(|_| random.below(3) > 0).collect())
            .chain([Vec::new(), vec![3]])
            .collect();
        let order: Vec<usize> = (0..n).collect();
        let sets: Vec<LeafSet> = (0..5)
            .map(|i| LeafSet::Branch(10 * i..15 * i + 20))
            .collect();
        let found = |threads, at_a_time| {
            let cpu = Cpu::new(threads).unwrap();
            let sets = LeafSets::new(vec![1.0; n], &order, sets.clone()).unwrap();
            let mut stability = Stability::new(&x, None, &OPTIONS, &draws, sets, &cpu).unwrap();
            stability.at_a_time = at_a_time;
            stability.run(&cpu, &Monitor::default()).unwrap();
            stability.into_agreements()
        };
        let expected = found(1, 100);
        assert_eq!(expected.len(), 11);
        assert!(expected[..9]
            .iter()
            .flatten()
            .all(|value| (0.0..=1.0).contains(value)));
        assert!(expected[9..].iter().flatten().all(|value| value.is_nan()));
        let bits = |all: Vec<Vec<f64>>| -> Vec<u64> {
            all.into_iter().flatten().map(f64::to_bits).collect()
        };
        let expected = bits(expected);
        assert_eq!(bits(found(3, 1)), expected);
        assert_eq!(bits(found(2, 4)), expected);
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused() {
        let x = draw(&mut Random::of(3), Data::Plain, 6, 2);
        let cpu = Cpu::new(1).unwrap();
        let new = |leaf: Option<&[u32]>, draws: &[Vec<u32>]| {
            Stability::new(&x, leaf, &OPTIONS, draws, no_sets(6), &cpu).is_ok()
        };
        assert!(new(None, &[vec![5, 0]]));
        assert!(!new(None, &[vec![6]]));
        assert!(new(Some(&[1, 2, 1, 3, 3, 3]), &[vec![2, 0]]));
        assert!(!new(Some(&[1, 2, 1, 3, 3, 3]), &[vec![3]]));
        assert!(!new(Some(&[1, 2, 1, 4, 4, 4]), &[]));
        assert!(!new(Some(&[0, 2, 1, 3, 3, 3]), &[]));
        assert!(!new(Some(&[1, 2, 1]), &[]));
    }
}
