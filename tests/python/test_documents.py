"""The notebook runs from start to end, and so do the tutorials' Python."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import output_of

SOURCE = Path(os.environ["BATCHLESS_SOURCE"])
TUTORIALS = [
    path for path in sorted((SOURCE / "figures/site/tutorials").glob("*.md")) if "```python" in path.read_text()
]


NOTEBOOK = SOURCE / "figures/site/tutorials/online_learning.ipynb"
CAN_RUN_NOTEBOOKS = shutil.which("jupyter-nbconvert") and importlib.util.find_spec("ipykernel")


def test_notebook_has_no_outputs():
    assert not any(cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"])


@pytest.mark.skipif(not CAN_RUN_NOTEBOOKS, reason="no jupyter-nbconvert and python3-ipykernel to run a notebook")
def test_notebook_runs(tmp_path):
    # A minute, which it waits for a kernel otherwise, passes on a busy machine.
    command = ["jupyter-nbconvert", "--to", "notebook", "--execute", NOTEBOOK, "--output-dir", tmp_path,
               "--ExecutePreprocessor.startup_timeout=600"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    executed = json.loads((tmp_path / NOTEBOOK.name).read_text())
    assert all(cell["execution_count"] for cell in executed["cells"] if cell["cell_type"] == "code")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(path, tmp_path):
    """In one process, in a folder that has the sources' files."""
    (tmp_path / "experiments").symlink_to(SOURCE / "experiments")
    snippets = re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    assert output_of("\n".join(snippets), cwd=tmp_path).count("\n") >= len(snippets)


def test_stubs_are_the_module():
    """Every public name has its type, and the stubs are Python."""
    import ast

    import batchless

    stubs = Path(batchless.__file__).with_suffix(".pyi")
    assert stubs.with_name("py.typed").exists()
    named = {
        node.name for node in ast.parse(stubs.read_text()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    assert set(batchless.__all__) <= named
