//! The initial dissimilarities of a linkage.

use std::sync::Arc;

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::error::Result;
use gmhclust_core::linkage::condensed::row_start;
use gmhclust_core::linkage::dissimilarities::Dissimilarities;
use gmhclust_core::linkage::lance_williams::{Linkage, Recurrence, StoredPrecision};
use gmhclust_core::linkage::DissimilaritySource;
use gmhclust_core::monitor::Monitor;

use super::matrix::CudaDissimilarities;
use super::memory::memory;
use crate::device::Device;
use crate::distances::{self, check_memory, pieces};
use crate::sender::Sender;
use crate::stored::OnDevice;

/// Number of distances that the host computes at a time, if the device cannot compute them. It is
/// small in tests, so that small data take several pieces.
const COMPUTED: usize = if cfg!(test) { 1 << 10 } else { 1 << 24 };

/// Whether the kernels have this linkage.
pub fn fits(linkage: Linkage) -> bool {
    matches!(
        linkage,
        Linkage::WardD | Linkage::Complete | Linkage::Average | Linkage::Mcquitty | Linkage::WardD2
    )
}

/// The dissimilarities of `n` observations on the device, for a linkage that [`fits`]. `others`
/// computes the distances that the device cannot compute. The CPU makes chains of fewer clusters
/// than `chain_clusters`.
///
/// # Errors
/// As [`gmhclust_core::linkage::LinkageDevice::dissimilarities`].
pub fn dissimilarities<'a>(
    device: &'a Arc<Device>,
    source: DissimilaritySource<'a>,
    n: usize,
    recurrence: Recurrence,
    others: &(impl DistanceDevice + ?Sized),
    chain_clusters: usize,
    monitor: &Monitor,
) -> Result<Box<dyn Dissimilarities + 'a>> {
    Ok(match recurrence.precision {
        StoredPrecision::Double => {
            let mut matrix = filled::<f64>(device, source, n, recurrence, others, monitor)?;
            matrix.set_chain_clusters(chain_clusters);
            Box::new(matrix)
        }
        StoredPrecision::Single => {
            let mut matrix = filled::<f32>(device, source, n, recurrence, others, monitor)?;
            matrix.set_chain_clusters(chain_clusters);
            Box::new(matrix)
        }
    })
}

/// Allocates and fills the matrix of dissimilarities, stored as `T`.
fn filled<T: OnDevice>(
    device: &Arc<Device>,
    source: DissimilaritySource,
    n: usize,
    recurrence: Recurrence,
    others: &(impl DistanceDevice + ?Sized),
    monitor: &Monitor,
) -> Result<CudaDissimilarities<T>> {
    let linkage = recurrence.linkage;
    let copied = match source {
        DissimilaritySource::Points(points) if distances::fits(points) => points.values().len(),
        _ => 0,
    };
    let what = format!("{} linkage of {n} observations needs", linkage.name());
    check_memory(device, &what, memory::<T>(n, copied))?;
    let cpu = others.cpu();
    let mut matrix = CudaDissimilarities::<T>::new(device, n, linkage.squares())?;
    match source {
        DissimilaritySource::Given(values) => {
            let mut sender = Sender::new(device, values.len(), 1, cpu)?;
            sender.send(matrix.values_mut(), 0, values, cpu, monitor)?;
        }
        DissimilaritySource::Points(points) if distances::fits(points) => {
            matrix.compute(points, cpu, monitor)?;
        }
        DissimilaritySource::Points(points) => {
            let mut sender = Sender::new(device, COMPUTED, 1, cpu)?;
            let mut computed = Vec::new();
            let all = Pairs::within(n);
            for columns in pieces(&all, COMPUTED) {
                let first = row_start(n, columns.start);
                let part = all.part(columns);
                computed.resize(part.count(), 0.0);
                others.distances(points, &part, &mut computed, monitor)?;
                sender.send(matrix.values_mut(), first, &computed, cpu, monitor)?;
            }
        }
    }
    Ok(matrix)
}
