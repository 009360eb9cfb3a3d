"""Where a plan's tensors live: those that are alive at the same time never overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eutectic.backend.plan import ALIGNMENT, CopyStep, Plan, Tensor, needs_barrier, place
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var

N, M = Var("n", "int64"), Var("m", "int64")


def constant(size: int) -> IntImm:
    return IntImm("int64", size)


def tensor(name: str, *dims: Any, dtype: str = "float32", home: Any = "arena", number: int = -1) -> Tensor:
    return Tensor(name, dtype, tuple(constant(d) if isinstance(d, int) else d for d in dims), home, number)


def chain(tensors: list[Tensor]) -> list[CopyStep]:
    return [CopyStep(a, b) for a, b in pairwise(tensors)]


def number(value: PrimExpr | None, sizes: dict[Var, int]) -> int:
    """The value of a size."""
    assert value is not None
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, Var):
        return sizes[value]
    a, b = number(value.a, sizes), number(value.b, sizes)  # type: ignore[attr-defined]
    return {"Add": a + b, "Mul": a * b, "FloorDiv": a // b if b else 0}[type(value).__name__]


def check(plan: Plan, sizes: dict[Var, int]) -> None:
    """No two tensors that are alive at the same time share a byte, and all are inside of the arena."""
    found = {id(t): t for step in plan.steps for t in step.tensors if t.home == "arena"}
    spans = []
    for item in found.values():
        low = number(item.offset, sizes)
        assert low % ALIGNMENT == 0
        spans.append((low, low + number(item.bytes, sizes), item))
        assert spans[-1][1] <= number(plan.arena_bytes, sizes)
    for k, (low, high, one) in enumerate(spans):
        for other_low, other_high, other in spans[:k]:
            alive_together = one.first <= other.last and other.first <= one.last
            assert not (alive_together and low < other_high and other_low < high), (one, other)


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12)
FIXED = st.lists(st.integers(0, 400), min_size=8, max_size=8)


@given(STEPS, FIXED)
def test_tensors_of_known_size(steps: list[tuple[int, int]], sizes: list[int]):
    tensors = [tensor(f"t{k}", size) for k, size in enumerate(sizes)]
    plan = Plan("f", steps=[CopyStep(tensors[a], tensors[b]) for a, b in steps])
    place(plan)
    check(plan, {})
    assert plan.live_bytes <= number(plan.arena_bytes, {}) <= plan.unshared_bytes


@given(
    STEPS, st.lists(st.sampled_from([1, 7, 33, N, M, N * M, N + 3, "n"]), min_size=8, max_size=8), st.integers(0, 50)
)
def test_tensors_of_symbolic_size(steps: list[tuple[int, int]], dims: list[Any], m: int):
    tensors = [tensor(f"t{k}", *((N, 3) if size == "n" else (size,))) for k, size in enumerate(dims)]
    plan = Plan("f", steps=[CopyStep(tensors[a], tensors[b]) for a, b in steps])
    place(plan)
    for n in (0, 1, 17, 64):
        check(plan, {N: n, M: m})


def test_memory_is_used_again():
    chained = [tensor(f"t{k}", 100) for k in range(10)]
    plan = Plan("f", steps=list(chain(chained)))
    place(plan)
    assert (plan.live_bytes, number(plan.arena_bytes, {}), plan.unshared_bytes) == (896, 896, 4480)
    symbolic = [tensor(f"t{k}", N) for k in range(10)]
    plan = Plan("f", steps=list(chain(symbolic)))
    place(plan)
    assert number(plan.arena_bytes, {N: 16}) == 128


def test_steps_that_need_no_barrier():
    a, b, c, d = (tensor(name, 16) for name in "abcd")
    x, y = tensor("x", 16, home="input", number=0), tensor("y", 16, home="output", number=0)
    plan = Plan(
        "f", steps=[CopyStep(x, a), CopyStep(x, b), CopyStep(a, c), CopyStep(b, d), CopyStep(c, y), CopyStep(d, y)]
    )
    place(plan)
    first, second, third, fourth, fifth, sixth = plan.steps
    assert not needs_barrier([first], second)
    assert needs_barrier([first, second], third)
    assert needs_barrier([second], fourth)
    assert needs_barrier([fifth], sixth)  # both write y


def test_reading_twice_is_no_conflict_and_writing_what_is_read_is():
    x = tensor("x", 16, home="input", number=0)
    y, z = (tensor(name, 16, home="output", number=k) for k, name in enumerate("yz"))
    assert not needs_barrier([CopyStep(x, y)], CopyStep(x, z))
    assert needs_barrier([CopyStep(y, z)], CopyStep(x, y))
    weights = tensor("w", 16, home="constant", number=0)
    assert not needs_barrier([CopyStep(weights, y)], CopyStep(weights, z))


def test_symbolic_places_count_as_conflicts():
    a, b, c = tensor("a", N), tensor("b", N), tensor("c", M)
    plan = Plan("f", steps=[CopyStep(a, b), CopyStep(b, c)])
    place(plan)
    assert needs_barrier([plan.steps[0]], plan.steps[1])


def parts_of(whole: Tensor, *sizes: int) -> list[Tensor]:
    """Tensors one after another in the memory of one."""
    parts = [tensor(f"{whole.name}{k}", size) for k, size in enumerate(sizes)]
    for k, part in enumerate(parts):
        part.inside, part.start = whole, sum(sizes[:k]) * 4
    return parts


def test_parts_live_in_the_memory_of_the_whole():
    x, y = tensor("x", 40, home="input", number=0), tensor("y", 40, home="output", number=0)
    whole = tensor("whole", 40)
    left, right = parts_of(whole, 24, 16)
    inner = parts_of(left, 8, 16)
    other = tensor("other", 40)
    plan = Plan("f", steps=[CopyStep(x, inner[1]), CopyStep(x, other), CopyStep(other, right), CopyStep(whole, y)])
    place(plan)
    assert (whole.first, whole.last) == (0, 3)
    assert inner[1].memory == (whole, 32)
    assert plan.unshared_bytes == number(plan.arena_bytes, {}) == 2 * 192  # nothing for the parts
    first, second, third, fourth = plan.steps
    assert not needs_barrier([first], third)  # parts that do not overlap
    assert needs_barrier([second], third)
    assert needs_barrier([first], fourth)
    assert needs_barrier([third], fourth)
    assert needs_barrier([CopyStep(x, left)], CopyStep(x, inner[0]))
    whole.home, whole.number = "output", 1
    assert not needs_barrier([first], third)
    assert needs_barrier([first], CopyStep(whole, y))
