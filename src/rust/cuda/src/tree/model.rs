//! Runs the kernels of tree.cu on the CPU with several blocks. The blocks take turns at random and
//! share a weakly ordered memory, which kernels/host/memory.cpp describes.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::{c_char, CStr};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;

use bytemuck::cast_slice_mut;
use gmhclust_core::mahalanobis::{AgglomerationDevice, Distance, Options, Problem, Subthreshold};
use gmhclust_core::testing::{draw, Random, DATA};
use gmhclust_core::{Cpu, Merge, Monitor};
use libloading::Library;

use super::arrays::{control, to_merges, Placement, Status, Tree, TreeLayout, TreeSizes};
use super::clusters::Clusters;
use super::start::{Contents, Start};
use super::testing::{assert_grown, prepare_launch, Trees};
use crate::host::{function, library_with_memory};

/// What a launch did, as in kernels/host/memory.hpp.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Turns {
    switches: u32,
    delayed_writes: u32,
    stale_words: u32,
}

/// Small sizes, so that ring buffers and tags wrap around and blocks share all work.
const SMALL: [&str; 14] = [
    "DIMENSIONS=16",
    "RECENT=8",
    "ALONE=0",
    "GROUP=1",
    "MIN_IN_CHUNK=1",
    "SWEEP_CHUNKS=4",
    "DISTANCE_HELPERS=3",
    "SPANS_ALONE=7",
    "SPAN=2",
    "FEW_MEMBER_DISTANCES=8",
    "LONG_DIRECTION=2",
    "LARGE=3",
    "MOST_MEMBERS=8",
    "MANY_BALLS=(tree.dimensions%2?1:4096)",
];

fn model(more: &[&str]) -> Library {
    library_with_memory("model.cpp", &[&SMALL, more].concat())
}

/// The arrays of a tree, in memory that the blocks share.
struct Arena<'a> {
    host: &'a Library,
    memory: *mut u64,
    words: usize,
    layout: TreeLayout,
}

impl<'a> Arena<'a> {
    fn new(host: &'a Library, sizes: &TreeSizes, contents: &Contents<'_>) -> Self {
        let layout = sizes.layout();
        let words = layout.bytes.div_ceil(8);
        // SAFETY: the function has this type.
        let memory = unsafe {
            function::<unsafe extern "C" fn(usize) -> *mut u64>(host, "model_take_arena")(8 * words)
        };
        assert!(!memory.is_null(), "too little memory");
        let mut arena = Self {
            host,
            memory,
            words,
            layout,
        };
        // Kernels must write before they read: the initial values are meaningless.
        arena.all().fill(u64::MAX - 0xffff_0000_ffff);
        let TreeLayout {
            arrays, clusters, ..
        } = arena.layout.clone();
        arena.bytes_mut(&arrays.members).fill(0);
        let to = RefCell::new(&mut arena);
        let put = |range: &Range<usize>, content: &[u8]| -> Result<(), Infallible> {
            let range = range.start..range.start + content.len();
            to.borrow_mut().bytes_mut(&range).copy_from_slice(content);
            Ok(())
        };
        let cpu = Cpu::new(1).unwrap();
        contents.copy(&arrays, &clusters, &cpu, put).unwrap();
        arena
    }

    fn all(&mut self) -> &mut [u64] {
        // SAFETY: the arena has this number of words, and is freed in `drop`.
        unsafe { slice::from_raw_parts_mut(self.memory, self.words) }
    }

    fn address(&self, range: &Range<usize>) -> u64 {
        self.memory as u64 + range.start as u64
    }

    fn bytes_mut(&mut self, range: &Range<usize>) -> &mut [u8] {
        &mut cast_slice_mut(self.all())[range.clone()]
    }

    /// The first bytes of an array.
    fn front(&mut self, range: &Range<usize>, bytes: usize) -> Vec<u8> {
        self.bytes_mut(range)[..bytes].to_vec()
    }

    fn control(&mut self) -> &mut [u32] {
        let range = self.layout.arrays.control.clone();
        cast_slice_mut(self.bytes_mut(&range))
    }
}

