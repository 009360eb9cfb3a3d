"""The plan of a compiled model as plain data: its groups in the order of execution, and why they are not one.

All of it is known while compiling only, so it is a part of the report, which goes with a model wherever it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import prod
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy by name
import numpy as np

from eutectic.support.deep import deep

Kind: TypeAlias = Literal["kernel", "library", "view", "host"]
Size: TypeAlias = "int | str"
T = TypeVar("T")
NO_TIME: Final = ("view",)  # kinds that nothing is executed for


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A tensor that an operator or a group reads or gives.

    Attributes:
        name: Variable in the graph; empty for a constant.
        shape: Sizes; a symbolic one as text.
        dtype: Its dtype.
        constant: Whether it is a weight or another constant of the model.
        at: The sizes in the call that is explained, where some are symbolic; else empty.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    constant: bool = False
    at: tuple[int, ...] = ()

    @property
    def bytes(self) -> int | None:
        """Its size in memory; None when that is symbolic, and no call is known."""
        sizes = [size for size in self.at or self.shape if isinstance(size, int)]
        known = len(sizes) == len(self.shape) and self.dtype
        return prod(sizes) * np.dtype(self.dtype).itemsize if known else None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator of the model.

    Attributes:
        op: Its name, such as `relax.nn.conv2d`; of a part of one that was decomposed, the name of the tensor program.
        variable: The variable in the graph that holds its result.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
        reads: Its operands.
        results: What it gives.
        flops: Floating-point operations by the formula of `relax.analysis.flops`; None when not known.
        part_of: The operator that it is a part of; empty for a whole one.
        work: The same as an expression of symbolic sizes; empty where there are none.
    """

    op: str
    variable: str
    module: str = ""
    source: str = ""
    reads: tuple[TensorRecord, ...] = ()
    results: tuple[TensorRecord, ...] = ()
    flops: int | None = None
    part_of: str = ""
    work: str = ""

    @property
    def label(self) -> str:
        """Its name without the prefix, and its variable."""
        return operator_label(self.op, self.variable)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Operators that are executed together.

    Attributes:
        kind: `kernel` of ours, `library`, `view` for other shapes of a tensor, and for parts of one that are computed
            in their places, both of which cost nothing, `host` for Python.
        backend: Who made it, such as `llvm` or `dnnl`; `host` for Python.
        name: Name of the kernel, or of the external function.
        pattern: The pattern that matched, or the tensor programs in it.
        operators: In the order of execution.
        inputs: What it reads from memory.
        results: What it writes.
        reads: Numbers of the groups whose results it reads.
        flops: Floating-point operations: counted in the tensor program for a kernel of ours, by formula for others.
        trace: Steps of the default schedule, line by line.
        region: The call of a library that computes it, maybe with others; empty for others than libraries.
        note: What is special about it, such as why it runs in Python.
        work: `flops` as an expression of symbolic sizes; empty where there are none.
        chosen: What the rules of the default schedule chose, a line for each choice, which ends with `(default)` or
            `(tuned)`; then which rules a primitive refused, so that a slower one was taken, and why.
        times: How often a call computes it, for so many pieces of a batch. Bytes and operations are of all
            pieces, operands and results those of one.
    """

    kind: Kind
    backend: str
    name: str
    pattern: str
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[TensorRecord, ...] = ()
    results: tuple[TensorRecord, ...] = ()
    reads: tuple[int, ...] = ()
    flops: int | None = None
    trace: tuple[str, ...] = ()
    region: str = ""
    note: str = ""
    work: str = ""
    chosen: tuple[str, ...] = ()
    times: int = 1

    @property
    def bytes_fused(self) -> int | None:
        """Bytes of what it reads and writes, constants apart."""
        size = 0 if self.kind == "view" else _bytes(self.inputs, self.results)
        return None if size is None else size * self.times

    @property
    def bytes_unfused(self) -> int | None:
        """Bytes that its operators would read and write if each were executed by itself, constants apart."""
        parts = [_bytes(operator.reads, operator.results) for operator in self.operators]
        known = [part for part in parts if part is not None]
        return 0 if self.kind == "view" else sum(known) * self.times if len(known) == len(parts) else None

    @property
    def constant_bytes(self) -> int | None:
        """Bytes of the constants that it reads."""
        sizes = [tensor.bytes for tensor in self.inputs if tensor.constant]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def gives(self) -> str:
        """What it writes, for people; how often, if that is not once."""
        results = ", ".join(map(str, self.results))
        return f"{self.times} x {results}" if self.times > 1 else results

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths of the user's modules, each once."""
        return tuple(dict.fromkeys(operator.module for operator in self.operators if operator.module))

    @property
    def sources(self) -> tuple[str, ...]:
        """Lines of the user's code, each once."""
        return tuple(dict.fromkeys(operator.source for operator in self.operators if operator.source))


