//! Observations of which a copy by rows is made only if it is needed.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use ndarray::ArrayView2;

use crate::cpu::Cpu;
use crate::error::Result;
use crate::magnitude::RunningMaximum;
use crate::observations::{check_size, not_finite, Input, Observations};

/// Observations, read by [`LazyRows::rows`], which copies those of a matrix, or by
/// [`LazyRows::read`], for a GPU, which reads any layout. Whoever reads them first checks them.
#[derive(Debug)]
pub struct LazyRows<'a> {
    input: Input<'a>,
    copy: OnceLock<Observations>,
    largest: OnceLock<f64>,
    /// Whether nobody has to wait any longer.
    was_read: Mutex<bool>,
    changed: Condvar,
}

impl<'a> From<Input<'a>> for LazyRows<'a> {
    fn from(input: Input<'a>) -> Self {
        Self {
            input,
            copy: OnceLock::new(),
            largest: OnceLock::new(),
            was_read: Mutex::new(false),
            changed: Condvar::new(),
        }
    }
}

impl<'a> From<&'a Observations> for LazyRows<'a> {
    fn from(x: &'a Observations) -> Self {
        Input::from(x).into()
    }
}

impl<'a> LazyRows<'a> {
    /// Numbers of rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        self.input.dim()
    }

    /// Number of observations.
    pub fn nrows(&self) -> usize {
        self.dim().0
    }

    /// Number of columns.
    pub fn ncols(&self) -> usize {
        self.dim().1
    }

    /// The largest magnitude of a value, as [`Observations::largest`].
    ///
    /// # Panics
    /// If nobody has read the values yet.
    pub fn largest(&self) -> f64 {
        match self.input {
            Input::Observations(x) => x.largest(),
            Input::Matrix(_) => *self.largest.get().expect("the values were read"),
        }
    }

    /// The values, where they are now, in any layout.
    pub fn view(&self) -> ArrayView2<'_, f64> {
        match (self.copy.get(), &self.input) {
            (Some(x), _) => x.view(),
            (None, Input::Observations(x)) => x.view(),
            (None, Input::Matrix(x)) => x.view(),
        }
    }

    /// The observations by rows, copied at the first call if they are those of a matrix.
    ///
    /// # Errors
    /// As [`Observations::copied`].
    pub fn rows(&self, cpu: &Cpu) -> Result<&Observations> {
        let x = match (self.copy.get(), self.input) {
            (Some(x), _) | (None, Input::Observations(x)) => x,
            (None, Input::Matrix(x)) => {
                let copied = cpu.install(|| Observations::copied_on_threads(x))?;
                self.largest.get_or_init(|| copied.largest());
                self.copy.get_or_init(|| copied)
            }
        };
        self.wake();
        Ok(x)
    }

    /// Calls `read` with the values and a function. `read` reads all values, and passes the values
    /// of a matrix to the function, on any threads, in any parts.
    ///
    /// # Errors
    /// Those of `read`, and `Error::Input` as [`Observations::copied`].
    pub fn read(
        &self,
        read: impl FnOnce(&ArrayView2<f64>, &(dyn Fn(&[f64]) + Sync)) -> Result<()>,
    ) -> Result<()> {
        let view = self.view();
        match (self.input, self.largest.get()) {
            (Input::Matrix(x), None) => {
                let (rows, columns) = x.dim();
                check_size(rows, columns)?;
                let maximum = RunningMaximum::default();
                read(&view, &|values| maximum.update(values))?;
                let largest = maximum.value();
                if largest.is_infinite() {
                    return Err(not_finite(x.iter(), columns));
                }
                self.largest.get_or_init(|| largest);
            }
            _ => read(&view, &|_| ())?,
        }
        self.wake();
        Ok(())
    }

    /// Waits until the values were read, or until a value of [`LazyRows::wake_at_end`] is dropped.
    pub fn wait_until_read(&self) {
        let lock = self.was_read.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(lock, |was_read| !*was_read);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// A value that ends [`LazyRows::wait_until_read`] on all threads when it is dropped, because
    /// the values may never be read after an error or a panic.
    pub fn wake_at_end(&self) -> WakeAtEnd<'_, 'a> {
        WakeAtEnd(self)
    }

    fn wake(&self) {
        *self.was_read.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// See [`LazyRows::wake_at_end`].
pub struct WakeAtEnd<'r, 'a>(&'r LazyRows<'a>);

impl Drop for WakeAtEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{array, s, Array2};

    use super::*;
    use crate::error::Error;

    fn cpu() -> Cpu {
        Cpu::new(2).unwrap()
    }

    /// Passes all values to the visitor, column by column.
    fn pass(x: &ArrayView2<f64>, visit: &(dyn Fn(&[f64]) + Sync)) -> Result<()> {
        x.columns()
            .into_iter()
            .for_each(|column| visit(&column.to_vec()));
        Ok(())
    }

    /// The same values as rows, as columns, and as every second column of more.
    #[test]
    fn every_layout_has_the_same_rows() {
        let x = array![[1.0, -8.0, 2.0], [3.0, 4.0, 0.5]];
        let columns = x.t().as_standard_layout().into_owned();
        let mut more = Array2::zeros((2, 6));
        more.slice_mut(s![.., ..;2]).assign(&x);
        let expected = Observations::new(x.clone()).unwrap();
        for view in [x.view(), columns.t(), more.slice(s![.., ..;2])] {
            let lazy = LazyRows::from(Input::Matrix(view));
            assert_eq!(lazy.view(), x);
            lazy.read(pass).unwrap();
            assert_eq!((lazy.dim(), lazy.largest()), ((2, 3), 8.0));
            assert_eq!(lazy.view(), view);
            let lazy = LazyRows::from(Input::Matrix(view));
            assert_eq!(lazy.rows(&cpu()).unwrap(), &expected);
            assert_eq!(lazy.largest(), 8.0);
            assert!(lazy.view().is_standard_layout());
        }
    }

    #[test]
    fn observations_are_not_copied() {
        let x = Observations::new(array![[1.0], [2.0]]).unwrap();
        let lazy = LazyRows::from(&x);
        assert_eq!(lazy.largest(), 2.0);
        lazy.read(|_, _| Ok(())).unwrap();
        assert!(std::ptr::eq(lazy.rows(&cpu()).unwrap(), &x));
    }

    #[test]
    fn wrong_values_and_sizes_are_refused_as_in_rows() {
        for (values, (rows, columns)) in [
            (vec![1.0, 2.0, f64::NAN, f64::INFINITY], (2, 2)),
            (vec![1.0], (1, 1)),
            (vec![], (2, 0)),
        ] {
            let x = Array2::from_shape_vec((columns, rows), values).unwrap();
            let expected = Observations::copied(x.t()).map(|_| ());
            assert!(matches!(expected, Err(Error::Input(_))));
            let lazy = LazyRows::from(Input::Matrix(x.t()));
            assert_eq!(lazy.read(pass), expected);
            assert_eq!(lazy.rows(&cpu()).map(|_| ()), expected);
        }
    }

    /// A thread that waits goes on after either way to read, and after a failure once it is woken.
    #[test]
    fn waiting_ends_when_the_values_were_read() {
        let x = array![[1.0], [2.0]];
        let ends: [fn(&LazyRows); 3] = [
            |lazy| lazy.read(pass).unwrap(),
            |lazy| assert_eq!(lazy.rows(&cpu()).unwrap().dim(), (2, 1)),
            |lazy| {
                let _end = lazy.wake_at_end();
                let failed = lazy.read(|_, _| Err(Error::Interrupt));
                assert_eq!(failed, Err(Error::Interrupt));
            },
        ];
        for end in ends {
            let lazy = LazyRows::from(Input::Matrix(x.view()));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| lazy.wait_until_read());
                assert!(!waiting.is_finished());
                end(&lazy);
                waiting.join().unwrap();
            });
        }
    }
}
