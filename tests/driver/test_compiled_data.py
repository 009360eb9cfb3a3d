"""Compiled models as data: copied, written and read, they compute the same bits and say the same about themselves."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import pickle  # noqa: TID251 - models have to come through it
import subprocess
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.report import CompileReport, HostRecord
from eutectic.ir.span import Span
from eutectic.relax import Tuple, op
from eutectic.runtime.encoding import to_bytes
from eutectic.runtime.sizes import SizeExpr
from eutectic.support.errors import CallError, LoadError
from eutectic.testing.graphs import arrays, graph, weights

Pair = namedtuple("Pair", ["left", "right"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")
X = (torch.arange(12.0) / 4 - 2).reshape(3, 4)
COPIES: dict[str, Callable[[CompiledModel], CompiledModel]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "bytes": lambda model: CompiledModel.from_bytes(model.to_bytes()),
}


class Net(nn.Module):
    """Arguments and results of every kind."""

    def forward(self, x: torch.Tensor, more: dict[str, Any], factor: int = 3, *, name: str = "a") -> Any:
        y = x * factor + more["shift"][0]
        more["kept"].add_(1.0)
        views = [y, y.t(), x[1:], x.reshape(-1), y.split([1, 3], 1)[1], x.unsqueeze(0).expand(2, -1, -1), x]
        ordered = OrderedDict(text=name, none=None, size=x.shape[0], half=x.shape[0] / 2)
        return Pair({"views": views, 3: (ordered, y.max(0))}, more["kept"])


def _net_arguments(kind: Callable[[torch.Tensor], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (kind(X.clone()), {"shift": [kind(X[0].clone())], "kept": kind(X.clone())}, 4), {"name": "b"}


@cache
def net() -> CompiledModel:
    args, kwargs = _net_arguments(lambda tensor: tensor)
    batch = Dim("batch", min=3, max=64)
    shapes = {"x": {0: batch}, "more": {"shift": [None], "kept": {0: batch}}, "factor": None, "name": None}
    return eutectic.compile(Net(), args, kwargs=kwargs, dynamic_shapes=shapes, target="llvm", threads=1)


def _same(got: Any, want: Any) -> None:
    got_leaves, got_spec = torch.utils._pytree.tree_flatten(got)
    want_leaves, want_spec = torch.utils._pytree.tree_flatten(want)
    assert got_spec == want_spec
    for a, b in zip(got_leaves, want_leaves, strict=True):
        assert type(a) is type(b)
        if isinstance(a, (torch.Tensor, np.ndarray)):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        else:
            assert a == b


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", [lambda tensor: tensor, lambda tensor: tensor.numpy()], ids=["torch", "numpy"])
def test_the_copy_is_called_like_the_original(way: str, kind: Callable[[torch.Tensor], Any]):
    (args, kwargs), (other, _), (eager, _) = _net_arguments(kind), _net_arguments(kind), _net_arguments(lambda t: t)
    made = COPIES[way](net())
    got, want = made(*args, **kwargs), net()(*other, **kwargs)
    _same(got, want)
    _same((args, got), (other, want))  # what is changed in place
    views = got.left["views"]
    assert views[6] is args[0]
    assert got.right is args[1]["kept"]
    assert all(np.shares_memory(np.asarray(part), np.asarray(args[0])) for part in (views[2], views[3], views[5]))
    assert all(np.shares_memory(np.asarray(part), np.asarray(views[0])) for part in (views[1], views[4]))
    reference = Net()(*eager, **kwargs)
    assert got.left[3][0] == reference.left[3][0]
    for a, b in zip(views, reference.left["views"], strict=True):
        np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-5)


@pytest.mark.parametrize("way", COPIES)
def test_the_copy_says_the_same_about_itself(way: str, capsys: pytest.CaptureFixture[str]):
    made = COPIES[way](net())
    assert (made.report, made.script()) == (net().report, net().script())
    assert repr(made).partition("(")[2] == repr(net()).partition("(")[2]
    assert isinstance(made.report, CompileReport)
    made.show()
    assert capsys.readouterr().out.strip() == net().script().strip()


@pytest.mark.parametrize("way", COPIES)
def test_the_copy_refuses_what_the_original_refuses(way: str):
    (x, more, factor), kwargs = _net_arguments(lambda tensor: tensor)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x[:, :2], more, factor), kwargs),
        ((x, more, 5), kwargs),
        ((x, more, factor), {"name": "c"}),
        ((x, {"shift": (more["shift"][0],), "kept": x}, factor), kwargs),
        ((x[:2], more, factor), kwargs),
        ((x, more), kwargs),
        ((x.double(), more, factor), kwargs),
    ]
    made = COPIES[way](net())
    for args, named in wrong:
        with pytest.raises(CallError) as ours:
            made(*args, **named)
        with pytest.raises(CallError) as theirs:
            net()(*args, **named)
        assert str(ours.value) == str(theirs.value)


def test_a_model_that_was_read_has_no_modules():
    made = COPIES["bytes"](net())
    for name in ("module", "lowered"):
        with pytest.raises(LoadError, match=f"there is no {name}") as error:
            getattr(made, name)
        assert "script()" in (error.value.help or "")
    assert copy.copy(net()).module is net().module
    assert COPIES["bytes"](made).script() == net().script()
    assert made.to_bytes() == COPIES["bytes"](made).to_bytes()
    assert [step.name for step in made.profile(*_net_arguments(lambda t: t)[0], name="b")]


def test_one_tensor_in_and_one_out():
    model = eutectic.compile(nn.Linear(4, 2).eval(), (X,), threads=1)
    for way, made in COPIES.items():
        again = made(model)
        assert torch.equal(again(X), model(X)), way
        np.testing.assert_array_equal(again(X.numpy()), model(X).numpy())


def test_functions_of_arrays():
    def body(bb: Any, x: Any) -> Any:
        first = bb.emit(op.nn.relu(op.nn.conv2d(x, weights(4, 3, 3, 3))))
        return Tuple((op.reshape(first, (1, -1)), Tuple((op.nn.softmax(first, axis=1),))))

    mod = graph({"x": (1, 3, 6, 6)}, body)
    inputs = arrays(mod["main"])
    for target in (None, "llvm"):
        model = eutectic.compile(mod, target=target)
        for way, made in COPIES.items():
            got, want = made(model)(*inputs), model(*inputs)
            assert isinstance(got[1], tuple), way
            np.testing.assert_array_equal(got[0], want[0])
            np.testing.assert_array_equal(got[1][0], want[1][0])


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not installed")
def test_a_library_region_before_a_reshape_is_written_with_its_code_for_nan():
    class Head(nn.Sequential):
        pass

    model = Head(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5)).eval()
    compiled = eutectic.compile(model, (torch.ones(1, 3, 6, 6),), target="llvm -libs=dnnl", threads=1)
    x = torch.randn(1, 3, 6, 6)
    x[0, 0, 0, 0] = torch.nan
    made = COPIES["bytes"](compiled)
    assert torch.equal(made(x.nan_to_num()), compiled(x.nan_to_num()))
    with pytest.warns(eutectic.EutecticAdvice):
        assert torch.equal(made(x).isnan(), compiled(x).isnan())


# ---- what is inside


PLAIN = (bool, int, float, str, bytes, np.ndarray, np.dtype, type(None))


def _strange(value: Any) -> list[str]:
    """Classes of what is neither plain nor a dataclass of the runtime, at any depth."""
    if isinstance(value, PLAIN):
        return []
    if isinstance(value, Mapping):
        return [name for item in (*value, *value.values()) for name in _strange(item)]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _strange(item)]
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("eutectic.runtime."):
        return [name for field in dataclasses.fields(value) for name in _strange(getattr(value, field.name))]
    return [f"{type(value).__module__}.{type(value).__name__}"]


def test_the_signature_is_plain_data():
    assert not _strange(net()._signature)
    assert not _strange(COPIES["bytes"](net())._signature)
    assert COPIES["bytes"](net())._signature == net()._signature


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from eutectic.driver.compiled import CompiledModel
model = CompiledModel.from_bytes(open(sys.argv[1], "rb").read())
x = (np.arange(12, dtype="float32") / 4 - 2).reshape(3, 4)
found = model(x, {"shift": [x[0].copy()], "kept": x.copy()}, 4, name="b")
first, second = found
assert type(found).__name__ == "Pair" and found.right is second
assert [type(part) for part in first["views"]] == [np.ndarray] * 7, first
assert first["views"][6] is x and np.shares_memory(first["views"][2], x)
values = first[3][1]
assert type(values) is tuple and len(values) == 2
np.savez(sys.argv[2], *first["views"], *values, second)
assert sys.modules["torch"] is None and not [name for name in sys.modules if name.startswith("torch.")]
"""


