"""Calls of torch as data: names of operators, plain values, and the graphs that control flow takes as arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx

from eutectic.relax.frontend.core import Refused
from eutectic.relax.frontend.torch.params import Parameters
from eutectic.support.deep import deep
from eutectic.support.eager_call import function_of
from eutectic.support.errors import LoadError, UnsupportedTypeError

_PYTHON: Final = {"_operator": "operator", "math": "math", "builtins": "builtins"}


def subgraph(node: fx.Node) -> fx.GraphModule | None:
    """The graph that a node stands for; None when it is something else."""
    if node.op != "get_attr":
        return None
    value = _attribute(node)
    return value if isinstance(value, fx.GraphModule) else None


@deep
def graph_form(graph: fx.GraphModule, outer: Callable[[Any], Any]) -> dict[str, Any]:
    """A graph as data; see `eutectic.support.eager_call`.

    Args:
        graph: The graph.
        outer: Gives the form of tensors that it keeps, as operands of the call that runs it.

    Raises:
        Refused: something in it has no form as data.
    """
    nodes = list(graph.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    known: dict[fx.Node, Any] = {node: {"value": place} for place, node in enumerate(inputs)}
    calls: list[Any] = []

    @deep
    def form(argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            return known[argument]
        if isinstance(argument, (list, tuple)):
            return [form(item) for item in argument]
        return literal(argument, "")

    results: Any = None
    for node in nodes:
        if node.op == "get_attr":
            inner = subgraph(node)
            known[node] = graph_form(inner, outer) if inner is not None else outer(_constant(node))
        elif node.op == "output":
            results = form(node.args[0])
        elif node.op == "call_function":
            keyword = {name: form(value) for name, value in node.kwargs.items()}
            calls.append([callable_name(node, ""), [form(argument) for argument in node.args], keyword])
            known[node] = {"value": len(inputs) + len(calls) - 1}
        elif node.op != "placeholder":
            raise Refused(f"a graph in it has a {node.op} of {node.target}")
    return {"graph": {"inputs": len(inputs), "calls": calls, "results": results}}


def literal(argument: Any, reason: str) -> Any:
    """A value that is neither tensor nor size, as data.

    Args:
        argument: The value.
        reason: What the refusal begins with.

    Raises:
        Refused: it has no form as data.
    """
    match argument:
        case float():
            return _number(argument)
        case None | bool() | int() | str():
            return argument
        case torch.dtype() | torch.layout() | torch.memory_format():
            return {"torch": str(argument).removeprefix("torch.")}
        case torch.device():
            return {"device": str(argument)}
        case complex():
            return {"complex": [_number(argument.real), _number(argument.imag)]}
        case _:
            raise Refused(f"{reason}{': ' if reason else ''}an argument of it is a {type(argument).__name__}")


def _number(value: float) -> Any:
    """A number as data: JSON has one NaN, and an operator may read the sign of another."""
    return {"nan": -1} if math.isnan(value) and math.copysign(1.0, value) < 0 else value


def callable_name(node: fx.Node, reason: str) -> str:
    """The name by which torch's function is called again.

    Raises:
        Refused: it has none.
    """
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = str(target)
    elif isinstance(target, torch._ops.HigherOrderOperator):
        name = f"higher_order.{target.__name__}"
    else:
        module, own = getattr(target, "__module__", ""), getattr(target, "__name__", "")
        name = f"torch.{own}" if module.startswith("torch") else f"{_PYTHON.get(module, module)}.{own}"
    try:
        function_of(name)
    except LoadError:
        raise Refused(reason) from None
    return name


@deep
def is_random(node: fx.Node) -> bool:
    """Whether a node draws random numbers, itself or in a graph that it runs."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    graphs = [graph for argument in node.all_input_nodes if (graph := subgraph(argument)) is not None]
    return any(is_random(inner) for graph in graphs for inner in graph.graph.nodes)


def _attribute(node: fx.Node) -> Any:
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value


def _constant(node: fx.Node) -> Any:
    """A tensor that a graph keeps, as a constant of the program.

    Raises:
        Refused: it cannot be one.
    """
    value = _attribute(node)
    if not isinstance(value, torch.Tensor):
        raise Refused(f"a graph in it reads {node.target}, a {type(value).__name__}")
    try:
        return Parameters().constant(value, f"constant {node.target}")
    except UnsupportedTypeError as error:
        raise Refused(error.message) from None
