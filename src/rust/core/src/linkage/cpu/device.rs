//! The CPU as a device for linkage with a matrix.

use super::dissimilarities::CpuDissimilarities;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::linkage::condensed::{CondensedMatrix, Stored};
use crate::linkage::device::LinkageDevice;
use crate::linkage::dissimilarities::Dissimilarities;
use crate::linkage::lance_williams::{Recurrence, StoredPrecision};
use crate::linkage::memory_check::check_memory;
use crate::linkage::origin::Origin;
use crate::monitor::Monitor;

impl LinkageDevice for Cpu {
    fn dissimilarities<'a>(
        &'a self,
        origin: Origin<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        self.install(|| match recurrence.precision {
            StoredPrecision::Double => stored::<f64>(origin, n, recurrence, self, monitor),
            StoredPrecision::Single => stored::<f32>(origin, n, recurrence, self, monitor),
        })
    }
}

/// The dissimilarities, stored as `T`.
fn stored<'a, T: Stored + 'a>(
    origin: Origin<'a>,
    n: usize,
    recurrence: Recurrence,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Box<dyn Dissimilarities + 'a>> {
    let linkage = recurrence.linkage;
    check_memory::<T>(origin, n, linkage)?;
    Ok(match origin {
        Origin::Given(values) => {
            Box::new(CpuDissimilarities::<T>::given(values, n, linkage.squares()))
        }
        Origin::Points(_) => {
            let matrix = CondensedMatrix::<T>::from_origin(origin, n, cpu, monitor)?;
            Box::new(CpuDissimilarities::own(matrix, linkage.squares()))
        }
    })
}
