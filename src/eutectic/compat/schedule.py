"""`tvm.tir.Schedule`: ours, with TVM's meaning of epilogues for those who ask for it."""

from __future__ import annotations

from typing import Any

from eutectic.support.config import tvm_semantics
from eutectic.tir import schedule as _ours
from eutectic.tir.schedule import Primitive

_EPILOGUE = "fuse_reduction_epilogue"


class Schedule(_ours.Schedule):
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
