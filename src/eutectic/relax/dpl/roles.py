"""Roles: what the parts of a composite are (weight, bias, activation), as its pattern named them.

The matcher knows them and leaves them as the attribute `Roles`, so that nobody has to find them again by the names of
operators. A role is kept as a place, not as a value: the number of a binding and, for an operand, of the argument.
Places outlive copies of the function and constants that take the place of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function, Var
from eutectic.support.errors import PatternError
from eutectic.support.spelling import did_you_mean

ROLES: Final = "Roles"
Place = tuple[int, ...]


def places_of(
    members: Mapping[Var, Expr], named: Mapping[str, Expr], var_of: Mapping[Expr, Var]
) -> dict[str, tuple[int, ...]]:
    """Where the named parts of a match are.

    Args:
        members: Bindings of the group, in program order.
        named: Matched values by name.
        var_of: Variable of each bound value.

    Returns:
        By name `(binding,)` for a result and `(binding, argument)` for an operand; parts that are neither are left out.
    """
    places: dict[Expr, Place] = {}
    for i, value in enumerate(members.values()):
        for j, arg in enumerate(value.args if isinstance(value, Call) else ()):
            places.setdefault(arg, (i, j))
    places.update({value: (i,) for i, value in enumerate(members.values())})
    located = {name: places.get(part) or places.get(var_of.get(part, part)) for name, part in named.items()}
    return {name: place for name, place in located.items() if place is not None}


def roles_of(composite: Function) -> dict[str, Expr]:
    """The parts of a composite by role: calls for results; parameters, constants or variables for operands.

    Empty when the composite was made without roles.
    """
    bindings = [binding for block in composite.body.blocks for binding in block.bindings]
    out: dict[str, Expr] = {}
    for name, place in (composite.attr(ROLES) or {}).items():
        value = bindings[int(place[0])].value
        out[name] = value.args[int(place[1])] if len(place) > 1 and isinstance(value, Call) else value
    return out


def part_of(composite: Function, role: str) -> Expr:
    """One part of a composite.

    Raises:
        PatternError: the pattern named none so.
    """
    roles = roles_of(composite)
    if role not in roles:
        raise PatternError(
            f"composite {composite.attr('Composite')} has no part called {role!r}",
            help=did_you_mean(role, roles) or f"it has {', '.join(roles) or 'no roles'}",
        )
    return roles[role]