impl Drop for Arena<'_> {
    fn drop(&mut self) {
        // SAFETY: the function has this type, and nothing uses the memory any more.
        unsafe {
            function::<unsafe extern "C" fn(*mut u64)>(self.host, "model_give_arena")(self.memory);
        }
    }
}

/// Parameters of the launches that make a tree.
#[derive(Debug, Clone, Copy)]
struct LaunchParameters {
    blocks: u32,
    seed: u64,
    max_jobs: u32,
    batch: u32,
    placement: Placement,
}

type HostTree = unsafe extern "C" fn(*const Tree, *const Clusters, u32, bool, u32, u32);
type ModelGrow = unsafe extern "C" fn(
    *const Tree,
    *const Clusters,
    *mut u64,
    usize,
    u32,
    u64,
    *mut Turns,
) -> bool;

/// Makes the merges of a problem by several blocks. Returns `None` if the kernels give up.
///
/// # Panics
/// If the blocks wait for each other for ever.
fn grow(host: &Library, problem: &Problem, parameters: LaunchParameters) -> Option<Vec<Merge>> {
    let bounding_box = problem.bounding_box();
    let monitor = Monitor::default();
    let (start, contents) = Start::new(problem, &bounding_box, 16, &monitor).unwrap();
    let sizes = start.sizes;
    let n = sizes.clusters;
    let mut arena = Arena::new(host, &sizes, &contents);
    let mut watch = [0u32; 2];
    let layout = arena.layout.clone();
    let arrays = layout.arrays;
    let addresses = arrays.map(|range| arena.address(range));
    let mut tree = start.tree(problem, addresses, watch.as_mut_ptr() as u64);
    tree.milliseconds = 1_000_000;
    tree.member_room = tree.member_room.min(8 * sizes.observations as u32);
    tree.placement = parameters.placement as u32;
    tree.max_jobs = parameters.max_jobs;
    let addresses = layout.clusters.each_ref().map(|range| arena.address(range));
    let mut clusters = start.clusters(addresses);
    // SAFETY: the function has this type, and all arrays have the lengths of a launch on a device.
    let run = |tree: &Tree, clusters: &Clusters, what: u32, used: u32, left: u32| unsafe {
        function::<HostTree>(host, "host_tree")(tree, clusters, what, false, used, left);
    };
    let mut used = n as u32;
    tree.merges_until = used / 2;
    run(&tree, &clusters, 0, used, used);
    let search = if start.are_points() { 6 } else { 1 };
    run(&tree, &clusters, search, used, used);
    let mut merges = 0;
    for launch in 0.. {
        tree.batch = parameters.batch;
        arena.control()[..control::STATE_STARTS].fill(0);
        for array in [&arrays.posted, &arrays.done] {
            arena.bytes_mut(array).fill(0);
        }
        cast_slice_mut::<u8, u32>(arena.bytes_mut(&arrays.shared_work)).fill(0x7fff_ffff);
        let mut turns = Turns::default();
        // SAFETY: as above.
        let ended = unsafe {
            function::<ModelGrow>(host, "model_grow")(
                &tree,
                &clusters,
                arena.memory,
                8 * arena.words,
                parameters.blocks,
                parameters.seed + launch,
                &mut turns,
            )
        };
        assert!(ended, "blocks wait for each other for ever: {parameters:?}");
        let state = arena.control().to_vec();
        // As on a device: the launch after a launch without a merge prepares a single pair.
        if state[control::MERGES] == merges {
            tree.batch = 1;
        }
        merges = state[control::MERGES];
        let status = Status::of(state[control::STATUS]).unwrap();
        let after_gaps = (n as u32 - merges, u32::MAX);
        let is_done = prepare_launch(
            status,
            &mut tree,
            &mut clusters,
            &mut used,
            after_gaps,
            sizes.observations,
            run,
        )?;
        if is_done {
            break;
        }
    }
    let count = n - 1;
    Some(to_merges(
        &arena.front(&arrays.heights, 8 * count),
        &arena.front(&arrays.lower, 4 * count),
        &arena.front(&arrays.higher, 4 * count),
    ))
}

