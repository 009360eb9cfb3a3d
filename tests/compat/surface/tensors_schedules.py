"""Examples of schedules, their traces and their tests: each primitive keeps what is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compat.surface.examples import example
from tvm import ir, te, tir, topi
from tvm.script import tir as T
from tvm.tir.schedule import testing

from eutectic.tir.interpret import run


def named(*names: str) -> Callable[..., Any]:
    """Examples of methods of schedules."""
    return example(*(f"tvm.tir.schedule.Schedule.{name}" for name in names))


def product(m: int = 8, n: int = 8, k: int = 8) -> Any:
    """A matrix product, and one added to it."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] + 1.0, name="D")
    return te.create_prim_func([a, b, d])


def result_of(func: Any) -> Any:
    """What a function computes of fixed inputs into its last buffer."""
    generator = np.random.default_rng(1)
    arrays = [generator.uniform(size=[int(s) for s in b.shape]).astype(b.dtype) for b in func.buffer_map.values()]
    run(func, *arrays)
    return arrays[-1]


def scheduled(change: Callable[[Any], Any], func: Any = None) -> Any:
    """A schedule after a change, which replays from its texts and computes the same."""
    func = func or product()
    sch = tir.Schedule(func, debug_mask="all")
    change(sch)
    np.testing.assert_allclose(result_of(sch.mod["main"]), result_of(func), rtol=1e-5)
    testing.verify_trace_roundtrip(sch, func)
    return sch


@example("tvm.tir.Schedule", "tvm.tir.schedule.Schedule", "tvm.tir.schedule.BlockRV", "tvm.tir.schedule.LoopRV")
@example("tvm.tir.ScheduleError", "tvm.tir.schedule.ScheduleError", "tvm.tir.schedule.ScheduleState")
@named(
    "mod", "state", "func_working_on", "work_on", "get", "get_sref", "remove_rv", "copy", "show", "seed", "fork_seed"
)
def _schedule() -> None:
    sch = tir.Schedule(product(), seed=3, error_render_level="fast", enable_check=True)
    block = sch.get_block("C", func_name="main")
    loop = sch.get_loops(block)[0]
    assert isinstance(block, tir.schedule.BlockRV)
    assert isinstance(loop, tir.schedule.LoopRV)
    assert sch.get(block).name_hint == "C"
    assert sch.get(loop).extent.value == 8
    assert sch.get_sref(block).block.name_hint == "C"
    assert isinstance(sch.state, tir.schedule.ScheduleState)
    sch.work_on("main")
    assert sch.func_working_on == "main"
    assert isinstance(sch.fork_seed(), int)
    other = sch.copy()
    other.split(other.get_loops("C")[0], [None, 2])
    assert not ir.structural_equal(sch.mod, other.mod)
    sch.seed(5)
    sch.show()
    with pytest.raises(tir.ScheduleError):
        sch.compute_inline("C")
    assert tir.schedule.ScheduleError is tir.ScheduleError
    sch.remove_rv(loop)
    with pytest.raises(tir.ScheduleError):
        sch.get(loop)


@named("get_block", "get_loops", "get_child_blocks", "get_producers", "get_consumers", "get_output_blocks")
def _lookup() -> None:
    sch = tir.Schedule(product())

    def names(blocks: Any) -> list[str]:
        return [sch.get(block).name_hint for block in blocks]

    assert len(sch.get_loops(sch.get_block("C"))) == 3
    assert names(sch.get_child_blocks(sch.get_block("root"))) == [
        "C",
        "D",
    ]
    assert names(sch.get_producers("D")) == ["C"]
    assert names(sch.get_consumers("C")) == ["D"]
    assert names(sch.get_output_blocks("root")) == ["D"]


@named("split", "fuse", "reorder", "merge", "loop_partition", "add_unit_loop", "reorder_block_iter_var")
def _loops() -> None:
    def tiled(sch: Any) -> None:
        i, j, k = sch.get_loops("C")
        outer, inner = sch.split(loop=i, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)
        sch.reorder(outer, j, k, inner)
        sch.fuse(outer, j, preserve_unit_iters=True)
        sch.add_unit_loop(k)
        sch.reorder_block_iter_var("D", [1, 0])

    sch = scheduled(tiled)
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [16, 1, 8, 4]
    scheduled(lambda sch: sch.merge(sch.get_loops("C")[0], sch.get_loops("D")[0]))
    scheduled(lambda sch: sch.loop_partition(sch.get_loops("D")[1], [None, 3], preserve_unit_iters=True))


