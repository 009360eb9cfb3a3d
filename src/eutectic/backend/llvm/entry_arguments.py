"""How a native function reads and checks its arguments: the records of tvm-ffi and DLPack, and sizes that agree.

Reference: https://tvm.apache.org/ffi, stable C ABI; layout of DLTensor in DLPack 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.requirements import size_flags, symbolic_sizes
from eutectic.backend.plan import Bounds, Plan, Tensor, arena_tensors, sizes_text
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.runtime.native_code import RAISE

_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # DLDataTypeCode
_TENSOR_POINTER, _TENSOR_OBJECT, _INTEGER = 7, 70, 1  # type indices of tvm-ffi
_OBJECT_HEADER: Final = 24


class CheckedText:
    """The text of a function that may return with an error.

    Attributes:
        text: It.
        messages: Variables with the texts of errors.
    """

    def __init__(self) -> None:
        self.text = FunctionText()
        self.messages: list[str] = []
        self._known: dict[str, str] = {}

    def string(self, value: str) -> str:
        """The variable with a text, which ends with a zero."""
        if value not in self._known:
            name = f"@text{len(self._known)}"
            data = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in value)
            self.messages.append(f'{name} = internal constant [{len(data) + 1} x i8] c"{data}\\00"')
            self._known[value] = name
        return self._known[value]

    def require(self, condition: str, message: str, kind: str = "ValueError") -> None:
        """Return with an error unless a condition holds.

        Args:
            condition: An instruction that gives an i1.
            message: What is said otherwise.
            kind: The class of the error, by its name in Python.
        """
        text = self.text
        good, bad = text.fresh("good"), text.fresh("bad")
        text.branch(text.assign(condition), good, bad)
        text.start(bad)
        text.do(f"call void @{RAISE}(ptr {self.string(kind)}, ptr {self.string(message)})")
        text.do("ret i32 -1")
        text.start(good)

    def field(self, base: str, offset: int, kind: str) -> str:
        """Load a value from a record."""
        text = self.text
        at = text.assign(f"getelementptr inbounds i8, ptr {base}, i64 {offset}") if offset else base
        return text.assign(f"load {kind}, ptr {at}, align {4 if kind == 'i32' else 8}")


class EntryArguments:
    """Writes the checks of the arguments of a plan.

    Args:
        plan: The plan.
        bounds: Ranges of symbolic sizes.
        out: Where they are written.
    """

    def __init__(self, plan: Plan, bounds: Mapping[ScalarVar, Bounds], out: CheckedText) -> None:
        self.plan, self.bounds, self.out = plan, bounds, out

    def tensor_argument(self, number: int, tensor: Tensor) -> str:
        """A pointer to the DLTensor of an argument, after its kind, device, dtype and rank were checked."""
        text = self.out.text
        kind = self.out.field("%args", 16 * number, "i32")
        value = self.out.field("%args", 16 * number + 8, "ptr")
        plain = text.assign(f"icmp eq i32 {kind}, {_TENSOR_POINTER}")
        wrapped = text.assign(f"icmp eq i32 {kind}, {_TENSOR_OBJECT}")
        what = f"{self.plan.name}: argument {number} ({tensor.name})"
        self.out.require(f"or i1 {plain}, {wrapped}", f"{what} must be a tensor", "TypeError")
        inner = text.assign(f"getelementptr inbounds i8, ptr {value}, i64 {_OBJECT_HEADER}")
        record = text.assign(f"select i1 {plain}, ptr {value}, ptr {inner}")
        device = self.out.field(record, 8, "i32")
        cpu = text.assign(f"icmp eq i32 {device}, 1")
        pinned = text.assign(f"icmp eq i32 {device}, 3")
        self.out.require(f"or i1 {cpu}, {pinned}", f"{what} must be in the memory of the CPU")
        dtype = self.out.field(record, 20, "i32")
        matches = text.assign(f"icmp eq i32 {dtype}, {_dlpack_dtype(tensor.dtype)}")
        if tensor.dtype == "bfloat16":  # NumPy hands its bits over as integers
            bits = text.assign(f"icmp eq i32 {dtype}, {_dlpack_dtype('uint16')}")
            matches = text.assign(f"or i1 {matches}, {bits}")
        self.out.require(f"icmp eq i1 {matches}, true", f"{what} must be {tensor.dtype}", "TypeError")
        self.out.require(
            f"icmp eq i32 {self.out.field(record, 16, 'i32')}, {len(tensor.dims)}",
            f"{what} must have {len(tensor.dims)} axes",
        )
        return record

    def integer_argument(self, number: int, symbol: ScalarVar) -> str:
        """The value of an argument, after its kind was checked."""
        kind = self.out.field("%args", 16 * number, "i32")
        self.out.require(
            f"icmp eq i32 {kind}, {_INTEGER}", f"{self.plan.name}: {symbol.name} must be an integer", "TypeError"
        )
        return self.out.field("%args", 16 * number + 8, "i64")

    def _size(self, record: str, axis: int) -> str:
        return self.out.field(self.out.field(record, 24, "ptr"), 8 * axis, "i64")

    def bind_symbols(self, emitter: ExprEmitter, record: str, tensor: Tensor) -> None:
        """Give the sizes that a tensor defines their values, after their ranges were checked."""
        if tensor.home != "input":
            return
        for axis, size in enumerate(tensor.dims):
            if isinstance(size, ScalarVar) and size not in emitter.indices:
                extent = emitter.indices[size] = self._size(record, axis)
                limits = self.bounds.get(size, Bounds())
                top = "more" if limits.high is None else str(limits.high)
                message = (
                    f"{self.plan.name}: {tensor.name} has a size on axis {axis} outside of the range of {size.name}, "
                    f"{limits.low} to {top}"
                )
                self.out.require(f"icmp sge i64 {extent}, {limits.low}", message)
                if limits.high is not None:
                    self.out.require(f"icmp sle i64 {extent}, {limits.high}", message)

    def check_shape(self, emitter: ExprEmitter, record: str, tensor: Tensor) -> None:
        """Sizes, and that elements lie one after another."""
        text = self.out.text
        what = f"{self.plan.name}: {tensor.name} must have shape ({sizes_text(tensor.dims)})"
        for axis, size in enumerate(tensor.dims):
            self.out.require(f"icmp eq i64 {self._size(record, axis)}, {emitter.index(size)}", what)
        if not tensor.dims:
            return
        strides = self.out.field(record, 32, "ptr")
        look, done = text.fresh("strides"), text.fresh("compact")
        text.branch(text.assign(f"icmp eq ptr {strides}, null"), done, look)
        text.start(look)
        known = emitter.remembered()
        empty = "false"  # where there are no elements, strides say nothing
        for size in tensor.dims:
            none = text.assign(f"icmp eq i64 {emitter.index(size)}, 0")
            empty = text.assign(f"or i1 {empty}, {none}")
        expected = "1"
        for axis in reversed(range(len(tensor.dims))):
            extent = emitter.index(tensor.dims[axis])
            same = text.assign(f"icmp eq i64 {self.out.field(strides, 8 * axis, 'i64')}, {expected}")
            single = text.assign(f"icmp sle i64 {extent}, 1")
            fits = text.assign(f"or i1 {same}, {single}")
            self.out.require(f"or i1 {fits}, {empty}", f"{self.plan.name}: {tensor.name} must be C-contiguous")
            expected = emitter.fold("mul", expected, extent)
        text.jump(done)
        text.start(done)
        emitter.restore(known)

    def data(self, emitter: ExprEmitter, record: str, tensor: Tensor) -> str:
        """A pointer to the elements of a DLTensor, which are somewhere if there are any."""
        text = self.out.text
        start, offset = self.out.field(record, 0, "ptr"), self.out.field(record, 40, "i64")
        missing, bytes_ = text.assign(f"icmp eq ptr {start}, null"), emitter.index(tensor.bytes)
        some = text.assign(f"icmp ne i64 {bytes_}, 0")
        wrong = text.assign(f"and i1 {missing}, {some}")
        self.out.require(f"icmp eq i1 {wrong}, false", f"{self.plan.name}: {tensor.name} has no memory")
        return text.assign(f"getelementptr inbounds i8, ptr {start}, i64 {offset}")

    def check_sizes(self, emitter: ExprEmitter) -> None:
        """That sizes agree, and that all memory has one."""
        name = self.plan.name
        for item in self.plan.agreements:
            actual, wanted = emitter.index(item.actual), emitter.index(item.wanted)
            self.out.require(f"icmp eq i64 {actual}, {wanted}", f"{name}: {item.message}")
        for size in symbolic_sizes(tensor.bytes for tensor in arena_tensors(self.plan)):
            fits, right = size_flags(emitter, size)
            self.out.require(f"icmp eq i1 {fits}, true", f"{name}: not enough memory for intermediates", "MemoryError")
            self.out.require(f"icmp eq i1 {right}, true", f"{name}: an intermediate has a size that no memory has")


def _dlpack_dtype(dtype: str) -> int:
    """The four bytes of a DLDataType as a little-endian integer."""
    if dtype == "bool":
        return _CODES["bool"] | 8 << 8 | 1 << 16
    kind = dtype.rstrip("0123456789")
    return _CODES[kind] | int(dtype[len(kind) :]) << 8 | 1 << 16
