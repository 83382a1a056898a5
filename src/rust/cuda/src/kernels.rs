//! The modules of kernels, as tools/build-kernels compiles and packs them; kernels/modules.toml is
//! the table of them.

use std::fmt::Display;
use std::io::Read;
use std::sync::OnceLock;

use lzma_rust2::LzmaReader;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::memory;

/// PTX of all modules. LZMA, because Python's standard library writes and checks it;
/// lzma-rust2, because it is maintained, needs no other crate and takes 40 ms for it, beside the
/// opening of a device. Packed one by one, the modules would take 1.7 times the bytes.
static PACKED: &[u8] = include_bytes!("../kernels/modules.ptx.lzma");

/// Bytes of memory for each packed byte: PTX has 14.2, a binary 6. Were there too few, they would be
/// copied as they grow.
const RATIO: usize = 16;

/// A line that begins so precedes each module, as tools/kernels.py writes it: name, comma, digest.
const MARK: &str = "//// module ";

/// A module of kernels. Where none of its binaries fits, the driver compiles its PTX at the first
/// use.
#[derive(Debug)]
pub struct Kernels {
    pub name: &'static str,
}

/// The PTX of all modules.
#[derive(Debug, Clone, Copy)]
pub struct Bundle(&'static str);

impl Bundle {
    /// Decompresses it at the first use.
    ///
    /// # Errors
    /// `Error::Memory` or `Error::Device` where there is no memory for it.
    pub fn open() -> Result<Self> {
        static TEXT: OnceLock<String> = OnceLock::new();
        if let Some(text) = TEXT.get() {
            return Ok(Self(text));
        }
        let text = String::from_utf8(unpack(PACKED)?).map_err(|error| unreadable(&error))?;
        Ok(Self(TEXT.get_or_init(|| text)))
    }

    /// Name and PTX of each module.
    pub fn modules(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let modules = self.0.split(MARK).skip(1);
        modules.filter_map(|module| {
            let (header, ptx) = module.split_once('\n')?;
            Some((header.split_once(',')?.0, ptx))
        })
    }

    /// The PTX of a module.
    ///
    /// # Panics
    /// Where there is no such module; a test sees to it that there is.
    pub fn ptx(self, name: &str) -> &'static str {
        let module = self.modules().find(|(packed, _)| *packed == name);
        module.expect("every named module is in the bundle").1
    }
}

/// A module compiled for one architecture, for modules that take the driver seconds.
pub struct Binary {
    module: &'static str,
    /// Compute capability, major and minor.
    capability: (i32, i32),
    packed: &'static [u8],
}

impl Binary {
    /// The binary of a module that fits a device of this compute capability best: it runs where the
    /// major one is the same and the minor one is not older.
    pub fn fitting(module: &str, (major, minor): (i32, i32)) -> Option<&'static Self> {
        let fits = |binary: &&Self| {
            let (its_major, its_minor) = binary.capability;
            binary.module == module && its_major == major && its_minor <= minor
        };
        let fitting = BINARIES.iter().filter(fits);
        fitting.max_by_key(|binary| binary.capability)
    }

    /// Decompresses it.
    ///
    /// # Errors
    /// As for the bundle.
    pub fn unpack(&self) -> Result<Vec<u8>> {
        unpack(self.packed)
    }
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>> {
    let mut content = memory::room("decompressing the kernels needs", RATIO * packed.len())?;
    LzmaReader::new_mem_limit(packed, u32::MAX, None)
        .and_then(|mut reader| reader.read_to_end(&mut content))
        .map_err(|error| unreadable(&error))?;
    Ok(content)
}

fn unreadable(why: &dyn Display) -> Error {
    Error::Device(format!("the kernels cannot be decompressed: {why}"))
}

macro_rules! kernels {
    ($($constant:ident = $name:literal $(, binaries [$($architecture:literal),*])?;)*) => {
        $(pub static $constant: Kernels = Kernels { name: $name };)*

        // One table, so that a program has all of them or none, as the bundle; tools/test-gpu looks
        // for them.
        static BINARIES: &[Binary] = &[$($($(Binary {
            module: $name,
            capability: ($architecture / 10, $architecture % 10),
            packed: include_bytes!(
                concat!("../kernels/", $name, ".sm_", $architecture, ".lzma")
            ),
        },)*)?)*];

        #[cfg(test)]
        const ALL: &[&Kernels] = &[$(&$constant),*];
    };
}

