//! The shapes of populations, and predict(), which maps new observations to them.

use extendr_api::prelude::*;
use gmhclust_core::mahalanobis::packed::packed_len;
use gmhclust_core::populations::mixture::{
    assign, bytes_of_fit, fit, Components, Fitted, Measure, Mixture, Shape, Wanted,
};
use gmhclust_core::populations::Columns;
use gmhclust_core::{Error as CoreError, Monitor, Result as CoreResult};

use crate::arguments::Fields;
use crate::data::{Data, Rows};
use crate::job::Job;
use crate::memory::plan;
use crate::results::{integers_to_r, r_integer};
use crate::rvalue::{self, Values};
use crate::{arguments, vector};

/// Starts to compute the shapes of populations.
/// @param x as in job_gkmeans().
/// @param columns integers, the numbers of the columns to use.
/// @param population integers, the number of the population of each row from 1, 0 for none.
/// @param populations integer, the number of populations; each has a member.
/// @param threads integer.
/// @return External pointer to the job. Its value is list(means, covariances, variance, sizes,
///   singular): by population, the rows of a matrix of means, one matrix of covariances after the
///   other, and the number of members; `singular` are the numbers of populations whose own
///   covariance has no inverse. `covariances` is NULL if all have the same `variance`, else that is
///   NULL.
/// @noRd
#[extendr]
fn job_fit_populations(
    x: Robj,
    columns: Robj,
    population: Robj,
    populations: i32,
    threads: i32,
) -> Robj {
    let prepare = |data: &Data| {
        let (n, _) = data.dim()?;
        let used = arguments::numbers(&columns, "columns")?;
        let count = usize::try_from(populations).unwrap_or(0);
        let population = Values::<i32>::of(&population, "population")?;
        let is_known = |number: &i32| (0..=populations).contains(number);
        if population.len() != n || !population.iter().all(is_known) {
            return Err(CoreError::Input("`population` does not fit `x`".into()));
        }
        let bytes = (4 * n) as f64 + bytes_of_fit(n, used.len(), count);
        plan("the shapes of populations need", bytes)?;
        let population = population.to_vec();
        Ok(move |monitor: &Monitor, x: Rows| {
            let x = x.columns(&used)?;
            let cpu = arguments::cpu(threads)?;
            fit(&x, &population, count, &cpu, monitor)
        })
    };
    Job::start_on(x, prepare, fitted_to_r).into_r()
}

/// Starts to map observations to populations.
/// @param x double matrix, observations in rows.
/// @param columns integers, the number of the column of x for each column of the model.
/// @param model list(means, covariances, variance, sizes, ends): as job_fit_populations() returns
///   them, by component; and by population the number of its last component.
/// @param wanted list(type, by, limit, top): "class", "distance" or "posterior"; "distance" or
///   "posterior" and the greatest squared distance, both for classes; and the number of the best
///   populations to report, 0 for all.
/// @param threads integer.
/// @return External pointer to the job. Its value is list(index, value, finite): the classes or the
///   best populations, one column after the other; their measures, or those of all populations; and
///   whether all values were finite. If not, the others have no meaning.
/// @noRd
#[extendr]
fn job_assign_populations(x: Robj, columns: Robj, model: List, wanted: List, threads: i32) -> Robj {
    let rows = rvalue::rows(&x);
    let prepare = || {
        let (n, _) = rvalue::size(&x, "x")?;
        let used = arguments::numbers(&columns, "columns")?;
        let model = Fields::new("model", &model);
        let components = components(&model)?;
        let ends = arguments::numbers(&model.object("ends")?, "ends")?;
        let ends: Vec<usize> = ends.into_iter().map(|last| last + 1).collect();
        let wanted = wanted_of(&Fields::new("wanted", &wanted))?;
        if used.len() != components.columns {
            return Err(CoreError::Input("`columns` do not fit `model`".into()));
        }
        let (of_integers, of_doubles) = wanted.columns(ends.len());
        let lengths = [n * of_integers, n * of_doubles];
        let factors = match &components.shape {
            Shape::Covariances(all) => 16 * all.len(),
            Shape::Variance(_) => 0,
        };
        let bytes = 4 * lengths[0] + 8 * lengths[1] + factors;
        plan("the populations of all observations need", bytes as f64)?;
        let work = move |monitor: &Monitor, x: &[&[f64]], index: &mut [i32], value: &mut [f64]| {
            let mixture = Mixture::new(&components, ends)?;
            let x = Columns::new(x[0], n, &used)?;
            assign(
                &mixture,
                &x,
                wanted,
                index,
                value,
                &arguments::cpu(threads)?,
                monitor,
            )
        };
        Ok((lengths, work))
    };
    let work = prepare();
    Job::start_reading_and_filling(rows, vec![x], work, assigned_to_r).into_r()
}

