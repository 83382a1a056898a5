//! The user's choice of backend, threads and devices.

use extendr_api::prelude::*;
use gmhclust_core::{Error as CoreError, Result as CoreResult};
use gmhclust_engine::BackendChoice;

use crate::arguments::{self, Fields};
use crate::{rvalue, vector};

/// The choice in the list that check_device() makes in R.
///
/// # Errors
/// `Error::Input` if an element is missing or has another type.
pub fn choice(list: &List) -> CoreResult<BackendChoice> {
    let fields = Fields::new("device", list);
    Ok(BackendChoice {
        backend: fields.get("backend")?,
        threads: arguments::threads(fields.get("threads")?),
        devices: match fields.integers("devices")? {
            Some(numbers) => Some(device_numbers(&numbers)?),
            None => None,
        },
    })
}

fn device_numbers(numbers: &[i32]) -> CoreResult<Vec<usize>> {
    numbers
        .iter()
        .map(|&number| usize::try_from(number))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| CoreError::Input("`devices` has numbers that are negative".into()))
}

/// The number of cores that this process may use, by its affinity and its control groups.
/// @return integer, at least 1; NULL if R has no memory for it.
/// @noRd
#[extendr]
fn usable_cores() -> Robj {
    let cores = std::thread::available_parallelism();
    let cores = cores.map_or(1, |cores| i32::try_from(cores.get()).unwrap_or(i32::MAX));
    vector::integer(cores).unwrap_or_else(|_| rvalue::null())
}

extendr_module! {
    mod device;
    fn usable_cores;
}
