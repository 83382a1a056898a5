"""Tests of configure and the templates of src/Makevars, with stand-ins for Rust, R and uname:
python3 -m unittest discover tools/tests

They run make on the written Makevars. The stand-in for cargo writes down how it was called."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPIED = ["configure", "configure.win", "cleanup", "cleanup.win", "src/Makevars.in",
          "src/Makevars.win.in", "src/rust/Cargo.toml"]
COMMANDS = ["awk", "cat", "cp", "dirname", "env", "head", "make", "mkdir", "rm", "sed", "sh", "tar",
            "touch", "tr", "xz"]

CARGO = """#!/bin/sh
case $1 in
--version) echo "cargo 1.99.0" ;;
build) { echo "$@"; env; } >"$LOG" ;;
esac
"""

# The standard library is there for every platform but that in $MISSING.
RUSTC = """#!/bin/sh
case $1 in
--version) echo "rustc $VERSION (0123abcd 2026-01-01)" ;;
--print) [ "$4" = "$MISSING" ] && echo /missing || echo / ;;
esac
"""

R = """#!/bin/sh
[ "$*" = "CMD config CFLAGS" ] && echo "$CFLAGS" || echo clang
"""

LINUX_LIBRARY = "rust/target/release/libgmhclust.a"


class Configure(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.package = self.folder / "package"
        for name in COPIED:
            (self.package / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.package / name)
        (self.folder / "bin").mkdir()
        for name in COMMANDS:
            (self.folder / "bin" / name).symlink_to(shutil.which(name))
        self.make("bin/cargo", CARGO)
        self.make("bin/rustc", RUSTC)
        self.make("bin/uname", "#!/bin/sh\necho $SYSTEM\n")
        self.make("R home/bin/R", R)
        for architecture in ["", "x64/"]:
            self.make(f"R home/bin/{architecture}Rscript", "#!/bin/sh\necho $PLATFORM\n")
        self.log = self.folder / "log"
        self.environment = {
            "PATH": str(self.folder / "bin"), "HOME": str(self.folder / "home"),
            "R_HOME": str(self.folder / "R home"), "LOG": str(self.log), "SYSTEM": "Linux",
            "VERSION": "1.99.0",
        }

    def make(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def move_rust_to(self, folder):
        for name in ["cargo", "rustc"]:
            self.make(f"{folder}/.cargo/bin/{name}", (self.folder / "bin" / name).read_text())
            (self.folder / "bin" / name).unlink()

    def run_script(self, name, **environment):
        return subprocess.run(["sh", f"./{name}"], cwd=self.package, capture_output=True, text=True,
                              env={**self.environment, **environment})

    def configure(self, script="configure", **environment):
        result = self.run_script(script, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)

    def refused(self, script="configure", **environment):
        """Runs configure, which must fail, and returns its message in one line."""
        result = self.run_script(script, **environment)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(list((self.package / "src").glob("Makevars*[!n]")), [])
        return " ".join(result.stderr.split())

    def build(self, library, makevars="Makevars", **environment):
        """Builds the library, which must be what R links. Returns cargo's arguments and
        environment."""
        subprocess.run(
            ["make", "-s", "-f", makevars, "SHLIB=gmhclust.so", library], check=True,
            cwd=self.package / "src", env={**self.environment, **environment})
        arguments, _, variables = self.log.read_text().partition("\n")
        text = (self.package / "src" / makevars).read_text()
        self.assertNotRegex(text, "@[A-Z]+@")
        folder = re.search(r"^LIBDIR = (.*)$", text, re.MULTILINE).group(1)
        self.assertEqual(folder.replace("$(TARGET_DIR)", "rust/target") + "/libgmhclust.a", library)
        return arguments, dict(line.split("=", 1) for line in variables.splitlines() if "=" in line)

    def test_a_checkout_builds_with_the_crates_of_the_lock_file(self):
        self.configure()
        arguments, environment = self.build(LINUX_LIBRARY)
        self.assertIn("build --lib --profile release --locked --manifest-path", arguments)
        self.assertNotIn("--offline", arguments)
        self.assertNotIn("--target ", arguments)
        self.assertNotIn("CARGO_HOME", environment)

    def test_another_profile_of_cargo_is_built(self):
        self.configure(GMHCLUST_PROFILE="quick")
        arguments, _ = self.build("rust/target/quick/libgmhclust.a")
        self.assertIn("--profile quick", arguments)

    def test_a_source_package_builds_offline_in_its_own_folder_with_two_cores(self):
        (self.package / "src/rust/vendor").mkdir()
        (self.package / "src/rust/vendor/config.toml").write_text("[source]\n")
        subprocess.run(["tar", "-cJf", "vendor.tar.xz", "vendor"], check=True,
                       cwd=self.package / "src/rust")
        shutil.rmtree(self.package / "src/rust/vendor")
        self.configure(CARGO_BUILD_TARGET="aarch64-unknown-linux-gnu")
        arguments, environment = self.build(
            "rust/target/aarch64-unknown-linux-gnu/release/libgmhclust.a")
        self.assertIn("--locked --offline -j 2 --target aarch64-unknown-linux-gnu", arguments)
        self.assertEqual(environment["CARGO_HOME"], str(self.package / "src/rust/.cargo"))
        self.assertTrue((self.package / "src/rust/.cargo/config.toml").exists())

    def test_the_platform_of_the_environment_is_built(self):
        self.configure(CARGO_BUILD_TARGET="powerpc64le-unknown-linux-gnu")
        arguments, environment = self.build(
            "rust/target/powerpc64le-unknown-linux-gnu/release/libgmhclust.a")
        self.assertIn("--target powerpc64le-unknown-linux-gnu", arguments)
        self.assertNotIn("LINKER", " ".join(environment))

    def test_a_platform_without_standard_library_is_refused(self):
        message = self.refused(CARGO_BUILD_TARGET="a-b-c", MISSING="a-b-c")
        self.assertIn("rustup target add a-b-c", message)

    def test_webassembly_is_refused(self):
        for environment in [{"SYSTEM": "Emscripten"},
                            {"CARGO_BUILD_TARGET": "wasm32-unknown-emscripten"}]:
            self.assertIn("cannot be built for WebAssembly", self.refused(**environment))

    def test_a_machine_without_rust_is_told_where_to_get_it(self):
        for name in ["cargo", "rustc"]:
            (self.folder / "bin" / name).rename(self.folder / name)
            self.assertIn(f"No {name} was found", self.refused())
            (self.folder / name).rename(self.folder / "bin" / name)

    def test_rust_is_found_in_the_home_folder(self):
        self.move_rust_to("home")
        self.configure()
        _, environment = self.build(LINUX_LIBRARY)
        self.assertTrue(environment["PATH"].startswith(f"{self.folder}/home/.cargo/bin:"))

    def test_rust_is_found_in_the_folder_of_the_windows_user(self):
        self.move_rust_to("Users/Ann O")
        self.make("bin/cygpath", f"""#!/bin/sh
