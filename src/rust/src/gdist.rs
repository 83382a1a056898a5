//! gdist(): distances between observations.

use std::ffi::CString;

use extendr_api::prelude::*;
use gmhclust_core::distances::Pairs;
use gmhclust_core::{Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::job::Job;
use crate::memory::plan;
use crate::{arguments, device, rvalue, vector};

/// Starts to compute distances.
/// @param x double matrix, observations in rows.
/// @param y NULL, or a double matrix with the columns of x, for distances between the two.
/// @param metric list(name, p, absolute, zero_over_zero), made by check_metric_options().
/// @param device as in job_gmhclust().
/// @return External pointer to the job.
/// @noRd
#[extendr]
fn job_gdist(x: Robj, y: Robj, metric: List, device: List) -> Robj {
    let rows = rvalue::rows(&x);
    let vectors = vector::with_optional(x, y);
    let prepare = || {
        let metric = arguments::metric("method", &metric)?;
        let choice = device::choice(&device)?;
        let sizes = vector::sizes(&vectors, ["x", "y"])?;
        let (n, columns) = sizes[0];
        let pairs = match sizes.get(1) {
            Some(&(others, _)) => Pairs::across(n, others),
            None => Pairs::within(n),
        };
        // The result, and two copies of the data.
        let copies = 2 * sizes
            .iter()
            .map(|(rows, columns)| rows * columns)
            .sum::<usize>();
        plan(
            &pairs.name(),
            ((pairs.count() + copies) * size_of::<f64>()) as f64,
        )?;
        let work = move |monitor: &Monitor, values: &[&[f64]], distances: &mut [f64]| {
            let engine = Engine::new(&choice, &Workload::distances(&pairs, columns))?;
            let points = vector::points(metric, values, &sizes, engine.cpu(), monitor)?;
            engine.run(monitor, |on| {
                on.distances(&points, &pairs, distances, monitor)
            })?;
            Ok(points.constant().to_vec())
        };
        Ok((pairs.count(), work))
    };
    let work = prepare();
    Job::start_filling(rows, vectors, work, distances_to_r).into_r()
}

/// Sets attributes of a vector in place, which saves a copy.
/// @param vector a vector to which no other variable refers.
/// @param attributes named list.
/// @return The vector; NULL if R refuses an attribute.
/// @noRd
#[extendr]
fn set_attributes_in_place(mut vector: Robj, attributes: List) -> Robj {
    for (name, value) in attributes.iter() {
        let name = CString::new(name).unwrap_or_default();
        match rvalue::set_attribute(vector, &name, &value) {
            Some(changed) => vector = changed,
            None => return rvalue::null(),
        }
    }
    vector
}

/// `constant` has the constant rows of x, then those of y, counted from 0.
fn distances_to_r(constant: Vec<usize>, distances: Robj) -> CoreResult<Robj> {
    let constant = vector::doubles(constant.into_iter().map(|row| row as f64 + 1.0))?;
    rvalue::list([("distances", distances), ("constant", constant)])
}

extendr_module! {
    mod gdist;
    fn job_gdist;
    fn set_attributes_in_place;
}
