//! Jobs: long work on a separate thread, with the R vectors that it reads or fills in. Meanwhile
//! R's thread polls the job, shows the progress and handles interrupts.

use std::ffi::CStr;
use std::time::Duration;

use extendr_api::prelude::*;
use gmhclust_core::memory::account::Held;
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};
use gmhclust_engine::Worker;
use gmhclust_reserve::{stop_computations, Ballast};

use crate::data::{Data, Rows};
use crate::rvalue::{self, Kind, Pointer};
use crate::vector::{self, Source};

extern "C" {
    /// Returns free memory to the system; see src/arenas.c.
    fn gmhclust_trim_arenas();
}

/// Converts the result of a job to an R value, given the R vectors of the job. Only this part of a
/// job may call R, so R's thread runs it.
type ToR = Box<dyn FnOnce(Vec<Robj>) -> CoreResult<Robj> + Send>;

/// Number of observations from which a job returns freed memory to the system. If it is lower,
/// short calls take longer: 0.2 ms each.
const MANY_OBSERVATIONS: usize = 1_000_000;

/// Returns the memory that all threads have freed to the system, if there are many observations.
pub fn return_free_memory(observations: usize) {
    if observations >= MANY_OBSERVATIONS {
        // SAFETY: takes no arguments, and changes nothing that is in use.
        unsafe { gmhclust_trim_arenas() }
    }
}

/// A computation that runs on a worker thread until it ends or is cancelled.
pub struct Job {
    worker: Worker<ToR>,
    /// The R vectors that the worker fills in, and then the owners of those that it reads. They
    /// outlive the worker.
    kept: Vec<Robj>,
    /// The vectors that the worker fills in, for the account of memory.
    held: Vec<Held>,
    /// Number of observations, for [`return_free_memory`].
    observations: usize,
}

impl Kind for Job {
    const TAG: &'static CStr = c"gmhclust job";
}

impl Job {
    /// Starts `work` on a new thread. `to_r` converts its result to an R value, on R's thread. The
    /// number of `observations` determines the size of the memory reserve.
    ///
    /// If `work` is an error, the job has already ended with this error. So [`Job::take`] is the
    /// only place where callers handle errors.
    pub fn start<T, W>(
        observations: usize,
        work: CoreResult<W>,
        to_r: fn(T) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor) -> CoreResult<T> + Send + 'static,
    {
        match work {
            Ok(work) => Self::spawn(observations, work, move |value, _| to_r(value)),
            Err(error) => Self::failed(error),
        }
    }

    /// As [`Job::start`], for work that reads a vector of doubles. The job protects the vector
    /// until the work ends.
    pub fn start_reading<T, W>(
        observations: usize,
        vector: Robj,
        work: CoreResult<W>,
        to_r: fn(T) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor, &[f64]) -> CoreResult<T> + Send + 'static,
    {
        let work = work.map(|work| |monitor: &Monitor, values: &[&[f64]]| work(monitor, values[0]));
        Self::start_reading_all(observations, vec![vector], work, to_r)
    }

    /// As [`Job::start_reading`], for work that reads several vectors of doubles.
    pub fn start_reading_all<T, W>(
        observations: usize,
        vectors: Vec<Robj>,
        work: CoreResult<W>,
        to_r: fn(T) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor, &[&[f64]]) -> CoreResult<T> + Send + 'static,
    {
        let sources = work.and_then(|work| Ok((work, sources(&vectors)?)));
        let (work, sources) = match sources {
            Ok(sources) => sources,
            Err(error) => return Self::failed(error),
        };
        let reading = move |monitor: &Monitor| {
            // SAFETY: the job keeps the owners of the values until it has joined this worker. R
            // does not change a vector to which two objects refer.
            let values: Vec<&[f64]> = sources.iter().map(|s| unsafe { s.values() }).collect();
            work(monitor, &values)
        };
        let mut job = Self::spawn(observations, reading, move |value, _| to_r(value));
        job.keep_read(&vectors);
        job
    }

