//! Repeats the inputs in fuzz/corpus: examples, and all inputs that once made a fuzz target fail.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../../fuzz/src/folder.rs"]
mod folder;
#[path = "../../fuzz/src/manifest.rs"]
mod manifest;
#[path = "../../fuzz/src/numbers.rs"]
mod numbers;

fn repeat(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).unwrap();
    let mut count = 0;
    for file in files {
        let file = file.unwrap().path();
        // Shown if a check fails.
        println!("{}", file.display());
        check(&fs::read(&file).unwrap());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn manifests() {
    repeat("manifest", manifest::check);
}

#[test]
fn folders() {
    repeat("folder", folder::check);
}

#[test]
fn small_data_of_any_values() {
    repeat("numbers", numbers::check);
}
