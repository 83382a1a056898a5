"""Holds the table of policy against the recorded runs and the help pages that repeat its figures:
python3 -m unittest discover tools/tests"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/rust/cuda/src/policy.rs"
RESULTS = ROOT / "inst/benchmarks/results"
UNMEASURED = "no result file"

# The figures in the help pages' words.
HELP = {
    "R/devices.R": [
        "If there are at least {BLOCK_PROBLEMS_PER_THREAD} apriori clusters for each CPU thread, "
        "the GPU clusters within apriori clusters entirely",
        "apriori clusters with up to {BLOCK_MOST_OBSERVATIONS} observations",
        "makes all merges of the apriori clusters with {TREE_BESIDE_BLOCKS_CLUSTERS} observations "
        "or more",
        "cosines in {HALF_COLUMNS} columns or more",
        "start with at least {TREE_CLUSTERS} clusters and {TREE_CLUSTERS_per_thread} more for "
        "each CPU thread, in up to 208 columns; with full distances, {FULL_TREE_CLUSTERS} and "
        "{FULL_TREE_CLUSTERS_per_thread}. Or if there "
        "are at least {BLOCK_PROBLEMS_PER_THREAD} apriori clusters for each thread, which together "
        "have at least {BLOCK_OBSERVATIONS} observations and {BLOCK_OBSERVATIONS_per_thread} more "
        "for each thread;",
        "with a matrix on the GPU: from {MATRIX_OBSERVATIONS} observations on",
        "times the number of columns, is at least {PAIR_COORDINATES_PER_THREAD} for each thread",
        "for {KMEANS_REST_CENTERS} more pairs in each of several iterations",
    ],
    "R/gkmeans.R": ["With {KMEANS_NEAR_CENTERS} centers or more in at most 32 columns"],
    "R/ghclust.R": [
        "linkage of fewer than {MATRIX_OBSERVATIONS} observations with a matrix",
        "times the number of columns is at most {MEAN_LINKAGE_COORDINATES}:",
    ],
}


def number(text):
    """A literal of the table as the help writes it."""
    shift = re.fullmatch(r"1 << (\d+)", text)
    if shift and int(shift[1]) > 20:
        return f"2^{shift[1]}"
    if shift:
        return f"{1 << int(shift[1]):,}"
    return f"{int(text.replace('_', '')):,}" if text.replace("_", "").isdigit() else text


def figures(table):
    """The figures of the table by name; that of a size for each thread has a name of its own."""
    found = {}
    one = re.findall(r"^pub const (\w+): \w+ = ([^{;]*);", table, re.M)
    sizes = (
        r"^pub const (\w+): ThreadThreshold = ThreadThreshold \{"
        r"\s*least: ([^,]*),\s*per_thread: ([^,]*),"
    )
    for name, value in one:
        found[name] = number(value)
    for name, least, per_thread in re.findall(sizes, table, re.M):
        found[name] = number(least)
        found[f"{name}_per_thread"] = number(per_thread)
    return found


def prose(source):
    """The help in the comments of an R source, in one line."""
    return " ".join(" ".join(re.findall(r"^#' ?(.*)", source, re.M)).split())


def missing(help_page, sentences, known):
    return [s for s in (sentence.format(**known) for sentence in sentences) if s not in help_page]


class Policy(unittest.TestCase):
    def test_the_help_has_the_figures_of_the_table(self):
        known = figures(TABLE.read_text())
        # The costs of blocks are in no help page.
        constants = re.findall(r"^pub const \w+: (?!BlockCosts)", TABLE.read_text(), re.M)
        self.assertEqual(len(constants),
                         len([name for name in known if not name.endswith("_per_thread")]))
        for name, sentences in HELP.items():
            self.assertEqual(missing(prose((ROOT / name).read_text()), sentences, known), [], name)

    def test_another_figure_in_the_table_is_missed_in_the_help(self):
        table = TABLE.read_text().replace("1 << 31", "1 << 30").replace("4_096", "5_000")
        page = prose((ROOT / "R/devices.R").read_text())
        found = missing(page, HELP["R/devices.R"], figures(table))
        self.assertEqual(len(found), 4, found)

    def test_runs_exist_or_are_said_to_be_missing(self):
        comment = re.sub(r"\n/// ?", " ", TABLE.read_text())
        runs = re.findall(r"- Run: (.*?) - If wrong:", comment)
        self.assertGreater(len(runs), 20)
        for run in runs:
            files = re.findall(r"[\w-]+\.(?:csv|txt)", run)
            self.assertTrue(files or UNMEASURED in run, run)
            for file in files:
                self.assertTrue((RESULTS / file).is_file(), file)
                rows = re.findall(r"rows? `(\w+)`", run)
                text = (RESULTS / file).read_text()
                for row in rows:
                    self.assertRegex(text, rf'(?m)^"?{row}"?,', f"{file}: {row}")


if __name__ == "__main__":
    unittest.main()
