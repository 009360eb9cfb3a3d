"""The code of kernels as text, for this machine and for others, and how many registers are spilled."""

from __future__ import annotations

import re

import pytest

from eutectic import relax
from eutectic.driver.inspect import kernel_source, kernel_spills
from eutectic.ir.module import IRModule
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T
from eutectic.support.errors import CodegenError
from eutectic.target import Target

AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
AVX2 = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
NEON = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"


@I.ir_module
class Network:
    @R.function
    def main(x: R.Tensor((64, 128), "float32"), w: R.Tensor((128, 96), "float32")):
        with R.dataflow():
            lv = R.nn.relu(R.matmul(x, w))
            gv = R.nn.softmax(lv)
            R.output(gv)
        return gv


@T.prim_func
def twice(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
    for i in range(1024):
        with T.block("b"):
            vi = T.axis.spatial(1024, i)
            b[vi] = a[vi] + a[vi]


def test_what_an_executable_shows(capsys):
    executable = relax.build(Network)
    assert executable.source("relax") == executable.module.script()
    assert set(executable.spills()) == set(executable.native.names.values()) == {"fused_matmul_relu", "softmax"}
    llvm = executable.source("llvm", "softmax")
    assert "define void @softmax(" in llvm
    assert "fused_matmul_relu" not in llvm
    assert "fused_matmul_relu" in executable.source("llvm")
    assert "ret" in executable.source("asm", "softmax")
    assert executable.source("tir", "softmax").count("T.prim_func") == 1
    assert "T.vectorized" in executable.source("scheduled", "fused_matmul_relu")
    for kind in ("relax", "tir", "lowered", "llvm", "asm"):
        executable.show(kind)
        assert capsys.readouterr().out == executable.source(kind) + "\n"
    executable.show()
    assert capsys.readouterr().out == executable.module.script() + "\n"


def test_modules_and_programs_show_their_code(capsys):
    Network.show("llvm")
    assert "define void @fused_matmul_relu(" in capsys.readouterr().out
    Network["main"].show("asm")
    assert "softmax:" in capsys.readouterr().out
    IRModule({"double": twice}).show("llvm")
    assert "define void @double(" in capsys.readouterr().out
    twice.show("asm")
    assert "twice:" in capsys.readouterr().out
    Network.show("plain")
    assert capsys.readouterr().out == Network.script() + "\n"
    with pytest.raises(CodegenError, match="a GlobalVar has no native code"):
        Network.get_global_var("main").show("llvm")


def widest(llvm: str) -> int:
    """Elements of the longest vector of float32 in LLVM text."""
    return max((int(count) for count in re.findall(r"<(\d+) x float>", llvm)), default=1)


@pytest.mark.parametrize(
    ("target", "lanes", "register"), [(AVX512, 16, r"%zmm\d"), (AVX2, 8, r"%ymm\d"), (NEON, 4, r"v\d+\.4s")]
)
def test_code_for_other_processors(target: str, lanes: int, register: str):
    assert widest(kernel_source(twice, target)) % lanes == 0
    assert re.search(register, kernel_source(twice, Target(target), "asm"))
    assert kernel_spills(twice, target) == {"twice": 0}
    executable = relax.build(Network, target)
    assert widest(executable.source("llvm", "fused_matmul_relu")) % lanes == 0
    assert re.search(register, executable.source("asm", "fused_matmul_relu"))
    assert executable.function_names() == ["main"]
    assert executable.spills().keys() == {"fused_matmul_relu", "softmax"}


def test_the_products_of_matrices_do_not_spill():
    for target in (AVX512, AVX2, NEON):
        assert kernel_spills(Network, target)["fused_matmul_relu"] <= 8, target


def test_the_current_target_counts():
    with Target(NEON):
        assert "aarch64" in kernel_source(twice)


def test_code_for_another_machine_cannot_be_called():
    executable = relax.build(Network, NEON)
    with pytest.raises(CodegenError, match=r"code for llvm -mattr=\+neon -mtriple=aarch64-linux-gnu cannot run"):
        executable["main"](1, 2)
    with pytest.raises(CodegenError, match="cannot run here"):
        relax.VirtualMachine(executable).profile("main", 1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_source(twice, None, "lvm"), r"unknown kind of code 'lvm'(.|\n)*did you mean llvm"),
        (lambda: kernel_source(twice, "cuda"), "not one that native code is made for"),
        (lambda: relax.build(Network).source("asm", "sofmax"), r"no kernel 'sofmax'(.|\n)*did you mean softmax"),
        (lambda: relax.build(Network).show("python"), "unknown kind of code 'python'"),
        (lambda: kernel_spills(twice, "llvm -mtriple=riscv64-linux-gnu"), "not of riscv64-linux-gnu"),
    ],
)
def test_what_is_refused(call, message: str):
    with pytest.raises(CodegenError, match=message):
        call()
