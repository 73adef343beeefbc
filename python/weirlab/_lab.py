"""Sessions with hosts: two with a link between them, or those of a scenario.

The classes add hosts to a session. `async with` yields their variants for coroutines.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._end import AsyncEnd, End
from ._session import AsyncSession, Session


class Pair(Session):
    """Two hosts with one link between them, from :func:`pair`."""

    left: End
    """One end."""
    right: End
    """The other end."""

    async def __aenter__(self) -> AsyncPair:
        return await AsyncPair(self)._wait_for_start()


class AsyncPair(AsyncSession):
    """Two hosts with one link between them, for coroutines."""

    def __init__(self, session: Pair) -> None:
        super().__init__(session)
        self.left = AsyncEnd(session.left)
        """One end."""
        self.right = AsyncEnd(session.right)
        """The other end."""


class Lab(Session):
    """The hosts of a scenario, from :func:`live`."""

    hosts: dict[str, End]
    """The hosts, by their names."""

    def __getitem__(self, host: str) -> End:
        return self.hosts[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)

    async def __aenter__(self) -> AsyncLab:
        return await AsyncLab(self)._wait_for_start()


class AsyncLab(AsyncSession):
    """The hosts of a scenario, for coroutines."""

    def __init__(self, session: Lab) -> None:
        super().__init__(session)
        self.hosts = {name: AsyncEnd(end) for name, end in session.hosts.items()}
        """The hosts, by their names."""

    def __getitem__(self, host: str) -> AsyncEnd:
        return self.hosts[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)
