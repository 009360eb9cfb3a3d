"""Memory for the intermediates of a native function: one block, which waits for the next call."""

from __future__ import annotations

from typing import Final

from eutectic.backend.llvm.entry_arguments import CheckedText
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.plan import Plan
from eutectic.ir.prim_expr import IntImm

RELEASE_TEXT: Final = (
    "; Frees the memory that is kept for the next call.",
    "define void @release() nounwind {",
    "  %kept = atomicrmw xchg ptr @spare, ptr null acquire",
    "  %none = icmp eq ptr %kept, null",
    "  br i1 %none, label %done, label %drop",
    "drop:",
    "  %base = getelementptr i8, ptr %kept, i64 -64",
    "  call void @free(ptr %base)",
    "  br label %done",
    "done:",
    "  ret void",
    "}",
    "",
)


def take_arena(out: CheckedText, emitter: ExprEmitter, plan: Plan) -> str:
    """Memory for intermediates: that of an earlier call when it is free and large enough."""
    text = out.text
    if isinstance(plan.arena_bytes, IntImm) and plan.arena_bytes.value == 0:
        return "null"
    size = emitter.index(plan.arena_bytes)
    spare = text.assign("atomicrmw xchg ptr @spare, ptr null acquire")
    names = [text.fresh(hint) for hint in ("spare", "small", "fresh", "ready")]
    text.branch(text.assign(f"icmp eq ptr {spare}, null"), names[2], names[0])
    text.start(names[0])  # its size is in the words before it
    have = text.assign(f"load i64, ptr {text.assign(f'getelementptr i8, ptr {spare}, i64 -64')}, align 8")
    text.branch(text.assign(f"icmp sge i64 {have}, {size}"), names[3], names[1])
    text.start(names[1])
    text.do(f"call void @free(ptr {text.assign(f'getelementptr i8, ptr {spare}, i64 -64')})")
    text.jump(names[2])
    text.start(names[2])
    whole = emitter.fold("add", size, "64")
    rounded = text.assign(f"and i64 {text.assign(f'add i64 {whole}, 63')}, -64")
    base = text.assign(f"call ptr @aligned_alloc(i64 64, i64 {rounded})")
    out.require(f"icmp ne ptr {base}, null", f"{plan.name}: not enough memory for intermediates", "MemoryError")
    text.do(f"store i64 {size}, ptr {base}, align 8")
    allocated = text.assign(f"getelementptr inbounds i8, ptr {base}, i64 64")
    block = text.block
    text.jump(names[3])
    text.start(names[3])
    return text.assign(f"phi ptr [ {spare}, %{names[0]} ], [ {allocated}, %{block} ]")


def give_back_arena(text: FunctionText, arena: str) -> None:
    """Keep the memory for the next call, and free what is kept by now."""
    if arena == "null":
        return
    other = text.assign(f"atomicrmw xchg ptr @spare, ptr {arena} release")
    drop, kept = text.fresh("drop"), text.fresh("kept")
    text.branch(text.assign(f"icmp eq ptr {other}, null"), kept, drop)
    text.start(drop)
    text.do(f"call void @free(ptr {text.assign(f'getelementptr i8, ptr {other}, i64 -64')})")
    text.jump(kept)
    text.start(kept)
