"""Eutectic: an operator-fusion compiler for deep-learning models."""

from eutectic import arith, ir, relax, script, target, te, tir, topi
from eutectic.driver.build import VirtualMachine, build
from eutectic.driver.compile import compile
from eutectic.driver.compiled import CompiledModel
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import PassContext
from eutectic.runtime.tensor import cpu
from eutectic.support.door import open_doors
from eutectic.support.errors import EutecticAdvice, EutecticError
from eutectic.support.registry import get_global_func, register_global_func

__version__ = "0.1.0.dev0"

__all__ = [
    "CompiledModel",
    "EutecticAdvice",
    "EutecticError",
    "GlobalVar",
    "IRModule",
    "PassContext",
    "VirtualMachine",
    "__version__",
    "arith",
    "build",
    "compile",
    "cpu",
    "get_global_func",
    "ir",
    "register_global_func",
    "relax",
    "script",
    "target",
    "te",
    "tir",
    "topi",
]

open_doors(globals(), places=True)
