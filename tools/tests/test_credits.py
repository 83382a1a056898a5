"""Tests of tools/credits with a stand-in for cargo: python3 -m unittest discover tools/tests"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent / "credits"


def need(crate, *kinds):
    return {"pkg": crate, "dep_kinds": [{"kind": kind} for kind in kinds]}


class Credits(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ["tools/report", "inst", "bin"]:
            (self.folder / name).mkdir(parents=True)
        module = {"name": "d3-of-pages", "version": "3.0.1", "author": "Di", "license": "ISC",
                  "copyright": ["Copyright 2010 Di"], "repository": "https://example.org/d3"}
        bundle = self.folder / "tools/report/bundle.json"
        bundle.write_text(json.dumps({"modules": [module]}))
        shutil.copy(TOOL, self.folder / "tools/credits")
        cargo = self.folder / "bin/cargo"
        cargo.write_text('#!/bin/sh\ncat "$METADATA"\n')
        cargo.chmod(0o755)
        self.metadata = {"packages": [], "workspace_members": ["ours"], "resolve": {"nodes": []}}
        self.add("ours", need("linked", None), need("both", "dev", None), need("of-tests", "dev"))
        authors = ["Ann O. <ann@example.org>", "Bob"]
        self.add("linked", need("of-the-build", "build"), authors=authors)
        for name in ["both", "of-the-build", "of-tests"]:
            self.add(name)

    def add(self, crate, *needs, **values):
        self.metadata["resolve"]["nodes"].append({"id": crate, "deps": list(needs)})
        folder = self.folder / "crates" / crate
        folder.mkdir(parents=True)
        self.metadata["packages"].append({
            "id": crate, "name": crate, "version": "1.0.2", "license": "MIT/Apache-2.0",
            "license_file": None, "authors": [], "repository": f"https://example.org/{crate}",
            "manifest_path": str(folder / "Cargo.toml"), **values})

    def run_tool(self, *arguments):
        file = self.folder / "metadata.json"
        file.write_text(json.dumps(self.metadata))
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run([self.folder / "tools/credits", *arguments], capture_output=True,
                              text=True, env={**os.environ, "PATH": path, "METADATA": str(file)})

    def written(self):
        result = self.run_tool()
        self.assertEqual(result.returncode, 0, result.stderr)
        return tuple((self.folder / it).read_text() for it in ("inst/AUTHORS", "LICENSE.note"))

    def test_the_crates_of_the_library_and_its_build_are_named_and_no_others(self):
        authors, licences = self.written()
        for text in [authors, licences]:
            for name in ["linked 1.0.2", "both 1.0.2", "of-the-build 1.0.2"]:
                self.assertIn(name, text)
            for name in ["ours", "of-tests"]:
                self.assertNotIn(name, text)

    def test_the_modules_of_pages_are_named(self):
        authors, licences = self.written()
        self.assertIn(" - d3-of-pages 3.0.1: Di\n", authors)
        self.assertIn("License:    ISC\n            Copyright 2010 Di\n", licences)

    def test_authors_lose_their_addresses(self):
        self.assertIn(" - linked 1.0.2: Ann O., Bob\n", self.written()[0])

    def test_a_crate_without_authors_has_its_contributors(self):
        self.assertIn(" - both 1.0.2: the contributors to https://example.org/both\n",
                      self.written()[0])

    def test_licences_and_holders_of_copyright_are_named(self):
        (self.folder / "crates/both/LICENSE-MIT").write_text("MIT\n  Copyright (c) 2015-2020  Cy\n")
        (self.folder / "crates/both/LICENSE-APACHE").write_text("Copyright [yyyy] [name]\n")
        text = self.written()[1]
        licence = "License:    MIT OR Apache-2.0\n            Copyright (c) 2015-2020 Cy\n"
        self.assertIn(licence, text)
        self.assertNotIn("yyyy", text)

    def test_a_crate_may_lack_a_repository_and_the_name_of_its_licence(self):
        self.add("bare", license=None, license_file="COPYING", repository=None)
        self.metadata["resolve"]["nodes"][0]["deps"].append(need("bare", None))
        text = self.written()[1]
        self.assertIn("Repository: https://crates.io/crates/bare\n", text)
        self.assertIn("License:    in the file COPYING of the crate\n", text)

    def test_a_stale_file_is_found(self):
        self.written()
        self.assertEqual(self.run_tool("--check").returncode, 0)
        for name in ["inst/AUTHORS", "LICENSE.note"]:
            file = self.folder / name
            text = file.read_text()
            file.write_text(text + "x")
            self.assertIn(f"{name} is stale", self.run_tool("--check").stderr)
            file.unlink()
            self.assertEqual(self.run_tool("--check").returncode, 1)
            file.write_text(text)


if __name__ == "__main__":
    unittest.main()
