"""Every public object has a docstring, functions and methods have examples, and examples run."""

from __future__ import annotations

import doctest
import html
import inspect
import pydoc
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weirlab as wl
from conftest import ROOT
from test_live import namespaces_are_allowed

# A word of an example, and the library that the example then needs.
NEEDED = {
    "to_pyarrow": "pyarrow",
    "to_pandas": "pandas",
    "to_polars": "polars",
    "wl.plot": "matplotlib",
}


def examples() -> dict[str, doctest.DocTest]:
    """The examples of all public objects, by name."""
    finder = doctest.DocTestFinder(exclude_empty=False)
    found: dict[str, doctest.DocTest] = {}
    for name in wl.__all__:
        item = getattr(wl, name)
        if inspect.isclass(item) or inspect.isfunction(item):
            for test in finder.find(item, name, globs={}):
                found[test.name] = test
        elif inspect.ismodule(item):
            for test in finder.find(item, name, globs={}):
                if not any(part.startswith("_") for part in test.name.split(".")):
                    found[test.name] = test
    for test in finder.find(wl, "weirlab", globs={}):
        if test.name == "weirlab":
            found[test.name] = test
    return found


EXAMPLES = examples()


def public() -> Iterator[str]:
    for name, test in EXAMPLES.items():
        if not any(part.startswith("_") for part in name.split(".")):
            yield name


@pytest.mark.parametrize("name", sorted(public()))
def test_every_public_object_is_documented(name: str) -> None:
    assert EXAMPLES[name].docstring, f"{name} has no docstring"
    item: object = wl
    for part in name.split("."):
        item = getattr(item, part, item)
    # Classes and properties need no example.
    if inspect.isroutine(item):
        assert EXAMPLES[name].examples, f"{name} has no example"


@pytest.mark.parametrize("item", [wl.Ack, wl.Flow, wl.Packet, wl.Queue])
def test_help_explains_what_algorithms_see(item: type) -> None:
    # Bold letters are written twice, with a backspace between.
    shown = re.sub(".\b", "", pydoc.render_doc(item)).replace(" |  ", "")
    assert item.__doc__ and inspect.cleandoc(item.__doc__) in shown
    for name, attribute in vars(item).items():
        if not name.startswith("_"):
            assert attribute.__doc__, f"help says nothing about {item.__name__}.{name}"


@pytest.mark.parametrize("name", sorted(name for name, test in EXAMPLES.items() if test.examples))
def test_the_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for word, library in NEEDED.items():
        if any(word in example.source for example in EXAMPLES[name].examples):
            pytest.importorskip(library)
    if any("wl.pair" in e.source or "wl.live" in e.source for e in EXAMPLES[name].examples) or (
        name == "run"
    ):
        if not namespaces_are_allowed():
            pytest.skip("network namespaces are not allowed here")
    shutil.copy(ROOT / "experiments/two-hosts.toml", tmp_path)
    case = ROOT / "crates/weir-core/tests/conformance/headdrop-burst.toml"
    shutil.copy(case, tmp_path / "headdrop.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    options = doctest.ELLIPSIS
    runner = doctest.DocTestRunner(optionflags=options)
    runner.run(EXAMPLES[name])
    results = runner.summarize(verbose=False)
    assert results.failed == 0, capsys.readouterr().out


def test_the_pages_have_all_names_and_their_examples(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    # In another directory, so that the installed package is documented, not the sources.
    command = [sys.executable, "-P", str(ROOT / "python/make_docs.py"), str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.name: html.unescape(path.read_text()) for path in tmp_path.rglob("*.html")}
    text = re.sub("<[^>]*>", "", "\n".join(pages.values()))
    for name in ("simulate", "sweep", "pair"):
        first = EXAMPLES[name].examples[-1].source.splitlines()[0]
        assert first in text, f"the example of {name} is on no page"
