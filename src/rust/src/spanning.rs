//! How single linkage measures observations, and what workers have found for it.

use extendr_api::prelude::*;
use gmhclust_core::neighbours::NeighbourLists;
use gmhclust_core::{Error as CoreError, Result as CoreResult};

use crate::arguments::Fields;
use crate::rvalue::{self, Values};

/// Argument `spanning` of a job.
pub struct Spanning {
    /// 1 for distances, more for mutual reachability distances.
    pub min_points: usize,
    /// The nearest other rows of each row, if workers have found them.
    pub known: Option<NeighbourLists>,
}

impl Spanning {
    /// The values of R's `list(min_points, known)`: an integer; NULL, or matrices `index`, from 1,
    /// and `distance`, as in the value of job_gknn().
    ///
    /// # Errors
    /// `Error::Input` if an element is missing or has another type, `Error::Memory` if there is not
    /// enough memory.
    pub fn of(list: &List) -> CoreResult<Self> {
        let fields = Fields::new("spanning", list);
        let min_points: i32 = fields.get("min_points")?;
        let known = fields.object("known")?;
        Ok(Self {
            min_points: usize::try_from(min_points).unwrap_or(1),
            known: if known.is_null() {
                None
            } else {
                Some(neighbours(&known)?)
            },
        })
    }
}

fn neighbours(known: &Robj) -> CoreResult<NeighbourLists> {
    let bad = || CoreError::Input("`known` is no list of neighbours".into());
    let list = List::try_from(known).map_err(|_| bad())?;
    let fields = Fields::new("known", &list);
    let (index, distance) = (fields.object("index")?, fields.object("distance")?);
    let (n, k) = rvalue::size(&distance, "distance")?;
    let index = Values::<i32>::of(&index, "index")?;
    let distance = Values::<f64>::of(&distance, "distance")?;
    if k == 0 || distance.len() != index.len() {
        return Err(bad());
    }
    let mut lists = NeighbourLists::with_room(n, n * k)?;
    let mut list = Vec::with_capacity(k);
    for row in 0..n {
        list.clear();
        for at in (row..n * k).step_by(n) {
            let other = index[at].checked_sub(1).map(u32::try_from);
            list.push((distance[at], other.and_then(Result::ok).ok_or_else(bad)?));
        }
        lists.push(&list);
    }
    Ok(lists)
}
