"""Usage: python3 peers.py [--jobs=JOB,...] [--peers=PACKAGE,...] [--scale=SHARE] [--repeats=N]
                        [--once=SECONDS] [--limit=SECONDS] [--device=cuda|cpu] [--folder=FOLDER]
                        [--rscript=Rscript] [--out=FILE.csv]

Times gmhclust and other packages for GPUs on the same arrays, and measures how exact the results
are. peers.R makes the arrays and times gmhclust; packages.py has the calls of the other packages,
accuracy.py the measures. JOBS lists the jobs; --scale=0.01 takes a hundredth of their observations
and of their centers. Prints a row for each call, and one table at the end. --out gets the rows
after each call, in the format of common.R, with these columns:
  cold, package    the seconds of the first call of a process, and the package with its version
  measure, value   how exact the result is: neighbours by distance, on a sample; clusters of k-means
                   by their objective; heights after sorting, and clusters of HDBSCAN, beside those
                   of gmhclust; distances on a sample
  note             why there is no result: not installed, the error, or the time limit

A time begins with the array in the memory of the host, and ends with the result there. Python gets
the array in single precision, row by row; R gets the same numbers in its own format, in double
precision. After its first call, a call is repeated --repeats (3) times, or once if that took more
than --once (10) seconds. Each call of Python has a process of its own, which ends after --limit
(120) seconds. --device=cpu tries this script without a GPU, as far as packages can do that. With
--folder, the arrays stay there for the next run.

To measure all jobs, from this folder: python3 peers.py --out=results/$(date +%F)-GPU-peers.csv
"""

import argparse
import csv
import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from types import SimpleNamespace

import numpy as np

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from accuracy import measure_of
from packages import PEERS

# The columns of common.R, with those of this script between them.
FIRST = ["row", "data", "call", "seconds", "fastest", "slowest", "megabytes", "repeats"]
OWN = ["cold", "package", "measure", "value", "note"]
LAST = ["date", "machine", "threads", "gpu", "gpus", "driver", "r", "version", "kernels", "code"]

# peers.R makes the arrays. k is the number of clusters or of neighbours; for mutual reachability
# distances and HDBSCAN, the number of points within the core distance, the observation itself
# included. `members` is the least size of a cluster of HDBSCAN.
JOBS = {
    "kmeans-cells": dict(task="kmeans", array="cells", n=1_000_000, p=14, k=1_000, iterations=10),
    "kmeans-1k": dict(task="kmeans", array="mixture", n=1_000_000, p=64, k=1_000, iterations=10),
    "kmeans-10k": dict(task="kmeans", array="mixture", n=1_000_000, p=64, k=10_000, iterations=10),
    "ward-16k": dict(task="linkage", array="mixture", n=16_384, p=128, method="ward.D2"),
    "ward-200k": dict(task="linkage", array="mixture", n=200_000, p=64, method="ward.D2"),
    "single-16k": dict(task="linkage", array="mixture", n=16_384, p=128, method="single"),
    "single-200k": dict(task="linkage", array="mixture", n=200_000, p=64, method="single"),
    "single-cells": dict(task="linkage", array="cells", n=500_000, p=14, method="single"),
    "average-16k": dict(task="linkage", array="mixture", n=16_384, p=128, method="average"),
    "average-100k": dict(task="linkage", array="mixture", n=100_000, p=64, method="average"),
    "distances-16k": dict(task="distances", array="mixture", n=16_384, p=128),
    "knn-profiles": dict(task="knn", array="profiles", n=384_126, p=295, k=20),
    "knn-cells": dict(task="knn", array="cells", n=1_000_000, p=14, k=20),
    "knn-1m": dict(task="knn", array="profiles", n=1_000_000, p=64, k=64),
    "reachability-1m": dict(task="reachability", array="mixture", n=1_000_000, p=8, k=5),
    "hdbscan-1m": dict(task="hdbscan", array="mixture", n=1_000_000, p=8, k=5, members=100),
}
FIELDS = ["row", "task", "array", "n", "p", "k", "iterations", "method", "members"]

