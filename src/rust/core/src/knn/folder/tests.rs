//! Tests that written blocks are read back, and that damaged or foreign files are rejected.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file_names::{distance_file, index_file, sums_file};
use super::*;
use crate::checksum::sha256;
use crate::error::{Error, Result};
use crate::knn::graph::Graph;
use crate::monitor::Monitor;
use crate::testing::Random;

/// A folder that is removed at the end of the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gmhclust-folder-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

const K: usize = 2;

/// 11 rows in blocks of 4; the last block has 3.
fn manifest() -> Manifest {
    let search = SearchDescription {
        rows: 11,
        columns: 3,
        among: 11,
        k: K as u32,
        metric: MetricOptions {
            name: "minkowski".into(),
            // A number that a parser that rounds twice gets wrong.
            p: 0.1 + 0.2,
            absolute: false,
            zero_over_zero: "omit".into(),
        },
        digests: Digests {
            x: "0123456789abcdef".into(),
            query: None,
        },
    };
    Manifest::new(search, 4)
}

fn neighbours(rows: usize, seed: u64) -> Graph {
    let mut random = Random(seed + 1);
    Graph {
        k: K,
        index: (0..rows * K).map(|_| random.below(11) as u32).collect(),
        distance: (0..rows * K).map(|_| random.normal().abs()).collect(),
    }
}

fn blocks() -> Vec<Graph> {
    vec![neighbours(4, 0), neighbours(4, 1), neighbours(3, 2)]
}

/// A folder with all blocks.
fn filled() -> Temporary {
    let temporary = Temporary::new();
    begin(&temporary.0, &manifest()).unwrap();
    let folder = open(&temporary).unwrap();
    for (block, graph) in blocks().iter().enumerate() {
        folder.write(block, graph, &Monitor::default()).unwrap();
    }
    temporary
}

fn open(temporary: &Temporary) -> Result<Folder> {
    Folder::open(&temporary.0, "output")
}

fn read(folder: &Folder, block: usize) -> Result<Graph> {
    let rows = if block == 2 { 3 } else { 4 };
    folder.read(block, &Vec::from_iter(0..rows), &Monitor::default())
}

/// Everything in a sound folder.
fn read_all(temporary: &Temporary) -> Result<(Manifest, Vec<Graph>)> {
    let folder = open(temporary)?;
    if let Some((first, _)) = folder.missing()?.runs.first() {
        return Err(Error::Input(format!("block {first} is missing")));
    }
    let graphs: Result<Vec<Graph>> = (0..3).map(|block| read(&folder, block)).collect();
    Ok((folder.manifest, graphs?))
}

/// What a folder lacks, by the first and last block of each run.
fn missing(runs: &[(usize, usize)]) -> Result<Missing> {
    Ok(Missing {
        blocks: runs.iter().map(|(first, last)| last + 1 - first).sum(),
        runs: runs.into(),
    })
}

fn message<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Input(message)) => message,
        Err(other) => panic!("{other:?} is no error of input"),
        Ok(_) => panic!("no error"),
    }
}

/// Writes a manifest with this JSON and its right checksum.
fn forge(temporary: &Temporary, json: &str) {
    let summed = json.strip_suffix("\n}").unwrap();
    let sum = sha256(summed.as_bytes());
    let text = format!("{summed},\n  \"sha256\": \"{sum}\"\n}}\n");
    fs::write(temporary.file(manifest::FILE), text).unwrap();
}

fn json() -> String {
    serde_json::to_string_pretty(&manifest()).unwrap()
}

