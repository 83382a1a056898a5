//! The modules of kernels, as tools/build-kernels compiles and packs them; kernels/modules.toml
//! lists them.

use std::fmt::Display;
use std::io::{self, Read};
use std::sync::OnceLock;

use lzma_rust2::LzmaReader;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::memory;

/// The PTX of all modules without the numbers of registers and labels, and these numbers;
/// tools/kernels.py describes the format. The files are LZMA, which Python's standard library
/// writes and checks. lzma-rust2 reads them; it is maintained and needs no other crate. Both files
/// together take half the bytes of PTX that is compressed as it is.
static TEXT: &[u8] = include_bytes!("../kernels/compiled/modules.ptx.lzma");
static NUMBERS: &[u8] = include_bytes!("../kernels/compiled/modules.numbers.lzma");

/// Upper bound on the ratio of unpacked to packed bytes of TEXT, which is 133. A test compares it
/// with the files. If it is too low, the buffer grows while the text is unpacked, and a lack of
/// memory for that is reported as a device error.
const RATIO_OF_TEXT: usize = 160;
/// The same for NUMBERS, whose ratio is 3.94.
const RATIO_OF_NUMBERS: usize = 5;
/// The same for the ratio of PTX to unpacked text, which is 1.23.
const RATIO_OF_PTX: f64 = 1.25;

/// Stands for a number in the text.
const NUMBER: char = '#';

/// The first character of the kind of a register or label.
const KINDS: [char; 2] = ['%', '$'];

/// Bytes of the length field before each binary in an archive; binaries are padded to a multiple of
/// it.
const UNIT: usize = 16;

/// The start of the line before each module, as tools/kernels.py writes it: then name, comma,
/// digest.
const MARK: &str = "//// module ";

/// A module of kernels. If none of its binaries fits the device, the driver compiles its PTX at the
/// first use.
#[derive(Debug)]
pub struct Kernels {
    pub name: &'static str,
}

