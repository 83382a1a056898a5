"""Tests of tools/kernels.py: python3 -m unittest discover tools/tests"""

import lzma
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import kernels  # noqa: E402, in the folder above

TABLE = """
[compiler]
package = "compiler==1.2.3"
options = ["--fast"]

[a]
architecture = "compute_70"
binaries = ["sm_80", "sm_90"]

[a.modules]
a_1 = { SIZE = "1" }
a_2 = { SIZE = "2" }

[b]
architecture = "compute_80"

[b.modules]
b = {}
"""


class Bundles(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        paths = {
            "FOLDER": ".", "TABLE": "modules.toml", "COMPILED": ".", "BUNDLE": "bundle",
            "NUMBERS": "numbers",
        }
        for name, path in paths.items():
            self.addCleanup(setattr, kernels, name, getattr(kernels, name))
            setattr(kernels, name, folder / path)
        (folder / "parts").mkdir()
        self.folder = folder
        self.write("modules.toml", TABLE)
        self.write("a.cu", '#include "parts/first.cuh"\nkernel\n')
        self.write("parts/first.cuh", '#  include "second.cuh"\n')
        self.write("parts/second.cuh", '#include "base.cuh"\n')
        self.write("base.cuh", '#include "parts/first.cuh"\nµ\n')
        self.write("b.cu", "other\n")
        self.build()

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def build(self):
        kernels.write([
            (m, f"// {m.name}\n.version 8\n", {a: f"{m.name} {a}".encode() for a in m.binaries})
            for m in kernels.modules()
        ])

    def repack(self, old, new):
        text = lzma.decompress(kernels.BUNDLE.read_bytes()).decode()
        self.assertIn(old, text)
        kernels.BUNDLE.write_bytes(
            lzma.compress(text.replace(old, new).encode(), lzma.FORMAT_ALONE)
        )

    def test_only_modules_of_changed_sources_are_to_be_made(self):
        self.assertEqual(sorted(kernels.made()), ["a_1", "a_2", "b"])
        text, binaries = kernels.made()["a_2"]
        self.assertEqual(text, "// a_2\n.version 8\n")
        self.assertEqual(binaries, {"sm_80": b"a_2 sm_80", "sm_90": b"a_2 sm_90"})
        self.write("b.cu", "changed\n")
        self.assertEqual(sorted(kernels.made()), ["a_1", "a_2"])
        self.write("base.cuh", "changed\n")
        self.assertEqual(kernels.made(), {})
        self.build()
        self.write("modules.toml", TABLE.replace('SIZE = "2"', 'SIZE = "3"'))
        self.assertEqual(sorted(kernels.made()), ["a_1", "b"])
        (self.folder / "bundle").write_bytes(b"damaged")
        self.assertEqual(kernels.made(), {})

    def test_a_bundle_is_read_as_it_was_written(self):
        bundle = kernels.read_bundle()
        self.assertEqual(list(bundle.ptx), ["a_1", "a_2", "b"])
        self.assertEqual(bundle.ptx["a_2"], "// a_2\n.version 8\n")
        self.assertEqual(kernels.problems(), [])

    def test_binaries_are_read_as_they_were_written(self):
        archives = [self.folder / f"a.{each}.lzma" for each in ("sm_80", "sm_90")]
        self.assertEqual(kernels.files(), [kernels.BUNDLE, kernels.NUMBERS, *archives])
        found = kernels.split_binaries(kernels.unpack(archives[1]))
        self.assertEqual(found, [b"a_1 sm_90", b"a_2 sm_90"])

    def test_binaries_of_any_length_come_apart_again(self):
        binaries = [b"x" * i for i in (0, 1, 15, 16, 17, 300)]
        content = kernels.join_binaries(binaries)
        self.assertEqual(kernels.split_binaries(content), binaries)
        for end in (1, 17, 300):
            with self.assertRaises(ValueError):
                kernels.split_binaries(content[:-end])

    def test_numbers_of_registers_and_labels_come_back(self):
        text = "mov %r1, %r40;\n@%p7 bra $L__BB3_12;\n%rd65535 %r2 %tid.x %r<9>; x12 f32 12\n"
        rest, numbers = kernels.without_numbers(text)
        self.assertIn("mov %r#, %r#;\n@%p# bra $L__BB3_#;\n%rd# %r# %tid.x %r<9>; x12 f32", rest)
        self.assertEqual(numbers[:4], b"\1\0" + b"\x27\0")
        self.assertEqual(kernels.with_numbers(rest, numbers), text)
        for wrong in (numbers[:-2], numbers + b"\0\0"):
            with self.assertRaises(ValueError):
                kernels.with_numbers(rest, wrong)

    def test_numbers_that_would_not_come_back_are_refused(self):
        module = kernels.modules()[0]
        for body in ("%r65536\n", "%r007\n", "# %r1\n"):
            with self.assertRaises(ValueError):
                kernels.write([(module, body, {})])

    def test_the_same_modules_make_the_same_bytes(self):
        files = kernels.files()
        before = [file.read_bytes() for file in files]
        self.build()
        self.assertEqual([file.read_bytes() for file in files], before)

    def test_the_options_for_a_binary_have_its_architecture(self):
        options = kernels.modules()[0].options_for("sm_90")
        self.assertEqual(options, ["--gpu-architecture=sm_90", "--fast", "-DSIZE=1"])

    def test_a_binary_that_is_missing_or_altered_is_found(self):
        file, other = self.folder / "a.sm_80.lzma", self.folder / "a.sm_90.lzma"
        good = file.read_bytes()
        for bad in (good[:-9], good + b"\0", b"", other.read_bytes()):
            file.write_bytes(bad)
            (problem,) = kernels.problems()
            self.assertIn(file.name, problem)
        file.unlink()
        (problem,) = kernels.problems()
        self.assertIn(file.name, problem)

    def test_table_and_bundle_name_the_same_binaries(self):
        for binaries, count in (('["sm_80"]', 2), ('["sm_80", "sm_86", "sm_90"]', 2), ("[]", 4)):
            self.write("modules.toml", TABLE.replace('["sm_80", "sm_90"]', binaries))
            found = [each for each in kernels.problems() if each.startswith("binary ")]
            self.assertEqual(len(found), count, binaries)

    def test_unused_binaries_are_found_and_removed(self):
        unused = self.folder / "a.sm_75.lzma"
        unused.write_bytes(b"")
        self.assertEqual(kernels.problems(), ["a.sm_75.lzma is of no module"])
        self.build()
        self.assertFalse(unused.exists())
        self.assertEqual(kernels.problems(), [])

    def test_the_digest_covers_binaries(self):
        before = kernels.read_bundle().digest
        made = [(m, f"// {m.name}\n.version 8\n", dict.fromkeys(m.binaries, b"other"))
                for m in kernels.modules()]
        kernels.write(made)
        self.assertEqual(kernels.problems(), [])
        self.assertNotEqual(kernels.read_bundle().digest, before)
        self.repack("binary a_1", "binary a_3")
        self.assertIn("altered", kernels.problems()[0])

    def test_a_unit_has_each_header_once_also_in_circles(self):
        unit = kernels.unit_of(self.folder / "a.cu").decode()
        self.assertEqual(unit.split(), ["µ", "kernel"])
        self.write("parts/second.cuh", '#include "base.cuh"\nsecond\n')
        unit = kernels.unit_of(self.folder / "a.cu").decode()
        self.assertEqual(unit.split(), ["µ", "second", "kernel"])

    def test_includes_are_followed_beside_comments_and_with_any_line_ends(self):
        for line in ('#include "base.cuh" // why', '#include "base.cuh" /* why */',
                     '/*\n#include "b.cu"\n*/\n#include "base.cuh"', '#include "base.cuh"\r'):
            self.write("base.cuh", "µ\n")
            self.write("a.cu", line + "\nkernel\n")
            before = kernels.modules()[0].made_from()
            unit = kernels.unit_of(self.folder / "a.cu").decode()
            self.assertEqual(unit.split(), ["µ", "kernel"])
            self.write("base.cuh", "changed\n")
            self.assertNotEqual(kernels.modules()[0].made_from(), before, line)

    def test_an_include_that_is_not_followed_is_refused(self):
        for line in ("#include <math.h>", "# include HEADER"):
            self.write("a.cu", line + "\nkernel\n")
            self.assertEqual(kernels.problems(), [f"a.cu: {line} is not followed"])

    def test_a_header_that_moves_leaves_modules_as_they_are(self):
        (self.folder / "parts/first.cuh").rename(self.folder / "parts/moved.cuh")
        self.write("a.cu", '#include "parts/moved.cuh"\nkernel\n')
        self.write("base.cuh", '#include "parts/moved.cuh"\nµ\n')
        self.assertEqual(kernels.problems(), [])

    def test_a_changed_header_makes_the_modules_above_it_stale(self):
        self.write("base.cuh", "changed\n")
        stale = "module {} is not made from the present a.cu"
        self.assertEqual(kernels.problems(), [stale.format("a_1"), stale.format("a_2")])

    def test_a_changed_compiler_or_definition_makes_modules_stale(self):
        for old, new, count in (("1.2.3", "1.2.4", 3), ('"2"', '"3"', 1), ("compute_80", "90", 1)):
            self.write("modules.toml", TABLE.replace(old, new))
            self.assertEqual(len(kernels.problems()), count, old)

    def test_table_and_sources_and_bundle_name_the_same(self):
        self.write("c.cu", "new\n")
        self.assertEqual(kernels.problems(), ["c.cu is not in modules.toml"])
        (self.folder / "c.cu").unlink()
        self.write("modules.toml", TABLE.replace("a_2", "a_3"))
        self.assertEqual(len([p for p in kernels.problems() if p.startswith("module")]), 2)
        (self.folder / "b.cu").unlink()
        self.assertIn("b.cu", kernels.problems()[0])

    def test_altered_ptx_is_found(self):
        self.repack("// a_2\n", "// a_two\n")
        self.assertIn("altered", kernels.problems()[0])

    def test_an_altered_digest_of_sources_is_found(self):
        digest = kernels.read_bundle().made_from["b"]
        self.repack(digest, "0" * 64)
        self.assertEqual(kernels.problems(), ["module b is not made from the present b.cu"])

    def test_a_damaged_bundle_is_found(self):
        good = kernels.BUNDLE.read_bytes()
        for bad in (good[:-9], good + b"\0", b"", good[:50] + bytes([good[50] ^ 1]) + good[51:]):
            kernels.BUNDLE.write_bytes(bad)
            self.assertEqual(len(kernels.problems()), 1)
        kernels.BUNDLE.write_bytes(good)
        self.assertEqual(kernels.problems(), [])
        other = kernels.pack(b"\1\0", kernels.FILTER_OF_NUMBERS)
        for bad in (kernels.NUMBERS.read_bytes()[:-9], b"", other):
            kernels.NUMBERS.write_bytes(bad)
            self.assertEqual(len(kernels.problems()), 1)
        kernels.NUMBERS.unlink()
        self.assertEqual(len(kernels.problems()), 1)

    def test_ptx_that_looks_like_a_header_is_refused(self):
        module = kernels.modules()[0]
        with self.assertRaises(ValueError):
            kernels.write([(module, kernels.HEADER.format("x", "0" * 64), {})])

    def test_comments_and_line_ends_leave_modules_as_they_are(self):
        self.write("b.cu", "f(1, 2);\n#define A 1\ng();\n")
        self.build()
        self.write("b.cu", "// why\n\nf(1, /* the\nother */\n  2);\n#define  A 1 // one\ng();")
        self.assertEqual(kernels.problems(), [])
        self.write("b.cu", "f(1, 2);\n#define A 1 g();\n")
        self.assertEqual(len(kernels.problems()), 1)

    def test_texts_in_quotes_are_code(self):
        code = kernels.code_of(b'a = "// no"; c = \'"\'; // yes\nb = "\\"//"; \'\\\'\' d')
        self.assertEqual(code, b'a = "// no"; c = \'"\'; b = "\\"//"; \'\\\'\' d ')


if __name__ == "__main__":
    unittest.main()
