"""The build backend: builds the command `weir` for the package, then the package with maturin.

The environment variable WEIRLAB_PROFILE is the cargo profile of both; `release` by default.
WEIRLAB_COMMAND is the path of a command `weir` to use in place of a new one, and WEIRLAB_LIBRARY
that of the compiled library; with it, nothing is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
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
    """Builds the source distribution."""
    COMMANDS.mkdir(parents=True, exist_ok=True)
    name: str = maturin.build_sdist(sdist_directory, config_settings)
    return name


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Writes the metadata of the wheel."""
    # maturin refuses a package whose directory of commands is missing.
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
    """Builds `weir` and copies it to where maturin looks for a package's commands."""
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
