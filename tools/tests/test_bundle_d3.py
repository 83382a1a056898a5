"""Tests of tools/bundle-d3: python3 -m unittest discover tools/tests"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tree import ROOT

FILES = ["tools/bundle-d3", "tools/report/d3.js", "tools/report/package.json",
         "tools/report/package-lock.json", "tools/report/bundle.json", "inst/report/d3.min.js"]


def check(folder):
    command = [folder / "tools/bundle-d3", "--check"]
    return subprocess.run(command, capture_output=True, text=True)


class BundleD3(unittest.TestCase):
    def test_the_bundle_is_that_of_the_present_sources(self):
        result = check(ROOT)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_every_change_makes_the_bundle_stale(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        self.assertEqual(check(folder).returncode, 0)
        for name in FILES[1:4] + FILES[5:]:
            text = (folder / name).read_text()
            (folder / name).write_text(f"{text} ")
            self.assertIn(name, check(folder).stderr)
            (folder / name).write_text(text)

    def test_the_bundle_is_small_and_has_the_functions_that_the_modules_use(self):
        bundle = (ROOT / "inst/report/d3.min.js").read_text(encoding="ascii")
        self.assertLess(len(bundle), 150_000)
        self.assertIn("this permission notice appear in all copies", bundle)
        given = set(re.findall(r"\w+(?=[,} ])", " ".join(
            re.findall(r"export (\{[^}]*\})", (ROOT / "tools/report/d3.js").read_text()))))
        used = set()
        for file in (ROOT / "inst/report").glob("*.js"):
            if file.name != "d3.min.js":
                used.update(re.findall(r"\bd3\.(?!min)(\w+)", file.read_text()))
        self.assertEqual(used, given)


if __name__ == "__main__":
    unittest.main()
