"""Statements other than blocks; model file of a node is `DESIGN.md`'s `tir/loops.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eutectic.ir.attrs import DictAttrs, make_attrs
from eutectic.ir.extent import checked_extent
from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_expr import IntImm, PrimExpr, StringImm, Var, as_prim, broadcast, lanes_of
from eutectic.ir.span import Span
from eutectic.support.errors import WellFormedError
from eutectic.tir.buffer import Buffer, access_dtype, indices_of
from eutectic.tir.iter_var import IterVar, as_index

FOR_KINDS: Final = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class ForKind:
    """The kinds of loops; what TVM has as an enumeration are strings here."""

    SERIAL: Final = "serial"
    PARALLEL: Final = "parallel"
    VECTORIZED: Final = "vectorized"
    UNROLLED: Final = "unrolled"
    THREAD_BINDING: Final = "thread_binding"


@node("tir.Stmt")
class Stmt(Node):
    """Base of statements.

    Attributes:
        span: Where in the user's source the statement comes from.
    """

    span: Span | None = field(role="ignore", default=None, kw_only=True)


@node("tir.BufferStore")
class BufferStore(Stmt):
    """`buffer[indices] = value`.

    Attributes:
        buffer: What is written to.
        value: The new element; Python numbers take the buffer's dtype.
        indices: One index per axis; the last may be a vector.
        predicate: Bool vector that says which lanes are stored; None for all.
    """

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def __post_init__(self) -> None:
        init_field(self, "indices", indices_of(self.indices))
        received: Any = self.value
        if not isinstance(received, PrimExpr):
            lanes = lanes_of(access_dtype(self.buffer, self.indices))
            value = as_prim(received, self.buffer.dtype)
            init_field(self, "value", broadcast(value, lanes) if lanes_of(value.dtype) == 1 else value)
        if self.predicate is not None:
            init_field(self, "predicate", as_prim(self.predicate, "bool"))


@node("tir.Evaluate")
class Evaluate(Stmt):
    """An expression computed for its effect; `Evaluate(0)` does nothing.

    Attributes:
        value: The expression.
    """

    value: PrimExpr

    def __post_init__(self) -> None:
        received: Any = self.value
        init_field(self, "value", StringImm(received) if isinstance(received, str) else as_prim(received, "int32"))


@node("tir.SeqStmt")
class SeqStmt(Stmt):
    """Statements one after another; sequences inside are flattened.

    Attributes:
        seq: The statements, at least two.

    Raises:
        WellFormedError: there are fewer than two; `seq(...)` takes any number.
    """

    seq: tuple[Stmt, ...]

    def __post_init__(self) -> None:
        init_field(self, "seq", tuple(_flat(self.seq)))
        if len(self.seq) < 2:
            raise WellFormedError(
                f"a sequence has at least 2 statements, got {len(self.seq)}", help="build it with tir.stmt.seq(...)"
            )

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)


def _flat(stmts: Any) -> list[Stmt]:
    out: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, SeqStmt):
            out += stmt.seq
        elif stmt is not None:
            out.append(stmt)
    return out


def seq(*stmts: Stmt | None) -> Stmt:
    """One statement of many: a sequence, the statement itself, or one that does nothing; None is left out."""
    listed = _flat(stmts)
    if not listed:
        return Evaluate(IntImm("int32", 0))
    return listed[0] if len(listed) == 1 else SeqStmt(tuple(listed))


def parts_of(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of a sequence; of any other statement that one."""
    return body.seq if isinstance(body, SeqStmt) else (body,)


