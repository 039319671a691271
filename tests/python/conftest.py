"""What the tests share: the program beside the module."""

import json
import os
import subprocess
import sys

import pytest


def output_of(script, cwd=None):
    """What a script prints in a process of its own, which a null pointer would end."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def program(tmp_path):
    """Runs the program in a folder of its own and returns what it prints with --json."""

    def run(*words, fails=False):
        done = subprocess.run(
            [os.environ["BATCHLESS_PROGRAM"], *map(str, words), "--json"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        if fails:
            assert done.returncode == 2, done
            return done.stderr.strip().removeprefix("batchless: ")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
