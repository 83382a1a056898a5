//! The rows of all points on a device in double precision, for exact distances.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaSlice;
use gmhclust_core::error::Result;
use gmhclust_core::metric::{Metric, Points};
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Cpu;

use super::memory_plan::usable_memory;
use super::rows::Rows;
use crate::device::{unless_short, Device, DriverResult};
use crate::distances::code;
use crate::sender::Sender;

/// The rows of all points on a device, in double precision. They are copied while the device sweeps
/// for the first queries of a large request.
pub struct ExactRows {
    device: Arc<Device>,
    state: Mutex<RowsCopyState>,
    changed: Condvar,
    bytes: usize,
    columns: usize,
    /// The parameter of the metric's form, as in forms.cuh.
    parameter: u32,
}

/// The state of rows on a device.
enum RowsCopyState {
    /// There is memory for the rows.
    Empty(CudaSlice<f64>),
    Copying,
    Copied(Arc<CudaSlice<f64>>),
    /// They could not be copied.
    Failed,
}

impl ExactRows {
    /// Memory for the rows of these points, or `None` if they and `views`, the rows that the device
    /// sweeps, would together take more than half of the usable memory. `most_memory` limits the
    /// usable bytes.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn within(
        device: &Arc<Device>,
        points: &Points,
        views: &Rows,
        most_memory: Option<usize>,
    ) -> Result<Option<Arc<Self>>> {
        let len = points.values().len();
        // Values, and indices.
        let bytes = 8 * len + 4 * points.rows();
        let of_views = 4 * views.row_len() * views.count();
        if bytes + of_views > usable_memory(device, most_memory)? / 2 {
            return Ok(None);
        }
        let room = || {
            let stream = device.context.new_stream()?;
            // SAFETY: kernels read the values after all of them were copied.
            let values = unsafe { stream.alloc(len)? };
            // Other streams use the values.
            stream.synchronize()?;
            DriverResult::Ok(values)
        };
        let values = room().map_err(|error| device.error("making room for points", &error));
        let rows = |values| {
            Arc::new(Self {
                device: device.clone(),
                state: Mutex::new(RowsCopyState::Empty(values)),
                changed: Condvar::new(),
                bytes,
                columns: points.columns(),
                parameter: parameter(points.metric()),
            })
        };
        Ok(unless_short(values)?.map(rows))
    }

    /// Bytes of device memory that a search takes for exact distances, besides its batches.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of coordinates of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The parameter of the metric's form, as in forms.cuh.
    pub fn parameter(&self) -> u32 {
        self.parameter
    }

    /// Begins to copy the rows to the device, before the sweeps that need them. `None` if this was
    /// tried before.
    pub fn begin_copy(&self) -> Option<RowsCopy<'_>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, RowsCopyState::Copying) {
            RowsCopyState::Empty(values) => Some(RowsCopy {
                rows: self,
                values: Some(values),
                end: RowsCopyState::Failed,
            }),
            before => {
                *state = before;
                None
            }
        }
    }

    /// The rows, once they are there. `None` if no copy has begun, or if it failed.
    pub fn wait(&self) -> Option<Arc<CudaSlice<f64>>> {
        let is_coming = |state: &mut RowsCopyState| matches!(state, RowsCopyState::Copying);
        let state = self.changed.wait_while(self.state(), is_coming);
        match &*state.unwrap_or_else(PoisonError::into_inner) {
            RowsCopyState::Copied(rows) => Some(rows.clone()),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, RowsCopyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of rows in progress. It ends when it is dropped.
pub struct RowsCopy<'a> {
    rows: &'a ExactRows,
    values: Option<CudaSlice<f64>>,
    /// The state after the copy.
    end: RowsCopyState,
}

impl RowsCopy<'_> {
    /// Copies the rows, which are those of `points`. The threads of `cpu` prepare them. If the copy
    /// fails, the host decides; the next sweep reports a failure of the device.
    pub fn run(mut self, points: &Points, cpu: &Cpu, monitor: &Monitor) {
        let Some(mut values) = self.values.take() else {
            return;
        };
        let all = points.values();
        let sender = Sender::new(&self.rows.device, all.len(), 1, cpu);
        let sent = sender.and_then(|mut sender| sender.send(&mut values, 0, all, cpu, monitor));
        if sent.is_ok() {
            self.end = RowsCopyState::Copied(Arc::new(values));
        }
    }
}

impl Drop for RowsCopy<'_> {
    fn drop(&mut self) {
        *self.rows.state() = std::mem::replace(&mut self.end, RowsCopyState::Failed);
        self.rows.changed.notify_all();
    }
}

/// The parameter of the form of a metric.
pub fn parameter(metric: &Metric) -> u32 {
    match *metric {
        Metric::Canberra(convention) => code(convention),
        Metric::Pearson { absolute }
        | Metric::Spearman { absolute }
        | Metric::Cosine { absolute } => u32::from(absolute),
        _ => 0,
    }
}
