"""Structural equality and hash: programs that differ only in names are the same.

Fields of role `def` bind the variables inside them: binders are matched by
position. A buffer is a variable that has a shape and more, which is compared
where the buffer is bound. Other variables are equal only to themselves, unless
`map_free_vars`. Both walks are iterative, and the hash is stable across processes.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node, fields_of
from eutectic.ir.op import Op
from eutectic.ir.prim_base import expressed
from eutectic.ir.prim_expr import IntImm
from eutectic.ir.visit import post_order


def is_variable(item: object) -> bool:
    """Whether `item` is a variable of any dialect."""
    return isinstance(item, Node) and item.is_variable


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes, modules or containers of them are the same program."""
    return structural_mismatch(lhs, rhs, map_free_vars) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise when two programs differ.

    Raises:
        ValueError: they differ; the message has the access path and both values.
    """
    mismatch = structural_mismatch(lhs, rhs, map_free_vars)
    if mismatch is not None:
        raise ValueError(f"structures differ at {mismatch}\n--- left\n{_text(lhs)}\n--- right\n{_text(rhs)}")


def structural_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> str | None:
    """Path of the first difference with both values, or None when there is none."""
    return _Comparison(map_free_vars).run(expressed(lhs), expressed(rhs))


get_first_structural_mismatch = structural_mismatch


_WRITTEN_EXACTLY: Final = frozenset({int, bool, float, str, bytes, type(None)})  # different values, different texts
_SAMPLES: Final = 1024  # elements of an array in a digest that is not exact
_FORGET: Final = object()  # among what is to be compared: variables known so far mean nothing to what follows


class _Comparison:
    """One walk over two structures in lock step."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.forward: dict[int, Node] = {}
        self.backward: dict[int, Node] = {}
        self.seen: set[tuple[int, int, bool]] = set()
        self.todo: list[tuple[Any, Any, str, bool]] = []

    def run(self, a: Any, b: Any) -> str | None:
        self.todo.append((a, b, "<root>", self.map_free_vars))
        while self.todo:
            left, right, path, binding = self.todo.pop()
            if left is _FORGET:
                self.forward.clear()
                self.backward.clear()
                self.seen.clear()
                continue
            problem = self.step(left, right, path, binding)
            if problem is not None:
                return f"{path}: {problem}"
        return None

    def step(self, a: Any, b: Any, path: str, binding: bool) -> str | None:
        if isinstance(a, IRModule) and isinstance(b, IRModule):
            return self.modules(a, b, path, binding)
        if isinstance(a, Node) and isinstance(b, Node):
            return self.nodes(a, b, path, binding)
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            if len(a) != len(b):
                return f"{len(a)} items against {len(b)}"
            self.push((x, y, f"{path}[{i}]", binding) for i, (x, y) in enumerate(zip(a, b, strict=True)))
            return None
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return _array_difference(a, b)
        if isinstance(a, dict) and isinstance(b, dict):
            if set(a) != set(b):
                return f"keys {sorted(map(str, a))} against {sorted(map(str, b))}"
            self.push((a[k], b[k], f"{path}[{k!r}]", binding) for k in a)
            return None
        return None if _same_plain(a, b) else f"{a!r} against {b!r}"

    def push(self, items: Any) -> None:
        self.todo.extend(reversed(list(items)))

    def modules(self, a: IRModule, b: IRModule, path: str, binding: bool) -> str | None:
        names_a, names_b = ([v.name_hint for v in m.get_global_vars()] for m in (a, b))
        if names_a != names_b:
            return f"functions {names_a} against {names_b}"
        # Functions share no variables, even where one object serves in several of them.
        functions = [((_FORGET, None, path, binding), (a[n], b[n], f"{path}[{n!r}]", binding)) for n in names_a]
        self.push(
            [
                *(item for pair in functions for item in pair),
                (a.attrs, b.attrs, f"{path}.attrs", binding),
                (a.global_infos, b.global_infos, f"{path}.global_infos", binding),
            ]
        )
        return None

    def nodes(self, a: Node, b: Node, path: str, binding: bool) -> str | None:
        if is_variable(a) or is_variable(b):
            return self.variables(a, b, path, binding)
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return (
                None
                if a.value == b.value and a.dtype == b.dtype
                else f"{a.value}: {a.dtype} against {b.value}: {b.dtype}"
            )
        if type(a) is not type(b):
            return f"{type(a).__name__} against {type(b).__name__}"
        if isinstance(a, (Op, GlobalVar)):
            return None if _name(a) == _name(b) else f"{_name(a)} against {_name(b)}"
        if not binding:
            key = (id(a), id(b), binding)
            if key in self.seen:
                return None
            self.seen.add(key)
        self.push_fields(a, b, path, binding)
        return None

    def push_fields(self, a: Node, b: Node, path: str, binding: bool) -> None:
        """Compare the fields of two nodes; a class that binds variables after their use in the list says the order."""
        pairs = [
            (x, y, f"{path}.{name}", binding or role == "def")
            for (name, role, x), (_, _, y) in zip(fields_of(a), fields_of(b), strict=True)
            if role != "ignore"
        ]
        order = getattr(type(a), "compare_order", None)
        if order is not None:
            pairs.sort(key=lambda pair: order.index(pair[2].rpartition(".")[2]))
        self.push(pairs)

    def variables(self, a: Node, b: Node, path: str, binding: bool) -> str | None:
        if not (is_variable(a) and is_variable(b)):
            return f"{type(a).__name__} against {type(b).__name__}"
        if id(a) in self.forward or id(b) in self.backward:
            same = self.forward.get(id(a)) is b and self.backward.get(id(b)) is a
            return None if same else f"variable {_label(a)} against {_label(b)}"
        if not binding:
            return None if a is b else f"variable {_label(a)} against {_label(b)}"
        if type(a) is not type(b):
            return f"{type(a).__name__} {_label(a)} against {type(b).__name__} {_label(b)}"
        self.forward[id(a)], self.backward[id(b)] = b, a
        info_a, info_b = getattr(a, "struct_info", None), getattr(b, "struct_info", None)
        if info_a is not None and info_b is not None:
            self.push([(info_a, info_b, f"{path}.struct_info", True)])
        elif getattr(a, "dtype", None) != getattr(b, "dtype", None):
            return f"variable {_label(a)} against {_label(b)} of another dtype"
        self.push_fields(a, b, path, True)
        type_a, type_b = getattr(a, "type_annotation", None), getattr(b, "type_annotation", None)
        if type_a is not None and type_b is not None:
            self.push([(type_a, type_b, f"{path}.type_annotation", True)])
        return None


