"""Which offer each step of a function takes: the offers, the values between them, and what copies cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.ir.dtype import item_bytes
from eutectic.ir.module import GlobalVar
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import operands_of, used_vars
from eutectic.relax.expr import Binding, Call, DataflowVar, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.op.layout import row_major
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.layouts.offers import LayoutOffer, likely_sizes
from eutectic.relax.transform.layouts.selection import Problem, solve
from eutectic.tir.data_layout import layout, rearrangement

BYTES_PER_NANOSECOND: Final = 10.0  # of a copy that changes the layout, by one thread
_STARTED: Final = 500.0  # nanoseconds, of one more kernel
_MOST_COPIES: Final = 2  # of one value


def chosen_offers(function: Function, ask: Callable[[Call], Sequence[LayoutOffer]]) -> dict[Var, LayoutOffer]:
    """The offers to be taken, by the variable that a call is bound to; steps that stay row-major are left out.

    Every step is a node of a selection problem whose choices are its offers. Every value is a node whose choices are
    the layout in which it is computed and those that it is copied into, each once however many steps read it. What is
    pointwise is done with the step before it unless a copy comes between: that costs one more pass over the values.
    Constants cost nothing, as they are brought into their layouts at compile time.

    Args:
        function: Parameters and results of it are row-major.
        ask: Gives the offers of a call of an operator, or of a function.
    """
    choice = _Choice(ask)
    for block in function.body.blocks:
        for binding in block.bindings:
            choice.add(binding)
    choice.require(used_vars(function.body.body))
    return choice.solution()


@dataclass
class _Step:
    binding: VarBinding
    offers: Sequence[LayoutOffer]


@dataclass
class _Choice:
    ask: Callable[[Call], Sequence[LayoutOffer]]
    steps: dict[Var, _Step] = field(default_factory=dict)
    computed: dict[Var, tuple[_Step, int]] = field(default_factory=dict)  # who gives a value, as which result
    readers: dict[Var, list[tuple[_Step, int]]] = field(default_factory=dict)
    plain: set[Var] = field(default_factory=set)  # read by what takes row-major only

    def add(self, binding: Binding) -> None:
        """Note what a binding reads, and what it could."""
        value: Any = binding.value
        if isinstance(value, TupleGetItem) and value.tuple_value in self.steps:
            self.computed[binding.var] = (self.steps[value.tuple_value], value.index)
            if not isinstance(binding.var, DataflowVar):
                self.require([binding.var])
            return
        offers = self.ask(value) if isinstance(binding, VarBinding) and _is_step(value) else ()
        if len(offers) < 2:
            self.require(used_vars(value))
            return
        assert isinstance(binding, VarBinding)
        step = self.steps[binding.var] = _Step(binding, offers)
        if isinstance(value.struct_info, TensorStructInfo):
            self.computed[binding.var] = (step, 0)
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
        for var, step in self.steps.items():
            if var in self.plain and var not in self.computed:  # a tuple that is read as a whole
                step.offers = [offer for offer in step.offers if not any(offer.results)]
        if not any(any((*offer.results, *offer.operands)) for step in self.steps.values() for offer in step.offers):
            return {}
        problem = Problem()
        numbers = {
            var: problem.node(np.array([offer.cost for offer in step.offers])) for var, step in self.steps.items()
        }
        for var in dict.fromkeys((*self.computed, *self.readers)):
            self._value(problem, numbers, var)
        chosen = solve(problem)
        taken = {var: step.offers[chosen[numbers[var]]] for var, step in self.steps.items()}
        return {var: offer for var, offer in taken.items() if any((*offer.results, *offer.operands))}

    def _value(self, problem: Problem, numbers: Mapping[Var, int], var: Var) -> None:
        """The node of a value, and its pairs with the step that computes it and those that read it."""
        step, number_of_result = self.computed.get(var, (None, 0))
        readers = self.readers.get(var, [])
        computed = [offer.layout_of_result(number_of_result) for offer in step.offers] if step is not None else [""]
        wanted = [offer.operand(number) for reader, number in readers for offer in reader.offers]
        names = sorted({*computed, *wanted, *([""] if var in self.plain else [])})
        ways = [way for name in sorted(set(computed)) for way in _ways(name, names)]
        node = problem.node(
            np.array([_copies(var, way) + (_lacks("", way) if var in self.plain else 0) for way in ways])
        )
        if step is not None:
            costs = [[0.0 if way[0] == name else np.inf for way in ways] for name in computed]
            problem.pair(numbers[step.binding.var], node, np.array(costs))
        for reader, number in readers:
            fuses = step is not None and len(readers) == 1 and has_trait(reader.binding.value, "pointwise")
            broken = copy_cost(var.struct_info) if fuses else 0.0
            costs = [
                [_lacks(name, way) + (0.0 if name == way[0] else broken) for way in ways]
                for name in (offer.operand(number) for offer in reader.offers)
            ]
            problem.pair(numbers[reader.binding.var], node, np.array(costs))


_Way: TypeAlias = "tuple[str, ...]"  # the layout in which a value is computed, then those that it is copied into


def _is_step(value: Any) -> bool:
    """Whether it is a call of an operator that gives tensors, or of a function, whose operands can be seen."""
    if not isinstance(value, Call) or not isinstance(value.op, (Op, GlobalVar)):
        return False
    seen = all(isinstance(arg, Tuple) or not isinstance(arg.struct_info, TupleStructInfo) for arg in value.args)
    gives_tensors = isinstance(value.struct_info, (TensorStructInfo, TupleStructInfo))
    return seen and (isinstance(value.op, GlobalVar) or gives_tensors)


def _ways(computed: str, names: Sequence[str]) -> Iterator[_Way]:
    """What a value may be copied into that is computed in some layout, by one copy each."""
    others = [name for name in names if name != computed and _can_be_copied(computed, name)]
    for count in range(_MOST_COPIES + 1):
        yield from ((computed, *copies) for copies in combinations(others, count))


def _can_be_copied(one: str, other: str) -> bool:
    """Whether one copy goes from a layout to another: blocks fit into each other, and both are of images, say.

    Others are layouts of weights, as a value is that an operator computes from weights.
    """
    if not one or not other:
        return True
    names = set(layout(one).names)
    cuts = (sorted(layout(text).factor_of(name) for text in (one, other)) for name in names)
    return names == set(layout(other).names) and all(large % small == 0 for small, large in cuts)


def _lacks(name: str, way: _Way) -> float:
    return 0.0 if name in way else np.inf


def _copies(var: Var, way: _Way) -> float:
    """What the copies of a value cost."""
    return sum(copy_cost(var.struct_info, way[0], name) for name in way[1:])


def copy_cost(info: Any, source: str = "", target: str = "") -> float:
    """Estimated nanoseconds of one thread to bring a tensor from one layout into another.

    It is read once and written once; where no element changes its place, nothing is done.

    Args:
        info: The type of the tensor in the graph.
        source: Layout that there is; empty is row-major.
        target: Layout that is wanted; when both are the same, a copy without a change is meant.
    """
    assert isinstance(info, TensorStructInfo)
    return _copy_cost(tuple(likely_sizes(info)), item_bytes(info.dtype or "float32"), source, target)


@lru_cache(maxsize=4096)
def _copy_cost(sizes: tuple[int, ...], element_bytes: int, source: str, target: str) -> float:
    if source != target:
        plain = row_major(source or target)
        there, wanted = layout(source or plain), layout(target or plain)
        in_memory = there.in_memory([sizes[plain.index(name)] for name in there.names])
        if rearrangement(there, wanted, in_memory).moves_nothing:
            return 0.0
    moved: float = 2.0 * float(np.prod(sizes, dtype=np.float64)) * element_bytes
    return moved / BYTES_PER_NANOSECOND + _STARTED
