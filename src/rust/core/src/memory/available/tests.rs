//! Tests the limits of systems that are described by their files.

use std::collections::HashMap;

use super::*;

const MB: f64 = 1e6;

/// The memory available on a machine with 16 GB, 8 GB of them available, and no swap. `listed` are
/// its files and variables; no others can be read.
fn available(listed: &[(&str, &str)]) -> Option<Available> {
    let meminfo = "MemTotal:       16000000 kB\nMemFree:          100000 kB\n\
                   MemAvailable:    8000000 kB\nSwapTotal:             0 kB\n\
                   SwapFree:              0 kB\n";
    let machine = [("/proc/meminfo", meminfo)];
    available_on(&[&machine, listed].concat())
}

fn available_on(listed: &[(&str, &str)]) -> Option<Available> {
    let all: HashMap<&str, &str> = listed.iter().copied().collect();
    let text = |name: &str| all.get(name).map(|text| text.to_string());
    let system = System {
        file: &text,
        variable: &text,
    };
    system.available()
}

fn left(listed: &[(&str, &str)]) -> f64 {
    available(listed).unwrap().left
}

const OF_MACHINE: f64 = 8_000_000.0 * 1024.0;

#[test]
fn a_machine_without_groups_has_what_it_says_is_available() {
    assert_eq!(left(&[]), OF_MACHINE);
    let swap = "MemTotal: 3000 kB\nMemAvailable: 1000 kB\nSwapTotal: 900 kB\nSwapFree: 500 kB\n";
    let with_swap = available_on(&[("/proc/meminfo", swap)]).unwrap();
    assert_eq!(
        (with_swap.left, with_swap.limit),
        (1500.0 * 1024.0, 3900.0 * 1024.0)
    );
    let old_kernel = "MemTotal: 3000 kB\nMemFree: 7 kB\nSwapTotal: 900 kB\n";
    assert_eq!(
        available_on(&[("/proc/meminfo", old_kernel)]).unwrap().left,
        3900.0 * 1024.0
    );
}

#[test]
fn a_system_that_tells_nothing_has_no_limit() {
    assert_eq!(available_on(&[]), None);
    assert_eq!(available_on(&[("/proc/meminfo", "not a table\n")]), None);
}

#[test]
fn the_tightest_ancestor_of_version_2_counts() {
    let group = ("/proc/self/cgroup", "0::/job.slice/step.scope/task\n");
    let outer = [
        ("/sys/fs/cgroup/job.slice/memory.max", "3000000000\n"),
        ("/sys/fs/cgroup/job.slice/memory.current", "2900000000\n"),
    ];
    let middle = [
        (
            "/sys/fs/cgroup/job.slice/step.scope/memory.max",
            "2000000000\n",
        ),
        (
            "/sys/fs/cgroup/job.slice/step.scope/memory.current",
            "500000000\n",
        ),
    ];
    let inner = [(
        "/sys/fs/cgroup/job.slice/step.scope/task/memory.max",
        "max\n",
    )];
    assert_eq!(left(&[&[group], &inner[..], &middle].concat()), 1500.0 * MB);
    assert_eq!(
        left(&[&[group], &inner[..], &middle, &outer].concat()),
        100.0 * MB
    );
    assert_eq!(left(&[&[group], &inner[..]].concat()), OF_MACHINE);
    // More than the machine has.
    let wide = [
        group,
        ("/sys/fs/cgroup/job.slice/memory.max", "64000000000\n"),
    ];
    assert_eq!(left(&wide), OF_MACHINE);
}

#[test]
fn memory_high_is_a_limit() {
    let of = |high| {
        left(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "2000000000\n"),
            ("/sys/fs/cgroup/memory.high", high),
            ("/sys/fs/cgroup/memory.current", "500000000\n"),
        ])
    };
    assert_eq!(of("1800000000\n"), 1300.0 * MB);
    assert_eq!(of("max\n"), 1500.0 * MB);
}

