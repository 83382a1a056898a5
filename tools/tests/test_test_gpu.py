"""Tests of tools/test-gpu with stand-ins for the kernels, the test programs, the driver and the
sanitizer: python3 -m unittest discover tools/tests"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parent.parent

# Reading the kernels of this checkout would take most of the time of these tests.
TABLE = """
[compiler]
package = "compiler==1.2.3"
options = []

[a]
architecture = "compute_70"
binaries = ["sm_80"]

[a.modules]
a = {}
"""

# A test program as cargo builds them, with the kernels after its end.
PROGRAM = """#!/bin/sh
case "$*" in
*--list*)
    for name in tree::tests::parity a::parity_on_small_data a::slow_on_small_data \\
        a::may_be_lost_here a::two_agree a::takes_an_hour; do echo "$name: test"; done ;;
*--ignored*)
    shift 2
    while case "$1" in --*) true ;; *) false ;; esac; do shift; done
    case "$*" in *"$SKIP"*) echo "skipped: this GPU lacks something" ;; esac
    # Before its own count are those of processes that its tests started.
    case "$*" in *lost*) echo "test result: ok. 9 passed; 0 failed; 0 ignored" ;; esac
    case "$GMHCLUST_TEST_LIMITS $*" in
    *"$BREAK"*) echo "test result: FAILED. 0 passed; 1 failed;"; exit 101 ;;
    esac
    echo "test result: ok. $# passed; 0 failed; 0 ignored" ;;
*)
    for name; do
        case $name in
        *two*) needs="two NVIDIA GPUs" ;;
        *hour) needs="patience" ;;
        *) needs="an NVIDIA GPU" ;;
        esac
        echo "test $name ... ignored, needs $needs"
    done ;;
