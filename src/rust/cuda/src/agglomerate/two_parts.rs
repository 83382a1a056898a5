//! Merges two sets of problems at the same time.

use gmhclust_core::error::Result;
use gmhclust_core::tasks::join;
use gmhclust_core::Merge;

/// The numbers of some problems, and a function that returns the merges of each of them, in the
/// same order.
pub struct Part<'a, F> {
    pub numbers: &'a [usize],
    pub merges: F,
}

/// The merges of the problems of both parts, in the order of their numbers. The calling thread
/// merges the second part, and another thread merges the first.
///
/// # Errors
/// The error of the first part, or else the error of the second part. Both parts have ended when
/// this function returns.
pub fn merges_of_two_parts<F, S>(first: Part<'_, F>, second: Part<'_, S>) -> Result<Vec<Vec<Merge>>>
where
    F: FnOnce() -> Result<Vec<Vec<Merge>>> + Send,
    S: FnOnce() -> Result<Vec<Vec<Merge>>>,
{
    let (of_first, of_second) = std::thread::scope(|scope| {
        let of_first = scope.spawn(first.merges);
        let of_second = (second.merges)();
        (join(of_first), of_second)
    });
    let numbers = first.numbers.iter().chain(second.numbers);
    let found = of_first?.into_iter().chain(of_second?);
    let mut merges = vec![Vec::new(); first.numbers.len() + second.numbers.len()];
    for (&number, found) in numbers.zip(found) {
        merges[number] = found;
    }
    Ok(merges)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use gmhclust_core::Error;

    use super::*;

    /// Merges with these heights, one for each problem.
    fn merges(heights: &[f64]) -> Vec<Vec<Merge>> {
        let merge = |&height: &f64| {
            vec![Merge {
                lower: 0,
                higher: 1,
                height,
            }]
        };
        heights.iter().map(merge).collect()
    }

    #[test]
    fn both_parts_are_merged_at_the_same_time_and_come_back_in_order() {
        // Each part waits for the other one to begin.
        let (begin_first, first_begins) = channel();
        let (begin_second, second_begins) = channel();
        let first = Part {
            numbers: &[1, 4],
            merges: move || {
                begin_first.send(()).unwrap();
                second_begins.recv().unwrap();
                Ok(merges(&[1.0, 4.0]))
            },
        };
        let second = Part {
            numbers: &[0, 2, 3],
            merges: move || {
                begin_second.send(()).unwrap();
                first_begins.recv().unwrap();
                Ok(merges(&[0.0, 2.0, 3.0]))
            },
        };
        let all = merges_of_two_parts(first, second);
        assert_eq!(all, Ok(merges(&[0.0, 1.0, 2.0, 3.0, 4.0])));
    }

    #[test]
    fn an_error_of_either_part_is_that_of_both_and_the_first_part_s_comes_first() {
        type Outcome = Result<Vec<Vec<Merge>>>;
        let lost: Outcome = Err(Error::Device("lost".into()));
        let stopped: Outcome = Err(Error::Interrupt);
        let fine: Outcome = Ok(merges(&[0.5]));
        let both = |first: &Outcome, second: &Outcome| {
            merges_of_two_parts(
                Part {
                    numbers: &[0],
                    merges: || first.clone(),
                },
                Part {
                    numbers: &[1],
                    merges: || second.clone(),
                },
            )
        };
        assert_eq!(both(&lost, &fine), lost);
        assert_eq!(both(&fine, &stopped), stopped);
        assert_eq!(both(&lost, &stopped), lost);
    }
}
