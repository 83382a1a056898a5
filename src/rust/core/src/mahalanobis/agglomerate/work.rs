//! The progress units of agglomeration.

/// The progress units of a problem with this number of clusters at the start: the number of pairs
/// of clusters that the first sweeps and the sweep of each merge compare. The caller of
/// [`agglomerate()`](crate::mahalanobis::AgglomerationDevice::agglomerate) tells the monitor to
/// expect this number of units.
pub fn work(clusters: usize) -> u64 {
    let n = clusters as u64;
    n * n.saturating_sub(1)
}
