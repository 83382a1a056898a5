"""Tests that files which repeat a part of DESCRIPTION say the same:
python3 -m unittest discover tools/tests"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Packages that come with R.
BASE = {"graphics", "grDevices", "grid", "methods", "parallel", "stats", "tools", "utils"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def field(name):
    """A field of DESCRIPTION, in one line."""
    text = re.search(rf"^{name}:((?:.|\n[ \t])*)", read("DESCRIPTION"), re.MULTILINE).group(1)
    return " ".join(text.split())


def imports():
    """The packages that must be installed before this one."""
    names = {re.sub(r" *\(.*\)", "", name) for name in field("Imports").split(", ")}
    return {name.lower() for name in names - BASE}


class Metadata(unittest.TestCase):
    def test_the_news_begin_with_this_version(self):
        self.assertEqual(read("NEWS.md").splitlines()[0], f"# gmhclust {field('Version')}")

    def test_the_site_lists_every_help_page_and_vignette(self):
        listed = set(re.findall(r"^  - ([\w.-]+)$", read("_pkgdown.yml"), re.MULTILINE))
        for page in ROOT.glob("man/*.Rd"):
            names = re.findall(r"^\\(?:alias|name)\{(.*)\}$", page.read_text(), re.MULTILINE)
            self.assertTrue(listed & set(names), f"_pkgdown.yml has no {page.name}")
        for page in ROOT.glob("vignettes/*.Rmd"):
            self.assertIn(page.stem, listed, f"_pkgdown.yml has no {page.name}")

    def test_the_oldest_rust_is_that_of_the_crates(self):
        oldest = re.search(r"rustc \(>= ([0-9.]+)\)", field("SystemRequirements")).group(1)
        manifests = [ROOT / "src/rust/Cargo.toml", *ROOT.glob("src/rust/*/Cargo.toml")]
        for manifest in manifests:
            # The fuzzers need the nightly Rust.
            if manifest.parent.name == "fuzz":
                continue
            self.assertIn(f'rust-version = "{oldest}"', manifest.read_text(), manifest)

    def test_the_conda_recipe_has_this_version_title_and_dependencies(self):
        recipe = read("conda/recipe.yaml")
        self.assertIn(f"\n  version: {field('Version')}\n", recipe)
        self.assertIn(f"\n  summary: {field('Title')}\n", recipe)
        for section in ["host", "run"]:
            names = re.search(rf"^  {section}:\n((?:    - .*\n)*)", recipe, re.MULTILINE).group(1)
            self.assertEqual(set(re.findall("- r-(.*)", names)), {"base"} | imports(), section)

    def test_the_container_has_the_dependencies(self):
        stages = read("Dockerfile").split("\nFROM ")[1:]
        self.assertEqual(len(stages), 2)
        for stage in stages:
            self.assertEqual(set(re.findall(r"r-cran-(\w+)", stage)), imports())

    def test_the_companion_package_has_the_same_version_and_addresses(self):
        for name in ["Version", "URL", "BugReports"]:
            self.assertIn(f"\n{name}: {field(name)}\n", read("bioc/DESCRIPTION"))


if __name__ == "__main__":
    unittest.main()
