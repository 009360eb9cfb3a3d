"""relax.call_eager: an operator that is left to torch, as it runs outside of compiled models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.op.call_packed import stated
from eutectic.relax.op.registry import define_op, refuse
from eutectic.support.eager_call import eager_call

_call_eager = define_op("relax.call_eager", arity=2, fusion="opaque", traits=["calls"])


@node("relax.attrs.EagerAttrs")
class EagerAttrs(Attrs):
    """What is called.

    Attributes:
        operator: Name of the overload, such as `aten.sort.default`.
        arguments: Its arguments as JSON; see `eutectic.support.eager_call`.
        results: What becomes of each result.
        reason: Why it is not compiled.
        number: Tells calls apart that give other values each time, such as random ones; 0 for all others.
    """

    operator: str
    arguments: str
    results: tuple[str, ...]
    reason: str = ""
    number: int = 0


def call_eager(
    operands: Any,
    sizes: Any,
    *,
    operator: str,
    arguments: str,
    results: Sequence[str],
    sinfo_args: StructInfo | Sequence[StructInfo],
    reason: str = "",
    number: int = 0,
    span: Any = None,
) -> Call:
    """Call an operator of torch.

    Args:
        operands: Tensors, and results of other such calls: a sequence or a tuple.
        sizes: The sizes that the arguments name.
        operator: Name of the overload, such as `aten.sort.default`.
        arguments: Positional arguments in a list, and keyword arguments by name, as JSON in the form that
            `eutectic.support.eager_call` documents.
        results: What becomes of each result.
        sinfo_args: Struct info of the result.
        reason: Why it is not compiled, as a sentence.
        number: Other than 0 for operators whose calls are not to be merged.
        span: Python source of the call.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: `sinfo_args` is not struct info.
    """
    attrs = EagerAttrs(operator, arguments, tuple(results), reason, number)
    values = (
        operands if isinstance(operands, Expr) else Tuple(tuple(operands)),
        sizes if isinstance(sizes, Expr) else ShapeExpr(tuple(sizes)),
    )
    out = stated(sinfo_args)
    return Call(_call_eager.op, values, attrs, (out,), span, struct_info=out)


@_call_eager.infer
def _infer(c: Call) -> StructInfo:
    if len(c.sinfo_args) != 1:
        refuse(c, "call_eager needs the struct info of its result", help="pass sinfo_args")
    return c.sinfo_args[0]


@_call_eager.reference
def _reference(attrs: EagerAttrs, operands: Any, sizes: Any) -> Any:
    return eager_call(attrs.operator, attrs.arguments, attrs.results, operands, sizes)