def structural_hash(item: Any, map_free_vars: bool = False) -> int:
    """64-bit hash that is equal for structurally equal programs, in every process.

    Args:
        item: Node, module, or container of them.
        map_free_vars: Present for symmetry; free variables hash by order of appearance either way.
    """
    return int.from_bytes(structural_digest(item)[:8], "little")


class StructuralKey:
    """A dictionary key for parts of one program: keys are equal exactly when `structural_equal` says so of the items.

    A digest alone will not do: it numbers variables, so that `x[i]` and `x[j]` have the same one. Here variables
    that an item does not bind are equal only to themselves.

    Attributes:
        item: Node, module, or container of them.
        digest: Its structural digest.
    """

    __slots__ = ("digest", "item")

    def __init__(self, item: Any) -> None:
        self.item, self.digest = item, structural_digest(item, is_exact=False)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructuralKey):
            return NotImplemented
        return self.digest == other.digest and (self.item is other.item or structural_equal(self.item, other.item))


def structural_digest(item: Any, *, is_exact: bool = True) -> bytes:
    """32 bytes that identify a closed program up to names; the key of caches on disk.

    Programs that differ only in which free variables they use have the same digest: a key for parts of a program,
    such as indices, shapes and calls, is `StructuralKey`.

    Args:
        item: Node, module, or container of them.
        is_exact: Whether arrays count with all of their elements. Otherwise they count with some: that takes no time,
            and is enough for who compares programs of the same digest with `structural_equal`.
    """
    if isinstance(item, IRModule):
        item = ("module", item.attrs, *((name.name_hint, f) for name, f in item.functions_items()))
    if isinstance(item, (tuple, list)):
        parts = [structural_digest(part, is_exact=is_exact) for part in item]
        return hashlib.blake2b(b"tuple" + b"".join(parts), digest_size=32).digest()
    item = expressed(item)
    if not isinstance(item, Node):
        return _plain_digest(item)
    numbers: dict[int, int] = {}  # of nodes, by identity; equal nodes have the same one
    texts: dict[str, int] = {}
    variables = 0
    for node in post_order(item):
        text = _written(node, numbers, is_exact)
        if is_variable(node):  # by the order in which they come up, whatever is shared
            text, variables = f"{text}#{variables}", variables + 1
        numbers[id(node)] = texts.setdefault(text, len(texts))
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=32).digest()


