"""LLVM text to object code, and to what people read: optimised text, assembly, the number of spills."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.ffi import ObjectRef
from llvmlite.binding.newpassmanagers import NewPassManager

from eutectic.backend.llvm.machine import Machine, target_machine
from eutectic.support.errors import CodegenError


def _optimized(text: str, machine: Machine) -> tuple[Any, Any]:
    """The module after optimisation, and the code generator for it.

    The code is vectorised and unrolled where schedules say so; LLVM only cleans it up.
    """
    maker = target_machine(machine)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())  # constants and types stay as long as their context
        module.verify()
    except RuntimeError as error:
        raise CodegenError(
            "LLVM does not accept the generated code; this is a fault of ours", notes=[str(error)]
        ) from None
    module.data_layout = str(maker.target_data)
    options = llvm.PipelineTuningOptions(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_interleaving = options.loop_unrolling = False
    builder = llvm.create_pass_builder(maker, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    _free(passes)
    return module, maker


def _free(passes: Any) -> None:
    """Give back the memory of a pipeline, 80 KiB; llvmlite 0.50 does not, as one of its base classes hides the other's.

    `ModulePassManager` inherits `_dispose` from `ObjectRef`, where it does nothing, before `NewPassManager`.
    """
    if type(passes)._dispose is ObjectRef._dispose:
        NewPassManager._dispose(passes)
    passes.close()


def object_code(text: str, machine: Machine) -> bytes:
    """The object file of a module.

    Raises:
        CodegenError: LLVM does not accept the text.
    """
    module, maker = _optimized(text, machine)
    return bytes(maker.emit_object(module))


def optimized_text(text: str, machine: Machine) -> str:
    """The module after optimisation, as LLVM text."""
    return str(_optimized(text, machine)[0])


def assembly(text: str, machine: Machine) -> str:
    """The module in the processor's assembly language."""
    module, maker = _optimized(text, machine)
    return str(maker.emit_assembly(module))


def spill_count(assembly_text: str) -> int:
    """Instructions that move a vector register to or from the stack, in x86 assembly."""
    return len(re.findall(r"^\s+v?mov[au]p[sd]\s.*\(%[re]sp\)", assembly_text, re.MULTILINE))
