"""What was done to a schedule: instructions that can be printed, stored and done again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Final, TypeAlias

from eutectic.ir.prim_expr import FloatImm, IntImm, StringImm
from eutectic.support.deep import deep
from eutectic.support.errors import ScheduleError
from eutectic.support.spelling import did_you_mean
from eutectic.tir.index_map import IndexMap
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.handles import BlockRV, ExprRV, Handle, LoopRV, handles_in
from eutectic.tir.schedule.primitive import PRIMITIVES, Performs, Primitive

_PREFIX: Final[dict[type, str]] = {BlockRV: "b", LoopRV: "l", ExprRV: "v"}
_HANDLES: Final[dict[str, Callable[[], Handle]]] = {"b": BlockRV, "l": LoopRV, "v": ExprRV}
_NAME: Final = re.compile(r"[blv]\d+\Z")
_WITHOUT_EFFECT: Final = ("get_", "sample_")
_INDEX_MAP: Final = ("lambda", "tir.IndexMap")
DecisionProvider: TypeAlias = "Callable[[Instruction, dict[str, Any], Any], Any]"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One call of a primitive.

    Attributes:
        kind: Name of the primitive.
        arguments: Values by parameter, in the order of the signature; a tuple for `*args`.
        outputs: Handles that it returned.
        decision: What a sampling primitive chose.
    """

    kind: str
    arguments: tuple[tuple[str, Any], ...]
    outputs: tuple[Handle, ...]
    decision: Any = None

    @property
    def inputs(self) -> list[Handle]:
        """Handles that it was given."""
        return [rv for _, value in self.arguments for rv in handles_in(value)]

    @property
    def attrs(self) -> dict[str, Any]:
        """Arguments without handles."""
        return {name: value for name, value in self.arguments if not handles_in(value)}


class Trace:
    """Instructions in the order in which they were done.

    Args:
        insts: The instructions.
    """

    def __init__(self, insts: tuple[Instruction, ...] | list[Instruction] = ()) -> None:
        self.insts: list[Instruction] = list(insts)

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """What sampling instructions chose."""
        return {inst: inst.decision for inst in self.insts if inst.decision is not None}

    def __len__(self) -> int:
        return len(self.insts)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.insts)

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add what was done last; a decision takes the place of the instruction's own."""
        if decision is not None:
            inst = Instruction(inst.kind, inst.arguments, inst.outputs, decision)
        self.insts.append(inst)

    def get_decision(self, inst: Instruction) -> Any:
        """What a sampling instruction of the trace chose; None for others."""
        return self.decisions.get(inst)

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """A trace without the look-ups and choices whose results nothing uses, which does the same."""
        kept: list[Instruction] = []
        used: set[Handle] = set()
        for inst in reversed(self._wanted(remove_postproc)):
            if not inst.kind.startswith(_WITHOUT_EFFECT) or used & set(inst.outputs):
                used.update(inst.inputs)
                kept.append(inst)
        return Trace(kept[::-1])

    def pop(self) -> Instruction | None:
        """Take the last instruction away; what it did stays done."""
        return self.insts.pop() if self.insts else None

    def copy(self) -> Trace:
        """The same instructions, to be continued apart."""
        return Trace(self.insts)

    def with_decision(self, inst: Instruction, decision: Any, remove_postproc: bool = False) -> Trace:
        """A trace in which one sampling instruction chose something else."""
        changed = Instruction(inst.kind, inst.arguments, inst.outputs, decision)
        return Trace([changed if item is inst else item for item in self._wanted(remove_postproc)])

    def _wanted(self, remove_postproc: bool) -> list[Instruction]:
        kinds = [inst.kind for inst in self.insts]
        end = kinds.index("enter_postproc") if remove_postproc and "enter_postproc" in kinds else len(kinds)
        return self.insts[:end]

    # ---- text

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line of Python per instruction, which do the same to a schedule called `sch`."""
        names: dict[Handle, str] = {}
        return [_python(inst, names) for inst in self._wanted(remove_postproc)]

    def __str__(self) -> str:
        body = self.as_python() or ["pass"]
        head = ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *("  " + line for line in body)])

    __repr__ = __str__

    def show(self) -> None:
        """Print `str(trace)`."""
        print(self)

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """The trace of lists, numbers and strings: instructions, and what sampling ones of them chose."""
        names: dict[Handle, str] = {}
        insts, decisions = [], []
        for number, inst in enumerate(self._wanted(remove_postproc)):
            arguments = [[name, _encoded(value, names)] for name, value in inst.arguments]
            insts.append([inst.kind, arguments, [_named(rv, names) for rv in inst.outputs]])
            if inst.decision is not None:
                decisions.append([number, _encoded(inst.decision, names)])
        return [insts, decisions]

    # ---- replay

    def apply_to_schedule(
        self, sch: Performs, remove_postproc: bool = False, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Do the instructions to another schedule.

        Args:
            sch: Schedule of the program that the trace was made on, or one like it.
            remove_postproc: Stop before `enter_postproc`.
            decision_provider: Called for sampling instructions with the instruction, its arguments and its
                decision; gives the decision to use.

        Raises:
            ScheduleError: an instruction cannot be done to this program; what came before it is done.
        """
        known: dict[Handle, Handle] = {}
        for inst in self._wanted(remove_postproc):
            arguments = {name: _mapped(value, known) for name, value in inst.arguments}
            decision = inst.decision
            if decision_provider is not None and decision is not None:
                decision = decision_provider(inst, arguments, decision)
            if decision is not None:
                arguments["decision"] = decision
            results = _call(sch, inst.kind, arguments)
            if len(results) != len(inst.outputs):
                raise ScheduleError(
                    f"{inst.kind} in the trace names {len(inst.outputs)} results, and gives {len(results)}",
                    help="the trace was made on a program of another form",
                )
            known.update(zip(inst.outputs, results, strict=True))

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Performs) -> None:
        """Do a trace in the form of `as_json`, or its text, to a schedule.

        Raises:
            ScheduleError: it is no such trace, or an instruction cannot be done.
        """
        known: dict[str, Handle] = {}
        try:
            parsed: Any = json.loads(json_obj) if isinstance(json_obj, str) else json_obj
            insts, decisions = parsed
            chosen = {int(number): decision for number, decision in decisions}
            steps = [
                Instruction(
                    str(kind),
                    tuple((str(name), _decoded(value, known)) for name, value in arguments),
                    tuple(_handle(name, known) for name in outputs),
                    chosen.get(number),
                )
                for number, (kind, arguments, outputs) in enumerate(insts)
            ]
        except (TypeError, ValueError) as error:
            raise ScheduleError("this is not the JSON form of a trace", help="as Trace.as_json gives it") from error
        Trace(steps).apply_to_schedule(sch)


