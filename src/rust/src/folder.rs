//! Folders of neighbours, for R. Blocks are numbered from 1.

use std::path::PathBuf;

use extendr_api::prelude::*;
use gmhclust_core::knn::folder::{begin, Digests, Folder, Manifest, SearchDescription};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::arguments::{self, Fields};
use crate::graph::{graph_of, graph_to_r};
use crate::job::Job;
use crate::results::r_integer;
use crate::vector;

/// Starts to write the manifest of a new folder.
/// @param folder raw, the name of the folder.
/// @param search list(rows, columns, among, k, metric, digests), as gknn_in_blocks() has it.
/// @param block_rows integer.
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_folder_begin(folder: Raw, search: List, block_rows: i32) -> ExternalPtr<Job> {
    let prepare = || {
        let path = path_of(&folder)?;
        let manifest = Manifest::new(search_of(&search)?, count(block_rows)?);
        Ok(move |_: &_| begin(&path, &manifest))
    };
    ExternalPtr::new(Job::start(0, prepare(), |()| Ok(().into())))
}

/// Starts to read the manifest of a folder.
/// @param folder raw, the name of the folder.
/// @param arg what the caller calls the folder, for messages.
/// @return External pointer to the job. Its value is list(rows, columns, among, k, metric, digests,
///   block_rows, checksum): as it was given to job_folder_begin(), and a string which the other
///   functions need.
/// @noRd
#[extendr]
fn job_folder_open(folder: Raw, arg: String) -> ExternalPtr<Job> {
    let prepare = || {
        let path = path_of(&folder)?;
        Ok(move |_: &_| Folder::open(&path, &arg))
    };
    ExternalPtr::new(Job::start(0, prepare(), folder_to_r))
}

/// Starts to look for missing blocks in a folder, by the names and sizes of files.
/// @param folder,arg as in job_folder_open().
/// @param checksum that of the manifest.
/// @return External pointer to the job. Its value has the first missing block and how many are
///   missing, or is empty.
/// @noRd
#[extendr]
fn job_folder_missing(folder: Raw, arg: String, checksum: String) -> ExternalPtr<Job> {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        Ok(move |_: &_| open()?.missing())
    };
    let to_r = |missing: Option<(usize, usize)>| {
        let missing = missing.map(|(first, count)| vec![r_integer(first) + 1, r_integer(count)]);
        Ok(missing.unwrap_or_default().into())
    };
    ExternalPtr::new(Job::start(0, prepare(), to_r))
}

/// Starts to compare all blocks of a folder with their checksums.
/// @param folder,arg,checksum as in job_folder_missing().
/// @return External pointer to the job. Its value has the numbers of blocks that are missing or
///   damaged.
/// @noRd
#[extendr]
fn job_folder_unfinished(folder: Raw, arg: String, checksum: String) -> ExternalPtr<Job> {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        Ok(move |monitor: &_| open()?.unfinished(monitor))
    };
    let to_r = |blocks: Vec<usize>| {
        let number = |block| r_integer(block) + 1;
        vector::integers(blocks.into_iter().map(number))
    };
    ExternalPtr::new(Job::start(0, prepare(), to_r))
}

/// Starts to write a block.
/// @param folder,arg,checksum as in job_folder_missing().
/// @param block integer.
/// @param index,distance matrices as gknn() returns them.
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_folder_write(
    folder: Raw,
    arg: String,
    checksum: String,
    block: i32,
    index: RMatrix<i32>,
    distance: RMatrix<f64>,
) -> ExternalPtr<Job> {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        let block = number_from_0(block)?;
        let graph = graph_of(&index, &distance)?;
        Ok(move |monitor: &_| open()?.write(block, &graph, monitor))
    };
    ExternalPtr::new(Job::start(0, prepare(), |()| Ok(().into())))
}