    /// As [`Job::start`], for work on the observations `x` of R. `prepare` makes the work. If `x`
    /// is a matrix of R, the job reads it in place, as [`Job::start_reading`]. The number of
    /// observations determines the size of the memory reserve.
    pub fn start_on<T, W>(
        x: Robj,
        prepare: impl FnOnce(&Data) -> CoreResult<W>,
        to_r: fn(T) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor, Rows) -> CoreResult<T> + Send + 'static,
    {
        let prepared = Data::of(x).and_then(|data| Ok((data.dim()?, prepare(&data)?, data)));
        match prepared {
            Err(error) => Self::failed(error),
            Ok(((rows, columns), work, Data::Matrix(x))) => {
                let work = move |monitor: &Monitor, values: &[f64]| {
                    work(monitor, Rows::Matrix(values, columns))
                };
                Self::start_reading(rows, x, Ok(work), to_r)
            }
            Ok(((rows, _), work, Data::StoredObservations(x))) => {
                let work = move |monitor: &Monitor| work(monitor, Rows::StoredObservations(&x));
                Self::start(rows, Ok(work), to_r)
            }
        }
    }

    /// As [`Job::start_reading_all`], for work that fills in a vector of doubles; `work` includes
    /// the length of the vector, and `to_r` gets the vector. This avoids a copy of large results.
    pub fn start_filling<T, W>(
        observations: usize,
        vectors: Vec<Robj>,
        work: CoreResult<(usize, W)>,
        to_r: fn(T, Robj) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor, &[&[f64]], &mut [f64]) -> CoreResult<T> + Send + 'static,
    {
        let prepare = || {
            let (length, work) = work?;
            CoreResult::Ok((length, work, sources(&vectors)?, vector::allocate(length)?))
        };
        let (length, work, sources, (output, destination)) = match prepare() {
            Ok(prepared) => prepared,
            Err(error) => return Self::failed(error),
        };
        let filling = move |monitor: &Monitor| {
            // SAFETY: as for `start_reading_all`.
            let values: Vec<&[f64]> = sources.iter().map(|s| unsafe { s.values() }).collect();
            // SAFETY: the job keeps the vector until it has joined this worker, and no other code
            // gets it before.
            work(monitor, &values, unsafe { destination.values() })
        };
        let held = vec![Held::new(size_of::<f64>() * length)];
        let mut job = Self::spawn(observations, filling, move |value, kept: Vec<Robj>| {
            to_r(value, kept.into_iter().next().expect("is kept for this"))
        });
        (job.kept, job.held) = (vec![output], held);
        job.keep_read(&vectors);
        job
    }

