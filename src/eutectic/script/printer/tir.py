"""Tensor programs as TVMScript text: functions and statements.

Statements are printed from a stack, not by recursion, so that depth of nesting
costs nothing. A statement that has a body "at the same depth" (`x: T.int32 = 1`)
is written so only where nothing follows its body; elsewhere it becomes a `with`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, SizeVar, StringImm, Var
from eutectic.ir.prim_type import PointerType, TupleType
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.script.printer.prim import quoted
from eutectic.script.printer.tir_expr import TirExprPrinter, end_of
from eutectic.script.printer.tir_names import free_variables
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

INDENT = "    "
_LOOPS: Final = {
    "serial": "T.serial",
    "parallel": "T.parallel",
    "vectorized": "T.vectorized",
    "unrolled": "T.unroll",
    "thread_binding": "T.thread_binding",
}
_AXES: Final = {"data_par": "spatial", "comm_reduce": "reduce", "ordered": "scan", "opaque": "opaque"}

# What is still to be printed: a statement with its depth and whether it ends its block, or an action.
_Todo: TypeAlias = "tuple[Stmt, int, bool] | Callable[[], None]"


class TirPrinter(TirExprPrinter):
    """Prints functions and statements."""

    # ---- functions

    def function(self, func: PrimFunc, name: str) -> list[str]:
        """Lines of a function.

        Args:
            func: The function.
            name: Its name in the module, or its `global_symbol`.
        """
        self.begin()
        shown = self.functions.of_text(name)
        inline = self._inline_buffers(func)
        for buffer in inline.values():
            self.bind_buffer(buffer)
        params = ", ".join(
            f"{self.buffer(inline[p])}: T.Buffer({self.declaration(inline[p], always_dtype=True)})"
            if p in inline
            else f"{self.param(func, p)}: {self.type_of(p)}"
            for p in func.params
        )
        result = "" if _is_void(func.ret_type) else f" -> {self.type_text(func.ret_type)}"
        lines = [self._decorator(func, name, shown), f"def {shown}({params}){result}:"]
        attrs = {k: v for k, v in func.attrs.items() if not (k == "global_symbol" and v == shown)}
        head = [f"T.func_attr({self.attr(attrs)})"] if attrs else []
        head += self.declare_free(func)
        for param, buffer in func.buffer_map.items():
            if param not in inline:
                known = buffer.data in self.pointers
                arguments = self.declaration(buffer, data=known)
                head.append(f"{self.bind_buffer(buffer)} = T.match_buffer({self.variable(param)}, {arguments})")
        body = self.body_of(func)
        if self.uses_module and self.alias != self.module:
            head.append(f"{self.alias} = {self.module}")
        return self.options.marked_lines(func, [*lines, *(INDENT + line for line in [*head, *body])])

    def begin(self) -> None:
        """Start a new function: nothing has a name."""
        self.names = self.fresh_names()
        self.pointers = {}
        self.loops: dict[Var, For] = {}
        self.lines: list[str] = []
        self.uses_module = False

    def param(self, func: PrimFunc, param: Var) -> str:
        """Name of a parameter; a handle of a buffer is called after the buffer."""
        buffer = func.buffer_map.get(param)
        return self.names.of(param, f"var_{buffer.name}" if buffer is not None else param.name)

    def _inline_buffers(self, func: PrimFunc) -> dict[Var, Buffer]:
        """Buffers that the signature can declare: nothing in them is symbolic, and the handle itself is not used."""
        if not self.options.syntax_sugar:
            return {}
        used = {item for item in post_order(func.body) if isinstance(item, Var)}
        seen: set[Var] = set()
        out: dict[Var, Buffer] = {}
        for param, buffer in func.buffer_map.items():
            scalars = [*buffer.shape, *buffer.strides, *filter(None, (buffer.elem_offset,))]
            symbolic = any(isinstance(item, Var) for scalar in scalars for item in post_order(scalar))
            plain = param.type_annotation is None and param.dtype == "handle"
            if not symbolic and param not in used and buffer.data not in seen and plain:
                out[param] = buffer
            seen.add(buffer.data)
        return out

    def _decorator(self, func: PrimFunc, name: str, shown: str) -> str:
        options = [f"name={quoted(name)}"] if name != shown else []
        if func.attr("global_symbol") is None:
            options.append("private=True")
        return "@T.prim_func" + (f"({', '.join(options)})" if options else "")

    def declare_free(self, root: Node) -> list[str]:
        """Lines that declare the variables and buffers that nothing inside binds."""
        variables, buffers = free_variables(root)
        lines = [
            f"{self.names.of(var, var.name)} = {self.declared_type(var)}"
            for var in variables
            if not self.names.knows(var)
        ]
        for buffer in buffers:
            known = buffer.data in self.pointers
            text = self.declaration(buffer, always_dtype=True, data=known)
            lines.append(f"{self.bind_buffer(buffer)} = T.Buffer({text})")
        return lines

    def declared_type(self, var: Var) -> str:
        """A call that makes a variable of the same type."""
        text = self.type_of(var)
        return text if text.endswith(")") else f"{text}()"

    def body_of(self, func: PrimFunc) -> list[str]:
        """Lines of the body; a root block that parsing adds again is a comment."""
        root = implicit_root(func) if self.options.syntax_sugar else None
        if root is None:
            return self.run(func.body)
        self.lines.append('# with T.block("root"):')
        for buffer in root.alloc_buffers:
            self.alloc_buffer(buffer, 0)
        return self.run(root.body)

    # ---- the stack

    def run(self, stmt: Stmt) -> list[str]:
        """Lines of a statement."""
        todo: list[_Todo] = [(stmt, 0, True)]
        while todo:
            item = todo.pop()
            if isinstance(item, tuple):
                todo.extend(reversed(self._marked(*item)))
            else:
                item()
        return self.lines

    def _marked(self, stmt: Stmt, depth: int, last: bool) -> list[_Todo]:
        """Print the head of a statement, and mark all lines of it at its end if that is wanted."""
        first = len(self.lines)

        def mark() -> None:
            self.lines[first:] = self.options.marked_lines(stmt, self.lines[first:])

        rest = self.statement(stmt, depth, last)
        return [*rest, mark] if self.options.shows(stmt) else rest

    def emit(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append(INDENT * depth + text)

    def statement(self, stmt: Stmt, depth: int, last: bool) -> list[_Todo]:
        """Print the head of a statement.

        Args:
            stmt: The statement.
            depth: Its indentation.
            last: Whether nothing follows at this depth.

        Returns:
            What to print next.
        """
        match stmt:
            case SeqStmt():
                end = len(stmt.seq) - 1
                return [(item, depth, last and i == end) for i, item in enumerate(stmt.seq)]
            case BufferStore():
                self.emit(depth, self.store(stmt))
                return []
            case Evaluate():
                value = self.attr(stmt.value) if isinstance(stmt.value, StringImm) else self.text(stmt.value)
                self.emit(depth, f"T.evaluate({value})")
                return []
            case For():
                return self.loop(stmt, depth)
            case BlockRealize():
                return self.block(stmt.block, depth, stmt)
            case Block():
                return self.block(stmt, depth, None)
            case While():
                self.emit(depth, f"while {self.text(stmt.condition)}:")
                return self.scope(stmt.body, depth + 1)
            case IfThenElse():
                self.emit(depth, f"if {self.text(stmt.condition)}:")
                branch = self.scope(stmt.then_case, depth + 1)
                if stmt.else_case is None:
                    return branch
                return [*branch, lambda: self.emit(depth, "else:"), *self.scope(stmt.else_case, depth + 1)]
            case _:
                return self.wrapper(stmt, depth, last)

    def scope(self, body: Stmt, depth: int, before: Callable[[], None] | None = None) -> list[_Todo]:
        """A body with names of its own, which `before` may give."""

        def enter() -> None:
            self.names.open()
            if before is not None:
                before()

        return [enter, (body, depth, True), self.names.close]

    def store(self, stmt: BufferStore) -> str:
        """An assignment to an element."""
        value = self.text(stmt.value)
        if stmt.predicate is None:
            return f"{self.buffer(stmt.buffer)}[{self.indices(stmt.indices)}] = {value}"
        where = f"[{self.joined(stmt.indices)}], {value}, predicate={self.text(stmt.predicate)}"
        return f"{self.buffer(stmt.buffer)}.vstore({where})"

    # ---- loops

    def loop(self, stmt: For, depth: int) -> list[_Todo]:
        """A loop, or a nest of plain loops as one grid."""
        nest = [stmt]
        while self.options.syntax_sugar and is_plain_loop(nest[-1]):
            inner = nest[-1].body
            if not isinstance(inner, For) or not is_plain_loop(inner):
                break
            outer = {loop.loop_var for loop in nest}
            if any(isinstance(item, Var) and item in outer for item in post_order(inner.extent)):
                break
            nest.append(inner)
        text = self.loop_head(stmt) if len(nest) == 1 else f"T.grid({self.joined(loop.extent for loop in nest)})"

        def head() -> None:
            names = ", ".join(self.names.of(loop.loop_var, loop.loop_var.name) for loop in nest)
            self.loops.update({loop.loop_var: loop for loop in nest})
            self.emit(depth, f"for {names} in {text}:")

        return self.scope(nest[-1].body, depth + 1, head)

    def loop_head(self, stmt: For) -> str:
        """What a single loop runs over."""
        taken = Range(min=stmt.min, extent=stmt.extent)
        end = end_of(taken)
        from_zero = isinstance(stmt.min, IntImm) and stmt.min.value == 0
        bounds = [] if from_zero and end is not None else [self.text(stmt.min)]
        bounds.append(self.text(end) if end is not None else f"extent={self.text(stmt.extent)}")
        options = []
        if stmt.thread_binding is not None:
            options.append(f"thread={self.thread(stmt.thread_binding, stmt.loop_var)}")
        if stmt.annotations.entries:
            options.append(f"annotations={self.attr(stmt.annotations)}")
        name = "range" if stmt.kind == "serial" and not options and end is not None else _LOOPS[stmt.kind]
        return f"{name}({', '.join([*bounds, *options])})"

    def thread(self, axis: IterVar, loop_var: Var) -> str:
        """The thread of a loop: its tag when that says everything."""
        if is_plain_thread(axis, loop_var):
            return quoted(axis.thread_tag)
        return self.iter_var(axis)

    # ---- blocks

    def block(self, block: Block, depth: int, realize: BlockRealize | None) -> list[_Todo]:
        """A block; without its realization the axes have no values."""
        options = "" if realize is not None else ", no_realize=True"
        self.emit(depth, f"with T.block({quoted(block.name_hint)}{options}):")
        inside = depth + 1
        self.names.open()
        self.axes(block, realize, inside)
        if realize is not None and not realize.always_runs:
            self.emit(inside, f"T.where({self.text(realize.predicate)})")
        todo: list[_Todo] = [lambda: self.block_facts(block, inside)]
        if block.init is not None:
            todo.append(lambda: self.emit(inside, "with T.init():"))
            todo += self.scope(block.init, inside + 1)
        return [*todo, (block.body, inside, True), self.names.close]

    def block_facts(self, block: Block, depth: int) -> None:
        """What a block states beside its axes."""
        self.emit(depth, f"T.reads({', '.join(map(self.region, block.reads))})")
        self.emit(depth, f"T.writes({', '.join(map(self.region, block.writes))})")
        if block.annotations.entries:
            self.emit(depth, f"T.block_attr({self.attr(block.annotations)})")
        for buffer in block.alloc_buffers:
            self.alloc_buffer(buffer, depth)
        for match in block.match_buffers:
            source = self.region(match.source)
            name = self.bind_buffer(match.buffer)
            self.emit(depth, f"{name} = T.match_buffer({source}, {self.declaration(match.buffer)})")

    def alloc_buffer(self, buffer: Buffer, depth: int) -> None:
        """The line that makes a buffer."""
        arguments = self.declaration(buffer, data=buffer.data in self.pointers and not self.names.knows(buffer))
        self.emit(depth, f"{self.bind_buffer(buffer)} = T.alloc_buffer({arguments})")

    def axes(self, block: Block, realize: BlockRealize | None, depth: int) -> None:
        """Lines that bind the axes; runs of axes that follow loops of their own extents are one `remap`."""
        values = realize.iter_values if realize is not None else (None,) * len(block.iter_vars)
        texts = [None if value is None else self.text(value) for value in values]
        run: list[tuple[IterVar, str]] = []

        def flush() -> None:
            if len(run) == 1:
                self.axis(run[0][0], run[0][1], depth)
            elif run:
                names = ", ".join(self.names.of(axis.var, axis.var.name) for axis, _ in run)
                kinds = "".join("S" if axis.iter_type == "data_par" else "R" for axis, _ in run)
                self.emit(depth, f'{names} = T.axis.remap("{kinds}", [{", ".join(text for _, text in run)}])')
            run.clear()

        for axis, value, text in zip(block.iter_vars, values, texts, strict=True):
            if text is not None and self.follows_loop(axis, value):
                run.append((axis, text))
                continue
            flush()
            self.axis(axis, text, depth)
        flush()

    def axis(self, axis: IterVar, value: str | None, depth: int) -> None:
        """The line that binds one axis."""
        dom = "None" if axis.dom is None else self.axis_range(axis.dom)
        kind = _AXES.get(axis.iter_type, axis.iter_type)
        name = self.names.of(axis.var, axis.var.name)
        self.emit(depth, f"{name} = T.axis.{kind}({dom}{'' if value is None else f', {value}'})")

    def axis_range(self, dom: Range) -> str:
        """The range of an axis: its extent, or both ends."""
        end = end_of(dom)
        if end is None:
            return self.explicit_range(dom)
        if isinstance(dom.min, IntImm) and dom.min.value == 0:
            return self.text(dom.extent)
        return f"({self.text(dom.min)}, {self.text(end)})"

    def follows_loop(self, axis: IterVar, value: Any) -> bool:
        """Whether an axis is a loop's variable over the loop's whole range."""
        loop = self.loops.get(value) if isinstance(value, Var) else None
        return (
            self.options.syntax_sugar
            and loop is not None
            and axis.dom is not None
            and axis.iter_type in ("data_par", "comm_reduce")
            and axis.var.dtype == loop.loop_var.dtype
            and structural_equal(axis.dom.min, loop.min)
            and structural_equal(axis.dom.extent, loop.extent)
        )

    # ---- statements whose body may follow at the same depth

    def wrapper(self, stmt: Stmt, depth: int, last: bool) -> list[_Todo]:
        """A statement that holds for the rest of its block, or a `with` where something else follows."""
        match stmt:
            case LetStmt():
                return self.let(stmt, depth, last)
            case AssertStmt():
                arguments = f"{self.text(stmt.condition)}, {self.text(stmt.message)}"
                return self.same_depth(stmt.body, f"assert {arguments}", f"T.Assert({arguments})", depth, last)
            case AttrStmt():
                return self.remark(stmt, depth, last)
            case Allocate():
                pointer = stmt.buffer_var.type_annotation
                scope = pointer.storage_scope if isinstance(pointer, PointerType) else "global"
                value = f"T.allocate([{self.joined(stmt.extents)}], {quoted(stmt.dtype)}, {quoted(scope)}"
                if not (isinstance(stmt.condition, IntImm) and stmt.condition.value):
                    value += f", condition={self.text(stmt.condition)}"
                if stmt.annotations.entries:
                    value += f", annotations={self.attr(stmt.annotations)}"
                return self.binding(stmt.buffer_var, stmt.body, f"{value})", depth, last)
            case DeclBuffer():
                data = stmt.buffer.data in self.pointers or self.names.knows(stmt.buffer.data)
                value = f"T.decl_buffer({self.declaration(stmt.buffer, data=data)})"
                return self.binding(stmt.buffer, stmt.body, value, depth, last)
            case _:
                self.emit(depth, self.metadata.reference(stmt.type_key, stmt))
                return []

    def same_depth(self, body: Stmt, line: str, call: str, depth: int, last: bool) -> list[_Todo]:
        """A line before `body`, or `with call:` around it."""
        self.emit(depth, line if last else f"with {call}:")
        return self.scope(body, depth if last else depth + 1)

    def binding(self, bound: Var | Buffer, body: Stmt, value: str, depth: int, last: bool) -> list[_Todo]:
        """`name = value` before `body`, or `with value as name:` around it."""

        def head() -> None:
            name = self.bind_buffer(bound) if isinstance(bound, Buffer) else self.names.of(bound, bound.name)
            self.emit(depth, f"{name} = {value}" if last else f"with {value} as {name}:")

        return self.scope(body, depth if last else depth + 1, head)

    def let(self, stmt: LetStmt, depth: int, last: bool) -> list[_Todo]:
        """A variable with a value."""
        value, kind = self.text(stmt.value), self.type_of(stmt.var)

        def head() -> None:
            name = self.names.of(stmt.var, stmt.var.name)
            shown = (
                f"{value}, {kind}" if stmt.var.type_annotation is not None or isinstance(stmt.var, SizeVar) else value
            )
            self.emit(depth, f"{name}: {kind} = {value}" if last else f"with T.LetStmt({shown}) as {name}:")

        return self.scope(stmt.body, depth if last else depth + 1, head)

    def remark(self, stmt: AttrStmt, depth: int, last: bool) -> list[_Todo]:
        """An attribute; the extent of a thread axis has a form of its own, which binds the axis."""
        if is_thread_launch(stmt):
            axis: Any = stmt.node
            value = f"T.launch_thread({quoted(axis.thread_tag)}, {self.text(stmt.value)})"
            return self.binding(axis.var, stmt.body, value, depth, last)
        text = f"T.attr({self.text(stmt.node)}, {quoted(stmt.attr_key)}, {self.text(stmt.value)})"
        return self.same_depth(stmt.body, text, text, depth, last)

    def bind_buffer(self, buffer: Buffer) -> str:
        """Name of a buffer at the place where it is declared; its pointer is known from here on."""
        self.pointers.setdefault(buffer.data, buffer)
        return self.buffer(buffer)


def implicit_root(func: PrimFunc) -> Block | None:
    """The block around the whole function, when parsing the function without it adds it again."""
    realize = func.body
    if not isinstance(realize, BlockRealize) or realize.iter_values or not realize.always_runs:
        return None
    root = realize.block
    stated = root.annotations.entries or root.match_buffers or root.reads or root.writes or root.init is not None
    if stated:
        return None
    if root.alloc_buffers:
        return root
    if isinstance(root.body, BlockRealize):
        return root if root.body.block.iter_vars else None
    return root if any(isinstance(item, BlockRealize) for item in post_order(root.body)) else None


def is_plain_loop(stmt: Any) -> bool:
    """Whether a statement is a serial loop from zero without annotations."""
    return (
        isinstance(stmt, For)
        and stmt.kind == "serial"
        and isinstance(stmt.min, IntImm)
        and stmt.min.value == 0
        and not stmt.annotations.entries
    )


def is_plain_thread(axis: IterVar, loop_var: Var) -> bool:
    """Whether the tag of a loop's thread says all about it."""
    return axis.dom is None and axis.iter_type == "thread_index" and axis.var.dtype == loop_var.dtype


def is_thread_launch(stmt: AttrStmt) -> bool:
    """Whether a statement launches a thread axis from zero to its value."""
    axis = stmt.node
    if not isinstance(axis, IterVar) or stmt.attr_key != "thread_extent" or axis.iter_type != "thread_index":
        return False
    dom = axis.dom
    from_zero = dom is not None and isinstance(dom.min, IntImm) and dom.min.value == 0
    return dom is not None and from_zero and structural_equal(dom.extent, stmt.value) and type(axis.var) is Var


def _is_void(ret_type: Any) -> bool:
    return isinstance(ret_type, TupleType) and not ret_type.fields
