//! Property tests on random cases: a failing case is shrunk to the simplest case that still fails.
//!
//! Cases are the same in every run. `PROPTEST_RNG_SEED` in the environment selects other cases;
//! `tools/test` sets it to the date in one of its parts.

use std::cell::Cell;
use std::fmt;
use std::iter::successors;
use std::ops::Range;

use proptest::num::u64;
use proptest::strategy::{NewTree, Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::rows::Rows;
use super::Random;

/// Largest time for shrinking a failing case, in milliseconds.
const MOST_TIME: u32 = 60_000;

/// Runs `test` on `count` random cases; fails with the simplest failing case.
pub fn for_all<S: Strategy>(count: u32, cases: S, test: impl Fn(S::Value)) {
    let default = Config::default();
    let seed = match default.rng_seed {
        RngSeed::Random => 1,
        RngSeed::Fixed(given) => given,
    };
    let config = Config {
        cases: count,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: u32::MAX - 1,
        max_shrink_time: MOST_TIME,
        ..default
    };
    let mut runner = TestRunner::new(config);
    let found = runner.run(&cases, |case| {
        test(case);
        Ok(())
    });
    if let Err(failure) = found {
        panic!("{failure}\nwith PROPTEST_RNG_SEED={seed}");
    }
}

/// A case that can be shrunk.
pub trait Shrink: Clone + fmt::Debug + 'static {
    /// Simpler cases, much simpler cases first. Repeatedly replacing a case by a simpler one must
    /// come to an end.
    fn simpler(&self) -> Simpler<Self>;
}

pub type Simpler<C> = Box<dyn Iterator<Item = C>>;

/// Copies of a case, each with one of its values replaced by one of `values`.
pub fn with_each<C: Clone + 'static, T>(
    case: &C,
    values: impl Iterator<Item = T> + 'static,
    set: impl Fn(&mut C, T) + 'static,
) -> Simpler<C> {
    let case = case.clone();
    Box::new(values.map(move |value| {
        let mut other = case.clone();
        set(&mut other, value);
        other
    }))
}

/// Cases that `draw` makes from random numbers and the number of earlier cases.
pub fn cases<C: Shrink>(draw: fn(&mut Random, usize) -> C) -> Cases<C> {
    Cases {
        draw,
        round: Cell::new(0),
    }
}

#[derive(Debug)]
pub struct Cases<C> {
    draw: fn(&mut Random, usize) -> C,
    round: Cell<usize>,
}

impl<C: Shrink> Strategy for Cases<C> {
    type Tree = Shrinking<C>;
    type Value = C;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let seed = u64::ANY.new_tree(runner)?.current();
        let round = self.round.replace(self.round.get() + 1);
        // The generator needs a seed that is not 0.
        let case = (self.draw)(&mut Random(seed | 1), round);
        Ok(Shrinking {
            case,
            simpler: None,
            candidate: None,
        })
    }
}

/// The simplest failing case so far, and the simpler case being tried.
pub struct Shrinking<C> {
    case: C,
    /// The simpler cases that were not tried yet; `None` before the case has failed.
    simpler: Option<Simpler<C>>,
    candidate: Option<C>,
}

impl<C: Shrink> ValueTree for Shrinking<C> {
    type Value = C;

    fn current(&self) -> C {
        self.candidate.as_ref().unwrap_or(&self.case).clone()
    }

    fn simplify(&mut self) -> bool {
        if let Some(failed) = self.candidate.take() {
            self.case = failed;
            self.simpler = None;
        }
        self.complicate()
    }

    fn complicate(&mut self) -> bool {
        let case = &self.case;
        let simpler = self.simpler.get_or_insert_with(|| case.simpler());
        self.candidate = simpler.next();
        self.candidate.is_some()
    }
}

/// Ranges of `count` elements to leave out of a case: halves first, single elements last.
pub fn parts(count: usize) -> impl Iterator<Item = Range<usize>> {
    let halves = |size: &usize| (*size > 1).then(|| size.div_ceil(2));
    let sizes = successors((count > 0).then(|| count.div_ceil(2)), halves);
    sizes.flat_map(move |size| {
        let starts = (0..count).step_by(size);
        starts.map(move |start| start..count.min(start + size))
    })
}

/// Smaller numbers.
pub fn smaller(number: usize, least: usize) -> impl Iterator<Item = usize> {
    let some = [
        least,
        least + number.saturating_sub(least) / 2,
        number.saturating_sub(1),
    ];
    some.into_iter()
        .filter(move |&other| least <= other && other < number)
}

/// Numbers that are nearer to 0 and easier to read, or positive.
pub fn simpler_number(number: f64) -> impl Iterator<Item = f64> {
    let rounded = |digits: f64| {
        let unit = 10f64.powi((number.abs().log10().floor() + 1.0 - digits) as i32);
        (number / unit).trunc() * unit
    };
    // For small numbers, single steps come to an end soon.
    let step = if number.abs() <= 100.0 { 1.0 } else { 0.0 };
    let some = [
        0.0,
        number.abs(),
        (number / 2.0).trunc(),
        number.trunc(),
        rounded(1.0),
        rounded(2.0),
        number - number.signum() * step,
    ];
    // Zero has no sign.
    some.into_iter()
        .map(|other| other + 0.0)
        .filter(move |other| {
            let nearer = other.abs() < number.abs() || number.is_nan() && *other == 0.0;
            let positive = number.is_sign_negative() && other.to_bits() == number.abs().to_bits();
            nearer || positive
        })
}

impl<T: Clone + fmt::Debug + 'static> Shrink for Vec<T> {
    /// Shorter vectors.
    fn simpler(&self) -> Simpler<Self> {
        with_each(self, parts(self.len()), |some, part| {
            drop(some.drain(part));
        })
    }
}

