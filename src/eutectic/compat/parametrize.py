"""`tvm.testing.parameter` and its like: values that the tests of a module run with, by pytest's fixtures."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from eutectic.runtime.tensor import Device, device
from eutectic.support.errors import CodegenError
from eutectic.target import Target

DEFAULT_TEST_TARGETS: Final = ("llvm",)
_VARIABLE: Final = "TVM_TEST_TARGETS"
_GROUPS: Final = itertools.count()


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture that gives each value in turn; it is called after the variable that it is assigned to.

    Args:
        values: The values.
        ids: How reports call them.
        by_dict: Values by how reports call them, instead of `values`.

    Raises:
        TypeError: both ways are used.
    """
    import pytest  # only scripts with tests need it

    if by_dict is not None:
        if values or ids is not None:
            raise TypeError("parameter takes values, or by_dict, not both")
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def as_fixture(*_cls: Any, request: Any) -> Any:
        return request.param

    return as_fixture


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> list[Any]:
    """Several fixtures that change together: `x, y = parameters((1, 2), (3, 4))` gives (1, 2), then (3, 4).

    Args:
        value_sets: Values of all fixtures, set by set.
        ids: How reports call the sets.

    Raises:
        ValueError: sets are of different lengths.
    """
    import pytest  # only tests need it

    lengths = {len(values) for values in value_sets}
    if len(lengths) != 1:
        raise ValueError(f"all sets of values must have the same length, got {sorted(lengths)}")

    @pytest.fixture(params=value_sets, ids=ids)
    def chosen(*_cls: Any, request: Any) -> Any:
        return request.param

    group = f"_parameters_{next(_GROUPS)}"
    sys._getframe(1).f_locals[group] = chosen  # where the fixtures are looked up: the calling module or class
    return [_part(group, index) for index in range(lengths.pop())]


def _part(group: str, index: int) -> Any:
    import pytest  # only tests need it

    def part(*_cls: Any, **chosen: Any) -> Any:
        return chosen[group][index]

    wanted = [inspect.Parameter("_cls", inspect.Parameter.VAR_POSITIONAL)]
    wanted.append(inspect.Parameter(group, inspect.Parameter.KEYWORD_ONLY))
    part.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]  # pytest reads it
    return pytest.fixture(part)


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture of pytest; with a cache it is computed once for equal arguments, and tests get copies.

    Args:
        func: What computes it.
        cache_return_value: Whether it is kept.
    """
    import pytest  # only tests need it

    def decorate(function: Callable[..., Any]) -> Any:
        return pytest.fixture(_cached(function) if cache_return_value else function)

    return decorate if func is None else decorate(func)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    values: dict[str, Any] = {}

    @functools.wraps(function)
    def once(*args: Any, **kwargs: Any) -> Any:
        key = repr((args, sorted(kwargs.items())))
        if key not in values:
            values[key] = function(*args, **kwargs)
        return deepcopy(values[key])

    return once


def device_enabled(target: str) -> bool:
    """Whether a target is among those of the tests, and tensors can be placed on its device."""
    return any(str(target) == name for name, _ in enabled_targets())


def enabled_targets() -> list[tuple[str, Device]]:
    """Targets of the tests with their devices: of the environment variable `TVM_TEST_TARGETS`, else `llvm`."""
    named = [name for name in os.environ.get(_VARIABLE, "").split(";") if name] or DEFAULT_TEST_TARGETS
    return [(name, dev) for name, dev in _placed(named) if dev.exist]


def _placed(names: Sequence[str]) -> Iterator[tuple[str, Device]]:
    for name in names:
        try:
            kind = Target(name).kind.name
        except CodegenError:
            continue  # a target of TVM's that we do not have
        yield name, device("cuda" if kind == "cuda" else "cpu")


def parametrize_targets(*args: Any) -> Any:
    """Run a test for targets, given to it as `target` and `dev`: those that are named, of those that are enabled.

    Args:
        args: Targets; or, without parentheses, the test itself, for all enabled targets.
    """
    import pytest  # only tests need it

    function = args[0] if len(args) == 1 and callable(args[0]) else None
    pairs = enabled_targets() if function is not None or not args else [pair for pair in _placed(args) if pair[1].exist]
    mark = pytest.mark.parametrize(("target", "dev"), pairs, ids=[name for name, _ in pairs])
    return mark if function is None else mark(function)


def exclude_targets(*args: str) -> Callable[[Any], Any]:
    """Run a test for all enabled targets but some."""
    kept = [name for name, _ in enabled_targets() if name not in args]
    return lambda function: parametrize_targets(*kept)(function) if kept else _skipped(function)


def known_failing_targets(*args: str) -> Callable[[Any], Any]:
    """Run a test for all enabled targets; for some it is expected to fail."""
    import pytest  # only tests need it

    pairs = [
        pytest.param(name, dev, marks=[pytest.mark.xfail] if name in args else [], id=name)
        for name, dev in enabled_targets()
    ]
    return pytest.mark.parametrize(("target", "dev"), pairs)


def _skipped(function: Any) -> Any:
    import pytest  # only tests need it

    return pytest.mark.skip(reason="all enabled targets are excluded")(function)
