//! Digests of numbers, to recognise data.
//!
//! This is own code instead of a crate: knn folders store these digests, so their values must never
//! change, and a cryptographic digest of large data takes many times as long. SHA-256 protects the
//! files.

/// The digest of a sequence of values that ends with `values`; `before` is the digest of the values
/// before them, 0 for none. −0 and 0 have the same digest. Not cryptographic.
pub fn digest(values: &[f64], before: u64) -> u64 {
    /// An odd number without a pattern in its bits: 2⁶⁴ divided by the golden ratio.
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

    values.iter().fold(before, |digest, value| {
        // Adding 0 turns −0 into 0.
        let bits = (value + 0.0).to_bits();
        let product = u128::from(digest ^ bits ^ MIX) * u128::from(MIX);
        (product >> 64) as u64 ^ (product as u64).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_values_in_their_order_however_they_are_cut() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i % 7)).collect();
        let whole = digest(&values, 0);
        for cut in 0..40 {
            assert_eq!(digest(&values[cut..], digest(&values[..cut], 0)), whole);
            let mut other = values.clone();
            other[cut] += 1e-12;
            assert_ne!(digest(&other, 0), whole);
        }
        let mut swapped = values.clone();
        swapped.swap(3, 4);
        assert_ne!(digest(&swapped, 0), whole);
        assert_ne!(digest(&values[1..], 0), whole);
        assert_eq!(digest(&[-0.0, 1.0], 0), digest(&[0.0, 1.0], 0));
    }
}