def _call(sch: Performs, kind: str, arguments: Mapping[str, Any]) -> list[Handle]:
    primitive = PRIMITIVES.get(kind)
    if primitive is None:
        raise ScheduleError(f"no schedule primitive is called {kind}", help=did_you_mean(kind, PRIMITIVES))
    args, kwargs = _split(primitive, arguments)
    try:
        primitive.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ScheduleError(
            f"{kind} in the trace cannot be called: {error}",
            help=f"it takes {', '.join(primitive.signature.parameters)}",
        ) from error
    return handles_in(primitive(sch, *args, **kwargs))


def _split(primitive: Primitive[Any, Any], arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in arguments.items():
        parameter = primitive.signature.parameters.get(name)
        if parameter is not None and parameter.kind is Parameter.VAR_POSITIONAL:
            args = list(value) if isinstance(value, list | tuple) else [value]
        else:
            kwargs[name] = value
    return args, kwargs


@deep
def _mapped(value: Any, known: Mapping[Handle, Handle]) -> Any:
    if isinstance(value, BlockRV | LoopRV | ExprRV):
        return known.get(value, value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, known) for key, item in value.items()}
    return [_mapped(item, known) for item in value] if isinstance(value, list | tuple) else value


def _named(rv: Handle, names: dict[Handle, str]) -> str:
    return names.setdefault(rv, f"{_PREFIX[type(rv)]}{len(names)}")


# ---- Python


def _python(inst: Instruction, names: dict[Handle, str]) -> str:
    parts: list[str] = []
    parameters = PRIMITIVES[inst.kind].signature.parameters
    for name, value in inst.arguments:
        if parameters[name].kind is Parameter.VAR_POSITIONAL:
            parts += [_literal(item, names) for item in value]
        else:
            parts.append(f"{name}={_literal(value, names)}")
    if inst.decision is not None:
        parts.append(f"decision={_literal(inst.decision, names)}")
    outputs = ", ".join(_named(rv, names) for rv in inst.outputs)
    return f"{outputs} = sch.{inst.kind}({', '.join(parts)})" if outputs else f"sch.{inst.kind}({', '.join(parts)})"


@deep
def _literal(value: Any, names: dict[Handle, str]) -> str:
    if isinstance(value, BlockRV | LoopRV | ExprRV):
        return _named(value, names)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item, names) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {_literal(v, names)}" for k, v in value.items()) + "}"
    if isinstance(value, IterVar):
        return json.dumps(value.thread_tag)
    if isinstance(value, StringImm | IntImm | FloatImm):
        return _literal(value.value, names)
    if isinstance(value, IndexMap):
        return value.as_python()
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value) if isinstance(value, str) else repr(value)


# ---- JSON: handles are their names and index maps their text, strings are quoted within


@deep
def _encoded(value: Any, names: dict[Handle, str]) -> Any:
    if isinstance(value, BlockRV | LoopRV | ExprRV):
        return _named(value, names)
    if isinstance(value, list | tuple):
        return [_encoded(item, names) for item in value]
    if isinstance(value, Mapping):
        return {k: _encoded(v, names) for k, v in value.items()}
    if isinstance(value, IterVar):
        return json.dumps(value.thread_tag)
    if isinstance(value, StringImm | IntImm | FloatImm):
        return _encoded(value.value, names)
    if isinstance(value, IndexMap):
        return value.as_python()
    return json.dumps(value) if isinstance(value, str) else value


@deep
def _decoded(value: Any, known: dict[str, Handle]) -> Any:
    if isinstance(value, str):
        if value.startswith(_INDEX_MAP):
            return IndexMap.from_text(value)
        return _handle(value, known) if _NAME.match(value) else json.loads(value)
    if isinstance(value, list):
        return [_decoded(item, known) for item in value]
    if isinstance(value, dict):
        return {k: _decoded(v, known) for k, v in value.items()}
    return value


def _handle(name: str, known: dict[str, Handle]) -> Handle:
    if not _NAME.match(name):
        raise ValueError(name)
    if name not in known:
        known[name] = _HANDLES[name[0]]()
    return known[name]