@dataclass(frozen=True, slots=True)
class BoundaryRecord:
    """Why a group and one that reads its result are two.

    Attributes:
        source: Number of the first.
        reader: Number of the second.
        value: The operator whose result is read: its place in the group.
        user: The operator that reads it: its place in the group.
        rule: Which rule keeps them apart, in a few words; the same words for the same rule.
        reason: The rule with the operators in it, as a sentence.
    """

    source: int
    reader: int
    value: int
    user: int
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class MissRecord:
    """A pattern of a library that nearly matched.

    Attributes:
        group: Number of the group that has the operator now.
        pattern: Name of the pattern.
        op: The operator at the root of the match.
        variable: Its variable.
        constraint: What kind of requirement failed.
        reason: Why it did not match, as a sentence.
        expected: What was asked for.
        actual: What was there.
    """

    group: int
    pattern: str
    op: str
    variable: str
    constraint: str
    reason: str
    expected: str = ""
    actual: str = ""


@dataclass(frozen=True, slots=True)
class SizeRecord:
    """A symbolic size.

    Attributes:
        name: What it is called.
        value: Its value in a call.
    """

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What a model became.

    Attributes:
        groups: In the order of execution.
        boundaries: One for each group and group that reads its result, in the order of the readers.
        misses: Patterns that nearly matched.
        sizes: Symbolic sizes of the example that the model was compiled with, or of the call that is explained.
    """

    groups: tuple[GroupRecord, ...] = ()
    boundaries: tuple[BoundaryRecord, ...] = ()
    misses: tuple[MissRecord, ...] = ()
    sizes: tuple[SizeRecord, ...] = ()


def operator_label(op: str, variable: str) -> str:
    """An operator for people: `conv2d (lv3)`."""
    return f"{op.removeprefix('relax.').removeprefix('nn.')} ({variable})"


@deep
def from_tree(kind: type[T], tree: Any) -> T:
    """A dataclass of plain data from what `dataclasses.asdict` and JSON make of it.

    Args:
        kind: A dataclass whose fields are numbers, texts, other such dataclasses, tuples of these, or None.
        tree: Its fields by name; fields with a default may be missing, unknown ones are left alone.

    Raises:
        KeyError: a field is missing.
        TypeError: a value is of another kind.
    """
    if not isinstance(tree, Mapping):
        raise TypeError(f"expected the fields of a {kind.__name__}, got {type(tree).__name__}")
    hints = _hints(cast(Any, kind))
    known = {f.name: _value(hints[f.name], tree[f.name]) for f in fields(kind) if f.name in tree}  # type: ignore[arg-type]  # kind is a dataclass
    return kind(**known)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@deep
def _value(hint: Any, value: Any) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return from_tree(hint, value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        return tuple(_value(inner[0] if inner[-1] is ... else inner[i], item) for i, item in enumerate(value))
    if origin is UnionType:
        plain = [part for part in inner if is_dataclass(part)]
        return _value(plain[0], value) if plain and value is not None else value
    return value


def _bytes(*tensors: tuple[TensorRecord, ...]) -> int | None:
    """Bytes of tensors that are no constants, each name once per tuple."""
    total = 0
    for part in tensors:
        for tensor in {(t.name, t.shape, t.dtype): t for t in part if not t.constant}.values():
            if tensor.bytes is None:
                return None
            total += tensor.bytes
    return total
