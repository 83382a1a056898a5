//! The screen on a CUDA device. It answers requests in batches, and repeats a request whose answer
//! did not fit into its room.

use std::sync::Arc;

use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::screen::{
    ClusterFrame, ClusterView, Screen, ScreenAnswer, ScreenRequest,
};
use gmhclust_core::next_float::NextFloat;
use gmhclust_core::roster::{Roster, GONE};

use super::changes::Changes;
use super::device_clusters::{DeviceClusters, MOST_REQUESTS, STAGING};
use super::kernels::MOST_GROUPS;
use super::wire::{padded_len, Pending, COORDINATES, GROUP, NO_SHAPE};
use crate::device::Device;

/// Number of clusters that an answer has room for besides the wanted ones, for clusters that are
/// found before the limit falls: at least one for every warp that runs at a time. If too low, more
/// requests are repeated.
const ROOM: usize = 4096;

/// Number of merges that are prepared in one launch.
const BATCH: usize = 64;

/// The live clusters on a CUDA device.
pub struct CudaScreen {
    clusters: DeviceClusters,
    frame: ClusterFrame,
    roster: Roster,
    /// Number of live clusters below which the CPU is faster.
    fewest: usize,
    changes: Changes,
}

impl CudaScreen {
    /// An empty screen for at most `live` clusters in slots below `slots`. It is outgrown when
    /// fewer than `fewest` clusters are left.
    ///
    /// # Errors
    /// `Error::Memory` if the device has too little memory, `Error::Device` if it fails.
    pub fn new(
        device: &Arc<Device>,
        slots: usize,
        live: usize,
        fewest: usize,
        frame: ClusterFrame,
    ) -> Result<Self> {
        Ok(Self {
            clusters: DeviceClusters::new(device, slots, live, &frame)?,
            roster: Roster::new(slots),
            fewest,
            changes: Changes::new(frame.dimensions()),
            frame,
        })
    }

    /// Sends the changes to the device, without requests.
    fn send_changes(&mut self) -> Result<()> {
        let positions = self.roster.positions();
        self.clusters.send(&mut self.changes, &[], &[], positions)
    }

    /// The state of request number `index` before its first launch.
    fn pending(&self, index: usize, request: &ScreenRequest) -> Pending {
        let wanted = request.capacity + request.skip.len();
        Pending {
            index,
            end: request.end,
            limit: ((request.limit / self.frame.unit()) as f32).next_above(),
            // With fewer groups than wanted clusters, too few clusters would be found.
            groups: if request.is_tight || wanted > MOST_GROUPS {
                0
            } else {
                wanted
            },
            room: (ROOM + 8 * wanted).min(request.end.max(1)),
        }
    }