/// The PTX of all modules.
#[derive(Debug, Clone, Copy)]
pub struct Bundle(&'static str);

impl Bundle {
    /// The bundle; decompressed at the first use.
    ///
    /// # Errors
    /// `Error::Memory` if there is too little memory, `Error::Device` if the kernels cannot be
    /// decompressed.
    pub fn open() -> Result<Self> {
        static BUNDLE: OnceLock<String> = OnceLock::new();
        if let Some(text) = BUNDLE.get() {
            return Ok(Self(text));
        }
        let text = unpack(TEXT, RATIO_OF_TEXT)?;
        let text = String::from_utf8(text).map_err(|error| unreadable(&error))?;
        let text = with_numbers(&text, &unpack(NUMBERS, RATIO_OF_NUMBERS)?)?;
        Ok(Self(BUNDLE.get_or_init(|| text)))
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
    /// If there is no such module; a test checks that all named modules are there.
    pub fn ptx(self, name: &str) -> &'static str {
        let module = self.modules().find(|(packed, _)| *packed == name);
        module.expect("every named module is in the bundle").1
    }
}

/// Inserts the numbers of registers and labels into the text. Each number is stored as its
/// difference from the last number of its kind.
fn with_numbers(text: &str, differences: &[u8]) -> Result<String> {
    let most = (RATIO_OF_PTX * text.len() as f64) as usize;
    let mut whole = String::from_utf8(memory::room(NEEDS, most)?).expect("nothing is UTF-8");
    let mut last: Vec<(&str, u16)> = Vec::new();
    let mut pieces = text.split(NUMBER);
    let end = pieces.next_back().unwrap_or_default();
    let mut differences = differences.chunks(2);
    for piece in pieces {
        let (Some(start), Some([low, high])) = (piece.rfind(KINDS), differences.next()) else {
            return Err(unreadable(&MISMATCH));
        };
        let kind = &piece[start..];
        let place = last.iter().position(|(known, _)| *known == kind);
        let place = place.unwrap_or_else(|| {
            last.push((kind, 0));
            last.len() - 1
        });
        let number = &mut last[place].1;
        *number = number.wrapping_add(u16::from_le_bytes([*low, *high]));
        whole.push_str(piece);
        push_decimal(&mut whole, *number);
    }
    if differences.next().is_some() {
        return Err(unreadable(&MISMATCH));
    }
    whole.push_str(end);
    Ok(whole)
}

/// As `write!`, in a third of the time.
fn push_decimal(text: &mut String, number: u16) {
    if number >= 10 {
        push_decimal(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// The modules of one source, compiled for one architecture.
struct Archive {
    modules: &'static [&'static str],
    /// Compute capability, major and minor.
    capability: (i32, i32),
    packed: &'static [u8],
}

/// A module compiled for one architecture.
pub struct Binary {
    archive: &'static Archive,
    module: &'static str,
}

impl Binary {
    /// The best binary of a module for a device of this compute capability. A binary runs on
    /// devices of its own major version and of the same or a later minor version.
    pub fn fitting(module: &str, (major, minor): (i32, i32)) -> Option<Self> {
        let fits = |binary: &Self| {
            let (its_major, its_minor) = binary.archive.capability;
            binary.module == module && its_major == major && its_minor <= minor
        };
        let fitting = Self::all().filter(fits);
        fitting.max_by_key(|binary| binary.archive.capability)
    }

    fn all() -> impl Iterator<Item = Self> {
        ARCHIVES.iter().flat_map(|archive| {
            let modules = archive.modules.iter();
            modules.map(move |module| Self { archive, module })
        })
    }

    /// Decompresses the binary; this decompresses all binaries before it in its archive, too.
    ///
    /// # Errors
    /// As [`Bundle::open`].
    pub fn unpack(&self) -> Result<Vec<u8>> {
        let mut reader = open(self.archive.packed)?;
        let mut modules = self.archive.modules.iter();
        let before = modules.position(|module| *module == self.module);
        for _ in 0..before.expect("an archive has its binaries") {
            let length = length_of_next(&mut reader)?.next_multiple_of(UNIT);
            let skipped = io::copy(&mut (&mut reader).take(length as u64), &mut io::sink());
            skipped.map_err(|error| unreadable(&error))?;
        }
        let length = length_of_next(&mut reader)?;
        let mut content = memory::room(NEEDS, length)?;
        let read = reader.take(length as u64).read_to_end(&mut content);
        read.map_err(|error| unreadable(&error))?;
        if content.len() < length {
            return Err(unreadable(&"a binary is cut short"));
        }
        Ok(content)
    }
}

const MISMATCH: &str = "text and numbers do not belong together";

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "decompressing the kernels needs";

fn open(packed: &'static [u8]) -> Result<LzmaReader<&'static [u8]>> {
    LzmaReader::new_mem_limit(packed, u32::MAX, None).map_err(|error| unreadable(&error))
}

fn length_of_next(reader: &mut impl Read) -> Result<usize> {
    let mut length = [0; UNIT];
    let read = reader.read_exact(&mut length);
    read.map_err(|error| unreadable(&error))?;
    usize::try_from(u128::from_le_bytes(length)).map_err(|error| unreadable(&error))
}

/// Decompresses a file whose content is at most `ratio` times its size.
fn unpack(packed: &'static [u8], ratio: usize) -> Result<Vec<u8>> {
    let mut content = memory::room(NEEDS, ratio * packed.len())?;
    let read = open(packed)?.read_to_end(&mut content);
    read.map_err(|error| unreadable(&error))?;
    Ok(content)
}

fn unreadable(why: &dyn Display) -> Error {
    Error::Device(format!("the kernels cannot be decompressed: {why}"))
}

macro_rules! kernels {
    ($($constant:ident = $name:literal;)*) => {
        $(pub static $constant: Kernels = Kernels { name: $name };)*

        #[cfg(test)]
        const ALL: &[&Kernels] = &[$(&$constant),*];
    };
}

// One table, so that a program contains all archives or none, as with the bundle; tools/test-gpu
// searches for them.
macro_rules! archives {
    ($($source:literal for [$($architecture:literal),*]: $modules:expr;)*) => {
        static ARCHIVES: &[Archive] = &[$($(Archive {
            modules: $modules,
            capability: ($architecture / 10, $architecture % 10),
            packed: include_bytes!(
                concat!("../kernels/compiled/", $source, ".sm_", $architecture, ".lzma")
            ),
        },)*)*];
    };
}

kernels! {
    AGGLOMERATE_CENTROID_0 = "agglomerate_centroid_0";
    AGGLOMERATE_CENTROID_16 = "agglomerate_centroid_16";
    AGGLOMERATE_CENTROID_24 = "agglomerate_centroid_24";
    AGGLOMERATE_CENTROID_32 = "agglomerate_centroid_32";
    AGGLOMERATE_MANY_16 = "agglomerate_many_16";
    AGGLOMERATE_MANY_24 = "agglomerate_many_24";
    AGGLOMERATE_MANY_32 = "agglomerate_many_32";
    AGGLOMERATE_FULL_MAHALANOBIS_0 = "agglomerate_full_0";
    AGGLOMERATE_FULL_MAHALANOBIS_16 = "agglomerate_full_16";
    AGGLOMERATE_FULL_MAHALANOBIS_24 = "agglomerate_full_24";
    AGGLOMERATE_FULL_MAHALANOBIS_32 = "agglomerate_full_32";
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
    MEAN_LINKAGE = "mean_linkage";
    NEIGHBOURS_SQUARES = "neighbours_squares";
    NEIGHBOURS_MAGNITUDES = "neighbours_magnitudes";
    NEIGHBOURS_GREATEST = "neighbours_greatest";
    NEIGHBOURS_QUOTIENTS = "neighbours_quotients";
    NEIGHBOURS_PRODUCTS = "neighbours_products";
    NEIGHBOURS_ABSOLUTE_PRODUCTS = "neighbours_absolute_products";
    PRODUCTS_16 = "products_16";
    PRODUCTS_32 = "products_32";
    PRODUCTS_64 = "products_64";
    PRODUCTS_ABSOLUTE_16 = "products_absolute_16";
    PRODUCTS_ABSOLUTE_32 = "products_absolute_32";
    PRODUCTS_ABSOLUTE_64 = "products_absolute_64";
    TREE_16 = "tree_16";
    TREE_52 = "tree_52";
    TREE_104 = "tree_104";
    TREE_208 = "tree_208";
}

archives! {
    "agglomerate" for [80, 90]: &[
        "agglomerate_centroid_0",
        "agglomerate_centroid_16",
        "agglomerate_centroid_24",
        "agglomerate_centroid_32",
        "agglomerate_many_16",
        "agglomerate_many_24",
        "agglomerate_many_32",
        "agglomerate_full_0",
        "agglomerate_full_16",
        "agglomerate_full_24",
        "agglomerate_full_32",
    ];
    "dissimilarities" for [80, 90]: &["dissimilarities_double", "dissimilarities_single"];
    "distances" for [80, 90]: &[
        "distances_euclidean",
        "distances_euclidean_holes",
        "distances_manhattan",
        "distances_manhattan_holes",
        "distances_maximum",
        "distances_maximum_holes",
        "distances_canberra",
        "distances_canberra_in_range",
        "distances_binary",
        "distances_angle",
    ];
    "kmeans" for [80, 90]: &["kmeans"];
    "mean_linkage" for [80, 90]: &["mean_linkage"];
    "neighbours" for [80, 90]: &[
        "neighbours_squares",
        "neighbours_magnitudes",
        "neighbours_greatest",
        "neighbours_quotients",
        "neighbours_products",
        "neighbours_absolute_products",
    ];
    "products" for [80, 90]: &[
        "products_16",
        "products_32",
        "products_64",
        "products_absolute_16",
        "products_absolute_32",
        "products_absolute_64",
    ];
    "tree" for [80, 90]: &["tree_16", "tree_52", "tree_104", "tree_208"];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sha2::Digest;

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

    #[test]
    fn the_ratios_are_those_of_the_files() {
        let text = unpack(TEXT, RATIO_OF_TEXT).unwrap();
        assert!(text.len() <= RATIO_OF_TEXT * TEXT.len());
        let numbers = unpack(NUMBERS, RATIO_OF_NUMBERS).unwrap();
        assert!(numbers.len() <= RATIO_OF_NUMBERS * NUMBERS.len());
        let ptx = Bundle::open().unwrap().0;
        assert!(ptx.len() as f64 <= RATIO_OF_PTX * text.len() as f64);
    }

    /// The name of a binary in the bundle.
    fn titled(binary: &Binary) -> String {
        let (major, minor) = binary.archive.capability;
        format!("{} sm_{major}{minor}", binary.module)
    }

    #[test]
    fn the_binaries_have_the_digests_in_the_bundle() {
        let text = Bundle::open().unwrap().0;
        let lines = text.lines();
        let listed: BTreeSet<String> = lines
            .filter_map(|line| line.strip_prefix("//// binary "))
            .map(String::from)
            .collect();
        let packed = Binary::all().map(|binary| {
            let content = binary.unpack().unwrap();
            assert!(content.starts_with(b"\x7fELF"), "{}", titled(&binary));
            format!("{}, sha256 {}", titled(&binary), sha256(&content))
        });
        assert_eq!(packed.collect::<BTreeSet<_>>(), listed);
        assert!(!listed.is_empty());
    }

    #[test]
    fn the_files_are_those_named_here() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/compiled");
        let paths = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let packed = paths.filter(|path| path.extension().is_some_and(|it| it == "lzma"));
        let files: BTreeSet<Vec<u8>> = packed.map(|path| std::fs::read(path).unwrap()).collect();
        let archives = ARCHIVES.iter().map(|archive| archive.packed);
        let named = archives.chain([TEXT, NUMBERS]).map(<[u8]>::to_vec);
        assert_eq!(files, named.collect());
    }

    /// As `digest_of` in tools/kernels.py, which made the bundle.
    #[test]
    fn the_bundle_has_the_digest_in_its_first_line() {
        let bundle = Bundle::open().unwrap();
        let mut digested = String::new();
        for (name, ptx) in bundle.modules() {
            digested += &format!("{name} {}\n{ptx}", ptx.len());
        }
        for line in bundle
            .0
            .lines()
            .filter(|line| line.starts_with("//// binary "))
        {
            digested += &format!("{line}\n");
        }
        let title = bundle.0.lines().next().unwrap();
        let digest = sha256(digested.as_bytes());
        assert!(title.ends_with(&format!("sha256 {digest}")), "{title}");
    }

    #[test]
    fn numbers_are_differences_from_the_last_of_their_kind() {
        let text = "%r#, %rd#, $L__BB0_#: %r# %r<9>;";
        let numbers: Vec<u8> = [9u16, 500, 12, 65_535].map(u16::to_le_bytes).concat();
        let whole = with_numbers(text, &numbers).unwrap();
        assert_eq!(whole, "%r9, %rd500, $L__BB0_12: %r8 %r<9>;");
        assert!(with_numbers(text, &numbers[..6]).is_err());
        assert!(with_numbers(text, &[numbers, vec![0; 2]].concat()).is_err());
    }

    fn sha256(content: &[u8]) -> String {
        let digest = sha2::Sha256::digest(content);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_device_gets_the_latest_binary_of_its_major_capability() {
        let fitting = |module, capability| Binary::fitting(module, capability);
        let chosen = |capability| Some(fitting("tree_16", capability)?.archive.capability);
        for capability in [(8, 0), (8, 6), (8, 9)] {
            assert_eq!(chosen(capability), Some((8, 0)));
        }
        assert_eq!(chosen((9, 0)), Some((9, 0)));
        for capability in [(7, 5), (10, 0), (12, 0)] {
            assert_eq!(chosen(capability), None);
        }
        assert_eq!(fitting("tree_52", (9, 0)).unwrap().module, "tree_52");
        assert!(fitting("another", (9, 0)).is_none());
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
