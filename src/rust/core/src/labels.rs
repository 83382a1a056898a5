//! Labels of groups as consecutive numbers.

use crate::error::Result;
use crate::memory;

/// Labels up to this number always get an entry in the table. Larger labels get one only up to the
/// number of values, so that the table takes little time.
const SMALL: usize = 1 << 14;

/// First words of a memory error, before the number of bytes.
const CODES: &str = "the codes of labels need";

/// Labels, and their places in a list of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Coded {
    /// Different labels, none of them 0.
    pub labels: Vec<i32>,
    /// For each value, the place of its label in `labels`, from 1; 0 for a value that is no label.
    /// `None` if the codes equal the values.
    pub codes: Option<Vec<i32>>,
}

impl Coded {
    /// Codes `values` by `labels` or, without them, by all labels that occur, in increasing order.
    /// 0 and R's missing value, the smallest integer, are no labels. `None` if a value or a label
    /// is negative, or if one is so large that its table would take long. Takes O(n) time.
    ///
    /// # Errors
    /// `Error::Memory`.
    pub fn new(values: &[i32], labels: Option<&[i32]>) -> Result<Option<Self>> {
        let range = |values: &[i32]| {
            let numbers = || {
                values
                    .iter()
                    .map(|&value| if value == i32::MIN { 0 } else { value })
            };
            (numbers().min().unwrap_or(1), numbers().max().unwrap_or(0))
        };
        let (least, greatest) = range(values);
        let (least_label, greatest_label) = range(labels.unwrap_or_default());
        let most = greatest.max(greatest_label).max(0) as usize;
        if most > values.len().max(SMALL) || least.min(least_label) < 0 {
            return Ok(None);
        }
        // By label: its place in `labels`, from 1. Until `labels` are known, 1 marks a label that
        // occurs.
        let mut places = memory::zeros::<i32>(CODES, most + 1)?;
        let place = |value: i32| usize::try_from(value).unwrap_or(0);
        let labels = match labels {
            Some(labels) => memory::copied(CODES, labels)?,
            None => {
                values.iter().for_each(|&value| places[place(value)] = 1);
                let there = (1..=most).filter(|&label| places[label] == 1);
                let mut labels = memory::room(CODES, there.clone().count())?;
                labels.extend(there.map(|label| label as i32));
                labels
            }
        };
        for (number, &label) in (1..).zip(&labels) {
            places[place(label)] = number;
        }
        places[0] = 0;
        let are_codes = least > 0 && (1..=greatest).all(|value| places[place(value)] == value);
        let codes = if are_codes {
            None
        } else {
            let codes = values.iter().map(|&value| places[place(value)]);
            Some(memory::collected(CODES, codes)?)
        };
        Ok(Some(Self { labels, codes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_numbers_in_their_order() {
        let values = [7, 0, 3, i32::MIN, 7, 20_000, 3];
        let coded = |values: &[i32], labels: Option<&[i32]>| Coded::new(values, labels).unwrap();
        assert_eq!(coded(&values, None), None);
        let found = coded(&values[..5], None).unwrap();
        assert_eq!(found.labels, [3, 7]);
        assert_eq!(found.codes.unwrap(), [2, 0, 1, 0, 2]);
        let found = coded(&values[..5], Some(&[7, 9])).unwrap();
        assert_eq!(found.codes.unwrap(), [1, 0, 0, 0, 1]);
        assert_eq!(coded(&[1, -1], None), None);
        assert_eq!(coded(&[1], Some(&[-1])), None);
        assert_eq!(coded(&[0, i32::MIN], None).unwrap().codes.unwrap(), [0, 0]);
        assert!(coded(&[], None).unwrap().labels.is_empty());
    }

    #[test]
    fn values_that_are_codes_are_not_copied() {
        let codes = |values: &[i32], labels: Option<&[i32]>| {
            Coded::new(values, labels).unwrap().unwrap().codes
        };
        assert_eq!(codes(&[2, 1, 3, 1], None), None);
        assert_eq!(codes(&[2, 1, 1], Some(&[1, 2, 5])), None);
        assert_eq!(codes(&[2, 0, 1], None), Some(vec![2, 0, 1]));
        assert_eq!(codes(&[2, i32::MIN, 1], None), Some(vec![2, 0, 1]));
        assert_eq!(codes(&[2, 3, 2], None), Some(vec![1, 2, 1]));
        assert_eq!(codes(&[2, 1], Some(&[2, 1])), Some(vec![1, 2]));
        assert_eq!(codes(&[2, 1, 3], Some(&[1, 2])), Some(vec![2, 1, 0]));
    }
}
