//! Reading and writing folders of neighbours from R. R numbers blocks from 1.

use std::path::PathBuf;

use extendr_api::prelude::*;
use gmhclust_core::knn::folder::{begin, Digests, Folder, Manifest, Missing, SearchDescription};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::arguments::{self, Fields};
use crate::graph::{graph_of, graph_to_r};
use crate::job::Job;
use crate::results::r_integer;
use crate::rvalue::{self, Values};
use crate::vector;

/// Starts to write the manifest of a new folder, unless it has one by then.
/// @param folder raw, the name of the folder.
/// @param search list(rows, columns, among, k, metric, digests), made by search_parameters().
/// @param block_rows integer.
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_folder_begin(folder: Robj, search: List, block_rows: i32) -> Robj {
    let prepare = || {
        let path = path_of(&folder)?;
        let manifest = Manifest::new(search_of(&search)?, count(block_rows)?);
        Ok(move |_: &_| begin(&path, &manifest))
    };
    Job::start(0, prepare(), |()| Ok(rvalue::null())).into_r()
}

/// Starts to read the manifest of a folder.
/// @param folder raw, the name of the folder.
/// @param arg the name of the user's argument, for messages.
/// @return External pointer to the job. Its value is list(rows, columns, among, k, metric, digests,
///   block_rows, checksum): the arguments of job_folder_begin(), and the checksum of the manifest,
///   a string.
/// @noRd
#[extendr]
fn job_folder_open(folder: Robj, arg: String) -> Robj {
    let prepare = || {
        let path = path_of(&folder)?;
        Ok(move |_: &_| Folder::open(&path, &arg))
    };
    Job::start(0, prepare(), folder_to_r).into_r()
}

/// Starts to look for missing blocks in a folder, by the names and sizes of files.
/// @param folder,arg as in job_folder_open().
/// @param checksum the checksum of the manifest.
/// @return External pointer to the job. Its value is list(blocks, first, last): the number of
///   missing blocks, and the numbers of the first and last block of each run of missing ones.
/// @noRd
#[extendr]
fn job_folder_missing(folder: Robj, arg: String, checksum: String) -> Robj {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        Ok(move |_: &_| open()?.missing())
    };
    let to_r = |missing: Missing| {
        let numbers = |of: fn(&(usize, usize)) -> usize| {
            vector::integers(missing.runs.iter().map(|run| r_integer(of(run)) + 1))
        };
        rvalue::list([
            ("blocks", vector::integer(r_integer(missing.blocks))?),
            ("first", numbers(|run| run.0)?),
            ("last", numbers(|run| run.1)?),
        ])
    };
    Job::start(0, prepare(), to_r).into_r()
}

/// Starts to compare blocks of a folder with their checksums.
/// @param folder,arg,checksum as in job_folder_missing().
/// @param first,last integers, the first and the last of these blocks; last < first for none.
/// @return External pointer to the job. Its value is the numbers of those that are missing or
///   damaged.
/// @noRd
#[extendr]
fn job_folder_unfinished(
    folder: Robj,
    arg: String,
    checksum: String,
    first: i32,
    last: i32,
) -> Robj {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        let blocks = number_from_0(first)?..count(last)? as usize;
        Ok(move |monitor: &_| open()?.unfinished(blocks, monitor))
    };
    let to_r = |blocks: Vec<usize>| {
        let number = |block| r_integer(block) + 1;
        vector::integers(blocks.into_iter().map(number))
    };
    Job::start(0, prepare(), to_r).into_r()
}

/// Starts to write a block.
/// @param folder,arg,checksum as in job_folder_missing().
/// @param block integer.
/// @param index,distance matrices, as in the result of gknn().
/// @return External pointer to the job, whose value is NULL.
/// @noRd
#[extendr]
fn job_folder_write(
    folder: Robj,
    arg: String,
    checksum: String,
    block: i32,
    index: Robj,
    distance: Robj,
) -> Robj {
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        let block = number_from_0(block)?;
        let graph = graph_of(&index, &distance)?;
        Ok(move |monitor: &_| open()?.write(block, &graph, monitor))
    };
    Job::start(0, prepare(), |()| Ok(rvalue::null())).into_r()
}

/// Starts to read rows of a block.
/// @param folder,arg,checksum as in job_folder_missing().
/// @param block integer.
/// @param rows integers, numbers of rows within the block.
/// @return External pointer to the job. Its value is list(index, distance), as in the result of
///   gknn().
/// @noRd
#[extendr]
fn job_folder_read(folder: Robj, arg: String, checksum: String, block: i32, rows: Robj) -> Robj {
    let rows = Values::of(&rows, "rows");
    let rows_to_read = rows.as_ref().map_or(0, |rows| rows.len());
    let prepare = || {
        let open = opener(&folder, arg, checksum)?;
        let block = number_from_0(block)?;
        let rows: CoreResult<Vec<usize>> = rows?.iter().copied().map(number_from_0).collect();
        let rows = rows?;
        Ok(move |monitor: &_| open()?.read(block, &rows, monitor))
    };
    Job::start(rows_to_read, prepare(), graph_to_r).into_r()
}

/// A function that opens a folder, and fails if its manifest no longer has this checksum.
fn opener(
    folder: &Robj,
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

/// A path from the system's encoding: arbitrary bytes on Unix, UTF-8 elsewhere.
pub fn path_of(bytes: &Robj) -> CoreResult<PathBuf> {
    let bytes = Values::<u8>::of(bytes, "folder")?;
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(std::ffi::OsStr::from_bytes(&bytes).into())
    }
    #[cfg(not(unix))]
    match std::str::from_utf8(&bytes) {
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
    let mut names = vec!["x"];
    let mut values = vec![digests.x];
    if let Some(query) = digests.query {
        names.push("query");
        values.push(query);
    }
    let (names, values) = (rvalue::strings(&names)?, rvalue::strings(&values)?);
    let digests = rvalue::set_attribute(values, c"names", &names);
    let no_memory = || CoreError::Memory("R has no memory for names".into());
    let metric = rvalue::list([
        ("name", rvalue::string(&metric.name)?),
        ("p", vector::double(metric.p)?),
        ("absolute", rvalue::logical(metric.absolute)),
        ("zero_over_zero", rvalue::string(&metric.zero_over_zero)?),
    ])?;
    let number = |count: u32| vector::integer(r_integer(count));
    rvalue::list([
        ("rows", number(search.rows)?),
        ("columns", number(search.columns)?),
        ("among", number(search.among)?),
        ("k", number(search.k)?),
        ("metric", metric),
        ("digests", digests.ok_or_else(no_memory)?),
        ("block_rows", number(block_rows)?),
        ("checksum", rvalue::string(&folder.checksum)?),
    ])
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
