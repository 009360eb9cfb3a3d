"""`tvm.tir.Schedule`: ours, with TVM's meaning of epilogues for those who ask for it."""

from __future__ import annotations

from typing import Any

from eutectic import __version__
from eutectic.compat.surface import why_not
from eutectic.support.config import tvm_semantics
from eutectic.support.spelling import did_you_mean
from eutectic.tir import schedule as _ours
from eutectic.tir.schedule import PRIMITIVES, Primitive

_EPILOGUE = "fuse_reduction_epilogue"


class _WithReasons(type):
    """Says of a primitive that is not here what to use instead."""

    def __getattr__(cls, name: str) -> Any:
        reason = why_not("tvm.tir.schedule", f"Schedule.{name}") or did_you_mean(name, dir(cls))
        text = f"eutectic {__version__} has no tvm.tir.Schedule.{name}" + (f"; {reason}" if reason else "")
        raise AttributeError(text, name=name, obj=cls)


class Schedule(_ours.Schedule, metaclass=_WithReasons):
    """A schedule whose `fuse_reduction_epilogue` is exact, unless `EUTECTIC_TVM_SEMANTICS` is 1 and no mode is given.

    With that, it changes the sum at every step, which is another function of the inputs.
    """

    def perform(self, primitive: Primitive[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `eutectic.tir.Schedule.perform`."""
        if (
            primitive.name == _EPILOGUE
            and tvm_semantics()
            and len(args) <= 2
            and not {"mode", "reassociate"} & set(kwargs)
        ):
            kwargs = {**kwargs, "mode": "per_iteration"}
        return super().perform(primitive, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """A primitive that was declared outside of the package, else why it is not here."""
        return super().__getattr__(name) if name in PRIMITIVES else getattr(type(self), name)
