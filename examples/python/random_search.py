"""Searches at random for an AQM: a probability of drops that follows the delay of the queue.

  python examples/python/random_search.py        (needs weirlab[gym])

The policy is `gain * (delay - offset)`, limited to 0 … 0.2, where the delay is the time that the
link needs for the waiting bytes, in units of 5 ms. The two numbers are drawn forty times, each pair
is tried in one episode, and the best pair is then compared with an empty policy (no AQM) in ten
other episodes. The printed values are mean rewards of a step.
"""

from __future__ import annotations

import gymnasium
import numpy as np

import weirlab.gym

# The steps of an episode, each of 20 ms: the 6 s after the warm-up.
STEPS = 300


def reward(env: gymnasium.Env, gain: float, offset: float, seed: int) -> float:
    """The mean reward of a policy in one episode."""
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for _ in range(STEPS):
        probability = min(max(gain * (float(observation[1]) - offset), 0.0), 0.2)
        observation, step_reward, _, truncated, _ = env.step([probability])
        total += float(step_reward)
        if truncated:
            break
    return total / STEPS


def main() -> None:
    assert weirlab.gym  # its import registers the environment
    env = gymnasium.make("weirlab/Aqm-v0", set={"duration": "7s"})
    source = np.random.default_rng(1)
    tried = []
    for _ in range(40):
        gain, offset = 10 ** source.uniform(-4, -1), source.uniform(0, 3)
        tried.append((reward(env, gain, offset, seed=1), gain, offset))
    _, gain, offset = max(tried)
    seeds = range(100, 110)
    found = np.mean([reward(env, gain, offset, seed) for seed in seeds])
    baseline = np.mean([reward(env, 0.0, 0.0, seed) for seed in seeds])
    print(f"no AQM {baseline:.3f}")
    print(f"found policy {found:.3f}")


if __name__ == "__main__":
    main()
