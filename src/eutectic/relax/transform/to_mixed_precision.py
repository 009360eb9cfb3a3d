"""ToMixedPrecision: sums of products on operands of 16 bits, in a model of float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr
from eutectic.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Function,
    Tuple,
    TupleGetItem,
    VarBinding,
)
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.registry import infer_call
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated
from eutectic.relax.transform.precision_classes import precision_class
from eutectic.support.choices import check_choice
from eutectic.support.deep import deep
from eutectic.support.shown import shown

WIDE: Final = "float32"
OUT_DTYPES: Final = ("bfloat16", "float16", WIDE)


@dataclass(frozen=True)
class PrecisionRemark:
    """What became of an operator, in `PassContext.remarks`.

    Attributes:
        op: Its name.
        dtype: What it is computed in: that of its operands.
        reason: Why it stays float32; empty where it does not.
    """

    op: str
    dtype: str
    reason: str = ""


@dataclass(frozen=True)
class ToMixedPrecision(FunctionPass):
    """Narrow the operands of convolutions and matrix products, and what only reads such results.

    Every operator of float32 is of one of three classes (`precision_classes.py`). Those of `always` get operands
    of 16 bits. Those of `follow` are computed in 16 bits when all the tensors they read are, constants apart. All
    others stay float32, and what they read is widened first. Results of the function keep their dtypes; so do
    parameters, and whatever is not float32 to begin with. A tensor is narrowed once, however many read it.

    Constants are narrowed here, except what is added to the result of an operator of `always`: there the conversion
    stays in the graph, so that a library which adds in float32 can have the values as they were.

    Before, and after::

        lv = matmul(x, w)                       lv = astype(x, "bfloat16")
        lv1 = add(lv, b)                        lv1 = matmul(lv, w_bfloat16)
        gv = nn.softmax(lv1)                    lv2 = astype(b, "bfloat16")
                                                lv3 = add(lv1, lv2)
                                                lv4 = astype(lv3, "float32")
                                                gv = nn.softmax(lv4)

    Accuracy: each narrow value has a relative error of 2**-9 (bfloat16) or 2**-12 (float16). A constant that is too
    large for the dtype leaves its operator as it is.
    Cost: linear in the size of the function, and a copy of the constants.

    Attributes:
        out_dtype: What operators of `always` give: `bfloat16` or `float16`, which are then the dtype of their operands
            too; or `float32`, for operands of float16.

    Raises:
        PassError: another `out_dtype`.

    Reference: TVM's `relax.transform.ToMixedPrecision`, which has float16 only.
    """

    out_dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        check_choice(f"ToMixedPrecision has no out_dtype {shown(self.out_dtype)}", self.out_dtype, list(OUT_DTYPES))

    @property
    def dtype(self) -> str:
        """The dtype of narrow operands."""
        return "float16" if self.out_dtype == WIDE else self.out_dtype

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Narrow inside one function; those that are fused already are left alone."""
        if any(function.attr(name) for name in ("Composite", "Codegen", "Primitive")):
            return function
        narrowing = _Narrowing(self.dtype, self.out_dtype, lambda call: self.stays(call, function, ctx))
        fresh = mutated(function, narrowing)
        ctx.remarks.extend(narrowing.remarks)
        return fresh

    def stays(self, call: Call, function: Function, ctx: PassContext) -> str:
        """Why a call of an operator of `always` is better left in float32; empty, as here, where it is not."""
        return ""


