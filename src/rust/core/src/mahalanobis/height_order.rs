//! The order of the merges of several clusters by height.

use rayon::prelude::*;

use crate::error::Result;
use crate::memory;
use crate::merge::Merge;
use crate::order_key::order_key;
use crate::tasks::pieces;

/// The sort key of a merge, from the highest bits to the lowest: the key of the greatest height so
/// far in its cluster, the cluster, and the number of the merge in the cluster.
type SortKey = u128;

/// Number of ranges of heights, enough for many threads, that are sorted by themselves.
const RANGES: usize = 256;

/// The cluster of each merge and its number there, in the order of heights. A merge below an
/// earlier merge of its cluster directly follows that merge. Of equal heights, the smaller cluster
/// comes first. Works on the threads of the calling pool.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn height_order(clusters: &[Vec<Merge>]) -> Result<Vec<(u32, u32)>> {
    let starts = starts_of_ranges(clusters);
    let (count, threads) = (clusters.len(), rayon::current_num_threads());
    let at_a_time = count.div_ceil(4 * threads).max(1);
    let chunks = clusters.par_chunks(at_a_time).enumerate();
    let in_ranges = chunks.map(|(number, chunk)| {
        let first = (number * at_a_time) as u32;
        let all = || chunk.iter().zip(first..).flat_map(sort_keys);
        let mut counts = [0; RANGES];
        let mut ranges = Ranges::new(&starts);
        all().for_each(|key| counts[ranges.range_of(key)] += 1);
        let rooms = counts.map(|count| memory::room(memory::COPY_OF_OBSERVATIONS, count));
        let mut keys: Vec<Vec<SortKey>> = rooms.into_iter().collect::<Result<_>>()?;
        all().for_each(|key| keys[ranges.range_of(key)].push(key));
        Ok(keys)
    });
    let in_ranges: Vec<Vec<Vec<SortKey>>> = in_ranges.collect::<Result<_>>()?;
    let all = clusters.iter().map(Vec::len).sum();
    let mut order = memory::zeros(memory::COPY_OF_OBSERVATIONS, all)?;
    let count = |range: usize| in_ranges.iter().map(|keys| keys[range].len()).sum();
    let of_ranges: Vec<_> = pieces(&mut order, (0..RANGES).map(count)).collect();
    let sort = |(range, order): (usize, &mut [(u32, u32)])| {
        let mut keys = memory::room(memory::COPY_OF_OBSERVATIONS, order.len())?;
        for of_chunk in &in_ranges {
            keys.extend_from_slice(&of_chunk[range]);
        }
        keys.sort_unstable();
        for (place, key) in order.iter_mut().zip(keys) {
            *place = ((key >> 32) as u32, key as u32);
        }
        Ok(())
    };
    of_ranges.into_par_iter().enumerate().try_for_each(sort)?;
    Ok(order)
}

/// The keys of a cluster's merges, which increase.
fn sort_keys((merges, cluster): (&Vec<Merge>, u32)) -> impl Iterator<Item = SortKey> + '_ {
    let mut greatest = f64::NEG_INFINITY;
    merges.iter().zip(0u32..).map(move |(merge, number)| {
        greatest = greatest.max(merge.height);
        let height = SortKey::from(order_key(greatest));
        height << 64 | SortKey::from(cluster) << 32 | SortKey::from(number)
    })
}

/// The first keys of all ranges but the lowest, by those of a few clusters. The ranges have about
/// the same number of keys.
fn starts_of_ranges(clusters: &[Vec<Merge>]) -> Vec<SortKey> {
    // Numbers of clusters, and of merges of each of them, that are sampled. Only the time depends
    // on them.
    const CLUSTERS: usize = 128;
    const MERGES: usize = 16;
    let step = clusters.len().div_ceil(CLUSTERS).max(1);
    let of_cluster = |(merges, cluster): (&Vec<Merge>, u32)| {
        let every = merges.len().div_ceil(MERGES).max(1);
        let keys = sort_keys((merges, cluster)).step_by(every);
        keys.collect::<Vec<_>>()
    };
    let some = clusters.iter().zip(0..).step_by(step);
    let mut keys: Vec<SortKey> = some.flat_map(of_cluster).collect();
    keys.sort_unstable();
    let every = keys.len().div_ceil(RANGES).max(1);
    keys.into_iter().step_by(every).skip(1).collect()
}

/// Finds the range of each key. The keys of a cluster increase, so the search for a key begins at
/// the range of the key before.
struct Ranges<'a> {
    starts: &'a [SortKey],
    last: usize,
}

impl<'a> Ranges<'a> {
    fn new(starts: &'a [SortKey]) -> Self {
        Self { starts, last: 0 }
    }

    /// The number of the range of a key.
    fn range_of(&mut self, key: SortKey) -> usize {
        let starts = self.starts;
        let from_start = self.last == 0 || starts[self.last - 1] <= key;
        if !from_start || starts.get(self.last).is_some_and(|&next| next <= key) {
            self.last = starts.partition_point(|&start| start <= key);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn merges_of_all_clusters_are_in_the_order_of_heights() {
        let mut random = Random::of(31);
        for clusters in [1, 2, 40, 3_000] {
            let merges = |random: &mut Random| -> Vec<Merge> {
                let count = 1 + random.below(9);
                let merge = |_| Merge {
                    lower: 0,
                    higher: 1,
                    height: random.below(50) as f64 - 1.0,
                };
                (0..count).map(merge).collect()
            };
            let all: Vec<Vec<Merge>> = (0..clusters).map(|_| merges(&mut random)).collect();
            let mut expected = Vec::new();
            for (cluster, merges) in (0..).zip(&all) {
                for number in 0..merges.len() {
                    let heights = merges[..=number].iter().map(|merge| merge.height);
                    let greatest = heights.fold(f64::NEG_INFINITY, f64::max);
                    expected.push((greatest, (cluster, number as u32)));
                }
            }
            expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let expected: Vec<(u32, u32)> = expected.into_iter().map(|each| each.1).collect();
            assert_eq!(height_order(&all).unwrap(), expected);
        }
    }
}
