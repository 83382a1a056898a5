"""Tests of tools/trim-crates: python3 -m unittest discover tools/tests"""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parent.parent / "trim-crates"
loader = importlib.machinery.SourceFileLoader("trim_crates", str(TOOL))
spec = importlib.util.spec_from_loader("trim_crates", loader)
trim_crates = importlib.util.module_from_spec(spec)
loader.exec_module(trim_crates)


class TrimCrates(unittest.TestCase):
    def setUp(self):
        self.vendor = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text=""):
        path = self.vendor / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def names(self):
        found = (path for path in self.vendor.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.vendor).as_posix() for path in found)

    def kept(self, source):
        return "".join(trim_crates.without_comments(source).split())

    def test_comments_go_and_code_stays(self):
        for source, kept in {
            "a; // b\nc;": "a; \nc;",
            "a /* b /* c */ d */ e": "a   e",
            "a/**/b": "a b",
            "//// a\nb": "\nb",
            "/* a\n// b */ c": "  c",
        }.items():
            self.assertEqual(trim_crates.without_comments(source), kept, source)

    def test_what_looks_like_a_comment_in_a_string_stays(self):
        for source in (
            '"// a" "\\"// b" b"/* c" r"\\" "// d"',
            'r#"" // a"# "/*" br##""# /* "##',
            "'\"' '/' '\\'' '\\u{1F600}' b'\"' x",
            '"a\n  // b\n"',
        ):
            self.assertEqual(trim_crates.without_comments(source), source)

    def test_a_lifetime_opens_no_character(self):
        kept = self.kept("fn f<'a>(x: &'a str) // it's\n{ 'b' }")
        self.assertEqual(kept, "fnf<'a>(x:&'astr){'b'}")

    def test_help_keeps_its_attributes_without_their_text(self):
        kept = self.kept("/// a\n  /// b\n// c\n//! d\nfn f();")
        self.assertEqual(kept, "//////" + "//!" + "fnf();")
        self.assertEqual(self.kept("/** a */ b /*! c */ d"), "/***/b/*!*/d")

    def test_notices_stay(self):
        for source in (
            "// Copyright 2020 A\n// and others\n", "/* MIT Licence */", "// SPDX: MIT\n",
        ):
            self.assertEqual(trim_crates.without_comments(source + "x"), source + "x")

    def test_modules_of_tests_go(self):
        tests = (
            "#[cfg(unix)]\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n"
            "fn f() {\n\"\n}{\n\"; '}'; }\n}\n"
        )
        source = "fn a() {}\n" + tests + "#[cfg(test)]\nmod other;\nfn b() {}\n"
        self.write("a-1/src/lib.rs", source)
        trim_crates.trim(self.vendor)
        left = (self.vendor / "a-1/src/lib.rs").read_text()
        self.assertEqual(left, "fn a() {}\n\n#[cfg(test)]\nmod other;\nfn b() {}\n")

    def test_unused_files_go_and_licences_stay(self):
        kept = [
            "a-1/src/lib.rs", "a-1/LICENSE.md", "a-1/Cargo.toml", "libm-1/src/lib.rs",
            "a-1/build.rs",
        ]
        for name in kept:
            self.write(name, "word\n")
        self.write("a-1/README.md", "prose\n")
        unused = [
            "a-1/tests/a.rs", "a-1/src/tests/a.rs", "a-1/b.a", "a-1/.github/x.yml",
            "libm-1/src/math.rs", "libc-1/src/unix/bsd/freebsdlike/mod.rs",
            "cudarc-1/src/nccl/mod.rs", "syn-2/src/gen/visit.rs",
        ]
        for name in unused:
            self.write(name)
        trim_crates.trim(self.vendor)
        self.assertEqual(self.names(), sorted([*kept, "a-1/README.md"]))
        content = {name: (self.vendor / name).read_text() for name in self.names()}
        self.assertEqual(content["a-1/LICENSE.md"], "word\n")
        self.assertEqual((content["a-1/README.md"], content["libm-1/src/lib.rs"]), ("", ""))

    def test_the_digest_of_a_crate_stays(self):
        listed = {"files": {"src/lib.rs": "0" * 64}, "package": "1" * 64}
        self.write("a-1/.cargo-checksum.json", json.dumps(listed))
        trim_crates.trim(self.vendor)
        found = json.loads((self.vendor / "a-1/.cargo-checksum.json").read_text())
        self.assertEqual(found, {"files": {}, "package": "1" * 64})


if __name__ == "__main__":
    unittest.main()
