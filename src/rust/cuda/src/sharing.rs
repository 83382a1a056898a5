//! Divides work among devices.

use std::ops::Range;
use std::thread;

use gmhclust_core::error::Result;
use gmhclust_core::tasks::join;

/// Calls `work` with each item, in a thread of its own. An item is the share of one device.
///
/// # Errors
/// The first error in the order of the items.
pub fn on_each<T: Send, R: Send>(
    items: impl ExactSizeIterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if items.len() == 1 {
        return items.map(work).collect();
    }
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let done: Vec<Result<R>> = threads.into_iter().map(join).collect();
        done.into_iter().collect()
    })
}

/// Divides the numbers below `count` into `shares` ranges of about equal length, in increasing
/// order.
pub fn shares(count: usize, shares: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..shares).map(move |share| share * count / shares..(share + 1) * count / shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gmhclust_core::error::Error;

    #[test]
    fn shares_are_the_whole_and_of_about_one_length() {
        for (count, among) in [(0, 1), (1, 3), (10, 1), (10, 3), (1_000_003, 8)] {
            let shares: Vec<_> = shares(count, among).collect();
            assert_eq!(shares.len(), among);
            let numbers: Vec<usize> = shares.iter().cloned().flatten().collect();
            assert_eq!(numbers, Vec::from_iter(0..count));
            let lengths = shares.iter().map(Range::len);
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }

    #[test]
    fn work_is_done_for_each_item_and_the_first_error_counts() {
        for count in [1, 5] {
            let square = |i: usize| Ok(i * i);
            let squares = Vec::from_iter((0..count).map(|i| i * i));
            assert_eq!(on_each(0..count, square), Ok(squares));
            let fail = |i: usize| -> Result<()> { Err(Error::Device(i.to_string())) };
            assert_eq!(on_each(0..count, fail), Err(Error::Device("0".into())));
        }
    }
}
