//! SHA-256, which `sha256sum` and most languages can verify; R from version 4.5 on.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The checksum of bytes that arrive in parts.
#[derive(Default)]
pub struct Checksum(Sha256);

impl Checksum {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum as 64 hexadecimal digits.
    pub fn digits(self) -> String {
        let mut digits = String::new();
        for byte in self.0.finalize() {
            write!(digits, "{byte:02x}").expect("writing to a string cannot fail");
        }
        digits
    }
}

/// The checksum of `bytes`, as 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let mut sum = Checksum::default();
    sum.update(bytes);
    sum.digits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        let mut parts = Checksum::default();
        parts.update(b"a");
        parts.update(b"bc");
        assert_eq!(parts.digits(), abc);
    }
}