#[test]
fn what_was_written_is_read() {
    let temporary = filled();
    assert_eq!(read_all(&temporary), Ok((manifest(), blocks())));
    let folder = open(&temporary).unwrap();
    let all = neighbours(4, 1);
    let some = folder.read(1, &[3, 0, 3], &Monitor::default()).unwrap();
    let rows = |of: &[u32]| [&of[6..8], &of[..2], &of[6..8]].concat();
    assert_eq!(some.index, rows(&all.index));
    assert_eq!(some.distance[..2], all.distance[6..8]);
    assert_eq!(read(&folder, 3).map_err(|e| e.kind()), Err("input"));
    assert!(folder.read(2, &[3], &Monitor::default()).is_err());
    assert!(folder
        .write(2, &neighbours(4, 1), &Monitor::default())
        .is_err());
    // serde writes and reads the same manifest.
    let text = fs::read(temporary.file(manifest::FILE)).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["search"]["metric"]["p"], 0.1 + 0.2);
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let text = manifest().text();
    for bit in 0..8 * text.len() {
        assert!(
            Manifest::read(&flipped(text.as_bytes(), bit)).is_err(),
            "bit {bit}"
        );
    }
    let temporary = filled();
    let folder = open(&temporary).unwrap();
    for name in [
        index_file(&(9..=11)),
        distance_file(&(9..=11)),
        sums_file(&(9..=11)),
    ] {
        let path = temporary.file(&name);
        let sound = fs::read(&path).unwrap();
        // One bit of each byte.
        for bit in (0..sound.len()).map(|byte| 8 * byte + byte % 8) {
            fs::write(&path, flipped(&sound, bit)).unwrap();
            assert!(message(read(&folder, 2)).contains(&name), "bit {bit}");
        }
        fs::write(&path, sound).unwrap();
    }
    assert!(read(&folder, 2).is_ok());
}

