"""The table of reductions and epilogues that `eutectic verify epilogues` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.testing.epilogues import Case, program
from eutectic.tir.schedule import Schedule

_BIAS, _RELU, _BIASED_RELU = "{s} + {c}", "T.max({s}, {zero})", "T.max({s} + {c}, {zero})"
_FLOATS: Final = {
    "bias": _BIAS,
    "bias, other order": "{c} + {s}",
    "bias and relu": _BIASED_RELU,
    "relu and bias": "T.max({s}, {zero}) + {c}",
    "two biases": "({s} + {c}) + {c}",
    "difference": "{s} - {c}",
    "relu": _RELU,
    "relu, other order": "T.max({zero}, {s})",
    "relu by select": "T.Select({s} > {zero}, {s}, {zero})",
    "leaky relu": "T.Select({s} > {zero}, {s}, {s} * T.float32(0.1))",
    "relu6": "T.min(T.max({s}, {zero}), T.float32(6))",
    "clip min(max(s, l), h)": "T.min(T.max({s}, T.float32(-2)), T.float32(2))",
    "clip min(h, max(s, l))": "T.min(T.float32(2), T.max({s}, T.float32(-2)))",
    "clip min(max(l, s), h)": "T.min(T.max(T.float32(-2), {s}), T.float32(2))",
    "clip max(min(s, h), l)": "T.max(T.min({s}, T.float32(2)), T.float32(-2))",
    "clip max(l, min(s, h))": "T.max(T.float32(-2), T.min({s}, T.float32(2)))",
    "clip with crossed bounds": "T.max(T.min({s}, T.float32(-2)), T.float32(2))",
    "clip by buffers": "T.min(T.max({s}, {c}), {x})",
    "sigmoid": "T.sigmoid({s})",
    "tanh of a biased sum": "T.tanh({s} + {c})",
    "exp": "T.exp({s})",
    "gelu": "{s} * T.float32(0.5) * (T.float32(1) + T.erf({s} * T.float32(0.70710678)))",
    "silu": "{s} * T.sigmoid({s})",
    "scale": "{s} * T.float32(0.125)",
    "scale per column": "{s} * {c}",
    "residual": "{s} + {x}",
    "residual and relu": "T.max({x} + ({s} + {c}), {zero})",
    "absolute value": "T.fabs({s})",
    "square": "{s} * {s}",
}
_INTEGERS: Final = {
    "bias": _BIAS,
    "bias, other order": "{c} + {s}",
    "bias of the whole shape": "{s} + {x}",
    "computed bias": "{s} + {c} * {x}",
    "constant": "{s} + 7",
    "bias and relu": _BIASED_RELU,
    "difference": "{s} - {c}",
    "two biases": "({s} + {c}) + {c}",
    "relu": _RELU,
    "clip": "T.min(T.max({s}, -2), 2)",
    "clip, minimum first": "T.max(T.min({s}, 2), -2)",
    "shift": "T.shift_right({s}, 3)",
    "division": "{s} // 3",
    "scale": "{s} * 3",
    "doubled": "{s} + {s}",
}
_COMBINERS: Final[dict[str, dict[str, str]]] = {
    "max": {"init": "T.min_value('DTYPE')", "update": "T.max({s}, {p})"},
    "min": {"init": "T.max_value('DTYPE')", "update": "T.min({p}, {s})"},
    "product": {"init": "T.DTYPE(1)", "update": "{s} * {p}"},
    "max by select": {"init": "T.min_value('DTYPE')", "update": "T.Select({s} < {p}, {p}, {s})"},
    "sum from 100": {"init": "T.DTYPE(100)"},
    "sum from a buffer": {"init": "X[vi, vj]"},
    "sum, term first": {"update": "{p} + {s}"},
    "sum of differences": {"update": "{s} - {p}"},
}
_AXES: Final = """
    for i, j in T.grid(3, 4):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {body}
"""
_ROW: Final = """
    for j in T.serial(4):
        with T.block("{name}"):
            vj = T.axis.spatial(4, j)
            {body}
