"""Tests of inst/benchmarks/peers.py: python3 -m unittest discover tools/tests"""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from types import SimpleNamespace

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "inst/benchmarks"
sys.path.insert(0, str(BENCHMARKS))

try:
    import numpy as np

    import accuracy
    import packages
    import peers
except ImportError:
    np = None


@unittest.skipIf(np is None, "needs NumPy")
class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        random = np.random.default_rng(1)
        self.x = random.normal(size=(60, 3)).astype(np.float32)
        doubles = self.x.astype(float)
        self.distances = np.sqrt(((doubles[:, None] - doubles) ** 2).sum(-1))

    def test_the_columns_are_those_of_all_results(self):
        text = (ROOT / "tools/figures.R").read_text()
        for name, columns in {"first": peers.FIRST, "last": peers.LAST}.items():
            listed = re.search(rf"{name}_columns <- c\(((?:.|\n)*?)\)", text)[1]
            self.assertEqual(re.findall(r'"(\w+)"', listed), columns)

    def test_jobs_have_arrays_and_calls_in_both_languages(self):
        text = (BENCHMARKS / "peers.R").read_text()
        called = {peer.task for peer in packages.PEERS}
        for job in peers.JOBS.values():
            self.assertIn(job["task"], called)
            for name in (job["task"], job["array"]):
                self.assertRegex(text, rf"(?m)^  {name} = ")

    def test_a_scaled_job_has_fewer_observations_and_centers(self):
        job = peers.scaled_job("kmeans-10k", 0.01)
        self.assertEqual((job["n"], job["p"], job["k"]), (10_000, 64, 100))
        self.assertEqual(peers.scaled_job("knn-1m", 0.01)["k"], 64)

    def test_neighbours_are_right_by_distance(self):
        np.fill_diagonal(self.distances, np.inf)
        near, rows = self.distances.argsort(1)[:, :5], np.arange(50)
        reaches = accuracy.exact_reaches(self.x, 5, rows)
        expected = self.distances[rows, near[rows, 4]] ** 2
        self.assertTrue(np.allclose(reaches, expected, rtol=1e-12))
        self.assertEqual(accuracy.share_right(self.x, near, rows, reaches), 1)
        # The next neighbour, none, the observation itself and a repeated one are wrong.
        for wrong in (self.distances.argsort(1)[0, 5], -1, 0, near[0, 0]):
            other = near.copy()
            other[0, 4] = wrong
            self.assertEqual(accuracy.share_right(self.x, other, rows, reaches), 1 - 1 / 250)

    def test_an_observation_is_no_neighbour_of_its_own(self):
        near, far = np.array([[0, 2, 1], [0, 2, 4], [1, 2, 0]]), np.arange(9.0).reshape(3, 3)
        found = packages.without_self(np.arange(3)[:, None], near, far)
        self.assertEqual(found[0].tolist(), [[2, 1], [0, 2], [1, 0]])
        self.assertEqual(found[1].tolist(), [[1, 2], [3, 4], [6, 8]])

    def test_the_objective_is_that_of_the_means_of_clusters(self):
        x = np.array([[0, 1], [2, 1], [5, 5]], np.float32)
        self.assertEqual(accuracy.within_squares(x, np.array([3, 3, 0])), 2)

    def test_heights_are_compared_in_order(self):
        self.assertEqual(accuracy.largest_difference([4, 1, 2.5], [1, 2, 4]), 0.25)

    def test_distances_are_compared_in_both_layouts(self):
        lower = self.distances.T[np.triu_indices(60, 1)]
        one, other = np.array([0, 3, 58]), np.array([1, 40, 59])
        for found in (lower, self.distances):
            self.assertLess(accuracy.distance_error(self.x, found, one, other), 1e-15)
        wrong = self.distances * np.float64(1.5)
        self.assertAlmostEqual(accuracy.distance_error(self.x, wrong, one, other), 0.5)

    def test_the_adjusted_rand_index_knows_no_names(self):
        a = np.array([0, 0, 1, 1, -1, -1])
        self.assertEqual(accuracy.adjusted_rand_index(a, np.array([5, 5, -1, -1, 2, 2])), 1)
        # 2 pairs are together in both, of 3 and 6, and 1.2 by chance: 0.8 / 3.3.
        found = accuracy.adjusted_rand_index(a, np.array([0, 0, 0, 0, 1, 2]))
        self.assertAlmostEqual(found, 0.8 / 3.3)

    def test_an_error_in_a_call_is_a_note(self):
        def fail(x, job):
            raise MemoryError("no room\nfor it")
        job = peers.scaled_job("distances-16k", 60 / 16_384)
        (self.folder / "job.json").write_text(json.dumps(job))
        np.zeros((60, 128), np.float32).tofile(self.folder / "mixture-60x128.f32")
        options = SimpleNamespace(device="cpu", repeats=2, once=10)
        for function, found in [(fail, {"error": "MemoryError: no room"}),
                                (lambda x, job: x, {"seconds": 3})]:
            with contextlib.redirect_stderr(io.StringIO()):
                peers.work(SimpleNamespace(package="json", function=function), self.folder, options)
            outcome = json.loads((self.folder / "outcome.json").read_text())
            if "seconds" in outcome:
                outcome["seconds"] = len(outcome["seconds"])
            self.assertEqual(outcome, found)

    def test_a_package_that_is_not_installed_is_a_note(self):
        self.assertIsNone(peers.versioned("not_a_package"))
        packages.PEERS.append(SimpleNamespace(package="not_a_package", call="f"))
        self.addCleanup(packages.PEERS.pop)
        row = peers.run_peer(len(packages.PEERS) - 1, self.folder, None)
        self.assertEqual((row["call"], row["note"]), ("not_a_package, f", "not installed"))

    def test_rows_are_a_table_and_a_file(self):
        rows = [
            {"data": "5 x 2", "call": "a, b", **peers.times([2, 0.5, 0.25, 0.3]),
             "measure": "error", "value": 1e-9},
            {"data": "5 x 2", "call": "c", "note": "a | b"},
        ]
        self.assertEqual(peers.as_markdown(rows).splitlines()[2:], [
            "| 5 x 2 | a, b | 2 | 0.3 | error: 1e-09 |", "| 5 x 2 | c |  |  | a / b |",
        ])
        file = self.folder / "rows.csv"
        peers.write_rows(file, ["call", "seconds", "note"], rows)
        self.assertEqual(file.read_text(), 'call,seconds,note\n"a, b",0.3,NA\nc,NA,a | b\n')


if __name__ == "__main__":
    unittest.main()
