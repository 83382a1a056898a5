//! The user's choice of backend, threads and devices.

use extendr_api::prelude::*;
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::arguments::Fields;
use crate::engine::planner::Workload;
use crate::engine::{Choice, Engine};

/// The arguments `backend`, `threads` and `devices`.
pub struct Device {
    backend: String,
    threads: usize,
    devices: Option<Vec<usize>>,
}

impl Device {
    /// From the list that check_device() makes in R.
    ///
    /// # Errors
    /// `Error::Input` if the list has other elements.
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

    /// The engine that runs this work.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn engine(&self, work: &Workload) -> CoreResult<Engine> {
        let choice = Choice {
            backend: &self.backend,
            threads: self.threads,
            devices: self.devices.as_deref(),
        };
        Engine::new(&choice, work)
    }
}

fn device_numbers(numbers: &[i32]) -> CoreResult<Vec<usize>> {
    numbers
        .iter()
        .map(|&number| usize::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| CoreError::Input("`devices` has numbers that are negative".into()))
}
