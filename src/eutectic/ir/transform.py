"""Passes: values that turn a module into a module, the context they run in, and their records.

A pass of this package is a frozen dataclass derived from `Pass`; user passes are
made with `module_pass`. Every run leaves a `PassRecord` in the current
`PassContext`, from which all tools (timing, diff, dump) read.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from eutectic.ir.instrument import PassInstrument
from eutectic.ir.module import IRModule
from eutectic.ir.services import Services
from eutectic.support.deep import carried
from eutectic.support.errors import EutecticError, PassError
from eutectic.support.registry import load_providers
from eutectic.support.spelling import did_you_mean
from eutectic.support.timeline import Timeline

_KEYS: Final[dict[str, Any]] = {}


def register_config_key(name: str, default: Any) -> None:
    """Declare a key of `PassContext.config` and its default."""
    _KEYS[name] = default


def _check_option(key: str) -> None:
    if key not in _KEYS:
        load_providers("options of passes")
    if key not in _KEYS:
        raise PassError(f"unknown option {key!r} of PassContext", help=did_you_mean(key, _KEYS))


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What a pass says about itself.

    Attributes:
        name: Its name in records and messages.
        opt_level: A `Sequential` leaves it out below this level.
        required: Names of passes that must have run.
        traceable: Whether a search may apply it; accepted as TVM does.
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    traceable: bool = False

    def __str__(self) -> str:
        required = ", ".join(self.required)
        return (
            f'PassInfo(opt_level={self.opt_level}, name="{self.name}", required=({required}), '
            f"traceable={self.traceable})"
        )


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One run of a pass: its name, seconds, and the module before and after."""

    name: str
    seconds: float
    before: IRModule
    after: IRModule

    @property
    def changed(self) -> bool:
        """Whether the pass returned another module object."""
        return self.before is not self.after


class PassContext:
    """What passes run in; use as a context manager.

    Args:
        opt_level: Members of a `Sequential` with a higher level are skipped.
        required_pass: Names that run regardless of level.
        disabled_pass: Names that a `Sequential` skips.
        instruments: Objects with `PassInstrument`'s methods.
        config: Options of passes by key, such as `relax.FuseOps.max_depth`.
        remarks: Whether the matcher records why something was not fused.
        verify: Whether each module is checked to be well formed after each pass.
        validate: Whether each pass's module is run before and after it, on inputs that show differences.
        services: What passes may ask of packages above them: to run, compile, compare and write programs.

    Raises:
        PassError: `config` has an unknown key.
    """

    _local: ClassVar[threading.local] = carried(threading.local())

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[PassInstrument] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        remarks: bool = False,
        verify: bool = False,
        validate: bool = False,
        services: Services | None = None,
    ) -> None:
        for key in config or {}:
            _check_option(key)
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.config = dict(config or {})
        self.collect_remarks = remarks
        self.verify, self.validate = verify, validate
        self.services = services or Services()
        self.remarks: list[Any] = []
        self.records: list[PassRecord] = []
        self.timeline = Timeline()
        self._outer: tuple[PassInstrument, ...] = ()  # instruments that a context around this one has entered

    def inner(
        self,
        *,
        remarks: bool = False,
        verify: bool = False,
        validate: bool = False,
        services: Services | None = None,
    ) -> PassContext:
        """A context for a compilation within this one: with its level, passes, options and instruments.

        The instruments see the passes, but are not entered again. Records and remarks are its own.

        Args:
            remarks: As for the constructor.
            verify: As for the constructor; also when this context verifies.
            validate: As for the constructor; also when this context validates.
            services: As for the constructor.
        """
        context = PassContext(
            self.opt_level,
            self.required_pass,
            self.disabled_pass,
            self.instruments,
            self.config,
            remarks=remarks,
            verify=verify or self.verify,
            validate=validate or self.validate,
            services=services,
        )
        context._outer = tuple(self.instruments)
        return context

    def _own_instruments(self) -> list[PassInstrument]:
        return [instrument for instrument in self.instruments if not any(instrument is other for other in self._outer)]

    @classmethod
    def current(cls) -> PassContext:
        """The innermost context of this thread; a fresh default one when none is entered."""
        stack = getattr(cls._local, "stack", None)
        return stack[-1] if stack else PassContext()

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The type of each option by its key, as `{"relax.FuseOps.max_depth": {"type": "int"}}`."""
        load_providers("options of passes")
        return {key: {"type": type(default).__name__} for key, default in sorted(_KEYS.items())}

    def option(self, key: str) -> Any:
        """Value of a declared option.

        Raises:
            PassError: the key was never declared.
        """
        _check_option(key)
        return self.config.get(key, _KEYS[key])

    def override_instruments(self, instruments: Sequence[PassInstrument] | None) -> None:
        """Leave the present instruments and enter others."""
        for instrument in self._own_instruments():
            instrument.exit_pass_ctx()
        self.instruments = list(instruments or ())
        for instrument in self._own_instruments():
            instrument.enter_pass_ctx()

    def __enter__(self) -> PassContext:
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        stack.append(self)
        with ExitStack() as entered:
            entered.callback(stack.pop)  # an instrument that cannot be entered leaves no context behind
            for instrument in self._own_instruments():
                instrument.enter_pass_ctx()
                entered.callback(instrument.exit_pass_ctx)
            entered.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for instrument in self._own_instruments():
                instrument.exit_pass_ctx()
        finally:
            self._local.stack.pop()


class Pass:
    """Base of passes; subclasses implement `run` and return the same object when nothing changed."""

    opt_level: ClassVar[int] = 0
    pass_name: ClassVar[str | None] = None

    @property
    def info(self) -> PassInfo:
        """Name and level of the pass."""
        return PassInfo(self.pass_name or type(self).__name__, self.opt_level)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The transformed module; must not change `mod`."""
        raise PassError(f"{type(self).__name__} does not implement run")

    def __call__(self, mod: IRModule) -> IRModule:
        """Run the pass on `mod`, with instruments, verification and a record."""
        return run_pass(self, mod, PassContext.current())


