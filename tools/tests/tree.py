"""The files of this tree, for the tests that check all of them."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tracked() -> list:
    """Files that git tracks, or would after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    names = listed.stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]
