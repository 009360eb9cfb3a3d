"""Primitives: from a description with layouts to a compiled oneDNN kernel, each one made once per region."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.algorithms import CODES, FIXED
from eutectic.backend.dnnl.layout import Layout, LayoutTable, dims
from eutectic.backend.dnnl.library import Library, Owner
from eutectic.backend.dnnl.steps import PostEltwise
from eutectic.support.errors import CodegenError


@dataclass(frozen=True, slots=True)
class BinaryPost:
    """A binary post-operation whose operand has a layout already."""

    kind: str
    operand: Layout


Post: TypeAlias = PostEltwise | BinaryPost
Parameter: TypeAlias = int | float | tuple[int, ...] | Layout | None


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """A kernel.

    Attributes:
        kind: Such as `convolution` or `reorder`.
        impl: oneDNN's name of the implementation, such as `jit:avx2`.
        layouts: Layout of each argument, by argument number.
        scratchpad: Layout of the working memory, or None.
        handle: The `dnnl_primitive_t`.
    """

    kind: str
    impl: str
    layouts: dict[int, Layout]
    scratchpad: Layout | None
    handle: int = field(repr=False)

    @property
    def is_reference(self) -> bool:
        """Whether this is oneDNN's plain loop nest, which is right but slow."""
        return self.impl.startswith("ref")


class PrimitiveFactory:
    """Builds primitives; equal descriptions give the same one."""

    def __init__(self, library: Library, owner: Owner, layouts: LayoutTable) -> None:
        self._library = library
        self._owner = owner
        self._layouts = layouts
        self._made: dict[tuple[object, ...], Primitive | CodegenError] = {}

    def build(
        self,
        kind: str,
        algorithm: int | None,
        parameters: Sequence[Parameter],
        args: Sequence[int],
        post: Sequence[Post] = (),
    ) -> Primitive:
        """Make a primitive, or return the equal one made before.

        Args:
            kind: Name of the descriptor's creating function, without `dnnl_` and `_primitive_desc_create`.
            algorithm: The algorithm kind; None where the function takes none.
            parameters: What the function takes after the algorithm, without the attributes.
            args: Argument numbers of the tensors.
            post: Post-operations.

        Raises:
            CodegenError: oneDNN does not implement this, or refuses it as malformed.
        """
        # The texts of the floats tell 0.0 from -0.0, which compare equal.
        key = (kind, algorithm, tuple(parameters), tuple(post), str([p for p in post if isinstance(p, PostEltwise)]))
        if key not in self._made:
            try:
                self._made[key] = self._build(kind, algorithm, parameters, args, post)
            except CodegenError as error:
                self._made[key] = error
        outcome = self._made[key]
        if isinstance(outcome, CodegenError):
            raise CodegenError(outcome.message, code=outcome.code)
        return outcome

    def reorder(self, src: Layout, dst: Layout) -> Primitive:
        """The copy from one layout to another."""
        return self.build("reorder", None, (src, dst), (abi.ARG_SRC, abi.ARG_DST))

    def _build(
        self,
        kind: str,
        algorithm: int | None,
        parameters: Sequence[Parameter],
        args: Sequence[int],
        post: Sequence[Post],
    ) -> Primitive:
        scope = Owner(self._library)
        try:
            attr = self._attributes(scope, post)
            head: list[Parameter] = []
            if kind.endswith("_forward"):
                head.append(abi.FORWARD_INFERENCE)
            if algorithm is not None:
                head.append(algorithm)
            values = [_lower(p) for p in (*head, *parameters)]
            if kind == "reorder":
                values = [values[0], self._library.engine, values[1]]
            name = f"dnnl_{kind}_primitive_desc_create"
            # A reorder names an engine on each side and the others one in front.
            order = [*values, self._library.engine] if kind == "reorder" else [self._library.engine, *values]
            desc = scope.keep("primitive_desc", self._library.create(name, *order, attr, what=_say(kind, parameters)))
            return self._finish(kind, desc, (*args, *_post_args(post)))
        finally:
            scope.close()

    def _finish(self, kind: str, desc: int, args: Sequence[int]) -> Primitive:
        query = self._library.function("dnnl_primitive_desc_query_md")
        layouts = {}
        for arg in args:
            layout = self._layouts.intern(query(desc, abi.QUERY_EXEC_ARG_MD, arg) or 0)
            if layout is not None:
                layouts[arg] = layout
        scratchpad = self._layouts.intern(query(desc, abi.QUERY_EXEC_ARG_MD, abi.ARG_SCRATCHPAD) or 0)
        text = ctypes.c_char_p()
        self._library.call("dnnl_primitive_desc_query", desc, abi.QUERY_IMPL_INFO, 0, ctypes.byref(text))
        impl = (text.value or b"").decode()
        handle = self._owner.create("primitive", desc, what=f"{kind} {impl}")
        return Primitive(kind.removesuffix("_forward"), impl, layouts, scratchpad, handle)

    def _attributes(self, scope: Owner, post: Sequence[Post]) -> int:
        call = self._library.call
        attr = scope.create("primitive_attr")
        call("dnnl_primitive_attr_set_scratchpad_mode", attr, abi.SCRATCHPAD_USER)
        call("dnnl_primitive_attr_set_fpmath_mode", attr, abi.FPMATH_STRICT)
        if not post:
            return attr
        ops = scope.create("post_ops")
        for p in post:
            if isinstance(p, PostEltwise):
                algorithm, alpha, beta = eltwise(p)
                call("dnnl_post_ops_append_eltwise", ops, algorithm, alpha, beta, what=f"post-op {p.algorithm}")
            else:
                kind = abi.BINARY[p.kind]
                call("dnnl_post_ops_append_binary", ops, kind, p.operand.handle, what=f"post-op {p.kind}")
        call("dnnl_primitive_attr_set_post_ops", attr, ops)
        return attr


def eltwise(p: PostEltwise) -> tuple[int, float, float]:
    """oneDNN's algorithm kind and its two parameters."""
    alpha, beta = FIXED.get(p.algorithm, (p.alpha, p.beta))
    return CODES[p.algorithm], alpha, beta


def _post_args(post: Sequence[Post]) -> list[int]:
    return [abi.arg_post_op(i) for i, p in enumerate(post) if isinstance(p, BinaryPost)]


def _lower(p: Parameter) -> object:
    match p:
        case Layout():
            return p.handle
        case tuple():
            return dims(p)
    return p


def _say(kind: str, parameters: Sequence[Parameter]) -> str:
    said = [f"{p.text}{list(p.shape)}" if isinstance(p, Layout) else str(p) for p in parameters]
    return f"{kind}({', '.join(said)})"