kernels! {
    SCREEN_0 = "screen_0";
    SCREEN_16 = "screen_16";
    SCREEN_32 = "screen_32";
    SCREEN_40 = "screen_40";
    SCREEN_64 = "screen_64";
    AGGLOMERATE_QUICK_0 = "agglomerate_quick_0", binaries [80, 90];
    AGGLOMERATE_QUICK_16 = "agglomerate_quick_16", binaries [80, 90];
    AGGLOMERATE_QUICK_24 = "agglomerate_quick_24", binaries [80, 90];
    AGGLOMERATE_QUICK_32 = "agglomerate_quick_32", binaries [80, 90];
    AGGLOMERATE_FULL_0 = "agglomerate_full_0", binaries [80, 90];
    AGGLOMERATE_FULL_16 = "agglomerate_full_16", binaries [80, 90];
    AGGLOMERATE_FULL_24 = "agglomerate_full_24", binaries [80, 90];
    AGGLOMERATE_FULL_32 = "agglomerate_full_32", binaries [80, 90];
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
    TREE_16 = "tree_16", binaries [80, 90];
    TREE_40 = "tree_40", binaries [80, 90];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_modules_named_here_are_those_of_the_bundle() {
        let bundle = Bundle::open().unwrap();
        let named: Vec<&str> = ALL.iter().map(|kernels| kernels.name).collect();
        let packed: Vec<&str> = bundle.modules().map(|(name, _)| name).collect();
        let distinct: BTreeSet<&str> = named.iter().chain(&packed).copied().collect();
        assert_eq!(BTreeSet::from_iter(named.iter().copied()), distinct);
        assert_eq!(BTreeSet::from_iter(packed.iter().copied()), distinct);
        assert_eq!(
            (named.len(), packed.len()),
            (distinct.len(), distinct.len())
        );
    }

    /// A binary as bundle and file name it.
    fn titled(binary: &Binary, between: &str) -> String {
        let (major, minor) = binary.capability;
        format!("{}{between}sm_{major}{minor}", binary.module)
    }

    #[test]
    fn the_binaries_named_here_are_those_of_the_bundle() {
        let text = Bundle::open().unwrap().0;
        let lines = text.lines();
        let packed: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("//// binary ")?.split(',').next())
            .collect();
        let named: Vec<String> = BINARIES.iter().map(|binary| titled(binary, " ")).collect();
        assert_eq!(named, packed);
    }

    #[test]
    fn the_files_are_the_bundle_and_the_binaries_named_here() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels")).unwrap();
        let files: BTreeSet<String> = folder
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".lzma"))
            .collect();
        let titles = BINARIES.iter().map(|binary| titled(binary, "."));
        let named = titles.chain(["modules.ptx".to_string()]);
        assert_eq!(files, named.map(|title| title + ".lzma").collect());
    }

    #[test]
    fn each_binary_is_an_elf_file() {
        assert!(!BINARIES.is_empty());
        for binary in BINARIES {
            let content = binary.unpack().unwrap();
            assert!(content.starts_with(b"\x7fELF"), "{}", titled(binary, " "));
        }
    }

    #[test]
    fn a_device_gets_the_latest_binary_of_its_major_capability() {
        let fitting = |module, capability| Binary::fitting(module, capability);
        let chosen = |capability| Some(fitting("tree_16", capability)?.capability);
        for capability in [(8, 0), (8, 6), (8, 9)] {
            assert_eq!(chosen(capability), Some((8, 0)));
        }
        assert_eq!(chosen((9, 0)), Some((9, 0)));
        for capability in [(7, 5), (10, 0), (12, 0)] {
            assert_eq!(chosen(capability), None);
        }
        assert_eq!(fitting("tree_40", (9, 0)).unwrap().module, "tree_40");
        assert!(fitting("kmeans", (9, 0)).is_none());
    }

    #[test]
    fn each_module_is_one_whole_ptx() {
        let bundle = Bundle::open().unwrap();
        for kernels in ALL {
            let ptx = bundle.ptx(kernels.name);
            for line in [".version ", ".target ", ".address_size 64"] {
                let count = ptx.lines().filter(|found| found.starts_with(line)).count();
                assert_eq!(count, 1, "{} in {}", line, kernels.name);
            }
            assert!(ptx.contains(".visible .entry "), "{}", kernels.name);
            assert!(ptx.trim_end().ends_with('}'), "{}", kernels.name);
            assert!(!ptx.contains("////"), "{}", kernels.name);
        }
    }

    #[test]
    fn threads_that_open_the_bundle_at_once_share_it() {
        let open = || Bundle::open().unwrap().0.as_ptr() as usize;
        let places: BTreeSet<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(places.len(), 1);
    }
}
