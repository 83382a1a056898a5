//! The CPU as a device for linkage with a matrix.

use super::dissimilarities::CpuDissimilarities;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::linkage::condensed::{CondensedMatrix, Stored};
use crate::linkage::device::LinkageDevice;
use crate::linkage::dissimilarities::Dissimilarities;
use crate::linkage::dissimilarity_source::DissimilaritySource;
use crate::linkage::lance_williams::{Recurrence, StoredPrecision};
use crate::linkage::memory_check::check_memory;
use crate::monitor::Monitor;

impl LinkageDevice for Cpu {
    fn dissimilarities<'a>(
        &'a self,
        source: DissimilaritySource<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        self.install(|| match recurrence.precision {
            StoredPrecision::Double => stored::<f64>(source, n, recurrence, self, monitor),
            StoredPrecision::Single => stored::<f32>(source, n, recurrence, self, monitor),
        })
    }
}

/// The dissimilarities, stored as `T`.
fn stored<'a, T: Stored + 'a>(
    source: DissimilaritySource<'a>,
    n: usize,
    recurrence: Recurrence,
    cpu: &Cpu,
    monitor: &Monitor,
) -> Result<Box<dyn Dissimilarities + 'a>> {
    let linkage = recurrence.linkage;
    check_memory::<T>(source, n, linkage)?;
    Ok(match source {
        DissimilaritySource::Given(values) => {
            Box::new(CpuDissimilarities::<T>::given(values, n, linkage.squares()))
        }
        DissimilaritySource::Points(_) => {
            let matrix = CondensedMatrix::<T>::from_source(source, n, cpu, monitor)?;
            Box::new(CpuDissimilarities::own(matrix, linkage.squares()))
        }
    })
}