    /// Number of waiting requests, counted from the last one, that one launch can answer.
    ///
    /// # Errors
    /// `Error::Memory` if it cannot answer even one.
    fn batch_len(&self, requests: &[ScreenRequest], waiting: &[Pending]) -> Result<usize> {
        let dimensions = self.frame.dimensions();
        let length = |pending: &Pending| {
            let shaped = !requests[pending.index].view.whitening.is_empty();
            COORDINATES + dimensions + if shaped { padded_len(dimensions) } else { 0 }
        };
        let (mut words, mut room, mut count) = (self.changes.len() + 2 * GROUP, 1, 0);
        for pending in waiting.iter().rev().take(MOST_REQUESTS) {
            words += length(pending);
            room += 2 + 2 * pending.room;
            if words > STAGING || room > STAGING {
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Err(Error::Memory(
                "a sweep on the CUDA device found more than its answers have room for".into(),
            ));
        }
        Ok(count)
    }

    /// Answers a batch of requests by one launch; returns the requests whose answers did not fit
    /// into their room.
    fn launch(
        &mut self,
        requests: &[ScreenRequest<'_>],
        batch: Vec<Pending>,
        answers: &mut [Option<ScreenAnswer>],
        meanwhile: &mut Option<&mut dyn FnMut()>,
    ) -> Result<Vec<Pending>> {
        let view = |pending: &Pending| requests[pending.index].view;
        let views: Vec<&ClusterView> = batch.iter().map(view).collect();
        let positions = self.roster.positions();
        self.clusters
            .send(&mut self.changes, &views, &batch, positions)?;
        // The clusters of requests are often pushed next: prepare their factors while the device
        // works.
        for view in views.iter().take(BATCH) {
            view.columns();
        }
        if let Some(work) = meanwhile.take() {
            work();
        }
        self.clusters.wait()?;
        let answer = self.clusters.answer(batch.len());
        let mut unanswered = Vec::new();
        let mut first = 0;
        for (i, pending) in batch.into_iter().enumerate() {
            let (found, floor) = (answer.found(i), answer.limit(i));
            let entries = answer.entries(first, found.min(pending.room));
            first += pending.room;
            let request = &requests[pending.index];
            if found <= pending.room {
                answers[pending.index] = Some(self.found(request, entries, floor));
            } else {
                unanswered.push(with_more_room(pending, request, entries, found, floor));
            }
        }
        Ok(unanswered)
    }

    fn found(&self, request: &ScreenRequest, entries: &[[u32; 2]], floor: f32) -> ScreenAnswer {
        let unit = self.frame.unit();
        let bound = |&[bound, position]: &[u32; 2]| {
            let slot = self.roster.slot(position as usize);
            let known = slot == GONE || request.skip.binary_search(&slot).is_ok();
            let bound = f32::from_bits(bound);
            (!known && bound < floor).then(|| (f64::from(bound) * unit, slot))
        };
        let mut bounds = Vec::with_capacity(entries.len());
        bounds.extend(entries.iter().filter_map(bound));
        ScreenAnswer {
            bounds,
            floor: f64::from(floor) * unit,
        }
    }
}

/// Repeats a request that `found` more clusters than its answer has room for; `entries` are some of
/// these. The limit becomes lower, so that `entries` hold the wanted number of clusters below it;
/// if that does not lower the limit, the room becomes larger.
fn with_more_room(
    mut pending: Pending,
    request: &ScreenRequest,
    entries: &[[u32; 2]],
    found: usize,
    floor: f32,
) -> Pending {
    let mut bounds: Vec<u32> = entries.iter().map(|entry| entry[0]).collect();
    let wanted = (request.capacity + request.skip.len()).min(bounds.len()) - 1;
    let (_, &mut bound, _) = bounds.select_nth_unstable(wanted);
    let limit = f32::from_bits(bound + 1);
    if limit >= pending.limit {
        pending.room = (4 * pending.room).max(found).min(pending.end);
    }
    pending.limit = limit.min(floor);
    pending
}

impl Screen for CudaScreen {
    fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        let shape = if view.whitening.is_empty() {
            NO_SHAPE
        } else {
            self.clusters.assign_factor(slot)?
        };
        let position = self.roster.push(slot);
        self.changes.add(position as u32, view, shape);
        if self.changes.len() > STAGING / 4 {
            self.send_changes()?;
        }
        Ok(())
    }

    fn remove(&mut self, slot: u32) -> Result<()> {
        self.clusters.release_factor(slot);
        let position = self.roster.remove(slot);
        self.changes.remove(position as u32);
        if self.roster.is_sparse() {
            self.send_changes()?;
            let from = self.roster.compact();
            self.clusters.compact(&from)?;
        }
        Ok(())
    }

    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn sweep(
        &mut self,
        requests: &[ScreenRequest<'_>],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<ScreenAnswer>> {
        let mut answers: Vec<Option<ScreenAnswer>> = vec![None; requests.len()];
        // The waiting requests are in reverse order.
        let pending = requests.iter().enumerate().rev();
        let mut waiting: Vec<Pending> = pending
            .map(|(index, request)| self.pending(index, request))
            .collect();
        let mut meanwhile = Some(meanwhile);
        while !waiting.is_empty() {
            let count = self.batch_len(requests, &waiting)?;
            let mut batch = waiting.split_off(waiting.len() - count);
            batch.reverse();
            let mut unanswered = self.launch(requests, batch, &mut answers, &mut meanwhile)?;
            waiting.append(&mut unanswered);
        }
        Ok(answers
            .into_iter()
            .map(|answer| answer.expect("every request is answered"))
            .collect())
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn is_outgrown(&self, live: usize) -> bool {
        live < self.fewest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmhclust_core::mahalanobis::screen::checks::check_answers;
    use gmhclust_core::mahalanobis::screen::MeanPrecision;

    #[test]
    #[ignore = "needs an NVIDIA GPU"]
    fn the_gpu_s_answers_are_what_they_promise_on_small_data() {
        let device = Device::shared(0).unwrap();
        check_answers(MeanPrecision::Single, |slots, frame| {
            Box::new(CudaScreen::new(&device, slots, slots, 0, frame).unwrap())
        });
    }
}
