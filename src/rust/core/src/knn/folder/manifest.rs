//! The manifest, which describes the search of a folder: JSON in one fixed form that ends with its
//! own checksum.
//!
//! serde reads it, not R's jsonlite: serde accepts only these fields with values of these types, so
//! a malformed file is an error before any of its values is used.

use serde::{Deserialize, Serialize};

use crate::checksum::sha256;
use crate::error::Result;
use crate::metric::{Metric, ZeroOverZero};

/// The name of the file.
pub const FILE: &str = "manifest.json";

/// The largest size of a manifest in bytes, several times the size of a real one. A longer file is
/// not read.
pub const MOST_BYTES: u64 = 4096;

const FORMAT: &str = "gmhclust neighbours";
/// Version 1 was R's own format, in `manifest.rds`.
const VERSION: u64 = 2;
/// The number of the first row, in arrays and in the names of files.
const FIRST_ROW: u32 = 1;

/// The text between the bytes that the checksum covers and the checksum.
const BEFORE_SUM: &str = ",\n  \"sha256\": \"";
/// The text after the checksum.
const AFTER_SUM: &str = "\"\n}\n";
/// Number of hexadecimal digits of the checksum.
const SUM_DIGITS: usize = 64;
/// The end of the JSON without its checksum.
const END: &str = "\n}";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    version: u64,
    first_row: u32,
    /// Number of rows of a block; the last block may have fewer.
    pub block_rows: u32,
    pub search: SearchDescription,
}

/// The search whose neighbours the folder holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchDescription {
    /// Number of queries.
    pub rows: u32,
    pub columns: u32,
    /// Number of references.
    pub among: u32,
    /// Number of neighbours per query.
    pub k: u32,
    pub metric: MetricOptions,
    pub digests: Digests,
}

/// The arguments of [`Metric::new`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricOptions {
    pub name: String,
    pub p: f64,
    pub absolute: bool,
    pub zero_over_zero: String,
}

/// [`crate::digest::digest`] of the data, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    pub x: String,
    /// `None` if the references are the queries.
    pub query: Option<String>,
}

/// The fields of all versions of the format.
#[derive(Deserialize)]
struct FormatHead {
    format: String,
    version: u64,
}

/// The reason why bytes are no manifest: the end of the sentence "has a manifest.json that".
pub type Unusable = String;

impl Manifest {
    /// The manifest of a new folder.
    pub fn new(search: SearchDescription, block_rows: u32) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            first_row: FIRST_ROW,
            block_rows,
            search,
        }
    }

    /// The content of the file.
    pub fn text(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("has nothing that JSON has not");
        let summed = json.strip_suffix(END).expect("is an object");
        let sum = sha256(summed.as_bytes());
        format!("{summed}{BEFORE_SUM}{sum}{AFTER_SUM}")
    }

    /// Parses a manifest; its checksum is compared first.
    pub fn read(bytes: &[u8]) -> std::result::Result<Self, Unusable> {
        let foreign = || "gknn() did not write, or that is damaged".to_string();
        let (summed, sum) = split_sum(bytes).ok_or_else(foreign)?;
        if sha256(summed).as_bytes() != sum {
            return Err("is damaged: it does not have its checksum".into());
        }
        let json = [summed, END.as_bytes()].concat();
        let head: FormatHead = serde_json::from_slice(&json).map_err(|_| foreign())?;
        if head.format != FORMAT {
            return Err(foreign());
        }
        if head.version != VERSION {
            return Err(format!(
                "has version {} of the format; this version of gmhclust reads version {VERSION}",
                head.version
            ));
        }
        let forged = |why: String| format!("describes no search of gknn() ({why})");
        let manifest: Self =
            serde_json::from_slice(&json).map_err(|error| forged(error.to_string()))?;
        manifest
            .check()
            .map_err(|error| forged(error.to_string()))?
            .map_or(Ok(manifest), |why| Err(forged(why.into())))
    }

    /// The first invalid value, if there is one.
    fn check(&self) -> Result<Option<&'static str>> {
        let SearchDescription {
            rows,
            columns,
            among,
            k,
            metric,
            digests,
        } = &self.search;
        let zero_over_zero = ZeroOverZero::new("zero_over_zero", &metric.zero_over_zero)?;
        Metric::new(
            "metric",
            &metric.name,
            metric.p,
            metric.absolute,
            zero_over_zero,
        )?;
        // Positive integers of R.
        let is_count = |count: &&u32| (1..=i32::MAX as u32).contains(*count);
        let counts = [rows, columns, among, k, &self.block_rows];
        let neighbours = among.saturating_sub(u32::from(digests.query.is_none()));
        let is_digest = |digest: &String| {
            digest.len() == 16 && digest.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        Ok(if self.first_row != FIRST_ROW {
            Some("rows are numbered from 1")
        } else if !counts.iter().all(is_count) {
            Some("counts must be from 1 to 2147483647")
        } else if digests.query.is_none() && rows != among {
            Some("without a query, rows are searched among themselves")
        } else if *k > neighbours {
            Some("k exceeds the number of neighbours")
        } else if !is_digest(&digests.x) || !digests.query.iter().all(is_digest) {
            Some("digests have 16 hexadecimal digits")
        } else {
            None
        })
    }
}

/// The bytes that the checksum covers, and the checksum.
fn split_sum(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_suffix(AFTER_SUM.as_bytes())?;
    let (rest, sum) = rest.split_at(rest.len().checked_sub(SUM_DIGITS)?);
    Some((rest.strip_suffix(BEFORE_SUM.as_bytes())?, sum))
}