"""


def cases() -> list[Case]:
    """All cases; their names are different."""
    return [*_sums(), *_combined(), *_dtypes(), *_shapes(), *_readers(), *_scheduled(), *_refused(), *_misshapen()]


def _case(name: str, value: str, /, **slots: Any) -> Case:
    return Case(name, program(value, **slots))


def _sums() -> list[Case]:
    return [
        *(_case(f"sum, {name}", value) for name, value in _FLOATS.items()),
        *(_case(f"int32 sum, {name}", value, dtype="int32") for name, value in _INTEGERS.items()),
    ]


def _combined() -> list[Case]:
    out = []
    for dtype in ("int32", "float32"):
        for combiner, slots in _COMBINERS.items():
            filled = {key: text.replace("DTYPE", dtype) for key, text in slots.items()}
            for name, value in (("relu", _RELU), ("bias", _BIAS)):
                out.append(_case(f"{dtype} {combiner}, {name}", value, dtype=dtype, **filled))
    return out


def _dtypes() -> list[Case]:
    return [
        *(_case(f"{dtype} sum, bias", _BIAS, dtype=dtype) for dtype in ("int8", "uint8", "int64", "float16")),
        *(_case(f"{dtype} sum, relu", _RELU, dtype=dtype) for dtype in ("float16", "float64")),
        _case("sum, widened", "T.Cast('float64', {s}) + T.Cast('float64', {c})", out="float64"),
        _case("sum, relu and narrowed", "T.Cast('float16', T.max({s}, {zero}))", out="float16"),
        _case("int32 sum, requantized", "T.Cast('int8', T.min(T.max({s} // 4, -128), 127))", dtype="int32", out="int8"),
        _case("int32 sum, dequantized", "T.Cast('float32', {s}) * T.float32(0.5)", dtype="int32", out="float32"),
    ]


def _shapes() -> list[Case]:
    store = {"shape": "(4, 3)", "store": "vj, vi"}
    read = {"shape": "(4, 3)", "grid": "4, 3", "sum": "temp[vj, vi]"}
    nothing = {
        "sum of nothing, bias and relu": {"value": _BIASED_RELU},
        "int32 sum of nothing, bias": {"value": _BIAS, "dtype": "int32"},
        "maximum of nothing, sigmoid": {"value": "T.sigmoid({s})", "init": "T.float32(-3)"},
        "sum of nothing, widened": {"value": "T.Cast('float64', {s})", "out": "float64"},
    }
    return [
        _case("sum, transposed store", _RELU, **store),
        _case("int32 sum, transposed store of a bias", _BIAS, dtype="int32", **store),
        _case("sum, transposed read", "T.max({s} + C[vi], {zero})", **read),
        _case("int32 sum, transposed read of a bias", "{s} + C[vi]", dtype="int32", **read),
        *(Case(name, program(terms="0", **slots), has_terms=False) for name, slots in nothing.items()),
        _case("sum of one term, relu", _RELU, terms="1"),
        _case("sum, lower half of D", _RELU, shape="(6, 4)", store="vi + 3, vj"),
        _case("int32 sum, every other row of D", _BIAS, dtype="int32", shape="(6, 4)", store="vi * 2, vj"),
        _case("sum, predicate that covers", _RELU, where="T.where(i < 7)"),
    ]


def _readers() -> list[Case]:
    """Sums that others read, and terms that others compute."""
    extra = {"tail": ', E: T.Buffer((3, 4), "float32")'}
    after = _AXES.format(name="other", body="E[vi, vj] = temp[vi, vj] * T.float32(2)")
    whole = _AXES.format(name="other", body="X[vi, vj] = temp[vi, vj] + temp[vi, 3 - vj]")
    computed = _ROW.format(name="term", body="T0[vj] = C[vj] * C[vj]")
    declared = '    temp = T.alloc_buffer((3, 4), "float32")\n    T0 = T.alloc_buffer((4,), "float32")'
    output = {"declared": "", "tail": ', temp: T.Buffer((3, 4), "{0}")'}
    return [
        _case("sum, another reader after", _RELU, after=after, **extra),
        _case("sum, another reader between", _RELU, between=after, **extra),
        _case("int32 sum, another reader", _BIAS, dtype="int32", after=whole),
        _case("sum, bias computed before", "{s} + T0[vj]", before=computed, declared=declared),
        Case("sum, bias computed between", program("{s} + T0[vj]", between=computed, declared=declared), fuses=False),
        _case("sum that is an output, relu", _RELU, **output | {"tail": output["tail"].format("float32")}),
        _case(
            "int32 sum that is an output, bias",
            _BIAS,
            dtype="int32",
            **output | {"tail": output["tail"].format("int32")},
        ),
        _case("sum, result read after", _RELU, after=_AXES.format(name="last", body="X[vi, vj] = D[vi, vj]")),
    ]


def _scheduled() -> list[Case]:
    """Programs whose loops were changed before."""

    def tiled(sch: Schedule) -> None:
        i, j, k = sch.get_loops("sum")
        i0, i1 = sch.split(i, [None, 2])
        k0, k1 = sch.split(k, [None, 2])
        sch.reorder(i0, k0, i1, j, k1)

    def terms_first(sch: Schedule) -> None:
        i, j, k = sch.get_loops("sum")
        sch.reorder(k, j, i)

    def kinds(sch: Schedule) -> None:
        i, j, k = sch.get_loops("sum")
        sch.reorder(i, k, j)
        sch.parallel(i)
        sch.vectorize(j)

    def epilogue_split(sch: Schedule) -> None:
        i, j = sch.get_loops("epilogue")
        sch.split(sch.fuse(i, j), [None, 5])

    def elements_fused(sch: Schedule) -> None:
        i, j, _ = sch.get_loops("sum")
        sch.fuse(i, j)

    def mixed(sch: Schedule) -> None:
        _, j, k = sch.get_loops("sum")
        sch.fuse(j, k)

    def decomposed(sch: Schedule) -> None:
        sch.decompose_reduction("sum", sch.get_loops("sum")[2])

    prepared: dict[str, Callable[[Schedule], None]] = {
        "tiles that do not divide": tiled,
        "terms outermost": terms_first,
        "parallel and vectorized": kinds,
        "epilogue with a loop of its own": epilogue_split,
        "elements in one loop": elements_fused,
    }
    return [
        *(Case(f"sum, {name}, bias and relu", program(_BIASED_RELU), prepare=how) for name, how in prepared.items()),
        *(Case(f"int32 sum, {name}, bias", program(_BIAS, dtype="int32"), prepare=h) for name, h in prepared.items()),
        Case("sum, elements and terms in one loop, relu", program(_RELU), fuses=False, prepare=mixed),
        Case(
            "sum, initial values apart, relu", program(_RELU), fuses=False, prepare=decomposed, reduction="sum_update"
        ),
    ]


def _refused() -> list[Case]:
    """Programs where the epilogue cannot run earlier."""
    slots_by_name = {
        "epilogue under a predicate": {"value": _RELU, "where": "T.where(i < 2)"},
        "int32 epilogue under a predicate": {"value": _BIAS, "dtype": "int32", "where": "T.where(j < 3)"},
        "epilogue of a part": {"value": _RELU, "grid": "2, 4", "shape": "(2, 4)"},
        "epilogue of mirrored elements": {"value": "temp[vi, 3 - vj] + {c}"},
        "epilogue of two elements": {"value": "{s} + temp[vi, 3 - vj]"},
        "epilogue of its own output": {"value": "T.max({s}, D[vi, vj])"},
        "epilogue that stores elements twice": {"value": _RELU, "store": "vi, vj // 2"},
        "output read before it is stored": {
            "value": _RELU,
            "between": _AXES.format(name="other", body="X[vi, vj] = D[vi, vj]"),
        },
        "output read by the reduction": {"value": _RELU, "update": "{s} + {p} * D[vi, vj]"},
        "residual written between": {
            "value": "{s} + {x}",
            "between": _AXES.format(name="other", body="X[vi, vj] = T.float32(1)"),
        },
        "sum changed between": {
            "value": _RELU,
            "between": _AXES.format(name="other", body="temp[vi, vj] = temp[vi, vj] * T.float32(2)"),
        },
    }
    return [Case(f"sum, {name}", program(**slots), fuses=False) for name, slots in slots_by_name.items()]


def _misshapen() -> list[Case]:
    """Blocks that are no epilogues of one element."""
    two = _AXES.format(
        name="epilogue", body="D[vi, vj] = temp[vi, vj] + C[vj]\n            X[vi, vj] = temp[vi, vj] - C[vj]"
    )
    reduction = """
    for i, j in T.grid(3, 4):
        with T.block("epilogue"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + temp[vi, vj]
"""
    wider = """
    for i, j, n in T.grid(3, 4, 2):
        with T.block("epilogue"):
            vi, vj, vn = T.axis.remap("SSS", [i, j, n])
            D[vi, vj, vn] = T.max(temp[vi, vj], T.float32(0))
"""
    nothing = _AXES.format(name="epilogue", body="D[vi, vj] = X[vi, vj] + C[vj]")
    inside = _AXES.format(name="epilogue", body="D[vi, vj] = T.max(temp[0, 0], T.float32(0))")
    return [
        Case("sum, two stores in the epilogue", program("", epilogue=two), fuses=False),
        Case("sum, epilogue that is a reduction", program("", epilogue=reduction, shape="(3,)"), fuses=False),
        Case("sum, epilogue with one more axis", program("", epilogue=wider, shape="(3, 4, 2)"), fuses=False),
        Case("sum, epilogue that does not read it", program("", epilogue=nothing), fuses=False),
        Case("sum, epilogue of one element for all", program("", epilogue=inside), fuses=False),
    ]
