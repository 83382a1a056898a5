//! Fuzzes the reading of manifests.

use gmhclust_core::knn::folder::Manifest;

use crate::bytes::{sha256, Bytes};

/// Reads a manifest. If the first byte is odd, the others get a matching checksum.
pub fn check(input: &[u8]) {
    let mut input = Bytes(input);
    let text = if input.flag() {
        with_checksum(input.0)
    } else {
        input.0.to_vec()
    };
    let Ok(manifest) = Manifest::read(&text) else {
        return;
    };
    // A manifest that was read can be written, and is then the same.
    let written = manifest.text();
    assert_eq!(Manifest::read(written.as_bytes()), Ok(manifest.clone()));
    let search = &manifest.search;
    for count in [
        manifest.block_rows,
        search.rows,
        search.columns,
        search.among,
        search.k,
    ] {
        assert!((1..=i32::MAX as u32).contains(&count));
    }
    assert!(search.k <= search.among);
}

/// A manifest with these bytes and their checksum.
pub fn with_checksum(summed: &[u8]) -> Vec<u8> {
    let sum = sha256(summed);
    let end = format!(",\n  \"sha256\": \"{sum}\"\n}}\n");
    [summed, end.as_bytes()].concat()
}
