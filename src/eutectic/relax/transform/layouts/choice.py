"""Which offer each step of a function takes: the offers, the values between them, and what copies cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import item_bytes
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.expr import Binding, Call, DataflowVar, Function, Tuple, Var, VarBinding
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.layouts.offers import LayoutOffer
from eutectic.relax.transform.layouts.selection import Problem, solve
from eutectic.tir.data_layout import layout, rearrangement

BYTES_PER_NANOSECOND: Final = 10.0  # of a copy that changes the layout, by one thread
_STARTED: Final = 500.0  # nanoseconds, of one more kernel
_LARGEST: Final = 3  # layouts that a value is kept in at once
_USUAL: Final = "NOICDHW"


def row_major(name: str) -> str:
    """The layout of the graph for a value that is to be in another layout: the same axes in their usual order."""
    return "".join(sorted(layout(name).names, key=_USUAL.index))


def operands_of(call: Call) -> Iterator[Expr]:
    """The tensors among the arguments of a call, fields of tuples one by one."""
    for arg in call.args:
        fields = arg.fields if isinstance(arg, Tuple) else (arg,)
        yield from (item for item in fields if isinstance(item.struct_info, TensorStructInfo))


def chosen_offers(function: Function, ask: Callable[[Call], Sequence[LayoutOffer]]) -> dict[Var, LayoutOffer]:
    """The offers to be taken, by the variable that a call is bound to; steps that stay row-major are left out.

    Every step is a node of a selection problem whose choices are its offers. Every value is a node whose choices are
    the sets of layouts that it is kept in: it costs the copies from the layout in which it is computed, each once
    however many steps read it. Constants cost nothing, as they are brought into their layouts at compile time.

    Args:
        function: Parameters and results of it are row-major.
        ask: Gives the offers of a call of an operator.
    """
    made = _Choice(ask)
    for block in function.body.blocks:
        for binding in block.bindings:
            made.add(binding)
    made.require(used_vars(function.body.body))
    return made.solution()


@dataclass
class _Step:
    binding: VarBinding
    offers: Sequence[LayoutOffer]


@dataclass
class _Choice:
    ask: Callable[[Call], Sequence[LayoutOffer]]
    steps: dict[Var, _Step] = field(default_factory=dict)
    readers: dict[Var, list[tuple[_Step, int]]] = field(default_factory=dict)
    plain: set[Var] = field(default_factory=set)  # read by what takes row-major only

    def add(self, binding: Binding) -> None:
        """Note what a binding reads, and what it could."""
        value: Any = binding.value
        offers = self.ask(value) if isinstance(binding, VarBinding) and _is_operator(value) else ()
        if len(offers) < 2:
            self.require(used_vars(value))
            return
        assert isinstance(binding, VarBinding)
        step = self.steps[binding.var] = _Step(binding, offers)
        for number, operand in enumerate(operands_of(value)):
            if isinstance(operand, Var):
                self.readers.setdefault(operand, []).append((step, number))
        tensors = set(operands_of(value))
        self.require(var for var in used_vars(value) if var not in tensors)
        if not isinstance(binding.var, DataflowVar):
            self.require([binding.var])

    def require(self, variables: Any) -> None:
        """Note variables that are read row-major."""
        self.plain.update(variables)

    def solution(self) -> dict[Var, LayoutOffer]:
        """Offers by variable."""
        if not any(offer.result or any(offer.operands) for step in self.steps.values() for offer in step.offers):
            return {}
        problem = Problem()
        numbers = {
            var: problem.node(np.array([offer.cost for offer in step.offers])) for var, step in self.steps.items()
        }
        for var in dict.fromkeys((*self.steps, *self.readers)):
            self._value(problem, numbers, var)
        chosen = solve(problem)
        taken = {var: step.offers[chosen[numbers[var]]] for var, step in self.steps.items()}
        return {var: offer for var, offer in taken.items() if offer.result or any(offer.operands)}

    def _value(self, problem: Problem, numbers: Mapping[Var, int], var: Var) -> None:
        """The node of a value, and its pairs with the step that computes it and those that read it."""
        step, readers = self.steps.get(var), self.readers.get(var, [])
        computed = [offer.result for offer in step.offers] if step is not None else [""]
        wanted = [offer.operand(number) for reader, number in readers for offer in reader.offers]
        kept = _sets(sorted({*computed, *wanted, *([""] if var in self.plain else [])}))
        alone = np.array([_lacks("", names) if var in self.plain else 0.0 for names in kept])
        from_each = np.array([[_copies(var, name, names) for names in kept] for name in computed])
        if step is None:
            alone = alone + from_each[0]
        node = problem.node(alone)
        if step is not None:
            problem.pair(numbers[var], node, from_each)
        for reader, number in readers:
            costs = [[_lacks(offer.operand(number), names) for names in kept] for offer in reader.offers]
            problem.pair(numbers[reader.binding.var], node, np.array(costs))


def _is_operator(value: Any) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and isinstance(value.struct_info, TensorStructInfo)


def _sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The sets of layouts that a value may be kept in at once."""
    return [found for count in range(1, _LARGEST + 1) for found in combinations(names, count)]


def _lacks(name: str, kept: Sequence[str]) -> float:
    return 0.0 if name in kept else np.inf


def _copies(var: Var, computed: str, kept: Sequence[str]) -> float:
    """What it costs to have a value in some layouts that is computed in one of them."""
    if computed not in kept:
        return float(np.inf)
    return sum(copy_cost(var.struct_info, computed, name) for name in kept if name != computed)


def copy_cost(info: Any, source: str, target: str) -> float:
    """Estimated nanoseconds of one thread to bring a tensor from one layout into another.

    It is read once and written once; where no element changes its place, nothing is done. Symbolic sizes count as one
    element.

    Args:
        info: The type of the tensor in the graph.
        source: Layout that there is; empty is row-major.
        target: Layout that is wanted.
    """
    assert isinstance(info, TensorStructInfo)
    assert info.dims is not None
    sizes = [getattr(size, "value", 1) for size in info.dims]
    plain = row_major(source or target)
    from_layout, to_layout = layout(source or plain), layout(target or plain)
    in_memory = from_layout.in_memory([sizes[plain.index(name)] for name in from_layout.names])
    way = rearrangement(from_layout, to_layout, in_memory)
    if way.moves_nothing:
        return 0.0
    moved: float = 2.0 * float(np.prod(sizes, dtype=np.float64)) * item_bytes(info.dtype or "float32")
    return moved / BYTES_PER_NANOSECOND + _STARTED
