"""Expressions of the reference interpreter: each becomes a Python function of the environment.

A vector is a tuple of its lanes; every operation works on one lane at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.ir.dtype import KNOWN, is_float
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import (
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Comparison,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    TruncDiv,
    TruncMod,
    Var,
    element_dtype,
    lanes_of,
)
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError, InternalError
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.interpret.call import compile_call
from eutectic.tir.interpret.machine import Code, Env, Machine, as_lanes, excerpt
from eutectic.tir.interpret.memory import Pointer, View, compact_strides
from eutectic.tir.interpret.scalar import (
    Binary,
    arithmetic,
    casting,
    comparing,
    from_integer,
    poison,
    rounding,
    wrapping,
)

_LEVELS: Final = 4  # of functions, which are three calls each at most, between those that are deep
_DIVISIONS: Final = (FloorDiv, FloorMod, TruncDiv, TruncMod)


class ExprCompiler:
    """Makes functions of expressions; each node is looked at once.

    Args:
        machine: The run that the functions belong to.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.height = 0  # of the highest tree of functions made for the present node so far
        self._codes: dict[int, tuple[Node, Code, int]] = {}  # the node is kept, so that its id stays its own

    @deep
    def code(self, expr: Node) -> Code:
        """The function of an expression."""
        known = self._codes.get(id(expr))
        if known is None:
            code, height = self.measured(lambda: self._make(expr))
            known = self._codes[id(expr)] = (expr, code, height)
        self.height = max(self.height, known[2])
        return known[1]

    def measured(self, make: Callable[[], Code]) -> tuple[Code, int]:
        """A function that is made of others, and how high the tree of them is; high ones have room to run."""
        outside, self.height = self.height, 0
        code, height = make(), self.height + 1
        self.height = outside
        return (deep(code) if height % _LEVELS == 0 else code), height

    def codes(self, exprs: Sequence[Node]) -> list[Code]:
        """The functions of several expressions."""
        return [self.code(expr) for expr in exprs]

    def _make(self, expr: Node) -> Code:
        match expr:
            case IntImm() | FloatImm() | StringImm():
                return self._constant(expr)
            case Var():
                return self._variable(expr)
            case BufferLoad():
                return self._load(expr)
            case BinaryExpr():
                return self._arithmetic(expr)
            case Comparison():
                compare = comparing(type(expr))
                return self._lanewise2(compare, self.code(expr.a), self.code(expr.b), lanes_of(expr.dtype))
            case And() | Or() | Not() | Select():
                return self._logic(expr)
            case Cast():
                return self._cast(expr)
            case Call():
                return compile_call(self, expr)
            case Let():
                return self._let(expr)
            case Ramp() | Broadcast() | Shuffle():
                return self._vector(expr)
            case Buffer():
                return lambda env: self.view(env, expr).as_array()
            case BufferRegion():
                return self._region(expr)
            case _:
                raise CodegenError(f"{type(expr).__name__} cannot be interpreted as an expression")

    # ---- leaves

    def _constant(self, expr: IntImm | FloatImm | StringImm) -> Code:
        value: Any = expr.value
        if isinstance(expr, IntImm) and expr.dtype in KNOWN:
            value = from_integer(expr.dtype)(value) if is_float(expr.dtype) else wrapping(expr.dtype)(value)
        elif isinstance(expr, FloatImm):
            value = rounding(expr.dtype)(value)
        return lambda env: value

    def _variable(self, var: Var) -> Code:
        def read(env: Env) -> Any:
            try:
                return env[var]
            except KeyError:
                raise InternalError(f"variable {var.name} has no value here") from None

        return read

    def _let(self, expr: Let) -> Code:
        var, value, body = expr.var, self.code(expr.value), self.code(expr.body)

        def bind(env: Env) -> Any:
            env[var] = value(env)
            return body(env)

        return bind

    # ---- operators

    @staticmethod
    def _lanewise2(apply: Binary, a: Code, b: Code, lanes: int) -> Code:
        if lanes == 1:
            return lambda env: apply(a(env), b(env))
        return lambda env: tuple(map(apply, a(env), b(env)))

    def _arithmetic(self, expr: BinaryExpr) -> Code:
        element = element_dtype(expr.dtype)
        apply = arithmetic(type(expr), element)
        code = self._lanewise2(apply, self.code(expr.a), self.code(expr.b), lanes_of(expr.dtype))
        if is_float(element) or not isinstance(expr, _DIVISIONS):
            return code

        def divide(env: Env) -> Any:
            try:
                return code(env)
            except ZeroDivisionError:
                raise InternalError(f"integer division by zero in {excerpt(expr)}") from None

        return divide

    def _logic(self, expr: And | Or | Not | Select) -> Code:
        lanes = lanes_of(expr.dtype)
        if isinstance(expr, Not):
            a = self.code(expr.a)
            return (lambda env: not a(env)) if lanes == 1 else (lambda env: tuple(not x for x in a(env)))
        if isinstance(expr, Select):
            return self._select(expr.condition, expr.true_value, expr.false_value)
        a, b = self.code(expr.a), self.code(expr.b)
        if isinstance(expr, And):
            if lanes > 1:
                return self._lanewise2(lambda x, y: x and y, a, b, lanes)
            return lambda env: a(env) and b(env)
        if lanes > 1:
            return self._lanewise2(lambda x, y: x or y, a, b, lanes)
        return lambda env: a(env) or b(env)

    def _select(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Code:
        """Both values are computed, then one is taken, lane by lane."""
        decide, a, b = self.code(condition), self.code(yes), self.code(no)
        lanes = lanes_of(yes.dtype)

        def choose(env: Env) -> Any:
            holds, first, second = decide(env), a(env), b(env)
            if not isinstance(holds, tuple):
                return first if holds else second
            if lanes == 1:  # a scalar for each lane of the condition
                return tuple(first if h else second for h in holds)
            return tuple(x if h else y for h, x, y in zip(holds, first, second, strict=True))

        return choose

    def _cast(self, expr: Cast) -> Code:
        value = self.code(expr.value)
        if expr.value.dtype == expr.dtype:
            return value
        if "handle" in (expr.value.dtype, expr.dtype):
            raise CodegenError(f"a conversion of {expr.value.dtype} to {expr.dtype} cannot be interpreted")
        convert = casting(element_dtype(expr.value.dtype), element_dtype(expr.dtype))
        if lanes_of(expr.dtype) == 1:
            return lambda env: convert(value(env))
        return lambda env: tuple(map(convert, value(env)))

    def _vector(self, expr: Ramp | Broadcast | Shuffle) -> Code:
        if isinstance(expr, Shuffle):
            parts, places = self.codes(expr.vectors), self.codes(expr.indices)

            def shuffle(env: Env) -> Any:
                lanes = [lane for part in parts for lane in as_lanes(part(env))]
                chosen = tuple(lanes[_lane(place(env), len(lanes))] for place in places)
                return chosen if len(chosen) > 1 else chosen[0]

            return shuffle
        count = expr.lanes
        if isinstance(expr, Broadcast):
            value = self.code(expr.value)
            return lambda env: as_lanes(value(env)) * count
        base, stride, dtype = self.code(expr.base), self.code(expr.stride), element_dtype(expr.dtype)
        wrap: Any = rounding(dtype) if is_float(dtype) else wrapping(dtype)

        def ramp(env: Env) -> Any:
            first, step = as_lanes(base(env)), as_lanes(stride(env))
            steps = step * (len(first) // len(step))
            return tuple(wrap(x + k * s) for k in range(count) for x, s in zip(first, steps, strict=True))

        return ramp

    # ---- memory

    def view(self, env: Env, buffer: Buffer) -> View:
        """A buffer that is visible, or that names memory which is."""
        visible = env.get(buffer)
        view: View = self.declare(buffer)(env) if visible is None else visible
        return view

    def declare(self, buffer: Buffer) -> Code:
        """The function that lays a buffer over the memory that its data points to."""
        shape, strides = self.codes(buffer.shape), self.codes(buffer.strides)
        offset = None if buffer.elem_offset is None else self.code(buffer.elem_offset)

        def lay(env: Env) -> View:
            pointer = env.get(buffer.data)
            if not isinstance(pointer, Pointer):
                raise InternalError(f"buffer {buffer.name} has no memory here: its data is not bound")
            sizes = tuple(size(env) for size in shape)
            steps = tuple(step(env) for step in strides) if strides else compact_strides(sizes)
            return View(buffer, pointer, 0 if offset is None else offset(env), sizes, steps)

        return lay

    def _load(self, expr: BufferLoad) -> Code:
        buffer, trace = expr.buffer, self.machine.access_trace
        indices = self.codes(expr.indices)
        vector = any(lanes_of(index.dtype) > 1 for index in expr.indices)
        if vector or expr.predicate is not None or lanes_of(buffer.dtype) > 1:
            return self._load_vector(expr)

        def load(env: Env) -> Any:
            at = tuple([index(env) for index in indices])
            view = env.get(buffer) or self.view(env, buffer)
            value = view.read(view.position(at), at)
            if trace is not None:
                trace(buffer, at, False)
            return value

        return load

    def _load_vector(self, expr: BufferLoad) -> Code:
        buffer, trace = expr.buffer, self.machine.access_trace
        places = self.places(expr.indices, expr.predicate)
        hole = poison(element_dtype(buffer.dtype))

        def load(env: Env) -> Any:
            view = self.view(env, buffer)
            elements: list[Any] = []
            for at, active in places(env):
                if not active:
                    elements += [hole] * view.lanes
                    continue
                where = view.position(at)
                elements += [view.read(where + lane, at) for lane in range(view.lanes)]
                if trace is not None:
                    trace(buffer, at, False)
            return tuple(elements) if len(elements) > 1 else elements[0]

        return load

    def places(
        self, indices: Sequence[PrimExpr], predicate: PrimExpr | None
    ) -> Callable[[Env], list[tuple[tuple[int, ...], bool]]]:
        """The function that gives, for each lane of an access, its indices and whether it takes part."""
        codes = self.codes(indices)
        lanes = max((lanes_of(index.dtype) for index in indices), default=1)
        holds = None if predicate is None else self.code(predicate)

        def lay(env: Env) -> list[tuple[tuple[int, ...], bool]]:
            values = [code(env) for code in codes]
            mask = (True,) * lanes if holds is None else as_lanes(holds(env))
            mask = mask if len(mask) == lanes else mask * lanes
            at = zip(*(v if isinstance(v, tuple) else (v,) * lanes for v in values), strict=True)
            return list(zip(at if values else [()], mask, strict=True))

        return lay

    def _region(self, expr: BufferRegion) -> Code:
        begins, extents = self.codes([r.min for r in expr.region]), self.codes([r.extent for r in expr.region])

        def take(env: Env) -> Any:
            view = self.view(env, expr.buffer)
            return view.sub_view(expr.buffer, [b(env) for b in begins], [e(env) for e in extents]).as_array()

        return take


def _lane(place: int, lanes: int) -> int:
    if not 0 <= place < lanes:
        raise InternalError(f"a shuffle takes lane {place} of {lanes}")
    return place
