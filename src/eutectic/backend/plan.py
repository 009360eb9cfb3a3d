"""Which kernels a piece of graph runs, in which order, and where its tensors live.

Intermediates share one arena: a tensor takes the lowest place where nothing lives
that is alive at the same time (first fit, largest first); tensors of symbolic size
reuse each other's memory when their sizes are the same expression. A reshape is
another view of the same memory. A tensor may lie inside of another one, whose
memory it is a part of: then only the outermost has a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from eutectic.backend.agreements import Agreement
from eutectic.backend.kernel import Built
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, add, mul
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.structural import structural_equal
from eutectic.support.errors import CodegenError

Home: TypeAlias = Literal["input", "output", "constant", "arena"]
ALIGNMENT: Final = 64
LARGEST_BYTES: Final = 1 << 47  # no memory has more
LIBRARY_BYTES: Final = ScalarVar("library_bytes", "int64")  # what each library is given whose sizes vary
LIBRARY_TABLE: Final = ScalarVar("library_table", "int64")  # address of the table of libraries for the sizes of a call


@dataclass(frozen=True)
class Bounds:
    """Least and largest value of a symbolic size; None where there is no limit."""

    low: int = 0
    high: int | None = None


@dataclass
class Tensor:
    """Memory of a call.

    Attributes:
        name: Of the variable, for people.
        dtype: Dtype of an element.
        dims: Elements per axis.
        home: Where it lives.
        number: Which input, output or constant it is.
        offset: Bytes from the beginning of the arena; set by `place`.
        first: Number of the first step that uses it.
        last: Number of the last step that uses it.
        inside: The tensor whose memory it is a part of; None for memory of its own. Then `home`, `number`, `offset`,
            `first` and `last` are those of the outermost.
        start: Bytes from the beginning of `inside`.
    """

    name: str
    dtype: str
    dims: tuple[PrimExpr, ...]
    home: Home
    number: int = -1
    offset: PrimExpr | None = None
    first: int = -1
    last: int = -1
    inside: Tensor | None = None
    start: int = 0

    @property
    def memory(self) -> tuple[Tensor, int]:
        """The outermost tensor whose memory it is, and how many bytes from the beginning of that it begins."""
        if self.inside is None:
            return self, 0
        outermost, start = self.inside.memory
        return outermost, start + self.start

    @property
    def elements(self) -> PrimExpr:
        """Number of elements."""
        count: PrimExpr = IntImm("int64", 1)
        for size in self.dims:
            count = mul(count, size)
        return count

    @property
    def bytes(self) -> PrimExpr:
        """Size in memory, a multiple of the alignment."""
        count = mul(self.elements, item_bytes(self.dtype))
        if isinstance(count, IntImm):
            return IntImm("int64", _aligned(count.value))
        return mul((count + (ALIGNMENT - 1)) // ALIGNMENT, ALIGNMENT)

    def touch(self, step: int) -> None:
        """Note that a step uses it."""
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)


@dataclass(frozen=True)
class KernelStep:
    """A call of a kernel.

    Attributes:
        name: Of the tensor program.
        kernel: What is called.
        tensors: One per buffer, inputs before outputs.
        writes: How many of the tensors, from the end, are written.
        scalars: Values of scalar parameters.
        shapes: Values of the kernel's shape variables.
        workspaces: Memory for the kernel's own values.
    """

    name: str
    kernel: Built
    tensors: tuple[Tensor, ...]
    writes: int
    scalars: tuple[PrimExpr, ...]
    shapes: tuple[PrimExpr, ...]
    workspaces: tuple[Tensor, ...]


@dataclass(frozen=True)
class CopyStep:
    """Copies a tensor; where a result would otherwise share memory with an input, a constant or another result."""

    source: Tensor
    target: Tensor
    name: str = "copy"
    writes: int = 1

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Source and target."""
        return (self.source, self.target)

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class LibraryStep:
    """A call of a library, made by the calling thread between the work of the team.

    Attributes:
        name: Of what the library computes.
        number: Which of the plan's libraries it is.
        tensors: What it reads, then what it writes.
        writes: How many of the tensors, from the end, are written.
        workspaces: Memory for itself; none when it needs none.
    """

    name: str
    number: int
    tensors: tuple[Tensor, ...]
    writes: int
    workspaces: tuple[Tensor, ...]


Step: TypeAlias = KernelStep | CopyStep | LibraryStep


