//! Memory that this process can still take.
//!
//! Linux and macOS grant more memory than there is, and kill a process that uses it. So these
//! limits are read before a large request:
//! - The machine's memory: memory that is available without swapping, plus free swap. On macOS,
//!   which compresses memory and creates swap when needed, the physical memory.
//! - The limits of control groups, versions 1 and 2, which containers, SLURM and systemd set: for
//!   the process's group and its ancestors, the limit minus the memory in use, plus the swap that
//!   the group may use. The file cache does not count as in use, as in the kernel's `MemAvailable`:
//!   the kernel drops it before it kills a process. `memory.high` is a limit, too: above it, a
//!   process is slowed down until it hardly runs.
//! - The limit of a SLURM job, if no control group has a limit: the memory that the job asked for,
//!   minus the memory of this process.
//!
//! [`super::check`] also requests the memory and releases it. This finds the limits by which the
//! system refuses a request: `ulimit -v`, `ulimit -d`, and all limits of Windows, which grants no
//! memory that it lacks.
//!
//! No crate does this. Of the crates that Rust 1.85 compiles, sysinfo (0.36) reads control groups
//! of containers only, without ancestors and file cache, and would add 8 MB, mostly Windows
//! bindings, to the source package of 5 MB; effective-limits (0.7) reads no control groups.

use std::process::Command;
use std::{env, fmt, fs, iter};

use super::bytes::in_words;

/// Number of bytes from which on a control group's limit counts as no limit: version 1 writes "no
/// limit" as the largest number of whole pages below 2^63.
const NO_LIMIT: f64 = (1u64 << 62) as f64;

/// The memory that a limit leaves to this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Available {
    /// Bytes that the process can still take.
    pub left: f64,
    /// Bytes in total, swap included.
    pub limit: f64,
    holder: Holder,
}

impl Available {
    /// This value with `bytes` less left.
    pub fn less(self, bytes: f64) -> Self {
        Self {
            left: (self.left - bytes).max(0.0),
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Holder {
    Machine,
    ControlGroup,
    SlurmJob,
}

/// A clause for errors, as in "only 1.0 GB of this machine's 16.0 GB are available".
impl fmt::Display for Available {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let limit = in_words(self.limit);
        let of = match self.holder {
            Holder::Machine if self.left == self.limit => {
                return write!(out, "this machine has {limit}");
            }
            Holder::Machine => format!("this machine's {limit}"),
            Holder::ControlGroup => format!("the {limit} of this container or job (control group)"),
            Holder::SlurmJob => format!("the {limit} that this SLURM job asked for"),
        };
        write!(out, "only {} of {of} are available", in_words(self.left))
    }
}

/// The memory that the tightest limit leaves; `None` if the system reports no limit.
pub fn available() -> Option<Available> {
    let system = System {
        file: &|path| fs::read_to_string(path).ok(),
        variable: &|name| env::var(name).ok(),
    };
    system.available().or_else(physical_memory_of_macos)
}

fn physical_memory_of_macos() -> Option<Available> {
    if !cfg!(target_os = "macos") {
        return None;
    }
    let said = Command::new("/usr/sbin/sysctl")
        .args(["-n", "hw.memsize"])
        .output();
    let limit = parsed(&String::from_utf8(said.ok()?.stdout).ok()?)?;
    Some(Available {
        left: limit,
        limit,
        holder: Holder::Machine,
    })
}

/// Where Linux reports memory and its limits.
struct System<'a> {
    /// The text of a file, by its path; `None` if it cannot be read.
    file: &'a dyn Fn(&str) -> Option<String>,
    /// An environment variable.
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl System<'_> {
    fn available(&self) -> Option<Available> {
        let group = self.control_group();
        let job = match group {
            Some(_) => None,
            None => self.slurm_job(),
        };
        tightest([self.machine(), group, job].into_iter().flatten())
    }

    fn machine(&self) -> Option<Available> {
        let table = (self.file)("/proc/meminfo")?;
        let bytes = |name| kilobytes(&table, name);
        let limit = bytes("MemTotal:")? + bytes("SwapTotal:").unwrap_or(0.0);
        let free_swap = bytes("SwapFree:").unwrap_or(0.0);
        let free = bytes("MemAvailable:").map(|memory| memory + free_swap);
        Some(Available {
            left: free.unwrap_or(limit),
            limit,
            holder: Holder::Machine,
        })
    }

    fn free_swap(&self) -> f64 {
        let table = (self.file)("/proc/meminfo").unwrap_or_default();
        kilobytes(&table, "SwapFree:").unwrap_or(0.0)
    }

    /// The tightest limit of the control groups that this process is in.
    fn control_group(&self) -> Option<Available> {
        let hierarchies = (self.file)("/proc/self/cgroup")?;
        tightest(hierarchies.lines().filter_map(|line| self.hierarchy(line)))
    }

    /// The tightest limit in the hierarchy of a line of `/proc/self/cgroup`, as in
    /// `4:memory:/user/1000`; version 2 names no controllers. In a container, the path may be the
    /// host's; then its folders are missing, and the container's group is the mount point.
    fn hierarchy(&self, line: &str) -> Option<Available> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let folders = iter::successors(Some(path), |path| {
            path.rsplit_once('/').map(|(parent, _)| parent)
        });
        if controllers.is_empty() {
            tightest(folders.filter_map(|path| self.version_2(&format!("/sys/fs/cgroup{path}"))))
        } else if controllers.split(',').any(|name| name == "memory") {
            let folder = |path| format!("/sys/fs/cgroup/memory{path}");
            tightest(folders.filter_map(|path| self.version_1(&folder(path))))
        } else {
            None
        }
    }

