"""Models as the compiler takes them: a module with `main`, how it is called, and the tensors that stay outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from eutectic.driver.compiled import array_signature
from eutectic.driver.left_to_torch import eager_records, operator_count, warn_of
from eutectic.driver.report import EagerRecord
from eutectic.driver.weights import Tensors, places_of
from eutectic.ir.module import IRModule
from eutectic.relax.expr import Function
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.runtime.signature import Signature
from eutectic.support.errors import FrontendError
from eutectic.tir.function_attributes import EXAMPLE_SIZES
from eutectic.tir.transform.check_bounds import checked_module


@dataclass(frozen=True)
class Imported:
    """A model, imported.

    Attributes:
        mod: The module.
        signature: How it is called.
        state: Gives the tensors of the torch module that calls read and write; None when there are none.
        source: The torch module or exported program that the parameters belong to; None for others.
        program: The exported program; None for others.
        eager: What torch runs.
        sizes: Symbolic sizes of the example, by name.
    """

    mod: IRModule
    signature: Signature
    state: Tensors | None = None
    source: Any = None
    program: Any = None
    eager: tuple[EagerRecord, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    def without_module(self) -> Imported:
        """The rest, for after compiling: the module's constants are another copy of the weights."""
        return replace(self, mod=IRModule())


def import_model(
    model: Any,
    inputs: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    leaves_to_torch: bool,
    custom_convert_map: Mapping[Any, Callable[..., Any]] | None,
) -> Imported:
    """Import what `compile` takes.

    Args:
        model: A torch module, an exported program, or a module of ours.
        inputs: Example arguments of a torch module.
        kwargs: Example keyword arguments.
        dynamic_shapes: Sizes that may change.
        leaves_to_torch: Whether torch runs what cannot be imported; a warning says what that is.
        custom_convert_map: Converters by operator, for torch models.

    Raises:
        FrontendError: it cannot be imported.
    """
    if isinstance(model, IRModule):
        return _own(model)
    if find_spec("torch") is None:
        raise FrontendError(
            f"cannot compile a {type(model).__name__}: torch is not installed",
            help="pip install 'eutectic[torch]', or give an IRModule",
        )
    from eutectic.relax.frontend.torch import (  # heavy, and only for torch models
        example_sizes,
        export_model,
        from_exported_program,
        signature_of,
    )

    program = export_model(model, inputs, kwargs, dynamic_shapes)
    mod = from_exported_program(
        program, custom_convert_map=custom_convert_map, leaves_to_torch=leaves_to_torch, state_as_input=True
    )
    source = getattr(model, "_orig_mod", model)
    names = mod["main"].attr("state") or ()
    state = Tensors(places_of(source, [str(name) for name in names])) if names else None
    eager = eager_records(mod)
    warn_of(eager, operator_count(mod))
    sizes = example_sizes(program.graph)
    return Imported(_with_examples(mod, sizes), signature_of(program), state, source, program, eager, sizes)


def import_with_weights(
    program: Any, source: Any, *, leaves_to_torch: bool, custom_convert_map: Mapping[Any, Callable[..., Any]] | None
) -> Imported:
    """Import a torch model whose parameters and buffers are read anew by each call.

    Args:
        program: The exported program.
        source: The module, or exported program, whose tensors are read.
        leaves_to_torch: As in `import_model`; nothing is warned of here.
        custom_convert_map: Converters by operator.

    Raises:
        FrontendError: it cannot be imported.
    """
    from eutectic.relax.frontend.torch import (  # heavy, and only for torch models
        example_sizes,
        from_exported_program,
        signature_of,
    )

    mod = from_exported_program(
        program,
        keep_params_as_input=True,
        custom_convert_map=custom_convert_map,
        leaves_to_torch=leaves_to_torch,
        state_as_input=True,
    )
    main = mod["main"]
    mod["main"] = main.without_attr("params").without_attr("num_input")  # the values of now are of no interest
    signature = signature_of(program, weights_as_input=True)
    state = Tensors(places_of(source, [tensor.name for tensor in signature.state]))
    sizes = example_sizes(program.graph)
    return Imported(_with_examples(mod, sizes), signature, state, source, program, eager_records(mod), sizes)


def _with_examples(mod: IRModule, sizes: Mapping[str, int]) -> IRModule:
    """The module, whose `main` says what its symbolic sizes were in the example."""
    if sizes:
        mod["main"] = mod["main"].with_attr(EXAMPLE_SIZES, dict(sizes))
    return mod


def _own(mod: IRModule) -> Imported:
    main = mod.get("main")
    if not isinstance(main, Function):
        raise FrontendError("the module has no graph function main", help='name the entry function "main"')
    names = [param.name_hint for param in main.params]
    return Imported(checked_module(mod), array_signature(names, main.ret_struct_info or ObjectStructInfo()))