class _Narrowing(PyExprMutator):
    """Rebuilds a function; what a variable is afterwards says its struct info."""

    def __init__(self, narrow: str, out_dtype: str, stays: Callable[[Call], str]) -> None:
        super().__init__()
        self._stays = stays
        self.remarks: list[PrecisionRemark] = []
        self._narrow, self._out_dtype = narrow, out_dtype
        self._casts: dict[tuple[Expr, str], Expr] = {}
        self._constants: dict[Constant, Constant] = {}
        self._products: set[Expr] = set()  # variables of results of `always`

    def visit_call_(self, call: Call) -> Expr:
        """A call in the precision that its class and its operands say."""
        args = [self.visit_expr(arg) for arg in call.args]
        name = _name(call)
        if name == "relax.astype" or not any(map(_has_wide, call.args)):
            return self._again(call, self._restored(call.args, args))
        if self._narrows(name, call, args):
            self.remarks.append(PrecisionRemark(name, self._narrow))
            return self._narrowed(name, call, args)
        reason = self._why_wide(name, call) or "what it reads is float32"
        self.remarks.append(PrecisionRemark(name, WIDE, reason))
        return self._again(call, self._restored(call.args, args))

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A result that others than this block may read keeps its dtype; readers in the block get the narrow one."""
        value = self.builder_.normalize(self.visit_expr(binding.value))
        is_product = precision_class(_name(binding.value)) == "always"
        if isinstance(binding.var, DataflowVar) or _same_types(value, binding.value):
            self._bind(binding, value)
        elif isinstance(value, Tuple):
            self._bind(binding, self._as_was(binding.value, value))
        else:
            narrow = self.builder_.emit(value)
            self._bind(binding, self._as_was(binding.value, narrow))
            self._casts[self._remap.get(binding.var, binding.var), self._narrow] = narrow
        if is_product:
            self._products.add(self._remap.get(binding.var, binding.var))

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """A block; conversions that an earlier one holds may not be visible in it."""
        self._casts = {}
        return super().visit_binding_block(block)

    def _bind(self, binding: VarBinding, value: Expr) -> None:
        if value is binding.value:
            self.builder_.emit_normalized(binding)
            return
        assert value.struct_info is not None
        fresh = self.with_struct_info(self.visit_var_def(binding.var), value.struct_info)
        if fresh is not binding.var:
            self.set_var_remap(binding.var, fresh)
        self.builder_.emit_normalized(VarBinding(fresh, value))

    def _narrows(self, name: str, call: Call, args: Sequence[Expr]) -> bool:
        kind = precision_class(name)
        if kind == "never" or self._why_wide(name, call):
            return False
        if kind == "always":
            return True
        pairs = [(old, new) for old, new in zip(call.args, args, strict=True) if _has_wide(old)]
        read = [new for old, new in pairs if not isinstance(old, Constant)]
        return bool(read) and all(self._is_narrow(new) for new in read)

    def _why_wide(self, name: str, call: Call) -> str:
        """What keeps a call wide, whatever its operands have become; empty when nothing does."""
        kind = precision_class(name)
        if kind == "never":
            return "in every precision"
        others = [dtype for arg in call.args if (dtype := getattr(arg.struct_info, "dtype", WIDE)) != WIDE]
        if kind == "always" and others:
            return f"an operand is {others[0]}"
        if not all(self._fits(arg) for arg in call.args if isinstance(arg, Constant)):
            return f"a constant is too large for {self._narrow}"
        return self._stays(call) if kind == "always" else ""

    def _fits(self, constant: Constant) -> bool:
        if constant.data.dtype != np.float32:
            return True
        narrow = self._constant(constant).data
        return bool((np.isfinite(narrow) == np.isfinite(constant.data)).all())

    def _constant(self, constant: Constant) -> Constant:
        if constant not in self._constants:
            with np.errstate(over="ignore"):
                narrow = constant.data.astype(to_numpy(self._narrow))
            self._constants[constant] = Constant(narrow, span=constant.span)
        return self._constants[constant]

    def _narrowed(self, name: str, call: Call, args: Sequence[Expr]) -> Expr:
        is_always = precision_class(name) == "always"
        biased = name == "relax.add" and any(arg in self._products for arg in args)
        fresh = [
            self._cast(new, self._narrow, stays=biased) if _has_wide(old) else new
            for old, new in zip(call.args, args, strict=True)
        ]
        attrs = call.attrs
        if is_always and attrs is not None and "out_dtype" in attrs:
            attrs = replace(attrs, out_dtype="void" if self._out_dtype == self._narrow else self._out_dtype)
        return infer_call(Call(call.op, tuple(fresh), attrs, call.sinfo_args, call.span))

    def _again(self, call: Call, args: Sequence[Expr]) -> Expr:
        if all(new is old for new, old in zip(args, call.args, strict=True)):
            return call
        return Call(self.visit_expr(call.op), tuple(args), call.attrs, call.sinfo_args, call.span)

    def _restored(self, old: Sequence[Expr], new: Sequence[Expr]) -> list[Expr]:
        return [self._as_was(before, after) for before, after in zip(old, new, strict=True)]

    def _as_was(self, old: Expr, new: Expr) -> Expr:
        """A value in the dtype that it had before."""
        return new if _same_types(old, new) else self._cast(new, WIDE)

    @deep
    def _is_narrow(self, expr: Expr) -> bool:
        """Whether a tensor, or each field of a tuple, is there in narrow form."""
        if isinstance(expr, Tuple):
            return all(isinstance(item, Constant) or self._is_narrow(item) for item in expr.fields)
        info = expr.struct_info
        if isinstance(info, TupleStructInfo):
            return all(isinstance(field, TensorStructInfo) and field.dtype == self._narrow for field in info.fields)
        return getattr(info, "dtype", None) == self._narrow

    @deep
    def _cast(self, expr: Expr, dtype: str, *, stays: bool = False) -> Expr:
        """A value of the wide or the narrow dtype in the other one."""
        if isinstance(expr, Tuple):
            return Tuple(tuple(self._cast(item, dtype) for item in expr.fields), span=expr.span)
        info = expr.struct_info
        if isinstance(info, TupleStructInfo):
            items = [self.builder_.emit(TupleGetItem(expr, i)) for i in range(len(info.fields))]
            return Tuple(tuple(self._cast(item, dtype) for item in items), span=expr.span)
        if not isinstance(info, TensorStructInfo) or info.dtype not in (WIDE, self._narrow) or info.dtype == dtype:
            return expr
        if isinstance(expr, Constant) and dtype == self._narrow:
            # One that stays has a conversion of its own, so that it belongs to its only reader.
            return self.builder_.emit(astype(expr, dtype)) if stays else self._constant(expr)
        if (expr, dtype) not in self._casts:
            self._casts[expr, dtype] = self.builder_.emit(astype(expr, dtype))
        return self._casts[expr, dtype]


def _name(value: Expr) -> str:
    return value.op.name if isinstance(value, Call) and isinstance(value.op, Op) else ""


def _has_wide(expr: Expr) -> bool:
    """Whether a value is a tensor of float32, or a tuple of such tensors."""
    info = expr.struct_info
    infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return bool(infos) and all(isinstance(i, TensorStructInfo) and i.dtype == WIDE for i in infos)


def _same_types(a: Expr, b: Expr) -> bool:
    return a.struct_info is b.struct_info or a.struct_info == b.struct_info
