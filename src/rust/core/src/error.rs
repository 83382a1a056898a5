//! The one error type. Every message names the argument, what it got and what it needs.

use thiserror::Error;

/// The reason that a computation returned no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// An invalid argument.
    #[error("{0}")]
    Input(String),
    /// The requested device is missing, unusable or lost.
    #[error("{0}")]
    Device(String),
    /// Not enough memory, on the host or on the device.
    #[error("{0}")]
    Memory(String),
    /// The caller requested a stop.
    #[error("the computation was interrupted")]
    Interrupt,
}

impl Error {
    /// The last part of the R condition's class: `gmhclust_error_<kind>`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Input(_) => "input",
            Error::Device(_) => "device",
            Error::Memory(_) => "memory",
            Error::Interrupt => "interrupt",
        }
    }
}

/// The result of functions that can fail.
pub type Result<T> = std::result::Result<T, Error>;
