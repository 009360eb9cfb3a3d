"""The functional form of an exported program: no in-place operators, composites such as conv2d kept whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from eutectic.relax.frontend.torch.antialiased import RULES as ANTIALIASED
from eutectic.relax.frontend.torch.as_exported import FunctionalProgram, as_exported
from eutectic.relax.frontend.torch.derivatives import refuse_derivatives
from eutectic.relax.frontend.torch.hidden_aliases import passing_as_aliases, refuse_hidden_aliases, whole_no_more
from eutectic.relax.frontend.torch.label_losses import label_losses
from eutectic.relax.frontend.torch.mixed_losses import RULES as MIXED_LOSSES
from eutectic.relax.frontend.torch.operand_rounding import rounding_operands
from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.overlapping_writes import refuse_overlapping_writes
from eutectic.relax.frontend.torch.powers_of_two import ldexp
from eutectic.relax.frontend.torch.resampling import RULES as RESAMPLING
from eutectic.relax.frontend.torch.spans import excerpt_of
from eutectic.relax.frontend.torch.table import key_of
from eutectic.relax.frontend.torch.tracing import tracing
from eutectic.relax.frontend.torch.written_state import telling_of_writes
from eutectic.support.errors import ExportFailedError, FrontendError

ROUNDS: Final = 5  # of taking operators without converter apart
# Operators that torch 2.13 takes apart into others that compute something else: labels after a -1 count in its loss.
_WRONG_APART: Final = frozenset({"aten.multilabel_margin_loss.default", "aten.multilabel_margin_loss_forward.default"})
# Ways to take operators apart that go before torch's own, by names.
_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    **RESAMPLING,
    **ANTIALIASED,
    **MIXED_LOSSES,
    "aten.ldexp.Tensor": ldexp,
}
_Done = dict[frozenset[str], FunctionalProgram | None]  # None is the program itself, which would keep its own key
_DONE: Final[WeakKeyDictionary[ExportedProgram, _Done]] = WeakKeyDictionary()


def functional(program: ExportedProgram, custom: Collection[str] = ()) -> FunctionalProgram:
    """The program as it is when nothing in it has to change, else after `run_decompositions({})`.

    Operators that have no converter, but that torch can express by others, are taken apart. Computed once per program.

    Args:
        program: The program as exported.
        custom: Keys of converters given by the user, whose operators stay whole.
    """
    names = frozenset(custom)
    refuse_derivatives(program)
    refuse_hidden_aliases(program)
    refuse_overlapping_writes(program)
    with tracing():
        done = _DONE.setdefault(program, {})
        if names not in done and not names:  # the keys of a user's converters are names in torch's functional form
            exported = as_exported(program)
            if exported is not None:
                done[names] = None if exported is program else exported
        return done[names] or program if names in done else decomposed(program, custom)


def decomposed(program: ExportedProgram, custom: Collection[str] = ()) -> FunctionalProgram:
    """The program after `run_decompositions({})`, whatever it has in it; `functional` gives the same from now on.

    Args:
        program: The program as exported.
        custom: Keys of converters given by the user, whose operators stay whole.

    Raises:
        FrontendError: torch cannot, because of a tensor that control flow makes out of numbers, or because of what the
            program writes to: memory that it has under two names, a tensor that is no buffer, an input that gets
            another shape.
        ExportFailedError: torch asks, to take an operator apart, for a size that only values decide.
    """
    names = frozenset(custom)
    _refuse_tensors_in_control_flow(program)
    with tracing():
        # Beneath autograd torch leaves operators whole that it takes apart for the sake of their gradients.
        with torch.inference_mode(), passing_as_aliases(program), telling_of_writes(program):
            rewritten = _taken_apart(_made_functional(program), names)
        _DONE.setdefault(program, {})[names] = rewritten
        return rewritten


def _made_functional(program: ExportedProgram) -> ExportedProgram:
    try:
        fresh: ExportedProgram = program.run_decompositions({**whole_no_more(program), **label_losses(program)})
    except GuardOnDataDependentSymNode as error:
        said = str(error)
        node = next((node for node in program.graph.nodes if f"While executing %{node.name} " in said), None)
        raise ExportFailedError(
            f"torch cannot take {node.target if node else 'an operator'} apart: {said.splitlines()[0]}",
            at=excerpt_of(node) if node else None,
            help="that size is known only from values: compute with torch.where over all rows instead of choosing some",
        ) from error
    return fresh


def _refuse_tensors_in_control_flow(program: ExportedProgram) -> None:
    """Refuse what torch 2.13 fails at with a message about its own tensors."""
    for name, graph in program.graph_module.named_modules():
        if not name or not isinstance(graph, fx.GraphModule):
            continue
        for node in graph.graph.nodes:
            if node.op == "get_attr" and isinstance(getattr(graph, str(node.target), None), torch.Tensor):
                raise FrontendError(
                    "a function that is given to control flow makes a tensor out of numbers, which torch cannot export",
                    at=excerpt_of(next(iter(node.users), node)),
                    help="make the tensor before the call of torch.cond, while_loop, map or scan, and use it inside",
                )


def _taken_apart(program: ExportedProgram, custom: Collection[str]) -> ExportedProgram:
    known: Mapping[Any, Any] | None = None
    whole: set[Any] = set()
    for _ in range(ROUNDS):
        unknown = {
            target
            for target in _operators(program) - whole
            if str(target) not in TABLE and str(target) not in _WRONG_APART and not key_of(str(target), custom)
        }
        if not unknown:
            break
        known = torch.export.default_decompositions() if known is None else known
        steps = {target: known[target] for target in unknown if target in known}
        steps.update(_more(target for target in unknown if target not in steps))
        steps = {target: rounding_operands(target, rule) for target, rule in steps.items()}
        steps.update({target: _RULES[str(target)] for target in unknown if str(target) in _RULES})
        if not steps:
            break
        fresh = _by_parts(program, steps)
        if fresh is None:  # those that cannot be taken apart are refused by their own names
            single = len(steps) == 1  # then it has just been tried; torch takes a tenth of a second for each attempt
            whole |= {target for target, rule in steps.items() if single or _by_parts(program, {target: rule}) is None}
            steps = {target: rule for target, rule in steps.items() if target not in whole}
            fresh = _by_parts(program, steps) or program
        program = fresh
    return program


def _by_parts(program: ExportedProgram, steps: Mapping[Any, Any]) -> ExportedProgram | None:
    """The program with operators expressed by others; None where torch fails at it, or where parts have effects."""
    if not steps:
        return None
    try:
        fresh = program.run_decompositions(dict(steps))
    except Exception:  # torch raises what it likes, such as a condition on an element of a tensor
        return None
    return None if _has_effects(fresh) else fresh


def _has_effects(program: ExportedProgram) -> bool:
    """Whether torch passes a token through the program to keep operators with effects in order."""
    return any(spec.kind is InputKind.TOKEN for spec in program.graph_signature.input_specs)


def _operators(program: ExportedProgram) -> set[Any]:
    """Operators on tensors; what computes sizes, such as `aten.sym_size`, is read off the nodes' values instead."""
    return {
        node.target
        for node in program.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and not isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
    }


def _more(targets: Iterable[Any]) -> dict[Any, Any]:
    """Decompositions that torch does not use by default, without those into its primitives."""
    rules = get_decompositions(list(targets))
    return {target: rule for target, rule in rules.items() if rule.__module__ == "torch._decomp.decompositions"}
