"""Runs Weir, for the comparisons of this directory."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
WEIR = HERE.parent.parent / "target/release/weir"


def run_weir(weir: Path, command: str, arguments: list[str]) -> dict:
    """Runs a command of Weir. Returns the content of its `summary.json`."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "one"
        subprocess.run(
            [weir.resolve(), command, *arguments, "--quiet", "--out", out],
            cwd=HERE,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads((out / "summary.json").read_text())