fn components(model: &Fields) -> CoreResult<Components> {
    let doubles = |name: &str| Values::<f64>::of(&model.object(name)?, name);
    let means = doubles("means")?;
    let (count, p) = means.dim("means")?;
    let means = means.matrix("means")?;
    let shape = match Values::<f64>::of_optional(&model.object("covariances")?, "covariances")? {
        None => Shape::Variance(model.get("variance")?),
        Some(all) if all.len() == count * p * p => {
            let row = |c: usize, i: usize| all[(c * p + i) * p..][..=i].iter().copied();
            let rows = (0..count).flat_map(|c| (0..p).map(move |i| (c, i)));
            Shape::Covariances(rows.flat_map(|(c, i)| row(c, i)).collect())
        }
        Some(_) => {
            let message = "the population model is not sound: its covariances do not fit its means";
            return Err(CoreError::Input(message.into()));
        }
    };
    Ok(Components {
        columns: p,
        means: means.rows().into_iter().flatten().copied().collect(),
        sizes: doubles("sizes")?.to_vec(),
        shape,
    })
}

fn wanted_of(wanted: &Fields) -> CoreResult<Wanted> {
    let measure = |name: &str| match name {
        "distance" => Ok(Measure::Distance),
        "posterior" => Ok(Measure::Posterior),
        _ => Err(CoreError::Input(format!("`wanted` has the unknown {name}"))),
    };
    let kind: String = wanted.get("type")?;
    if kind == "class" {
        let by: String = wanted.get("by")?;
        return Ok(Wanted::Class {
            by: measure(&by)?,
            limit: wanted.get("limit")?,
        });
    }
    let measure = measure(&kind)?;
    let top: i32 = wanted.get("top")?;
    Ok(match usize::try_from(top).unwrap_or(0) {
        0 => Wanted::All(measure),
        count => Wanted::Top { measure, count },
    })
}

fn fitted_to_r(fitted: Fitted) -> CoreResult<Robj> {
    let Fitted {
        components,
        singular,
    } = fitted;
    let (count, p) = (components.sizes.len(), components.columns);
    let (covariances, variance) = match &components.shape {
        Shape::Variance(variance) => (rvalue::null(), vector::double(*variance)?),
        Shape::Covariances(all) => {
            let of = |c: usize, i: usize, j: usize| {
                all[c * packed_len(p) + packed_len(i.max(j)) + i.min(j)]
            };
            let places = (0..count * p * p).map(|at| of(at / (p * p), at / p % p, at % p));
            (vector::doubles(places)?, rvalue::null())
        }
    };
    let means = (0..count * p).map(|at| components.means[at % count * p + at / count]);
    let singular = singular.into_iter().map(|c| r_integer(c) + 1);
    rvalue::list([
        (
            "means",
            vector::with_dimensions(vector::doubles(means)?, count, p)?,
        ),
        ("covariances", covariances),
        ("variance", variance),
        ("sizes", vector::doubles(components.sizes.into_iter())?),
        ("singular", integers_to_r(singular.collect())?),
    ])
}

fn assigned_to_r(is_finite: bool, index: Robj, value: Robj) -> CoreResult<Robj> {
    rvalue::list([
        ("index", index),
        ("value", value),
        ("finite", rvalue::logical(is_finite)),
    ])
}

extendr_module! {
    mod population_model;
    fn job_fit_populations;
    fn job_assign_populations;
}
