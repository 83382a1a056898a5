"""The folders of kernels include each other only as ARCHITECTURE.md, "The kernels", says. Run by
python3 -m unittest discover tools/tests"""

import re
import unittest

from tree import ROOT, tracked

KERNELS = "src/rust/cuda/kernels/"
HEADER = re.compile(r'^\s*#\s*include\s*"(?:([^"]*)/)?[^"/]+"', re.M)

# Folders whose headers include those of `cluster`, besides their own and those of no folder.
ABOVE_CLUSTER = {"agglomerate", "tree"}


def may_include(folder: str, other: str) -> bool:
    return other in ("", folder) or (other == "cluster" and folder in ABOVE_CLUSTER)


def wrong_includes(folder: str, text: str) -> list:
    """The folders that a file of `folder` includes against the rules; "" is the top."""
    found = (match[1] or "" for match in HEADER.finditer(text))
    return [other for other in found if not may_include(folder, other)]


class Includes(unittest.TestCase):
    def test_headers_include_only_folders_below(self):
        headers = [name for name in tracked() if name.startswith(KERNELS)]
        headers = [name for name in headers if name.endswith(".cuh")]
        self.assertGreater(len(headers), 50)
        for name in headers:
            folder, _, _ = name.removeprefix(KERNELS).rpartition("/")
            text = (ROOT / name).read_text(encoding="utf-8")
            self.assertEqual(wrong_includes(folder, text), [], name)

    def test_wrong_includes_are_found(self):
        text = '#include "base.cuh"\n#include "tree/jobs.cuh"\n#  include "cluster/shape.cuh"\n'
        self.assertEqual(wrong_includes("tree", text), [])
        self.assertEqual(wrong_includes("agglomerate", text), ["tree"])
        self.assertEqual(wrong_includes("cluster", text), ["tree"])
        self.assertEqual(wrong_includes("kmeans", text), ["tree", "cluster"])
        self.assertEqual(wrong_includes("", text), ["tree", "cluster"])


if __name__ == "__main__":
    unittest.main()