/// Number of trees. With too few trees, a mistake in the hand-overs is found late.
const TREES: usize = 40;

#[test]
fn trees_of_several_blocks_are_those_of_the_cpu() {
    // RING and TAG_BITS are large enough that neither wraps around while a late block reads a post
    // or helps with shared work.
    let host = model(&["RING=1024", "TAG_BITS=8"]);
    let cpu = Cpu::new(1).unwrap();
    let mut random = Random::of(78);
    for case in 0..TREES {
        let data = DATA[random.below(DATA.len())];
        let p = 1 + random.below(5);
        let n = 2 + random.below(44);
        let options = Options {
            threshold: [1.0, 4.5, p as f64 + 2.0, 30.0][random.below(4)],
            subthreshold: Subthreshold::ALL[random.below(4)],
            distance: if random.below(2) == 0 {
                Distance::Centroid
            } else {
                Distance::FullMahalanobis
            },
            normalize: random.below(2) == 0,
            apriori_intra: true,
        };
        let parameters = LaunchParameters {
            blocks: 2 + random.below(4) as u32,
            seed: (random.uniform() * 1e15) as u64,
            max_jobs: [32, 48, 64][random.below(3)],
            batch: [2, 8, 32][random.below(3)],
            placement: Placement::ALL[random.below(4)],
        };
        let x = draw(&mut random, data, n, p);
        let problem = Problem::of_observations(&x, 0..n as u32, options);
        let problems = [problem];
        let case = format!("case {case}, {data:?}, {n} x {p}, {options:?}, {parameters:?}");
        let expected = cpu.agglomerate(&problems, &Monitor::default());
        let expected = &expected.unwrap()[0];
        let several = Trees::new(Cpu::new(1).unwrap(), |problem, _, _| {
            Ok(grow(&host, problem, parameters))
        });
        let found = several.agglomerate(&problems, &Monitor::default());
        for (at, (found, expected)) in found.unwrap()[0].iter().zip(expected).enumerate() {
            assert_eq!(found, expected, "merge {at}: {case}");
        }
        assert_grown((0, 0), several.counts(), &case);
    }
}

/// The hand-overs that kernels/host/model.cpp tests, by their numbers there.
#[derive(Debug, Clone, Copy)]
enum HandOver {
    JobsAndResults,
    SharedWork,
    Commits,
}

/// Runs a hand-over `runs` times, by 3 to 5 blocks, each time with another random order of turns.
fn check(what: HandOver, runs: usize) {
    type Check = unsafe extern "C" fn(u32, u32, u64, *mut Turns) -> *const c_char;
    static HOST: OnceLock<Library> = OnceLock::new();
    let host = HOST.get_or_init(|| model(&["RING=64", "TAG_BITS=3"]));
    let mut random = Random::of(79 + what as u64);
    let mut stale_words = 0;
    for run in 0..runs {
        let (blocks, seed) = (3 + run % 3, (random.uniform() * 1e15) as u64);
        let mut turns = Turns::default();
        // SAFETY: the function has this type, and the message is a string literal.
        let failure = unsafe {
            let check = function::<Check>(host, "model_check");
            let message = check(what as u32, blocks as u32, seed, &mut turns);
            (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy())
        };
        assert_eq!(failure, None, "{what:?}, {blocks} blocks, seed {seed}");
        assert!(turns.switches > 0 && turns.delayed_writes > 0);
        stale_words += turns.stale_words;
    }
    assert!(stale_words > 0, "a weak memory");
}

#[test]
fn each_job_is_done_once_and_its_result_is_whole() {
    check(HandOver::JobsAndResults, 60);
}

#[test]
fn each_chunk_of_shared_work_is_done_once() {
    check(HandOver::SharedWork, 80);
}

#[test]
fn what_is_read_of_committed_merges_is_of_one_cluster() {
    check(HandOver::Commits, 50);
}
