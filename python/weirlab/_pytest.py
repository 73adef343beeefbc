"""The pytest plugin: fixtures with live links.

A test that takes `weir_pair` gets two hosts with a link between them; one that takes `weir_run`
gets a function that runs a program behind a link. The marker `network` describes the link:

    @pytest.mark.network("4M/20ms/1%")
    def test_client(weir_pair):
        server = weir_pair.right.popen(["./server"])
        weir_pair.left.run(["./client", weir_pair.right.address], check=True)

Where network namespaces are not allowed, such tests are skipped. If a test fails, its report shows
what the links did.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Generator
from typing import Any

import pytest

from ._lab import Pair
from ._live import pair, run
from ._stats import LinkStats, Stats, link_stats

_STATS = pytest.StashKey[Callable[[], Stats]]()
_RESULTS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line(
        "markers",
        "network(spec, up=None, down=None, seed=1): the link of the fixtures weir_pair and "
        "weir_run, in the words of `weir run --link`",
    )


@pytest.fixture
def weir_pair(request: pytest.FixtureRequest) -> Generator[Pair, None, None]:
    """Two hosts, `left` and `right`, with the link of the marker `network` between them."""
    _need_namespaces()
    words, options = _network(request)
    with pair(*words, **options) as link:
        request.node.stash[_STATS] = link.stats
        yield link
        request.node.stash[_STATS] = _last(link)


@pytest.fixture
def weir_run(
    request: pytest.FixtureRequest,
) -> Callable[..., tuple[subprocess.CompletedProcess[Any], dict[str, Any]]]:
    """A function that runs a program behind the link of the marker `network`, as
    :func:`weirlab.run` does."""
    _need_namespaces()
    words, options = _network(request)
    results: list[dict[str, Any]] = []
    request.node.stash[_RESULTS] = results

    @functools.wraps(run)
    def behind_the_link(
        *args: Any, **kwargs: Any
    ) -> tuple[subprocess.CompletedProcess[Any], dict[str, Any]]:
        done = run(*args, **{**dict(zip(("spec",), words)), **options, **kwargs})
        results.append(done[1])
        return done

    return behind_the_link


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds the statistics of the links to the report of a failed test."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    results = item.stash.get(_RESULTS, None)
    if results:
        numbered = enumerate(results, 1)
        lines = [
            f"run {n}, {_line(link_stats(link))}" for n, one in numbered for link in one["links"]
        ]
        report.sections.append(("weir", "\n".join(lines)))
    if _STATS not in item.stash:
        return
    try:
        stats = item.stash[_STATS]()
    except Exception as error:
        report.sections.append(("weir", f"no statistics: {error}"))
        return
    lines = [_line(link) for link in stats.links.values()]
    report.sections.append(("weir", "\n".join(lines)))


def _line(link: LinkStats) -> str:
    """What a link did, in words."""
    return (
        f"{link.name}: {link.spec}: {link.packets_in} packets in, {link.packets_out} out, "
        f"{link.drops} dropped {dict(link.drops_by_reason) or ''}, "
        f"queued {link.wait.p50 * 1000:.3f} ms (p50), {link.wait.p99 * 1000:.3f} ms (p99)"
    )


def _last(link: Pair) -> Callable[[], Stats]:
    stats = link.stats()
    return lambda: stats


def _network(request: pytest.FixtureRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    marker = request.node.get_closest_marker("network")
    return ((), {}) if marker is None else (marker.args, dict(marker.kwargs))


@functools.cache
def _why_not() -> str | None:
    """Why network namespaces cannot be made; None if they can."""
    options = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    try:
        made = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "the command unshare is missing"
    return made.stderr.strip() or "unshare failed" if made.returncode else None


def _need_namespaces() -> None:
    if reason := _why_not():
        pytest.skip(f"network namespaces are not allowed here: {reason}")
