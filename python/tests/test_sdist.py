"""The source distribution has every file that a build reads. `make wheel` builds from it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from conftest import ROOT


@pytest.fixture(scope="module")
def backend() -> ModuleType:
    """The build backend, which is not installed."""
    pytest.importorskip("maturin")
    path = ROOT / "python/build_backend.py"
    specification = importlib.util.spec_from_file_location("build_backend", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sdist(backend: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    before = Path.cwd()
    path = os.environ["PATH"]
    os.chdir(ROOT / "python")
    # The backend starts maturin by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    try:
        name = backend.build_sdist(str(folder))
        again = folder / "again"
        again.mkdir()
        assert backend.build_sdist(str(again)) == name
    finally:
        os.chdir(before)
        os.environ["PATH"] = path
    assert (folder / name).read_bytes() == (again / name).read_bytes()
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (root,) = (folder / "unpacked").iterdir()
    assert name == f"{root.name}.tar.gz"
    return root


def test_it_has_the_metadata_and_a_project(sdist: Path) -> None:
    metadata = (sdist / "PKG-INFO").read_text()
    assert "Name: weirlab" in metadata and "Requires-Python: >=3.11" in metadata
    project = tomllib.loads((sdist / "pyproject.toml").read_text())
    maturin = project["tool"]["maturin"]
    for key in ("manifest-path", "python-source"):
        assert (sdist / maturin[key]).exists(), key
    (folder,) = project["build-system"]["backend-path"]
    assert (sdist / folder / "build_backend.py").exists()
    assert (sdist / project["project"]["readme"]).exists()


def test_it_has_all_sources_and_nothing_that_was_built(sdist: Path) -> None:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no clone")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "crates", "python/weirlab"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    known = {name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()}
    packed = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    assert known <= packed
    assert not [name for name in packed if name.endswith((".so", ".pyc")) or "target/" in name]
    assert os.access(sdist / "scripts/features", os.X_OK)


def test_it_has_every_file_that_the_sources_include(sdist: Path) -> None:
    included = re.compile(r'\binclude(?:_str|_bytes)?!\(\s*"([^"]+)"')
    missing = [
        f"{source.relative_to(sdist)}: {name}"
        for source in sdist.glob("crates/*/src/**/*.rs")
        for name in included.findall(source.read_text(encoding="utf-8"))
        if not (source.parent / name).exists()
    ]
    assert not missing


def test_cargo_finds_the_package_and_the_command(sdist: Path) -> None:
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed")
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version=1"],
        cwd=sdist,
        stdout=subprocess.PIPE,
        check=True,
    )
    packages = {package["name"]: package for package in json.loads(done.stdout)["packages"]}
    assert {"weir-cli", "weir-python"} <= packages.keys()
    # Cargo does not build a package if the file of a target is missing.
    targets = [target for package in packages.values() for target in package["targets"]]
    assert all(Path(target["src_path"]).exists() for target in targets)
