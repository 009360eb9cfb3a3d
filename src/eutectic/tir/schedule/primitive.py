"""How a primitive is declared: a function of an `Edit` that refuses or edits, and is then a method of schedules.

The model file is `primitives/split.py`. The function takes handles, finds places by `edit.loop(rv)` and
`edit.block(rv)`, refuses by `edit.refuse(...)`, changes the program by `edit.replace(...)`, and returns new handles.
What it did becomes part of the schedule only when it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from eutectic.support.door import RAW, explained
from eutectic.support.errors import EutecticError, InternalError, ScheduleError

if TYPE_CHECKING:
    from eutectic.tir.schedule.edit import Edit

P = ParamSpec("P")
R = TypeVar("R")


class Performs(Protocol):
    """What primitives are methods of."""

    def perform(self, primitive: Primitive[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a primitive and make what it did part of the schedule."""


class Primitive(Generic[P, R]):
    """A schedule primitive; as an attribute of a class it is a method.

    Args:
        function: What it does.

    Attributes:
        name: Its name.
        signature: Its parameters, without the edit.
        block_params: Parameters that a block's name may be given for.
    """

    def __init__(self, function: Callable[Concatenate[Edit, P], R]) -> None:
        self.function = function
        self.name = function.__name__
        whole = inspect.signature(function)
        self.signature = whole.replace(parameters=list(whole.parameters.values())[1:])
        self.block_params = frozenset(
            name for name, p in self.signature.parameters.items() if "BlockLike" in str(p.annotation)
        )
        update_wrapper(self, function)
        del self.__wrapped__  # type: ignore[attr-defined]  # set by the line above; it would show the edit in help

    @overload
    def __get__(self, schedule: None, owner: type) -> Primitive[P, R]: ...

    @overload
    def __get__(self, schedule: Performs, owner: type) -> Callable[P, R]: ...

    def __get__(self, schedule: Performs | None, owner: type) -> Primitive[P, R] | Callable[P, R]:
        """The method of a schedule."""
        return self if schedule is None else update_wrapper(partial(self.__call__, schedule), self)

    def __call__(self, schedule: Performs, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run on a schedule."""
        try:
            result: R = schedule.perform(self, args, kwargs)
        except EutecticError:
            raise
        except RAW as error:
            refusal = explained(self.function, self.name, args, kwargs, error, ScheduleError, self.signature)
            if refusal is None:
                raise
            raise refusal from error
        return result


PRIMITIVES: Final[dict[str, Primitive[Any, Any]]] = {}


def primitive(function: Callable[Concatenate[Edit, P], R]) -> Primitive[P, R]:
    """Declare a primitive; traces know it by the name of the function.

    Raises:
        InternalError: the name is taken.
    """
    declared = Primitive(function)
    if declared.name in PRIMITIVES:
        raise InternalError(f"schedule primitive {declared.name} is declared twice")
    PRIMITIVES[declared.name] = declared
    return declared
