//! The engine: chooses the device for some work by the user's `backend` and the size of the work,
//! and falls back to the CPU if a device fails.
//!
//! A caller first checks the memory ([`memory`]), and then starts a new thread ([`Worker`]). On
//! this thread, it describes the size of the work ([`Workload`]), opens an [`Engine`] by the user's
//! [`BackendChoice`], and has the engine run the work ([`Engine::run`]).

mod engine;
pub mod memory;
mod planner;
mod worker;
mod workload;

pub use engine::{AnyDevice, BackendChoice, Engine};
pub use worker::{Failure, Worker};
pub use workload::Workload;

/// The GPUs of this machine.
pub use gmhclust_cuda::{devices, DeviceInfo};
