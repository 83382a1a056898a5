//! Integers that order as floating-point numbers do.

/// A key whose order is the total order of the values, as by [`f64::total_cmp`].
pub fn order_key(value: f64) -> u64 {
    let bits = value.to_bits();
    bits ^ (((bits as i64 >> 63) as u64) | 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_values() {
        let infinity = f64::INFINITY;
        let values = [-infinity, -2.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, infinity];
        assert!(values.map(order_key).is_sorted_by(|a, b| a < b));
    }
}
