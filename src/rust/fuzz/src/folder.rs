//! Fuzzes the reading of folders of neighbours.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use gmhclust_core::knn::folder::{
    begin, Digests, Folder, Manifest, MetricOptions, SearchDescription,
};
use gmhclust_core::knn::Graph;
use gmhclust_core::{Error, Monitor};

use crate::bytes::{sha256, Bytes};

/// Counts in a manifest: small counts, whose blocks are written, and some at limits of types.
const COUNTS: [u32; 12] = [
    1,
    2,
    3,
    4,
    5,
    7,
    65_536,
    65_537,
    1 << 29,
    1 << 30,
    (1 << 31) - 2,
    (1 << 31) - 1,
];

/// Largest number of values of a block that is written.
const MOST_VALUES: usize = 64;

/// Largest number of blocks that are all checked.
const MOST_BLOCKS: usize = 64;

/// Writes a folder, damages it, and reads it.
pub fn check(input: &[u8]) {
    let mut input = Bytes(input);
    let Some(manifest) = manifest(&mut input) else {
        return;
    };
    let temporary = Temporary::new();
    let path = &temporary.0;
    begin(path, &manifest).expect("a new folder");
    let folder = Folder::open(path, "output").expect("was just written");
    let among = manifest.search.among;
    let mut written = Vec::new();
    for block in 0..folder.blocks().min(3) {
        let queries = rows_of(&manifest, block);
        let values = queries.saturating_mul(manifest.search.k as usize);
        if values > MOST_VALUES || input.byte() % 8 == 0 {
            continue;
        }
        let graph = Graph {
            k: manifest.search.k as usize,
            index: (0..values as u32).map(|value| value % among).collect(),
            distance: (0..values).map(|value| value as f64).collect(),
        };
        folder
            .write(block, &graph, &Monitor::default())
            .expect("fits");
        let queries: Vec<usize> = (0..queries).collect();
        assert_eq!(folder.read(block, &queries, &Monitor::default()), Ok(graph));
        written.push(block);
    }
    for _ in 0..input.number(0, 4) {
        damage(path, &mut input);
    }
    read(path, &mut input);
}

fn manifest(input: &mut Bytes) -> Option<Manifest> {
    let (rows, among, k, block_rows) = (
        input.one_of(&COUNTS),
        input.one_of(&COUNTS),
        input.one_of(&COUNTS),
        input.one_of(&COUNTS),
    );
    let digest = || "0123456789abcdef".to_string();
    let query = input.flag().then(digest);
    let among = if query.is_some() { among } else { rows };
    let search = SearchDescription {
        rows,
        columns: 1,
        among,
        k,
        metric: MetricOptions {
            name: "euclidean".into(),
            p: 2.0,
            absolute: false,
            zero_over_zero: "omit".into(),
        },
        digests: Digests { x: digest(), query },
    };
    let manifest = Manifest::new(search, block_rows);
    Manifest::read(manifest.text().as_bytes()).ok()
}

fn rows_of(manifest: &Manifest, block: usize) -> usize {
    let (rows, block_rows) = (manifest.search.rows as usize, manifest.block_rows as usize);
    block_rows.min(rows - block * block_rows)
}

/// Reads a whole folder, which may be damaged.
fn read(path: &Path, input: &mut Bytes) {
    let monitor = Monitor::default();
    let folder = match Folder::open(path, "output") {
        Ok(folder) => folder,
        Err(error) => return assert!(matches!(error, Error::Input(_)), "{error}"),
    };
    let missing = folder.missing().expect("the folder is there");
    let lacks: usize = missing
        .runs
        .iter()
        .map(|(first, last)| last + 1 - first)
        .sum();
    assert!(lacks == missing.blocks && lacks <= folder.blocks());
    let unfinished = (folder.blocks() <= MOST_BLOCKS).then(|| {
        folder
            .unfinished(0..folder.blocks(), &monitor)
            .expect("damage is no error")
    });
    for block in (0..folder.blocks().min(4)).chain([folder.blocks() - 1, folder.blocks()]) {
        let first = usize::from(input.byte()) % 4;
        let found = folder.read(block, &[first, 0, first], &monitor);
        match found {
            Ok(graph) => {
                let k = folder.manifest.search.k as usize;
                let among = folder.manifest.search.among;
                assert_eq!((graph.index.len(), graph.distance.len()), (3 * k, 3 * k));
                assert!(graph.index.iter().all(|&index| index < among));
                assert!(!graph.distance.iter().any(|distance| distance.is_nan()));
                assert!(!unfinished.iter().flatten().any(|&bad| bad == block));
            }
            Err(Error::Input(_) | Error::Memory(_)) => (),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Changes one file, and perhaps the checksums that list it.
fn damage(path: &Path, input: &mut Bytes) {
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .expect("the folder is there")
        .map(|entry| entry.expect("is listed").path())
        .collect();
    files.sort();
    if files.is_empty() {
        return;
    }
    let file = &files[input.number(0, files.len() - 1)];
    let other = &files[input.number(0, files.len() - 1)];
    let mut bytes = fs::read(file).unwrap_or_default();
    match input.number(0, 7) {
        0 => bytes.truncate(usize::from(input.byte())),
        1 => {
            let at = usize::from(input.byte()) * 2;
            let new = input.take(8);
            for (byte, &new) in bytes.iter_mut().skip(at).zip(new) {
                *byte = new;
            }
        }
        2 => {
            let more = usize::from(input.byte());
            bytes.extend(input.take(more));
        }
        3 => bytes = fs::read(other).unwrap_or_default(),
        4 => {
            let header = 128.min(bytes.len());
            bytes[header..].reverse();
        }
        5 => {
            let _ = fs::remove_file(file);
            let _ = fs::create_dir(file);
            return;
        }
        6 => {
            let _ = fs::remove_file(file);
            #[cfg(unix)]
            let _ = std::os::unix::fs::symlink(other, file);
            return;
        }
        _ => {
            let _ = fs::remove_file(file);
            return;
        }
    }
    // Never writes through a link.
    let _ = fs::remove_file(file);
    let _ = fs::write(file, bytes);
    if input.flag() {
        sign(path);
    }
}

/// Writes checksums that match all files, as a forger would.
fn sign(path: &Path) {
    let manifest = path.join("manifest.json");
    if let Ok(bytes) = fs::read(&manifest) {
        const END: &[u8] = b",\n  \"sha256\"";
        let end = bytes.windows(END.len()).position(|window| window == END);
        let summed = &bytes[..end.unwrap_or(bytes.len())];
        let _ = fs::write(&manifest, crate::manifest::with_checksum(summed));
    }
    for entry in fs::read_dir(path).expect("the folder is there") {
        let file = entry.expect("is listed").path();
        if file
            .extension()
            .is_none_or(|extension| extension != "sha256")
        {
            continue;
        }
        let Ok(text) = fs::read(&file) else { continue };
        let mut lines = String::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let name = line.get(66..).unwrap_or("manifest.json");
            let sum = fs::read(path.join(name)).map_or_else(|_| "0".repeat(64), |b| sha256(&b));
            lines.push_str(&format!("{sum}  {name}\n"));
        }
        let _ = fs::write(&file, lines);
    }
}

/// A folder that is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gmhclust-fuzz-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
