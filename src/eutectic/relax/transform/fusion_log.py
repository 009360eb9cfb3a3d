"""What a fusion pass writes down when remarks are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from eutectic.ir.transform import PassContext
from eutectic.relax.base import Expr
from eutectic.relax.dpl.match import Matcher, Miss, root_ops
from eutectic.relax.dpl.near_miss import describe_miss, op_name, value_name
from eutectic.relax.dpl.remarks import FusionRemark, Member, Refusal
from eutectic.relax.dpl.table import FusionPattern
from eutectic.relax.expr import Call, Var, VarBinding

NEAREST: Final = 8  # near misses kept per binding: tables have hundreds of patterns that end in the same operator

Names = Mapping[Expr, Var]


@dataclass
class FusionLog:
    """Remarks of one run of a pass.

    A refusal of a match is written at once. Near misses, where the root's operator
    fits and something below it does not, come after all of those, the nearest
    first, at most `NEAREST` per binding; where the binding was fused, only those
    of which more operators had matched than were fused.

    Attributes:
        ctx: Where the remarks go.
        near: Near misses by the variable of the root.
        fused_ops: Number of operators of the match that took a binding, by its variable.
    """

    ctx: PassContext
    near: dict[Var, list[tuple[Miss, FusionPattern, VarBinding, Names]]] = field(default_factory=dict)
    fused_ops: dict[Var, int] = field(default_factory=dict)

    def note(
        self, entry: FusionPattern, binding: VarBinding, refusal: Refusal | None, matcher: Matcher, names: Names
    ) -> None:
        """Why a pattern does not take a binding.

        Args:
            entry: The pattern.
            binding: The root.
            refusal: What spoke against a match; None when there was none.
            matcher: The state of the attempt.
            names: Variable of each bound value.
        """
        if refusal is None and matcher.refusals:
            first_refusal = matcher.refusals[0]
            at = binding.value if first_refusal.at is None else first_refusal.at
            refusal = describe_miss(Miss((0, False), 0, entry.pattern, at, at, first_refusal), names)
        if refusal is not None:
            self.missed(entry, binding, refusal, names)
        elif matcher.furthest is not None and root_ops(entry.pattern) is not None:
            self.near.setdefault(binding.var, []).append((matcher.furthest, entry, binding, names))

    def missed(self, entry: FusionPattern, binding: VarBinding, refusal: Refusal, names: Names) -> None:
        """Write a refusal."""
        at = binding.value if refusal.at is None else refusal.at
        remark = FusionRemark(
            "missed",
            entry.name,
            op_name(binding.value),
            binding.var.name_hint,
            refusal.why,
            span=binding.value.span,
            operand=refusal.variables[0] if refusal.variables else value_name(at, names),
            constraint=refusal.constraint,
            expected=refusal.expected,
            actual=refusal.actual,
            variables=refusal.variables,
            readers=refusal.readers,
            operand_span=getattr(at, "span", None),
        )
        self.ctx.remarks.append(remark)

    def fused(self, entry: FusionPattern, binding: VarBinding, members: Mapping[Var, Expr], function: str) -> None:
        """Write that a match became a function."""
        listed = tuple(Member(op_name(value), value.span) for value in members.values() if isinstance(value, Call))
        self.fused_ops.update(dict.fromkeys(members, len(listed)))
        root, name = op_name(binding.value), binding.var.name_hint
        self.ctx.remarks.append(FusionRemark("fused", entry.name, root, name, "", listed, binding.value.span, function))

    def finish(self) -> None:
        """Write the near misses."""
        for var, misses in self.near.items():
            further = [item for item in misses if item[0].calls > self.fused_ops.get(var, 0)]
            further.sort(key=lambda item: item[0].progress, reverse=True)
            for miss, entry, binding, names in further[:NEAREST]:
                self.missed(entry, binding, describe_miss(miss, names), names)
        self.near.clear()
