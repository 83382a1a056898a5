//! The folder: its manifest and its blocks.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use super::file_names::{count, distance_file, index_file, sums_file};
use super::files::{read_small, regular_size, write_new, write_whole};
use super::manifest::{self, Manifest};
use super::npy::{self, Value};
use crate::checksum::{sha256, Checksum};
use crate::error::{Error, Result};
use crate::knn::graph::Graph;
use crate::memory;
use crate::monitor::Monitor;

/// Number of bytes that are read or written between two checks of the monitor. If larger, an
/// interrupt is answered late.
const CHUNK: usize = 1 << 20;

/// Writes the manifest of a new folder, unless the folder has a manifest. Processes that begin a
/// folder at the same time must have the same manifest (see [`write_new`]).
///
/// # Errors
/// `Error::Input` if it cannot be written; `Error::Memory` if the disk is full.
pub fn begin(path: &Path, manifest: &Manifest) -> Result<()> {
    write_new(path, manifest::FILE, |file| {
        file.write(manifest.text().as_bytes())
    })
}

/// Blocks that a folder lacks.
#[derive(Debug, Default, PartialEq)]
pub struct Missing {
    /// Number of blocks.
    pub blocks: usize,
    /// The first and the last of each run of successive blocks, from 0.
    pub runs: Vec<(usize, usize)>,
}

/// A folder with a valid manifest.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The caller's name of the folder, for messages.
    arg: String,
    pub manifest: Manifest,
    /// The checksum of the manifest's file. Each block's file of checksums contains it, so that a
    /// block of another search is not accepted.
    pub checksum: String,
}

