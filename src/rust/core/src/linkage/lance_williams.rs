//! The linkages, and the dissimilarities of a new cluster by the Lance–Williams recurrence (1967,
//! doi:10.1093/comjnl/9.4.373), as in R's `hclust`.
//!
//! To add a reducible linkage: append a variant to [`Linkage`] and [`Linkage::ALL`], its name to
//! [`Linkage::name`] and its recurrence to [`Linkage::update`]. The default of
//! [`Linkage::lower_bound`] is the update for a third cluster of size 0. If another size can give
//! less, add a bound there: otherwise pairs merge too early. The CPU computes a linkage until a
//! device has a kernel for it.

use crate::error::{Error, Result};

/// The definition of the dissimilarity of two clusters, given the dissimilarities of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// Ward's criterion, on unsquared dissimilarities.
    WardD,
    /// The least dissimilarity of any two members.
    Single,
    /// The greatest dissimilarity of any two members.
    Complete,
    /// The mean dissimilarity over all pairs of members (UPGMA).
    Average,
    /// The mean of the dissimilarities of the two parts, regardless of their sizes (WPGMA).
    Mcquitty,
    /// The dissimilarity of the midpoints (WPGMC).
    Median,
    /// The dissimilarity of the centroids (UPGMC).
    Centroid,
    /// Ward's criterion, on squared dissimilarities; heights are roots.
    WardD2,
}

/// Two clusters that merge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MergedPair {
    /// Their dissimilarity.
    pub height: f64,
    /// Their numbers of observations.
    pub sizes: [f64; 2],
}

impl MergedPair {
    /// Number of observations of their union.
    pub fn size(&self) -> f64 {
        self.sizes[0] + self.sizes[1]
    }
}

impl Linkage {
    /// All linkages, in `hclust`'s order.
    pub const ALL: [Self; 8] = [
        Self::WardD,
        Self::Single,
        Self::Complete,
        Self::Average,
        Self::Mcquitty,
        Self::Median,
        Self::Centroid,
        Self::WardD2,
    ];

    /// Its name in `hclust`.
    pub fn name(self) -> &'static str {
        match self {
            Self::WardD => "ward.D",
            Self::Single => "single",
            Self::Complete => "complete",
            Self::Average => "average",
            Self::Mcquitty => "mcquitty",
            Self::Median => "median",
            Self::Centroid => "centroid",
            Self::WardD2 => "ward.D2",
        }
    }

    /// Parses a [`Linkage::name`].
    ///
    /// # Errors
    /// `Error::Input` for another name.
    pub fn new(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|linkage| linkage.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|linkage| format!("{:?}", linkage.name()));
            Error::Input(format!(
                "`method` is {name:?}; it must be one of {}",
                names.join(", ")
            ))
        })
    }

    /// Whether a union is never nearer to another cluster than the nearer of its parts (Bruynooghe
    /// 1977), so that reciprocal nearest neighbours may merge in any order.
    pub fn is_reducible(self) -> bool {
        !matches!(self, Self::Median | Self::Centroid)
    }

    /// Whether [`reciprocal`](crate::linkage::reciprocal) computes it. Single linkage is reducible
    /// as well, but a spanning tree is faster.
    pub fn merges_reciprocal_pairs(self) -> bool {
        self.is_reducible() && self != Self::Single
    }

    /// Whether the linkage works on squared dissimilarities.
    pub fn squares(self) -> bool {
        self == Self::WardD2
    }

    /// The dissimilarity of the union of `pair` and a third cluster of `size` observations, given
    /// the dissimilarities of the pair's first and second cluster to the third.
    ///
    /// For reducible linkages, the result is never below the smaller of these two, not even by
    /// rounding, if the height of the pair is above neither of them.
    #[inline(always)]
    pub fn update(self, pair: &MergedPair, first: f64, second: f64, size: f64) -> f64 {
        let [a, b] = pair.sizes;
        match self {
            Self::Single => first.min(second),
            Self::Complete => first.max(second),
            Self::Average => ((a * first + b * second) / (a + b)).max(first.min(second)),
            Self::Mcquitty => (first + second) / 2.0,
            Self::WardD | Self::WardD2 => {
                let sum = (a + size) * first + (b + size) * second - size * pair.height;
                (sum / (a + b + size)).max(first.min(second))
            }
            Self::Median => ((first + second) - pair.height / 2.0) / 2.0,
            Self::Centroid => (a * first + b * second - a * b * pair.height / (a + b)) / (a + b),
        }
    }

    /// A lower bound on [`Linkage::update`] of a reducible linkage, for any size of the third
    /// cluster, given lower bounds on the two dissimilarities.
    pub fn lower_bound(self, pair: &MergedPair, first: f64, second: f64) -> f64 {
        // Ward's update is a mean of the values for sizes 0 and ∞, whose weights depend on the
        // size.
        let of_tiny = self.update(pair, first, second, 0.0);
        match self {
            Self::WardD | Self::WardD2 => of_tiny.min(first + second - pair.height),
            _ => of_tiny,
        }
    }
}

