//! A bitmap of the parts of a piece of memory that are in use.

/// One bit for each of `64 * WORDS` granules, parts of equal size. It makes no allocation, so that
/// an allocator can use it.
#[derive(Debug, Clone)]
pub struct Granules<const WORDS: usize> {
    used: [u64; WORDS],
    /// The end of the last range that was taken, where the next search starts.
    next: usize,
}

impl<const WORDS: usize> Default for Granules<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const WORDS: usize> Granules<WORDS> {
    const COUNT: usize = 64 * WORDS;

    /// No granule is in use.
    pub const fn new() -> Self {
        Self {
            used: [0; WORDS],
            next: 0,
        }
    }

    /// Takes `count` adjacent granules, at least 1; returns the first of them, or `None` if there
    /// are not enough.
    pub fn take(&mut self, count: usize) -> Option<usize> {
        let first = self
            .find(count, self.next)
            .or_else(|| self.find(count, 0))?;
        for granule in first..first + count {
            self.used[granule / 64] |= 1 << (granule % 64);
        }
        self.next = first + count;
        Some(first)
    }

    /// Releases granules that [`Granules::take`] returned.
    pub fn give_back(&mut self, first: usize, count: usize) {
        for granule in first..first + count {
            self.used[granule / 64] &= !(1 << (granule % 64));
        }
    }

    /// The first of `count` adjacent free granules, searched from `start` on.
    fn find(&self, count: usize, start: usize) -> Option<usize> {
        let (mut at, mut free) = (start, 0);
        while at < Self::COUNT && free < count {
            let word = self.used[at / 64];
            // Most words are entirely free or entirely in use.
            let (step, is_free) = match word {
                0 if at % 64 == 0 => (64, true),
                u64::MAX if at % 64 == 0 => (64, false),
                _ => (1, word >> (at % 64) & 1 == 0),
            };
            at += step;
            free = if is_free { free + step } else { 0 };
        }
        // The last word may have more free granules than wanted.
        (free >= count).then(|| at - free)
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::testing::Random;

    use super::*;

    #[test]
    fn taken_granules_do_not_overlap_and_free_ones_are_found() {
        let mut random = Random::of(91);
        let mut refused = 0;
        for _ in 0..20 {
            let mut granules = Granules::<4>::new();
            let mut used = [false; 256];
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for _ in 0..1_000 {
                if random.below(2) == 0 {
                    if taken.is_empty() {
                        continue;
                    }
                    let (first, count) = taken.swap_remove(random.below(taken.len()));
                    granules.give_back(first, count);
                    used[first..first + count].fill(false);
                    continue;
                }
                let most = if random.below(4) == 0 { 130 } else { 6 };
                let count = 1 + random.below(most);
                if let Some(first) = granules.take(count) {
                    let place = &mut used[first..first + count];
                    assert!(place.iter().all(|used| !used));
                    place.fill(true);
                    taken.push((first, count));
                } else {
                    let mut places = used.windows(count);
                    assert!(!places.any(|place| place.iter().all(|used| !used)));
                    refused += 1;
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn all_can_be_taken_at_once_and_no_more() {
        let mut granules = Granules::<4>::new();
        assert_eq!(granules.take(257), None);
        assert_eq!(granules.take(256), Some(0));
        assert_eq!(granules.take(1), None);
        granules.give_back(70, 3);
        assert_eq!(granules.take(4), None);
        assert_eq!(granules.take(3), Some(70));
    }
}