/// Starts to read rows of a block.
/// @param folder,arg,checksum as in job_folder_missing().
/// @param block integer.
/// @param rows integers, numbers of rows within the block.
/// @return External pointer to the job. Its value is list(index, distance), as gknn() returns it.
/// @noRd
#[extendr]
fn job_folder_read(
    folder: Raw,
    arg: String,
    checksum: String,
    block: i32,
    rows: Vec<i32>,
) -> ExternalPtr<Job> {
    let rows_to_read = rows.len();
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        let block = number_from_0(block)?;
        let rows: CoreResult<Vec<usize>> = rows.into_iter().map(number_from_0).collect();
        let rows = rows?;
        Ok(move |monitor: &_| open()?.read(block, &rows, monitor))
    };
    ExternalPtr::new(Job::start(rows_to_read, prepare(), graph_to_r))
}

/// Opens a folder as it was when its manifest had this checksum.
fn opener(
    folder: &Raw,
    arg: String,
    checksum: String,
) -> CoreResult<impl FnOnce() -> CoreResult<Folder>> {
    let path = path_of(folder)?;
    Ok(move || {
        let folder = Folder::open(&path, &arg)?;
        if folder.checksum == checksum {
            return Ok(folder);
        }
        Err(CoreError::Input(format!(
            "`{arg}` has another manifest.json since it was opened; read_gknn() opens it anew"
        )))
    })
}

/// A path as the system has it: any bytes on Unix, UTF-8 elsewhere.
fn path_of(bytes: &Raw) -> CoreResult<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(std::ffi::OsStr::from_bytes(bytes.as_slice()).into())
    }
    #[cfg(not(unix))]
    match std::str::from_utf8(bytes.as_slice()) {
        Ok(path) => Ok(path.into()),
        Err(_) => Err(CoreError::Input("the folder's name is not UTF-8".into())),
    }
}

fn number_from_0(number: i32) -> CoreResult<usize> {
    let number = usize::try_from(number).ok();
    let number = number.and_then(|number| number.checked_sub(1));
    number.ok_or_else(|| CoreError::Input("blocks and rows are numbered from 1".into()))
}

fn count(count: i32) -> CoreResult<u32> {
    u32::try_from(count).map_err(|_| CoreError::Input("a count is negative".into()))
}

fn search_of(search: &List) -> CoreResult<SearchDescription> {
    let fields = Fields::new("search", search);
    let number = |name: &str| count(fields.get(name)?);
    let digests: Vec<String> = fields.get("digests")?;
    Ok(SearchDescription {
        rows: number("rows")?,
        columns: number("columns")?,
        among: number("among")?,
        k: number("k")?,
        metric: arguments::metric_options(&fields.get("metric")?)?,
        digests: Digests {
            x: digests.first().cloned().unwrap_or_default(),
            query: digests.get(1).cloned(),
        },
    })
}

fn folder_to_r(folder: Folder) -> CoreResult<Robj> {
    let Manifest {
        block_rows, search, ..
    } = folder.manifest;
    let SearchDescription {
        metric, digests, ..
    } = search;
    let mut names = vec!["X"];
    let mut values = vec![digests.x];
    if let Some(query) = digests.query {
        names.push("query");
        values.push(query);
    }
    let mut digests = Robj::from(values);
    digests.set_names(names).expect("lengths agree");
    Ok(list!(
        rows = r_integer(search.rows),
        columns = r_integer(search.columns),
        among = r_integer(search.among),
        k = r_integer(search.k),
        metric = list!(
            name = metric.name,
            p = metric.p,
            absolute = metric.absolute,
            zero_over_zero = metric.zero_over_zero
        ),
        digests = digests,
        block_rows = r_integer(block_rows),
        checksum = folder.checksum
    )
    .into())
}

extendr_module! {
    mod folder;
    fn job_folder_begin;
    fn job_folder_open;
    fn job_folder_missing;
    fn job_folder_unfinished;
    fn job_folder_write;
    fn job_folder_read;
}
