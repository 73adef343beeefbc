"""Arrivals and requests of the cases: groups of times with equal properties.

The script and the file of a case come from the same groups. A group is a dictionary: `at`, a time
or a list of times in ns, `every` and `count` as in a case file, and for arrivals `bytes` and
optionally `flow`, `ecn`, `dscp`, `host` and `ack`.
"""

import random

US, MS, S = 1_000, 1_000_000, 1_000_000_000


def steady(count, every, at=0, size=1500, **more):
    """Packets of equal length at equal intervals."""
    return dict(at=at, every=every, count=count, bytes=size, **more)


def burst(count, at=0, size=1500, **more):
    """Packets that arrive together."""
    return dict(at=at, count=count, bytes=size, **more)


def drain(count, every, at=None):
    """Requests at equal intervals, the first at `at`, by default after one interval."""
    return [dict(at=every if at is None else at, every=every, count=count)]


def poisson(seed, phases, sizes=(1500,), ecn=("not-ect",), at=1 * US, **more):
    """Arrivals at random times, whole microseconds.

    Phases are pairs of a duration and a mean interval.
    """
    draw = random.Random(seed)
    groups, now = {}, at
    for duration, gap in phases:
        end = now + duration
        while True:
            now += max(1, round(draw.expovariate(1 / gap) / US)) * US
            if now >= end:
                now = end
                break
            groups.setdefault((draw.choice(sizes), draw.choice(ecn)), []).append(now)
    groups = sorted(groups.items())
    return [dict(at=times, bytes=size, ecn=field, **more) for (size, field), times in groups]


def uneven(seed, until, gap, spread=0.5):
    """Requests at random intervals from gap·(1 - spread) to gap·(1 + spread), whole microseconds."""
    draw, now, times = random.Random(seed), 0, []
    while True:
        now += round(gap * (1 - spread + 2 * spread * draw.random()) / US) * US
        if now > until:
            return [dict(at=times)]
        times.append(now)


def times(group):
    """All times of a group, in the order in which a case file gives them."""
    starts = group["at"] if isinstance(group["at"], list) else [group["at"]]
    return [
        start + n * group.get("every", 0) for start in starts for n in range(group.get("count", 1))
    ]
