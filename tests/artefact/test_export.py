"""Models as shared libraries: a program in C computes the same numbers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.support import toolchain
from eutectic.support.errors import LoadError, ToolchainError

HAS_COMPILER = any(map(shutil.which, toolchain.COMPILERS))
with_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler")

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(void) {
    void *x = malloc(NET_INPUT_0_BYTES), *y = malloc(NET_INPUT_1_BYTES);
    void *a = malloc(NET_OUTPUT_0_BYTES), *b = malloc(NET_OUTPUT_1_BYTES);
    if (fread(x, 1, NET_INPUT_0_BYTES, stdin) != NET_INPUT_0_BYTES) return 3;
    if (fread(y, 1, NET_INPUT_1_BYTES, stdin) != NET_INPUT_1_BYTES) return 3;
    for (int i = 0; i < 3; ++i)
        if (net_run((const void *[]){x, y}, (void *[]){a, b})) {
            fprintf(stderr, "%s", net_error());
            return 4;
        }
    fwrite(a, 1, NET_OUTPUT_0_BYTES, stdout);
    fwrite(b, 1, NET_OUTPUT_1_BYTES, stdout);
    free(x), free(y), free(a), free(b);
    return NET_INPUTS == 2 && NET_OUTPUTS == 2 ? 0 : 5;
}
"""


class Net(nn.Module):
    """Two inputs, two results of different dtypes, weights and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.linear(torch.tanh(self.conv(x)).mean((2, 3))).softmax(-1) + y
        return z, z.argmax(-1)


torch.manual_seed(0)
X, Y = torch.randn(2, 3, 16, 16), torch.randn(2, 5)


def _net(**options: object) -> eutectic.LoadedModel:
    return eutectic.compile(Net().eval(), (X, Y), **{"target": "llvm", "threads": 2, **options})


@with_compiler
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
def test_a_program_in_c_computes_the_same(target: str, tmp_path: Path):
    model = _net(target=target)
    library = eutectic.load(model.save(tmp_path / "net.eut")).export(tmp_path / "libnet.so")
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=c11", "-Wall", "-Werror", "-L.", "-Wl,-rpath,."]
    subprocess.run([toolchain.c_compiler(), *flags, "main.c", "-lnet", "-o", "main"], cwd=tmp_path, check=True)
    given = X.numpy().tobytes() + Y.numpy().tobytes()
    done = subprocess.run([tmp_path / "main"], input=given, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    want = model(X.numpy(), Y.numpy())
    assert done.stdout == b"".join(array.tobytes() for array in want)
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=False).stdout
    assert {line.split()[-1] for line in names.splitlines()} == {"net_run", "net_error"}


@with_compiler
def test_several_threads_may_call(tmp_path: Path):
    model = _net()
    library = ctypes.CDLL(str(model.export(tmp_path / "libnet.so")))
    want = model(X.numpy(), Y.numpy())
    wrong = []

    def call() -> None:
        got = [np.empty_like(array) for array in want]
        inputs, outputs = (
            (ctypes.c_void_p * 2)(*(array.ctypes.data for array in arrays)) for arrays in ((X.numpy(), Y.numpy()), got)
        )
        for _ in range(50):
            if library.net_run(inputs, outputs) or not all(map(np.array_equal, got, want)):
                wrong.append(1)

    calls = [threading.Thread(target=call) for _ in range(4)]
    for thread in calls:
        thread.start()
    for thread in calls:
        thread.join()
    assert not wrong


def test_models_that_need_more_are_refused(tmp_path: Path):
    size = Dim("size", min=2, max=9)
    varying = _net(dynamic_shapes={"x": {0: size}, "y": {0: size}})
    with pytest.raises(LoadError, match=r"sizes vary|the size of argument x varies") as error:
        varying.export(tmp_path / "libnet.so")
    assert "fixed sizes" in (error.value.help or "")
    if availability().ok:
        with pytest.raises(LoadError, match="it calls dnnl") as error:
            _net(target="llvm -libs=dnnl").export(tmp_path / "libnet.so")
        assert 'target="llvm"' in (error.value.help or "")
    assert not list(tmp_path.iterdir())


def test_without_a_compiler_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError, match="none of cc, gcc, clang is on the path"):
        _net().export(tmp_path / "libnet.so")


@with_compiler
def test_what_the_compiler_says_is_told(tmp_path: Path):
    (tmp_path / "a.c").write_text("int f(")
    with pytest.raises(ToolchainError, match="failed with status") as error:
        toolchain.run_compiler(["-c", "a.c"], tmp_path)
    assert "a.c" in error.value.facts[0]
