"""Exceptions, and the diagnostics of the scenario checker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ._runner import SweepFailure

_SUGGESTION = re.compile(r"did you mean `([^`]+)`")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One remark of the checker about a place in a scenario.

    >>> import weirlab as wl
    >>> try:
    ...     wl.simulate("duration = '1s'\\nlnik = []")
    ... except wl.ScenarioError as error:
    ...     error.diagnostics[0].line, error.diagnostics[0].suggestion
    (2, 'link')
    """

    severity: Literal["error", "warning", "note"]
    code: str
    """A stable name of the kind of diagnostic, such as ``bad-value``."""
    message: str
    file: str | None
    """The file, or None for a text without a name."""
    line: int
    """The line, counted from 1."""
    column: int
    """The first marked character of the line, counted from 1."""
    end_column: int
    """The character after the marked ones."""
    text: str
    """The line itself."""
    label: str
    """What the marked characters are, or what is expected there."""
    help: tuple[str, ...]

    @property
    def suggestion(self) -> str | None:
        """The word that was probably meant, or None."""
        for text in (self.label, self.message, *self.help):
            if match := _SUGGESTION.search(text):
                return match[1]
        return None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.file else f"line {self.line}"
        return f"{self.severity}[{self.code}]: {self.message} ({place})"


class WeirError(Exception):
    """The base of all exceptions of this package."""


class ScenarioError(WeirError, ValueError):
    """A scenario, or a key given in ``set``, is refused.

    The text of the exception shows each faulty line with the place underlined, as ``weir check``
    does.

    >>> import weirlab as wl
    >>> try:
    ...     wl.Scenario(duration="1s").link("a", "b").check()
    ... except wl.ScenarioError as error:
    ...     error.line is not None
    True
    """

    diagnostics: tuple[Diagnostic, ...]
    """Errors first, in the order of the text; empty if the error is not in the text."""

    def __init__(
        self, message: str, diagnostics: Sequence[Diagnostic | Mapping[str, Any]] = ()
    ) -> None:
        found = tuple(map(to_diagnostic, diagnostics))
        super().__init__(message, found)
        self.diagnostics = tuple(sorted(found, key=lambda item: item.severity != "error"))

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def line(self) -> int | None:
        """The line of the first error, counted from 1; None if the error is not in the text."""
        return self.diagnostics[0].line if self.diagnostics else None

    @property
    def suggestion(self) -> str | None:
        """The word that was probably meant at the first place that has a suggestion, or None."""
        for diagnostic in self.diagnostics:
            if diagnostic.suggestion:
                return diagnostic.suggestion
        match = _SUGGESTION.search(str(self))
        return match[1] if match else None


class ScenarioWarning(UserWarning):
    """A scenario is accepted, but something in it is probably not intended."""


class CommandError(WeirError):
    """The command ``weir`` failed.

    >>> import weirlab as wl
    >>> str(wl.CommandError("it is busy", 1))
    'it is busy'
    """

    status: int
    """The exit code of the command."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


class SweepError(WeirError):
    """Some runs of a campaign have no result. The results of finished runs are kept.

    >>> import weirlab as wl
    >>> error = wl.SweepError("1 run failed", [wl.SweepFailure(3, 1, "too late")])
    >>> error.failures[0].reason
    'too late'
    """

    failures: tuple[SweepFailure, ...]
    """The runs that failed."""

    def __init__(self, message: str, failures: Sequence[SweepFailure] = ()) -> None:
        super().__init__(message, tuple(failures))
        self.failures = tuple(failures)

    def __str__(self) -> str:
        return str(self.args[0])


class VersionError(WeirError):
    """A worker has another version of Weir than the campaign.

    >>> import weirlab as wl
    >>> str(wl.VersionError("the worker has Weir 0.1.0"))
    'the worker has Weir 0.1.0'
    """


class AlgorithmError(WeirError, ValueError):
    """An algorithm in Python breaks its contract. For example, it returns a packet that it does not
    hold, or a negative time. Raised where the simulation was started.

    >>> import weirlab as wl
    >>> class Silent(wl.Scheduler):
    ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None: ...
    ...     def dequeue(self, now_ns: int) -> None: ...
    >>> net = wl.Scenario(duration=1).host("a", "b").traffic("cbr", "a", "b", rate="2M")
    >>> try:
    ...     wl.simulate(net.link("a", "b", "1M/5ms", scheduler=Silent))
    ... except wl.AlgorithmError as error:
    ...     print(error)
    Silent.dequeue returned None while 1 packets wait; ...
    """


class AlgorithmTypeError(AlgorithmError, TypeError):
    """An algorithm in Python returns something of a wrong type.

    >>> import weirlab as wl
    >>> issubclass(wl.AlgorithmTypeError, TypeError)
    True
    """


class CheckError(WeirError, AssertionError):
    """An algorithm in Python breaks a promise, found by :func:`check`.

    If the algorithm raised an exception, that is the ``__cause__``.

    >>> import weirlab as wl
    >>> error = wl.CheckError("lost", "a packet is lost", "wl.replay(Mine, [])", ())
    >>> error.kind
    'lost'
    """

    kind: str
    """``reordered``, ``lost``, ``unstable``, or the name of an exception."""
    snippet: str
    """A program that shows the case."""
    operations: tuple[tuple[str, int, int, int], ...]
    """The case, for :func:`replay`."""

    def __init__(
        self,
        kind: str,
        message: str,
        snippet: str,
        operations: tuple[tuple[str, int, int, int], ...],
    ) -> None:
        super().__init__(kind, message, snippet, operations)
        self.kind = kind
        self.snippet = snippet
        self.operations = operations

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[1]}\n\n{self.snippet}"


def to_diagnostic(value: Diagnostic | Mapping[str, Any]) -> Diagnostic:
    """Converts a diagnostic of the compiled part."""
    if isinstance(value, Diagnostic):
        return value
    fields: dict[str, Any] = {**value, "help": tuple(value["help"])}
    return Diagnostic(**fields)