@named("parallel", "vectorize", "unroll", "bind")
def _kinds() -> None:
    def change(sch: Any) -> None:
        i, j = sch.get_loops("D")
        sch.parallel(i)
        sch.vectorize(j)
        sch.unroll(sch.get_loops("C")[2])
        sch.bind(sch.get_loops("C")[0], thread_axis="blockIdx.x")

    text = scheduled(change).mod.script()
    for word in ("T.parallel", "T.vectorized", "T.unroll", 'thread="blockIdx.x"'):
        assert word in text


@named("cache_read", "cache_write", "cache_inplace", "reindex", "set_scope", "storage_align")
def _caches() -> None:
    def change(sch: Any) -> None:
        read = sch.cache_read(block="C", read_buffer_index=0, storage_scope="local", consumer_blocks=None)
        sch.cache_write("D", write_buffer_index=0, storage_scope="global", consumer_blocks=None)
        sch.reindex("C", ("read", 1))
        sch.set_scope("C", buffer_index=0, storage_scope="global")
        sch.storage_align(read, buffer_index=0, axis=0, factor=16, offset=4)

    assert "A_local" in scheduled(change).mod.script()

    @T.prim_func
    def added(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("add"):
                v = T.axis.spatial(8, i)
                A[v] = A[v] + T.float32(1)

    scheduled(lambda sch: sch.cache_inplace("add", read_buffer_index=0, storage_scope="local"), added)


@named("compute_at", "reverse_compute_at", "compute_inline", "reverse_compute_inline", "fuse_reduction_epilogue")
def _places() -> None:
    x = te.placeholder((8, 8), name="x")
    y = te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="y")
    func = te.create_prim_func([x, te.compute((8, 8), lambda i, j: y[i, j] + 1.0, name="z")])
    scheduled(lambda sch: sch.compute_at("y", sch.get_loops("z")[0], preserve_unit_loops=False, index=-1), func)
    scheduled(lambda sch: sch.reverse_compute_at("D", sch.get_loops("C")[0], preserve_unit_loops=False, index=-1))
    assert "z" in scheduled(lambda sch: sch.compute_inline("y"), func).mod.script()
    assert len(scheduled(lambda sch: sch.reverse_compute_inline("z"), func).get_child_blocks("root")) == 1
    fused = scheduled(lambda sch: sch.fuse_reduction_epilogue(reduction_block="C", epilogue_block="D"))
    assert not ir.structural_equal(fused.mod["main"], product())


@named("decompose_reduction", "rfactor", "blockize", "tensorize", "annotate", "unannotate")
@example("tvm.tir.TensorIntrin", "tvm.tir.TensorIntrin.register", "tvm.tir.TensorIntrin.get")
def _reductions() -> None:
    scheduled(lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[2]))

    def factored(sch: Any) -> None:
        outer, _ = sch.split(sch.get_loops("C")[2], [4, 2])
        sch.rfactor(outer, factor_axis=0)

    scheduled(factored)
    scheduled(lambda sch: sch.blockize(sch.get_loops("D")[1], preserve_unit_iters=True))
    noted = tir.Schedule(product())
    noted.annotate("D", ann_key="buffer_dim_align", ann_val=[[0, 0, 16, 4]])
    assert "buffer_dim_align" in noted.mod.script()
    noted.unannotate("D", ann_key="buffer_dim_align")
    assert "buffer_dim_align" not in noted.mod.script()

    @T.prim_func
    def desc(a: T.handle, b: T.handle):
        A, B = T.match_buffer(a, (8,), offset_factor=1), T.match_buffer(b, (8,), offset_factor=1)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for i in range(8):
                with T.block("add"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] + T.float32(1)

    @T.prim_func
    def impl(a: T.handle, b: T.handle):
        A, B = T.match_buffer(a, (8,), offset_factor=1), T.match_buffer(b, (8,), offset_factor=1)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for i in T.vectorized(8):
                B[i] = A[i] + T.float32(1)

    tir.TensorIntrin.register("example.add_one", desc, impl, override=True)
    assert isinstance(tir.TensorIntrin.get("example.add_one"), tir.TensorIntrin)
    assert tir.TensorIntrin.get("example.none", allow_missing=True) is None
    sch = scheduled(
        lambda s: s.tensorize(s.get_loops("D")[1], tensor_intrin="example.add_one", preserve_unit_iters=True)
    )
    assert "T.vectorized" in sch.mod.script()


