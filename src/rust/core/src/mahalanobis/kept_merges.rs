//! Merges that are kept until all merges of a clustering are known.

use crate::error::Result;
use crate::memory;
use crate::merge::Merge;

/// First words of a memory error, before the number of bytes.
const MERGES: &str = "the merges of an apriori cluster need";

/// The merges of a cluster. A clustering keeps those of all apriori clusters beside all
/// observations, so they take little memory: 12 bytes each in a cluster of up to 65,536
/// observations, otherwise 16.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptMerges {
    slots: Slots,
    heights: Vec<f64>,
}

/// The lower and the higher slot of each merge.
#[derive(Debug, Clone, PartialEq)]
enum Slots {
    OfSmallCluster(Vec<[u16; 2]>),
    OfLargeCluster(Vec<[u32; 2]>),
}

impl KeptMerges {
    /// The merges that join all observations of a cluster.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn new(merges: Vec<Merge>) -> Result<Self> {
        let slots = merges.iter().map(|merge| [merge.lower, merge.higher]);
        let slots = if merges.len() <= usize::from(u16::MAX) {
            let small = slots.map(|slots| slots.map(|slot| slot as u16));
            Slots::OfSmallCluster(memory::collected(MERGES, small)?)
        } else {
            Slots::OfLargeCluster(memory::collected(MERGES, slots)?)
        };
        let heights = merges.iter().map(|merge| merge.height);
        Ok(Self {
            slots,
            heights: memory::collected(MERGES, heights)?,
        })
    }

    /// The merges.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn to_vec(&self) -> Result<Vec<Merge>> {
        let merge = |(number, &height): (usize, &f64)| {
            let [lower, higher] = match &self.slots {
                Slots::OfSmallCluster(slots) => slots[number].map(u32::from),
                Slots::OfLargeCluster(slots) => slots[number],
            };
            Merge {
                lower,
                higher,
                height,
            }
        };
        memory::collected(MERGES, self.heights.iter().enumerate().map(merge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_of_clusters_of_any_size_come_back() {
        for size in [1, 2, 3, 65_535, 65_536, 65_537, 100_000] {
            let merge = |higher| Merge {
                lower: higher / 2,
                higher,
                height: f64::from(higher) / 3.0,
            };
            let merges: Vec<Merge> = (1..size).map(merge).collect();
            let kept = KeptMerges::new(merges.clone()).unwrap();
            let is_small = matches!(kept.slots, Slots::OfSmallCluster(_));
            assert_eq!(is_small, size <= 65_536, "{size}");
            assert_eq!(kept.to_vec().unwrap(), merges, "{size}");
        }
    }
}
