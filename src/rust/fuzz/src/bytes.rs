//! Reads an input as a sequence of choices.

use sha2::{Digest, Sha256};

/// The remaining bytes of an input. After the last byte, every byte is 0.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// The next bytes, at most `count`.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// A number from `least` to `most`.
    pub fn number(&mut self, least: usize, most: usize) -> usize {
        least + usize::from(self.byte()) % (most - least + 1)
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A 64-bit pattern.
    pub fn bits(&mut self) -> u64 {
        let mut bits = [0; 8];
        let taken = self.take(8);
        bits[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bits)
    }
}

/// The SHA-256 checksum in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
