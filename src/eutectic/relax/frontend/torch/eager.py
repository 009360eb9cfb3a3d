"""Nodes that have no converter as calls of torch: everything around them is compiled all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import sympy  # type: ignore[import-untyped]  # it ships no types
import torch
from torch import fx

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Var
from eutectic.relax.frontend.core import Refused
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.eager_graph import callable_name, graph_form, is_random, literal, subgraph
from eutectic.relax.frontend.torch.symbols import Symbols
from eutectic.relax.frontend.torch.table import Context
from eutectic.relax.op import shape_to_tensor, tensor_to_shape
from eutectic.relax.op.eager import call_eager
from eutectic.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.deep import deep
from eutectic.support.eager_call import ARRAY, SIZE, VALUE, order_of
from eutectic.support.errors import UnsupportedTypeError

NO_CONVERTER: Final = "there is no converter for it"
_WIDE: Final = {torch.SymInt: "int64", torch.SymFloat: "float64", torch.SymBool: "bool"}
CONTROL_FLOW: Final = "values decide which of its graphs run, and how often: torch runs them"


class EagerCalls:
    """Makes calls of torch of nodes.

    Args:
        symbols: Symbolic sizes of the program; sizes that depend on values are defined here.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self._random: Expr | None = None
        self._count = 0

    def call(self, node: fx.Node, context: Context, operand: Callable[[Any], Any], reason: str) -> Any:
        """A node as a call of torch.

        Args:
            node: The node.
            context: Receives the call.
            operand: Gives the graph value of an argument.
            reason: Why it is not compiled; empty when there is no converter.

        Returns:
            The graph value, or a list with one per result.

        Raises:
            Refused: torch cannot be called for it from data.
        """
        arguments = _Arguments(node, operand, reason)
        written = [[arguments.form(arg) for arg in node.args], arguments.keyword(node)]
        value: Any = node.meta.get("val")
        is_list = isinstance(value, (tuple, list))
        parts = list(value) if is_list else [value]
        kinds, infos = zip(*map(self._kept, parts), strict=True) if parts else ((), ())
        result = self._emitted(node, context, arguments, written, kinds, infos if is_list else infos[0], reason)
        if not is_list:
            return self._settled(context, result, value)
        fields = [context.emit(context.item(result, place)) for place in range(len(parts))]
        return [self._settled(context, field, part) for field, part in zip(fields, parts, strict=True)]

    def size(self, node: fx.Node, context: Context, operand: Callable[[Any], Any]) -> PrimExpr:
        """A size that a node reads from a tensor.

        Raises:
            Refused: it is not the value itself, or torch cannot be called for it from data.
        """
        value = node.meta["val"]
        if not isinstance(value.node.expr, sympy.Symbol):
            raise Refused("it is a size that is computed from values")
        arguments = _Arguments(node, operand, "")
        written = [[arguments.form(arg) for arg in node.args], arguments.keyword(node)]
        reason = "its value is a size, or decides about one"
        info = TensorStructInfo(ShapeExpr((as_prim(1, "int64"),)), "int64")
        result = self._emitted(node, context, arguments, written, (SIZE,), info, reason)
        shape = context.emit(tensor_to_shape(result))
        size = self.symbols.size(value)
        context.block_builder.match_cast(shape, ShapeStructInfo((size,)))
        self.symbols.define(value)
        return size

    def value(self, node: fx.Node, context: Context, operand: Callable[[Any], Any]) -> Any:
        """A number that is no integer, or a condition, as a value that only torch reads.

        Raises:
            Refused: torch cannot be called for it from data.
        """
        return self.call(node, context, operand, "it is a number that has no value when compiling")

    def tensor_of(self, node: fx.Node, number: Any, context: Context) -> Var:
        """A number that is returned, as a tensor of one element, of the largest dtype of its kind.

        Args:
            node: The node that gives the number.
            number: Its value in the graph: a size, or what torch keeps.
            context: Receives the call.
        """
        if isinstance(number, PrimExpr):
            return context.emit(shape_to_tensor(ShapeExpr((number,))))
        dtype = _WIDE[type(node.meta["val"])]
        call = call_eager(
            [number],
            (),
            operator="aten.scalar_tensor.default",
            arguments=json.dumps([[{"tensor": 0}], {"dtype": {"torch": dtype}}]),
            results=(ARRAY,),
            sinfo_args=TensorStructInfo(ShapeExpr(()), dtype),
            reason="it is a number that is returned",
            span=context.span,
        )
        return context.emit(call)

    def complex_of(self, parts: Expr, builder: BlockBuilder) -> Var:
        """Complex numbers, as a value that only torch reads.

        Args:
            parts: Real and imaginary parts along the last axis.
            builder: Receives the call.
        """
        call = call_eager(
            [parts],
            (),
            operator="aten.view_as_complex.default",
            arguments=json.dumps([[{"tensor": 0}], {}]),
            results=(VALUE,),
            sinfo_args=ObjectStructInfo(),
            reason="complex numbers are left to torch",
        )
        return builder.emit(call)

    def _emitted(
        self,
        node: fx.Node,
        context: Context,
        arguments: _Arguments,
        written: list[Any],
        kinds: tuple[str, ...],
        infos: StructInfo | tuple[StructInfo, ...],
        reason: str,
    ) -> Var:
        name = callable_name(node, reason)
        number, operands = 0, arguments.operands
        if is_random(node):  # in the order of the program, each once
            self._count += 1
            number = self._count
            operands = operands if self._random is None else [*operands, self._random]
        info = TupleStructInfo(infos) if isinstance(infos, tuple) else infos
        result = context.emit(
            call_eager(
                operands,
                arguments.sizes,
                operator=name,
                arguments=json.dumps(written),
                results=kinds,
                sinfo_args=info,
                reason=reason or (CONTROL_FLOW if name.startswith("higher_order.") else NO_CONVERTER),
                number=number,
                span=context.span,
            )
        )
        if number:
            self._random = result
        return result

    def _kept(self, value: Any) -> tuple[str, StructInfo]:
        """What becomes of a result: an array where the program can have one."""
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_quantized:
            return VALUE, ObjectStructInfo()
        try:
            dtype = dtype_name(value.dtype, "")
        except UnsupportedTypeError:
            return VALUE, ObjectStructInfo()
        if self.symbols.are_known(value):
            return ARRAY, TensorStructInfo(ShapeExpr(self.symbols.shape(value.shape)), dtype)
        return ARRAY, TensorStructInfo(dtype=dtype, ndim=value.dim())

    def _settled(self, context: Context, result: Expr, value: Any) -> Expr:
        """A result under a shape with names for the sizes that only its values decide."""
        info = result.struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is not None:
            return result
        self.symbols.define(*value.shape)
        return context.block_builder.match_cast(
            result, TensorStructInfo(ShapeExpr(self.symbols.shape(value.shape)), info.dtype)
        )


