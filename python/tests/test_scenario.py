"""Scenarios that are built in Python."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import weirlab as wl


def network(duration: wl.Time = "1s", warmup: wl.Time = 0) -> wl.Scenario:
    return (
        wl.Scenario("net", duration=duration, warmup=warmup)
        .host("a", "b")
        .router("r")
        .link("a", "r", "bw 100Mbit/s delay 1ms")
        .link("r", "b", "bw 10Mbit/s delay 5ms", name="last", scheduler="drr")
        .traffic("poisson", "a", "b", name="noise", rate="8Mbit/s", size="1200B")
    )


def test_a_built_scenario_runs() -> None:
    results = wl.simulate(network(), seeds=3)
    assert results.flows["name"] == ["noise"] * 3
    assert {"last", "last.back", "a>r", "r>a"} == {*results.links["name"]}
    assert results.name == "net"


def test_times_are_texts_seconds_or_differences() -> None:
    for time in ("1s", 1, 1.0, timedelta(seconds=1)):
        assert network(duration=time).to_dict()["duration"] == "1s"
    for time, text in ((0.02, "20ms"), (1e-6, "1us"), (1.5e-9, "2ns"), (0, "0s")):
        assert network(warmup=time).to_dict()["warmup"] == text


def test_settings_that_are_times_may_be_seconds_too() -> None:
    scenario = network().traffic(
        "cbr", "a", "b", name="cbr", rate="1Mbit/s", start=0.25, stop=timedelta(seconds=0.5)
    )
    scenario.switch("s", ports=8, egress_time=1e-5)
    assert scenario.check().diagnostics == ()
    entry, switch = scenario.to_dict()["traffic"][-1], scenario.to_dict()["node"][-1]
    assert entry["start"] == "250ms"
    assert (switch["ports"], switch["egress_time"]) == (8, "10us")
    sent = wl.simulate(scenario).series.to_pylist()
    times = [row["t_ns"] for row in sent if row["name"] == "cbr" and row["packets_in"]]
    assert times and min(times) >= 200_000_000 and max(times) < 500_000_000
    with pytest.raises(ValueError, match="start"):
        network().traffic("cbr", "a", "b", start=-1)


def test_the_documentation_of_traffic_names_every_kind() -> None:
    kinds = wl.schema()["$defs"]["TrafficEntry"]["oneOf"]
    named = wl.Scenario.traffic.__doc__ or ""
    for kind in kinds:
        assert f"``{kind['properties']['kind']['const']}``" in named


def test_the_written_text_is_read_as_the_same_scenario(tmp_path: Path) -> None:
    scenario = (
        network()
        .host('ü "quoted" \\ \x7f')
        .route("a", "b", ["r"])
        .measure(interval="10ms", trace=True, inversions=False)
        .sweep("traffic.noise.rate", ["1Mbit/s", "2Mbit/s"])
        .link("a", "b", queues=["weight 3", "weight 1"], scheduler="drr")
    )
    import tomllib

    assert tomllib.loads(scenario.to_toml()) == scenario.to_dict()
    valid = network().sweep("traffic.noise.rate", ["1Mbit/s", "2Mbit/s"]).measure(trace=True)
    file = tmp_path / "net.toml"
    file.write_text(valid.to_toml())
    assert wl.check_scenario(file) == wl.check_scenario(valid) == valid.check()


def test_queues_have_the_classes_of_their_places() -> None:
    scenario = (
        wl.Scenario(duration="1s")
        .host("a", "b")
        .link("a", "b", "bw 1Mbit/s", scheduler="drr", queues=["weight 3", "weight 1"])
        .traffic("cbr", "a", "b", name="x", rate="2Mbit/s", size="500B")
        .traffic("cbr", "a", "b", name="y", rate="2Mbit/s", size="500B", class_=1)
    )
    x, y = wl.simulate(scenario).flows["goodput_bps"]
    assert 2.5 < x / y < 3.5


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text("time,rate\n0,1Mbit/s\n")
    (tmp_path / "mahimahi").write_text("1\n2\n")
    scenario = wl.Scenario(duration="1s", directory=tmp_path).host("a", "b")
    scenario.link("a", "b", "trace mahimahi delay 1ms")
    assert scenario.check().diagnostics == ()
    with pytest.raises(wl.ScenarioError, match="mahimahi"):
        wl.Scenario(duration="1s").host("a", "b").link("a", "b", "trace mahimahi").check()


def test_an_error_has_line_place_and_suggestion() -> None:
    scenario = network().link("a", "b", "bw 10Mbit/s dealy 5ms")
    with pytest.raises(wl.ScenarioError) as caught:
        scenario.check()
    error = caught.value
    first = error.diagnostics[0]
    assert (error.suggestion, first.code, first.severity) == ("delay", "unknown-keyword", "error")
    assert scenario.to_toml().splitlines()[first.line - 1] == first.text
    assert first.text[first.column - 1 : first.end_column - 1] == "dealy"
    assert "did you mean `delay`?" in str(error)
    assert isinstance(error, ValueError)


def test_all_errors_are_reported_at_once() -> None:
    scenario = network().link("a", "nowhere", "bw 10Mbit/s dealy 5ms").traffic("cbr", "a", "c")
    with pytest.raises(wl.ScenarioError) as caught:
        scenario.check()
    assert len(caught.value.diagnostics) >= 2


def test_warnings_are_python_warnings() -> None:
    scenario = network().link("a", "b", "bw 10Mbit/s queue 100B")
    with pytest.warns(wl.ScenarioWarning) as caught:
        wl.simulate(scenario)
    assert caught[0].filename == __file__
    assert [d.severity for d in scenario.check().diagnostics] == ["warning"]


def test_changed_keys_are_checked() -> None:
    with pytest.raises(wl.ScenarioError) as caught:
        wl.simulate(network(), set={"traffic.nosie.rate": "1M"})
    assert (caught.value.suggestion, caught.value.line) == ("noise", None)
    with pytest.raises(wl.ScenarioError) as caught:
        wl.simulate(network(), set={"link.last.spec.delay": "5 apples"})
    assert caught.value.diagnostics[0].file == "the arguments" or caught.value.line is not None


def test_changed_keys_take_numbers_times_and_lists() -> None:
    scenario = network()
    changes: dict[str, wl.Value] = {
        "duration": timedelta(milliseconds=300),
        "traffic.noise.count": 2,
        "measure.trace": True,
        "seed": 5,
    }
    results = wl.simulate(scenario, set=changes)
    assert results.flows["name"] == ["noise.1", "noise.2"]
    assert results.seeds == (5,)
    assert len(results.trace) > 0


def test_programs_are_refused() -> None:
    text = network().to_toml() + '\n[[node]]\nname = "web"\ncommand = ["true"]\n'
    with pytest.raises(wl.ScenarioError, match="`web` is or runs a program"):
        wl.simulate(text)


def test_an_error_survives_pickling() -> None:
    import pickle

    with pytest.raises(wl.ScenarioError) as caught:
        wl.simulate("durtion = '1s'\n")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.diagnostics) == (str(caught.value), caught.value.diagnostics)
