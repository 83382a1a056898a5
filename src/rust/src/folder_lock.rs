//! The lock of a folder of neighbours, so that one call of gknn() at a time writes it.
//!
//! The lock is a file in the folder. While its holder runs, the system keeps it locked (`flock()`),
//! and releases it when the holder ends, however it ends. So a lock file that a killed process has
//! left behind does not block the folder. The file names its holder, for two cases:
//! * File systems that cannot lock files: then the lock counts as held if its process exists.
//! * File systems that several machines share, whose locks may not reach other machines: then a
//!   lock of another machine counts as held, because this machine cannot see whether it is. The
//!   error says which file to delete.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use extendr_api::prelude::*;
use gmhclust_core::knn::folder::{is_full, unwritable};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::folder::path_of;
use crate::job::Job;
use crate::rvalue::{self, Kind, Pointer};

/// The name of the lock file; R/gknn_files.R has the same name.
const NAME: &str = "gmhclust.lock";

/// The first line of a lock file. A file with another first line is not touched.
const TITLE: &str = "lock of gmhclust::gknn()";

/// Largest size of a lock file, in bytes; more is not read.
const MOST_BYTES: u64 = 4096;

/// Largest length of the name of a machine, in bytes, with its final zero: POSIX allows 255.
const HOST_BYTES: usize = 256;

/// Number of attempts to lock a file that other processes remove at the same moment.
const ATTEMPTS: usize = 100;

extern "C" {
    /// See lock.c.
    fn gmhclust_lock_file(file: isize) -> i32;
    fn gmhclust_unlock_file(file: isize);
    fn gmhclust_is_local(file: isize) -> i32;
    fn gmhclust_process_exists(process: u32) -> i32;
    fn gmhclust_host_name(name: *mut u8, size: usize) -> i32;
}

/// The value of gmhclust_lock_file() if another process has locked the file.
const HELD: i32 = 1;
/// The value of gmhclust_lock_file() if the system cannot lock the file.
const UNSUPPORTED: i32 = 2;

/// A locked folder. Dropping the value releases the lock.
pub struct FolderLock {
    file: File,
    path: PathBuf,
    /// The process that took the lock. A process forked from it does not release it.
    process: u32,
}

/// A lock that R holds; `None` after folder_unlock().
pub struct HeldLock(Option<FolderLock>);

impl Kind for HeldLock {
    const TAG: &'static CStr = c"gmhclust lock";
}

/// The process that wrote a lock file.
#[derive(Debug, PartialEq)]
struct Holder {
    process: u32,
    host: String,
    /// The system's identifier of the last start of its machine; empty if there is none.
    boot: String,
}

impl Holder {
    fn this_process() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            process: std::process::id(),
            host: host_name(),
            boot: boot.trim().into(),
        }
    }

    fn text(&self) -> String {
        let Self {
            process,
            host,
            boot,
        } = self;
        format!("{TITLE}\nprocess {process}\nmachine {host}\nstart {boot}\n")
    }

    /// The holder that wrote this text.
    fn of(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(TITLE)?.strip_prefix('\n')?.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            process: value("process")?.parse().ok()?,
            host: value("machine")?.into(),
            boot: value("start")?.into(),
        })
    }

    /// Whether this process has ended, as far as `here` can know. `locks` says that the file system
    /// supports locks, and that the lock of the file was free; `local` says that the process ran on
    /// this machine.
    fn has_ended(&self, here: &Self, locks: bool, local: bool) -> bool {
        let same_start = !self.boot.is_empty() && self.boot == here.boot;
        let same_host = self.host == here.host;
        if locks {
            return same_start || same_host || local;
        }
        if same_start || (same_host && here.boot.is_empty()) {
            // SAFETY: the function accepts any number.
            return unsafe { gmhclust_process_exists(self.process) } == 0;
        }
        // If the process ran on this machine, the machine was restarted since.
        same_host
    }
}

