"""The notebooks of examples/notebooks run from the first to the last cell."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from test_live import namespaces_are_allowed

NOTEBOOKS = ROOT / "examples/notebooks"
# A cell that takes longer than this is assumed to hang.
CELL_S = 300
# A kernel starts slowly beside other tests.
START_S = 300


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def source_of(notebook: dict[str, Any]) -> str:
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"])


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = read(path)
    needs = notebook["metadata"]["weirlab"]["needs"]
    if "namespaces" in needs and not namespaces_are_allowed():
        pytest.skip("network namespaces are not allowed here")
    for library in needs:
        if library != "namespaces":
            pytest.importorskip(library)
    # The kernel of this interpreter, and no other that is installed on this machine.
    kernel = tmp_path / "kernels/python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-P", "-Xfrozen_modules=off", "-m", "ipykernel_launcher"]
    specification = {"argv": [*command, "-f", "{connection_file}"], "display_name": "Python 3"}
    (kernel / "kernel.json").write_text(json.dumps({**specification, "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # Enough runs for a figure; the notebook has two thousand by default.
    monkeypatch.setenv("WEIR_NOTEBOOK_SEEDS", "3")
    work = tmp_path / "work"
    shutil.copytree(ROOT / "experiments", work)
    client = nbclient.NotebookClient(
        nbformat.reads(path.read_text(encoding="utf-8"), as_version=4),
        timeout=CELL_S,
        startup_timeout=START_S,
        kernel_name="python3",
        resources={"metadata": {"path": os.fspath(work)}},
    )
    client.execute()
    outputs = [output for cell in client.nb.cells for output in cell.get("outputs", [])]
    assert outputs, "the notebook shows nothing"
    if "wl.plot." in source_of(notebook):
        assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_notebook_is_kept_without_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = read(path)
    nbformat.validate(nbformat.reads(path.read_text(encoding="utf-8"), as_version=4))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    # A heading first, then code that imports the package.
    first = notebook["cells"][0]
    assert first["cell_type"] == "markdown" and "".join(first["source"]).startswith("# ")
    assert "import weirlab as wl" in source_of(notebook) or "pytest" in source_of(notebook)
