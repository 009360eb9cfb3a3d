"""A native loop that runs a table of library calls, so that a region costs one call from Python."""

from __future__ import annotations

import threading
from typing import Any, Final

import llvmlite.binding as llvm

_SYMBOL: Final = "eutectic_run_sequence"

_IR: Final = f"""
; A step is (execute, primitive, nargs, args); `execute` has the prototype of dnnl_primitive_execute.
%step = type {{ ptr, ptr, i64, ptr }}

define i32 @{_SYMBOL}(ptr %steps, i64 %count, ptr %stream, ptr %failed) nounwind {{
entry:
  %none = icmp sle i64 %count, 0
  br i1 %none, label %done, label %body

body:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %execute.at = getelementptr inbounds %step, ptr %steps, i64 %i, i32 0
  %primitive.at = getelementptr inbounds %step, ptr %steps, i64 %i, i32 1
  %nargs.at = getelementptr inbounds %step, ptr %steps, i64 %i, i32 2
  %args.at = getelementptr inbounds %step, ptr %steps, i64 %i, i32 3
  %execute = load ptr, ptr %execute.at
  %primitive = load ptr, ptr %primitive.at
  %nargs = load i64, ptr %nargs.at
  %nargs.int = trunc i64 %nargs to i32
  %args = load ptr, ptr %args.at
  %status = call i32 %execute(ptr %primitive, ptr %stream, i32 %nargs.int, ptr %args)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %stop, label %good

good:
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %body, label %done

stop:
  store i64 %i, ptr %failed
  ret i32 %status

done:
  ret i32 0
}}
"""

_lock = threading.Lock()
_compiled: list[tuple[Any, int]] = []


def native_sequence_runner() -> int:
    """Address of `int32 run(const Step* steps, int64 count, void* stream, int64* failed)`.

    It calls the steps in order and stops at the first status that is not 0,
    which it returns after storing the step's index. Compiled at the first call
    and kept as long as the process.

    Returns:
        The address; a step is four words `{execute, primitive, nargs, args}`.
    """
    if not _compiled:
        with _lock:
            if not _compiled:
                _compiled.append(_compile())
    return _compiled[0][1]


def _compile() -> tuple[Any, int]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_IR)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, int(engine.get_function_address(_SYMBOL))