    /// As [`Job::start_reading_all`], for work that fills in a vector of integers and one of
    /// doubles; `work` includes their lengths, and `to_r` gets both.
    pub fn start_reading_and_filling<T, W>(
        observations: usize,
        vectors: Vec<Robj>,
        work: CoreResult<([usize; 2], W)>,
        to_r: fn(T, Robj, Robj) -> CoreResult<Robj>,
    ) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor, &[&[f64]], &mut [i32], &mut [f64]) -> CoreResult<T> + Send + 'static,
    {
        let prepare = || {
            let ([of_integers, of_doubles], work) = work?;
            let sources = sources(&vectors)?;
            let integers = vector::allocate_integers(of_integers)?;
            let mut held = vec![Held::new(size_of::<i32>() * of_integers)];
            let doubles = vector::allocate(of_doubles)?;
            held.push(Held::new(size_of::<f64>() * of_doubles));
            CoreResult::Ok(((work, held), sources, integers, doubles))
        };
        let ((work, held), sources, integers, doubles) = match prepare() {
            Ok(prepared) => prepared,
            Err(error) => return Self::failed(error),
        };
        let ((integers, to_integers), (doubles, to_doubles)) = (integers, doubles);
        let filling = move |monitor: &Monitor| {
            // SAFETY: as for `start_reading_all` and `start_filling`: the job keeps all vectors.
            let values: Vec<&[f64]> = sources.iter().map(|s| unsafe { s.values() }).collect();
            // SAFETY: as above.
            let (integers, doubles) = unsafe { (to_integers.values(), to_doubles.values()) };
            work(monitor, &values, integers, doubles)
        };
        let mut job = Self::spawn(observations, filling, move |value, kept: Vec<Robj>| {
            let mut kept = kept.into_iter();
            match (kept.next(), kept.next()) {
                (Some(integers), Some(doubles)) => to_r(value, integers, doubles),
                _ => unreachable!("both are kept"),
            }
        });
        (job.kept, job.held) = (vec![integers, doubles], held);
        job.keep_read(&vectors);
        job
    }

    /// Protects the values of vectors that the worker reads.
    fn keep_read(&mut self, vectors: &[Robj]) {
        self.kept.extend(vectors.iter().flat_map(rvalue::owners));
    }

    fn spawn<T, W, R>(observations: usize, work: W, to_r: R) -> Self
    where
        T: Send + 'static,
        W: FnOnce(&Monitor) -> CoreResult<T> + Send + 'static,
        R: FnOnce(T, Vec<Robj>) -> CoreResult<Robj> + Send + 'static,
    {
        let ballast = match Ballast::new(observations) {
            Ok(ballast) => ballast,
            Err(error) => return Self::failed(error),
        };
        let prepared = move |monitor: &Monitor| {
            let value = work(monitor)?;
            Ok::<ToR, CoreError>(Box::new(move |kept| to_r(value, kept)))
        };
        let mut job = Self::of(Worker::start(ballast, prepared));
        job.observations = observations;
        job
    }

    fn failed(error: CoreError) -> Self {
        Self::of(Worker::failed(error))
    }

    fn of(worker: Worker<ToR>) -> Self {
        Self {
            worker,
            kept: Vec::new(),
            held: Vec::new(),
            observations: 0,
        }
    }

    /// As [`Worker::wait`].
    pub fn wait(&self, timeout: Duration) -> bool {
        self.worker.wait(timeout, stop_computations)
    }

    /// Units of work that are done, and that are expected in all.
    pub fn progress(&self) -> (u64, u64) {
        self.worker.monitor().progress()
    }

    /// An external pointer of R to the job; NULL if R has no memory for it.
    pub fn into_r(self) -> Robj {
        Pointer::make(self).unwrap_or_else(|_| rvalue::null())
    }

    /// The result as an R list: `ok`, `value` and `warnings`, or `ok`, `kind` and `message`; NULL
    /// if R has no memory for the list. Waits for the worker if it still runs. The value can be
    /// taken once.
    pub fn take(&mut self) -> Robj {
        let outcome = self.worker.take();
        let kept = std::mem::take(&mut self.kept);
        let value = outcome.and_then(|to_r| Ok(to_r(kept)?));
        self.held.clear();
        return_free_memory(self.observations);
        let list = || match value {
            Ok(value) => rvalue::list([
                ("ok", rvalue::logical(true)),
                ("value", value),
                (
                    "warnings",
                    rvalue::strings(&self.worker.monitor().warnings())?,
                ),
            ]),
            Err(failure) => rvalue::list([
                ("ok", rvalue::logical(false)),
                ("kind", rvalue::string(failure.kind)?),
                ("message", rvalue::string(&failure.message)?),
            ]),
        };
        list().unwrap_or_else(|_| rvalue::null())
    }

    /// Asks the worker to stop, waits until it has stopped, and frees its result.
    pub fn cancel(&mut self) {
        self.worker.cancel();
        self.kept.clear();
        self.held.clear();
    }
}

/// The values of vectors of doubles.
fn sources(vectors: &[Robj]) -> CoreResult<Vec<Source>> {
    vectors.iter().map(Source::new).collect()
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Waits for a job, for at most `seconds`.
/// @return TRUE if the job has ended.
/// @noRd
#[extendr]
fn job_wait(job: Pointer<Job>, seconds: f64) -> Robj {
    // Negative and other invalid durations count as 0.
    rvalue::logical(job.wait(Duration::try_from_secs_f64(seconds).unwrap_or_default()))
}

/// Progress of a job, in arbitrary units of work.
/// @return c(done, total), doubles; NULL if R has no memory for them.
/// @noRd
#[extendr]
fn job_progress(job: Pointer<Job>) -> Robj {
    let (done, total) = job.progress();
    let progress = vector::doubles([done as f64, total as f64].into_iter());
    progress.unwrap_or_else(|_| rvalue::null())
}

/// Result of a job, which can be taken once. Waits for a job that still runs.
/// @return list(ok = TRUE, value, warnings) or list(ok = FALSE, kind, message); NULL if R has no
///   memory for the list.
/// @noRd
#[extendr]
fn job_take(mut job: Pointer<Job>) -> Robj {
    job.take()
}

/// Stops a job, waits until it has stopped and frees its memory.
/// @return NULL.
/// @noRd
#[extendr]
fn job_cancel(mut job: Pointer<Job>) {
    job.cancel();
}

extendr_module! {
    mod job;
    fn job_wait;
    fn job_progress;
    fn job_take;
    fn job_cancel;
}
