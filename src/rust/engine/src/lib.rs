//! The engine: it chooses the device of a job by the user's word and the size of the work, and lets
//! the CPU stand in for a device that fails.
//!
//! A caller says how large the work is ([`Workload`]), opens an [`Engine`] for it by the user's
//! [`Choice`], and gives the engine the work itself ([`Engine::run`]). All of that is done by a
//! [`Worker`], a thread of its own, after the memory was asked for ([`memory`]).

mod engine;
pub mod memory;
mod planner;
mod worker;
mod workload;

pub use engine::{AnyDevice, Choice, Engine};
pub use worker::{Failure, Worker};
pub use workload::Workload;

/// The GPUs of this machine.
pub use gmhclust_cuda::{devices, DeviceInfo};