#[test]
fn file_cache_is_not_in_use() {
    let of = |stat| {
        left(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "2000000000\n"),
            ("/sys/fs/cgroup/memory.current", "1900000000\n"),
            ("/sys/fs/cgroup/memory.stat", stat),
        ])
    };
    let stat = "anon 700000000\nfile 1200000000\nactive_file 500000000\ninactive_file 700000000\n";
    assert_eq!(of(stat), 1300.0 * MB);
    assert_eq!(of("anon 1900000000\n"), 100.0 * MB);
    // The files are read one after the other, so the cache may seem larger than all memory.
    assert_eq!(of("active_file 5000000000\n"), 2000.0 * MB);
}

#[test]
fn a_group_above_its_limit_has_nothing_left() {
    let above = available(&[
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/memory.high", "2000000000\n"),
        ("/sys/fs/cgroup/memory.current", "2100000000\n"),
    ]);
    assert_eq!(above.unwrap().left, 0.0);
}

#[test]
fn swap_that_a_group_may_use_is_left_too() {
    let swap = "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\nSwapTotal: 2000000 kB\n\
                SwapFree: 1000000 kB\n";
    let free_swap = 1e6 * 1024.0;
    let of = |listed: &[(&str, &str)]| {
        available_on(&[&[("/proc/meminfo", swap)], listed].concat()).unwrap()
    };
    let group = [
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/memory.max", "2000000000\n"),
        ("/sys/fs/cgroup/memory.current", "500000000\n"),
        ("/sys/fs/cgroup/memory.swap.current", "100000000\n"),
    ];
    let limited = |most| of(&[&group[..], &[("/sys/fs/cgroup/memory.swap.max", most)]].concat());
    assert_eq!(limited("0\n").left, 1500.0 * MB);
    assert_eq!(limited("300000000\n").left, 1700.0 * MB);
    assert_eq!(limited("300000000\n").limit, 2200.0 * MB);
    assert_eq!(limited("max\n").left, 1500.0 * MB + free_swap);
    assert_eq!(of(&group).left, 1500.0 * MB + free_swap);

    let group = [
        ("/proc/self/cgroup", "4:memory:/\n"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "2000000000\n",
        ),
        ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n"),
    ];
    let both = |most, used| {
        let limit = ("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", most);
        let usage = ("/sys/fs/cgroup/memory/memory.memsw.usage_in_bytes", used);
        of(&[&group[..], &[limit, usage]].concat())
    };
    assert_eq!(of(&group).left, 1500.0 * MB + free_swap);
    assert_eq!(both("2300000000\n", "600000000\n").left, 1700.0 * MB);
    assert_eq!(both("2000000000\n", "900000000\n").left, 1100.0 * MB);
    assert_eq!(
        both("9223372036854771712\n", "600000000\n").left,
        1500.0 * MB + free_swap
    );
}

#[test]
fn version_1_is_read_with_its_ancestors() {
    let group = (
        "/proc/self/cgroup",
        "5:cpu,cpuacct:/other\n4:memory:/slurm/job_1/step_0\n0::/\n",
    );
    let job = "/sys/fs/cgroup/memory/slurm/job_1";
    let file = |name: &str| format!("{job}/{name}");
    let names = [
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.stat",
    ]
    .map(file);
    let stat = "inactive_file 5\ntotal_inactive_file 200000000\ntotal_active_file 100000000\n";
    let listed = [
        group,
        (&names[0], "1000000000\n"),
        (&names[1], "900000000\n"),
        (&names[2], stat),
        // This memory group is not one of this process.
        (
            "/sys/fs/cgroup/memory/other/memory.limit_in_bytes",
            "1000\n",
        ),
    ];
    assert_eq!(left(&listed), 400.0 * MB);
    let step = [
        (
            "/sys/fs/cgroup/memory/slurm/job_1/step_0/memory.limit_in_bytes",
            "300000000\n",
        ),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
    ];
    assert_eq!(left(&[&listed[..], &step].concat()), 300.0 * MB);
    let unlimited = [group, (&names[0], "9223372036854771712\n")];
    assert_eq!(left(&unlimited), OF_MACHINE);
}

