//! Observations of which a copy by rows is made only if it is needed.

use std::sync::OnceLock;

use ndarray::ArrayView2;

use crate::cpu::Cpu;
use crate::error::Result;
use crate::magnitude::largest_on_threads;
use crate::observations::{check_size, not_finite, Input, Observations};

/// Checked observations. Those of a matrix stay there until [`LazyRows::rows`] copies them: a GPU
/// reads each value once, from any layout.
#[derive(Debug)]
pub struct LazyRows<'a> {
    input: Input<'a>,
    largest: f64,
    copy: OnceLock<Observations>,
}

impl<'a> LazyRows<'a> {
    /// Checks the values of a matrix, on the CPU's threads.
    ///
    /// # Errors
    /// As [`Observations::copied`].
    pub fn new(input: impl Into<Input<'a>>, cpu: &Cpu) -> Result<Self> {
        let (input, copy) = (input.into(), OnceLock::new());
        let largest = match input {
            Input::Observations(x) => x.largest(),
            Input::Matrix(x) => match x.as_slice_memory_order() {
                Some(values) => checked(x, values, cpu)?,
                None => {
                    let copied = copied(x, cpu)?;
                    copy.get_or_init(|| copied).largest()
                }
            },
        };
        Ok(Self {
            input,
            largest,
            copy,
        })
    }

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
    pub fn largest(&self) -> f64 {
        self.largest
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
    /// `Error::Memory` if there is not enough memory.
    pub fn rows(&self, cpu: &Cpu) -> Result<&Observations> {
        let x = match (self.copy.get(), self.input) {
            (Some(x), _) | (None, Input::Observations(x)) => return Ok(x),
            (None, Input::Matrix(x)) => x,
        };
        let copied = copied(x, cpu)?;
        Ok(self.copy.get_or_init(|| copied))
    }
}

/// Checks a matrix, given its values in any order. Returns the largest magnitude of a value.
fn checked(x: ArrayView2<f64>, values: &[f64], cpu: &Cpu) -> Result<f64> {
    let (rows, columns) = x.dim();
    check_size(rows, columns)?;
    let largest = cpu.install(|| largest_on_threads(values));
    match largest.is_finite() {
        true => Ok(largest),
        false => Err(not_finite(x.iter(), columns)),
    }
}

fn copied(x: ArrayView2<f64>, cpu: &Cpu) -> Result<Observations> {
    cpu.install(|| Observations::copied_on_threads(x))
}

#[cfg(test)]
mod tests {
    use ndarray::{array, s, Array2};

    use super::*;
    use crate::error::Error;

    fn cpu() -> Cpu {
        Cpu::new(2).unwrap()
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
            let lazy = LazyRows::new(Input::Matrix(view), &cpu()).unwrap();
            assert_eq!((lazy.dim(), lazy.largest()), ((2, 3), 8.0));
            assert_eq!(lazy.view(), x);
            assert_eq!(lazy.rows(&cpu()).unwrap(), &expected);
            assert!(lazy.view().is_standard_layout());
        }
    }

    #[test]
    fn observations_are_not_copied() {
        let x = Observations::new(array![[1.0], [2.0]]).unwrap();
        let lazy = LazyRows::new(&x, &cpu()).unwrap();
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
            let lazy = LazyRows::new(Input::Matrix(x.t()), &cpu()).map(|x| x.dim());
            let expected = Observations::copied(x.t()).map(|x| x.dim());
            assert!(matches!(expected, Err(Error::Input(_))));
            assert_eq!(lazy, expected);
        }
    }
}
