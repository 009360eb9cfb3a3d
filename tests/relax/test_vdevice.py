"""Virtual devices: in modules, in types, in text."""

from __future__ import annotations

import pytest

from eutectic.ir.structural import assert_structural_equal, structural_equal
from eutectic.relax.vdevice import VDevice, find_vdevice
from eutectic.script import from_source
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.support.errors import CodegenError, ScriptError


@I.ir_module
class Module:
    I.module_global_infos(
        {
            "vdevice": [
                I.vdevice("llvm"),
                I.vdevice("cuda", 0),
                I.vdevice("cuda", 0, "shared"),
                I.vdevice({"kind": "llvm", "mcpu": "haswell"}, 1),
            ],
            "dummy": [I.dummy_global_info()],
        }
    )

    @R.function
    def main(
        x: R.Tensor((2,), "float32", "llvm"),
        y: R.Tensor(("n",), "float32", vdevice="cuda:1"),
        z: R.Tuple(R.Tensor((2,), "float32", "llvm:1:global"), R.Tensor("float32", ndim=1, vdevice="cuda:0")),
    ) -> R.Tensor((2,), "float32", "llvm:0"):
        return x


def test_types_refer_to_the_devices_of_their_module():
    devices = Module.global_infos["vdevice"]
    x, y, z = (param.struct_info for param in Module["main"].params)
    assert x.vdevice is devices[0]
    assert y.vdevice is devices[2]
    assert [field.vdevice for field in z.fields] == [devices[3], devices[1]]


def test_text_there_and_back():
    text = Module.script()
    assert 'I.vdevice({"kind": "llvm", "mcpu": "haswell"}, 1, "global")' in text
    assert 'y: R.Tensor(("n",), dtype="float32", vdevice="cuda:1:shared")' in text
    assert '"dummy": [I.dummy_global_info()]' in text
    again = from_source(text)
    assert_structural_equal(again, Module)
    assert again.script() == text


def test_devices_are_part_of_programs():
    other = from_source(Module.script().replace('vdevice="cuda:1:shared"', 'vdevice="cuda:0:global"'))
    assert not structural_equal(other, Module)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:2", "no virtual device 'cuda:2'; the module has: llvm:0:global, cuda:0:global, cuda:1:shared"),
        ("metal", "no virtual device 'metal'"),
        ("llvm:x", "no virtual device 'llvm:x'"),
        ("cuda:1:global", "has memory scope 'shared', not 'global'"),
    ],
)
def test_others_are_refused(device: str, message: str):
    with pytest.raises(ScriptError, match=message):
        from_source(Module.script().replace("cuda:1:shared", device))


def test_outside_of_a_module_there_are_none():
    with pytest.raises(ScriptError, match="the module has: none"):
        find_vdevice("llvm:0")
    with pytest.raises(CodegenError, match="unknown target 'metal'"):
        VDevice("metal")
    assert VDevice().target.kind.name == "llvm"
