//! Limits below those of a device, to test on a large GPU how a small GPU works.

use std::env;

use gmhclust_core::error::{Error, Result};

/// The environment variable with the limits of all devices, for tests and benchmarks: compute
/// capability, bytes of shared memory of a block, and number of multiprocessors, such as
/// "7.5,65536,40" for a T4.
const LIMITS: &str = "GMHCLUST_TEST_LIMITS";

/// Upper limits on the use of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability, major and minor. It decides which binaries are loaded.
    pub capability: (i32, i32),
    /// Bytes of shared memory of a block.
    pub shared_memory: usize,
    pub multiprocessors: u32,
}

impl Limits {
    /// The limits in the environment variable [`LIMITS`], or no limits if it is not set.
    ///
    /// # Errors
    /// `Error::Input` if the variable does not have the form of [`LIMITS`].
    pub fn of_environment() -> Result<Self> {
        match env::var(LIMITS) {
            Err(_) => Ok(Self {
                capability: (i32::MAX, 0),
                shared_memory: usize::MAX,
                multiprocessors: u32::MAX,
            }),
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                Error::Input(format!(
                    "the environment variable `{LIMITS}` is \"{text}\"; it must be a compute \
                     capability, bytes of shared memory of a block, and a number of \
                     multiprocessors, such as \"7.5,65536,40\""
                ))
            }),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(',').collect();
        let &[capability, shared_memory, multiprocessors] = parts.as_slice() else {
            return None;
        };
        let (major, minor) = capability.split_once('.')?;
        Some(Self {
            capability: (major.parse().ok()?, minor.parse().ok()?),
            shared_memory: shared_memory.parse().ok()?,
            multiprocessors: multiprocessors.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_three_parts() {
        let t4 = Limits {
            capability: (7, 5),
            shared_memory: 65_536,
            multiprocessors: 40,
        };
        assert_eq!(Limits::parse("7.5,65536,40"), Some(t4));
        for wrong in ["", "7.5", "7,65536,40", "7.5,65536,40,1", "7.5,64k,40"] {
            assert_eq!(Limits::parse(wrong), None, "{wrong}");
        }
    }
}
