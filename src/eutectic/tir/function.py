"""PrimFunc: a tensor program with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from eutectic.ir.attrs import DictAttrs, make_attrs
from eutectic.ir.module import BaseFunc
from eutectic.ir.node import Node, field, init_field, node, replace
from eutectic.ir.prim_expr import Var
from eutectic.ir.prim_type import PrimType, TupleType, Type
from eutectic.ir.span import Span
from eutectic.support.errors import WellFormedError
from eutectic.tir.buffer import Buffer
from eutectic.tir.stmt import Stmt


@node("tir.BufferMap")
class BufferMap(Node):
    """Which buffer each handle parameter stands for; reads like a dict, in the order of the parameters.

    Attributes:
        pairs: Parameter and buffer.
    """

    pairs: tuple[tuple[Var, Buffer], ...] = field(role="def", default=())

    def __getitem__(self, param: Var) -> Buffer:
        buffer = self.get(param)
        if buffer is None:
            raise KeyError(f"parameter {param.name} has no buffer")
        return buffer

    def get(self, param: Any, default: Buffer | None = None) -> Buffer | None:
        """The buffer of a parameter, or `default`."""
        return next((buffer for var, buffer in self.pairs if var is param), default)

    def keys(self) -> list[Var]:
        """The parameters that have a buffer."""
        return [var for var, _ in self.pairs]

    def values(self) -> list[Buffer]:
        """The buffers."""
        return [buffer for _, buffer in self.pairs]

    def items(self) -> list[tuple[Var, Buffer]]:
        """Parameters and buffers."""
        return list(self.pairs)

    def __contains__(self, param: object) -> bool:
        return self.get(param) is not None

    def __iter__(self) -> Iterator[Var]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.pairs)


_SIGNATURES: list[Callable[[PrimFunc], Any]] = []


def set_signature_maker(maker: Callable[[PrimFunc], Any]) -> None:
    """Let `func.struct_info` describe the function in the graph dialect, which this package must not import."""
    _SIGNATURES[:] = [maker]


_SPECIALIZERS: list[Callable[[PrimFunc, Mapping[Var, Any]], PrimFunc]] = []


def set_specializer(specializer: Callable[[PrimFunc, Mapping[Var, Any]], PrimFunc]) -> None:
    """Let `func.specialize` rewrite functions, which needs this module."""
    _SPECIALIZERS[:] = [specializer]


@node("tir.PrimFunc")
class PrimFunc(BaseFunc):
    """A function on scalars and buffers.

    Attributes:
        params: Parameters; a `Buffer` given here becomes a handle and an entry of the map.
        body: What it does.
        ret_type: Type of the result; None is void.
        buffer_map: Buffers of the handle parameters.
        attrs: Annotations such as `global_symbol`.
        span: Where in the user's source it comes from.

    Raises:
        WellFormedError: the map has a key that is no parameter.
    """

    params: tuple[Var, ...] = field(role="def")
    body: Stmt
    ret_type: Type = TupleType()
    buffer_map: BufferMap = BufferMap()
    attrs: DictAttrs = DictAttrs()
    span: Span | None = field(role="ignore", default=None, kw_only=True)
    compare_order: ClassVar[tuple[str, ...]] = ("params", "buffer_map", "ret_type", "attrs", "body")

    def __post_init__(self) -> None:
        result: Any = self.ret_type
        received: Any = self.buffer_map
        buffers = dict(received.items()) if received else {}
        params: list[Var] = []
        for param in self.params:
            if isinstance(param, Buffer):
                handle = Var(f"var_{param.name}", "handle")
                buffers[handle] = param
                params.append(handle)
            else:
                params.append(param)
        unknown = [var.name for var in buffers if not any(var is p for p in params)]
        if unknown:
            raise WellFormedError(f"buffers are given for what is no parameter: {', '.join(unknown)}")
        init_field(self, "params", tuple(params))
        init_field(self, "ret_type", PrimType(result) if isinstance(result, str) else result or TupleType())
        if not isinstance(received, BufferMap) or len(received) != len(buffers):
            pairs = tuple((p, buffers[p]) for p in params if p in buffers)
            init_field(self, "buffer_map", BufferMap(pairs))
        init_field(self, "attrs", make_attrs(self.attrs))

    @property
    def struct_info(self) -> Any:
        """The signature in the graph dialect; None until that dialect is loaded."""
        return _SIGNATURES[0](self) if _SIGNATURES else None

    @property
    def buffers(self) -> tuple[Buffer | Var, ...]:
        """What each parameter stands for: its buffer, or itself."""
        return tuple(self.buffer_map.get(param) or param for param in self.params)

    def with_body(self, new_body: Stmt, span: Span | None = None) -> PrimFunc:
        """A copy with another body; `span` is accepted as TVM does."""
        return replace(self, body=new_body)

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function for some of its arguments; see `tir.specialize.specialize`."""
        return _SPECIALIZERS[0](self, param_map)