def test_a_model_is_called_with_arrays_where_torch_is_not_installed(tmp_path: Path):
    (tmp_path / "model").write_bytes(net().to_bytes())
    out = tmp_path / "out.npz"
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "model"), str(out)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    args, kwargs = _net_arguments(lambda tensor: tensor)
    want = net()(*args, **kwargs)
    expected = [*want.left["views"], *want.left[3][1], want.right]
    with np.load(out) as found:
        for place, tensor in enumerate(expected):
            np.testing.assert_allclose(found[f"arr_{place}"], tensor.numpy(), rtol=0)


# ---- refusals


def test_operators_of_the_compiler_cannot_be_written():
    def body(bb: Any, x: Any) -> Any:
        sizes = bb.emit(op.shape_to_tensor(bb.emit(op.shape_of(x))))
        y = bb.emit(op.reshape(x, bb.emit(op.tensor_to_shape(sizes))))
        return op.sin(y, span=Span("net.py", 7, module="head"))

    model = eutectic.compile(graph({"x": (8,)}, body), target="llvm")
    names = ("relax.tensor_to_shape", "relax.reshape")
    hosts = (*map(HostRecord, names), HostRecord("relax.sin", "head", "net.py:7"))
    assert model.report.host_operators == hosts
    assert CompileReport.from_json(model.report.to_json()) == model.report
    assert not net().report.host_operators
    for way in ("deepcopy", "pickle", "bytes"):
        with pytest.raises(LoadError, match=r"relax\.sin \(in module head, net\.py:7\) runs in Python"):
            COPIES[way](model)
    assert copy.copy(model).script() == model.script()


