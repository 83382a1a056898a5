//! The division of a device's memory among references and queries.

use gmhclust_core::error::Result;

use super::layout::TILE;
use crate::device::Device;

/// Largest number of bytes that are copied at a time. The device reserves this number of bytes for
/// the copy. If it is larger, less memory is left for queries. If it is smaller, copies take more
/// launches of the kernel `scatter`.
const PIECE_BYTES: usize = 1 << 24;

/// Largest number of bytes of a chunk. Copying a chunk takes a fraction of a second, and the search
/// can be interrupted between two chunks. If it is larger, an interrupt is answered late.
const CHUNK_BYTES: usize = 1 << 30;

/// Bytes of a device's memory that a search may take: 15/16 of the free memory, but at most `most`.
///
/// # Errors
/// `Error::Device` when the device fails.
pub fn usable_memory(device: &Device, most: Option<usize>) -> Result<usize> {
    let free = device.free_memory()? / 16 * 15;
    Ok(most.map_or(free, |most| most.min(free)))
}

/// The division of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryPlan {
    /// Largest number of references of a chunk; all references if they fit.
    pub chunk: usize,
    /// Number of rows that are copied at a time.
    pub piece: usize,
    /// Number of bytes that remain for queries.
    pub left: usize,
}

impl MemoryPlan {
    /// The division of `memory` bytes for references of `bytes` bytes each. Returns `None` if
    /// `memory` is too small.
    pub fn new(references: usize, bytes: usize, memory: usize) -> Option<Self> {
        let piece = (PIECE_BYTES.min(memory / 16) / bytes).clamp(1, references.max(1));
        // The rows of a piece, their indices, and the groups of the references.
        let others = piece * (bytes + 4) + 4 * references;
        let plan = |chunk: usize, buffers: usize| {
            let left = memory.checked_sub(others + buffers * chunk * bytes)?;
            Some(Self { chunk, piece, left })
        };
        if references * bytes <= memory / 4 * 3 {
            return plan(references, 1);
        }
        // Every batch of queries copies all chunks once, so large batches save more time than large
        // chunks.
        let most = CHUNK_BYTES.min(memory / 8) / bytes / TILE * TILE;
        if most == 0 {
            return None;
        }
        let chunks = references.div_ceil(most);
        plan(references.div_ceil(chunks).next_multiple_of(TILE), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_that_fit_are_one_chunk_and_others_are_many() {
        let bytes = 4 * 299;
        for (references, memory) in [
            (384_126, 144usize << 30),
            (384_126, 700 << 20),
            (384_126, 192 << 20),
            (384_126, 16 << 20),
            (1000, 2 << 20),
            (1, 1 << 20),
        ] {
            let plan = MemoryPlan::new(references, bytes, memory).unwrap();
            let chunks = references.div_ceil(plan.chunk);
            let buffers = if chunks > 1 { 2 } else { 1 };
            assert_eq!(chunks > 1, references * bytes > memory / 4 * 3);
            assert!(chunks == 1 || plan.chunk % TILE == 0);
            assert!(plan.chunk * bytes <= CHUNK_BYTES || chunks == 1);
            let used = buffers * plan.chunk * bytes + plan.piece * (bytes + 4) + 4 * references;
            assert_eq!(used + plan.left, memory);
            assert!(plan.left >= memory / 8, "{plan:?} of {memory}");
        }
        let chunks =
            |memory| 384_126usize.div_ceil(MemoryPlan::new(384_126, bytes, memory).unwrap().chunk);
        assert!(chunks(192 << 20) >= 8);
        assert_eq!(MemoryPlan::new(384_126, bytes, 1 << 20), None);
    }
}