    fn version_2(&self, folder: &str) -> Option<Available> {
        let number = |name| self.number(folder, name);
        let limits = [number("memory.max"), number("memory.high")];
        let limit = limits.into_iter().flatten().reduce(f64::min)?;
        let used = number("memory.current").unwrap_or(0.0);
        let cache = self.sum(folder, ["active_file", "inactive_file"]);
        let swap = number("memory.swap.max").map_or(f64::INFINITY, |most| {
            (most - number("memory.swap.current").unwrap_or(0.0)).max(0.0)
        });
        of_group(limit, (used - cache).max(0.0), swap.min(self.free_swap()))
    }

    fn version_1(&self, folder: &str) -> Option<Available> {
        let number = |name| self.number(folder, name);
        let limit = number("memory.limit_in_bytes")?;
        let used = number("memory.usage_in_bytes").unwrap_or(0.0);
        let cache = self.sum(folder, ["total_active_file", "total_inactive_file"]);
        // The limit of memory and swap together, which may leave less than the limit of memory.
        let both = number("memory.memsw.limit_in_bytes").map_or(f64::INFINITY, |most| {
            most - number("memory.memsw.usage_in_bytes").unwrap_or(0.0)
        });
        let swap = (both - (limit - used)).min(self.free_swap());
        of_group(limit, (used - cache).max(0.0), swap)
    }

    /// The number in a file of a control group; `None` if it has no number, as in "max".
    fn number(&self, folder: &str, name: &str) -> Option<f64> {
        parsed(&(self.file)(&format!("{folder}/{name}"))?)
    }

    /// The sum of entries of `memory.stat`.
    fn sum(&self, folder: &str, names: [&str; 2]) -> f64 {
        let table = (self.file)(&format!("{folder}/memory.stat")).unwrap_or_default();
        names.iter().filter_map(|name| entry(&table, name)).sum()
    }

    /// The memory that the user asked SLURM for. Limits that SLURM itself sets are control groups
    /// or `ulimit -v`.
    fn slurm_job(&self) -> Option<Available> {
        let number = |name| parsed(&(self.variable)(name)?);
        let by_cpu = || Some(number("SLURM_MEM_PER_CPU")? * number("SLURM_CPUS_ON_NODE")?);
        let megabytes = number("SLURM_MEM_PER_NODE").or_else(by_cpu)?;
        // 0 asks for all memory of a node.
        if megabytes == 0.0 {
            return None;
        }
        let limit = megabytes * (1 << 20) as f64;
        let table = (self.file)("/proc/self/status").unwrap_or_default();
        let bytes = |name| kilobytes(&table, name).unwrap_or(0.0);
        Some(Available {
            left: (limit - bytes("VmRSS:") - bytes("VmSwap:")).max(0.0),
            limit,
            holder: Holder::SlurmJob,
        })
    }
}

fn tightest(limits: impl Iterator<Item = Available>) -> Option<Available> {
    limits.min_by(|a, b| a.left.total_cmp(&b.left))
}

/// The memory that a control group leaves. `swap` bytes may be taken in addition; a negative number
/// reduces the memory that is left.
fn of_group(limit: f64, used: f64, swap: f64) -> Option<Available> {
    (limit < NO_LIMIT).then(|| Available {
        left: (limit - used + swap).max(0.0),
        limit: limit + swap.max(0.0),
        holder: Holder::ControlGroup,
    })
}

/// The bytes of an entry in kB of a table of `/proc`, as in `VmRSS:  1024 kB`.
fn kilobytes(table: &str, name: &str) -> Option<f64> {
    entry(table, name).map(|number| 1024.0 * number)
}

fn entry(table: &str, name: &str) -> Option<f64> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| parsed(words.next()?))?
    })
}

/// Parses whole numbers only: Rust parses "inf" and "nan" as floating-point numbers, too.
fn parsed(text: &str) -> Option<f64> {
    let number: u64 = text.trim().parse().ok()?;
    Some(number as f64)
}

#[cfg(test)]
mod tests;
