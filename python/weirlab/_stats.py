"""The statistics of live links, from the results document that `weir stats` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Wait:
    """The distribution of queueing delays, in seconds; all 0 without packets."""

    count: int
    mean: float
    p50: float
    p99: float
    p999: float
    max: float
    min: float


@dataclass(frozen=True, slots=True)
class LinkStats:
    """The statistics of one direction of a link since the start."""

    name: str
    spec: str
    """The specification in force."""
    packets_in: int
    packets_out: int
    bytes_out: int
    """Network-layer bytes that departed."""
    drops: int
    """Dropped packets, for all reasons."""
    drops_by_reason: Mapping[str, int]
    inside_packets: int
    """Packets in the queue, in transmission and in the delay line."""
    wait: Wait
    """Queueing delay."""


@dataclass(frozen=True)
class Stats:
    """The statistics of a session's links.

    A link is found by its name: ``stats["line.back"]``. The links of :func:`pair` and
    :func:`attach` are also attributes: ``stats.up`` and ``stats.down``.
    """

    duration_s: float
    """Time since the links started, in seconds."""
    links: Mapping[str, LinkStats]
    document: dict[str, Any]
    """The results document of ``weir stats --json``; docs/results.md explains the keys."""
    _names: Mapping[str, str]

    def __getitem__(self, link: str) -> LinkStats:
        return self.links[self._names.get(link, link)]

    @property
    def up(self) -> LinkStats:
        """From ``left`` to ``right``, or what the target sends."""
        return self["up"]

    @property
    def down(self) -> LinkStats:
        """From ``right`` to ``left``, or what the target receives."""
        return self["down"]


def link_stats(item: Mapping[str, Any]) -> LinkStats:
    """The statistics of one link of a results document."""
    drops: dict[str, int] = item["drops"]
    times = dict(item["queue_ns"])
    count: int = times.pop("count")
    return LinkStats(
        name=item["name"],
        spec=item.get("spec", ""),
        packets_in=item["packets_in"],
        packets_out=item["packets_out"],
        bytes_out=item["bytes_out"],
        drops=sum(drops.values()),
        drops_by_reason=drops,
        inside_packets=item["backlog_packets"],
        wait=Wait(count=count, **{key: ns / 1e9 for key, ns in times.items()}),
    )