@dataclass
class Plan:
    """A piece of graph, ready to be written as one native function.

    Attributes:
        name: For messages.
        inputs: Tensors that are given.
        outputs: Tensors that are filled.
        constants: Tensors that are the same at every call, with `arrays` in the same order.
        libraries: Symbols of the library kernels that are called.
        symbols: Symbolic sizes that are not sizes of an input; they are given as integers.
        varying: For each library its sizes that vary from call to call.
        steps: What is done.
        agreements: Sizes that must be one in every call.
        arena_bytes: Size of the memory for everything else; set by `place`.
        live_bytes: The most that is alive at a time, of tensors of constant size; no plan needs less.
        unshared_bytes: What the tensors of constant size would need without sharing memory.
    """

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    symbols: list[ScalarVar] = field(default_factory=list)
    varying: list[tuple[PrimExpr, ...]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    arena_bytes: PrimExpr = field(default_factory=lambda: IntImm("int64", 0))
    live_bytes: int = 0
    unshared_bytes: int = 0

    @property
    def prepared(self) -> tuple[ScalarVar, ...]:
        """Where the sizes of libraries vary, what is given last: `LIBRARY_BYTES` and `LIBRARY_TABLE`."""
        return (LIBRARY_BYTES, LIBRARY_TABLE) if any(self.varying) else ()

    @property
    def timed(self) -> list[KernelStep | LibraryStep]:
        """The steps that have a time of their own; that of a copy belongs to the step before it."""
        return [step for step in self.steps if not isinstance(step, CopyStep)]

    @property
    def integers(self) -> tuple[ScalarVar, ...]:
        """All integers that are given."""
        return (*self.symbols, *self.prepared)


def arena_tensors(plan: Plan) -> list[Tensor]:
    """The tensors that live in the arena, each once."""
    used = (tensor.memory[0] for step in plan.steps for tensor in (*step.tensors, *step.workspaces))
    return list({id(tensor): tensor for tensor in used if tensor.home == "arena"}.values())


def sizes_text(sizes: Iterable[PrimExpr]) -> str:
    """Sizes as people write them: `3, n * 2`."""
    return ", ".join(str(size.value) if isinstance(size, IntImm) else str(size) for size in sizes)


def place(plan: Plan) -> None:
    """Give every tensor of the arena its offset.

    Raises:
        CodegenError: one has a size that no memory has.
    """
    for number, step in enumerate(plan.steps):
        for tensor in (*step.tensors, *step.workspaces):
            tensor.memory[0].touch(number)
    fixed = [(tensor, _constant_bytes(tensor)) for tensor in arena_tensors(plan)]
    for tensor, size in fixed:
        if size is not None and not 0 <= size <= LARGEST_BYTES:
            raise CodegenError(f"{plan.name}: {tensor.name} needs {size} bytes, which no memory has")
    sized = [(tensor, size) for tensor, size in fixed if size is not None]
    total = _first_fit(sized)
    plan.live_bytes = _most_alive(sized)
    plan.unshared_bytes = sum(size for _, size in sized)
    plan.arena_bytes = _place_symbolic([tensor for tensor, size in fixed if size is None], total)


def _constant_bytes(tensor: Tensor) -> int | None:
    size = tensor.bytes
    return size.value if isinstance(size, IntImm) else None


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _first_fit(sized: Sequence[tuple[Tensor, int]]) -> int:
    """Offsets for tensors of known size; largest first.

    Returns:
        The bytes that are needed.
    """
    placed: list[tuple[int, int, Tensor]] = []  # offset, end
    top = 0
    for tensor, size in sorted(sized, key=lambda item: (-item[1], item[0].first)):
        taken = sorted(
            (low, high) for low, high, other in placed if other.first <= tensor.last and tensor.first <= other.last
        )
        at = 0
        for low, high in taken:
            if at + size <= low:
                break
            at = max(at, high)
        tensor.offset = IntImm("int64", at)
        placed.append((at, at + size, tensor))
        top = max(top, at + size)
    return top


def _most_alive(sized: Sequence[tuple[Tensor, int]]) -> int:
    change: dict[int, int] = {}
    for tensor, size in sized:
        change[tensor.first] = change.get(tensor.first, 0) + size
        change[tensor.last + 1] = change.get(tensor.last + 1, 0) - size
    alive = most = 0
    for step in sorted(change):
        alive += change[step]
        most = max(most, alive)
    return most


def _place_symbolic(tensors: Iterable[Tensor], start: int) -> PrimExpr:
    """Offsets behind `start` for tensors of symbolic size; one that is dead lends its place to one of equal size."""
    slots: list[tuple[PrimExpr, list[Tensor]]] = []
    for tensor in sorted(tensors, key=lambda item: item.first):
        size = tensor.bytes
        for known, users in slots:
            if users[-1].last < tensor.first and structural_equal(known, size):
                users.append(tensor)
                break
        else:
            slots.append((size, [tensor]))
    offset: PrimExpr = IntImm("int64", start)
    for size, users in slots:
        for tensor in users:
            tensor.offset = offset
        offset = add(offset, size)
    return offset


def needs_barrier(done: Sequence[Step], step: Step) -> bool:
    """Whether a step must wait for steps that were begun since the last barrier."""
    reads, writes = _split(step)
    for other in done:
        read, written = _split(other)
        if _overlap(written, [*reads, *writes]) or _overlap(read, writes):
            return True
    return False


def _split(step: Step) -> tuple[list[Tensor], list[Tensor]]:
    cut = len(step.tensors) - step.writes
    return list(step.tensors[:cut]), [*step.tensors[cut:], *step.workspaces]


def _overlap(these: Sequence[Tensor], those: Sequence[Tensor]) -> bool:
    return any(_meet(a, b) for a in these for b in those)


def _meet(a: Tensor, b: Tensor) -> bool:
    (whole_a, start_a), (whole_b, start_b) = a.memory, b.memory
    if whole_a.home != whole_b.home or whole_a.home == "constant":
        return False
    if whole_a.home != "arena" and whole_a.number != whole_b.number:
        return False
    begins = [IntImm("int64", 0) if whole.home != "arena" else whole.offset for whole in (whole_a, whole_b)]
    known = [item.value for item in (*begins, a.bytes, b.bytes) if isinstance(item, IntImm)]
    if len(known) < 4:
        return True
    low_a, low_b, size_a, size_b = known[0] + start_a, known[1] + start_b, *known[2:]
    return bool(low_a < low_b + size_b and low_b < low_a + size_a)
