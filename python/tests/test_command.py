"""The rig, conformance cases and published experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

import weirlab as wl
from conftest import ROOT

CASES = ROOT / "crates/weir-core/tests/conformance"


def test_the_rig_measures_service() -> None:
    found = wl.rig(["fifo", "scfq"], flows="8:w1,8:w3", metric=["wfi"], pairs=5000)
    assert [run["alg"] for run in found.runs] == ["fifo", "scfq"]
    assert all(run["wfi"] for run in found.runs)


def test_the_rig_names_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="fifoo.*did you mean.*fifo|fifoo.*allowed"):
        wl.rig("fifoo")
    with pytest.raises(ValueError, match="flows"):
        wl.rig("fifo", flows="5:w0")
    with pytest.raises(ValueError, match="algorithms: at least one"):
        wl.rig([])
    with pytest.raises(TypeError, match="algorithms"):
        wl.rig([5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="seed: -1 is negative"):
        wl.rig("fifo", seed=-1)
    with pytest.raises(TypeError, match="batch"):
        wl.rig("fifo", batch=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", sorted(CASES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_case_passes(path: Path) -> None:
    result = wl.case(path)
    assert result.passed, [item for item in result.expectations if not item.passed]


def test_a_case_that_fails_says_what_was_found() -> None:
    text = (CASES / "headdrop-burst.toml").read_text()
    result = wl.case(text.replace("delivered = 4", "delivered = 5"))
    failed = [item for item in result.expectations if not item.passed]
    assert not result.passed
    assert [(item.name, item.expected, item.found) for item in failed] == [
        ("delivered of flow 2", "5", "4")
    ]
    assert text.splitlines()[failed[0].line - 1].startswith("delivered")


def test_a_wrong_case_names_the_line(tmp_path: Path) -> None:
    text = (CASES / "headdrop-burst.toml").read_text()
    with pytest.raises(ValueError, match="aqmm"):
        wl.case(text.replace("aqm =", "aqmm ="))
    with pytest.raises(FileNotFoundError):
        wl.case(tmp_path / "nothing.toml")
    with pytest.raises(TypeError):
        wl.case(5)  # type: ignore[arg-type]


def test_a_reproduction_has_verdicts(tmp_path: Path) -> None:
    made = wl.reproduce("DCF-anomaly", quick=True, out=tmp_path)
    assert made.claims and set(made.verdicts.values()) <= {"holds", "differs", "cannot_be_judged"}
    assert all((claim.holds is True) == (claim.verdict == "holds") for claim in made.claims)
    assert all(claim.provenance for claim in made.claims)
    assert (tmp_path / "index.html").exists()


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no experiment `s11`: allowed are .*s10"):
        wl.reproduce("s11")
    for name in ("", "all", "--all"):
        with pytest.raises(ValueError):
            wl.reproduce(name)


def test_a_failure_of_the_command_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIRLAB_COMMAND", "/bin/false")
    with pytest.raises(wl.CommandError, match="status 1") as caught:
        wl.rig("fifo")
    assert caught.value.status == 1
