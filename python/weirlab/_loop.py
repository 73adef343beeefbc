"""Functions for sessions, watches and captures that are used in an event loop of asyncio."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")


def in_a_loop() -> bool:
    """Whether an event loop of asyncio runs in this thread."""
    asyncio: Any = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


async def in_a_thread(function: Callable[[], Value]) -> Value:
    """Calls a function that waits, without blocking the loop. If the caller's task is cancelled,
    the function still runs to its end, so that nothing is left behind."""
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        raise