/// The reason why the content of a block cannot be read.
enum Trouble {
    /// A file differs from the written one; names the file and the difference.
    Damaged(String),
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Folder {
    /// Opens the folder of an earlier [`begin`]; `arg` is the caller's name of it.
    ///
    /// # Errors
    /// `Error::Input` if its manifest is missing or damaged, or if the file is no manifest.
    pub fn open(path: &Path, arg: &str) -> Result<Self> {
        let unusable = |what: String| {
            Error::Input(format!(
                "`{arg}` has a manifest.json that {what}; the folder must be one that gknn() has \
                 filled, or else be made anew"
            ))
        };
        let bytes = read_small(&path.join(manifest::FILE), manifest::MOST_BYTES)
            .map_err(|error| unusable(format!("cannot be read: {error}")))?;
        Ok(Self {
            manifest: Manifest::read(&bytes).map_err(unusable)?,
            path: path.into(),
            arg: arg.into(),
            checksum: sha256(&bytes),
        })
    }

    /// Number of blocks of a complete folder.
    pub fn blocks(&self) -> usize {
        self.rows().div_ceil(self.block_rows())
    }

    /// The missing blocks. Checks only the sizes of files. Takes time in proportion to the number
    /// of files, whatever the manifest says.
    ///
    /// # Errors
    /// `Error::Input` if the folder cannot be listed.
    pub fn missing(&self) -> Result<Missing> {
        let list = || -> io::Result<BTreeSet<usize>> {
            let mut there = BTreeSet::new();
            for entry in fs::read_dir(&self.path)? {
                let name = entry?.file_name();
                there.extend(name.to_str().and_then(|name| self.block_of(name)));
            }
            Ok(there)
        };
        let mut there = list()
            .map_err(|error| Error::Input(format!("`{}` cannot be listed: {error}", self.arg)))?;
        there.retain(|&block| self.has_sizes(block));
        let mut missing = Missing {
            blocks: self.blocks() - there.len(),
            runs: Vec::new(),
        };
        let mut next = 0;
        for block in there.into_iter().chain([self.blocks()]) {
            if next < block {
                missing.runs.push((next, block - 1));
            }
            next = block + 1;
        }
        Ok(missing)
    }

    /// Which of `blocks`, numbered from 0, are missing or damaged. Reads all files of these blocks.
    ///
    /// # Errors
    /// `Error::Interrupt`, `Error::Memory`.
    pub fn unfinished(&self, blocks: Range<usize>, monitor: &Monitor) -> Result<Vec<usize>> {
        let blocks = blocks.start..blocks.end.min(self.blocks());
        monitor.expect(blocks.len() as u64);
        let mut unfinished = Vec::new();
        for block in blocks {
            match self.verify_block(block, None, monitor) {
                Ok(()) => (),
                Err(Trouble::Damaged(_)) => unfinished.push(block),
                Err(Trouble::Failed(error)) => return Err(error),
            }
            monitor.advance(1);
        }
        Ok(unfinished)
    }

    /// Writes a block, numbered from 0, and replaces its files if there are any.
    ///
    /// # Errors
    /// `Error::Input` if a file cannot be written, or if `graph` does not have the size of the
    /// block; `Error::Memory` if the disk is full or memory is short; `Error::Interrupt`.
    pub fn write(&self, block: usize, graph: &Graph, monitor: &Monitor) -> Result<()> {
        let rows = self.checked_rows_of(block)?;
        if graph.k != self.k() || graph.index.len() != count(&rows) * self.k() {
            return Err(Error::Input(
                "these are not the neighbours of a block".into(),
            ));
        }
        let index = self.write_matrix(&index_file(&rows), &graph.index, monitor, |index| {
            i32::try_from(index + 1).expect("references are R's rows")
        })?;
        let distance =
            self.write_matrix(&distance_file(&rows), &graph.distance, monitor, |value| {
                value
            })?;
        let sums = self.sums(&rows, &index, &distance);
        write_whole(&self.path, &sums_file(&rows), |file| {
            file.write(sums.as_bytes())
        })?;
        Ok(())
    }

    /// The neighbours of some queries of a block; queries and blocks are numbered from 0.
    ///
    /// # Errors
    /// `Error::Input` if the block is missing or damaged; `Error::Memory`; `Error::Interrupt`.
    pub fn read(&self, block: usize, queries: &[usize], monitor: &Monitor) -> Result<Graph> {
        let rows = self.checked_rows_of(block)?;
        if queries.iter().any(|&query| query >= count(&rows)) {
            return Err(Error::Input("these are not queries of a block".into()));
        }
        self.content(block, queries, monitor)
            .map_err(|trouble| match trouble {
                Trouble::Failed(error) => error,
                Trouble::Damaged(how) => Error::Input(format!(
                "`{}` has no sound block of rows {} to {}: {how}; the call of gknn() that wrote it \
                 computes it anew",
                self.arg,
                rows.start(),
                rows.end()
            )),
            })
    }

    /// The neighbours of some queries of a block.
    fn content(
        &self,
        block: usize,
        queries: &[usize],
        monitor: &Monitor,
    ) -> std::result::Result<Graph, Trouble> {
        let mut files = [Vec::new(), Vec::new()];
        self.verify_block(block, Some(&mut files), monitor)?;
        let rows = self.rows_of(block);
        let [index, distance] = files;
        let numbers: Vec<i32> = self.decode(&index_file(&rows), &index, &rows, queries)?;
        let among = self.manifest.search.among;
        let mut graph = Graph {
            k: self.k(),
            index: memory::room("the neighbours need", numbers.len())?,
            distance: self.decode(&distance_file(&rows), &distance, &rows, queries)?,
        };
        for number in numbers {
            match u32::try_from(number) {
                Ok(number) if (1..=among).contains(&number) => graph.index.push(number - 1),
                _ => {
                    let name = index_file(&rows);
                    return Err(Trouble::Damaged(format!(
                        "{name} has {number}, which is no row"
                    )));
                }
            }
        }
        if graph.distance.iter().any(|distance| distance.is_nan()) {
            let name = distance_file(&rows);
            return Err(Trouble::Damaged(format!("{name} has no number")));
        }
        Ok(graph)
    }

    /// The values of some queries, from the bytes of a file with the right checksum.
    fn decode<T: Value>(
        &self,
        name: &str,
        file: &[u8],
        rows: &RangeInclusive<usize>,
        queries: &[usize],
    ) -> std::result::Result<Vec<T>, Trouble> {
        let (header, values) = file.split_at(npy::HEADER.min(file.len()));
        if header != npy::header::<T>(count(rows), self.k()) {
            return Err(Trouble::Damaged(format!("{name} has another header")));
        }
        let row = self.k() * T::BYTES;
        let mut decoded = memory::room("the neighbours need", queries.len() * self.k())?;
        for query in queries {
            let values = values[query * row..][..row].chunks_exact(T::BYTES);
            decoded.extend(values.map(T::get));
        }
        Ok(decoded)
    }

    /// Compares a block with its checksums; `content` receives the bytes of its two files.
    fn verify_block(
        &self,
        block: usize,
        content: Option<&mut [Vec<u8>; 2]>,
        monitor: &Monitor,
    ) -> std::result::Result<(), Trouble> {
        let rows = self.rows_of(block);
        let name = sums_file(&rows);
        let unreadable = |error: io::Error| Trouble::Damaged(format!("{name}: {error}"));
        let path = self.path.join(&name);
        let expected_size = self.sums(&rows, &self.checksum, &self.checksum).len();
        let sums = read_small(&path, expected_size as u64).map_err(unreadable)?;
        let (index, distance) = match content {
            Some([index, distance]) => (Some(index), Some(distance)),
            None => (None, None),
        };
        let k = self.k();
        let index_name = index_file(&rows);
        let size = npy::size::<i32>(count(&rows), k);
        let index = self.sum_of(&index_name, size, index, monitor)?;
        let distance_name = distance_file(&rows);
        let size = npy::size::<f64>(count(&rows), k);
        let distance = self.sum_of(&distance_name, size, distance, monitor)?;
        if sums == self.sums(&rows, &index, &distance).as_bytes() {
            return Ok(());
        }
        Err(Trouble::Damaged(format!(
            "{index_name} and {distance_name} do not have the checksums in {name}"
        )))
    }

    /// The checksum of a file of this size; `content` receives the bytes of the file.
    fn sum_of(
        &self,
        name: &str,
        size: u128,
        mut content: Option<&mut Vec<u8>>,
        monitor: &Monitor,
    ) -> std::result::Result<String, Trouble> {
        let damaged = |error: io::Error| Trouble::Damaged(format!("{name}: {error}"));
        let path = self.path.join(name);
        let mut left = regular_size(&path).map_err(damaged)?;
        if u128::from(left) != size {
            let how = format!("{name} has {left} bytes and not {size}");
            return Err(Trouble::Damaged(how));
        }
        if let Some(content) = &mut content {
            let size = usize::try_from(left).unwrap_or(usize::MAX);
            memory::reserve(content, "a block of neighbours needs", size)?;
        }
        let mut file = File::open(&path).map_err(damaged)?;
        let mut sum = Checksum::default();
        let longest = left.min(CHUNK as u64) as usize;
        let mut chunk = memory::zeros("a block of neighbours needs", longest)?;
        while left > 0 {
            monitor.check()?;
            let part = &mut chunk[..left.min(longest as u64) as usize];
            file.read_exact(part).map_err(damaged)?;
            sum.update(part);
            if let Some(content) = &mut content {
                content.extend_from_slice(part);
            }
            left -= part.len() as u64;
        }
        Ok(sum.digits())
    }

    /// Writes a matrix with k columns, row by row, and returns the file's checksum.
    fn write_matrix<S: Copy, T: Value>(
        &self,
        name: &str,
        values: &[S],
        monitor: &Monitor,
        stored: fn(S) -> T,
    ) -> Result<String> {
        write_whole(&self.path, name, |file| {
            file.write(&npy::header::<T>(values.len() / self.k(), self.k()))?;
            let mut bytes = memory::room("a block of neighbours needs", CHUNK)?;
            for part in values.chunks(CHUNK / T::BYTES) {
                monitor.check()?;
                bytes.clear();
                for &value in part {
                    stored(value).put(&mut bytes);
                }
                file.write(&bytes)?;
            }
            Ok(())
        })
    }

    /// A block's file of checksums, in the format of `sha256sum`.
    pub(super) fn sums(&self, rows: &RangeInclusive<usize>, index: &str, distance: &str) -> String {
        format!(
            "{}  {}\n{index}  {}\n{distance}  {}\n",
            self.checksum,
            manifest::FILE,
            index_file(rows),
            distance_file(rows)
        )
    }

    /// The block whose file of checksums has this name.
    fn block_of(&self, name: &str) -> Option<usize> {
        let first: usize = name.strip_prefix("rows-")?.get(..10)?.parse().ok()?;
        let block = first.checked_sub(1)? / self.block_rows();
        (block < self.blocks() && sums_file(&self.rows_of(block)) == name).then_some(block)
    }

    /// Whether the files of a block have the right sizes.
    fn has_sizes(&self, block: usize) -> bool {
        let rows = self.rows_of(block);
        let has = |name: String, size: u128| {
            regular_size(&self.path.join(name)).is_ok_and(|found| u128::from(found) == size)
        };
        has(index_file(&rows), npy::size::<i32>(count(&rows), self.k()))
            && has(
                distance_file(&rows),
                npy::size::<f64>(count(&rows), self.k()),
            )
    }

    /// The first and the last row of a block, from 1.
    fn rows_of(&self, block: usize) -> RangeInclusive<usize> {
        let before = block * self.block_rows();
        before + 1..=self.rows().min(before + self.block_rows())
    }

    /// As [`Folder::rows_of`], but checks that the folder has the block.
    ///
    /// # Errors
    /// `Error::Input` if it does not.
    fn checked_rows_of(&self, block: usize) -> Result<RangeInclusive<usize>> {
        if block < self.blocks() {
            return Ok(self.rows_of(block));
        }
        Err(Error::Input(format!("`{}` has no such block", self.arg)))
    }

    fn rows(&self) -> usize {
        self.manifest.search.rows as usize
    }

    fn k(&self) -> usize {
        self.manifest.search.k as usize
    }

    fn block_rows(&self) -> usize {
        self.manifest.block_rows as usize
    }
}
