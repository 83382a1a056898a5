"""Holds the names of files in comments and documents against the tree: a name must be that of a
file or folder here. Run by python3 -m unittest discover tools/tests"""

import os
import pathlib
import re
import unittest

from tree import ROOT, tracked

# Lists, data and patterns; records, which name the files of their time; sources that name files of
# other trees or of tests.
NOT_READ = re.compile(
    r"(^|/)(Cargo\.lock|LICENSE\.note|AUTHORS|NEWS\.md|\.Rbuildignore)$|\.min\.js$"
    r"|\.(csv|json|lzma|bz2|png)$"
    r"|^inst/benchmarks/results/|^src/rust/(cuda/)?fuzz/corpus/|^tools/tests/test_"
    r"|^tools/(trim-crates|check-source)$"
    r"|^src/rust/core/tests/structure\.rs$"
)

# The name of a source, with or without folders, and a path through folders of this tree.
SUFFIXES = "rs|cuh|cu|cpp|hpp|c|h|R|Rmd|Rd|py|sh|toml|yaml|yml|md|bib|css|csv|txt|png|lzma"
FOLDERS = (
    "R|bioc|conda|inst|man|pkgdown|src|tests|tools|vignettes|core|cuda|kernels|fuzz|backend|engine"
    "|neighbours|linkage|distances|knn|kmeans|mahalanobis|metric|memory|tree|blocks|screen|cpu"
)
BEFORE, AFTER = r"(?<![\w./~$@*{}%<>:-])", r"(?![\w/(*{<$]|-[*$A-Z])"
NAME = re.compile(rf"{BEFORE}((?:\.\./)*(?:[\w.-]+/)*[\w-][\w.-]*\.(?:{SUFFIXES})){AFTER}")
PATH = re.compile(rf"{BEFORE}((?:{FOLDERS})/[\w./-]*\w){AFTER}")

# A part in capitals stands for others.
PLACEHOLDER = re.compile(r"(^|[/_.-])[A-Z]{2,}([/_.-]|$)")

# Files that a build, a check, a test or a user makes, those of R's sources, and data of others.
ELSEWHERE = re.compile(
    r"(.*/)?(vendor|target|\.cargo)(/.*)?|(.*/)?vendor\.tar\.xz|(.*/)?Makevars(\.win)?"
    r"|config\.toml|source\.cpp|0\.\.R|src/(library|main|nmath)/.*|linux/.*\.h|driver\.c"
    r"|quickstart\.png|lymphocytes\.csv|flowsom-68983-gates\.csv|writing-.*\.txt"
    r"|-cpu-(sizes|populations)\.csv|preparation\.csv|-gates\.csv"
    r"|(mine|other|ours|job|cells|x|y)\.csv"
)


def references(text: str) -> set:
    found = {match[1] for pattern in (NAME, PATH) for match in pattern.finditer(text)}
    return {it for it in found if not PLACEHOLDER.search(it) and not ELSEWHERE.fullmatch(it)}


def endings(name: str) -> set:
    """All that may name a file or one of its folders: its path from any folder on."""
    parts = name.split("/")
    ends = range(1, len(parts) + 1)
    return {"/".join(parts[start:end]) for end in ends for start in range(end)}


def stale(name: str, text: str, known: set) -> list:
    """The references of a file to what does not exist, with their lines."""
    folder = pathlib.PurePosixPath("/", name).parent
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        for it in references(line):
            there = os.path.normpath(folder / it)[1:] if it.startswith("../") else it
            if there not in known:
                found.append(f"{name}:{number}: {it}")
    return found


class References(unittest.TestCase):
    def test_files_named_in_the_tree_exist(self):
        files = tracked()
        known = set().union(*map(endings, files))
        read = [name for name in files if not NOT_READ.search(name)]
        found = [it for name in read for it in stale(name, (ROOT / name).read_text(), known)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_reference_to_a_missing_file_is_found(self):
        known = endings("src/rust/core/src/linkage/single.rs") | endings("tools/test")
        for text, missing in {
            "see linkage/single.rs, single.rs and core/src/linkage.": [],
            "// backend/single.rs says what": ["backend/single.rs"],
            "`tools/test` and tools/gone": ["tools/gone"],
            "#include \"../src/linkage/single.rs\" // ../gone.rs": ["../gone.rs"],
            "tests/test-NAME.R, tests/test-$name.R, tests/test-*.R, tests/other": ["tests/other"],
            "src/FILE.rs, tools/*.py, a.b.R(x), https://site.org/tools/x.md, 1.R": ["1.R"],
        }.items():
            found = stale("src/rust/core/tests/a.rs", text, known)
            self.assertEqual([it.split(": ")[1] for it in found], missing, text)


if __name__ == "__main__":
    unittest.main()
