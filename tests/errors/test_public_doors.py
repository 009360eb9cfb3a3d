"""No public function lets one of Python's own errors out, whatever it is given."""

from __future__ import annotations

import copy
import enum
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import eutectic
from eutectic import relax, te, tir, topi
from eutectic.support.door import door
from eutectic.support.errors import ArgumentError, EutecticError, ScheduleError
from eutectic.support.shown import shown

PACKAGES = [
    "eutectic",
    "eutectic.arith",
    "eutectic.driver.build",
    "eutectic.relax",
    "eutectic.relax.analysis",
    "eutectic.relax.dpl",
    "eutectic.relax.op",
    "eutectic.relax.op.image",
    "eutectic.relax.op.nn",
    "eutectic.relax.transform",
    "eutectic.script",
    "eutectic.target",
    "eutectic.te",
    "eutectic.tir",
    "eutectic.tir.transform",
    "eutectic.topi",
    "eutectic.topi.image",
    "eutectic.topi.nn",
]


def public(package: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions and classes that a package exports."""
    module = importlib.import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        is_ours = str(getattr(found, "__module__", "")).startswith("eutectic")
        is_enum = isinstance(found, type) and issubclass(found, (enum.Enum, BaseException))
        if callable(found) and is_ours and not is_enum and not isinstance(found, ModuleType):
            yield name, found


def wrong() -> list[Any]:
    """Values of all kinds, of which a function takes a few at most."""
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    few = [None, "nonsense", -1, 2**70, [], list(range(2000)), {}, float("nan"), x, te.placeholder((2, 3), "float32")]
    arrays = [np.zeros((2, 2, 2)), torch.zeros(3)]
    return [*few, *arrays, tir.Var("n", "int64"), object(), (None,), [None, "a"], True, eutectic.IRModule(), int]


def arguments(function: Callable[..., Any], values: list[Any], thorough: bool) -> Iterator[list[Any]]:
    """All arguments wrong in the same way; with `thorough` also one wrong among tensors."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = max(1, sum(p.default is p.empty for p in places))
    for value in values:
        yield [value] * min(least, len(places))
        if thorough:
            for tensor in (values[8], values[9]):
                for place in range(1, min(len(places), 6)):
                    yield [value if k == place else tensor for k in range(max(least, place + 1))]


def raw_errors(package: str, thorough: bool) -> Iterator[str]:
    for name, function in public(package):
        for args in arguments(function, wrong(), thorough):
            try:
                inspect.signature(function).bind(*args)
            except TypeError:
                continue
            try:
                function(*args)
            except EutecticError as error:
                if len(str(error)) > 4000:
                    yield f"{package}.{name}: a message of {len(str(error))} characters"
            except Exception as error:
                yield f"{package}.{name}({', '.join(map(shown, args))}): {type(error).__name__}: {error}"[:300]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_raw_error(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # `save("nonsense")` is a file
    assert not list(raw_errors(package, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_no_raw_error_of_one_wrong_argument(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert not list(raw_errors(package, thorough=True))


def schedule() -> tir.Schedule:
    a = te.placeholder((8, 8), "float32", "a")
    return tir.Schedule(te.create_prim_func([a, te.compute((8, 8), lambda i, j: a[i, j] + 1.0, "b")]))


def test_no_raw_error_of_a_schedule():
    names = [name for name in dir(tir.Schedule) if not name.startswith("_") and name not in ("perform", "show")]
    methods = [name for name in names if callable(getattr(schedule(), name))]
    assert len(methods) > 40
    faults = []
    for name in methods:
        for value in [*wrong(), "b"]:
            for count in (1, 2, 3):
                try:
                    getattr(schedule(), name)(*[value] * count)
                except EutecticError:
                    pass
                except TypeError as error:
                    if "argument" not in str(error):
                        faults.append(f"{name}({shown(value)} x {count}): TypeError: {error}")
                except Exception as error:
                    faults.append(f"{name}({shown(value)} x {count}): {type(error).__name__}: {error}")
    assert not faults


def places(tree: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield path
    if isinstance(tree, list):
        for k, item in enumerate(tree):
            yield from places(item, (*path, k))


def test_no_raw_error_of_a_trace():
    made = schedule()
    i, j = made.get_loops("b")
    made.split(i, [None, 4])
    made.vectorize(j)
    whole = made.trace.as_json()
    for path in list(places(whole))[1:]:
        for value in (None, "nonsense", -1, [], {}, "b7", '"text"'):
            other = copy.deepcopy(whole)
            at = other
            for k in path[:-1]:
                at = at[k]
            at[path[-1]] = value
            for given in (other, json.dumps(other)):
                with suppress(EutecticError):
                    tir.schedule.Trace.apply_json_to_schedule(given, schedule())
    for given in (None, "", "{", 3, [[["split", [], []]], []], [[["get_block", [], ["b0"]]], []]):
        with pytest.raises(ScheduleError):
            tir.schedule.Trace.apply_json_to_schedule(given, schedule())


def test_the_argument_is_named():
    with pytest.raises(ArgumentError, match=r"topi\.add: lhs must be a Tensor, .* or a float, got None") as caught:
        topi.add(None, 3)
    assert "topi.add(None, 3)" in str(caught.value)
    assert "test_public_doors.py" in str(caught.value)
    with pytest.raises(ArgumentError, match=r"topi\.nn\.conv2d has no parameter 'stride'") as caught:
        topi.nn.conv2d(1, 2, stride=3)
    assert caught.value.help == "did you mean strides?"


def test_a_call_that_lacks_arguments_is_python_s_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        topi.add(1)
    assert not isinstance(caught.value, EutecticError)


def test_errors_of_a_callback_are_the_user_s():
    def callback(_: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        te.compute((4,), callback)


def test_a_door_is_not_put_twice():
    assert door(topi.add, "other") is topi.add


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (list(range(2000)), "[0, 1, 2, 3, 4, 5, ...] (list of 2000)"),
        (10**5000, "a number of 16610 bits"),
        (np.zeros((3, 4)), "numpy.ndarray of shape (3, 4) and dtype float64"),
        (torch.zeros(3), "torch.Tensor of shape (3,) and dtype float32"),
        (np.float32(1.5), "1.5"),
        ("a\nb", "'a\\nb'"),
        (None, "None"),
    ],
    ids=["list", "number", "array", "tensor", "scalar", "text", "none"],
)
def test_values_in_messages(value: Any, text: str):
    assert shown(value) == text
    assert len(shown([value] * 3)) < 200
