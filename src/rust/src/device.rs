//! The user's choice of backend, threads and devices.

use std::panic::resume_unwind;
use std::thread::JoinHandle;

use extendr_api::prelude::*;
use gmhclust_core::{memory, Error as CoreError, Result as CoreResult};

use crate::arguments::Fields;
use crate::engine::planner::Workload;
use crate::engine::{Choice, Engine};
use crate::job::THREAD_BYTES;

/// The arguments `backend`, `threads` and `devices`.
#[derive(Clone)]
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

    /// The same in a thread of its own, where there is memory for one: the first engine with a GPU
    /// takes a fraction of a second, in which data can be copied.
    pub fn start_engine(self, work: Workload) -> StartingEngine {
        let thread = std::thread::Builder::new().name("gmhclust-engine".into());
        let spawned = memory::check("a thread needs", THREAD_BYTES)
            .ok()
            .and_then(|()| {
                let device = self.clone();
                thread.spawn(move || device.engine(&work)).ok()
            });
        StartingEngine(match spawned {
            Some(thread) => State::Starting(thread),
            None => State::NotStarted(self, work),
        })
    }
}

/// An engine that a thread makes. The thread has ended when this value is dropped, so it is never
/// there when R forks.
pub struct StartingEngine(State);

enum State {
    NotStarted(Device, Workload),
    Starting(JoinHandle<CoreResult<Engine>>),
    Taken,
}

impl StartingEngine {
    /// Waits for the engine.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn finish(mut self) -> CoreResult<Engine> {
        match std::mem::replace(&mut self.0, State::Taken) {
            State::NotStarted(device, work) => device.engine(&work),
            State::Starting(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            State::Taken => unreachable!("only this takes it"),
        }
    }
}

impl Drop for StartingEngine {
    fn drop(&mut self) {
        if let State::Starting(thread) = std::mem::replace(&mut self.0, State::Taken) {
            // Nobody needs the engine or its error any more.
            let _ = thread.join();
        }
    }
}

fn device_numbers(numbers: &[i32]) -> CoreResult<Vec<usize>> {
    numbers
        .iter()
        .map(|&number| usize::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| CoreError::Input("`devices` has numbers that are negative".into()))
}
