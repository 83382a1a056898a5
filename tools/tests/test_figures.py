"""Tests of tools/figures.R, and its check of this tree: python3 -m unittest discover tools/tests"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = [
    "README.md", "vignettes", "R", "inst/benchmarks", "tools/figures.R", "src/rust/src",
    "src/rust/core/src", "src/rust/engine/src", "src/rust/cuda/src",
    "src/rust/cuda/kernels/compiled/modules.ptx.lzma",
]
RESULTS = "inst/benchmarks/results"


def run(root, *options):
    command = ["Rscript", "--vanilla", str(root / "tools/figures.R"), *options]
    # R would compile functions that a run calls only a few times.
    environment = {**os.environ, "R_ENABLE_JIT": "0"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


class Figures(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for part in PARTS:
            (self.root / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, self.root / part)

    def change(self, name, old, new):
        """Replaces the first `old` of a file; returns the file."""
        file = self.root / name
        text = file.read_text()
        self.assertIn(old, text)
        file.write_text(text.replace(old, new, 1))
        return file

    def newest(self, script):
        return max(self.root.glob(f"{RESULTS}/*-{script}.csv"))

    def assert_problem(self, text):
        found = run(self.root, "--check")
        self.assertNotEqual(found.returncode, 0)
        self.assertIn(text, found.stderr)

    def test_this_tree_has_the_figures_of_its_results(self):
        found = run(ROOT, "--check")
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_tables_are_written_anew(self):
        readme = (self.root / "README.md").read_text()
        begin = readme.index("<!-- table: populations -->")
        table = readme[begin : readme.index("<!-- end of table -->", begin)]
        for other in [table.replace("0.9", "0.8"), "<!-- table: populations -->\n"]:
            self.change("README.md", table, other)
            self.assert_problem("README.md is stale")
            self.assertEqual(run(self.root).returncode, 0)
            self.assertEqual((self.root / "README.md").read_text(), readme)

    def test_other_results_make_index_and_tables_stale(self):
        name = self.newest("populations").relative_to(self.root)
        self.change(name, '"0.99.0"', '"0.99.1"')
        self.assert_problem("index.csv is stale")
        self.assert_problem("README.md is stale")

    def test_a_file_that_the_index_lacks_is_found(self):
        shutil.copy(self.newest("ties"), self.root / RESULTS / "2026-01-01-arm-ties.csv")
        self.assert_problem("index.csv is stale")
        self.assertEqual(run(self.root).returncode, 0)
        self.assertIn("2026-01-01-arm-ties.csv", (self.root / RESULTS / "index.csv").read_text())

    def test_results_in_another_format_or_of_no_script_are_found(self):
        self.change(self.newest("ties").relative_to(self.root), '"row","data"', '"data","row"')
        self.assert_problem("has not the columns")
        shutil.copy(self.newest("ties"), self.root / RESULTS / "2026-01-01-cpu-other.csv")
        self.assert_problem("does not list")

    def test_results_that_newer_ones_replace_are_removed_unless_a_source_names_them(self):
        file = self.newest("ties")
        old = file.with_name("2026-01-01-cpu-ties.csv")
        shutil.copy(file, old)
        self.assert_problem("replaced by newer results")
        source = self.root / "src/rust/core/src/lib.rs"
        source.write_text(f"// {old.name}\n{source.read_text()}")
        self.assertEqual(run(self.root).returncode, 0)
        self.assertTrue(old.exists())
        source.write_text(source.read_text().replace(old.name, ""))
        self.assertEqual(run(self.root).returncode, 0)
        self.assertFalse(old.exists())

    def test_a_sentence_with_another_figure_is_found(self):
        self.change("R/gcutree.R", "and 600 times", "and 700 times")
        self.assert_problem("R/gcutree.R does not say: about 40 times")

    def test_an_unknown_table_is_found(self):
        self.change("README.md", "<!-- table: few -->", "<!-- table: fewer -->")
        self.assert_problem("no table of this name")

    def test_rows_of_runs_and_tables_are_rows_of_their_scripts(self):
        folder = ROOT / "inst/benchmarks"
        run_all = (folder / "run.R").read_text()
        wanted = re.findall(r'(\w+) = "([\w,]+)"', run_all.split("# The processors")[0])
        tables = (folder / "tables.R").read_text()
        wanted += re.findall(r'line\("(\w+)", "(\w+)"', tables)
        wanted += re.findall(r'line, script = "(\w+)", row = "(\w+)"', tables)
        self.assertGreater(len(wanted), 30)
        for script, rows in wanted:
            text = (folder / f"{script}.R").read_text()
            for row in rows.split(","):
                self.assertRegex(text, rf'(?m)^  ("{row}"|{row}) = ', f"{script}.R: {row}")

    def stale(self):
        found = run(self.root, "--stale")
        self.assertEqual(found.stderr, "")
        return found

    def test_results_are_stale_once_their_sources_change(self):
        for file in self.root.glob(f"{RESULTS}/*.csv"):
            if not file.name.endswith(("-trees.csv", "index.csv")):
                file.unlink()
        only_trees = 'tables <- list()\nfacts <- function(results) newest(results, "trees")\n'
        with (self.root / "inst/benchmarks/tables.R").open("a") as tables:
            tables.write(only_trees)
        file = self.newest("trees")
        expression = (
            f'source("{self.root}/inst/benchmarks/sources.R");'
            f'cat(code_digest("trees", "{self.root}", FALSE))'
        )
        command = ["Rscript", "--vanilla", "-e", expression]
        digest = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertRegex(digest, "^[0-9a-f]{10}$")
        self.assertIn("older than its code, shown", self.stale().stdout)
        file.write_text(re.sub(r'"[0-9a-f]{10}"$', f'"{digest}"', file.read_text(), flags=re.M))
        cut = self.root / "src/rust/core/src/cut.rs"
        text = cut.read_text()
        for content, is_stale in {
            text: 0, f"// a comment\n\n{text}": 0, f"{text}const MORE: usize = 1;\n": 1,
        }.items():
            cut.write_text(content)
            self.assertEqual(self.stale().returncode, is_stale)
        cut.write_text(text)
        self.change("src/rust/core/src/mahalanobis/shape.rs", "\n", "\nconst MORE: usize = 1;\n")
        self.assertEqual(self.stale().returncode, 0)


if __name__ == "__main__":
    unittest.main()