/// The precision in which dissimilarities are stored. All arithmetic is in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPrecision {
    Double,
    /// Every dissimilarity is rounded to single precision when it is read or computed.
    Single,
}

impl StoredPrecision {
    /// A dissimilarity as it is stored.
    #[inline(always)]
    pub fn round(self, value: f64) -> f64 {
        match self {
            Self::Double => value,
            Self::Single => f64::from(value as f32),
        }
    }
}

/// A linkage and the precision in which dissimilarities are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    pub linkage: Linkage,
    pub precision: StoredPrecision,
}

impl Recurrence {
    /// [`Linkage::update`], rounded as stored.
    #[inline(always)]
    pub fn update(self, pair: &MergedPair, first: f64, second: f64, size: f64) -> f64 {
        let updated = self.linkage.update(pair, first, second, size);
        self.precision.round(updated)
    }

    /// [`Linkage::lower_bound`] of stored dissimilarities.
    pub fn lower_bound(self, pair: &MergedPair, first: f64, second: f64) -> f64 {
        self.precision
            .round(self.linkage.lower_bound(pair, first, second))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_oneof, Just, Strategy};

    use super::*;
    use crate::testing::shrink::for_all;

    #[test]
    fn names_are_those_of_hclust() {
        for linkage in Linkage::ALL {
            assert_eq!(Linkage::new(linkage.name()), Ok(linkage));
        }
        assert!(matches!(Linkage::new("ward"), Err(Error::Input(_))));
    }

    /// The height of a merge, the dissimilarities of its parts to a third cluster, which are not
    /// below the height, and the sizes of the three clusters.
    fn merges() -> impl Strategy<Value = (f64, [f64; 2], [f64; 3])> {
        let share = || prop_oneof![Just(1.0), 0.0..1.0];
        // A factor of the height, and a share of the scale that is added.
        let farther = || {
            let near =
                prop_oneof![Just(1.0), Just(1.0 + f64::EPSILON)].prop_map(|near| (near, 0.0));
            prop_oneof![2 => near, 1 => share().prop_map(|more| (1.0, more))]
        };
        let size = || prop_oneof![(1..=1000).prop_map(f64::from), 0.001..1.001];
        let sizes = [size(), size(), size()];
        let scale = prop_oneof![0..6, -6..0].prop_map(|power| 10f64.powi(power));
        let merge = (scale, share(), [farther(), farther()], sizes);
        merge.prop_map(|(scale, share, farther, sizes)| {
            let height = share * scale;
            let distances = farther.map(|(near, more)| height * near + more * scale);
            (height, distances, sizes)
        })
    }

    #[test]
    fn reducible_linkages_never_bring_clusters_nearer() {
        for_all(
            20_000,
            merges(),
            |(height, [first, second], [a, b, size])| {
                let sizes = [a, b];
                let pair = MergedPair { height, sizes };
                for linkage in Linkage::ALL {
                    let updated = linkage.update(&pair, first, second, size);
                    if linkage.is_reducible() {
                        assert!(updated >= first.min(second), "{linkage:?} {updated}");
                        let floor = linkage.lower_bound(&pair, first, second);
                        assert!(floor >= first.min(second), "{linkage:?} {floor}");
                        assert!(
                            updated >= floor * (1.0 - 1e-14),
                            "{linkage:?} {updated} {floor}"
                        );
                    }
                    let sizes = [b, a];
                    let swapped = MergedPair { height, sizes };
                    let swapped = linkage.update(&swapped, second, first, size);
                    assert!((updated - swapped).abs() <= 1e-13 * updated.abs());
                }
            },
        );
    }
}