esac
exit
"""

SANITIZER = """#!/bin/sh
shift 3
case "$*" in *slow*) sleep "$SLOW" ;; esac
"$@"
echo "========= $SUMMARY"
"""

CLEAN = "ERROR SUMMARY: 0 errors"


def make_checkout(root):
    """Makes a checkout with tools/test-gpu and small kernels; returns its module `kernels`."""
    (root / "tools").mkdir()
    for name in ("test-gpu", "kernels.py"):
        shutil.copy(TOOLS / name, root / "tools")
    spec = importlib.util.spec_from_file_location("small_kernels", root / "tools/kernels.py")
    kernels = importlib.util.module_from_spec(spec)
    # The classes of the module look for it here.
    sys.modules[spec.name] = kernels
    spec.loader.exec_module(kernels)
    kernels.COMPILED.mkdir(parents=True)
    kernels.TABLE.write_text(TABLE)
    (kernels.FOLDER / "a.cu").write_text("kernel\n")
    kernels.write([(kernels.modules()[0], ".version 8\n", {"sm_80": b"binary"})])
    return kernels


class TestGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.checkout = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())).resolve()
        cls.of_checkout = make_checkout(cls.checkout)

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.stamp = self.folder / "tested.json"
        self.kernels = b"".join(file.read_bytes() for file in self.of_checkout.files())
        self.make("bin/nvidia-smi", "#!/bin/sh\nprintf '%b' \"$GPUS\"\n")
        self.make("bin/compute-sanitizer", SANITIZER)
        self.make_program("tests")

    def make(self, path, text, more=b""):
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode() + more)
        file.chmod(0o755)

    def make_program(self, name):
        self.make(f"programs/{name}", PROGRAM, self.kernels)

    def run_gpu(self, *options, gpus=1, broken="nothing", skip="nothing", slow=0, summary=CLEAN):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        listed = "NVIDIA X100, 580.1\n" * gpus
        environment = {
            "PATH": path, "GPUS": listed, "BREAK": broken, "SKIP": skip, "SLOW": str(slow),
            "SUMMARY": summary,
        }
        command = [self.checkout / "tools/test-gpu", "--stamp", self.stamp, *options]
        if "--check" not in options:
            command += ["--binaries", self.folder / "programs"]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
        self.printed = done.stdout + done.stderr
        return done.returncode

    def parts(self):
        return json.loads(self.stamp.read_text())["parts"]

    def test_parts_add_up_in_the_stamp(self):
        self.assertEqual(self.run_gpu("--only", "parity,two-gpus", gpus=2), 0)
        self.assertEqual(self.run_gpu("--only", "losses,two-gpus"), 0)
        parts = self.parts()
        self.assertEqual({part: e["passed"] for part, e in parts.items()},
                         {"parity": 3, "two-gpus": 1, "losses": 1})
        self.assertEqual(parts["two-gpus"]["gpus"], ["NVIDIA X100"] * 2)
        self.assertEqual(parts["losses"]["driver"], "580.1")
        self.assertEqual(parts["parity"]["kernels"], self.of_checkout.read_bundle().digest)

    def test_trees_are_tested_with_the_limits_of_every_small_gpu(self):
        self.assertEqual(self.run_gpu("--only", "small-gpus"), 0)
        self.assertEqual(self.parts()["small-gpus"]["passed"], 2)
        self.assertNotEqual(self.run_gpu("--only", "small-gpus", broken="7.0,98304,80"), 0)

    def test_a_part_has_the_tests_of_all_programs(self):
        self.make_program("engine")
        self.assertEqual(self.run_gpu("--only", "losses"), 0)
        self.assertEqual(self.parts()["losses"]["passed"], 2)

    def test_programs_with_tests_for_a_gpu_are_collected(self):
        self.make_program("engine")
        self.make("programs/structure", "#!/bin/sh\n")
        built = sorted((self.folder / "programs").iterdir())
        lines = [json.dumps({"executable": str(p), "profile": {"test": True}}) for p in built]
        self.make("bin/cargo", "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
        collected = self.folder / "collected"
        self.assertEqual(self.run_gpu("--collect", collected, gpus=0), 0, self.printed)
        self.assertEqual(sorted(p.name for p in collected.iterdir()), ["engine", "tests"])

    def test_what_cannot_be_run_is_left_out(self):
        self.assertEqual(self.run_gpu("--only", "two-gpus"), 0)
        self.assertEqual(self.parts()["two-gpus"]["left_out"], "there is one GPU")
        self.assertNotIn("passed", self.parts()["two-gpus"])

    def test_skipped_tests_have_not_passed(self):
        skip = "a::parity_on_small_data"
        self.assertEqual(self.run_gpu("--only", "parity,memcheck", skip=skip), 0)
        for part, passed in {"parity": 2, "memcheck": 1}.items():
            entry = self.parts()[part]
            self.assertEqual((entry["passed"], entry["skipped"]), (passed, 1))

    def test_what_takes_too_long_is_named(self):
        self.assertEqual(self.run_gpu("--only", "racecheck", "--limit", "5", slow=60), 0)
        part = self.parts()["racecheck"]
        self.assertEqual((part["passed"], part["cut_short"]), (1, ["a::slow_on_small_data"]))

    def test_a_part_that_fails_is_not_in_the_stamp(self):
        self.assertEqual(self.run_gpu("--only", "parity", broken="small"), 1)
        self.assertFalse(self.stamp.exists())
        self.assertEqual(self.run_gpu("--only", "parity,losses,memcheck", broken="lost"), 1)
        self.assertEqual(list(self.parts()), ["parity"])
        self.assertIn(json.dumps(self.parts()["parity"]), self.printed)

    def test_runs_at_once_share_a_stamp(self):
        parts = ["parity", "two-gpus", "losses"]
        runs = [threading.Thread(target=self.run_gpu, args=("--only", part)) for part in 3 * parts]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        self.assertEqual(list(self.parts()), parts)
        self.assertEqual([file.name for file in self.folder.glob("tested*")], ["tested.json"])

    def test_hazards_and_missing_summaries_fail(self):
        for summary in ("RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
                        "ERROR SUMMARY: 10 errors", ""):
            self.assertEqual(self.run_gpu("--only", "racecheck", summary=summary), 1)
            self.assertFalse(self.stamp.exists())

    def test_no_gpu_and_other_kernels_are_refused(self):
        self.assertEqual(self.run_gpu("--only", "parity", gpus=0), 1)
        self.assertIn("no NVIDIA GPU", self.printed)
        for others in (b"other kernels", self.kernels[:-1]):
            self.make("programs/tests", PROGRAM, others)
            self.assertEqual(self.run_gpu("--only", "parity"), 1)
            self.assertIn("not built with the kernels", self.printed)

    def test_a_dry_run_names_the_tests_of_each_part(self):
        self.assertEqual(self.run_gpu("--only", "parity,memcheck", "--dry-run", gpus=0), 0)
        self.assertEqual(self.printed.count("a::parity_on_small_data"), 2)
        self.assertNotIn("hour", self.printed)

    def test_the_check_wants_every_part_of_these_kernels(self):
        digest = self.of_checkout.read_bundle().digest
        passed = {"kernels": digest, "passed": 1}
        every = ["parity", "small-gpus", "losses", "two-gpus", "memcheck", "racecheck", "r"]
        good = {part: passed for part in every}
        left_out = {"kernels": digest, "left_out": "why"}
        for parts, wrong in (
            (good, None),
            ({**good, "two-gpus": left_out}, None),
            ({**good, "initcheck": passed}, None),
            ({**good, "parity": left_out}, "parity"),
            ({**good, "r": {"kernels": "0", "passed": 1}}, "r "),
            ({**good, "initcheck": {"kernels": "0", "passed": 1}}, "initcheck"),
            ({**good, "memcheck": {"kernels": digest, "passed": 0}}, "memcheck"),
            ({part: passed for part in every[1:]}, "parity"),
        ):
            self.stamp.write_text(json.dumps({"parts": parts}))
            self.assertEqual(self.run_gpu("--check"), 1 if wrong else 0, self.printed)
            if wrong:
                self.assertIn(wrong, self.printed.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
