//! Observations in the order in which a clustering reads them.

use std::borrow::Cow;

use super::partition::AprioriPartition;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::observations::{Input, Observations};

/// The observations, sorted by apriori cluster if there are any, since members in consecutive rows
/// are read much faster.
#[derive(Debug)]
pub struct Arranged<'a> {
    /// The observations in the order of the partition.
    pub x: Cow<'a, Observations>,
    pub partition: Option<AprioriPartition>,
}

impl<'a> Arranged<'a> {
    /// Copies the observations in the order of the partition, on the CPU's threads. Without a
    /// partition, copies only a matrix.
    ///
    /// # Errors
    /// As [`Observations::copied`].
    pub fn new(input: Input<'a>, partition: Option<AprioriPartition>, cpu: &Cpu) -> Result<Self> {
        let order = partition.as_ref().map(AprioriPartition::order);
        let x = cpu.install(|| match (input, order) {
            (Input::Matrix(x), None) => Observations::copied_on_threads(x).map(Cow::Owned),
            (Input::Matrix(x), Some(order)) => {
                Observations::copied_in_order(x, order).map(Cow::Owned)
            }
            (Input::Observations(x), None) => Ok(Cow::Borrowed(x)),
            (Input::Observations(x), Some(order)) => x.take_rows(order).map(Cow::Owned),
        })?;
        Ok(Self { x, partition })
    }
}
