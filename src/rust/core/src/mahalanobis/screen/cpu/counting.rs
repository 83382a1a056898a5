//! Counts the work of the searches of a thread, for tests.

use std::cell::Cell;

use crate::mahalanobis::screen::request::ScreenAnswer;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts a search and the candidates in its answer.
pub fn add(answer: &ScreenAnswer) {
    COUNT.set(COUNT.get() + 1 + answer.bounds.len());
}

/// The number of searches of this thread, plus the number of candidates in their answers.
pub fn count() -> usize {
    COUNT.get()
}
