"""Names of the package `tvm` itself."""

from __future__ import annotations

from typing import Any

from eutectic.runtime.tensor import cpu, cuda, device, gpu
from eutectic.ir.module import IRModule

# In TVM v0.23 `tvm.TVMError` is Python's own Exception: tests catch everything with it.
TVMError = Exception

__all__ = ["IRModule", "TVMError", "compile", "cpu", "cuda", "device", "gpu"]


def compile(mod: IRModule, target: Any = None, **options: Any) -> Any:
    """Compile a module's `main`; TVM's signature, as far as it applies to graph modules.

    Args:
        mod: The module.
        target: None, or a target that names the CPU.
        options: TVM's pipelines; none can be chosen.

    Raises:
        ValueError: another target, or a pipeline of TVM's.
    """
    from eutectic.driver.compile import compile as compile_module  # heavy: loads the backends

    if target is not None and str(getattr(target, "kind", target)).split()[0] not in ("llvm", "cpu", "c"):
        raise ValueError(f"target {target!r}: only the CPU of this machine can be compiled for")
    chosen = {key: value for key, value in options.items() if value not in (None, "default")}
    if chosen:
        raise ValueError(f"pipelines cannot be chosen here, got {', '.join(chosen)}; run passes on the module instead")
    return compile_module(mod)
