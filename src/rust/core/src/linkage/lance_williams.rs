//! The linkages, and how far a new cluster is from the others: Lance and Williams' recurrence
//! (1967, doi:10.1093/comjnl/9.4.373), as R's `hclust` has it.

use crate::error::{Error, Result};

/// How dissimilar two clusters are, given the dissimilarities of their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// Ward's, on dissimilarities as they are given.
    WardD,
    /// The least of any two members.
    Single,
    /// The greatest of any two members.
    Complete,
    /// The mean over all pairs of members (UPGMA).
    Average,
    /// The mean of the two parts, whatever their sizes (WPGMA).
    Mcquitty,
    /// That of the midpoints (WPGMC).
    Median,
    /// That of the centroids (UPGMC).
    Centroid,
    /// Ward's, on squared dissimilarities; heights are roots.
    WardD2,
}

/// Two clusters that become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Union {
    /// How dissimilar they are.
    pub height: f64,
    pub sizes: [f64; 2],
}

impl Union {
    /// The size of the cluster that they become.
    pub fn size(&self) -> f64 {
        self.sizes[0] + self.sizes[1]
    }
}

impl Linkage {
    /// All of them, in `hclust`'s order.
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

    /// As `hclust` calls it.
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

    /// By [`Linkage::name`].
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

    /// Whether a new cluster is never nearer to another one than the nearer of its parts was, so
    /// that clusters that are each other's nearest may merge in any order.
    pub fn is_reducible(self) -> bool {
        !matches!(self, Self::Median | Self::Centroid)
    }

    /// Whether clusters that are each other's nearest merge in rounds. Single linkage could, but a
    /// spanning tree is faster.
    pub fn merges_in_rounds(self) -> bool {
        self.is_reducible() && self != Self::Single
    }

    /// Whether it works on squared dissimilarities.
    pub fn squares(self) -> bool {
        self == Self::WardD2
    }

    /// The dissimilarity of the two clusters of `union`, as one, and a third of size `size`, given
    /// those of the two and the third.
    ///
    /// For reducible linkages it is never below the least of these two, also not by rounding, if
    /// the height of the union is not.
    #[inline(always)]
    pub fn update(self, union: &Union, first: f64, second: f64, size: f64) -> f64 {
        let [a, b] = union.sizes;
        match self {
            Self::Single => first.min(second),
            Self::Complete => first.max(second),
            Self::Average => ((a * first + b * second) / (a + b)).max(first.min(second)),
            Self::Mcquitty => (first + second) / 2.0,
            Self::WardD | Self::WardD2 => {
                let sum = (a + size) * first + (b + size) * second - size * union.height;
                (sum / (a + b + size)).max(first.min(second))
            }
            Self::Median => ((first + second) - union.height / 2.0) / 2.0,
            Self::Centroid => (a * first + b * second - a * b * union.height / (a + b)) / (a + b),
        }
    }

    /// What [`Linkage::update`] never falls below, of a reducible linkage, whatever the size of the
    /// third cluster, given what the dissimilarities do not fall below.
    pub fn floor(self, union: &Union, first: f64, second: f64) -> f64 {
        // Ward's is a mean of two values, whose weights depend on the size: these.
        let of_tiny = self.update(union, first, second, 0.0);
        match self {
            Self::WardD | Self::WardD2 => of_tiny.min(first + second - union.height),
            _ => of_tiny,
        }
    }
}

/// How precisely dissimilarities are kept. All arithmetic is in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    Double,
    /// Rounded to single precision whenever one is taken in or computed.
    Single,
}

impl Precision {
    /// A dissimilarity as it is kept.
    #[inline(always)]
    pub fn round(self, value: f64) -> f64 {
        match self {
            Self::Double => value,
            Self::Single => f64::from(value as f32),
        }
    }
}

/// A linkage at a precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrence {
    pub linkage: Linkage,
    pub precision: Precision,
}

impl Recurrence {
    /// [`Linkage::update`], as it is kept.
    #[inline(always)]
    pub fn update(self, union: &Union, first: f64, second: f64, size: f64) -> f64 {
        let updated = self.linkage.update(union, first, second, size);
        self.precision.round(updated)
    }

    /// [`Linkage::floor`], of what is kept.
    pub fn floor(self, union: &Union, first: f64, second: f64) -> f64 {
        self.precision
            .round(self.linkage.floor(union, first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn names_are_those_of_hclust() {
        for linkage in Linkage::ALL {
            assert_eq!(Linkage::new(linkage.name()), Ok(linkage));
        }
        assert!(matches!(Linkage::new("ward"), Err(Error::Input(_))));
    }

    #[test]
    fn reducible_linkages_never_bring_clusters_nearer() {
        let mut random = Random(3);
        for _ in 0..20_000 {
            let scale = 10f64.powi(random.below(12) as i32 - 6);
            let height = random.uniform() * scale;
            let [first, second] = [(); 2].map(|()| match random.below(3) {
                0 => height,
                1 => height * (1.0 + f64::EPSILON),
                _ => height + random.uniform() * scale,
            });
            let [a, b, size] = [(); 3].map(|()| match random.below(2) {
                0 => 1.0 + random.below(1000) as f64,
                _ => random.uniform() + 0.001,
            });
            let union = Union {
                height,
                sizes: [a, b],
            };
            for linkage in Linkage::ALL {
                let updated = linkage.update(&union, first, second, size);
                if linkage.is_reducible() {
                    assert!(updated >= first.min(second));
                    let floor = linkage.floor(&union, first, second);
                    assert!(floor >= first.min(second));
                    assert!(
                        updated >= floor * (1.0 - 1e-14),
                        "{linkage:?} {updated} {floor}"
                    );
                }
                let swapped = Union {
                    height,
                    sizes: [b, a],
                };
                let swapped = linkage.update(&swapped, second, first, size);
                assert!((updated - swapped).abs() <= 1e-13 * updated.abs());
            }
        }
    }
}
