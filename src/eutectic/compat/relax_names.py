"""Names of `tvm.relax` and its packages that are only spellings of ours."""

from __future__ import annotations

from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.span import Span
from eutectic.ir.transform import Pass
from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.base import Expr
from eutectic.relax.binding_rewrite import DataflowBlockRewrite
from eutectic.relax.dpl import DFPattern, wildcard
from eutectic.relax.expr import Function, convert

__all__ = [
    "DataflowBlockRewrite",
    "GlobalVar",
    "Span",
    "convert_to_expr",
    "copy_with_new_vars",
    "detach_params",
    "get_default_pipeline",
    "has_dtype",
]


def convert_to_expr(value: Any) -> Expr:
    """A Python value as an expression: numbers, texts, tuples."""
    return convert(value)


def get_default_pipeline(target: Any) -> Pass:
    """The passes that `relax.build` runs; for every target they are the same."""
    from eutectic.driver.pipeline import get_pipeline  # heavy: loads the backends

    return get_pipeline("default")


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """A module without the values of its parameters, and these.

    Args:
        mod: What `from_exported_program(..., keep_params_as_input=True)` gave.

    Returns:
        The module, and a list of tensors by the name of the function.

    Reference: TVM relax.frontend.detach_params.
    """
    from eutectic.runtime.tensor import tensor  # heavy

    out, params = mod.clone(), {}
    for gv, function in mod.functions_items():
        if isinstance(function, Function) and function.attr("params") is not None:
            params[gv.name_hint] = [tensor(constant.data) for constant in function.attr("params")]
            out.update_func(gv, function.without_attr("params"))
    return out, params


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DFPattern:
    """A pattern of values of a dtype."""
    return (pattern if pattern is not None else wildcard()).has_dtype(dtype)
