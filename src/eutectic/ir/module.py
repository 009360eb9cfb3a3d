"""IRModule: the functions of a program, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eutectic.ir.attrs import DictAttrs, drop_attr, make_attrs, merge_attrs
from eutectic.ir.node import Node, field, node, replace
from eutectic.ir.printer import render, show
from eutectic.ir.visit import rewrite
from eutectic.support.registry import load_providers
from eutectic.support.spelling import did_you_mean


@node("ir.GlobalVar")
class GlobalVar(Node):
    """A function of a module, referred to by name; two objects of one name are different.

    Attributes:
        name_hint: The function's name in its module.
        struct_info: Signature of the function when known.
    """

    name_hint: str
    struct_info: Any = field(role="ignore", default=None, kw_only=True)
    span: Any = field(role="ignore", default=None, kw_only=True)

    def __call__(self, *args: Any) -> Any:
        """A call of the function, made by the dialect that registered itself with `set_call_maker`."""
        load_providers("calls of global functions")
        return _CALL_MAKER[0](self, args)


_CALL_MAKER: list[Callable[[GlobalVar, tuple[Any, ...]], Any]] = []


def set_call_maker(maker: Callable[[GlobalVar, tuple[Any, ...]], Any]) -> None:
    """Let `gv(*args)` build calls of the graph dialect, which this package must not import."""
    _CALL_MAKER[:] = [maker]


class BaseFunc(Node):
    """Base of functions: has `attrs`, and copies with other attrs."""

    __slots__ = ()
    attrs: DictAttrs | None

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> Any:
        """A copy with attribute `key` set to `value`, or with all entries of a mapping."""
        changes = dict(key) if isinstance(key, Mapping) else {key: value}
        return replace(self, attrs=merge_attrs(self.attrs, changes))

    def with_attrs(self, attrs: Mapping[str, Any] | DictAttrs) -> Any:
        """A copy with all entries of `attrs` set."""
        return self.with_attr(dict(attrs.items()))

    def without_attr(self, key: str) -> Any:
        """A copy without attribute `key`."""
        return replace(self, attrs=drop_attr(self.attrs, key))

    def attr(self, key: str, default: Any = None) -> Any:
        """Attribute `key`, or `default`."""
        return self.attrs.get(key, default) if self.attrs else default


class IRModule:
    """A mutable container of functions; passes copy it and never change their input.

    Args:
        functions: Functions by `GlobalVar` or by name.
        attrs: Annotations of the module.
        global_infos: Lists of global information such as virtual devices, by kind.
    """

    def __init__(
        self,
        functions: Mapping[Any, BaseFunc] | None = None,
        attrs: Mapping[str, Any] | DictAttrs | None = None,
        global_infos: Mapping[str, Any] | None = None,
    ) -> None:
        self._vars: dict[str, GlobalVar] = {}
        self._functions: dict[str, BaseFunc] = {}
        self.attrs: DictAttrs = make_attrs(attrs)
        self.global_infos: dict[str, Any] = dict(global_infos or {})
        for key, function in (functions or {}).items():
            self[key] = function

    @property
    def functions(self) -> dict[GlobalVar, BaseFunc]:
        """Functions by their `GlobalVar`, in order of insertion."""
        return {self._vars[name]: function for name, function in self._functions.items()}

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Pairs sorted by name."""
        return [(self._vars[name], self._functions[name]) for name in sorted(self._functions)]

    def get_global_var(self, name: str) -> GlobalVar:
        """The `GlobalVar` called `name`.

        Raises:
            ValueError: there is none; the message lists the candidates.
        """
        if name not in self._vars:
            hint = did_you_mean(name, self._vars)
            raise ValueError(
                f"no function {name!r} in the module; it has: {', '.join(sorted(self._vars)) or 'none'}"
                + (f"; {hint}" if hint else "")
            )
        return self._vars[name]

    def get_global_vars(self) -> list[GlobalVar]:
        """All `GlobalVar`s, sorted by name."""
        return [self._vars[name] for name in sorted(self._vars)]

    def __getitem__(self, key: GlobalVar | str) -> Any:
        return self._functions[self.get_global_var(_name(key)).name_hint]

    def get(self, key: GlobalVar | str, default: Any = None) -> Any:
        """The function called `key`, or `default`."""
        return self._functions.get(_name(key), default)

    def __setitem__(self, key: GlobalVar | str, function: BaseFunc) -> None:
        name = _name(key)
        if isinstance(key, GlobalVar):
            self._vars[name] = key
        elif name not in self._vars:
            self._vars[name] = GlobalVar(name, struct_info=getattr(function, "struct_info", None))
        self._functions[name] = function

    def __delitem__(self, key: GlobalVar | str) -> None:
        name = self.get_global_var(_name(key)).name_hint
        del self._functions[name], self._vars[name]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (GlobalVar, str)) and _name(key) in self._functions

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self._functions)

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Take over the functions of `other`, replacing those of the same name."""
        for key, function in other.functions.items() if isinstance(other, IRModule) else other.items():
            self[key] = function

    def update_func(self, key: GlobalVar | str, function: BaseFunc) -> None:
        """Add or replace one function."""
        self[key] = function

    def update_global_info(self, name: str, global_info: Sequence[Any]) -> None:
        """Replace a list of global information, such as that of the virtual devices."""
        self.global_infos[name] = list(global_info)

    def replace_global_vars(self, replacements: Mapping[GlobalVar | str, GlobalVar | str]) -> IRModule:
        """A copy in which functions have other names, at their definitions and wherever they are called.

        Args:
            replacements: New names, or their `GlobalVar`s, by the present ones.

        Raises:
            ValueError: there is no such function, or a new name is taken.
        """
        new_vars: dict[str, GlobalVar] = {}
        for old, new in replacements.items():
            var = self.get_global_var(_name(old))
            new_vars[var.name_hint] = new if isinstance(new, GlobalVar) else GlobalVar(new, struct_info=var.struct_info)
        names = [new_vars[name].name_hint if name in new_vars else name for name in self._functions]
        if len(set(names)) < len(names):
            raise ValueError(f"two functions would have one name: {', '.join(sorted(names))}")
        functions = {new_vars.get(gv.name_hint, gv): _renamed(f, gv, new_vars) for gv, f in self.functions.items()}
        return IRModule(functions, self.attrs, self.global_infos)

    def clone(self) -> IRModule:
        """A copy that shares the (immutable) functions."""
        return IRModule(self.functions, self.attrs, self.global_infos)

    def get_attr(self, key: str) -> Any:
        """Annotation `key`, or None."""
        return self.attrs.get(key)

    def with_attr(self, key: str, value: Any) -> IRModule:
        """A copy with annotation `key` set."""
        return IRModule(self.functions, merge_attrs(self.attrs, {key: value}), self.global_infos)

    def with_attrs(self, attrs: Mapping[str, Any]) -> IRModule:
        """A copy with all of `attrs` set."""
        return IRModule(self.functions, merge_attrs(self.attrs, attrs), self.global_infos)

    def without_attr(self, key: str) -> IRModule:
        """A copy without annotation `key`."""
        return IRModule(self.functions, drop_attr(self.attrs, key), self.global_infos)

    @staticmethod
    def from_expr(function: BaseFunc) -> IRModule:
        """A module of one function, called by its `global_symbol` or `main`."""
        name = function.attrs.get("global_symbol", "main") if function.attrs else "main"
        return IRModule({name: function})

    def script(self, **options: Any) -> str:
        """The module as TVMScript text."""
        return render(self, **options)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print `script()`, with syntax colours on a terminal; `show("llvm")` and `show("asm")` print native code."""
        show(self, style, **options)

    def __repr__(self) -> str:
        return self.script()


def _name(key: GlobalVar | str) -> str:
    return key.name_hint if isinstance(key, GlobalVar) else key


def _renamed(function: BaseFunc, gv: GlobalVar, new_vars: Mapping[str, GlobalVar]) -> Any:
    """A function that calls others by their new names, and has its own as its symbol."""

    def change(item: Node) -> Node | None:
        return new_vars.get(item.name_hint) if isinstance(item, GlobalVar) else None

    out: Any = rewrite(function, change)
    is_public = isinstance(out, BaseFunc) and gv.name_hint in new_vars and out.attr("global_symbol") == gv.name_hint
    return out.with_attr("global_symbol", new_vars[gv.name_hint].name_hint) if is_public else out
