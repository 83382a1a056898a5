"""Checks that no name is defined twice in the R sources, where the last definition would replace
the first one: python3 -m unittest discover tools/tests"""

import collections
import re
import unittest

from tree import ROOT


def defined_twice(sources):
    """The names that are defined at the top level of these texts more than once."""
    names = re.findall(r"^([A-Za-z.][\w.]*) <- ", "\n".join(sources), re.M)
    return sorted(name for name, times in collections.Counter(names).items() if times > 1)


class Names(unittest.TestCase):
    def test_no_name_is_defined_twice(self):
        sources = [path.read_text() for path in sorted((ROOT / "R").glob("*.R"))]
        self.assertEqual(defined_twice(sources), [])

    def test_names_in_two_sources_are_found(self):
        sources = ["f <- function(x) {\n  g <- x\n}\n", "g <- 1\n", "f <- 2\n"]
        self.assertEqual(defined_twice(sources), ["f"])


if __name__ == "__main__":
    unittest.main()