[ "$1" = 'C:\\Ann O' ] && echo "{self.folder}/Users/Ann O"
""")
        self.configure("configure.win", PLATFORM="x86_64-w64-mingw32", USERPROFILE="C:\\Ann O")
        _, environment = self.build("rust/target/x86_64-pc-windows-gnu/release/libgmhclust.a",
                                    "Makevars.win")
        self.assertTrue(environment["PATH"].startswith(f"{self.folder}/Users/Ann O/.cargo/bin:"))

    def test_the_oldest_rust_is_that_of_the_manifest(self):
        manifest = (ROOT / "src/rust/Cargo.toml").read_text()
        oldest = re.search(r'^rust-version = "(\d+)\.(\d+)"', manifest, re.MULTILINE)
        major, minor = map(int, oldest.groups())
        self.configure(VERSION=f"{major}.{minor}.0")
        self.run_script("cleanup")
        message = self.refused(VERSION=f"{major}.{minor - 1}.9")
        found = f"rustc {major}.{minor - 1}.9"
        self.assertIn(f"version {major}.{minor} or later. Found: {found}", message)

    def test_avx512_is_left_out_for_compilers_that_lack_it(self):
        for version, left_out in [("1.88.5", True), ("1.89.0", False)]:
            self.configure(VERSION=version)
            arguments, _ = self.build(LINUX_LIBRARY)
            self.assertEqual("--no-default-features" in arguments, left_out)

    def test_macos_takes_the_oldest_version_of_the_environment(self):
        self.configure(SYSTEM="Darwin", MACOSX_DEPLOYMENT_TARGET="12.3",
                       CFLAGS="-mmacosx-version-min=11.0")
        _, environment = self.build(LINUX_LIBRARY)
        self.assertEqual(environment["MACOSX_DEPLOYMENT_TARGET"], "12.3")

    def test_macos_takes_the_oldest_version_of_the_compiler_flags(self):
        for flag in ["-mmacosx-version-min", "-mmacos-version-min"]:
            self.configure(SYSTEM="Darwin", CFLAGS=f"-O2 {flag}=10.13 -Wall")
            _, environment = self.build(LINUX_LIBRARY)
            self.assertEqual(environment["MACOSX_DEPLOYMENT_TARGET"], "10.13")

    def test_macos_leaves_the_oldest_version_to_rust_where_r_names_none(self):
        self.configure(SYSTEM="Darwin", CFLAGS="-O2")
        _, environment = self.build(LINUX_LIBRARY)
        self.assertNotIn("MACOSX_DEPLOYMENT_TARGET", environment)

    def test_windows_builds_for_the_platform_of_r(self):
        cases = [
            ("x86_64-w64-mingw32", "/x64", "x86_64-pc-windows-gnu",
             "x86_64-w64-mingw32.static.posix-gcc.exe"),
            ("aarch64-w64-mingw32", "", "aarch64-pc-windows-gnullvm", "clang.exe"),
        ]
        for platform, architecture, target, linker in cases:
            self.configure("configure.win", SYSTEM="MINGW64_NT-10.0", PLATFORM=platform,
                           R_ARCH_BIN=architecture)
            self.assertFalse((self.package / "src/Makevars").exists())
            arguments, environment = self.build(f"rust/target/{target}/release/libgmhclust.a",
                                                "Makevars.win")
            self.assertIn(f"--target {target}", arguments)
            variable = f"CARGO_TARGET_{target.upper().replace('-', '_')}_LINKER"
            self.assertEqual(environment[variable], linker)
            library_path = environment["LIBRARY_PATH"].split(";")[-1]
            self.assertTrue((pathlib.Path(library_path) / "libgcc_eh.a").exists())

    def test_windows_takes_the_platform_and_the_linker_of_the_environment(self):
        self.configure("configure.win", CARGO_BUILD_TARGET="x86_64-pc-windows-gnullvm")
        _, environment = self.build(
            "rust/target/x86_64-pc-windows-gnullvm/release/libgmhclust.a", "Makevars.win",
            CARGO_TARGET_X86_64_PC_WINDOWS_GNULLVM_LINKER="own-clang")
        self.assertEqual(environment["CARGO_TARGET_X86_64_PC_WINDOWS_GNULLVM_LINKER"], "own-clang")

    def test_windows_refuses_a_platform_that_rust_does_not_have(self):
        message = self.refused("configure.win", PLATFORM="i386-w64-mingw32", R_ARCH_BIN="/x64")
        self.assertIn("R is for i386-w64-mingw32", message)

    def test_cleanup_removes_what_configure_and_the_build_made(self):
        before = sorted(self.package.rglob("*"))
        for script, configure in [("cleanup", "configure"), ("cleanup.win", "configure.win")]:
            self.configure(configure, PLATFORM="x86_64-w64-mingw32")
            for folder in ["target", ".cargo"]:
                (self.package / "src/rust" / folder).mkdir()
            (self.package / "src/allocate.o").touch()
            self.assertNotEqual(sorted(self.package.rglob("*")), before)
            result = self.run_script(script)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(sorted(self.package.rglob("*")), before)


if __name__ == "__main__":
    unittest.main()
