"""Arguments of wrong types, and numbers that are not allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl


def network(rate: wl.Value) -> wl.Scenario:
    return wl.Scenario(duration=1).traffic("cbr", "a", "b", rate=rate)


GOOD = "duration = '1s'\n[[node]]\nname = 'a'\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"scenario": 5},
        {"scenario": None},
        {"scenario": b"duration"},
        {"scenario": ["a"]},
        {"scenario": {1: "x"}},
        {"scenario": {"duration": object()}},
        {"scenario": {"node": [{"name": {1, 2}}]}},
        {"seeds": "3"},
        {"seeds": 1.5},
        {"seeds": True},
        {"seeds": [1, "2"]},
        {"set": ["a"]},
        {"set": "duration=1s"},
        {"set": {1: "x"}},
        {"set": {"duration": object()}},
        {"set": {"duration": None}},
        {"threads": "2"},
        {"threads": 2.0},
        {"trace": "yes"},
        {"progress": "yes"},
        {"progress": 1},
    ],
)
def test_wrong_types_are_type_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as caught:
        wl.simulate(**{"scenario": GOOD, **arguments})
    # The message names the argument or the key.
    assert (
        next(iter(arguments)) in str(caught.value)
        or "duration" in str(caught.value)
        or ("node" in str(caught.value))
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"seeds": 0},
        {"seeds": -1},
        {"seeds": []},
        {"seeds": [1, 1]},
        {"seeds": [-1]},
        {"seeds": [2**63]},
        {"seeds": 10**9},
        {"set": {"traffic.x.rate": math.nan}},
        {"set": {"duration": math.inf}},
        {"set": {"duration": "-1s"}},
        {"set": {"duration": "nan"}},
        {"set": {"nothing.here": 1}},
        {"set": {"": 1}},
        {"threads": 0},
        {"threads": 5000},
        {"threads": -1},
        {"scenario": {"duration": math.nan}},
        {"scenario": {"duration": -1}},
        {"scenario": {}},
        {"scenario": "\n"},
        {"scenario": "this is\nno TOML ["},
        {"scenario": "duration = '1s'\nname = '\ud800'\n"},
    ],
)
def test_wrong_values_are_value_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        wl.simulate(**{"scenario": GOOD, **arguments})


@pytest.mark.parametrize(
    "build",
    [
        lambda: wl.Scenario(duration=math.nan),
        lambda: wl.Scenario(duration=math.inf),
        lambda: wl.Scenario(duration=-1),
        lambda: wl.Scenario(duration=1, warmup=-0.5),
        lambda: wl.Scenario(duration=1, seed=-1),
        lambda: wl.Scenario(duration=1).measure(interval=math.nan),
        lambda: wl.Scenario(duration=1).traffic("cbr", "a", "b", rate=math.nan),
        lambda: wl.Scenario(duration=1).sweep("seed", [math.nan]),
    ],
)
def test_numbers_are_checked_where_they_are_given(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: wl.Scenario(duration=None),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=True),
        lambda: wl.Scenario(duration=[1]),  # type: ignore[arg-type]
        lambda: wl.Scenario(5, duration=1),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1, runs=1.5),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).host(5),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).link("a", None),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).link("a", "b", 5),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).link("a", "b", queues="weight 1"),
        lambda: wl.Scenario(duration=1).traffic("cbr", "a", ["b", 5]),  # type: ignore[list-item]
        lambda: network(rate=object()),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).measure(trace="yes"),  # type: ignore[arg-type]
        lambda: wl.Scenario(duration=1).sweep("seed", "12"),
        lambda: wl.Scenario(duration=1).sweep("seed", [object()]),  # type: ignore[list-item]
    ],
)
def test_types_are_checked_where_they_are_given(build: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        build()


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        wl.simulate(tmp_path / "nothing.toml")
    with pytest.raises(IsADirectoryError):
        wl.simulate(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError):
        wl.simulate(binary)


def test_an_unknown_key_is_refused_with_a_suggestion() -> None:
    with pytest.raises(wl.ScenarioError) as caught:
        wl.simulate({"duration": "1s", "nod": [{"name": "a"}]})
    assert caught.value.suggestion == "node"


def test_a_deep_structure_is_no_crash() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises((RecursionError, ValueError)):
        wl.simulate({"duration": "1s", "node": deep})
    with pytest.raises(ValueError):
        wl.simulate("duration = '1s'\nnode = " + "[" * 100_000 + "]" * 100_000)


def test_columns_that_do_not_exist_are_key_errors(two_hosts: Path) -> None:
    flows = wl.simulate(two_hosts, set={"duration": "1100ms"}).flows
    with pytest.raises(KeyError, match="nothing"):
        flows["nothing"]
    with pytest.raises(KeyError, match="Did you mean goodput_bytes or goodput_bps"):
        flows["goodput"]
    with pytest.raises(KeyError, match="Did you mean delay_max_ns"):
        flows["delay_max"]
    with pytest.raises(TypeError):
        flows[0]  # type: ignore[index]
    with pytest.raises(IndexError):
        flows.rows("name", 3, 1000)
    with pytest.raises(OverflowError):
        flows.rows("name", -1, 2)
