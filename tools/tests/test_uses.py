"""Finds files that git tracks but nothing uses. Run by python3 -m unittest discover tools/tests

A file is used if a program takes it by its place (ROOTS), if a used file reads its folder
(READERS), or if a used file names it; a file of Rust, if a used one declares it as a module."""

import functools
import os
import pathlib
import re
import unittest

from tree import ROOT, tracked

# Places, and what takes the files in them.
ROOTS = {
    r"(bioc/)?(DESCRIPTION|NAMESPACE|LICENSE|\.Rbuildignore|R/[^/]+\.R|man/[^/]+\.Rd)": "R",
    r"configure(\.win)?|cleanup(\.win)?|NEWS\.md|inst/CITATION|vignettes/[^/]+\.Rmd": "R",
    r"src/[a-z]+\.c|src/Makevars(\.win)?\.in": "R CMD INSTALL, by configure",
    r"(bioc/)?tests/testthat\.R": "R CMD check",
    r"(bioc/)?tests/testthat/(test|helper)[^/]*\.R": "testthat",
    r"src/rust/((core|cuda|engine|reserve|fuzz)/)?(Cargo\.(toml|lock)|src/lib\.rs)": "cargo",
    r"src/rust/((core|cuda|engine|reserve)/)?(tests|examples)/([^/]+|[^/]+/main)\.rs": "cargo",
    r"src/rust/rustfmt\.toml": "cargo fmt",
    r"tools/tests/(test_[a-z0-9_]+|tree)\.py": "unittest, and the tests themselves",
    r"(.*/)?\.(gitignore|gitattributes)": "git",
    r"\.github/.*": "GitHub",
    r"\.ci/run": "continuous integration",
    r"\.clang-format|\.editorconfig|\.lintr": "editors and formatters",
    r"Dockerfile|\.dockerignore": "docker",
    r"_pkgdown\.yml|pkgdown/extra\.css": "pkgdown",
    r"(README|ARCHITECTURE|CONTRIBUTING|RELEASE)\.md": "people",
}

# Folders, the file that reads them all, and what it must contain.
READERS = {
    r"tests/testthat/fixtures/(mhca)/[^/]+\.json":
        ("tests/testthat/helper-fixtures.R", r'list.files(test_path("fixtures", "\1")'),
    r"src/rust/fuzz/(corpus)/.*": ("src/rust/core/tests/fuzz.rs", r"fuzz/\1"),
    r"src/rust/cuda/kernels/([a-z]+)\.cu": ("src/rust/cuda/kernels/modules.toml", r"[\1]"),
    r"src/rust/cuda/kernels/compiled/([a-z_]+)\.sm_[0-9]+\.lzma":
        ("src/rust/cuda/kernels/modules.toml", r"[\1]"),
    r"src/rust/cuda/kernels/compiled/modules\.(ptx|numbers)\.lzma": ("tools/kernels.py", r".lzma"),
    r"inst/benchmarks/results/.*-([a-z]+)\.csv": (r"inst/benchmarks/\1.R", ""),
}

# Files that nothing uses, and why they are here.
UNUSED = {
    r"inst/benchmarks/(ties\.R|results/.*-ties\.csv)": "how ties slow calls down, run by hand",
    r"inst/extdata/lymphocytes-source\.txt": "where the data are from, for people",
}

# Their names of files are lists, examples or records, and no use.
NO_USE = re.compile(
    r"^tools/tests/|^tools/check-source$|^inst/benchmarks/results/|^NEWS\.md$|\.Rbuildignore$"
    r"|(^|/)\.(gitignore|gitattributes|dockerignore)$|Cargo\.lock$|\.(lzma|bz2|png|json|csv)$"
    r"|^src/rust/fuzz/corpus/"
)

NAME = re.compile(r"[\w./-]*\w")
MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.M)
RUST_FILE = re.compile(r'(?:path = |include!\()"([^"]+\.rs)"')


def taken(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in ROOTS)