@node("tir.For")
class For(Stmt):
    """`for loop_var in range(min, min + extent): body`.

    Attributes:
        loop_var: Integer variable bound here; visible in `body` only.
        min: First value; constants take the variable's dtype.
        extent: Number of iterations; not negative.
        kind: One of `FOR_KINDS`, or TVM's number of it; anything but `serial`
            and `unrolled` is a promise that the iterations may run in any order.
        body: Executed once per iteration.
        thread_binding: Hardware axis, set exactly when `kind` is
            `thread_binding`; a tag such as `blockIdx.x` makes a new one.
        annotations: Hints by key.

    Raises:
        WellFormedError: extent is a negative constant, `kind` is unknown,
            `thread_binding` does not go with it, or dtypes differ.
    """

    loop_var: Var = field(role="def")
    min: PrimExpr
    extent: PrimExpr
    kind: str
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: DictAttrs = DictAttrs()

    def __post_init__(self) -> None:
        received: Any = self.kind
        init_field(self, "kind", FOR_KINDS[received] if isinstance(received, int) and 0 <= received < 5 else received)
        init_field(self, "min", as_index(self.min, self.loop_var.dtype))
        init_field(self, "extent", as_index(self.extent, self.loop_var.dtype))
        init_field(self, "annotations", _annotations(self.annotations))
        bound_to: Any = self.thread_binding
        if isinstance(bound_to, str):
            thread = IterVar(None, Var("", self.loop_var.dtype), "thread_index", bound_to)
            init_field(self, "thread_binding", thread)
        name = self.loop_var.name
        if isinstance(self.extent, IntImm):
            checked_extent(self.extent, f"loop {name}")
        if self.kind not in FOR_KINDS:
            raise WellFormedError(f"loop {name} has unknown kind {self.kind!r}; known: {', '.join(FOR_KINDS)}")
        if (self.thread_binding is not None) != (self.kind == "thread_binding"):
            tag = None if self.thread_binding is None else self.thread_binding.thread_tag
            raise WellFormedError(f"loop {name}: kind {self.kind!r} with thread {tag!r}")
        for what, bound in (("begins at", self.min), ("has an extent of", self.extent)):
            if bound.dtype != self.loop_var.dtype:
                raise WellFormedError(f"loop {name} of {self.loop_var.dtype} {what} {bound.dtype}")

    @property
    def static_extent(self) -> int | None:
        """The extent when it is a constant, else None."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


def _annotations(hints: Mapping[str, Any] | DictAttrs | None) -> DictAttrs:
    return make_attrs(hints)


@node("tir.While")
class While(Stmt):
    """`while condition: body`.

    Attributes:
        condition: Bool, computed before each iteration.
        body: Executed while it holds.
    """

    condition: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        init_field(self, "condition", as_prim(self.condition, "bool"))


@node("tir.IfThenElse")
class IfThenElse(Stmt):
    """`if condition: then_case else: else_case`.

    Attributes:
        condition: Bool.
        then_case: Executed when it holds.
        else_case: Executed otherwise; None for nothing.
    """

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None

    def __post_init__(self) -> None:
        init_field(self, "condition", as_prim(self.condition, "bool"))


@node("tir.LetStmt")
class LetStmt(Stmt):
    """`body`, in which `var` stands for `value`, computed once.

    Attributes:
        var: Variable bound here.
        value: Its value, of the same dtype.
        body: Where it is visible.
    """

    var: Var = field(role="def")
    value: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        init_field(self, "value", as_prim(self.value, self.var.dtype))


@node("tir.AttrStmt")
class AttrStmt(Stmt):
    """`body` with a remark for later passes.

    Attributes:
        node: What the remark is about: an axis, a variable, a buffer or a constant.
        attr_key: Kind of remark, such as `thread_extent`.
        value: Its value.
        body: Where it holds.
    """

    node: Node
    attr_key: str
    value: PrimExpr
    body: Stmt

    def __post_init__(self) -> None:
        about: Any = self.node
        value: Any = self.value
        if not isinstance(about, Node):
            init_field(self, "node", StringImm(about) if isinstance(about, str) else as_prim(about, "int32"))
        init_field(self, "value", StringImm(value) if isinstance(value, str) else as_prim(value, "int32"))


@node("tir.AssertStmt")
class AssertStmt(Stmt):
    """`body`, after a check at run time.

    Attributes:
        condition: Bool that must hold.
        message: What is said when it does not.
        body: What follows.
    """

    condition: PrimExpr
    message: StringImm
    body: Stmt

    def __post_init__(self) -> None:
        init_field(self, "condition", as_prim(self.condition, "bool"))
        message: Any = self.message
        if isinstance(message, str):
            init_field(self, "message", StringImm(message))


@node("tir.Allocate")
class Allocate(Stmt):
    """`body` with memory of its own; the scope is that of `buffer_var`'s pointer type.

    Attributes:
        buffer_var: Pointer to the memory, bound here.
        dtype: Dtype of an element.
        extents: Elements per axis.
        condition: Whether the memory is needed.
        body: Where it exists.
        annotations: Hints by key.
    """

    buffer_var: Var = field(role="def")
    dtype: str
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: DictAttrs = DictAttrs()

    def __post_init__(self) -> None:
        init_field(self, "extents", indices_of(self.extents))
        for axis, extent in enumerate(self.extents):
            checked_extent(extent, f"axis {axis} of memory {self.buffer_var.name}")
        init_field(self, "condition", as_prim(self.condition, "bool"))
        init_field(self, "annotations", _annotations(self.annotations))


@node("tir.DeclBuffer")
class DeclBuffer(Stmt):
    """`body`, in which `buffer` names memory that exists already.

    Attributes:
        buffer: The buffer declared here; its `data` is bound elsewhere.
        body: Where it is visible.
    """

    buffer: Buffer = field(role="def")
    body: Stmt
