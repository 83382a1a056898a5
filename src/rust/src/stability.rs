//! stability(): how well branches of a tree agree with trees of drawn observations.

use extendr_api::prelude::*;
use gmhclust_core::agreement::{LeafSet, LeafSets};
use gmhclust_core::mahalanobis::Stability;
use gmhclust_core::{memory, Error as CoreError, Monitor, Result as CoreResult};
use gmhclust_engine::{Engine, Workload};

use crate::arguments::{self, Fields};
use crate::data::{Data, Rows};
use crate::gmhclust::{apriori_codes, options_of};
use crate::job::Job;
use crate::memory::plan;
use crate::rvalue::{self, Values};
use crate::{device, vector};

/// First words of a memory error, before the number of bytes.
const NEEDS: &str = "drawing and comparing trees needs";

/// Bytes for each observation, besides its values: leaves, and the members of a draw.
const BYTES_PER_OBSERVATION: usize = 24;

/// Bytes for each leaf of each draw.
const BYTES_PER_DRAWN_LEAF: usize = 16;

/// Starts to compare sets of leaves with the trees of drawn leaves.
/// @param x,options as in job_gmhclust().
/// @param leaf NULL if each observation is a leaf, or integers: the leaf of each observation.
/// @param draws list(leaves, counts): integers, the drawn leaves, one draw after the other, and the
///   number of leaves of each draw.
/// @param sets list(sizes, order, first, last, members): doubles, the observations of each leaf;
///   integers, the leaves from left to right, and the first and the last place in this order of
///   each set that is a branch; doubles, the observations of each leaf in each further set, one set
///   after the other.
/// @param device as in job_gmhclust().
/// @return External pointer to the job. Its value is list(agreement, backend): doubles, the largest
///   Jaccard coefficient of each set with a branch of each draw, NaN for less than two leaves, one
///   draw after the other; and the name of the backend.
/// @noRd
#[extendr]
fn job_stability(
    x: Robj,
    options: List,
    leaf: Robj,
    draws: List,
    sets: List,
    device: List,
) -> Robj {
    let prepare = |data: &Data| {
        let (n, columns) = data.dim()?;
        let draws = draws_of(&draws)?;
        let drawn: usize = draws.iter().map(Vec::len).sum();
        let each = BYTES_PER_OBSERVATION + data.bytes_per_value() * columns;
        plan(NEEDS, (n * each + drawn * BYTES_PER_DRAWN_LEAF) as f64)?;
        let options = options_of(&options)?;
        let leaf = Values::of_optional(&leaf, "leaf")?;
        let leaf = leaf.map(|leaf| apriori_codes(&leaf, n)).transpose()?;
        let sets = sets_of(&sets)?;
        let choice = device::choice(&device)?;
        Ok(move |monitor: &Monitor, rows: Rows| {
            let sizes = draws.iter().map(Vec::len);
            let work = Workload::draws(sizes, columns, leaf.is_none(), options.distance);
            let engine = Engine::new(&choice, &work)?;
            let (leaf, cpu) = (leaf.as_deref(), engine.cpu());
            let mut stability = Stability::new(rows.input(), leaf, &options, &draws, sets, cpu)?;
            engine.run(monitor, |on| stability.run(on, monitor))?;
            Ok((stability.into_agreements(), engine.name()))
        })
    };
    Job::start_on(x, prepare, agreements_to_r).into_r()
}

/// The leaves, from 0, of each draw.
fn draws_of(list: &List) -> CoreResult<Vec<Vec<u32>>> {
    let fields = Fields::new("draws", list);
    let leaves = arguments::numbers(&fields.object("leaves")?, "leaves")?;
    let mut leaves = leaves.into_iter().map(|leaf| leaf as u32);
    let counts = Values::<i32>::of(&fields.object("counts")?, "counts")?;
    let draw = |&count: &i32| {
        let count = usize::try_from(count).unwrap_or(0).min(leaves.len());
        memory::collected(
            NEEDS,
            leaves.by_ref().take(count).collect::<Vec<_>>().into_iter(),
        )
    };
    counts.iter().map(draw).collect()
}

fn sets_of(list: &List) -> CoreResult<LeafSets> {
    let fields = Fields::new("sets", list);
    let sizes = Values::<f64>::of(&fields.object("sizes")?, "sizes")?.to_vec();
    let order = arguments::numbers(&fields.object("order")?, "order")?;
    let first = arguments::numbers(&fields.object("first")?, "first")?;
    let last = arguments::numbers(&fields.object("last")?, "last")?;
    let members = Values::<f64>::of(&fields.object("members")?, "members")?;
    let n = sizes.len();
    if first.len() != last.len() || n == 0 || members.len() % n != 0 {
        return Err(CoreError::Input("`sets` do not fit each other".into()));
    }
    let branches = first.into_iter().zip(last);
    let branches = branches.map(|(first, last)| LeafSet::Branch(first..last + 1));
    let others = members.chunks_exact(n);
    let others = others.map(|members| LeafSet::Members(members.to_vec()));
    LeafSets::new(sizes, &order, branches.chain(others).collect())
}

fn agreements_to_r((agreements, backend): (Vec<Vec<f64>>, &'static str)) -> CoreResult<Robj> {
    let all = agreements.concat();
    rvalue::list([
        ("agreement", vector::doubles(all.into_iter())?),
        ("backend", rvalue::string(backend)?),
    ])
}

extendr_module! {
    mod stability;
    fn job_stability;
}
