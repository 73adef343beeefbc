"""The build backend: builds the command `weir` for the package, then the package with maturin.

The environment variable WEIRLAB_PROFILE is the cargo profile of both; `release` by default.
WEIRLAB_COMMAND is the path of a command `weir`, and WEIRLAB_LIBRARY that of a compiled library, to
use in place of a new one. If both are set, nothing is compiled.
"""

from __future__ import annotations

import functools
import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import maturin
from maturin import get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = [
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

Settings: TypeAlias = dict[str, Any] | None

PACKAGE = Path(__file__).parent
WORKSPACE = PACKAGE.parent
COMMANDS = PACKAGE / "weirlab.data/scripts"
# The contents of a source distribution.
SOURCES = [".cargo", "Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "bench/load"]
SOURCES += ["crates", "examples/convert", "experiments", "scripts/features"]
SOURCES += ["python/README.md", "python/build_backend.py"]
SOURCES += ["python/pyproject.toml", "python/weirlab"]
BUILT_SUFFIXES = {".so", ".pyc"}
BUILD_DIRECTORIES = {"target", "__pycache__"}


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel."""
    profile = os.environ.get("WEIRLAB_PROFILE", "release")
    add_command(profile)
    if library := os.environ.get("WEIRLAB_LIBRARY"):
        return pack_wheel(Path(library), Path(wheel_directory))
    settings = {"build-args": f"--profile={profile}", **(config_settings or {})}
    name: str = maturin.build_wheel(wheel_directory, settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Builds the source distribution: the sources of the package and of the command, laid out as in
    the repository, so that this backend builds a wheel from them. Equal sources give equal bytes.

    maturin would leave out the command, whose crates the package's own crate does not use.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, prepare_metadata_for_build_wheel(scratch, config_settings))
        metadata = (folder / "METADATA").read_bytes()
    stem = folder.name.removesuffix(".dist-info")
    name = f"{stem}.tar.gz"
    with (
        open(Path(sdist_directory, name), "wb") as file,
        # By default gzip writes a time and a name, so equal sources would give different bytes.
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        add = functools.partial(add_file, archive)
        add(f"{stem}/PKG-INFO", metadata)
        add(f"{stem}/pyproject.toml", project_of_sdist().encode())
        for path in sorted(sources()):
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            add(f"{stem}/{path.relative_to(WORKSPACE)}", path.read_bytes(), mode)
    return name


def sources() -> Iterator[Path]:
    """The files of the repository that a build of the package and of the command reads."""
    for name in SOURCES:
        start = WORKSPACE / name
        for path in [start] if start.is_file() else start.rglob("*"):
            parts = path.relative_to(WORKSPACE).parts
            is_built = path.suffix in BUILT_SUFFIXES or not BUILD_DIRECTORIES.isdisjoint(parts)
            if path.is_file() and not is_built:
                yield path


def project_of_sdist() -> str:
    """The pyproject.toml of the source distribution. It is in the root, above `python`."""
    text = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    for old, new in (
        ('backend-path = ["."]', 'backend-path = ["python"]'),
        ('readme = "README.md"', 'readme = "python/README.md"'),
        ('manifest-path = "../crates/', 'manifest-path = "crates/'),
        ('python-source = "."', 'python-source = "python"'),
        ('data = "weirlab.data"', 'data = "python/weirlab.data"'),
    ):
        if text.count(old) != 1:
            raise RuntimeError(f"pyproject.toml: {old} is expected once")
        text = text.replace(old, new)
    return text


def add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Adds a file to an archive, without its owner and its time."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Writes the metadata of the wheel."""
    # maturin refuses a package without its directory of commands.
    COMMANDS.mkdir(parents=True, exist_ok=True)
    name: str = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    return name


def pack_wheel(library: Path, out: Path) -> str:
    """Makes a wheel with a library that is compiled already; returns its file name."""
    with tempfile.TemporaryDirectory(prefix="weirlab-") as scratch:
        content = Path(scratch)
        metadata: str = maturin.prepare_metadata_for_build_wheel(scratch)
        data = content / metadata.replace(".dist-info", ".data/scripts")
        shutil.copytree(COMMANDS, data)
        shutil.copytree(
            PACKAGE / "weirlab",
            content / "weirlab",
            ignore=shutil.ignore_patterns("__pycache__", "*.so"),
        )
        shutil.copy2(library, content / "weirlab/_native.abi3.so")
        command = [sys.executable, "-m", "wheel", "pack", scratch, "--dest-dir", os.fspath(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime).name


def add_command(profile: str) -> None:
    """Copies `weir` to where maturin looks for a package's commands. Builds it unless
    WEIRLAB_COMMAND is set."""
    COMMANDS.mkdir(parents=True, exist_ok=True)
    if given := os.environ.get("WEIRLAB_COMMAND"):
        shutil.copy2(given, COMMANDS / "weir")
        return
    features = subprocess.run(
        [WORKSPACE / "scripts/features"], check=True, stdout=subprocess.PIPE, text=True
    )
    command = ["cargo", "build", "--locked", f"--profile={profile}", "-p", "weir-cli"]
    subprocess.run([*command, *features.stdout.split()], cwd=WORKSPACE, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", WORKSPACE / "target"))
    built = target / ("debug" if profile == "dev" else profile) / "weir"
    shutil.copy2(built, COMMANDS / "weir")
