"""Tests of tools/check-source, and the check of this tree:
python3 -m unittest discover tools/tests"""

import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parent.parent / "check-source"
loader = importlib.machinery.SourceFileLoader("check_source", str(TOOL))
spec = importlib.util.spec_from_loader("check_source", loader)
check_source = importlib.util.module_from_spec(spec)
loader.exec_module(check_source)

GOOD = {
    "DESCRIPTION": b"Package: gmhclust\n",
    "R/gmhclust.R": b"1\n",
    "tools/build-kernels": b"#!\n",
}


class CheckSource(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def problems(self, files, vignettes=()):
        package = self.folder / "gmhclust_1.tar.gz"
        with tarfile.open(package, "w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"gmhclust/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return check_source.problems_of_package(package, vignettes)

    def test_a_good_package_has_no_problem(self):
        self.assertEqual(self.problems(GOOD), [])

    def test_files_that_do_not_belong_are_found(self):
        for name, content in {
            "pyelftools-0.33-py3-none-any.whl": b"PK\0",
            "notes.md": b"at the top",
            "bioc/DESCRIPTION": b"another package",
            "inst/extdata/more.zip": b"PK\0",
            "inst/extdata/other.csv.bz2": b"BZh\0",
            "R/gmhclust.so": b"\x7fELF\0",
            "R/data.R": b"x\0",
            "tests/testthat/large.csv": b"1\n" * check_source.MOST_TEXT,
            "man/figures/large.png": b"\0" * 100_001,
            "src/rust/cuda/kernels/compiled/tree_16.sm_80.lzma": b"\0",
        }.items():
            (problem,) = self.problems({**GOOD, name: content})
            self.assertIn(name, problem)

    def test_a_package_that_is_too_large_is_found(self):
        self.addCleanup(setattr, check_source, "MOST", check_source.MOST)
        check_source.MOST = 50
        (problem,) = self.problems(GOOD)
        self.assertIn("more than 50", problem)

    def test_a_package_without_a_file_of_a_vignette_is_found(self):
        files = ["vignettes/a.Rmd", "vignettes/b.csv"]
        (problem,) = self.problems({**GOOD, files[0]: b"text\n"}, files)
        self.assertIn(files[1], problem)

    def test_this_tree_has_only_what_belongs_here(self):
        self.assertEqual(check_source.problems_of_tree(check_source.ROOT), [])


if __name__ == "__main__":
    unittest.main()
