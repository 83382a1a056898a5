//! Random dissimilarities that can shrink.

use crate::linkage::checks::distances;
use crate::linkage::condensed::pairs;
use crate::testing::shrink::{parts, simpler_number, with_each, Shrink, Simpler};
use crate::testing::Random;

/// Dissimilarities of all pairs, and the numbers of members of observations.
#[derive(Debug, Clone)]
pub struct DissimilaritiesCase {
    pub n: usize,
    pub d: Vec<f64>,
    pub sizes: Option<Vec<f64>>,
}

impl DissimilaritiesCase {
    /// Dissimilarities, many of which are equal.
    pub fn tied(random: &mut Random, round: usize) -> Self {
        let n = 2 + random.below(if round < 40 { 150 } else { 500 });
        let d: Vec<f64> = match round % 4 {
            0 => vec![1.0; pairs(n)],
            1 => (0..pairs(n)).map(|_| random.below(4) as f64).collect(),
            _ => {
                let points: Vec<[f64; 3]> = (0..n)
                    .map(|_| [(); 3].map(|()| random.below(4) as f64))
                    .collect();
                distances(&points)
            }
        };
        let sizes = None;
        Self { n, d, sizes }
    }

    /// The case without some observations, or without the numbers of members.
    fn fewer(&self) -> Simpler<Self> {
        let n = self.n;
        let some = parts(n).filter(move |part| n - part.len() >= 2);
        let some = with_each(self, some, |case, part| {
            let rows = (0..case.n).flat_map(|i| (i + 1..case.n).map(move |j| (i, j)));
            let kept = |i: usize, j: usize| !part.contains(&i) && !part.contains(&j);
            let kept = rows.zip(&case.d).filter(|((i, j), _)| kept(*i, *j));
            case.d = kept.map(|(_, &d)| d).collect();
            case.n -= part.len();
            if let Some(sizes) = &mut case.sizes {
                sizes.drain(part);
            }
            assert_eq!(case.d.len(), pairs(case.n));
        });
        let alone = with_each(
            self,
            self.sizes.is_some().then_some(()).into_iter(),
            |case, ()| {
                case.sizes = None;
            },
        );
        Box::new(alone.chain(some))
    }
}

impl Shrink for DissimilaritiesCase {
    fn simpler(&self) -> Simpler<Self> {
        let values = self.d.iter().enumerate();
        let values = values.flat_map(|(at, &d)| simpler_number(d).map(move |other| (at, other)));
        let values: Vec<_> = values.collect();
        let values = with_each(self, values.into_iter(), |case, (at, d)| case.d[at] = d);
        Box::new(self.fewer().chain(values))
    }
}

/// Dissimilarities whose values are not shrunk, since whole numbers have ties.
#[derive(Debug, Clone)]
pub struct UntiedCase(pub DissimilaritiesCase);

impl Shrink for UntiedCase {
    fn simpler(&self) -> Simpler<Self> {
        Box::new(self.0.fewer().map(Self))
    }
}
