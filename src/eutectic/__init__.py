"""Eutectic: an operator-fusion compiler for deep-learning models."""

from eutectic import arith, ir, relax, script, te, tir, topi
from eutectic.driver.compile import compile
from eutectic.driver.compiled import CompiledModel
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import PassContext
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
    "__version__",
    "arith",
    "compile",
    "get_global_func",
    "ir",
    "register_global_func",
    "relax",
    "script",
    "te",
    "tir",
    "topi",
]