def test_other_data_is_refused():
    with pytest.raises(LoadError, match="not a SavedModel"):
        CompiledModel.from_bytes(to_bytes(net().executable.program))
    with pytest.raises(LoadError):
        CompiledModel.from_bytes(b"")


def test_a_report_comes_back_from_its_tree():
    assert CompileReport.from_json(net().report.to_json()) == net().report
    for damage in ({"regions": [{"symbol": "f"}]}, {"unfused": [{"strange": 1}]}, {"passes": None}):
        with pytest.raises(LoadError, match="no report of a compilation"):
            CompileReport.from_json({**net().report.to_json(), **damage})


def test_damage_is_a_load_error_or_does_not_matter():
    """Whatever byte of the description is another: what is read is refused, or is a model."""
    data = net().to_bytes()
    length = int.from_bytes(data[12:20], "little")
    for at in range(20, 20 + length, max(length // 150, 1)):
        broken = bytearray(data)
        broken[at] ^= 1
        with contextlib.suppress(LoadError):
            CompiledModel.from_bytes(broken)


def test_sizes_in_the_signature_are_sizes_of_the_runtime():
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return x.repeat(2, 1) + y, y.shape[0] // 2 + x.shape[0] * 3, y.shape[0] % 3 == 0

    half = Dim("half", min=2, max=64)
    model = eutectic.compile(
        Twice(), (X, torch.ones(6, 4)), dynamic_shapes=({0: half}, {0: 2 * half}), target="llvm", threads=1
    )
    signature: Any = model._signature
    assert isinstance(signature.arguments.leaves[1].shape[0], SizeExpr)
    made = COPIES["bytes"](model)
    x, y = torch.ones(9, 4), torch.ones(18, 4)
    _same(made(x, y), Twice()(x, y))
    with pytest.raises(CallError, match=r"argument y must have size 18 \(which is 2\*s\d+\) on axis 0, got 17"):
        made(x, y[:17])