# The type of gmhclust's results in result.bin; of other tasks, doubles.
TYPES = {"kmeans": np.int32, "knn": np.int32, "hdbscan": np.int32}


def scaled_job(row, scale):
    job = {**dict.fromkeys(FIELDS), **JOBS[row], "row": row}
    job["n"] = round(job["n"] * scale)
    if job["task"] == "kmeans":
        job["k"] = max(2, round(job["k"] * scale))
    return job


def read_array(job, folder):
    values = np.fromfile(folder / f"{job.array}-{job.n}x{job.p}.f32", np.float32)
    return values.reshape(job.n, job.p)


def first_line(error):
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


# ---- one call of a peer, in a process of its own ------------------------------------------------


def timed(call):
    """The seconds of a call, with all work that it left to the GPU, and its value."""
    begin = time.perf_counter()
    value = call()
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin, value


def measure_call(peer, job, folder, options):
    """The seconds of all calls, the first call's first, and the result of the last."""
    importlib.import_module(peer.package)
    x = read_array(job, folder)
    if job.task == "kmeans":
        job.start = x[np.fromfile(folder / "centers.i32", np.int32)]
    seconds = []
    while len(seconds) <= options.repeats:
        took, value = timed(lambda: peer.function(x, job))
        seconds.append(took)
        if len(seconds) > 1 and took > options.once:
            break
    return seconds, value


def work(peer, folder, options):
    """Writes the seconds or the error to outcome.json, and the result to result.npy."""
    job = SimpleNamespace(**json.loads((folder / "job.json").read_text()), device=options.device)
    try:
        seconds, value = measure_call(peer, job, folder, options)
        np.save(folder / "result.npy", value)
        outcome = {"seconds": seconds}
    except Exception as error:
        traceback.print_exc()
        outcome = {"error": first_line(error)}
    (folder / "outcome.json").write_text(json.dumps(outcome))


# ---- all calls of a job -------------------------------------------------------------------------


def versioned(package):
    """A package with its version; None if it is not installed."""
    if importlib.util.find_spec(package) is None:
        return None
    names = importlib.metadata.packages_distributions().get(package)
    return f"{package} {importlib.metadata.version(names[0])}" if names else package


def run_peer(number, folder, options):
    """The columns of a row of a peer, whose result is in result.npy."""
    peer = PEERS[number]
    package = versioned(peer.package)
    row = {"call": f"{peer.package}, {peer.call}", "package": package or peer.package}
    if package is None:
        return {**row, "note": "not installed"}
    outcome = folder / "outcome.json"
    outcome.unlink(missing_ok=True)
    command = [sys.executable, __file__, f"--worker={number}", f"--folder={folder}",
               f"--device={options.device}", f"--repeats={options.repeats}",
               f"--once={options.once}"]
    try:
        status = subprocess.run(command, timeout=options.limit).returncode
    except subprocess.TimeoutExpired:
        return {**row, "note": f"took more than {options.limit:g} s"}
    if not outcome.exists():
        return {**row, "note": f"its process ended with status {status}"}
    found = json.loads(outcome.read_text())
    return {**row, **(times(found["seconds"]) if "seconds" in found else {"note": found["error"]})}


def times(seconds):
    first, *others = seconds
    columns = {"cold": first, "seconds": statistics.median(others), "fastest": min(others),
               "slowest": max(others)}
    return {**{name: round(value, 3) for name, value in columns.items()}, "repeats": len(others)}


def run_gmhclust(job, folder, options):
    """The columns of gmhclust's row, and its result; None if R failed."""
    table = folder / "ours.csv"
    table.unlink(missing_ok=True)
    command = [options.rscript, str(HERE / "peers.R"), f"--folder={folder}", f"--out={table}",
               f"--repeats={options.repeats}", f"--once={options.once}"]
    subprocess.run(command + (["--gpu"] if options.device == "cuda" else []))
    if not table.exists():
        return {"call": job.task, "package": "gmhclust", "note": "R failed"}, None
    with open(table) as file:
        row = next(csv.DictReader(file))
    row["package"] = f"gmhclust {row['version']}"
    ours = np.fromfile(folder / "result.bin", TYPES.get(job.task, float))
    return row, ours.reshape(job.n, -1) if job.task == "knn" else ours


