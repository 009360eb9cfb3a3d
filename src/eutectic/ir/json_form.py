"""Programs as JSON and back: nodes with what they share, arrays, and modules.

Each object is written once and referred to by number, so that variables stay the same object in all places.
Reading makes nodes of known classes only, and runs nothing; what it gives is verified by `well_formed`, not here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from eutectic.ir.dtype import from_numpy, to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node, all_children, init_field, node_class
from eutectic.ir.op import Op
from eutectic.ir.prim_base import expressed
from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.registry import load_providers
from eutectic.support.shown import clipped

VERSION: Final = 1
_PLAIN: Final = (str, int, bool, type(None))
_SPECIAL: Final[dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]]] = {}


def register_json(kind: str, cls: type, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    """Let values of a class that is no node be written.

    Args:
        kind: Name of the class in JSON.
        cls: The class.
        write: Gives what JSON can hold for a value.
        read: Takes that back.
    """
    _SPECIAL[kind] = (cls, write, read)


def save_json(node: Any) -> str:
    """A node, a module, or lists and mappings of them as JSON.

    Raises:
        TypeError: it holds a value that has no form in JSON, such as compiled code or a function of Python.
    """
    writer = _Writer()
    root = writer.value(expressed(node))
    return json.dumps({"eutectic_json": VERSION, "root": root, "nodes": writer.written})


def load_json(json_str: str) -> Any:
    """What `save_json` wrote.

    Raises:
        LoadError: the text is damaged, or was written by something else.
    """
    try:
        document = json.loads(json_str)
        if not isinstance(document, dict) or document.get("eutectic_json") != VERSION:
            raise LoadError("the text is not JSON of a program of Eutectic", help="write it with tvm.ir.save_json")
        load_providers("operators")
        reader = _Reader(document["nodes"])
        return reader.value(document["root"])
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise LoadError(f"the JSON of a program is damaged: {type(error).__name__}: {clipped(str(error))}") from error


def make_node(type_key: str, **kwargs: Any) -> Node:
    """A node of the class registered under a name such as `tir.Add` or `relax.TensorStructInfo`.

    Args:
        type_key: Name of the class; `relax.expr.` may stand for `relax.`, as in TVM.
        kwargs: Its fields by name.

    Raises:
        ValueError: there is no such class.
        TypeError: the fields do not fit.
    """
    load_providers("operators")
    cls = node_class(type_key) or node_class(type_key.replace("relax.expr.", "relax."))
    if cls is None:
        raise ValueError(f"no class of nodes is registered under {type_key!r}")
    return cls(**kwargs)


class _Writer:
    """Numbers nodes in the order in which they are complete, children first."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}

    @deep
    def value(self, value: Any) -> Any:
        """What stands for a value: itself, or an object with one key that says its kind."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, Node):
            return {"node": self._node(value)}
        if isinstance(value, (tuple, list)):
            return {type(value).__name__ if type(value) in (tuple, list) else "tuple": [self.value(v) for v in value]}
        if isinstance(value, Mapping):
            return {"map": [[self.value(key), self.value(item)] for key, item in value.items()]}
        if isinstance(value, np.ndarray):
            return {"array": _written_array(value)}
        if isinstance(value, IRModule):
            return {"module": [self.value(part) for part in (value.functions, value.attrs, value.global_infos)]}
        for kind, (cls, write, _) in _SPECIAL.items():
            if isinstance(value, cls):
                return {"special": [kind, write(value)]}
        raise TypeError(f"a {type(value).__module__}.{type(value).__name__} has no form in JSON")

    def _node(self, root: Node) -> int:
        """The number of a node; those below it are written before it, without recursion."""
        todo = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in self._numbers:
                continue
            if ready:
                self.written.append(self._record(node))
                self._numbers[id(node)] = len(self.written) - 1
            else:
                todo += [(node, True), *((below, False) for below in reversed(all_children(node)))]
        return self._numbers[id(root)]

    def _record(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Op):
            return {"type": node.type_key, "op": node.name}
        fields = {name: self.value(getattr(node, name)) for name in _fields(type(node))}
        return {"type": node.type_key, "fields": fields}


def _fields(cls: type[Node]) -> Iterator[str]:
    return (name for name, _ in cls.field_roles)


class _Reader:
    """Makes nodes in the order in which they were written."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._nodes: list[Node] = []
        for record in records:
            self._nodes.append(self._node(record))

    def _node(self, record: Mapping[str, Any]) -> Node:
        if "op" in record:
            return Op.get(record["op"])
        cls = node_class(record["type"])
        if cls is None:
            raise LoadError(f"unknown class of nodes {record['type']!r}")
        fields = record["fields"]
        if set(fields) != set(_fields(cls)):
            raise LoadError(f"fields of {record['type']} are {sorted(fields)}, expected {sorted(_fields(cls))}")
        node = object.__new__(cls)  # the fields were normalised when it was first made
        for name, value in fields.items():
            init_field(node, name, self.value(value))
        return node

    @deep
    def value(self, written: Any) -> Any:
        """The value that something stands for."""
        if isinstance(written, _PLAIN):
            return written
        ((kind, body),) = written.items()
        match kind:
            case "float":
                return float.fromhex(body)
            case "node":
                if not 0 <= body < len(self._nodes):
                    raise LoadError(f"node {body} is used before it is written")
                return self._nodes[body]
            case "tuple" | "list":
                parts = [self.value(part) for part in body]
                return parts if kind == "list" else tuple(parts)
            case "map":
                return {self.value(key): self.value(item) for key, item in body}
            case "array":
                return _read_array(body)
            case "module":
                return IRModule(*(self.value(part) for part in body))
            case "special":
                return _SPECIAL[body[0]][2](body[1])
        raise LoadError(f"unknown kind of value {kind!r}")


def _written_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": from_numpy(array.dtype), "shape": list(array.shape), "data": data}


def _read_array(written: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    data = base64.b64decode(written["data"], validate=True)
    return np.frombuffer(data, to_numpy(written["dtype"])).reshape(written["shape"]).copy()
