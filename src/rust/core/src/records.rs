//! Records of numbers in a file: the events of FCS files, the rows of .npy files. A place is the
//! position of a value in its record, from 0.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::memory;
use crate::monitor::Monitor;
use crate::tasks::run_from_queue;

/// Number of bytes that a task reads, unless [`FEWEST`] records take more. Only the time depends on
/// it.
const BYTES_AT_A_TIME: usize = 1 << 20;

/// Smallest number of records that a task reads, since each task keeps 24 bytes for each place.
const FEWEST: usize = 8;

/// The position and the format of records in a file.
#[derive(Debug, Clone)]
pub struct Records {
    path: PathBuf,
    /// The first byte of the first record.
    begin: u64,
    /// Number of values of a record.
    width: usize,
    /// The number of all records if the file is column-major: all values of the first place, then
    /// of the next. `None` if it is row-major, record by record.
    column_major_records: Option<usize>,
    kind: Kind,
    is_big_endian: bool,
}

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    U8,
    U16,
    U32,
    I8,
    I16,
    I32,
    F32,
    F64,
}

impl Kind {
    /// The type of real or of signed or unsigned whole numbers with this number of bytes.
    fn new(is_real: bool, is_signed: bool, bytes: usize) -> Option<Self> {
        Some(match (is_real, is_signed, bytes) {
            (true, _, 4) => Self::F32,
            (true, _, 8) => Self::F64,
            (false, false, 1) => Self::U8,
            (false, false, 2) => Self::U16,
            (false, false, 4) => Self::U32,
            (false, true, 1) => Self::I8,
            (false, true, 2) => Self::I16,
            (false, true, 4) => Self::I32,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// The format of the values of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Whether the values are real numbers; otherwise, they are whole numbers.
    pub is_real: bool,
    /// Whether whole numbers are signed.
    pub is_signed: bool,
    /// Number of bytes of a value.
    pub bytes: usize,
    pub is_big_endian: bool,
}

/// A task: the values that one read of the file gives.
struct ReadTask<'a> {
    /// The number of its first record, from 0.
    number: usize,
    /// For each place: its index in the request, and where to write its values.
    places: Vec<(usize, &'a mut [f64])>,
}

impl Records {
    /// Records of `width` values, from byte `begin` of a file on.
    ///
    /// # Errors
    /// `Error::Input` for records without values, and for a format other than whole numbers of 8,
    /// 16 or 32 bits or real numbers of 32 or 64 bits.
    pub fn new(path: PathBuf, begin: u64, width: usize, format: Format) -> Result<Self> {
        let kind = Kind::new(format.is_real, format.is_signed, format.bytes);
        match kind {
            Some(kind) if width > 0 => Ok(Self {
                path,
                begin,
                width,
                column_major_records: None,
                kind,
                is_big_endian: format.is_big_endian,
            }),
            _ => Err(Error::Input("records have no such format".into())),
        }
    }

    /// The same records in a column-major file, which has all values of the first place, then of
    /// the next. `records` is the number of all records in the file.
    pub fn column_major_records(self, records: usize) -> Self {
        Self {
            column_major_records: Some(records),
            ..self
        }
    }

    /// Reads `count` records from number `first` on, from 0. Writes their values at `places` to
    /// `values`: `count` values for the first of `places`, then for the next. `change(at, some)`
    /// may change some decoded values of `places[at]`. Returns false, and incomplete values, if the
    /// file ends before these records.
    ///
    /// # Errors
    /// `Error::Input` if records have fewer places, or if the file cannot be read; `Error::Memory`,
    /// and `Error::Interrupt` when the monitor says stop.
    pub fn read(
        &self,
        (first, count): (usize, usize),
        places: &[usize],
        values: &mut [f64],
        change: impl Fn(usize, &mut [f64]) + Sync,
        cpu: &Cpu,
        monitor: &Monitor,
    ) -> Result<bool> {
        if places.iter().any(|&place| place >= self.width) {
            return Err(Error::Input("records have no such places".into()));
        }
        let size = self.kind.bytes();
        let row = match self.column_major_records {
            Some(_) => size,
            None => self.width * size,
        };
        let at_a_time = (BYTES_AT_A_TIME / row).max(FEWEST);
        let mut tasks: Vec<ReadTask> = Vec::new();
        for (at, values) in values.chunks_mut(count.max(1)).enumerate() {
            for (task, part) in values.chunks_mut(at_a_time).enumerate() {
                let number = first + task * at_a_time;
                if self.column_major_records.is_some() {
                    let places = vec![(at, part)];
                    tasks.push(ReadTask { number, places });
                    continue;
                }
                if task == tasks.len() {
                    let places = Vec::with_capacity(places.len());
                    tasks.push(ReadTask { number, places });
                }
                tasks[task].places.push((at, part));
            }
        }
        let is_short = AtomicBool::new(false);
        let mut buffers = vec![Vec::new(); cpu.threads()];
        cpu.install(|| {
            run_from_queue(tasks, &mut buffers, |buffer, part| {
                let ReadTask {
                    number,
                    places: parts,
                } = part;
                monitor.check()?;
                let records = parts.first().map_or(0, |(_, part)| part.len());
                if buffer.len() < records * row {
                    *buffer = memory::zeros("records need", records * row)?;
                }
                let bytes = &mut buffer[..records * row];
                let before = match (self.column_major_records, parts.first()) {
                    (Some(all), Some(&(at, _))) => (places[at] * all + number) * size,
                    _ => number * row,
                };
                match read_at(&self.path, self.begin + before as u64, bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        is_short.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                    Err(error) => {
                        let file = self.path.display();
                        return Err(Error::Input(format!(
                            "`x` names the file \"{file}\", which cannot be read: {error}"
                        )));
                    }
                }
                for (at, values) in parts {
                    let place = match self.column_major_records {
                        Some(_) => 0,
                        None => places[at],
                    };
                    self.decode(&bytes[place * size..], row, values);
                    change(at, values);
                }
                Ok(())
            })
        })?;
        Ok(!is_short.into_inner())
    }

    /// Decodes the value at the start of `bytes`, and one more every `record` bytes.
    fn decode(&self, bytes: &[u8], record: usize, values: &mut [f64]) {
        macro_rules! each {
            ($type:ty) => {
                if self.is_big_endian {
                    each(bytes, record, values, |bytes| {
                        <$type>::from_be_bytes(bytes).into()
                    })
                } else {
                    each(bytes, record, values, |bytes| {
                        <$type>::from_le_bytes(bytes).into()
                    })
                }
            };
        }
        match self.kind {
            Kind::U8 => each!(u8),
            Kind::U16 => each!(u16),
            Kind::U32 => each!(u32),
            Kind::I8 => each!(i8),
            Kind::I16 => each!(i16),
            Kind::I32 => each!(i32),
            Kind::F32 => each!(f32),
            Kind::F64 => each!(f64),
        }
    }
}

fn read_at(path: &Path, begin: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(begin))?;
    file.read_exact(bytes)
}

/// Writes the result of `number` for the first bytes of each record of `record` bytes to `values`.
fn each<const BYTES: usize>(
    bytes: &[u8],
    record: usize,
    values: &mut [f64],
    number: impl Fn([u8; BYTES]) -> f64,
) {
    for (value, record) in values.iter_mut().zip(bytes.chunks(record)) {
        *value = number(record[..BYTES].try_into().expect("has as many bytes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn read(records: &Records, rows: (usize, usize), places: &[usize]) -> Result<Option<Vec<f64>>> {
        let mut values = vec![f64::NAN; rows.1 * places.len()];
        let (cpu, monitor) = (Cpu::new(2).unwrap(), Monitor::default());
        let change = |at: usize, values: &mut [f64]| {
            values
                .iter_mut()
                .for_each(|value| *value += 100.0 * at as f64);
        };
        let is_whole = records.read(rows, places, &mut values, change, &cpu, &monitor)?;
        Ok(is_whole.then_some(values))
    }

    #[test]
    fn values_of_all_formats_are_read() {
        let bytes: Vec<u8> = (0..64).map(|i| ((i * 37 + 130) % 256) as u8).collect();
        let path = file("formats", &[&[9, 9, 9], &bytes[..]].concat());
        macro_rules! compare {
            ($type:ty, $is_real:literal, $is_signed:literal) => {
                for is_big_endian in [false, true] {
                    let size = size_of::<$type>();
                    let format = Format {
                        is_real: $is_real,
                        is_signed: $is_signed,
                        bytes: size,
                        is_big_endian,
                    };
                    let records = Records::new(path.clone(), 3, 2, format).unwrap();
                    let expected = |place: usize| {
                        let row = |row: usize| {
                            let at = (2 * row + place) * size;
                            let bytes = bytes[at..at + size].try_into().unwrap();
                            let value = match is_big_endian {
                                true => <$type>::from_be_bytes(bytes),
                                false => <$type>::from_le_bytes(bytes),
                            };
                            f64::from(value)
                        };
                        (1..4).map(row).collect::<Vec<f64>>()
                    };
                    let second = expected(0).into_iter().map(|value| value + 100.0);
                    let both: Vec<f64> = expected(1).into_iter().chain(second).collect();
                    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits);
                    let found = read(&records, (1, 3), &[1, 0]).unwrap().unwrap();
                    assert!(bits(found).eq(bits(both)));
                }
            };
        }
        compare!(u8, false, false);
        compare!(u16, false, false);
        compare!(u32, false, false);
        compare!(i8, false, true);
        compare!(i16, false, true);
        compare!(i32, false, true);
        compare!(f32, true, false);
        compare!(f64, true, false);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn many_records_are_read_in_parts_and_missing_ones_noticed() {
        let count = BYTES_AT_A_TIME;
        let bytes: Vec<u8> = (0..3 * count).map(|i| (i % 251) as u8).collect();
        let path = file("parts", &bytes);
        let format = Format {
            is_real: false,
            is_signed: false,
            bytes: 1,
            is_big_endian: false,
        };
        let records = Records::new(path.clone(), 0, 3, format).unwrap();
        let found = read(&records, (5, count - 5), &[2]).unwrap().unwrap();
        let expected = (5..count).map(|row| ((3 * row + 2) % 251) as f64);
        assert!(found.into_iter().eq(expected));
        assert_eq!(read(&records, (5, count), &[2]), Ok(None));
        let by_place = records.clone().column_major_records(count);
        let found = read(&by_place, (5, count - 5), &[2, 1]).unwrap().unwrap();
        let place = |place: usize| (5..count).map(move |row| ((place * count + row) % 251) as f64);
        let expected = place(2).chain(place(1).map(|value| value + 100.0));
        assert!(found.into_iter().eq(expected));
        assert_eq!(read(&by_place, (5, count), &[2]), Ok(None));
        assert_eq!(read(&records, (2, 0), &[0]), Ok(Some(Vec::new())));
        assert!(read(&records, (0, 1), &[3]).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(read(&records, (0, 1), &[0]).is_err());
        assert!(Records::new(path.clone(), 0, 0, format).is_err());
        assert!(Records::new(path, 0, 1, Format { bytes: 8, ..format }).is_err());
    }
}
