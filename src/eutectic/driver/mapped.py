"""Functions with what `map_batch` calls in them: the bindings of a call as they are computed, told once."""

from __future__ import annotations

from collections.abc import Iterator

from eutectic.backend.segment import mapped_function
from eutectic.ir.module import IRModule
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Binding, Call, Tuple, VarBinding
from eutectic.relax.op.map_batch import pieces


def bindings_of(mod: IRModule, entry: str) -> Iterator[Binding]:
    """All bindings of a function in the order of execution; those that are computed for each piece are told once."""
    return (binding for binding, _ in bindings_with_times(mod, entry))


def bindings_with_times(mod: IRModule, entry: str) -> Iterator[tuple[Binding, int]]:
    """The same, each with how often a call of the function computes it.

    Args:
        mod: A module.
        entry: A graph function of it. In place of a call of `map_batch` are the bindings of the function that it calls,
            behind such that give its parameters their values, and before one that gives the result its value.
    """
    for binding in walk_bindings(mod[entry]):
        function = mapped_function(binding.value, mod)
        if function is None:
            yield binding, 1
            continue
        call = binding.value
        assert isinstance(call, Call)
        times, given = pieces(call), (field for arg in call.args[1:] if isinstance(arg, Tuple) for field in arg.fields)
        yield from ((VarBinding(param, value), times) for param, value in zip(function.params, given, strict=True))
        yield from ((inner, times) for inner in walk_bindings(function))
        yield VarBinding(binding.var, function.body.body), times
