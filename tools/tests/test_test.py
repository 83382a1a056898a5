"""Tests of tools/test and tools/steps.sh: python3 -m unittest discover tools/tests"""

import re
import subprocess
import unittest

from tree import ROOT

# As cargo prints it.
CARGO = """
test ties::go_to_the_lower_slot ... ok
test tests::the_gpu_has_the_bits ... ignored, needs an NVIDIA GPU
test tests::both_gpus_have_the_bits ... ignored, needs two NVIDIA GPUs
test tests::the_gpu_is_lost ... ignored, needs an NVIDIA GPU

test result: ok. 7 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.10s

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""


def run(*command, **options):
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    return done.returncode, done.stdout


def run_steps(script):
    head = "set -euo pipefail\nsource tools/setup.sh\nsource tools/steps.sh\n"
    return run("bash", "-c", head + script)


class Test(unittest.TestCase):
    def test_an_unknown_file_or_crate_lists_the_known_ones(self):
        for name, known in {
            "nothing": ["gknn", "core:FILTER"], "nothing:x": ["core:FILTER"],
        }.items():
            status, printed = run("tools/test", "--only", name)
            self.assertEqual(status, 1, printed)
            lines = [line.strip() for line in printed.splitlines()]
            self.assertIn(f'--only has "{name}"', printed)
            self.assertLessEqual(set(known), set(lines))
            self.assertEqual(lines[-1], "0 passed, 1 failed")

    def test_unknown_arguments_print_the_usage(self):
        for arguments in [["--fast"], ["--quick", "gknn"], ["--only"]]:
            status, printed = run("tools/test", *arguments)
            self.assertEqual(status, 1)
            self.assertTrue(printed.startswith("Usage: tools/test\n"), printed)

    def test_slow_files_are_there_with_seconds_and_a_reason(self):
        for line in (ROOT / "tools/slow-tests").read_text().splitlines():
            if not line.startswith("#"):
                name = re.fullmatch(r"(\S+) \d+ \S.*", line)[1]
                self.assertTrue((ROOT / f"tests/testthat/test-{name}.R").exists(), line)

    def test_passed_and_skipped_tests_are_counted(self):
        status, printed = run_steps(
            f"cargo() {{ echo '{CARGO}' | count_rust; }}\n"
            "r() { printf '5\\n1 no usable GPU\\n2 needs an NVIDIA GPU\\n' >$scratch/count; }\n"
            "step one true\nstep cargo cargo\nstep r r\n"
        )
        self.assertEqual(status, 0, printed)
        self.assertEqual(printed.splitlines()[-5:], [
            "6 skipped:", "  4 needs an NVIDIA GPU", "  1 needs two NVIDIA GPUs",
            "  1 no usable GPU", "15 passed, 0 failed",
        ])

    def test_a_failure_ends_the_run_and_is_shown(self):
        status, printed = run_steps(
            "bad() { echo the reason; false; echo not here; }\n"
            "step one true\nstep two bad\nstep three true\n"
        )
        self.assertEqual(status, 1)
        self.assertEqual(re.sub(r"\[ *\d+s\]", "", printed).splitlines()[-4:], [
            "the reason", " FAILED: two", "0 skipped", "1 passed, 1 failed",
        ])


if __name__ == "__main__":
    unittest.main()
