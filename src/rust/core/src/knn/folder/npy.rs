//! Matrices in version 1.0 of NumPy's `.npy` format: a header, then the values row by row,
//! little-endian.
//!
//! A reader knows the shape beforehand: it compares the header with the expected one, without
//! parsing.

/// Number of bytes of a header; NumPy requires a multiple of 64.
pub const HEADER: usize = 128;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// A number of a fixed size.
pub trait Value: Copy {
    /// NumPy's name of the type.
    const DESCR: &'static str;
    const BYTES: usize;

    /// Appends the value's bytes.
    fn put(self, to: &mut Vec<u8>);

    /// The value of [`Value::BYTES`] bytes.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! value {
    ($type:ty, $descr:literal) => {
        impl Value for $type {
            const DESCR: &'static str = $descr;
            const BYTES: usize = size_of::<$type>();

            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("has the size of a value"))
            }
        }
    };
}

value!(i32, "<i4");
value!(f64, "<f8");

/// The header of a matrix.
pub fn header<T: Value>(rows: usize, columns: usize) -> [u8; HEADER] {
    let description = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}",
        T::DESCR
    );
    let mut header = [b' '; HEADER];
    let (magic, rest) = header.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    let (length, text) = rest.split_at_mut(2);
    length.copy_from_slice(&(text.len() as u16).to_le_bytes());
    text[..description.len()].copy_from_slice(description.as_bytes());
    header[HEADER - 1] = b'\n';
    header
}

/// Number of bytes of the file of a matrix. In 128 bits, since shapes from a manifest can overflow
/// 64 bits.
pub fn size<T: Value>(rows: usize, columns: usize) -> u128 {
    HEADER as u128 + rows as u128 * columns as u128 * T::BYTES as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_numpy_writes_it() {
        // numpy.save() of NumPy 1.24, for zeros((5, 4), "<i4").
        let mut expected = b"\x93NUMPY\x01\x00v\x00".to_vec();
        expected.extend(b"{'descr': '<i4', 'fortran_order': False, 'shape': (5, 4), }");
        expected.resize(127, b' ');
        expected.push(b'\n');
        assert_eq!(header::<i32>(5, 4).as_slice(), expected);
        // The longest possible header.
        let most = i32::MAX as usize;
        let longest = String::from_utf8_lossy(&header::<f64>(most, most)[10..]).into_owned();
        assert!(longest
            .trim_end_matches(' ')
            .contains("(2147483647, 2147483647), } "));
    }

    #[test]
    fn values_come_back() {
        for value in [0.0, -0.0, 1.5, f64::INFINITY, f64::MIN_POSITIVE] {
            let mut bytes = Vec::new();
            value.put(&mut bytes);
            assert_eq!(f64::get(&bytes).to_bits(), value.to_bits());
        }
        let mut bytes = Vec::new();
        1i32.put(&mut bytes);
        assert_eq!(bytes, [1, 0, 0, 0]);
    }
}
