"""oneDNN's element-wise functions: one row has all that is known of one, as data that needs no compiler.

The patterns, the code generator, the checks of a region, the primitives and the guard of special values read this
table, so that a new activation of oneDNN is a new row.

What is said about special values was measured with oneDNN 3.2 on AVX2 and AVX-512, the same alone and as
post-operation of a convolution, matmul or binary step; tests check it. `error` is the largest absolute error against
float64 over [-20, 20], relative to max(1, |value|).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Specials = Literal["as torch", "kept", "lost"]


@dataclass(frozen=True)
class Taken:
    """An operator that an algorithm computes.

    Attributes:
        name: In names of patterns, such as `dnnl.conv2d_bias_relu`.
        op: Relax operator.
        reads: What becomes alpha and beta: names of attributes, or positions of arguments, which must be constants.
    """

    name: str
    op: str
    reads: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Algorithm:
    """An element-wise function of oneDNN.

    Attributes:
        code: Its number in the C interface.
        error: How far it is from its definition.
        specials: `as torch`: NaN, infinities and signed zeros are treated as torch does, whatever the instruction set.
            `kept`: NaN comes out as NaN, and infinity not, with any parameters. `lost`: neither.
        remark: What is different about special values (NaN, infinities, signed zero, overflow), compared with torch.
        parameters: Which of `alpha` and `beta` it reads; the others must stay 0.
        fixed: What the C interface gets for both where torch's definition fixes them.
        takes: Operators that it computes.
    """

    code: int
    error: float
    specials: Specials
    remark: str = ""
    parameters: tuple[str, ...] = ()
    fixed: tuple[float, float] | None = None
    takes: tuple[Taken, ...] = ()


_WITH_AVX512 = "with AVX-512 the error is 1e-6, infinity becomes NaN, and 3e38 infinity"
_SIXTH: Final = (1 / 6, 0.5)

ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    "relu": Algorithm(
        32, 0, "lost", "NaN becomes 0 (with a slope it stays NaN); -0 becomes +0", ("alpha",),
        takes=(Taken("relu", "relax.nn.relu"), Taken("leakyrelu", "relax.nn.leakyrelu", ("alpha",))),
    ),
    "clip": Algorithm(
        46, 0, "lost", "NaN becomes the lower bound; -0 becomes +0 when that is a bound", ("alpha", "beta"),
        takes=(Taken("clip", "relax.clip", (1, 2)),),
    ),
    "sigmoid": Algorithm(41, 9e-8, "as torch", takes=(Taken("sigmoid", "relax.sigmoid"),)),
    "tanh": Algorithm(33, 7e-8, "as torch", takes=(Taken("tanh", "relax.tanh"),)),
    "silu": Algorithm(44, 1e-7, "as torch", fixed=(1, 0), takes=(Taken("silu", "relax.nn.silu"),)),
    "gelu_erf": Algorithm(49, 2e-7, "lost", _WITH_AVX512, takes=(Taken("gelu", "relax.nn.gelu"),)),
    "gelu_tanh": Algorithm(43, 2e-7, "as torch", takes=(Taken("gelutanh", "relax.nn.gelu_tanh"),)),
    "hardswish": Algorithm(
        52, 1e-7, "kept", "right for |x| > 5e37, where torch's intermediate overflows to infinity", fixed=_SIXTH,
        takes=(Taken("hardswish", "relax.nn.hardswish"),),
    ),
    "hardsigmoid": Algorithm(
        40, 4e-8, "lost", "NaN becomes 1", fixed=_SIXTH, takes=(Taken("hardsigmoid", "relax.nn.hardsigmoid"),)
    ),
    "elu": Algorithm(
        34, 2e-7, "kept", "-0 becomes +0; relative error up to 2e-4 next to 0", ("alpha",),
        takes=(Taken("elu", "relax.nn.elu", ("alpha",)),),
    ),
    "linear": Algorithm(38, 6e-8, "kept", "one rounding (FMA); -0 becomes +0 when beta is 0", ("alpha", "beta")),
    "softplus": Algorithm(39, 2e-6, "as torch", "relative error above 1 for x < -14", fixed=(1, 0)),
    "mish": Algorithm(51, 3e-7, "as torch", "0 for x = -20", takes=(Taken("mish", "relax.nn.mish"),)),
    "abs": Algorithm(36, 0, "as torch"),
    "square": Algorithm(35, 6e-8, "as torch"),
    "exp": Algorithm(42, 2e-7, "lost", "NaN becomes infinity"),
    "log": Algorithm(45, 4e-6, "kept", "wrong for denormals; relative error near 1 next to x = 1"),
    "sqrt": Algorithm(37, 6e-8, "as torch"),
}  # fmt: skip

PARAMETERS: Final = {name: row.parameters for name, row in ALGORITHMS.items()}
"""Algorithms and the parameters each one reads."""

SPECIALS_AS_TORCH: Final = frozenset(name for name, row in ALGORITHMS.items() if row.specials == "as torch")
"""Algorithms that treat NaN, infinities and signed zeros as torch does, whatever the instruction set."""

SPECIALS_KEPT: Final = frozenset(name for name, row in ALGORITHMS.items() if row.specials != "lost")
"""Algorithms of which NaN comes out as NaN, and infinity not, with any parameters."""

CODES: Final = {name: row.code for name, row in ALGORITHMS.items()}
FIXED: Final = {name: row.fixed for name, row in ALGORITHMS.items() if row.fixed is not None}