def run_job(name, folder, options):
    """Yields the rows of a job, gmhclust's first."""
    fields = scaled_job(name, options.scale)
    job = SimpleNamespace(**fields)
    (folder / "job.json").write_text(json.dumps(fields))
    write_rows(folder / "job.csv", FIELDS, [fields])
    row, ours = run_gmhclust(job, folder, options)
    shared = {"row": name, "data": row.get("data", f"{job.n:,} x {job.p}"),
              **{column: row.get(column) for column in LAST}}
    measure = judge = None
    if ours is not None:
        measure, judge = measure_of(job, read_array(job, folder), ours)
        # All other measures compare with this result.
        if job.task in ("knn", "distances"):
            row.update(measure=measure, value=judge(ours))
    yield {**row, **shared}
    for number, peer in enumerate(PEERS):
        if peer.task != job.task or peer.package not in options.peers:
            continue
        row = run_peer(number, folder, options)
        if judge and "seconds" in row:
            try:
                row.update(measure=measure, value=judge(np.load(folder / "result.npy", "r")))
            except Exception as error:
                row["note"] = f"not measured: {first_line(error)}"
        yield {**row, **shared}


# ---- tables -------------------------------------------------------------------------------------


def write_rows(file, columns, rows):
    """Writes a file for R's read.csv(): NA where there is no value."""
    with open(file, "w", newline="") as opened:
        out = csv.writer(opened, lineterminator="\n")
        out.writerow(columns)
        for row in rows:
            values = [row.get(column) for column in columns]
            out.writerow(["NA" if value in (None, "") else value for value in values])


def in_words(row):
    """How exact a result is, or why there is none."""
    if row.get("note"):
        return row["note"]
    return f"{row['measure']}: {row['value']:.6g}" if row.get("measure") else ""


def markdown_line(row):
    cells = [row["data"], row["call"], row.get("cold"), row.get("seconds"), in_words(row)]
    texts = ["" if cell is None else str(cell).replace("|", "/") for cell in cells]
    return f"| {' | '.join(texts)} |"


def as_markdown(rows):
    head = ["| data | call | first, s | seconds | accuracy |", "|---|---|---:|---:|---|"]
    return "\n".join([*head, *map(markdown_line, rows)])


# ---- the command line ---------------------------------------------------------------------------


def chosen(text, every):
    """The comma-separated parts of a text, which must be among `every`; all without a text."""
    parts = text.split(",") if text else list(every)
    unknown = [part for part in parts if part not in every]
    if unknown:
        sys.exit(f"unknown: {unknown[0]}; there are: {', '.join(every)}")
    return parts


def parse_options(arguments):
    parser = argparse.ArgumentParser(usage=__doc__.removeprefix("Usage: ").replace("%", "%%"))
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    for name in ("jobs", "peers", "out", "folder"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--rscript", default="Rscript")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--repeats", type=int, default=3)
    for name, default in [("scale", 1.0), ("once", 10.0), ("limit", 120.0)]:
        parser.add_argument(f"--{name}", type=float, default=default)
    options = parser.parse_args(arguments)
    options.jobs = chosen(options.jobs, JOBS)
    options.peers = chosen(options.peers, dict.fromkeys(peer.package for peer in PEERS))
    return options


def main():
    options = parse_options(sys.argv[1:])
    if options.worker is not None:
        return work(PEERS[options.worker], pathlib.Path(options.folder), options)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.folder or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.jobs:
            for row in run_job(name, folder, options):
                rows.append(row)
                print(markdown_line(row), flush=True)
                if options.out:
                    write_rows(options.out, FIRST + OWN + LAST, rows)
    print(f"\n{as_markdown(rows)}")


if __name__ == "__main__":
    main()
