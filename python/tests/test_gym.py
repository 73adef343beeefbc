"""Environments of Gymnasium."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl
from conftest import ROOT

gymnasium = pytest.importorskip("gymnasium")
np = pytest.importorskip("numpy")
import weirlab.gym  # noqa: E402

NAMES = ["CongestionControl", "Aqm", "Scheduler"]


def make(name: str, **words: Any) -> Any:
    return gymnasium.make(f"weirlab/{name}-v0", **words)


@pytest.mark.parametrize("name", NAMES)
def test_the_check_of_gymnasium_passes(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(make(name).unwrapped, skip_render_check=True)


def play(env: Any, seed: int, steps: int = 100) -> tuple[list[Any], list[float]]:
    source = np.random.default_rng(5)
    observations, rewards = [env.reset(seed=seed)[0].tolist()], []
    for _ in range(steps):
        space = env.action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            action: Any = int(source.integers(space.n))
        else:
            action = source.uniform(space.low, space.high * 0.2)
        observation, reward, terminated, truncated, info = env.step(action)
        assert not terminated and not truncated and observation in env.observation_space
        observations.append(observation.tolist())
        rewards.append(reward)
    return observations, rewards


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_episode(name: str) -> None:
    env, other = make(name), make(name)
    first = play(env, 3)
    assert play(other, 3) == first
    assert play(env, 3) == first
    if name != "CongestionControl":
        # The only flow of CongestionControl draws no random numbers.
        assert play(env, 4) != first
    # The next episode, without a seed, is determined by the seed of the first.
    env.reset(seed=3)
    other.reset(seed=3)
    assert env.reset()[0].tolist() == other.reset()[0].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_episodes_end(name: str) -> None:
    env = make(name, set={"duration": "1100ms"}, interval="40ms")
    env.reset(seed=1)
    action = 0 if name == "Scheduler" else [0.0]
    for _ in range(100):
        _, _, terminated, truncated, info = env.step(action)
        if truncated:
            break
    assert truncated and not terminated
    assert info["time_s"] == 1.1
    env.close()


@pytest.mark.parametrize("name", NAMES)
def test_environments_are_vectorised(name: str) -> None:
    envs = gymnasium.make_vec(f"weirlab/{name}-v0", num_envs=8)
    observations, _ = envs.reset(seed=1)
    actions = [0] * 8 if name == "Scheduler" else np.zeros((8, 1), np.float32)
    for _ in range(20):
        observations, rewards, *_ = envs.step(actions)
    assert observations.shape == (8, *envs.single_observation_space.shape)
    assert rewards.shape == (8,)
    one = make(name)
    # Environment 0 of the vector has the seed itself.
    one.reset(seed=1)
    for _ in range(20):
        observation, *_ = one.step(0 if name == "Scheduler" else [0.0])
    assert observations[0].tolist() == observation.tolist()
    envs.close()


def test_actions_have_their_effect() -> None:
    env = make("CongestionControl")
    env.reset(seed=1)
    for _ in range(8):
        info = env.step([1.0])[4]
    assert info["window_bytes"] > 1e6 and info["lost_bytes"] > 0
    for _ in range(30):
        info = env.step([-1.0])[4]
    assert info["window_bytes"] == 2896
    aqm = make("Aqm")
    aqm.reset(seed=1)
    for _ in range(100):
        wait = aqm.step([0.0])[4]["wait_s"]
    assert wait > 0.05
    for _ in range(100):
        info = aqm.step([0.2])[4]
    assert info["wait_s"] < 0.005
    scheduler = make("Scheduler", set={"traffic.*.rate": "5M"})
    totals = []
    for first in (0, 2):
        scheduler.reset(seed=1)
        total = np.zeros(3)
        for _ in range(100):
            info = scheduler.step(first)[4]
            total += (info["wait_s"][0], info["left"][0], info["left"][2])
        totals.append(total)
    assert totals[0][0] < totals[1][0]
    assert totals[0][1] > totals[1][1] and totals[0][2] < totals[1][2]


def test_a_scenario_needs_an_agent() -> None:
    net = wl.Scenario(duration=1).host("a", "b").link("a", "b", "1M/5ms")
    env = make("Aqm", scenario=net)
    with pytest.raises(ValueError, match="uses `gym.agent`"):
        env.reset(seed=1)
    with pytest.raises(wl.ScenarioError, match="without a sweep"):
        make("Aqm", scenario=net.sweep("seed", [1, 2]))
    with pytest.raises(ValueError, match="only in environments"):
        wl.simulate(wl.gym.AqmEnv.default_scenario())
    with pytest.raises(RuntimeError, match="before its first step"):
        make("Aqm").unwrapped.step([0.0])
    for interval in ("0ms", -1, "soon", float("nan")):
        with pytest.raises(ValueError):
            make("Aqm", interval=interval)


def interrupted(work: Callable[[], object]) -> None:
    """Checks that a signal ends `work`, which would take hours."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_an_interruption_ends_a_step_and_a_warm_up() -> None:
    endless = (
        wl.Scenario("endless", duration=10_000_000)
        .host("a", "b")
        .link("a", "b", "bw 1Gbit/s delay 1ms", aqm="gym.agent")
        .traffic("cbr", "a", "b", rate="900Mbit/s", size="100B")
        .measure(interval=100)
    )
    env = make("Aqm", scenario=endless, interval=1_000_000).unwrapped
    env.reset(seed=1)
    interrupted(lambda: env.step([0.0]))
    # The interrupted step has advanced the simulation, and the next step continues there.
    begun = env._simulation.now_ns
    assert 0 < begun < 10**15
    interrupted(lambda: env.step([0.0]))
    assert env._simulation.now_ns > begun

    env = make("Aqm", scenario=endless, set={"warmup": "1000000s"}).unwrapped
    interrupted(lambda: env.reset(seed=1))
    with pytest.raises(RuntimeError, match="before its first step"):
        env.step([0.0])


def test_environments_run_in_threads() -> None:
    expected = play(make("Aqm"), 1, 50)
    found: list[Any] = []

    def work() -> None:
        env = make("Aqm")
        found.append(play(env, 1, 50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8
    gc.collect()


def test_the_random_search_beats_the_baseline(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/python/random_search.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert float(rows["found policy"]) > float(rows["no AQM"])