@named("transform_layout", "transform_block_layout", "pad_einsum", "decompose_padding", "can_decompose_padding")
def _layouts() -> None:
    scheduled(lambda sch: sch.transform_layout("C", ("write", 0), lambda i, j: (j, i), pad_value=None))
    scheduled(lambda sch: sch.transform_block_layout("D", index_map=lambda i, j: (i * 8 + j,)))
    scheduled(lambda sch: sch.pad_einsum("C", padding=[4, 4, 4]), product(6, 6, 6))
    x = te.placeholder((6,), name="x")
    padded = te.create_prim_func([x, topi.nn.pad(x, [1], [1], name="pad")])

    def decomposed(sch: Any) -> None:
        loop = sch.get_loops("pad")[0]
        assert sch.can_decompose_padding("pad", loop)
        sch.decompose_padding("pad", loop)

    assert len(scheduled(decomposed, padded).get_child_blocks("root")) == 2


@named("sample_perfect_tile", "sample_categorical", "trace")
@example(
    *(f"tvm.tir.schedule.Trace.{name}" for name in ("with_decision", "simplified", "append", "pop", "get_decision"))
)
@example(*(f"tvm.tir.schedule.Trace.{name}" for name in ("as_python", "as_json", "apply_to_schedule", "show")))
@example("tvm.tir.schedule.Trace.apply_json_to_schedule", "tvm.tir.schedule.Instruction", "tvm.tir.schedule.ExprRV")
@example("tvm.tir.schedule.Trace")
def _traces() -> None:
    def sampled(sch: Any) -> None:
        i, j, _ = sch.get_loops("C")
        factors = sch.sample_perfect_tile(i, n=2, max_innermost_factor=4, decision=[2, 4])
        assert all(isinstance(factor, tir.schedule.ExprRV) for factor in factors)
        sch.split(i, factors)
        sch.split(j, [None, sch.sample_categorical([2, 4], probs=[0.5, 0.5], decision=1)])

    sch = scheduled(sampled)
    trace = sch.trace
    assert isinstance(trace, tir.schedule.Trace)
    assert all(isinstance(i, tir.schedule.Instruction) for i in trace.insts)
    tile = next(inst for inst in trace.insts if inst.kind == "sample_perfect_tile")
    assert trace.get_decision(tile) == [2, 4]
    assert "sample_perfect_tile" in "\n".join(trace.as_python())
    changed, replayed = trace.with_decision(tile, [4, 2], remove_postproc=False), tir.Schedule(product())
    changed.apply_to_schedule(replayed, remove_postproc=False, decision_provider=None)
    assert replayed.get(replayed.get_loops("C")[0]).extent.value == 4
    again = tir.Schedule(product())
    tir.schedule.Trace.apply_json_to_schedule(trace.as_json(remove_postproc=False), again)
    assert ir.structural_equal(again.mod, sch.mod)
    unused = tir.Schedule(product())
    unused.get_loops("D")
    unused.parallel(unused.get_loops("C")[0])
    assert len(unused.trace.simplified(remove_postproc=False).insts) < len(unused.trace.insts)
    last = trace.copy()
    inst = last.pop()
    last.append(inst, decision=None)
    assert last.as_python() == trace.as_python()
    trace.show()


@example(*(f"tvm.tir.schedule.testing.{name}" for name in ("verify_trace_roundtrip", "assert_structural_equal")))
@example("tvm.tir.schedule.testing.assert_structural_equal_ignore_global_symbol")
def _testing() -> None:
    func = product()
    other = func.with_attr("global_symbol", "other")
    testing.assert_structural_equal_ignore_global_symbol(func, other)
    with pytest.raises(ValueError, match="structures differ"):
        testing.assert_structural_equal(func, other)
    with pytest.raises(ValueError, match="structures differ"):
        testing.assert_structural_equal_ignore_global_symbol(func, product(4))
    sch = tir.Schedule(func)
    sch.parallel(sch.get_loops("C")[0])
    for text_format in ("python", "json", ("python", "json")):
        replayed = testing.verify_trace_roundtrip(sch, func, debug_mask="all", text_format=text_format)
        testing.assert_structural_equal(replayed.mod, sch.mod)
    with pytest.raises(ValueError, match="structures differ"):
        testing.verify_trace_roundtrip(sch, product(4))
