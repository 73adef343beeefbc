"""Gymnasium environments: an agent is a congestion control, an AQM or a scheduler of a simulation.

``pip install weirlab[gym]``, then ``import weirlab.gym`` registers the environments
``weirlab/CongestionControl-v0``, ``weirlab/Aqm-v0`` and ``weirlab/Scheduler-v0``. The simulation
runs in the process: no sockets, no second process, any number of environments. A step simulates an
interval of time; the same seed and actions give the same observations on every machine.

>>> import gymnasium
>>> import weirlab.gym
>>> env = gymnasium.make("weirlab/Aqm-v0")
>>> observation, info = env.reset(seed=1)
>>> observation, reward, terminated, truncated, info = env.step([0.01])
>>> round(info["time_s"], 3)
1.02
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from . import _native
from ._scenario import Scenario, ScenarioLike, Time, Value, source
from ._toml import time

__all__ = ["AqmEnv", "CongestionControlEnv", "SchedulerEnv"]

Observation = NDArray[np.float32]

_HIGH = 100.0
"""Larger values in an observation become this value."""


class _Env(gymnasium.Env[Observation, Any]):
    """The part that the environments share."""

    metadata: dict[str, Any] = {"render_modes": []}
    _first: ClassVar[tuple[float, ...]] = ()
    """The action until the first step, also during the warm-up."""

    def __init__(
        self,
        scenario: ScenarioLike | None,
        interval: Time,
        set: Mapping[str, Value] | None,
        observations: int,
    ) -> None:
        chosen = self.default_scenario() if scenario is None else scenario
        self._simulation = _native.Environment(source(chosen, set))
        self._interval_ns = _nanoseconds(interval, "interval")
        self._rate_bps = float(self._simulation.rate_bps or 1e9)
        self.observation_space = spaces.Box(0.0, _HIGH, (observations,), np.float32)

    @staticmethod
    def default_scenario() -> Scenario:
        """The scenario that is simulated if the argument `scenario` is omitted."""
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode: runs the scenario from its start to the end of its warm-up. The same
        `seed` gives the same run. `options` is not used."""
        super().reset(seed=seed)
        run = int(self.np_random.integers(2**31))
        self._begin()
        seen = self._simulation.reset(run, self._first)
        return self._observe(seen), self._info(seen)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Simulates one interval with an action. Returns the observation, the reward, False (a run
        has no final state), whether the end of the scenario is reached, and the measured values."""
        seen, over = self._simulation.step(self._act(action), self._interval_ns)
        observation = self._observe(seen)
        return observation, self._reward(seen), False, over, self._info(seen)

    def close(self) -> None:
        """Frees the simulation."""
        self._simulation.close()

    def _begin(self) -> None:
        """Resets the state that depends on earlier actions."""

    def _act(self, action: Any) -> tuple[float, ...]:
        raise NotImplementedError

    def _observe(self, seen: list[float]) -> Observation:
        """The observation. `seen` has 7 values of the agent as a congestion control, then 10 as an
        AQM, then 7 for each priority as a scheduler."""
        raise NotImplementedError

    def _reward(self, seen: list[float]) -> float:
        raise NotImplementedError

    def _info(self, seen: list[float]) -> dict[str, Any]:
        return {"time_s": self._simulation.now_ns / 1e9}


class CongestionControlEnv(_Env):
    """``weirlab/CongestionControl-v0``: the agent sets the congestion window of a TCP sender.

    Action: ``Box(-1, 1, (1,))``. The window is multiplied by 2 to the power of the action; it is at
    least two segments.

    Observation: ``Box(0, 100, (5,))``, of the last interval: the mean round-trip time divided by
    the smallest one since the start, minus 1 (the queue); the delivery rate divided by the rate of
    the slowest link; the lost share of bytes; the window divided by the product of the slowest
    link's rate and the smallest round-trip time; bytes in flight divided by the window.

    Reward: delivery rate divided by the rate of the slowest link, minus `delay_weight` times the
    first observation, minus `loss_weight` times the lost share.

    Args:
        scenario: A scenario with a flow of ``cc="gym.agent"``. Its duration is the length of an
            episode; by default 20 s of one flow through 10 Mbit/s and 20 ms.
        interval: Simulated time of a step.
        set: Keys of the scenario to change, as in :func:`simulate`.
        delay_weight: Weight of the queue in the reward.
        loss_weight: Weight of losses in the reward.

    >>> import gymnasium
    >>> import weirlab.gym
    >>> env = gymnasium.make("weirlab/CongestionControl-v0", interval="50ms")
    >>> env.reset(seed=7)[0].shape
    (5,)
    """

    _first = (14_480.0,)

    def __init__(
        self,
        scenario: ScenarioLike | None = None,
        *,
        interval: Time = "40ms",
        set: Mapping[str, Value] | None = None,
        delay_weight: float = 0.5,
        loss_weight: float = 5.0,
    ) -> None:
        super().__init__(scenario, interval, set, 5)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._weights = (delay_weight, loss_weight)
        self._window = self._first[0]
        self._seen = (0.0, 0.0, 0.0)

    @staticmethod
    def default_scenario() -> Scenario:
        """A flow through a queue of 100 packets, 10 Mbit/s and 20 ms.

        >>> from weirlab.gym import CongestionControlEnv
        >>> CongestionControlEnv.default_scenario().to_dict()["duration"]
        '20s'
        """
        return (
            Scenario("congestion-control", duration=20)
            .host("a", "b")
            .link("a", "b", "bw 10Mbit/s delay 20ms queue 100", name="bottleneck")
            .traffic("tcp", "a", "b", name="agent", cc="gym.agent")
        )

    def _begin(self) -> None:
        self._window = self._first[0]

    def _act(self, action: Any) -> tuple[float, ...]:
        change = min(max(float(action[0]), -1.0), 1.0)
        self._window = min(max(self._window * 2.0**change, 2_896.0), 1e9)
        return (self._window,)

    def _observe(self, seen: list[float]) -> Observation:
        acked, lost, rtt, least, in_flight, window, _ = seen[:7]
        queue = max(rtt / least - 1.0, 0.0) if least and rtt else 0.0
        rate = acked * 8e9 / self._interval_ns / self._rate_bps
        share = lost / (acked + lost) if lost else 0.0
        product = self._rate_bps * least / 8e9
        self._seen = (rate, queue, share)
        values = (
            queue,
            rate,
            share,
            window / product if product else 0.0,
            in_flight / window if window else 0.0,
        )
        return np.minimum(np.array(values, np.float32), _HIGH)

    def _reward(self, seen: list[float]) -> float:
        rate, queue, share = self._seen
        delay_weight, loss_weight = self._weights
        return rate - delay_weight * queue - loss_weight * share

    def _info(self, seen: list[float]) -> dict[str, Any]:
        acked, lost, rtt, _, _, window, timeouts = seen[:7]
        return {
            **super()._info(seen),
            "acked_bytes": acked,
            "lost_bytes": lost,
            "rtt_s": rtt / 1e9,
            "window_bytes": window,
            "timeouts": timeouts,
        }


class AqmEnv(_Env):
    """``weirlab/Aqm-v0``: the agent sets the probability with which a queue drops packets, or marks
    them if they are ECN-capable.

    Action: ``Box(0, 1, (1,))``, the probability.

    Observation: ``Box(0, 100, (5,))``: the mean wait of the packets that left in the last interval,
    in units of `target`; the time that the slowest link of the scenario needs for the bytes that
    wait, in units of `target`; the bytes that left divided by those that this link can send; the
    share of arrivals that the agent dropped or marked; the probability.

    Reward: the third observation, at most 1, minus `delay_weight` times the part of the first one
    that is above 1.

    Args:
        scenario: A scenario with one queue of ``aqm gym.agent``. Its duration is the length of an
            episode; by default 20 s of four TCP flows through 10 Mbit/s and 20 ms.
        interval: Simulated time of a step.
        set: Keys of the scenario to change, as in :func:`simulate`.
        target: The longest mean wait that does not reduce the reward.
        delay_weight: Weight of the wait in the reward.

    >>> import gymnasium
    >>> import weirlab.gym
    >>> envs = gymnasium.make_vec("weirlab/Aqm-v0", num_envs=4)
    >>> envs.reset(seed=1)[0].shape
    (4, 5)
    """

    _first = (0.0,)

    def __init__(
        self,
        scenario: ScenarioLike | None = None,
        *,
        interval: Time = "20ms",
        set: Mapping[str, Value] | None = None,
        target: Time = "5ms",
        delay_weight: float = 0.1,
    ) -> None:
        super().__init__(scenario, interval, set, 5)
        self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self._target_ns = float(_nanoseconds(target, "target"))
        self._delay_weight = delay_weight
        self._probability = 0.0
        self._seen = (0.0, 0.0)

    @staticmethod
    def default_scenario() -> Scenario:
        """Four TCP flows through a queue of 200 packets, 10 Mbit/s and 20 ms.

        >>> from weirlab.gym import AqmEnv
        >>> AqmEnv.default_scenario().to_dict()["traffic"][0]["count"]
        4
        """
        return (
            Scenario("aqm", duration=20, warmup=1)
            .host("a", "b")
            .link(
                "a",
                "b",
                forward="bw 10Mbit/s delay 20ms queue 200 aqm gym.agent",
                back="bw 10Mbit/s delay 20ms",
                name="bottleneck",
            )
            .traffic("tcp", "a", "b", name="flow", count=4)
        )

    def _begin(self) -> None:
        self._probability = 0.0

    def _act(self, action: Any) -> tuple[float, ...]:
        self._probability = min(max(float(action[0]), 0.0), 1.0)
        return (self._probability,)

    def _observe(self, seen: list[float]) -> Observation:
        arrived, _, dropped, marked, _, left_bytes, wait, _, _, waiting = seen[7:17]
        used = left_bytes * 8e9 / self._interval_ns / self._rate_bps
        delay = wait / self._target_ns
        self._seen = (used, delay)
        values = (
            delay,
            waiting * 8e9 / self._rate_bps / self._target_ns,
            used,
            (dropped + marked) / arrived if arrived else 0.0,
            self._probability,
        )
        return np.minimum(np.array(values, np.float32), _HIGH)

    def _reward(self, seen: list[float]) -> float:
        used, delay = self._seen
        return min(used, 1.0) - self._delay_weight * max(delay - 1.0, 0.0)

    def _info(self, seen: list[float]) -> dict[str, Any]:
        arrived, full, dropped, marked, left, left_bytes, wait, longest, packets, _ = seen[7:17]
        return {
            **super()._info(seen),
            "arrived": arrived,
            "found_full": full,
            "dropped": dropped,
            "marked": marked,
            "left": left,
            "left_bytes": left_bytes,
            "wait_s": wait / 1e9,
            "longest_wait_s": longest / 1e9,
            "waiting": packets,
        }


class SchedulerEnv(_Env):
    """``weirlab/Scheduler-v0``: the agent chooses the class of traffic that a link serves first
    until the next step. The other classes follow in their order.

    Action: ``Discrete(classes)``.

    Observation: ``Box(0, 100, (4 * classes,))``; for each class the packets that wait, divided by
    10; the age of the first of them and the mean wait of those that left in the last interval, in
    units of 10 ms; the bytes that left divided by those that the slowest link of the scenario can
    send.

    Reward: minus the mean wait of the packets that left, in units of 10 ms, where the weight of a
    packet is that of its queue; 0 without such packets.

    Args:
        scenario: A scenario with a link of ``scheduler="gym.agent"``, whose queues have the
            priority 0, 1, …, which is the class in actions and observations. The duration of the
            scenario, warm-up included, is the length of an episode; by default 10 s of three
            classes that share 10 Mbit/s.
        interval: Simulated time of a step.
        set: Keys of the scenario to change, as in :func:`simulate`.
        classes: Number of classes.

    >>> import gymnasium
    >>> import weirlab.gym
    >>> env = gymnasium.make("weirlab/Scheduler-v0")
    >>> env.action_space
    Discrete(3)
    """

    _first = (0.0,)

    def __init__(
        self,
        scenario: ScenarioLike | None = None,
        *,
        interval: Time = "5ms",
        set: Mapping[str, Value] | None = None,
        classes: int = 3,
    ) -> None:
        super().__init__(scenario, interval, set, 4 * classes)
        self.action_space = spaces.Discrete(classes)
        self._classes = classes

    @staticmethod
    def default_scenario() -> Scenario:
        """Poisson traffic of three classes with the weights 1, 4 and 16 through 10 Mbit/s.

        >>> from weirlab.gym import SchedulerEnv
        >>> len(SchedulerEnv.default_scenario().to_dict()["traffic"])
        3
        """
        net = (
            Scenario("scheduler", duration=10, warmup="100ms")
            .host("a", "b")
            .link(
                "a",
                "b",
                "bw 10Mbit/s delay 1ms",
                name="bottleneck",
                scheduler="gym.agent",
                queues=[
                    "priority 0 weight 1 queue 200",
                    "priority 1 weight 4 queue 200",
                    "priority 2 weight 16 queue 200",
                ],
            )
        )
        for number, rate in enumerate(["5Mbit/s", "3Mbit/s", "1Mbit/s"]):
            name = f"c{number}"
            net.traffic("poisson", "a", "b", name=name, rate=rate, size="1000B", class_=number)
        return net

    def _act(self, action: Any) -> tuple[float, ...]:
        return (float(action),)

    def _rows(self, seen: list[float]) -> list[list[float]]:
        """The agent's values for each class."""
        rows = [seen[at : at + 7] for at in range(17, len(seen), 7)][: self._classes]
        return rows + [[0.0] * 7] * (self._classes - len(rows))

    def _observe(self, seen: list[float]) -> Observation:
        values: list[float] = []
        can_send = self._rate_bps * self._interval_ns / 8e9
        for _, packets, _, age, _, left_bytes, wait in self._rows(seen):
            values += (packets / 10, age / 1e7, wait / 1e7, left_bytes / can_send)
        return np.minimum(np.array(values, np.float32), _HIGH)

    def _reward(self, seen: list[float]) -> float:
        total, waited = 0.0, 0.0
        for weight, _, _, _, left, _, wait in self._rows(seen):
            total += weight * left
            waited += weight * left * wait
        return -waited / total / 1e7 if total else 0.0

    def _info(self, seen: list[float]) -> dict[str, Any]:
        rows = self._rows(seen)
        return {
            **super()._info(seen),
            "waiting": [row[1] for row in rows],
            "left": [row[4] for row in rows],
            "wait_s": [row[6] / 1e9 for row in rows],
        }


def _nanoseconds(content: Time, name: str) -> int:
    """The value of the argument `name`, a time above 0, in ns."""
    words = time(content, name)
    for unit, ns in (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9)):
        if words.endswith(unit):
            try:
                number = float(words.removesuffix(unit)) * ns
            except ValueError:
                break
            if 1 <= number < 2**62:
                return round(number)
            break
    raise ValueError(f"{name}: `{words}` is no time above 0; for example `20ms`")


for _name in ("CongestionControl", "Aqm", "Scheduler"):
    gymnasium.register(  # pyright: ignore[reportUnknownMemberType]
        f"weirlab/{_name}-v0", entry_point=f"weirlab.gym:{_name}Env"
    )
