"""The pytest plugin, in a session of its own."""

from __future__ import annotations

import pytest

from test_live import namespaces_are_allowed

pytest_plugins = ["pytester"]


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.network("bw 10Mbit/s delay 5ms", seed=3)
        def test_passes(weir_pair):
            weir_pair.left.run(["true"], check=True)
            assert "delay 5ms" in weir_pair.stats().up.spec

        @pytest.mark.network(up="1M/1ms", down="2M/1ms")
        def test_fails(weir_pair):
            assert False

        @pytest.mark.network("4M/1ms")
        def test_runs(weir_run):
            done, results = weir_run(["echo", "here"], capture_output=True)
            assert done.stdout == b"here\\n" and len(results["links"]) == 2

        @pytest.mark.network("3M/1ms")
        def test_fails_behind_a_link(weir_run):
            weir_run(["true"])
            done, _ = weir_run(["false"])
            assert done.returncode == 0
        """
    )
    return pytester


@pytest.mark.skipif(not namespaces_are_allowed(), reason="network namespaces are not allowed here")
def test_fixtures_have_the_links_of_their_markers(session: pytest.Pytester) -> None:
    result = session.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    # The report of a failed test has a line for each link; with `weir_run`, for each link of each
    # run.
    result.stdout.fnmatch_lines(["*link.back: bw 2Mbit*"])
    result.stdout.fnmatch_lines(["run 1, up: bw 3Mbit*packets in*", "run 2, down: bw 3Mbit*"])


def test_without_namespaces_the_tests_are_skipped_with_the_reason(
    session: pytest.Pytester,
) -> None:
    session.makeconftest(
        """
        import weirlab._pytest
        weirlab._pytest._why_not = lambda: "not today"
        """
    )
    result = session.runpytest_subprocess("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(["*network namespaces are not allowed here: not today*"])
