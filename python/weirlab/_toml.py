"""Writes scenarios as TOML, the format of scenario files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias, cast

from . import _algorithms

_Table: TypeAlias = Mapping[str, Any]
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def document(scenario: Mapping[str, Any]) -> str:
    """The text of a scenario.

    Raises TypeError or ValueError, with the path of the key, for values that TOML cannot express.
    """
    head: list[str] = []
    tables: list[str] = []
    for key, content in scenario.items():
        name = _key(key, "the scenario")
        if isinstance(content, Mapping):
            tables += ["", f"[{name}]", *_entries(cast(_Table, content), key)]
        elif rows := _tables(content):
            for number, table in enumerate(rows):
                tables += ["", f"[[{name}]]", *_entries(table, f"{key}[{number}]")]
        else:
            head.append(f"{name} = {value(content, key)}")
    return "\n".join([*head, *tables]) + "\n"


def value(content: object, where: str) -> str:
    """A value as TOML; `where` is the key, for messages."""
    if isinstance(content, bool):
        return "true" if content else "false"
    if _algorithms.is_algorithm(content):
        return json.dumps(_algorithms.name_of(cast(Any, content)))
    if isinstance(content, str):
        # TOML requires an escape for the character 127, which JSON does not escape.
        return json.dumps(content, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(content, int):
        return str(content)
    if isinstance(content, float):
        if not math.isfinite(content):
            raise ValueError(f"{where}: {content} is not a number that a scenario can contain")
        # `repr` of a subclass, such as `numpy.float64`, may not be a number of TOML.
        return float.__repr__(content)
    if isinstance(content, timedelta):
        return json.dumps(time(content, where))
    if isinstance(content, (list, tuple)):
        listed = cast(Sequence[object], content)
        items = [value(item, f"{where}[{number}]") for number, item in enumerate(listed)]
        return f"[{', '.join(items)}]"
    if isinstance(content, Mapping):
        return "{ " + ", ".join(_entries(cast(_Table, content), where)) + " }"
    raise TypeError(f"{where}: {type(content).__name__} is no type of a scenario's values")


def time(content: str | int | float | timedelta, where: str) -> str:
    """A time as text with its unit; numbers are seconds."""
    if isinstance(content, str):
        return content
    if isinstance(content, timedelta):
        ns = (content.days * 86_400 + content.seconds) * 10**9 + content.microseconds * 1000
    elif isinstance(content, bool) or not isinstance(content, (int, float)):
        raise TypeError(
            f"{where}: expected a text such as '20ms', seconds or a timedelta, "
            f"not {type(content).__name__}"
        )
    elif not math.isfinite(content):
        raise ValueError(f"{where}: {content} is not a time")
    else:
        ns = round(content * 10**9)
    if ns < 0:
        raise ValueError(f"{where}: a time cannot be negative")
    for unit, length in (("s", 10**9), ("ms", 10**6), ("us", 1000)):
        if ns % length == 0:
            return f"{ns // length}{unit}"
    return f"{ns}ns"


def _entries(table: _Table, where: str) -> list[str]:
    return [f"{_key(key, where)} = {value(item, f'{where}.{key}')}" for key, item in table.items()]


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{where}: a key is a text, not {type(key).__name__}")
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _tables(content: object) -> list[_Table]:
    """The tables of a list of tables; none for any other value."""
    if not isinstance(content, (list, tuple)):
        return []
    items = cast(Sequence[object], content)
    tables = [cast(_Table, item) for item in items if isinstance(item, Mapping)]
    return tables if len(tables) == len(items) else []
