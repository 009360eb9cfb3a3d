"""Executable: what it takes, what it refuses and in which words, and that results belong to the caller."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eutectic.runtime.executable import Executable
from eutectic.runtime.instructions import CallHost, Check, Literal, RunLibrary
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.loading import Loading
from eutectic.runtime.params import TensorParam
from eutectic.runtime.program import Program
from eutectic.runtime.sizes import SizeExpr
from eutectic.support.errors import CallError

F32 = np.dtype("float32")


def param(name="x", shape=(2, 3), dtype=F32, rank=None, ranges=None) -> TensorParam:
    return TensorParam(name, np.dtype(dtype), shape, len(shape) if rank is None else rank, ranges or {})


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def program(params, instructions, slots, constants, results, copied=(), fill=None) -> Executable:
    """An executable whose one library has one kernel, a function."""
    made = Program(tuple(params), tuple(instructions), slots, constants, tuple(results), tuple(copied))
    return Executable(made, Loading(lambda name: lambda kernel, threads: fill))


KERNEL = LibraryKernel("some", "kernel", {}, {})
NEXT = SizeExpr("add", ("n", 1))


def identity(*params: TensorParam) -> Executable:
    return program(params, (), len(params), {}, range(len(params)))


SQUARE = param(shape=("n", "n"))
REFUSED = {
    "kind": (param(), [[1.0]], "argument x must be an array, got list"),
    "dtype": (param(), ones(2, 3, dtype="float64"), "argument x must be float32, got float64"),
    "rank": (param(), ones(3), r"argument x must have 2 axes, got 1: shape \(3,\)"),
    "size": (param(), ones(2, 4), "argument x must have size 3 on axis 1, got 4"),
    "symbol": (SQUARE, ones(2, 4), "argument x must have size 2 on axis 1, got 4"),
    "derived": (param(shape=("n", NEXT)), ones(2, 4), "argument x must have size 3 on axis 1, got 4"),
    "low": (param(shape=("n", 3), ranges={"n": (2, 8)}), ones(1, 3), "has size 1 on axis 0; .* for n from 2 to 8"),
    "high": (param(shape=("n", 3), ranges={"n": (2, 8)}), ones(9, 3), "has size 9 on axis 0; .* for n from 2 to 8"),
    "open": (param(shape=("n", 3), ranges={"n": (2, None)}), ones(1, 3), "for n from 2 to more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_do_not_fit(case: str):
    wanted, value, message = REFUSED[case]
    with pytest.raises(CallError, match=message):
        identity(wanted)(value)


def test_the_whole_text_of_a_refusal():
    with pytest.raises(CallError) as error:
        identity(param())(ones(2, 4))
    assert str(error.value) == (
        "error[X0200]: argument x must have size 3 on axis 1, got 4\n"
        "  = note: its shape is (2, 4)\n"
        "  = help: compile again for this shape, or with a dynamic size there"
    )


def test_sizes_repeat_across_arguments():
    both = identity(param("x", ("n", 3)), param("y", (3, "n")))
    assert [r.shape for r in both(ones(2, 3), ones(3, 2))] == [(2, 3), (3, 2)]
    with pytest.raises(CallError, match="argument y must have size 2 on axis 1, got 4"):
        both(ones(2, 3), ones(3, 4))


def test_sizes_that_a_later_argument_defines():
    both = identity(param("x", (NEXT,)), param("y", ("n",)))
    assert [r.shape for r in both(ones(3), ones(2))] == [(3,), (2,)]
    with pytest.raises(CallError, match="argument x must have size 3 on axis 0, got 2"):
        both(ones(2), ones(2))


@pytest.mark.parametrize("given", [0, 1, 3])
def test_the_wrong_number_of_arguments(given: int):
    with pytest.raises(CallError, match=rf"expected 2 tensors \(x, y\), got {given}"):
        identity(param("x"), param("y"))(*[ones(2, 3)] * given)


def test_arguments_of_unknown_shape():
    anything = identity(TensorParam("x", F32, None, -1, {}))
    assert anything(ones(2, 1, 3))[0].shape == (2, 1, 3)
    with pytest.raises(CallError, match="must have 2 axes"):
        identity(TensorParam("x", F32, None, 2, {}))(ones(3))


def test_instructions_see_contiguous_aligned_native_arrays():
    values = np.arange(6, dtype="float32").reshape(3, 2)
    buffer = np.zeros(4 * 6 + 1, "uint8")
    unaligned = buffer[1:].view("float32").reshape(2, 3)
    unaligned[:] = values.T
    for given in (values.T, np.repeat(values.T, 2, axis=1)[:, ::2], unaligned, values.T.astype(">f4")):
        (got,) = identity(param())(given)
        assert got.flags.c_contiguous
        assert got.flags.aligned
        assert got.dtype.isnative
        np.testing.assert_array_equal(got, values.T)


def test_a_fitting_argument_is_not_copied():
    x = ones(2, 3)
    assert identity(param())(x)[0] is x


# ---- results


def doubled(name: str = "double") -> CallHost:
    return CallHost(name, lambda x: x * 2, (0,), 1)


def test_copied_results_never_share_memory_with_constants():
    table = ones(3)
    run = program([param()], (), 2, {1: table}, (1, 1), (1,))
    first, second = run(ones(2, 3))
    first += 1
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(table, ones(3))
    np.testing.assert_array_equal(run(ones(2, 3))[0], ones(3))


def test_a_result_that_is_changed_does_not_change_later_ones():
    run = program([param()], [doubled()], 2, {}, (1,))
    (first,) = run(ones(2, 3))
    first[:] = 0
    np.testing.assert_array_equal(run(ones(2, 3))[0], ones(2, 3) * 2)


def test_regions_write_into_fresh_arrays_of_the_right_sizes():
    def region(inputs, outputs):
        outputs[0][:] = inputs[0].sum(axis=1)
        outputs[1][:] = inputs[0].T

    shapes = ((("n",), F32), ((NEXT, "n"), F32))
    step = RunLibrary("r", (0,), shapes, (1, 2), KERNEL)
    run = program([param(shape=("n", 3))], [step], 3, {}, (1, 2), fill=region)
    total, flipped = run(ones(2, 3))
    np.testing.assert_array_equal(total, [3, 3])
    assert flipped.shape == (3, 2)
    assert run(ones(2, 3))[0] is not total


def test_regions_get_contiguous_constants():
    seen = []
    step = RunLibrary("r", (1,), (((2,), F32),), (2,), KERNEL)
    constants = {1: np.ones((3, 2), "float32").T}
    program([param()], [step], 3, constants, (2,), fill=lambda ins, outs: seen.append(ins[0].flags.c_contiguous))(
        ones(2, 3)
    )
    assert seen == [True]


def test_operands_may_be_tuples_and_literals():
    def join(parts, shape, text):
        return np.concatenate(parts).reshape(shape), text

    call = CallHost("join", join, ((0, 0), Literal(("n", 3, SizeExpr("sub", ("n", 2)))), Literal("s")), 1)
    run = program([param(shape=("n", 3))], [call], 2, {}, (1,))
    value, text = run(ones(4, 3))[0]
    assert (value.shape, text) == ((4, 3, 2), "s")


def test_bind_adds_sizes_for_what_follows():
    cast = Check("cast", 0, 1, TensorParam("y", None, ("m", 3), 2, {}, "value"))
    grow = RunLibrary("r", (), ((("m", 2), F32),), (2,), KERNEL)
    run = program([TensorParam("x", F32, None, 2, {})], [cast, grow], 3, {}, (2,), fill=lambda _, out: out[0].fill(1))
    assert run(ones(5, 3))[0].shape == (5, 2)
    with pytest.raises(CallError, match="value y must have size 3 on axis 1, got 2"):
        run(ones(5, 2))


def test_profile_gives_the_results_and_a_time_for_each_instruction():
    run = program([param()], [doubled("first"), doubled("second")], 2, {}, (1,))
    results, times = run.profile([ones(2, 3)])
    np.testing.assert_array_equal(results[0], ones(2, 3) * 2)
    assert [t.name for t in times] == ["first", "second"]
    assert all(t.seconds >= 0 for t in times)


def test_the_first_writes_to_new_memory_are_no_part_of_a_profile(monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
    step = RunLibrary("r", (0,), (((2, 3), F32),), (1,), KERNEL)
    run = program([param()], [step], 2, {}, (1,), fill=lambda _, out: seen.append(float(out[0].max())))
    run(ones(2, 3))
    run.profile([ones(2, 3)])
    np.testing.assert_array_equal(seen, [np.nan, 0.0])


def test_calls_share_no_state():
    run = program([param(shape=("n",), rank=1)], [doubled()], 2, {}, (1,))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: run(np.full(n, n, "float32"))[0], range(1, 200)))
    for n, got in enumerate(results, 1):
        np.testing.assert_array_equal(got, np.full(n, 2 * n, "float32"))
