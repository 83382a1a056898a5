//! The user's limit on the memory of a device.

use gmhclust_core::error::{Error, Result};

/// The environment variable that limits the bytes of memory that a search for neighbours or a
/// linkage by means may take on each GPU.
const MEMORY: &str = "GMHCLUST_DEVICE_MEMORY";

/// The limit in [`MEMORY`], or `None` if it is not set.
///
/// # Errors
/// `Error::Input` if it is not a number of bytes.
pub fn memory_from_environment() -> Result<Option<usize>> {
    match std::env::var(MEMORY) {
        Ok(value) => parse_memory(&value),
        Err(_) => Ok(None),
    }
}

/// The number of bytes in `value`, in R's notation for numbers; `None` for an empty string.
fn parse_memory(value: &str) -> Result<Option<usize>> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse::<f64>() {
        Ok(bytes) if bytes >= 1.0 && bytes.is_finite() => Ok(Some(bytes as usize)),
        _ => Err(Error::Input(format!(
            "the environment variable `{MEMORY}` is \"{value}\"; it must be a number of bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_number_of_bytes() {
        assert_eq!(parse_memory(""), Ok(None));
        assert_eq!(parse_memory("2e9"), Ok(Some(2_000_000_000)));
        assert_eq!(parse_memory("1048576"), Ok(Some(1 << 20)));
        for wrong in ["2 GB", "0", "-1", "NaN", "inf"] {
            let error = parse_memory(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
