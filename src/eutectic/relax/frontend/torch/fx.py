"""from_fx: a module of torch that is given with the shapes and dtypes of its inputs, instead of exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from eutectic.ir.module import IRModule
from eutectic.relax.expr import Function, Var
from eutectic.relax.frontend.torch.exported_program import from_exported_program
from eutectic.relax.frontend.torch.tracing import tracing
from eutectic.relax.transform.remove_unused_parameters import substituted
from eutectic.support.errors import FrontendError


def from_fx(
    model: nn.Module,
    input_info: Sequence[tuple[Sequence[int], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[Any, Callable[..., Any]] | None = None,
    default_image_layout: str = "NCHW",
) -> IRModule:
    """A traced module of torch as a graph module.

    The module is exported for these inputs, and what comes out is imported, so that all of
    `from_exported_program` holds.

    Args:
        model: A `torch.fx.GraphModule`, or another module that can be exported.
        input_info: Shape and dtype of each input.
        keep_params_as_input: As for `from_exported_program`.
        unwrap_unit_return_tuple: Whether a single output in a tuple is returned as it is.
        no_bind_return_tuple: As for `from_exported_program`.
        custom_convert_map: As for `from_exported_program`.
        default_image_layout: `NCHW`, which is how torch writes images.

    Returns:
        A module whose `main` takes `inp_0`, `inp_1`, ... and returns what the model does.

    Raises:
        FrontendError: another layout, or a dtype that torch does not have.

    Reference: TVM relax.frontend.torch.from_fx.
    """
    if default_image_layout != "NCHW":
        raise FrontendError(f"from_fx with images in {default_image_layout}", help="torch's operators take NCHW")
    examples = tuple(_example(tuple(shape), dtype) for shape, dtype in input_info)
    with tracing():
        program = torch.export.export(model.eval(), examples)
    is_single = program.call_spec.out_spec is not None and program.call_spec.out_spec.is_leaf()
    mod = from_exported_program(
        program,
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or is_single,
        no_bind_return_tuple=no_bind_return_tuple,
        custom_convert_map=custom_convert_map,
    )
    mod["main"] = _renamed(mod["main"], len(examples))
    return mod


def _example(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise FrontendError(f"torch has no dtype {dtype!r}")
    return torch.zeros(shape, dtype=kind)


def _renamed(function: Function, count: int) -> Function:
    """The function with its first parameters called `inp_0`, `inp_1`, ..."""
    fresh = {param: Var(f"inp_{i}", param.struct_info, param.span) for i, param in enumerate(function.params[:count])}
    params = tuple(fresh.get(param, param) for param in function.params)
    body = substituted(function, dict(fresh))
    return Function(params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)
