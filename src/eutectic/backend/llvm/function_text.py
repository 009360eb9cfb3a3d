"""The text of one LLVM function while it is being written."""

from __future__ import annotations

from typing import Final

_ON_STACK: Final = "%local"


def is_on_stack(pointer: str) -> bool:
    """Whether a register points to memory that `FunctionText.alloca` gave."""
    return pointer.startswith(_ON_STACK)


class FunctionText:
    """Lines, fresh names, basic blocks, stack memory at the entry, and declarations the module needs.

    Attributes:
        block: Label of the basic block that is being written.
        declared: Lines of the module that declare other functions, by name.
    """

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.block = "entry"
        self._lines: list[str] = []
        self._entry: list[str] = []
        self._count = 0

    def fresh(self, hint: str = "t") -> str:
        """A register or label name that is not in use, without its `%`."""
        self._count += 1
        return f"{hint}{self._count}"

    def assign(self, text: str) -> str:
        """Write `%new = text` and give `%new`."""
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str, note: str = "") -> None:
        """End the block with a jump; the note is what LLVM is told of the loop that it ends, a node of metadata."""
        self.do(f"br label %{label}{note and f', !llvm.loop {note}'}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End the block with a choice."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def reserve(self) -> int:
        """Leave a line free, to be filled when more is known."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, place: int, text: str) -> None:
        """Write the line that was left free."""
        self._lines[place] = f"  {text}"

    def alloca(self, kind: str, count: int) -> str:
        """Memory on the stack for as long as the function runs, aligned for vectors."""
        self._count += 1
        name = f"{_ON_STACK}{self._count}"
        self._entry.append(f"  {name} = alloca [{max(count, 1)} x {kind}], align 64")
        return name

    def call(
        self, kind: str, name: str, args: list[tuple[str, str]], attributes: str = "", *, known: bool = True
    ) -> str:
        """Call a function and give its result; it is declared in the module.

        Args:
            kind: Type of the result.
            name: The function.
            args: Type and value of each argument.
            attributes: What stands before the type.
            known: Whether LLVM may take it for the function of C's library of that name, and call another one.
        """
        self.declare(kind, name, [arg_kind for arg_kind, _ in args])
        arguments = ", ".join(f"{arg_kind} {text}" for arg_kind, text in args)
        text = f"call {attributes}{kind} @{name}({arguments})" + ("" if known else " nobuiltin")
        if kind == "void":
            self.do(text)
            return ""
        return self.assign(text)

    def declare(self, kind: str, name: str, args: list[str]) -> None:
        """Make the module declare a function."""
        if name not in self.declared:
            self.declared[name] = f"declare {kind} @{name}({', '.join(args)})"

    def body(self) -> str:
        """Everything between the braces."""
        return "\n".join(["entry:", *self._entry, *self._lines])