#[test]
fn a_container_has_its_group_at_the_mount_point() {
    // The path is the host's, which this process cannot see.
    let listed = [
        ("/proc/self/cgroup", "4:memory:/docker/0123456789ab\n"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "1000000000\n",
        ),
        ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n"),
    ];
    assert_eq!(left(&listed), 900.0 * MB);
    let listed = [
        (
            "/proc/self/cgroup",
            "0::/../system.slice/docker-0123456789ab.scope\n",
        ),
        ("/sys/fs/cgroup/memory.max", "1000000000\n"),
    ];
    assert_eq!(left(&listed), 1000.0 * MB);
}

#[test]
fn what_is_no_number_is_no_limit() {
    for broken in ["", "max", "-1", "many", "nan", "inf", "1000000000 bytes"] {
        let listed = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", broken),
        ];
        assert_eq!(left(&listed), OF_MACHINE, "{broken:?}");
    }
    for broken in ["", "0::", "0:", "memory", ":::::", "4:memory"] {
        let listed = [
            ("/proc/self/cgroup", broken),
            ("/sys/fs/cgroup/memory.high", "max"),
        ];
        assert_eq!(left(&listed), OF_MACHINE, "{broken:?}");
    }
}

#[test]
fn a_slurm_job_without_a_group_has_what_it_asked_for() {
    let status = "Name:\tR\nVmRSS:\t   40960 kB\nVmSwap:\t   10240 kB\n";
    let process = ("/proc/self/status", status);
    let node = ("SLURM_MEM_PER_NODE", "1000");
    let megabytes = |number: i32| f64::from(number) * 1048576.0;
    assert_eq!(left(&[process, node]), megabytes(950));
    assert_eq!(left(&[node]), megabytes(1000));
    let by_cpu = [
        process,
        ("SLURM_MEM_PER_CPU", "500"),
        ("SLURM_CPUS_ON_NODE", "3"),
    ];
    assert_eq!(left(&by_cpu), megabytes(1450));
    assert_eq!(left(&by_cpu[..2]), OF_MACHINE);
    // 0 asks for all memory of a node.
    assert_eq!(left(&[process, ("SLURM_MEM_PER_NODE", "0")]), OF_MACHINE);
    assert_eq!(left(&[process, ("SLURM_MEM_PER_NODE", "many")]), OF_MACHINE);
    let unlimited = [
        ("/proc/self/cgroup", "4:memory:/\n"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
    ];
    let asked = left(&[&[process, node], &unlimited[..]].concat());
    assert_eq!(asked, megabytes(950));
    // The job's group is the limit, though it leaves more.
    let group = [
        ("/proc/self/cgroup", "0::/job_1\n"),
        ("/sys/fs/cgroup/job_1/memory.max", "1100000000\n"),
    ];
    assert_eq!(left(&[&[process, node], &group[..]].concat()), 1100.0 * MB);
}

#[test]
fn errors_name_the_memory_and_its_limit() {
    let said = |listed: &[(&str, &str)]| available(listed).unwrap().to_string();
    assert_eq!(
        said(&[]),
        "only 8.2 GB of this machine's 16.4 GB are available"
    );
    let group = [
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/memory.max", "4000000000\n"),
        ("/sys/fs/cgroup/memory.current", "2800000000\n"),
    ];
    let expected =
        "only 1.2 GB of the 4.0 GB of this container or job (control group) are available";
    assert_eq!(said(&group), expected);
    let expected = "only 1.0 GB of the 1.0 GB that this SLURM job asked for are available";
    assert_eq!(said(&[("SLURM_MEM_PER_NODE", "1000")]), expected);
    let all = available_on(&[("/proc/meminfo", "MemTotal: 16000000 kB\n")]).unwrap();
    assert_eq!(all.to_string(), "this machine has 16.4 GB");
}
