"""Weir in Python: simulate networks, measure schedulers, reproduce published experiments.

>>> import weirlab as wl
>>> r = wl.simulate("two-hosts.toml", seeds=range(1, 4), set={"duration": "3s"})
>>> df = r.flows.to_polars()                                    # doctest: +SKIP
"""

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
from ._errors import CommandError, Diagnostic, ScenarioError, ScenarioWarning, WeirError
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
from ._native import __version__
from ._results import Progress, Results, Table, simulate
from ._scenario import Checked, Scenario, ScenarioLike, Time, Value, check_scenario, schema

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
