"""Programs run in a process that has neither the compiler nor torch: the same bits, from bytes alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.runtime.encoding import to_bytes

SRC = Path(__file__).parents[2] / "src"
READ = """
import sys

BLOCKED = ("eutectic.relax", "eutectic.tir", "eutectic.te", "eutectic.topi", "eutectic.ir", "eutectic.arith",
           "eutectic.script", "eutectic.driver", "eutectic.backend.llvm", "llvmlite", "torch", "islpy")


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == word or name.startswith(word + ".") for word in BLOCKED):
            raise ImportError(f"{name} is not here")


sys.meta_path.insert(0, Blocker())

import numpy as np
from eutectic.runtime.encoding import from_bytes
from eutectic.runtime.executable import Executable
from eutectic.runtime.loading import Loading


def loader(name):
    from importlib import import_module
    return import_module(f"eutectic.backend.{name}.loading").load


program, given, results = sys.argv[1:]
with open(program, "rb") as file:
    run = Executable(from_bytes(file.read()), Loading(loader))
with np.load(given) as arrays:
    np.savez(results, *run(*[arrays[name] for name in arrays.files]))
print(sorted(name for name in sys.modules if name.startswith(BLOCKED)))
"""


def read_elsewhere(data: bytes, arrays: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """Results of a program in a process of its own."""
    (folder / "program").write_bytes(data)
    np.savez(folder / "given.npz", *arrays)
    names = [str(folder / name) for name in ("program", "given.npz", "results.npz")]
    done = subprocess.run(
        [sys.executable, "-c", READ, *names],
        env={"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[]\n"
    with np.load(folder / "results.npz") as found:
        return [found[name] for name in found.files]


class Net(nn.Module):
    """Convolutions, a residual, an attention, and a result that is an integer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        y = torch.relu(self.second(y) + y).flatten(2).mT
        z = self.attend(y, y, y, need_weights=False)[0]
        return z, z.argmax(-1)


@pytest.mark.parametrize("target", ["llvm", "llvm -libs=dnnl"])
def test_a_program_gives_the_same_bits_without_the_compiler(target: str, tmp_path: Path):
    if "dnnl" in target and not availability().ok:
        pytest.skip(availability().reason)
    torch.manual_seed(0)
    x = torch.randn(1, 3, 8, 8)
    model = eutectic.compile(Net().eval(), (x,), target=target)
    program = model.executable.complete()
    got = read_elsewhere(to_bytes(program), [x.numpy()], tmp_path)
    for one, other in zip(got, model.executable.run([x.numpy()]), strict=True):
        np.testing.assert_array_equal(one, other)
