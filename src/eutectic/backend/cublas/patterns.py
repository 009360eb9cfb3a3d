"""What cuBLAS takes over: matrix products with what its epilogues do.

Reference: cuBLASLt, "cublasLtMatmul()" and its tables of data types and epilogues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eutectic.relax.dpl.checks import (
    Condition,
    all_of,
    check_batches,
    check_matmul_ranks,
    check_single_output,
    check_static_contraction,
    check_transposed,
    multiples_of,
    require_dtypes,
    require_scalars,
    require_tensors,
    require_zero_point,
    without_bias_for,
)
from eutectic.relax.dpl.pattern_builders import (
    make_matmul_dequantize_pattern,
    make_matmul_multiply_pattern,
    make_matmul_pattern,
)
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext

NAME: Final = "cuBLAS"
# Dtypes of the product by dtype of the operands.
DTYPES: Final = {
    "float16": ("float16", "float32"),
    "float32": ("float32",),
    "bfloat16": ("bfloat16", "float32"),
    "int8": ("int32",),
    "float8_e4m3fn": ("float8_e4m3fn", "float16", "bfloat16", "float32"),
}
EPILOGUES: Final = {"": (False, None), "_bias": (True, None), "_bias_relu": (True, "relax.nn.relu"),
                    "_bias_gelu": (True, "relax.nn.gelu")}  # fmt: skip


def _check_float8(context: PatternCheckContext) -> Refusal | None:
    """cuBLAS multiplies 8-bit floats with a transposed right operand only."""
    if context.parts["lhs"].struct_info.dtype == "float8_e4m3fn" and "transpose" not in context.parts:  # type: ignore[union-attr]  # tensors by then
        return Refusal(f"{NAME} multiplies float8_e4m3fn with a transposed right operand only", context.parts["rhs"])
    return None


CHECK_MATMUL: Final[Condition] = all_of(
    check_single_output,
    require_tensors("lhs", "rhs", "root", "bias"),
    require_dtypes(DTYPES, NAME),
    check_matmul_ranks,
    check_transposed,
    check_static_contraction,
    check_batches,
    _check_float8,
    multiples_of(4, ("int8",), NAME),
    multiples_of(16, ("float8_e4m3fn",), NAME),
    without_bias_for(("int8",), NAME),
)


def patterns() -> list[FusionPattern]:
    """The table in the order of registration: the last one has priority."""
    return list(_entries())


def _entries() -> Iterator[FusionPattern]:
    for transposed, label in ((False, "matmul"), (True, "matmul_transposed")):
        for epilogue, (bias, activation) in EPILOGUES.items():
            pattern, parts = make_matmul_pattern(bias, activation, transposed)
            yield FusionPattern(f"cublas.{label}{epilogue}", pattern, parts, CHECK_MATMUL)
    pattern, parts = make_matmul_dequantize_pattern(transposed_rhs=True)
    yield FusionPattern("cublas.matmul_transposed_dequantize", pattern, parts, all_of(CHECK_MATMUL, require_zero_point))
    pattern, parts = make_matmul_multiply_pattern(transposed_rhs=True)
    check = all_of(CHECK_MATMUL, require_scalars("scaleA", "scaleB"))
    yield FusionPattern("cublas.matmul_transposed_multiply", pattern, parts, check)
