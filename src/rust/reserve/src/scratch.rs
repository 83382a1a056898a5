//! Observations in a scratch file, for data that would not fit in memory.
//!
//! The file is written from front to back, so that a full disk is an error here, and then mapped,
//! so that the system reads pages when they are needed, and takes them back when memory is short.
//! If the disk fails then, the system ends the process.
//! No other process can find the file: its name goes when it is made, and its room when it is
//! closed, also if R is killed.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use gmhclust_core::matrix::copy_rows;
use gmhclust_core::observations::Storage;
use gmhclust_core::{memory, Error, Result};

/// Rows that are gathered in memory and then written together: this share of all values, and at
/// least this number of bytes. Rows come from all over the file, so each time much of it is read.
/// More rows take more memory, fewer more time.
const GATHERED_SHARE: usize = 16;
const LEAST_GATHERED: usize = 32 << 20;

/// A scratch file that is being written.
#[derive(Debug)]
pub struct ScratchWriter {
    file: File,
    folder: PathBuf,
    values: usize,
}

impl ScratchWriter {
    /// An empty scratch file in a folder.
    ///
    /// # Errors
    /// `Error::Input` if no file can be made there.
    pub fn new(folder: &Path) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".gmhclust-{}-{count}", process::id()));
        let file = system::create(&path).map_err(|error| {
            let shown = folder.display();
            Error::Input(format!("no scratch file can be made in {shown}: {error}"))
        })?;
        Ok(Self {
            file,
            folder: folder.into(),
            values: 0,
        })
    }

    /// Appends values.
    ///
    /// # Errors
    /// `Error::Memory` if the disk is full or does not work.
    pub fn append(&mut self, values: &[f64]) -> Result<()> {
        let written = self.file.write_all(bytemuck::cast_slice(values));
        self.values += values.len();
        written.map_err(|error| {
            let bytes = memory::in_words((size_of::<f64>() * self.values) as f64);
            let shown = self.folder.display();
            let message = format!("a scratch file of {bytes} or more in {shown}: {error}");
            Error::Memory(message)
        })
    }

    /// The values as they were written.
    ///
    /// # Errors
    /// `Error::Memory` if the system cannot map the file.
    pub fn finish(self) -> Result<Scratch> {
        let bytes = size_of::<f64>() * self.values;
        let mapped = if bytes == 0 {
            Ok(NonNull::dangling())
        } else {
            system::map(&self.file, bytes)
        };
        let first = mapped.map_err(|error| {
            let bytes = memory::in_words(bytes as f64);
            Error::Memory(format!(
                "a scratch file of {bytes} cannot be mapped: {error}"
            ))
        })?;
        Ok(Scratch {
            first: first.cast(),
            values: self.values,
            folder: self.folder,
            _file: self.file,
        })
    }
}

/// Values in a scratch file.
#[derive(Debug)]
pub struct Scratch {
    first: NonNull<f64>,
    values: usize,
    folder: PathBuf,
    /// Stays open as long as the mapping.
    _file: File,
}

