//! Random clusterings.

use super::super::checks::{apriori, options};
use super::super::{Distance, Options, Subthreshold};
use crate::observations::Observations;
use crate::testing::rows::Rows;
use crate::testing::shrink::{with_each, Shrink, Simpler};
use crate::testing::{draw, Data, Random};

/// Observations and options; labels are apriori clusters, or all 0 if there are none.
#[derive(Debug, Clone)]
pub struct ClusteringCase {
    pub options: Options,
    /// The seed of the other random choices of a test.
    pub seed: u64,
    pub rows: Rows,
}

impl ClusteringCase {
    pub fn draw(random: &mut Random, data: Data, n: usize, p: usize) -> Self {
        let mut rows = Rows::of(&draw(random, data, n, p));
        let options = options(random, n);
        let labels = apriori(random, n).into_iter().flatten();
        let labelled = rows.rows.iter_mut().zip(labels);
        labelled.for_each(|(row, label)| row.label = label);
        Self {
            options,
            seed: 1 + random.below(1 << 30) as u64,
            rows,
        }
    }

    pub fn observations(&self) -> Observations {
        self.rows.observations()
    }

    /// Apriori labels, if any observation has one.
    pub fn apriori(&self) -> Option<Vec<u32>> {
        let labels = self.rows.labels();
        labels.iter().any(|&label| label > 0).then_some(labels)
    }

    fn simpler_options(&self) -> Simpler<Self> {
        let now = self.options;
        let thresholds = [2.0, 3.0, 5.0, 10.0, now.threshold.trunc()].into_iter();
        let thresholds = thresholds.filter(move |&other| other < now.threshold);
        let first = |kind: &Subthreshold| *kind != now.subthreshold;
        let subthresholds: Vec<_> = Subthreshold::ALL.into_iter().take_while(first).collect();
        let centroid = (now.distance != Distance::Centroid).then_some(Distance::Centroid);
        let plain = (now.normalize || !now.apriori_intra).then_some(());
        let threshold = with_each(self, thresholds, |case, one| case.options.threshold = one);
        let subthreshold = with_each(self, subthresholds.into_iter(), |case, one| {
            case.options.subthreshold = one;
        });
        let distance = with_each(self, centroid.into_iter(), |case, one| {
            case.options.distance = one;
        });
        let plain = with_each(self, plain.into_iter(), |case, ()| {
            (case.options.normalize, case.options.apriori_intra) = (false, true);
        });
        Box::new(plain.chain(distance).chain(subthreshold).chain(threshold))
    }
}

impl Shrink for ClusteringCase {
    fn simpler(&self) -> Simpler<Self> {
        let rows = with_each(self, self.rows.simpler(), |case, rows| case.rows = rows);
        Box::new(rows.chain(self.simpler_options()))
    }
}

/// A clustering whose values are not shrunk, since whole numbers have ties.
#[derive(Debug, Clone)]
pub struct UntiedClustering(pub ClusteringCase);

impl Shrink for UntiedClustering {
    fn simpler(&self) -> Simpler<Self> {
        let rows = with_each(self, self.0.rows.fewer(), |case, rows| case.0.rows = rows);
        let options = self.0.simpler_options();
        Box::new(rows.chain(options.map(Self)))
    }
}
