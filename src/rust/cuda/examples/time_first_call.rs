//! Times the first use of a GPU by a process, without R, and later uses for comparison: `cargo run
//! --release -p gmhclust-cuda --example time_first_call ...`, with `parts [DEVICE]` for each part
//! by itself, or `whole N P [DEVICE,...]` for a clustering of N seeded points in P columns, by all
//! devices if none is named.
//!
//! A driver caches the kernels that it has compiled. With `CUDA_CACHE_DISABLE=1` in the
//! environment, it compiles them as on a machine that has not used these kernels before.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{result, sys, CudaContext};
use gmhclust_core::mahalanobis::{cluster, Distance, Options, Subthreshold};
use gmhclust_core::testing::{draw, Data, Random};
use gmhclust_core::{Cpu, Monitor, Observations};
use gmhclust_cuda::{devices, startup, Cuda, GpuThresholds};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Number of CPU threads.
const THREADS: usize = 4;

/// Number of calls; the first one is of interest.
const CALLS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["parts"] => parts(0),
        ["parts", device] => parts(device.parse()?),
        ["whole", n, p] => whole(n.parse()?, p.parse()?, None),
        ["whole", n, p, chosen] => {
            let numbers = chosen.split(',').map(str::parse);
            let numbers: Vec<usize> = numbers.collect::<std::result::Result<_, _>>()?;
            whole(n.parse()?, p.parse()?, Some(&numbers))
        }
        _ => Err("arguments: parts [DEVICE], or whole N P [DEVICE,...]".into()),
    }
}

/// Runs a part, prints its seconds, and returns its value.
fn timed<T>(part: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let value = run()?;
    println!("{part}: {:.4} s", start.elapsed().as_secs_f64());
    Ok(value)
}

fn parts(device: usize) -> Result<()> {
    driver_parts(device)?;
    let modules = timed("kernels decompressed", || Ok(startup::unpack()?))?;
    let cuda = timed("device opened", || open(Some(&[device])))?;
    for module in modules {
        let load = || Ok(startup::load(device, module)?);
        timed(&format!("  {module} loaded"), load)?;
    }
    memory_parts(device)?;
    calls(&data(20_000, 14), &cuda)
}

/// Times the parts of the first use that are the driver's.
fn driver_parts(device: usize) -> Result<()> {
    for part in ["library loaded", "library loaded again"] {
        // SAFETY: only loads the driver's library.
        if !timed(part, || Ok(unsafe { sys::is_culib_present() }))? {
            return Err("there is no driver".into());
        }
    }
    timed("driver started", || Ok(result::init()?))?;
    for part in ["context opened", "context opened again"] {
        let context = timed(part, || Ok(CudaContext::new(device)?))?;
        let close = || {
            drop(context);
            Ok(())
        };
        timed("  closed", close)?;
    }
    timed("all devices listed", || Ok(devices()?))?;
    Ok(())
}

/// Times the first allocation of each kind of memory, and further ones.
fn memory_parts(device: usize) -> Result<()> {
    let context = CudaContext::new(device)?;
    let stream = timed("stream made", || Ok(context.new_stream()?))?;
    for part in ["16 MiB of its memory", "16 MiB more"] {
        timed(part, || {
            stream.alloc_zeros::<u8>(16 << 20)?;
            Ok(stream.synchronize()?)
        })?;
    }
    for part in ["16 MiB of page-locked memory", "16 MiB more"] {
        timed(part, || {
            // SAFETY: the memory is freed at once.
            unsafe {
                let memory = result::malloc_host(16 << 20, sys::CU_MEMHOSTALLOC_DEVICEMAP)?;
                Ok(result::free_host(memory)?)
            }
        })?;
    }
    Ok(())
}

fn whole(n: usize, p: usize, chosen: Option<&[usize]>) -> Result<()> {
    let x = data(n, p);
    let cuda = timed("devices opened", || open(chosen))?;
    calls(&x, &cuda)
}

fn open(chosen: Option<&[usize]>) -> Result<Cuda> {
    let cpu = Arc::new(Cpu::new(THREADS)?);
    Ok(Cuda::new(chosen, cpu, GpuThresholds::default())?)
}

fn data(n: usize, p: usize) -> Observations {
    draw(&mut Random(1), Data::Mixture, n, p)
}

/// Clusters the observations several times.
fn calls(x: &Observations, cuda: &Cuda) -> Result<()> {
    let options = Options {
        threshold: x.nrows() as f64 / 100.0,
        subthreshold: Subthreshold::Mahal,
        distance: Distance::Centroid,
        normalize: false,
        apriori_intra: true,
    };
    for number in 1..=CALLS {
        timed(&format!("clustering {number}"), || {
            Ok(cluster(x, None, &options, cuda, &Monitor::default())?)
        })?;
    }
    Ok(())
}
