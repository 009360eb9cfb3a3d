"""Modules without the layouts that were chosen for a processor: the inverse of `AssignLayouts`, as far as it is known.

A value that is computed in a layout is computed row-major again, and brought into that layout where something reads it
that is not known here. So the results are the same for every graph, and a graph that `AssignLayouts` wrote has no copy
left: another processor chooses from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.transform import with_functions
from eutectic.relax.analysis.uses import holds_tensors, operands_of, walk_calls
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.layout import row_major
from eutectic.relax.op.layout_transform import LayoutTransformAttrs, layout_transform
from eutectic.relax.op.registry import has_trait, infer_call, op_def, said_in_layout
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.tir.data_layout import layout as parsed

_OF_OPERANDS: Final = {"data_layout": 0, "kernel_layout": 1, "layout": 0}  # options that say the layout of an operand
_OF_RESULTS: Final = ("out_layout", "data_layout", "layout")  # and of the result, the first of them that a call has
_KERNEL: Final = "kernel_layout"


def with_plain_layouts(mod: IRModule) -> IRModule:
    """A module that computes the same on row-major values; the same module where all of them are already.

    Args:
        mod: Module of operators. Regions of libraries stay in the layouts in which they are called.
    """
    changed = {
        gv: _Plain().visit_expr(function)
        for gv, function in mod.functions_items()
        if isinstance(function, Function) and not function.attr("Codegen") and any(map(_lies, walk_calls(function)))
    }
    return with_functions(mod, changed)


def _lies(call: Call) -> bool:
    """Whether a call says that something is not row-major."""
    if isinstance(call.attrs, LayoutTransformAttrs):
        return True
    return any(name != usual for name, usual in _options(call).values())


def _options(call: Call) -> dict[str, tuple[str, str]]:
    """The options that say layouts: what they say, and what they say on row-major values."""
    definition = op_def(call.op) if isinstance(call.op, Op) else None
    if definition is None or definition.in_layouts_fn is None or call.attrs is None:
        return {}
    options = {
        name: str(value) for name, value in call.attrs.items() if name in (*_OF_OPERANDS, *_OF_RESULTS) and value
    }
    return {
        name: (value, _without_blocks(value) if name == _KERNEL else _usual(value)) for name, value in options.items()
    }


def _usual(name: str) -> str:
    return row_major(name) if name else ""


def _without_blocks(name: str) -> str:
    return parsed(name).names


@dataclass(frozen=True)
class _Value:
    """A row-major value, or a tuple of such, in place of one in a layout."""

    plain: Expr
    layout: str


class _Plain(PyExprMutator):
    """Writes a function on row-major values."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Var, _Value] = {}

    def visit_var_(self, var: Var) -> Expr:
        """The value as it was, for what is not known here."""
        if var not in self._values:
            return super().visit_var_(var)
        return self._as_it_was(self._values[var])

    visit_dataflow_var_ = visit_var_

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Compute a value row-major where that is known."""
        rewritten = self._rewritten(binding.value)
        if rewritten is None:
            super().visit_var_binding_(binding)
            return
        value, name = rewritten
        is_new = isinstance(value, (Call, TupleGetItem))
        plain = self.builder_.emit(value, binding.var.name_hint) if is_new else value
        self._values[binding.var] = _Value(plain, name)
        if not name or not _is_inner(binding.var):
            super().visit_var_binding_(VarBinding(binding.var, self._as_it_was(self._values.pop(binding.var))))

    def _as_it_was(self, value: _Value) -> Expr:
        """A value in the layout that it was in."""
        if not value.layout:
            return value.plain
        info = value.plain.struct_info
        if not isinstance(info, TupleStructInfo):
            return self._laid(value.plain, value.layout)
        fields = (self.builder_.emit(TupleGetItem(value.plain, i)) for i in range(len(info.fields)))
        return self.builder_.normalize(Tuple(tuple(self._laid(field, value.layout) for field in fields)))

    def _laid(self, tensor: Expr, name: str) -> Expr:
        """A row-major tensor in a layout."""
        return self.builder_.emit(_transform(tensor, _usual(name), name))

    def _rewritten(self, value: Expr) -> tuple[Expr, str] | None:
        """A value computed of row-major ones, and the layout in which it was; None for one that stays."""
        if isinstance(value, TupleGetItem) and value.tuple_value in self._values:
            pieces = self._values[value.tuple_value]
            return TupleGetItem(pieces.plain, value.index), pieces.layout
        return self._call(value) if isinstance(value, Call) else None

    def _call(self, call: Call) -> tuple[Expr, str] | None:
        """The same of a call."""
        if isinstance(call.attrs, LayoutTransformAttrs):
            return self._moved(call.args[0], call.attrs)
        if _lies(call):
            return self._with_options(call)
        known = [self._values[arg].layout for arg in _flat(call.args) if isinstance(arg, Var) and arg in self._values]
        if not known or len(set(known)) > 1:
            return None
        if has_trait(call, "pointwise"):
            return self._pointwise(call, known[0])
        return self._along_axes(call, known[0])

    def _moved(self, value: Expr, attrs: LayoutTransformAttrs) -> tuple[Expr, str] | None:
        source, wanted = attrs.src_layout, attrs.dst_layout
        if _usual(source) != _usual(wanted):
            return None
        return self._row_major(value, source), "" if wanted == _usual(wanted) else wanted

    def _row_major(self, value: Expr, name: str) -> Expr:
        """A value that is in a layout, row-major."""
        if isinstance(value, Var) and value in self._values and self._values[value].layout == name:
            return self._values[value].plain
        literal = self.visit_expr(value)
        usual = _without_blocks(name) if name and name.startswith("OI") else _usual(name)
        return literal if name == usual else self.builder_.emit(_transform(literal, name, usual))

    def _all_row_major(self, value: Expr, name: str) -> Expr:
        """A value, or all fields of a tuple, row-major."""
        if not isinstance(value, Tuple):
            return self._row_major(value, name)
        return self.builder_.normalize(Tuple(tuple(self._row_major(field, name) for field in value.fields)))

    def _with_options(self, call: Call) -> tuple[Expr, str]:
        """A call whose options say layouts."""
        assert call.attrs is not None
        options = _options(call)
        names = {place: options[name][0] for name, place in _OF_OPERANDS.items() if name in options}
        args = [self._all_row_major(arg, names.get(i, "")) for i, arg in enumerate(call.args)]
        attrs = replace(call.attrs, **{name: usual for name, (_, usual) in options.items()})
        was, usual = next(options[name] for name in _OF_RESULTS if name in options)
        return infer_call(replace(call, args=tuple(args), attrs=attrs, struct_info=None)), "" if was == usual else was

    def _pointwise(self, call: Call, name: str) -> tuple[Expr, str] | None:
        layouts = [self._layout_of(arg, name) for arg in call.args]
        if None in layouts:
            return None
        args = [self._row_major(arg, there or "") for arg, there in zip(call.args, layouts, strict=True)]
        return infer_call(replace(call, args=tuple(args), struct_info=None)), name

    def _layout_of(self, arg: Expr, name: str) -> str | None:
        """The layout of an operand of a call whose result is in a layout; empty for numbers, None if unknown."""
        if isinstance(arg, Var) and arg in self._values:
            return self._values[arg].layout
        info = arg.struct_info
        if not isinstance(info, TensorStructInfo):
            return ""
        if info.static_shape is None:
            return None
        shape, names, block = info.static_shape, parsed(name).names, parsed(name).factor_of("C")
        if not shape:
            return ""
        if block == 1:
            return name if len(shape) == len(names) else None
        names = names[len(names) + 1 - len(shape) :]
        is_cut = name.endswith(f"{block}c") and names.startswith(("C", "NC")) and shape[-1] in (1, block)
        return f"{names}{shape[-1]}c" if is_cut else None

    def _along_axes(self, call: Call, name: str) -> tuple[Expr, str] | None:
        """A call that speaks of axes of values that were all in one layout."""
        said = said_in_layout(call, name, _usual(name))
        if said is None or any(self._layout_of(operand, name) != name for operand in operands_of(call)):
            return None
        args = [self._all_row_major(arg, name) if holds_tensors(arg) else arg for arg in said.args]
        return infer_call(replace(said, args=tuple(args), struct_info=None)), name


def _flat(args: Sequence[Any]) -> list[Expr]:
    return [field for arg in args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _is_inner(var: Var) -> bool:
    """Whether a variable is seen in its block only."""
    return type(var) is not Var


def _transform(value: Expr, there: str, wanted: str) -> Call:
    return infer_call(layout_transform(value, there, wanted, span=value.span))
