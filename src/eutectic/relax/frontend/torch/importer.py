"""Walks an exported graph node by node and builds the graph function `main`; collects what it cannot import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import getitem
from typing import Any, Final

import torch
from torch import fx

from eutectic.arith import prove_equal, prove_unequal
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Constant, Var, describe_info
from eutectic.relax.frontend.core import Refused
from eutectic.relax.frontend.torch.complex_parts import (
    COMPLEX,
    ComplexParts,
    converted,
    is_about_complex,
    is_of_parts,
    parts_dtype,
)
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.eager import EagerCalls
from eutectic.relax.frontend.torch.kernels import IN_FIXED_POINT, is_in_fixed_point
from eutectic.relax.frontend.torch.numbers_of_sizes import feeds_arithmetic, number_of
from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.spans import span_of
from eutectic.relax.frontend.torch.symbols import Symbols, free_symbols
from eutectic.relax.frontend.torch.table import Context, key_of
from eutectic.relax.frontend.torch.unsupported import Unsupported
from eutectic.relax.op import checked
from eutectic.relax.struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import FrontendError, InternalError, TypeInferenceError, UnsupportedTypeError

UserConverter = Callable[[fx.Node, Context], Any]

# Checks that torch inserts for itself; calls check what they need against the signature.
_CHECKS: Final = (
    "_assert_scalar",
    "_assert_tensor_metadata",
    "_guards_fn",
    "_functional_assert",
    "_functional_sym_constrain",
    "sym_constrain_range",
)
_ASSERTIONS: Final = ("aten._assert_async.msg", "aten._assert_async.default")  # of values that only the run knows
# Regions that torch wraps -> the place of the wrapped graph among the arguments.
_REGIONS: Final = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}


_DATA: Final = (
    "it gives a number or a size that depends on the values of a tensor, as .item(), .tolist(), int() and bool() "
    "do, and what is compiled is compiled before there are values"
)


@dataclass(frozen=True)
class _NoValue:
    """Stands for a number that has no value when compiling.

    Attributes:
        node: The node that it comes from.
        reason: Why whatever uses it is refused.
    """

    node: fx.Node
    reason: str


class Importer:
    """Converts the nodes of one graph.

    Args:
        block_builder: Receives the bindings; a dataflow block must be open.
        symbols: Symbolic sizes of the program.
        custom: Converters that go before the table, by operator name.
        eager: Makes calls of torch of what cannot be converted; None refuses it.
    """

    def __init__(
        self,
        block_builder: BlockBuilder,
        symbols: Symbols,
        custom: Mapping[Any, UserConverter],
        eager: EagerCalls | None = None,
    ) -> None:
        self.block_builder, self.symbols, self.eager = block_builder, symbols, eager
        self.custom = {str(key): converter for key, converter in custom.items()}
        self.env: dict[fx.Node, Any] = {}
        self.unsupported = Unsupported()
        self._assertions: list[tuple[fx.Node, Expr, str]] = []
        self._of_torch: dict[ComplexParts, Var] = {}

    def run(self, graph: fx.Graph) -> None:
        """Convert every node that is not a placeholder or the output.

        Raises:
            UnsupportedOperatorError: some nodes cannot be converted; lists all of them.
        """
        sizes = free_symbols(node.meta.get("val") for node in graph.nodes if node.op == "placeholder")
        self.symbols.known |= set(map(str, sizes))
        values = [node.meta.get("val") for node in graph.nodes]
        shapes = free_symbols(v for v in values if not isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool)))
        self.symbols.of_shapes |= set(map(str, shapes))
        self._walk(graph)
        output = next(node for node in graph.nodes if node.op == "output")
        for node in output.all_input_nodes:
            value = self.env.get(node)
            if isinstance(value, _NoValue) and value.reason is _DATA:
                self.unsupported.add(value.node, _DATA)
            if isinstance(value, ComplexParts) and self.eager is None:
                self.unsupported.add(node, "it returns complex numbers")
        self.unsupported.raise_if_any()

    def result(self, node: fx.Node) -> Any:
        """The graph value of an output: of a number that values decide, a tensor without axes."""
        value = self.env[node]
        if isinstance(value, ComplexParts):
            return self._complex(value)
        if isinstance(node.meta.get("val"), torch.Tensor) or self.eager is None:
            return value
        context = Context(node, span_of(node), self.block_builder, self.env, self.symbols)
        return self.eager.tensor_of(node, value, context)

    @deep
    def _known_to_torch(self, arg: Any) -> Any:
        """An operand of a call of torch, which knows complex numbers."""
        value = self._operand(arg)
        if isinstance(value, list):
            return [self._known_to_torch(item) for item in value]
        return self._complex(value) if isinstance(value, ComplexParts) else value

    def _complex(self, value: ComplexParts) -> Var:
        """Complex numbers as torch knows them, made once."""
        assert self.eager is not None
        if value not in self._of_torch:
            self._of_torch[value] = self.eager.complex_of(value.parts, self.block_builder)
        return self._of_torch[value]

    def _walk(self, graph: fx.Graph) -> None:
        for node in graph.nodes:
            if node in self.env or node.op in ("placeholder", "output", "get_attr") or _is_check(node):
                continue
            self.env[node] = self._convert(node)

    @deep
    def _convert(self, node: fx.Node) -> Any:
        context = Context(node, span_of(node), self.block_builder, self.env, self.symbols)
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat, int)) and not isinstance(value, bool):
            return self._number(node, context)
        try:
            if operator_name(node) in _ASSERTIONS:
                return self._assert(node, context)
            converted = self._dispatch(node, context)
            if node.target is getitem:
                return self._checked(node, context.emit(converted) if not _is_leaf(converted) else converted)
            return self._complete(node, converted) if isinstance(converted, list) else self._checked(node, converted)
        except _OfData as error:
            return self._left(node, context, error.node, _DATA)
        except Refused as refused:
            return self._left(node, context, node, str(refused))
        except TypeInferenceError as error:
            return self._left(node, context, node, error.message)
        except UnsupportedTypeError as error:
            if self.eager is None:
                raise
            return self._left(node, context, node, error.message)

    def _left(self, node: fx.Node, context: Context, blamed: fx.Node, reason: str) -> Any:
        """The value of a node that cannot be converted: torch's, or a stand-in for one that is refused."""
        if self.eager is not None:
            try:
                return self.eager.call(node, context, self._known_to_torch, reason)
            except Refused as refused:
                blamed, reason = node, str(refused) or reason
        self.unsupported.add(blamed, reason)
        return self._stand_in(node)

    def _number(self, node: fx.Node, context: Context) -> Any:
        """A number: a size where it is an integer that arguments or earlier values decide about, else torch's value."""
        value = node.meta["val"]
        is_integer = isinstance(value, (torch.SymInt, int))
        if is_integer and self.symbols.are_known(value):
            return self.symbols.size(value)
        if isinstance(value, torch.SymFloat) and self.symbols.are_known(value) and feeds_arithmetic(node):
            try:
                return number_of(context, value.node.expr)
            except Refused:
                pass  # torch computes it
        if self.eager is not None and not all(map(_is_check, node.users)):
            try:
                if is_integer and self.symbols.is_size(value):
                    return self.eager.size(node, context, self._known_to_torch)
                return self._number_of_torch(node, context, self.eager)
            except Refused:
                pass  # whatever uses it is refused
        if not self.symbols.are_known(value):
            return _NoValue(self._origin(node), _DATA)
        return _NoValue(node, "it takes a number that is computed from sizes, and is not an integer")

    def _number_of_torch(self, node: fx.Node, context: Context, eager: EagerCalls) -> Any:
        """A number as torch has it; an integer that tensors alone are computed with is one of them."""
        number = eager.value(node, context, self._known_to_torch)
        is_operand = isinstance(node.meta["val"], torch.SymInt) and feeds_arithmetic(node)
        if is_operand and all(isinstance(user.meta.get("val"), torch.Tensor) for user in node.users):
            return eager.tensor_of(node, number, context)
        return number

    def _origin(self, node: fx.Node) -> fx.Node:
        """The node that made the first number of data that a node depends on."""
        while True:
            before = next((n for n in node.all_input_nodes if not self.symbols.are_known(n.meta.get("val"))), None)
            if before is None:
                return node
            node = before

    def _dispatch(self, node: fx.Node, context: Context) -> Any:
        name = operator_name(node)
        key = key_of(name, self.custom)
        if key is not None:
            return self.custom[key](node, context)
        if name in _REGIONS:
            return self._inlined(node, context)
        if node.target is getitem:
            return self._getitem(node, context)
        if name not in TABLE and name not in COMPLEX:
            raise Refused("")
        if self.eager is not None and is_in_fixed_point(node):
            raise Refused(IN_FIXED_POINT)
        written, options = _arguments(node)
        args = [self._operand(arg) for arg in written]
        keywords = {key: self._operand(value) for key, value in options.items()}
        if is_about_complex(name, args):
            return converted(context, name, args, keywords)
        if name not in TABLE:
            raise Refused("")
        try:
            return TABLE[name](context, *args, **keywords)
        except (TypeError, ValueError):  # of a converter that needs to know the number
            if not any(map(_is_unknown_number, (*args, *keywords.values()))):
                raise
            raise Refused("it takes a number that has no value when compiling") from None

    def _assert(self, node: fx.Node, context: Context) -> None:
        condition, *message = _arguments(node)[0]
        holds = context.cast(self._operand(condition), "bool")
        self._assertions.append((node, holds, message[0] if message else "an assertion of the model does not hold"))

    def asserted(self, value: Expr) -> Expr:
        """A value that is right only when all assertions of the graph hold."""
        for node, condition, message in self._assertions:
            guarded = checked(value, condition, message, span=span_of(node))
            value = self.block_builder.emit(guarded)
        return value

    def _inlined(self, node: fx.Node, context: Context) -> list[Any]:
        """The results of a region that torch wraps because of the grad mode or autocast, converted in place."""
        name = operator_name(node)
        place = _REGIONS[name]
        if name == "wrap_with_autocast" and node.args[0] == "cpu" and node.args[2]:
            context.refuse("autocast on the CPU: its casts are not part of the exported program")
        holder, region = node.graph.owning_module, node.args[place]
        assert isinstance(region, fx.Node)
        graph = getattr(holder, str(region.target)).graph
        inputs = [inner for inner in graph.nodes if inner.op == "placeholder"]
        for inner, arg in zip(inputs, node.args[place + 1 :], strict=True):
            self.env[inner] = self._operand(arg)
        self._walk(graph)
        output = next(inner for inner in graph.nodes if inner.op == "output")
        return [self._operand(item) for item in output.args[0]]

    @deep
    def _operand(self, arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            if arg not in self.env:
                raise Refused(f"it reads {arg.target}, which has no value")
            value = self.env[arg]
            if isinstance(value, _NoValue):
                raise _OfData(value.node) if value.reason is _DATA else Refused(value.reason)
            return value
        if isinstance(arg, (list, tuple)):
            return [self._operand(item) for item in arg]
        return arg

    def _getitem(self, node: fx.Node, context: Context) -> Any:
        source, index = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(index, int)
        fields = self.env[source]
        if not isinstance(fields, list):
            raise Refused(f"it takes result {index} of {source.target}")
        if fields[index] is None:
            if not node.users:
                return None
            raise _missing(source, index)
        if not _is_leaf(fields[index]):
            fields[index] = context.emit(fields[index])
        return fields[index]

    def _complete(self, node: fx.Node, results: list[Any]) -> list[Any]:
        """The results of a node; where one is read that its converter cannot give, torch has to give them all."""
        if self.eager is None:  # each place that reads such a result is refused by itself
            return results
        for user in node.users:
            if user.target is getitem and user.users and results[user.args[1]] is None:  # type: ignore[index]  # an int
                raise _missing(node, user.args[1])
        return results

    def _checked(self, node: fx.Node, converted: Any) -> Any:
        """The value after comparing its struct info with what torch says; sizes only torch knows are cast in."""
        value = node.meta.get("val")
        if isinstance(converted, ComplexParts) and is_of_parts(value):
            return ComplexParts(self._agreed(node, converted.parts, self.parts_info(value)))
        if not isinstance(value, torch.Tensor) or not isinstance(converted, Expr):
            return converted
        return self._agreed(node, converted, self.info(value, str(node.target)))

    def _agreed(self, node: fx.Node, converted: Expr, wanted: TensorStructInfo) -> Expr:
        info = converted.struct_info
        if not isinstance(info, TensorStructInfo) or info.dtype != wanted.dtype or info.ndim != wanted.ndim:
            raise _disagreement(node, info, wanted)
        if info.dims is not None and wanted.dims is not None:
            pairs = list(zip(info.dims, wanted.dims, strict=True))
            if any(prove_unequal(a, b) for a, b in pairs):
                raise _disagreement(node, info, wanted)
            if all(prove_equal(a, b) for a, b in pairs):
                return converted
        return self.block_builder.match_cast(converted, wanted)

    def info(self, value: torch.Tensor, what: str) -> TensorStructInfo:
        """Struct info of an example value."""
        return TensorStructInfo(ShapeExpr(self.symbols.shape(value.shape)), dtype_name(value.dtype, what))

    def parts_info(self, value: torch.Tensor) -> TensorStructInfo:
        """Struct info of the parts of an example of complex numbers."""
        return TensorStructInfo(ShapeExpr((*self.symbols.shape(value.shape), as_prim(2, "int64"))), parts_dtype(value))

    def _stand_in(self, node: fx.Node) -> Any:
        """A value of the right type for a node that cannot be converted, so that the walk can go on."""
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            return [Var(node.name, self._stand_in_info(item)) for item in value]
        return Var(node.name, self._stand_in_info(value))

    def _stand_in_info(self, value: Any) -> StructInfo:
        if not isinstance(value, torch.Tensor):
            return ObjectStructInfo()
        try:
            return self.info(value, "")
        except FrontendError:
            return ObjectStructInfo()


class _OfData(Refused):
    """A node uses a number that depends on data: the operator that gave it is what is refused."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__(_DATA)
        self.node = node


def operator_name(node: fx.Node) -> str:
    """Name of the operator of a node, such as `aten.relu.default`."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OperatorBase):
        return str(target)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def _is_check(node: fx.Node) -> bool:
    name = operator_name(node)
    return any(check in name for check in _CHECKS)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Var, Constant)) or not isinstance(value, Expr)


def _is_unknown_number(value: Any) -> bool:
    """Whether an operand is a number that only a call knows: a size that varies, or what an item of a tensor is."""
    if isinstance(value, PrimExpr):
        return not isinstance(value, IntImm)
    return isinstance(value, Expr) and isinstance(value.struct_info, (ObjectStructInfo, PrimStructInfo))


def _arguments(node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
    """Positional arguments in the order of the schema with defaults filled in, and keyword-only ones."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return list(node.args), dict(node.kwargs)
    args, kwargs = [], {}
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args):
            value = node.args[place]
        else:
            value = node.kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _missing(node: fx.Node, index: Any) -> Refused:
    return Refused(f"result {index} of {operator_name(node)} is used, which cannot be imported")


def _disagreement(node: fx.Node, info: StructInfo | None, wanted: StructInfo) -> InternalError:
    span = span_of(node)
    actual = describe_info(info) if info is not None and not isinstance(info, TupleStructInfo) else str(info)
    return InternalError(
        f"{operator_name(node)} was imported as {actual}, but torch says {describe_info(wanted)}",
        at=span.excerpt() if span else None,
        help="this is a fault of the importer: please report it with the model",
    )
