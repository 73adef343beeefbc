"""Weir in Python: simulate networks, measure schedulers, reproduce published experiments.

>>> import weirlab as wl
>>> r = wl.simulate("two-hosts.toml", seeds=range(1, 4), set={"duration": "3s"})
>>> df = r.flows.to_polars()                                    # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import CommandError, Diagnostic, ScenarioError, ScenarioWarning, WeirError
from ._native import __version__
from ._results import Progress, Results, Table, simulate
from ._scenario import Checked, Scenario, ScenarioLike, Time, Value, check_scenario, schema

if TYPE_CHECKING:
    from ._command import (
        CaseResult,
        Claim,
        Expectation,
        Reproduction,
        Rig,
        case,
        find_weir,
        reproduce,
        rig,
    )
    from ._live import (
        End,
        Lab,
        LinkStats,
        Pair,
        Session,
        Stats,
        Wait,
        attach,
        live,
        pair,
        run,
    )

# Modules that start processes are imported when they are used: the import of the package then takes
# half the time.
_COMMAND = frozenset(
    "CaseResult Claim Expectation Reproduction Rig case find_weir reproduce rig".split()
)
_LIVE = frozenset("End Lab LinkStats Pair Session Stats Wait attach live pair run".split())

__all__ = [
    "CaseResult",
    "Checked",
    "Claim",
    "CommandError",
    "Diagnostic",
    "End",
    "Expectation",
    "Lab",
    "LinkStats",
    "Pair",
    "Progress",
    "Reproduction",
    "Results",
    "Rig",
    "Scenario",
    "ScenarioError",
    "ScenarioLike",
    "ScenarioWarning",
    "Session",
    "Stats",
    "Table",
    "Time",
    "Value",
    "Wait",
    "WeirError",
    "__version__",
    "attach",
    "case",
    "check_scenario",
    "find_weir",
    "live",
    "pair",
    "reproduce",
    "rig",
    "run",
    "schema",
    "simulate",
]


def __getattr__(name: str) -> Any:
    module = "_command" if name in _COMMAND else "_live" if name in _LIVE else None
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
