"""Weir in Python: simulate networks, measure schedulers, reproduce published experiments.

>>> import weirlab as wl
>>> r = wl.simulate("two-hosts.toml", seeds=range(1, 4), set={"duration": "3s"})
>>> df = r.flows.to_polars()                                    # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._algorithms import (
    Algorithm,
    Aqm,
    CongestionControl,
    Operation,
    Scheduler,
    Verdict,
    check,
    name_of,
    replay,
)
from ._errors import (
    AlgorithmError,
    AlgorithmTypeError,
    CheckError,
    CommandError,
    Diagnostic,
    ScenarioError,
    ScenarioWarning,
    SweepError,
    VersionError,
    WeirError,
)
from ._native import Ack, Flow, Packet, Queue, __version__
from ._results import Progress, Results, Table, simulate
from ._scenario import Checked, Scenario, ScenarioLike, Time, Value, check_scenario, schema

if TYPE_CHECKING:
    from . import plot
    from ._campaign import Campaign, SweepResult, SweepStatus, Verified, sweep
    from ._capture import Capture
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
    from ._design import Range, Sensitivity, latin_hypercube, saltelli, sobol
    from ._end import AsyncEnd, End
    from ._lab import AsyncLab, AsyncPair, Lab, Pair
    from ._live import attach, live, pair, run
    from ._precision import Compared, Estimated, Figure
    from ._runner import SweepFailure, SweepProgress
    from ._session import AsyncSession, Session
    from ._stats import LinkStats, Stats, Wait
    from ._watch import Watch, watch

# Modules that a simulation does not need are imported when they are used. This halves the time of
# the package's import.
_LATER = {
    "_campaign": "Campaign SweepResult SweepStatus Verified sweep",
    "_capture": "Capture",
    "_command": "CaseResult Claim Expectation Reproduction Rig case find_weir reproduce rig",
    "_design": "Range Sensitivity latin_hypercube saltelli sobol",
    "_end": "AsyncEnd End",
    "_lab": "AsyncLab AsyncPair Lab Pair",
    "_live": "attach live pair run",
    "_precision": "Compared Estimated Figure",
    "_runner": "SweepFailure SweepProgress",
    "_session": "AsyncSession Session",
    "_stats": "LinkStats Stats Wait",
    "_watch": "Watch watch",
}
_MODULE = {name: module for module, names in _LATER.items() for name in names.split()}

__all__ = [
    "Ack",
    "Algorithm",
    "AlgorithmError",
    "AlgorithmTypeError",
    "Aqm",
    "AsyncEnd",
    "AsyncLab",
    "AsyncPair",
    "AsyncSession",
    "Campaign",
    "Capture",
    "CaseResult",
    "CheckError",
    "Checked",
    "Claim",
    "CommandError",
    "Compared",
    "CongestionControl",
    "Diagnostic",
    "End",
    "Estimated",
    "Expectation",
    "Figure",
    "Flow",
    "Lab",
    "LinkStats",
    "Operation",
    "Packet",
    "Pair",
    "Progress",
    "Range",
    "Queue",
    "Reproduction",
    "Results",
    "Rig",
    "Scenario",
    "ScenarioError",
    "ScenarioLike",
    "ScenarioWarning",
    "Sensitivity",
    "Scheduler",
    "Session",
    "Stats",
    "SweepError",
    "SweepFailure",
    "SweepProgress",
    "SweepResult",
    "SweepStatus",
    "Table",
    "Time",
    "Value",
    "Verified",
    "VersionError",
    "Verdict",
    "Wait",
    "Watch",
    "WeirError",
    "__version__",
    "attach",
    "case",
    "check",
    "check_scenario",
    "find_weir",
    "latin_hypercube",
    "live",
    "name_of",
    "pair",
    "plot",
    "replay",
    "reproduce",
    "rig",
    "run",
    "saltelli",
    "schema",
    "simulate",
    "sobol",
    "sweep",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module(".plot", __name__)
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