// SAFETY: the mapping is only read.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl Storage for Scratch {
    fn values(&self) -> &[f64] {
        // SAFETY: the file has this many values, was mapped with this length, and nobody else has
        // its name, so nobody makes it shorter; a mapping begins at a page, so it is aligned.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.values) }
    }

    fn take_rows(&self, rows: &[u32], columns: usize) -> Result<Arc<dyn Storage>> {
        let mut writer = ScratchWriter::new(&self.folder)?;
        let least = LEAST_GATHERED / (size_of::<f64>() * columns.max(1));
        let at_a_time = (rows.len() / GATHERED_SHARE).max(least).max(1);
        let room = at_a_time.min(rows.len()) * columns;
        let mut gathered = memory::zeros("rows of a scratch file need", room)?;
        for some in rows.chunks(at_a_time) {
            let gathered = &mut gathered[..some.len() * columns];
            copy_rows(self.values(), columns, some, gathered);
            writer.append(gathered)?;
        }
        Ok(Arc::new(writer.finish()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.values > 0 {
            // SAFETY: mapped with this length, and no slice of it is left.
            unsafe { system::unmap(self.first.cast(), size_of::<f64>() * self.values) }
        }
    }
}

#[cfg(unix)]
mod system {
    use std::ffi::c_int;
    use std::fs::{remove_file, OpenOptions};
    use std::os::fd::AsRawFd;

    use super::*;

    extern "C" {
        fn mmap(
            at: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: isize,
        ) -> *mut c_void;
        fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    }

    // Linux, macOS and the BSDs agree on these.
    const PROT_READ: c_int = 1;
    const MAP_SHARED: c_int = 1;

    /// A new file without a name.
    pub fn create(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        remove_file(path)?;
        Ok(file)
    }

    pub fn map(file: &File, bytes: usize) -> io::Result<NonNull<c_void>> {
        // SAFETY: a new mapping of an open file, at a place that the system chooses.
        let at = unsafe {
            let at = std::ptr::null_mut();
            mmap(at, bytes, PROT_READ, MAP_SHARED, file.as_raw_fd(), 0)
        };
        // MAP_FAILED is -1.
        match NonNull::new(at) {
            Some(at) if at.as_ptr() as isize != -1 => Ok(at),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// # Safety
    /// `at` is what [`map`] returned for this length, and nobody reads it any more.
    pub unsafe fn unmap(at: NonNull<c_void>, bytes: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { munmap(at.as_ptr(), bytes) };
    }
}

#[cfg(windows)]
mod system {
    use std::fs::OpenOptions;
    use std::os::windows::fs::OpenOptionsExt;
    use std::os::windows::io::AsRawHandle;

    use super::*;

    #[link(name = "kernel32")]
    extern "system" {
        fn CreateFileMappingW(
            file: *mut c_void,
            security: *const c_void,
            protection: u32,
            high: u32,
            low: u32,
            name: *const u16,
        ) -> *mut c_void;
        fn MapViewOfFile(
            mapping: *mut c_void,
            access: u32,
            high: u32,
            low: u32,
            bytes: usize,
        ) -> *mut c_void;
        fn UnmapViewOfFile(at: *const c_void) -> i32;
        fn CloseHandle(handle: *mut c_void) -> i32;
    }

    const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
    const PAGE_READONLY: u32 = 2;
    const FILE_MAP_READ: u32 = 4;

    /// A new file that goes when it is closed.
    pub fn create(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options
            .share_mode(0)
            .custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
        options.open(path)
    }

    pub fn map(file: &File, bytes: usize) -> io::Result<NonNull<c_void>> {
        let (handle, none) = (file.as_raw_handle(), std::ptr::null());
        // SAFETY: a new mapping of an open file; the view keeps the mapping after its handle.
        let at = unsafe {
            let mapping = CreateFileMappingW(handle, none, PAGE_READONLY, 0, 0, none.cast());
            if mapping.is_null() {
                return Err(io::Error::last_os_error());
            }
            let at = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes);
            CloseHandle(mapping);
            at
        };
        NonNull::new(at).ok_or_else(io::Error::last_os_error)
    }

    /// # Safety
    /// `at` is what [`map`] returned, and nobody reads it any more.
    pub unsafe fn unmap(at: NonNull<c_void>, _bytes: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { UnmapViewOfFile(at.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use gmhclust_core::matrix::RowSlices;
    use gmhclust_core::Observations;

    use super::*;

    #[test]
    fn rows_are_what_was_written_and_no_file_is_left() {
        let folder = std::env::temp_dir().join(format!("gmhclust-scratch-{}", process::id()));
        std::fs::create_dir(&folder).unwrap();
        let files = || std::fs::read_dir(&folder).unwrap().count();
        let values: Vec<f64> = (0..3000).map(f64::from).collect();
        let mut writer = ScratchWriter::new(&folder).unwrap();
        values
            .chunks(700)
            .for_each(|some| writer.append(some).unwrap());
        let x = Observations::stored(Arc::new(writer.finish().unwrap()), 3, 2999.0).unwrap();
        assert_eq!((x.dim(), x.are_stored()), ((1000, 3), true));
        assert_eq!(x.values(), values);
        let taken = x.take_rows(&[999, 0, 500]).unwrap();
        assert!(taken.are_stored());
        let expected = [
            2997.0, 2998.0, 2999.0, 0.0, 1.0, 2.0, 1500.0, 1501.0, 1502.0,
        ];
        assert_eq!(taken.values(), expected);
        if cfg!(unix) {
            assert_eq!(files(), 0);
        }
        drop((x, taken));
        assert_eq!(files(), 0);
        std::fs::remove_dir(&folder).unwrap();
        let message = ScratchWriter::new(&folder).unwrap_err().to_string();
        assert!(
            message.starts_with("no scratch file can be made in "),
            "{message}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let folder = PathBuf::from("/dev");
        let mut writer = ScratchWriter {
            file,
            folder,
            values: 0,
        };
        let error = writer.append(&[0.0; 1000]).unwrap_err();
        assert_eq!(error.kind(), "memory");
        let message = error.to_string();
        assert!(
            message.contains("or more in /dev: No space left"),
            "{message}"
        );
    }
}
