"""Something that takes a while to open: `await` it, or use it with `async with` and it is closed at the end."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from holdfast.model.errors import HoldfastError

T_co = TypeVar("T_co", bound=AbstractAsyncContextManager[Any], covariant=True)


class Opening(Coroutine[Any, Any, T_co]):
    """What `connect` and `subscribe` return: await it, enter it with `async with`, or make it a task.

    Nothing happens before that. `called` is the call that made it, for the warning if it is never awaited.
    """

    called = ""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, T_co]], called: str = "") -> None:
        self._begin, self.called = begin, called
        self._begun: Coroutine[Any, Any, T_co] | None = None
        self._opened: T_co | None = None

    def __await__(self) -> Generator[Any, None, T_co]:
        self.called = ""
        return self._begin().__await__()

    if not TYPE_CHECKING:  # A type checker finds by itself what is not there.

        def __getattr__(self, name: str) -> NoReturn:
            """What is asked of a client or a subscription before there is one."""
            raise AttributeError(
                f"there is no {name!r} yet, since nothing was begun: write `await` before the call that is to begin "
                "it, or use it with `async with`",
                name=name,
                obj=self,
            )

    def __del__(self) -> None:
        if self.called:
            warnings.warn(
                f"{self.called} was never awaited, so nothing was begun: write `await` before it, or use it with "
                "`async with`",
                RuntimeWarning,
                stacklevel=2,
            )

    def send(self, value: Any, /) -> Any:
        self._begun, self.called = self._begun or self._begin(), ""
        return self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        self._begun, self.called = self._begun or self._begin(), ""
        return self._begun.throw(*error)

    def close(self) -> None:
        self.called = ""
        if self._begun is not None:
            self._begun.close()

    async def __aenter__(self) -> T_co:
        self.called = ""
        self._opened = await self._begin()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._opened is None:
            return None
        return await self._opened.__aexit__(kind, error, trace)


class Closing(ABC):
    """Something that is closed at the end of `async with`."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        # The error on its way out is the one to see.
        with suppress(HoldfastError):
            await self.close()
