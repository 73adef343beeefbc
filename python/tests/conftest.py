"""Fixtures of the tests, which run against the installed package."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import weirlab as wl

ROOT = Path(__file__).resolve().parents[2]

# A shell starts background jobs with SIGINT ignored, and programs of the tests would inherit that.
# The kernel resets a signal with a handler to the default in a new program.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def two_hosts() -> Path:
    """A scenario with five flows through one bottleneck."""
    return ROOT / "experiments/two-hosts.toml"


@pytest.fixture
def short() -> dict[str, wl.Value]:
    """Changed keys that make `two_hosts` short."""
    return {"duration": "1500ms", "warmup": "500ms"}


@pytest.fixture
def endless() -> wl.Scenario:
    """A scenario that would run for hours."""
    return (
        wl.Scenario("endless", duration=10_000_000)
        .host("a", "b")
        .link("a", "b", "bw 1Gbit/s delay 1ms")
        .traffic("cbr", "a", "b", rate="900Mbit/s", size="100B")
        .measure(interval=100)
    )