def modules(name: str, text: str) -> set:
    """Files that the modules of a file of Rust may be in, and others that it includes."""
    file = pathlib.PurePosixPath(name)
    is_root = file.name in ("mod.rs", "lib.rs", "main.rs") or taken(name)
    folder = file.parent if is_root else file.with_suffix("")
    declared = [str(folder / it) for it in MODULE.findall(text)]
    included = [os.path.normpath(file.parent / it) for it in RUST_FILE.findall(text)]
    return {it + end for it in declared for end in (".rs", "/mod.rs")}.union(included)


@functools.cache
def words(text: str) -> frozenset:
    return frozenset(NAME.findall(text))


def named(name: str, text: str, by_end: dict) -> set:
    """Files that a text names: from its folder, from the top, or by an end that no other has."""
    folder = pathlib.PurePosixPath(name).parent
    found = set()
    for it in words(text):
        for there in (os.path.normpath(folder / it), it):
            if there in by_end.get(there, ()):
                found.add(there)
                break
        else:
            if len(by_end.get(it, ())) == 1:
                found.update(by_end[it])
    return {it for it in found if not it.endswith(".rs")}


def uses(name: str, text: str, by_end: dict) -> set:
    if NO_USE.search(name):
        return set()
    if name.endswith((".rs", "Cargo.toml")):
        return modules(name, text) | named(name, text, by_end)
    return named(name, text, by_end)


def is_read(name: str, files: dict, used: set) -> bool:
    for pattern, (reader, content) in READERS.items():
        if match := re.fullmatch(pattern, name):
            reader = match.expand(reader)
            return reader in used and match.expand(content) in files[reader]
    return False


def unused(files: dict) -> list:
    """Those of files, by their names, that nothing uses."""
    by_end = {}
    for name in files:
        parts = name.split("/")
        for start in range(len(parts)):
            by_end.setdefault("/".join(parts[start:]), []).append(name)
    used, open_files = set(), [name for name in files if taken(name)]
    while open_files:
        used.update(open_files)
        found = set().union(*(uses(name, files[name], by_end) for name in open_files))
        found.update(name for name in files if is_read(name, files, used))
        open_files = [name for name in found if name in files and name not in used]
    return sorted(files.keys() - used)


def excepted(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in UNUSED)


class Uses(unittest.TestCase):
    files = {name: (ROOT / name).read_bytes().decode(errors="replace") for name in tracked()}

    def test_every_file_is_used(self):
        found = unused(self.files)
        self.assertEqual([name for name in found if not excepted(name)], [])
        for pattern in UNUSED:
            self.assertTrue(any(re.fullmatch(pattern, name) for name in found), pattern)

    def test_files_that_nothing_uses_are_found(self):
        orphans = [
            "src/rust/core/src/orphan.rs", "src/rust/core/src/knn/orphan.rs", "tools/orphan",
            "src/rust/cuda/kernels/orphan.cu", "src/rust/cuda/kernels/orphan.cuh",
            "inst/extdata/orphan.csv.bz2", "inst/benchmarks/orphan.R", "man/figures/orphan.png",
            "inst/benchmarks/results/2026-11-21-cpu-orphan.csv", "tests/testthat/orphan.R",
            "tests/testthat/fixtures/orphan/a.json",
        ]
        # Their names in each other and in a test of the tools are no use.
        text = "\n".join(orphans)
        also = {name: text for name in [*orphans, "tools/tests/test_orphans.py"]}
        found = unused({**self.files, **also})
        self.assertEqual([name for name in found if not excepted(name)], sorted(orphans))

    def test_a_file_is_unused_once_its_user_is_gone(self):
        uses = {
            "tools/fuzz": "tools/fuzzing/values.R",
            "src/rust/core/tests/fuzz.rs": "src/rust/fuzz/corpus/numbers/clusters-distance-nan",
            "src/rust/core/src/knn/mod.rs": "src/rust/core/src/knn/graph.rs",
            "inst/benchmarks/sizes.R": "inst/benchmarks/results/2026-11-22-cpu-sizes.csv",
        }
        self.assertEqual(set(unused(self.files)) & set(uses.values()), set())
        left = {name: text for name, text in self.files.items() if name not in uses}
        self.assertEqual(set(unused(left)) & set(uses.values()), set(uses.values()))


if __name__ == "__main__":
    unittest.main()