fn flipped(sound: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

#[test]
fn no_file_may_be_longer_or_shorter_or_missing() {
    let temporary = filled();
    for path in temporary.files() {
        let sound = fs::read(&path).unwrap();
        let longer = [&sound, b"\n".as_slice()].concat();
        for bytes in [&sound[..sound.len() - 1], &sound[..1], &[], &longer] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(read_all(&temporary).map_err(|e| e.kind()), Err("input"));
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(read_all(&temporary).map_err(|e| e.kind()), Err("input"));
        fs::create_dir(&path).unwrap();
        assert_eq!(read_all(&temporary).map_err(|e| e.kind()), Err("input"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, sound).unwrap();
    }
    assert!(read_all(&temporary).is_ok());
}

#[test]
fn missing_and_damaged_blocks_are_unfinished() {
    let temporary = filled();
    let folder = open(&temporary).unwrap();
    let unfinished = || folder.unfinished(0..9, &Monitor::default()).unwrap();
    assert_eq!(unfinished(), Vec::<usize>::new());
    let path = temporary.file("distance-0000000005-0000000008.npy");
    let mut bytes = fs::read(&path).unwrap();
    bytes[150] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::remove_file(temporary.file("index-0000000009-0000000011.npy")).unwrap();
    assert_eq!(folder.missing(), missing(&[(2, 2)]));
    assert_eq!(unfinished(), [1, 2]);
    assert_eq!(folder.unfinished(0..2, &Monitor::default()), Ok(vec![1]));
    fs::remove_file(temporary.file("rows-0000000001-0000000004.sha256")).unwrap();
    assert_eq!(folder.missing(), missing(&[(0, 0), (2, 2)]));
    for block in 0..3 {
        folder
            .write(block, &blocks()[block], &Monitor::default())
            .unwrap();
    }
    assert_eq!(read_all(&temporary), Ok((manifest(), blocks())));
}

#[test]
fn blocks_of_another_search_are_not_taken() {
    let (temporary, other) = (filled(), Temporary::new());
    let mut manifest = manifest();
    manifest.search.digests.x = "fedcba9876543210".into();
    begin(&other.0, &manifest).unwrap();
    for path in temporary.files() {
        if !path.ends_with(manifest::FILE) {
            fs::copy(
                &path,
                other.file(path.file_name().unwrap().to_str().unwrap()),
            )
            .unwrap();
        }
    }
    let folder = open(&other).unwrap();
    assert!(message(read(&folder, 0)).contains("do not have the checksums"));
    assert_eq!(
        folder.unfinished(0..9, &Monitor::default()),
        Ok(vec![0, 1, 2])
    );
    // Files of other rows are not accepted, either.
    let names = ["index-{}.npy", "distance-{}.npy", "rows-{}.sha256"];
    for name in names {
        let of = |rows| temporary.file(&name.replace("{}", rows));
        fs::copy(of("0000000001-0000000004"), of("0000000005-0000000008")).unwrap();
    }
    assert!(read(&open(&temporary).unwrap(), 1).is_err());
}

#[test]
fn forged_manifests_are_refused() {
    let temporary = filled();
    forge(&temporary, &json());
    assert_eq!(read_all(&temporary), Ok((manifest(), blocks())));
    let rows = "\"rows\": 11";
    let k = "\"k\": 2";
    let block_rows = "\"block_rows\": 4";
    let p = "\"p\": 0.30000000000000004";
    let forgeries = [
        (
            "\"version\": 2",
            "\"version\": 3",
            "version 3 of the format",
        ),
        ("\"version\": 2", "\"version\": \"2\"", "did not write"),
        ("gmhclust neighbours", "gmhclust trees", "did not write"),
        ("\"first_row\": 1", "\"first_row\": 0", "numbered from 1"),
        (rows, "\"rows\": -11", "invalid value"),
        (rows, "\"rows\": 0", "counts must be"),
        (rows, "\"rows\": 11.5", "invalid type"),
        (rows, "\"rows\": \"11\"", "invalid type"),
        (rows, "\"rows\": NaN", "did not write"),
        (rows, "\"rows\": null", "invalid type"),
        (rows, "\"rows\": 4294967295", "counts must be"),
        (rows, "\"rows\": 1e300", "invalid type"),
        (rows, "\"rows\": 99999999999999999999999", "invalid type"),
        (rows, "\"rows\": 11, \"rows\": 11", "duplicate field"),
        (rows, "\"rows\": 12", "among themselves"),
        (rows, "\"lines\": 11", "unknown field"),
        (k, "\"k\": 11", "k exceeds"),
        (k, "\"k\": 0", "counts must be"),
        (block_rows, "\"block_rows\": 0", "counts must be"),
        (
            block_rows,
            "\"block_rows\": 4, \"folder\": \"../..\"",
            "unknown field",
        ),
        (p, "\"p\": -1.0", "must be positive and finite"),
        (p, "\"p\": 1e999", "out of range"),
        (p, "\"p\": null", "invalid type"),
        (
            "minkowski",
            "../../etc/passwd",
            "it must be \\\"euclidean\\\"",
        ),
        ("\"omit\"", "\"none\"", "zero_over_zero"),
        (
            "0123456789abcdef",
            "0123456789abcde",
            "16 hexadecimal digits",
        ),
        (
            "0123456789abcdef",
            "0123456789abcd\\u0000f",
            "16 hexadecimal digits",
        ),
        (
            "\"query\": null",
            "\"query\": \"\"",
            "16 hexadecimal digits",
        ),
    ];
    for (was, is, why) in forgeries {
        let forged = json().replace(was, is);
        assert_ne!(forged, json(), "{was} was not there");
        forge(&temporary, &forged);
        let message = message(open(&temporary).map(drop));
        let why = why.replace("\\\"", "\"");
        assert!(message.contains(&why), "{is}: {message}");
    }
    for foreign in [
        "[\n}",
        "{\"a\": [[[[\n}",
        "\u{0}\n}",
        &format!("{}\n}}", "[".repeat(3000)),
    ] {
        forge(&temporary, foreign);
        assert!(message(open(&temporary).map(drop)).contains("did not write"));
    }
    for foreign in ["", "{}", "\"\n}\n", &"0".repeat(70), &"0".repeat(5000)] {
        fs::write(temporary.file(manifest::FILE), foreign).unwrap();
        assert!(open(&temporary).is_err());
    }
}

/// A manifest that claims more than the existing files costs neither time nor memory.
#[test]
fn large_claims_are_cheap() {
    let temporary = filled();
    let most = i32::MAX;
    let claims = json()
        .replace("\"rows\": 11", &format!("\"rows\": {most}"))
        .replace("\"among\": 11", &format!("\"among\": {most}"))
        .replace("\"k\": 2", &format!("\"k\": {}", most - 1))
        .replace("\"block_rows\": 4", "\"block_rows\": 1");
    forge(&temporary, &claims);
    let folder = open(&temporary).unwrap();
    assert_eq!(folder.missing(), missing(&[(0, most as usize - 1)]));
    forge(
        &temporary,
        &claims.replace("\"block_rows\": 1", &format!("\"block_rows\": {most}")),
    );
    let folder = open(&temporary).unwrap();
    assert_eq!(folder.missing(), missing(&[(0, 0)]));
    for name in ["index", "distance"] {
        let from = temporary.file(&format!("{name}-0000000001-0000000004.npy"));
        fs::copy(
            from,
            temporary.file(&format!("{name}-0000000001-{most}.npy")),
        )
        .unwrap();
    }
    let sums = folder.sums(&(1..=most as usize), &folder.checksum, &folder.checksum);
    fs::write(temporary.file(&sums_file(&(1..=most as usize))), sums).unwrap();
    assert_eq!(folder.missing(), missing(&[(0, 0)]));
    let message = message(folder.read(0, &[0], &Monitor::default()));
    assert!(
        message.contains("has 160 bytes and not 18446744047939747976"),
        "{message}"
    );
}

#[test]
fn forged_blocks_with_fitting_checksums_are_refused() {
    let temporary = filled();
    let folder = open(&temporary).unwrap();
    let names = ["index", "distance"].map(|name| format!("{name}-0000000001-0000000004.npy"));
    let files = names.each_ref().map(|name| temporary.file(name));
    let sound = files.each_ref().map(|file| fs::read(file).unwrap());
    let put = |which: usize, at: usize, bytes: &[u8]| {
        for (file, content) in files.iter().zip(&sound) {
            fs::write(file, content).unwrap();
        }
        let mut forged = sound[which].clone();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(&files[which], forged).unwrap();
        let [index, distance] = files
            .each_ref()
            .map(|file| sha256(&fs::read(file).unwrap()));
        let sums = folder.sums(&(1..=4), &index, &distance);
        fs::write(temporary.file("rows-0000000001-0000000004.sha256"), sums).unwrap();
        read(&folder, 0)
    };
    let distance = 7.5f64.to_le_bytes();
    assert_eq!(put(1, 128, &distance).unwrap().distance[0], 7.5);
    for number in [0, -1, 12, i32::MIN, i32::MAX] {
        let message = message(put(0, 128 + 4 * 7, &number.to_le_bytes()));
        assert!(message.contains(&format!("has {number}, which is no row")));
    }
    assert!(message(put(1, 128 + 8 * 7, &f64::NAN.to_le_bytes())).contains("has no number"));
    for (which, at, bytes) in [
        (0, 0, "\u{1}"),
        (1, 23, "O"),
        (0, 6, "\u{2}"),
        (1, 60, "9999999"),
    ] {
        let message = message(put(which, at, bytes.as_bytes()));
        assert!(message.contains("has another header"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_not_followed() {
    let (temporary, other) = (filled(), filled());
    for path in temporary.files() {
        let target = other.file(path.file_name().unwrap().to_str().unwrap());
        let sound = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert!(message(read_all(&temporary)).len() > 10);
        fs::remove_file(&path).unwrap();
        fs::write(&path, sound).unwrap();
    }
    assert!(read_all(&temporary).is_ok());
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let temporary = filled();
    let before = temporary.files();
    let folder = open(&temporary).unwrap();
    let stopped = Monitor::default();
    stopped.stop();
    assert_eq!(
        folder.write(0, &blocks()[0], &stopped),
        Err(Error::Interrupt)
    );
    assert_eq!(folder.read(0, &[0], &stopped), Err(Error::Interrupt));
    assert_eq!(folder.unfinished(0..9, &stopped), Err(Error::Interrupt));
    assert_eq!(temporary.files(), before);
    assert_eq!(read_all(&temporary), Ok((manifest(), blocks())));
    // A folder in the place of a file cannot be replaced.
    let path = temporary.file("index-0000000001-0000000004.npy");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let result = folder.write(0, &blocks()[0], &Monitor::default());
    assert!(message(result).starts_with("cannot write "));
    assert_eq!(temporary.files(), before);
}
