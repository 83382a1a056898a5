//! Where the user wants the work done.

use extendr_api::prelude::*;
use gmhclust_core::backend::{self, Backend, Choice, Workload};
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::arguments::Fields;

/// The user's choice of where to compute.
pub struct Device {
    backend: String,
    threads: usize,
    devices: Option<Vec<usize>>,
}

impl Device {
    /// As check_device() of R describes it.
    ///
    /// # Errors
    /// `Error::Input` for another list.
    pub fn from_list(list: &List) -> CoreResult<Self> {
        let fields = Fields::new("device", list);
        let threads: i32 = fields.get("threads")?;
        let devices: Nullable<Vec<i32>> = fields.get("devices")?;
        Ok(Self {
            backend: fields.get("backend")?,
            threads: usize::try_from(threads).unwrap_or(1).max(1),
            devices: match devices {
                Nullable::NotNull(numbers) => Some(device_numbers(&numbers)?),
                Nullable::Null => None,
            },
        })
    }

    /// The engine for this work.
    ///
    /// # Errors
    /// As [`backend::select`].
    pub fn engine(&self, work: &Workload) -> CoreResult<Box<dyn Backend>> {
        let choice = Choice {
            backend: &self.backend,
            threads: self.threads,
            devices: self.devices.as_deref(),
        };
        backend::select(&choice, work)
    }
}

fn device_numbers(numbers: &[i32]) -> CoreResult<Vec<usize>> {
    numbers
        .iter()
        .map(|&number| usize::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| CoreError::Input("`devices` has numbers that are negative".into()))
}

/// What `work` returns, done where rayon divides it among the threads of `engine`.
pub fn on_threads<T: Send>(engine: &dyn Backend, work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut value = None;
    engine.on_threads(&mut || value = work.take().map(|work| work()));
    value.expect("an engine does the work once")
}
