"""Eutectic: an operator-fusion compiler for deep-learning models.

Importing this package imports no part of the compiler: each comes when it is first asked for.
"""

from typing import TYPE_CHECKING, Final

from eutectic.support.door import open_doors
from eutectic.support.errors import EutecticAdvice, EutecticError
from eutectic.support.lazy import lazy, lend
from eutectic.support.registry import get_global_func, provide, register_global_func

if TYPE_CHECKING:
    from eutectic import arith, ir, relax, script, target, te, tir, topi, tune
    from eutectic.artefact.model import LoadedModel, load
    from eutectic.driver.build import VirtualMachine, build
    from eutectic.driver.compile import compile
    from eutectic.driver.compiled import CompiledModel
    from eutectic.ir.module import GlobalVar, IRModule
    from eutectic.ir.transform import PassContext
    from eutectic.runtime.tensor import cpu

__version__ = "0.1.0.dev0"

__all__ = [
    "CompiledModel",
    "EutecticAdvice",
    "EutecticError",
    "GlobalVar",
    "IRModule",
    "LoadedModel",
    "PassContext",
    "VirtualMachine",
    "__version__",
    "arith",
    "build",
    "compile",
    "cpu",
    "get_global_func",
    "ir",
    "load",
    "register_global_func",
    "relax",
    "script",
    "target",
    "te",
    "tir",
    "topi",
    "tune",
]

_MEMBERS: Final = {
    "eutectic.artefact.model": ("LoadedModel", "load"),
    "eutectic.driver.build": ("VirtualMachine", "build"),
    "eutectic.driver.compile": ("compile",),
    "eutectic.driver.compiled": ("CompiledModel",),
    "eutectic.ir.module": ("GlobalVar", "IRModule"),
    "eutectic.ir.transform": ("PassContext",),
    "eutectic.runtime.tensor": ("cpu",),
}

# What packages find in registries without importing who puts it there, as that is above them.
_PROVIDERS: Final = {
    "function eutectic.explained": ("eutectic.explain.measure",),
    "function eutectic.loader": ("eutectic.backend.registry",),
    "function eutectic.loader.dnnl": ("eutectic.backend.dnnl.loading",),
    "function eutectic.measured": ("eutectic.tune.lookup",),
    "function eutectic.recompile": ("eutectic.driver.recompile",),
    "function eutectic.report_from_json": ("eutectic.driver.report",),
    "function eutectic.run_prim_func": ("eutectic.driver.build_prim_func",),
    "function eutectic.run_unscheduled": ("eutectic.driver.build_prim_func",),
    "function eutectic.variants": ("eutectic.driver.recompile",),
    "function relax.ext.dnnl": ("eutectic.backend.registry",),
    "backends": ("eutectic.backend.registry",),
    "batch offers": ("eutectic.backend.registry",),
    "calls of global functions": ("eutectic.relax.expr",),
    "layout offers": ("eutectic.backend.registry",),
    "modules as files": ("eutectic.script.store",),
    "operators": ("eutectic.relax", "eutectic.tir"),
    "operators on tensors": ("eutectic.topi.broadcast", "eutectic.topi.elementwise"),
    "options of passes": ("eutectic.relax.transform", "eutectic.tir.transform"),
    "panel offers": ("eutectic.backend.registry",),
    "printers": ("eutectic.script.printer",),
    "residual offers": ("eutectic.backend.registry",),
    "schedulers": ("eutectic.backend.llvm.default_schedule",),
    "validators": ("eutectic.relax.validate", "eutectic.relax.validate_programs"),
    "views": ("eutectic.driver.inspect",),
    "winograd offers": ("eutectic.backend.registry",),
}

# TVM has these in the graph dialect. For us they belong to the driver, which is above it.
_LENT_TO_RELAX: Final = {
    "eutectic.driver.build": ("VMExecutable", "VirtualMachine", "build", "get_pipeline", "register_pipeline"),
}

provide(_PROVIDERS)
lend("eutectic.relax", _LENT_TO_RELAX)
open_doors(globals(), places=True)
lazy(globals(), _MEMBERS, places=True)