_VERIFIERS: Final[list[Callable[[IRModule, str], None]]] = []


def register_verifier(verifier: Callable[[IRModule, str], None]) -> None:
    """Add a check run on every pass result under `PassContext(verify=True)`; it raises `WellFormedError`."""
    _VERIFIERS.append(verifier)


def run_pass(step: Pass, mod: IRModule, ctx: PassContext) -> IRModule:
    """Run one pass in a context.

    Raises:
        EutecticError: whatever the pass raised, with a note that names the pass.
        PassError: the argument or the result is not a module.
    """
    info = step.info
    if not isinstance(mod, IRModule):
        raise PassError(f"pass {info.name} takes an IRModule, got {type(mod).__name__}")
    votes = [instrument.should_run(mod, info) for instrument in ctx.instruments]  # each is asked, whatever others say
    if not all(votes):
        return mod
    for instrument in ctx.instruments:
        instrument.run_before_pass(mod, info)
    try:
        with ctx.timeline.step(info.name) as timed:
            result = step.run(mod, ctx)
    except EutecticError as error:
        error.with_note(f"in pass {info.name}")
        raise
    if not isinstance(result, IRModule):
        raise PassError(f"pass {info.name} returned {type(result).__name__}, not an IRModule")
    ctx.records.append(PassRecord(info.name, timed.seconds, mod, result))
    if ctx.verify:
        for verifier in _VERIFIERS:
            verifier(result, info.name)
    if ctx.validate and result is not mod:
        for validator in ctx.services.validators():
            validator(mod, result, info.name)
    for instrument in ctx.instruments:
        instrument.run_after_pass(result, info)
    return result


class Sequential(Pass):
    """Passes run one after another, those disabled or above the context's level left out.

    Args:
        passes: The members, in order.
        opt_level: Level of the whole.
        name: Name in records.
        required: Names of passes that must have run; kept for reference.
        traceable: Kept for reference.
    """

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes = list(passes or ())
        for member in self.passes:
            if not isinstance(member, Pass):
                raise PassError(
                    f"Sequential takes passes, got {type(member).__name__}", help="call the pass class first"
                )
        self._info = PassInfo(name, opt_level, tuple(required or ()), traceable)

    @property
    def info(self) -> PassInfo:
        """Name and level."""
        return self._info

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the members that the context lets run."""
        for member in self.passes:
            name, level = member.info.name, member.info.opt_level
            if name in ctx.disabled_pass or (level > ctx.opt_level and name not in ctx.required_pass):
                continue
            mod = run_pass(member, mod, ctx)
        return mod


class PrintIR(Pass):
    """Write the module to the standard error stream, and give it back as it is.

    Args:
        header: Stands before it.
    """

    def __init__(self, header: str = "") -> None:
        self.header = header

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Write the module."""
        print(f"PrintIR({self.header}):\n{mod.script()}", file=sys.stderr)
        return mod


class UserPass(Pass):
    """Base of passes made of a Python function or object by a decorator.

    Args:
        transform: What the user wrote.
        info: Name and level given to the decorator.
        instance: The user's object, whose other attributes the pass shows.
    """

    def __init__(self, transform: Callable[..., Any], info: PassInfo, instance: Any = None) -> None:
        self._transform, self._info, self._instance = transform, info, instance

    @property
    def info(self) -> PassInfo:
        """Name and level given to the decorator."""
        return self._info

    def __getattr__(self, name: str) -> Any:
        instance = self.__dict__.get("_instance")
        if instance is None:
            raise AttributeError(name)
        return getattr(instance, name)


class ModulePass(UserPass):
    """A pass made of a Python function or object by `module_pass`."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Call the user's transformation on a copy of the module."""
        transformed: IRModule = self._transform(mod.clone(), ctx)
        return transformed


def with_functions(mod: IRModule, changed: Mapping[Any, Any]) -> IRModule:
    """A copy of `mod` with some functions replaced; `mod` itself when there are none."""
    if not changed:
        return mod
    out = mod.clone()
    out.update(changed)
    return out


def make_pass_decorator(
    method: str,
    build: Callable[[Callable[..., Any], PassInfo, Any], Pass],
    target: Any,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool = False,
) -> Any:
    """The decorator behind `module_pass`, `function_pass` and `dataflowblock_pass`.

    Args:
        method: Method a decorated class must have.
        build: Makes the pass of (callable, info, user's instance or None).
        target: The decorated thing, or None when used with arguments.
        opt_level: Level; required.
        name: Name; None takes the function's or class's.
        required: Names of passes that must have run.
        traceable: Kept for reference.

    Raises:
        ValueError: `opt_level` is missing.
    """
    if opt_level is None:
        raise ValueError("opt_level must be given to a pass decorator")

    def decorate(subject: Any) -> Any:
        info = PassInfo(name or subject.__name__, opt_level, tuple(required or ()), traceable)
        if not inspect.isclass(subject):
            return build(subject, info, None)
        if not hasattr(subject, method):
            raise PassError(f"class {subject.__name__} has no method {method}")

        def construct(*args: Any, **kwargs: Any) -> Pass:
            instance = subject(*args, **kwargs)
            return build(getattr(instance, method), info, instance)

        construct.__name__, construct.__doc__ = subject.__name__, subject.__doc__
        return construct

    return decorate if target is None else decorate(target)


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function `(mod, ctx) -> mod` or of a class with `transform_module`."""
    return make_pass_decorator("transform_module", ModulePass, pass_func, opt_level, name, required, traceable)