impl FolderLock {
    /// Locks a folder; `arg` is the caller's name of it. `None` for a folder in which this process
    /// may not write; a complete search can still be read there.
    ///
    /// # Errors
    /// `Error::Input` if another process holds the lock, or the system refuses; `Error::Memory` if
    /// the disk is full.
    pub fn take(folder: &Path, arg: &str) -> CoreResult<Option<Self>> {
        let path = folder.join(NAME);
        let refused = |error: &io::Error| {
            if is_full(error) {
                unwritable(&path, error)
            } else {
                CoreError::Input(format!("cannot lock {}: {error}", path.display()))
            }
        };
        for _ in 0..ATTEMPTS {
            // A symbolic link may lead out of the folder.
            match fs::symlink_metadata(&path) {
                Ok(found) if !found.is_file() => return Err(foreign(&path)),
                _ => (),
            }
            let mut options = OpenOptions::new();
            let opened = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let mut file = match opened {
                Ok(file) => file,
                Err(error) => match error.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => return Ok(None),
                    _ => return Err(refused(&error)),
                },
            };
            // SAFETY: the file is open.
            let state = unsafe { gmhclust_lock_file(descriptor(&file)) };
            let text = content(&mut file).map_err(|error| refused(&error))?;
            if state == HELD {
                return Err(in_use(arg, Holder::of(&text).as_ref()));
            }
            // The holder may have removed the file after it was opened here.
            if !is_at(&file, &path) {
                continue;
            }
            let here = Holder::this_process();
            if !text.is_empty() {
                let Some(holder) = Holder::of(&text) else {
                    return Err(foreign(&path));
                };
                // SAFETY: the file is open.
                let local = unsafe { gmhclust_is_local(descriptor(&file)) } == 1;
                if !holder.has_ended(&here, state != UNSUPPORTED, local) {
                    return Err(unknown_state(arg, &holder, &path));
                }
            }
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(here.text().as_bytes()))
                .and_then(|()| file.sync_all());
            let lock = Self {
                file,
                process: here.process,
                path: path.clone(),
            };
            return match written {
                Ok(()) => Ok(Some(lock)),
                Err(error) => Err(refused(&error)),
            };
        }
        Err(in_use(arg, None))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        // The file is removed before it is unlocked: a process that then locks it sees that it is
        // gone.
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
        // SAFETY: the file is open.
        unsafe { gmhclust_unlock_file(descriptor(&self.file)) };
    }
}

/// The text of a lock file, or the beginning of a larger file.
fn content(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn in_use(arg: &str, holder: Option<&Holder>) -> CoreError {
    let by = holder.map_or(String::new(), |holder| {
        format!(
            ", in process {} on machine \"{}\"",
            holder.process, holder.host
        )
    });
    CoreError::Input(format!(
        "`{arg}` is in use by another call of gknn(){by}; wait until it ends, or use another folder"
    ))
}

/// The error for a lock whose holder this machine cannot see.
fn unknown_state(arg: &str, holder: &Holder, path: &Path) -> CoreError {
    CoreError::Input(format!(
        "`{arg}` is in use by another call of gknn(), in process {} on machine \"{}\"; wait until \
         it ends, or, if that process does not exist any more, delete {}",
        holder.process,
        holder.host,
        path.display()
    ))
}

fn foreign(path: &Path) -> CoreError {
    CoreError::Input(format!(
        "{} is no lock that gknn() wrote; use another folder",
        path.display()
    ))
}

fn host_name() -> String {
    let mut name = [0; HOST_BYTES];
    // SAFETY: the function writes at most this many bytes.
    let failed = unsafe { gmhclust_host_name(name.as_mut_ptr(), name.len()) } != 0;
    let length = name.iter().position(|&byte| byte == 0);
    match length {
        Some(length) if !failed => String::from_utf8_lossy(&name[..length]).replace('\n', " "),
        _ => "unknown".into(),
    }
}

/// The system's number of an open file.
#[cfg(unix)]
fn descriptor(file: &File) -> isize {
    std::os::fd::AsRawFd::as_raw_fd(file) as isize
}

#[cfg(windows)]
fn descriptor(file: &File) -> isize {
    std::os::windows::io::AsRawHandle::as_raw_handle(file) as isize
}

/// Whether an open file is still the file at this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Windows keeps the name of a file while a process has it open.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Starts to lock a folder for writing.
/// @param folder raw, the name of the folder.
/// @param arg the name of the user's argument, for messages.
/// @return External pointer to the job. Its value is an external pointer to the lock, which
///   folder_unlock() releases; NULL for a folder in which this process may not write.
/// @noRd
#[extendr]
fn job_folder_lock(folder: Robj, arg: String) -> Robj {
    let prepare = || {
        let path = path_of(&folder)?;
        Ok(move |_: &_| FolderLock::take(&path, &arg))
    };
    let to_r = |lock: Option<FolderLock>| match lock {
        Some(lock) => Pointer::make(HeldLock(Some(lock))),
        None => Ok(rvalue::null()),
    };
    Job::start(0, prepare(), to_r).into_r()
}

/// Releases a lock.
/// @param lock the external pointer that job_folder_lock() returned.
/// @return NULL.
/// @noRd
#[extendr]
fn folder_unlock(mut lock: Pointer<HeldLock>) {
    lock.0 = None;
}

extendr_module! {
    mod folder_lock;
    fn job_folder_lock;
    fn folder_unlock;
}
