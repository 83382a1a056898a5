//! Divides tasks among threads.

use std::sync::Mutex;

use rayon::prelude::*;

use crate::error::Result;

/// Does the tasks, in about their order, on the threads of the rayon pool it is called in; each
/// thread takes the next one when it is done with the last, and has a state of its own, of which
/// there should be as many as threads.
///
/// # Errors
/// The first that a task returns.
pub fn share<T: Send, S: Send>(
    tasks: Vec<T>,
    states: &mut [S],
    work: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<()> {
    let tasks = Mutex::new(tasks.into_iter());
    let next = || {
        tasks
            .lock()
            .expect("nothing panics while it is held")
            .next()
    };
    states.par_iter_mut().with_max_len(1).try_for_each(|state| {
        while let Some(task) = next() {
            work(state, task)?;
        }
        Ok(())
    })
}