_ARRAYS: WeakKeyDictionary[Node, str] = WeakKeyDictionary()  # digests of arrays, which may be large, by their nodes


def _written(node: Node, numbers: dict[int, int], is_exact: bool) -> str:
    """A node as text, with numbers in place of the nodes below it, which have texts of their own."""
    if isinstance(node, (Op, GlobalVar)):
        return f"{node.type_key}({_name(node)!r})"
    texts = [node.type_key]
    for name in node.used_fields:
        value = getattr(node, name)
        is_array = isinstance(value, np.ndarray)
        texts.append(_array_text(node, value, is_exact) if is_array else _value_text(value, numbers))
    return ",".join(texts)


def _array_text(node: Node, array: np.ndarray[Any, Any], is_exact: bool) -> str:
    if not is_exact and array.size > _SAMPLES:
        return f"{array.shape}{_plain_digest(array.ravel()[:: array.size // _SAMPLES]).hex()}"
    if node not in _ARRAYS:
        _ARRAYS[node] = _plain_digest(array).hex()
    return _ARRAYS[node]


def _value_text(value: Any, numbers: dict[int, int]) -> str:
    if isinstance(value, Node):
        return f"${numbers[id(value)]}"
    if isinstance(value, tuple):
        return f"[{','.join([_value_text(part, numbers) for part in value])}]"
    if type(value) in _WRITTEN_EXACTLY:
        return repr(value)
    return _plain_digest(value).hex()


def _plain_digest(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(f"{value.dtype}{value.shape}".encode(), digest_size=32)
        digest.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
        return digest.digest()
    if isinstance(value, float):
        text = "nan" if math.isnan(value) else value.hex()
        return hashlib.blake2b(b"f" + text.encode(), digest_size=32).digest()
    if isinstance(value, dict):
        return structural_digest(tuple((k, value[k]) for k in sorted(value)))
    return hashlib.blake2b(f"{type(value).__name__}:{value!r}".encode(), digest_size=32).digest()


def _array_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> str | None:
    """The first element that differs by its bytes, or None."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"array {a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
    if a.tobytes() == b.tobytes():
        return None
    flat_a, flat_b = np.ravel(a), np.ravel(b)
    index = next(i for i in range(a.size) if flat_a[i].tobytes() != flat_b[i].tobytes())
    place = [int(i) for i in np.unravel_index(index, a.shape)]
    return f"element {place}: {flat_a[index]} against {flat_b[index]}"


def _same_plain(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex() or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


def _name(item: Any) -> str:
    return str(getattr(item, "name", None) or getattr(item, "name_hint", ""))


def _label(item: Node) -> str:
    return str(getattr(item, "name_hint", None) or getattr(item, "name", "") or type(item).__name__)


def _text(item: Any) -> str:
    try:
        return repr(item)
    except Exception as error:  # a difference must be reported even where printing fails
        return f"<{type(item).__name__}: cannot be printed: {error}>"
