//! The progress units of agglomeration.

/// The progress units of a problem with this many clusters at the start: the number of pairs of
/// clusters that the first sweeps and the sweep of each merge compare. Who calls
/// [`agglomerate()`](crate::mahalanobis::AgglomerationDevice::agglomerate) tells the monitor to
/// expect them.
pub fn work(clusters: usize) -> u64 {
    let n = clusters as u64;
    n * n.saturating_sub(1)
}
