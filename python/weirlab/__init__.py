"""Weir in Python: simulate networks.

>>> import weirlab as wl
>>> r = wl.simulate("two-hosts.toml", seeds=range(1, 4), set={"duration": "3s"})
>>> df = r.flows.to_polars()                                    # doctest: +SKIP
"""

from ._errors import Diagnostic, ScenarioError, ScenarioWarning, WeirError
from ._native import __version__
from ._results import Progress, Results, Table, simulate
from ._scenario import Checked, Scenario, ScenarioLike, Time, Value, check_scenario, schema

__all__ = [
    "Checked",
    "Diagnostic",
    "Progress",
    "Results",
    "Scenario",
    "ScenarioError",
    "ScenarioLike",
    "ScenarioWarning",
    "Table",
    "Time",
    "Value",
    "WeirError",
    "__version__",
    "check_scenario",
    "schema",
    "simulate",
]
