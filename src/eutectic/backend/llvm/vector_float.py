"""Registers of numbers that Python's operators emit instructions for: what vector code of functions is written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.types import constant, splat, vector

_FLOATS: Final = {"float": "i32", "double": "i64"}  # with integers of as many bits
_OF_BITS: Final = {whole: single for single, whole in _FLOATS.items()}
_ZMM_LANES: Final = 16  # of float32, in a register of 512 bits
_DTYPES: Final = {"float": "float32", "double": "float64", "i32": "int32", "i64": "int64"}


class VectorFloat:
    """Registers, each a scalar or a vector, that Python's operators emit the same instructions for.

    Attributes:
        text: Where instructions go.
        lanes: Elements of each register.
        names: The registers.
        fence: The constraint of inline assembly for vector registers of float; empty where there is none.
        single: LLVM type of an element: float, double, i32 or i64.
        kind: LLVM type of a register.
    """

    def __init__(
        self, text: FunctionText, lanes: int, names: Sequence[str], fence: str = "", single: str = "float"
    ) -> None:
        self.text, self.lanes, self.names, self.fence, self.single = text, lanes, tuple(names), fence, single
        self.kind = vector(single, lanes)

    def _each(self, instruction: Callable[..., str], *operands: Sequence[str]) -> list[str]:
        return [instruction(*names) for names in zip(self.names, *operands, strict=True)]

    def _like(self, names: Sequence[str]) -> VectorFloat:
        return VectorFloat(self.text, self.lanes, names, self.fence, self.single)

    def numbers(self, value: Any) -> Sequence[str]:
        """Operands: other registers, or a Python number in all lanes."""
        if isinstance(value, VectorFloat):
            return value.names
        text = constant(_DTYPES[self.single], value)
        return [splat(self.single, text, self.lanes)] * len(self.names)

    def filled(self, value: float) -> VectorFloat:
        """As many registers with a number in all lanes."""
        return self._like(self.numbers(value))

    def op(self, word: str, other: Any) -> VectorFloat:
        """`word self, other`."""

        def instruction(name: str, operand: str) -> str:
            return self.text.assign(f"{word} {self.kind} {name}, {operand}")

        return self._like(self._each(instruction, self.numbers(other)))

    def __add__(self, other: Any) -> VectorFloat:
        return self.op("fadd", other)

    def __sub__(self, other: Any) -> VectorFloat:
        return self.op("fsub", other)

    def __mul__(self, other: Any) -> VectorFloat:
        return self.op("fmul", other)

    def __truediv__(self, other: Any) -> VectorFloat:
        return self.op("fdiv", other)

    def __neg__(self) -> VectorFloat:
        return self._like(self._each(lambda name: self.text.assign(f"fneg {self.kind} {name}")))

    def fma(self, factor: Any, term: Any) -> VectorFloat:
        """`self * factor + term`, fused where the machine can."""
        return self._intrinsic("fmuladd", self.numbers(factor), self.numbers(term))

    def under(self, name: str) -> VectorFloat:
        """The value of an LLVM intrinsic of one argument."""
        return self._intrinsic(name)

    def with_sign_of(self, other: VectorFloat) -> VectorFloat:
        """The magnitude of this with the sign of another."""
        return self._intrinsic("copysign", other.names)

    def _intrinsic(self, name: str, *operands: Sequence[str]) -> VectorFloat:
        def instruction(*names: str) -> str:
            args = [(self.kind, each) for each in names]
            return self.text.call(self.kind, f"llvm.{name}.{overload(self.kind)}", args)

        return self._like(self._each(instruction, *operands))

    def test(self, word: str, other: Any) -> Sequence[str]:
        """A comparison: `fcmp word` or `icmp word`."""
        compare = "fcmp" if self.single in _FLOATS else "icmp"

        def instruction(name: str, operand: str) -> str:
            return self.text.assign(f"{compare} {word} {self.kind} {name}, {operand}")

        return self._each(instruction, self.numbers(other))

    def where(self, conditions: Sequence[str], other: Any) -> VectorFloat:
        """This where the conditions hold, `other` elsewhere."""
        flags = vector("i1", self.lanes)

        def instruction(name: str, condition: str, operand: str) -> str:
            return self.text.assign(f"select {flags} {condition}, {self.kind} {name}, {self.kind} {operand}")

        return self._like(self._each(instruction, conditions, self.numbers(other)))

    def within(self, least: float, most: float) -> VectorFloat:
        """This, or the bound that it is beyond; `most` of NaN."""
        bounded = self.where(self.test("olt", most), most)
        return bounded.where(bounded.test("ogt", least), least)

    @property
    def has_scale(self) -> bool:
        """Whether these are whole registers of AVX-512, which multiplies by powers of two in one instruction."""
        return self.lanes == _ZMM_LANES and bool(self.fence) and self.single == "float"

    def scaled(self, powers: VectorFloat, where: Sequence[str] | None = None) -> VectorFloat:
        """Times two to the power of whole numbers, rounded once, zero where conditions do not hold.

        What is not computed there does not underflow, either, which takes some processors a hundred cycles.
        """
        kind, zero, rounding = self.kind, splat("float", constant("float32", 0.0), self.lanes), ("i32", "4")  # as usual
        masks = ["-1"] * len(self.names) if where is None else [self._mask(flags) for flags in where]

        def instruction(name: str, power: str, mask: str) -> str:
            args = [(kind, name), (kind, power), (kind, zero), (f"i{self.lanes}", mask), rounding]
            return self.text.call(kind, "llvm.x86.avx512.mask.scalef.ps.512", args)

        return self._like(self._each(instruction, powers.names, masks))

    def _mask(self, flags: str) -> str:
        return self.text.assign(f"bitcast {vector('i1', self.lanes)} {flags} to i{self.lanes}")

    def convert(self, word: str, single: str) -> VectorFloat:
        """A conversion instruction to lanes of another LLVM type."""
        kind = vector(single, self.lanes)
        names = self._each(lambda name: self.text.assign(f"{word} {self.kind} {name} to {kind}"))
        return VectorFloat(self.text, self.lanes, names, self.fence, single)

    @property
    def bits(self) -> VectorFloat:
        """The bits of floats as integers."""
        return self.convert("bitcast", _FLOATS[self.single])

    @property
    def as_float(self) -> VectorFloat:
        """The floats with these bits."""
        return self.convert("bitcast", _OF_BITS[self.single])

    def polynomial(self, coefficients: Sequence[float]) -> VectorFloat:
        """The polynomial with these coefficients, constant term first, by Horner's rule."""
        total = (
            self * 0.0 + coefficients[-1] if len(coefficients) == 1 else self.fma(coefficients[-1], coefficients[-2])
        )
        for coefficient in reversed(coefficients[:-2]):
            total = total.in_step().fma(self, coefficient)
        return total

    def in_step(self) -> VectorFloat:
        """The same registers, of which none is used before all of them are there.

        Empty assembly that takes all of them is an order that LLVM keeps, which would else write one chain of products
        after the other, to need few registers; `lockstep` says what that costs.
        """
        if len(self.names) == 1 or not self.fence or self.single != "float":
            return self
        kinds = "{ " + ", ".join([self.kind] * len(self.names)) + " }"
        constraints = ",".join([f"={self.fence}"] * len(self.names) + [str(i) for i in range(len(self.names))])
        operands = ", ".join(f"{self.kind} {name}" for name in self.names)
        fenced = self.text.assign(f'call {kinds} asm "", "{constraints}"({operands})')
        return self._like([self.text.assign(f"extractvalue {kinds} {fenced}, {i}") for i in range(len(self.names))])

    def where_all(
        self, flags: Sequence[str], usual: Callable[[], VectorFloat], rare: Callable[[], VectorFloat]
    ) -> VectorFloat:
        """What `usual` computes if flags of all lanes of all registers are set, else what `rare` does, in a branch."""
        text, mask = self.text, vector("i1", self.lanes)
        both = flags[0]
        for flag in flags[1:]:
            both = text.assign(f"and {mask} {both}, {flag}")
        if self.lanes > 1:
            both = text.call("i1", f"llvm.vector.reduce.and.{overload(mask)}", [(mask, both)])
        labels = [text.fresh(hint) for hint in ("usual", "rare", "either")]
        text.branch(both, labels[0], labels[1])
        results: list[tuple[VectorFloat, str]] = []
        for label, compute in zip(labels, (usual, rare), strict=False):
            text.start(label)
            results.append((compute(), text.block))
            text.jump(labels[2])
        text.start(labels[2])
        return self._like([self._joined(results, place) for place in range(len(self.names))])

    def _joined(self, results: Sequence[tuple[VectorFloat, str]], place: int) -> str:
        """One of the registers that blocks end with."""
        values = ", ".join(f"[ {value.names[place]}, %{block} ]" for value, block in results)
        return self.text.assign(f"phi {self.kind} {values}")

    def by_library(self, name: str, *others: VectorFloat) -> VectorFloat:
        """What a function of C's math library gives for floats, lane by lane."""
        return self._like(
            self._each(lambda *registers: self._lane_by_lane(name, registers), *(x.names for x in others))
        )

    def _lane_by_lane(self, name: str, registers: Sequence[str]) -> str:
        text, result = self.text, "poison"
        if self.lanes == 1:
            return text.call("float", name, [("float", register) for register in registers])
        for lane in range(self.lanes):
            ones = [text.assign(f"extractelement {self.kind} {register}, i64 {lane}") for register in registers]
            value = text.call("float", name, [("float", one) for one in ones])
            result = text.assign(f"insertelement {self.kind} {result}, float {value}, i64 {lane}")
        return result