impl Rows {
    /// The rows with fewer rows or columns, but at least two rows and one column.
    pub fn fewer(&self) -> Simpler<Self> {
        let (n, p) = (self.count(), self.columns);
        let rows = parts(n).filter(move |part| n - part.len() >= 2);
        let columns = parts(p).filter(move |part| p - part.len() >= 1);
        let fewer_rows = with_each(self, rows, |some, part| drop(some.rows.drain(part)));
        let fewer_columns = with_each(self, columns, |some, part| {
            some.columns -= part.len();
            some.rows
                .iter_mut()
                .for_each(|row| drop(row.values.drain(part.clone())));
        });
        Box::new(fewer_rows.chain(fewer_columns))
    }

    /// The rows rounded to whole numbers; `None` if all numbers are whole.
    fn whole(&self) -> Option<Self> {
        let mut whole = self.clone();
        let values = whole.rows.iter_mut().flat_map(|row| &mut row.values);
        let fractions = values.filter(|value| value.fract() != 0.0 && value.is_finite());
        let changed = fractions.map(|value| *value = value.trunc() + 0.0).count();
        (changed > 0).then_some(whole)
    }
}

impl Shrink for Rows {
    fn simpler(&self) -> Simpler<Self> {
        let labels = self.rows.iter().enumerate().flat_map(|(i, row)| {
            smaller(row.label as usize, 0).map(move |label| (i, label as u32))
        });
        let values = self.rows.iter().enumerate().flat_map(|(i, row)| {
            let values = row.values.iter().enumerate();
            values.flat_map(move |(j, &v)| simpler_number(v).map(move |value| (i, j, value)))
        });
        let (labels, values): (Vec<_>, Vec<_>) = (labels.collect(), values.collect());
        let labels = with_each(self, labels.into_iter(), |some, (i, label)| {
            some.rows[i].label = label;
        });
        let values = with_each(self, values.into_iter(), |some, (i, j, value)| {
            some.rows[i].values[j] = value;
        });
        let whole = with_each(self, self.whole().into_iter(), |some, whole| *some = whole);
        Box::new(self.fewer().chain(labels).chain(whole).chain(values))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::env::current_exe;
    use std::process::Command;

    use super::super::SEED;
    use super::*;

    /// The simplest case with a failing test, by trying all simpler cases.
    fn simplest<C: Shrink>(mut case: C, fails: impl Fn(&C) -> bool) -> C {
        assert!(fails(&case));
        while let Some(simpler) = case.simpler().find(&fails) {
            case = simpler;
        }
        case
    }

    #[test]
    fn rows_shrink_to_few_small_whole_numbers() {
        let mut random = Random(7);
        let values: Vec<f64> = (0..600).map(|_| 100.0 * random.normal()).collect();
        let rows = Rows::new(&values, 60).label(3..40, 9);
        let found = simplest(rows, |rows| {
            let far = rows.values().iter().filter(|v| v.abs() >= 5.0).count();
            far >= 3 && rows.labels().iter().any(|&label| label > 1)
        });
        assert!(found.count() * found.columns <= 4, "{found:?}");
        assert_eq!(found.labels().iter().sum::<u32>(), 2, "{found:?}");
        let values = found.values();
        let allowed = |v: &f64| [0.0, 5.0].contains(v);
        assert!(values.iter().all(allowed), "{found:?}");
    }

    #[test]
    fn numbers_are_replaced_by_nearer_or_positive_ones() {
        for number in [
            1e300,
            -7.25,
            -0.0,
            1e-310,
            f64::INFINITY,
            f64::NAN,
            123_456.0,
        ] {
            let mut number = number;
            for _ in 0..2000 {
                match simpler_number(number).last() {
                    Some(other) => number = other,
                    None => break,
                }
            }
            assert_eq!(number.to_bits(), 0, "{number}");
        }
        assert_eq!(simpler_number(0.0).count(), 0);
    }

    #[test]
    #[should_panic = "minimal failing input: 11"]
    fn what_fails_is_reported_in_its_simplest_form() {
        for_all(100, 0..1000, |number| assert!(number <= 10));
    }

    #[test]
    #[ignore = "run by the test below, with seeds in the environment"]
    fn shows_what_it_draws() {
        let drawn = RefCell::new(Vec::new());
        for_all(4, cases(|random, _| vec![random.below(1 << 30)]), |case| {
            drawn.borrow_mut().extend(case);
        });
        println!("drawn: {:?} {}", drawn, Random::of(5).below(1 << 30));
    }

    #[test]
    fn a_seed_in_the_environment_draws_other_numbers_and_repeats_them() {
        let drawn = |seed: Option<&str>| {
            let mut child = Command::new(current_exe().unwrap());
            let test = "testing::shrink::tests::shows_what_it_draws";
            child.args(["--exact", test, "--ignored", "--nocapture"]);
            match seed {
                Some(seed) => child.env(SEED, seed),
                None => child.env_remove(SEED),
            };
            let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
            let shown = output.lines().find_map(|line| line.split("drawn: ").nth(1));
            let shown = shown.expect("the test shows its numbers");
            let mut numbers = shown.split_whitespace().map(str::to_owned);
            let last = numbers.next_back().unwrap();
            (numbers.collect::<Vec<_>>(), last)
        };
        let runs = [None, Some("20261125"), Some("20261126")].map(drawn);
        for (i, (of_proptest, own)) in runs.iter().enumerate() {
            for (other_of_proptest, other_own) in &runs[..i] {
                assert_ne!(of_proptest, other_of_proptest);
                assert_ne!(own, other_own);
            }
        }
        assert_eq!(drawn(Some("20261125")), runs[1]);
    }
}