class _Arguments:
    """The arguments of a call as data, with operands and sizes by number."""

    def __init__(self, node: fx.Node, operand: Callable[[Any], Any], reason: str) -> None:
        self._operand, self._reason = operand, reason
        self._looks_at_strides = "as_strided" in str(node.target)
        self.operands: list[Expr] = []
        self.sizes: list[PrimExpr] = []

    def keyword(self, node: fx.Node) -> dict[str, Any]:
        """The keyword arguments of a node."""
        return {name: self.form(value) for name, value in node.kwargs.items()}

    @deep
    def form(self, argument: Any) -> Any:
        """An argument as data.

        Raises:
            Refused: it has no form as data.
        """
        if isinstance(argument, fx.Node):
            graph = subgraph(argument)
            if graph is not None:
                return graph_form(graph, self.form)
            operand = self._operand(argument)
            order = _order_in_memory(argument) if self._looks_at_strides and isinstance(operand, Expr) else None
            return self.form(operand) if order is None else {**self.form(operand), "order": order}
        if isinstance(argument, (list, tuple)):
            return [self.form(item) for item in argument]
        if isinstance(argument, Expr):
            self.operands.append(argument)
            return {"tensor": len(self.operands) - 1}
        if isinstance(argument, PrimExpr):
            self.sizes.append(argument)
            return {"size": len(self.sizes) - 1}
        return literal(argument, self._reason)


def _order_in_memory(node: fx.Node) -> list[int] | None:
    """The order of a tensor's axes in memory, as torch has it; None when it is that of the axes.

    Raises:
        Refused: its elements have gaps between them, or share memory.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_contiguous():
        return None
    order = order_of([int(stride) for stride in value.stride()])
    if not value.permute(order).is_contiguous():
        raise Refused("it looks at the memory of a tensor with gaps")
    return order
