//! Files that are read with a limit on their size, and written as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::checksum::Checksum;
use crate::error::{Error, Result};

/// The size of a regular file in bytes. A link is rejected, since it may lead out of the folder.
///
/// # Errors
/// The system's error, or an error if the file is not regular.
pub fn regular_size(path: &Path) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() {
        Ok(found.len())
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// The bytes of a file of at most `most` bytes.
///
/// # Errors
/// The system's error, or an error if the file is longer.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if regular_size(path)? > most {
        return Err(io::Error::other("it is too long"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that is being written under a temporary name.
pub struct Unfinished {
    file: File,
    sum: Checksum,
    path: PathBuf,
    temporary: PathBuf,
    /// Whether the system has lost the file, see [`is_lost`].
    lost: bool,
}

/// Whether an error says that the file is gone: another process has deleted it, here or, by a
/// network file system, on another machine.
fn is_lost(error: &io::Error) -> bool {
    const STALE: i32 = if cfg!(target_os = "linux") { 116 } else { 70 };
    error.kind() == io::ErrorKind::NotFound || cfg!(unix) && error.raw_os_error() == Some(STALE)
}

impl Unfinished {
    fn new(folder: &Path, name: &str) -> Result<Self> {
        /// Makes temporary names unique within the process.
        static COUNT: AtomicU64 = AtomicU64::new(0);

        let path = folder.join(name);
        loop {
            // The time, since a process of another machine or container may have this number, too.
            let time = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = time.map_or(0, |time| u64::from(time.subsec_nanos()));
            let number = time * 1_000_000 + COUNT.fetch_add(1, Ordering::Relaxed) % 1_000_000;
            let unique = format!("writing-{}-{number}-{name}", std::process::id());
            let temporary = folder.join(unique);
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => {
                    return Ok(Self {
                        file,
                        sum: Checksum::default(),
                        path,
                        temporary,
                        lost: false,
                    })
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(unwritable(&path, &error)),
            }
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `Error::Input` if the system refuses; `Error::Memory` if the disk is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.file.write_all(bytes).map_err(|error| {
            self.lost = is_lost(&error);
            unwritable(&self.path, &error)
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Fails after the rename, when there is no file to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Largest number of attempts to write a file that vanishes before it gets its name: another
/// process may delete it as the leftover of a killed process.
const ATTEMPTS: usize = 5;

/// Writes a file as a whole or not at all, by a rename; returns its checksum. The file is on the
/// disk before it gets its name, and the name is on the disk before this function returns. So
/// neither a crash nor a power loss leaves a partial file under the final name.
///
/// # Errors
/// `Error::Input` if the system refuses; `Error::Memory` if the disk is full; the errors of `fill`.
pub fn write_whole(
    folder: &Path,
    name: &str,
    fill: impl Fn(&mut Unfinished) -> Result<()>,
) -> Result<String> {
    let mut attempt = 1;
    loop {
        let mut file = Unfinished::new(folder, name)?;
        let written = fill(&mut file).and_then(|()| {
            sync(&file.file)
                .and_then(|()| fs::rename(&file.temporary, &file.path))
                .and_then(|()| sync_folder(folder))
                .map_err(|error| {
                    file.lost = is_lost(&error);
                    unwritable(&file.path, &error)
                })
        });
        match written {
            Ok(()) => return Ok(std::mem::take(&mut file.sum).digits()),
            Err(_) if file.lost && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// As [`write_whole`], unless the file exists already, which then stays. If several processes call
/// this function at the same time, on several machines too, one writes the file. On a file system
/// without hard links, each may write it and the last one stays, so all must write the same bytes.
///
/// # Errors
/// As [`write_whole`].
pub fn write_new(
    folder: &Path,
    name: &str,
    fill: impl Fn(&mut Unfinished) -> Result<()>,
) -> Result<()> {
    let path = folder.join(name);
    let mut file = Unfinished::new(folder, name)?;
    fill(&mut file)?;
    sync(&file.file).map_err(|error| unwritable(&path, &error))?;
    // Unlike a rename, a link does not replace a file.
    match fs::hard_link(&file.temporary, &path) {
        Ok(()) => sync_folder(folder).map_err(|error| unwritable(&path, &error)),
        Err(_) if fs::symlink_metadata(&path).is_ok() => Ok(()),
        // The file system has no links, or the temporary file vanished.
        Err(_) => write_whole(folder, name, fill).map(|_| ()),
    }
}

/// Waits until the system has written an open file or folder to the disk.
fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|synced| synced.push(file.metadata().unwrap().is_dir()));
    file.sync_all()
}

/// Waits until the system has written the names in a folder to the disk.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match sync(&File::open(folder)?) {
        // Some network file systems write names at once, and refuse this call.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Does nothing: Windows can neither open a folder in this way, nor write its names by a call.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether the disk is full, or the user's quota on it is used up.
pub fn is_full(error: &io::Error) -> bool {
    /// EDQUOT of Linux and of macOS. Its `ErrorKind` is newer than the Rust that the package needs.
    const QUOTA: [i32; 2] = [122, 69];

    let has_quota = || {
        error
            .raw_os_error()
            .is_some_and(|code| QUOTA.contains(&code))
    };
    error.kind() == io::ErrorKind::StorageFull || cfg!(unix) && has_quota()
}

/// The error of a file that cannot be written. A full disk is no fault of the caller's arguments.
pub fn unwritable(path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot write {}: {error}", path.display());
    if is_full(error) {
        Error::Memory(message)
    } else {
        Error::Input(message)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        /// For each write to the disk, in order: whether it was of a folder.
        pub static SYNCED: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_file_is_on_the_disk_before_its_name() {
        let name = format!("gmhclust-sync-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        SYNCED.take();
        write_whole(&folder, "a", |file| file.write(b"1")).unwrap();
        let expected: &[bool] = if cfg!(unix) { &[false, true] } else { &[false] };
        assert_eq!(SYNCED.take(), expected);
        assert_eq!(fs::read(folder.join("a")).unwrap(), b"1");
        write_new(&folder, "b", |file| file.write(b"2")).unwrap();
        assert_eq!(SYNCED.take(), expected);
        // A file that is there stays.
        write_new(&folder, "b", |file| file.write(b"3")).unwrap();
        assert_eq!(fs::read(folder.join("b")).unwrap(), b"2");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_vanishes_is_written_again() {
        let name = format!("gmhclust-vanish-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let left = std::cell::Cell::new(ATTEMPTS - 1);
        let fill = |file: &mut Unfinished| {
            if left.get() > 0 {
                left.set(left.get() - 1);
                fs::remove_file(&file.temporary).unwrap();
            }
            file.write(b"1")
        };
        write_whole(&folder, "a", fill).unwrap();
        assert_eq!(fs::read(folder.join("a")).unwrap(), b"1");
        left.set(ATTEMPTS);
        assert!(write_whole(&folder, "b", fill).is_err());
        left.set(1);
        write_new(&folder, "c", fill).unwrap();
        assert_eq!(fs::read(folder.join("c")).unwrap(), b"1");
        fs::remove_dir_all(&folder).unwrap();
    }
}
