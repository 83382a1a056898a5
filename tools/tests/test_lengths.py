"""Holds sources to 100 columns and 500 lines. Run by python3 -m unittest discover tools/tests"""

import re
import unittest

from tree import ROOT, tracked

COLUMNS = 100
LINES = 500

# R, Rust, CUDA, C, C++, Python, shell, JavaScript, CSS and settings; tools, which have no suffix.
# Markdown has tables, whose rows are one line each.
SOURCE = re.compile(
    r"\.(R|rs|cu|cuh|c|h|cpp|hpp|py|sh|toml|js|css)$"
    r"|(^|/)(configure|cleanup)(\.win)?$|^(tools|\.ci)/[a-z0-9-]+$|(^|/)(Dockerfile|CITATION)$"
)

# tools/document and tools/bundle-d3 write them.
GENERATED = {"R/extendr-wrappers.R", "inst/report/d3.min.js"}

# Files with more lines, and why each stays one file.
LONG_FILES = {
    "src/rust/cuda/kernels/tree/merge.cuh": "a kernel: to be split when it changes",
    "src/rust/cuda/kernels/tree/requests.cuh": "one kind of request after the other",
    "src/rust/cuda/src/blocks/decisions.rs": "a list of decisions, each with its test",
    "src/rust/cuda/src/neighbours/search/tests.rs": "one stand-in for a device in all its tests",
    "src/rust/cuda/src/tree/arrays.rs": "one table of the arrays of the tree's kernels",
    "src/rust/cuda/src/tree/launch.rs": "one type with the state of all launches of a tree",
    "tools/test-gpu": "one command with all its parts",
    "tests/testthat/test-observations.R": "a list of classes of data, each with its tests",
}


def is_source(name: str) -> bool:
    return bool(SOURCE.search(name)) and name not in GENERATED


def problems(files: dict, long_files: dict) -> list:
    """What is too long in sources, by their names, and exceptions that are not needed."""
    found = []
    for name, text in files.items():
        lines = text.splitlines()
        long = [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
        found += [f"{name}:{number}: more than {COLUMNS} columns" for number in long]
        if len(lines) > LINES and name not in long_files:
            found.append(f"{name}: {len(lines)} lines, more than {LINES}")
        elif len(lines) <= LINES and name in long_files:
            found.append(f"{name}: LONG_FILES has it, with {len(lines)} lines")
    gone = sorted(long_files.keys() - files.keys())
    return found + [f"{name}: an exception for a file that is not here" for name in gone]


class Lengths(unittest.TestCase):
    def test_sources_keep_to_their_lengths(self):
        files = {name: (ROOT / name).read_text() for name in tracked() if is_source(name)}
        found = problems(files, LONG_FILES)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_what_is_too_long_is_found(self):
        wide, narrow = "é" * COLUMNS + "1\n", "é" * COLUMNS + "\n"
        for text, found in {
            narrow * LINES: [],
            narrow + wide: ["a.R:2: more than 100 columns"],
            "1\n" * (LINES + 1): ["a.R: 501 lines, more than 500"],
        }.items():
            self.assertEqual(problems({"a.R": text}, {}), found)

    def test_exceptions_are_those_that_are_needed(self):
        exceptions = {"b.rs": "a reason"}
        self.assertEqual(problems({"b.rs": "1\n" * (LINES + 1)}, exceptions), [])
        self.assertEqual(len(problems({"b.rs": "1\n" * LINES}, exceptions)), 1)
        self.assertEqual(len(problems({}, exceptions)), 1)

    def test_sources_are_told_from_other_files(self):
        for name in ["R/a.R", "tools/test", "configure.win", "src/rust/cuda/kernels/tree.cuh"]:
            self.assertTrue(is_source(name), name)
        for name in ["README.md", "man/a.Rd", "R/extendr-wrappers.R", "vignettes/a.Rmd"]:
            self.assertFalse(is_source(name), name)


if __name__ == "__main__":
    unittest.main()
