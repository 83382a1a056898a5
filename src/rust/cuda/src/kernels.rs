//! The modules of kernels, as tools/build-kernels compiles them.

/// A module of kernels, which the driver compiles for its device at the first use.
#[derive(Debug)]
pub struct Kernels {
    pub name: &'static str,
    pub source: &'static str,
}

macro_rules! kernels {
    ($($constant:ident = $name:literal;)*) => {
        $(pub static $constant: Kernels = Kernels {
            name: $name,
            source: include_str!(concat!("../kernels/", $name, ".ptx")),
        };)*
    };
}

kernels! {
    SCREEN_0 = "screen_0";
    SCREEN_16 = "screen_16";
    SCREEN_32 = "screen_32";
    SCREEN_40 = "screen_40";
    SCREEN_64 = "screen_64";
    AGGLOMERATE_QUICK_0 = "agglomerate_quick_0";
    AGGLOMERATE_QUICK_16 = "agglomerate_quick_16";
    AGGLOMERATE_QUICK_24 = "agglomerate_quick_24";
    AGGLOMERATE_QUICK_32 = "agglomerate_quick_32";
    AGGLOMERATE_FULL_0 = "agglomerate_full_0";
    AGGLOMERATE_FULL_16 = "agglomerate_full_16";
    AGGLOMERATE_FULL_24 = "agglomerate_full_24";
    AGGLOMERATE_FULL_32 = "agglomerate_full_32";
    DISSIMILARITIES_DOUBLE = "dissimilarities_double";
    DISSIMILARITIES_SINGLE = "dissimilarities_single";
    DISTANCES_EUCLIDEAN = "distances_euclidean";
    DISTANCES_EUCLIDEAN_HOLES = "distances_euclidean_holes";
    DISTANCES_MANHATTAN = "distances_manhattan";
    DISTANCES_MANHATTAN_HOLES = "distances_manhattan_holes";
    DISTANCES_MAXIMUM = "distances_maximum";
    DISTANCES_MAXIMUM_HOLES = "distances_maximum_holes";
    DISTANCES_CANBERRA = "distances_canberra";
    DISTANCES_CANBERRA_IN_RANGE = "distances_canberra_in_range";
    DISTANCES_BINARY = "distances_binary";
    DISTANCES_ANGLE = "distances_angle";
    KMEANS = "kmeans";
    NEIGHBOURS_SQUARES = "neighbours_squares";
    NEIGHBOURS_MAGNITUDES = "neighbours_magnitudes";
    NEIGHBOURS_GREATEST = "neighbours_greatest";
    NEIGHBOURS_QUOTIENTS = "neighbours_quotients";
    NEIGHBOURS_PRODUCTS = "neighbours_products";
    NEIGHBOURS_ABSOLUTE_PRODUCTS = "neighbours_absolute_products";
    PRODUCTS = "products";
    PRODUCTS_ABSOLUTE = "products_absolute";
}
