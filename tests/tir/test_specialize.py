"""Functions for some of their arguments, or with variables of their own; what buffers say of their elements."""

from __future__ import annotations

import numpy as np
import pytest

from eutectic import tir
from eutectic.arith import Analyzer
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.tir.interpret import run
from eutectic.tir.specialize import renew_defs


@T.prim_func
def scaled_sums(a: T.handle, b: T.handle, factor: T.float32):
    m, n = T.int32(), T.int32()
    A, B = T.match_buffer(a, (m, n)), T.match_buffer(b, (m,))
    C = T.alloc_buffer((m,))
    for i, j in T.grid(m, n):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj]
    for i in range(m):
        with T.block("scale"):
            vi = T.axis.spatial(m, i)
            B[vi] = C[vi] * factor


def result_of(func: tir.PrimFunc, *scalars: float) -> np.ndarray:
    result = np.zeros(3, "float32")
    run(func, np.arange(12, dtype="float32").reshape(3, 4), result, *scalars)
    return result


def test_sizes_and_scalars_are_put_in():
    a, _, factor = scaled_sums.params
    special = scaled_sums.specialize({a: tir.decl_buffer((3, 4), name="A34"), factor: 2.0})
    assert [buffer.name for buffer in special.buffer_map.values()] == ["A34", "B"]
    assert len(special.params) == 2
    assert [size.value for buffer in special.buffer_map.values() for size in buffer.shape] == [3, 4, 3]
    assert tir.verify_well_formed(special)
    np.testing.assert_array_equal(result_of(special), result_of(scaled_sums, 2.0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tir.decl_buffer((3,)), "does not become"),
        (tir.decl_buffer((3, 4), "int32"), "does not become"),
    ],
)
def test_a_buffer_of_another_kind_is_refused(value: tir.Buffer, message: str):
    with pytest.raises(ValueError, match=message):
        scaled_sums.specialize({scaled_sums.params[0]: value})


def test_one_size_cannot_be_two_numbers():
    a, b, _ = scaled_sums.params
    with pytest.raises(ValueError, match=r"m of buffer B is both .*3.* and .*5"):
        scaled_sums.specialize({a: tir.decl_buffer((3, 4)), b: tir.decl_buffer((5,))})


def test_renewed_functions_share_no_variable():
    fresh = renew_defs(scaled_sums)
    assert structural_equal(fresh, scaled_sums)
    variables = [
        {item for item in (*post_order(func), *func.params) if isinstance(item, tir.Var | tir.Buffer)}
        for func in (scaled_sums, fresh)
    ]
    assert not variables[0] & variables[1]
    np.testing.assert_array_equal(result_of(fresh, 3.0), result_of(scaled_sums, 3.0))


def test_places_of_elements():
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    plain = tir.decl_buffer((4, 8), name="A")
    strided = tir.decl_buffer((4, 8), strides=[16, 2], elem_offset=5)
    prove = Analyzer().can_prove_equal
    assert prove(plain.offset_of([i, j])[0], i * 8 + j)
    assert prove(strided.offset_of([i, j])[0], i * 16 + j * 2 + 5)
    assert plain.get_flattened_buffer().shape[0].value == 32
    assert plain.get_flattened_buffer().get_flattened_buffer().data is plain.data
    with pytest.raises(ValueError, match="has strides"):
        strided.get_flattened_buffer()
    assert structural_equal(plain.vstore([i, j], 1.0), tir.BufferStore(plain, 1.0, [i, j]))
