"""Convolutions and relus under three pattern tables: what is fused depends on the order, and never on the rest."""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.backend.cuda.cublas import partition_for_cublas
from tvm.relax.backend.cuda.cutlass import partition_for_cutlass
from tvm.relax.dpl.pattern import is_op, is_tuple_get_item, make_fused_bias_activation_pattern, wildcard
from tvm.relax.transform import PatternCheckContext
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@tvm.script.ir_module
class One:
    @R.function
    def main(data: R.Tensor((1, 64, 56, 56), "float32"), weight1: R.Tensor((64, 64, 3, 3), "float32")):
        with R.dataflow():
            conv1 = R.nn.relu(R.nn.conv2d(data, weight1, padding=(1, 1)))
            R.output(conv1)
        return conv1


@tvm.script.ir_module
class Two:
    @R.function
    def main(
        data: R.Tensor((1, 64, 56, 56), "float32"),
        weight1: R.Tensor((64, 64, 3, 3), "float32"),
        weight2: R.Tensor((64, 64, 3, 3), "float32"),
    ):
        with R.dataflow():
            conv1 = R.nn.relu(R.nn.conv2d(data, weight1, padding=(1, 1)))
            conv2 = R.nn.relu(R.nn.conv2d(conv1, weight2, padding=(0, 0)))
            R.output(conv2)
        return conv2


@tvm.script.ir_module
class PlainThenRelu:
    @R.function
    def main(
        data: R.Tensor((1, 64, 56, 56), "float32"),
        weight1: R.Tensor((64, 64, 3, 3), "float32"),
        weight2: R.Tensor((64, 64, 3, 3), "float32"),
    ):
        with R.dataflow():
            conv1 = R.nn.conv2d(data, weight1, padding=(1, 1))
            conv2d = R.nn.relu(R.nn.conv2d(conv1, weight2, padding=(0, 0)))
            R.output(conv2d)
        return conv2d


conv2d_relu = make_fused_bias_activation_pattern("relax.nn.conv2d", activation="relax.nn.relu")
conv2d = make_fused_bias_activation_pattern("relax.nn.conv2d", activation=None)


def called_from(mod, name="main"):
    """Names of what a function calls, in order."""
    names = []
    for block in mod[name].body.blocks:
        for binding in block.bindings:
            op = binding.value.op
            names.append(op.name_hint if isinstance(op, tvm.ir.GlobalVar) else op.name)
    return names


def composites(mod):
    """Per wrapper the composite inside, and the operators of that."""
    out = {}
    for var, function in mod.functions.items():
        if var.name_hint == "main":
            continue
        assert function.attrs["Codegen"] == "dnnl" and function.attrs["global_symbol"] == var.name_hint
        local = function.body.blocks[0].bindings[0].value
        inner = [binding.value.op.name for binding in local.body.blocks[0].bindings]
        out[var.name_hint] = (local.attrs["Composite"], inner)
    return out


# Constants bound before the fusion stay inside the composite.
weight = np.random.randn(64, 64, 3, 3).astype("float32")
bound = tvm.transform.Sequential(
    [
        relax.transform.BindParams("main", {"weight1": weight}),
        relax.transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv2d_relu)], bind_constants=True),
    ]
)(One)
fused = [f for var, f in bound.functions.items() if var.name_hint == "fused_relax_nn_conv2d_relax_nn_relu"]
assert len(fused) == 1 and fused[0].attrs["Composite"] == "dnnl.conv2d_relu"
assert isinstance(fused[0].body.blocks[0].bindings[0].value.args[1], relax.Constant)
assert [p.name_hint for p in fused[0].params] == ["data"]

# Annotated for code generation.
partitioned = relax.transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv2d_relu)], True, True)(One)
relu_name = "fused_relax_nn_conv2d_relax_nn_relu_dnnl"
ops = ["relax.nn.conv2d", "relax.nn.relu"]
assert called_from(partitioned) == [relu_name]
assert composites(partitioned) == {relu_name: ("dnnl.conv2d_relu", ops)}

# No patterns change nothing.
tvm.ir.assert_structural_equal(relax.transform.FuseOpsByPattern([], True, True)(One), One)

# Two convolutions of different padding are two functions.
partitioned = relax.transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv2d_relu)], True, True)(Two)
second = "fused_relax_nn_conv2d_relax_nn_relu1_dnnl"
assert called_from(partitioned) == [relu_name, second]
assert composites(partitioned) == dict.fromkeys((relu_name, second), ("dnnl.conv2d_relu", ops))

# The short pattern first takes the convolutions; the relus stay alone.
table = [("dnnl.conv2d", conv2d), ("dnnl.conv2d_relu", conv2d_relu)]
partitioned = relax.transform.FuseOpsByPattern(table, True, True)(Two)
short = ["fused_relax_nn_conv2d_dnnl", "fused_relax_nn_conv2d1_dnnl"]
assert called_from(partitioned) == [short[0], "relax.nn.relu", short[1], "relax.nn.relu"]
assert composites(partitioned) == {n: ("dnnl.conv2d", ["relax.nn.conv2d"]) for n in short}

# The long pattern first takes pairs, and the short one what is left.
table = [("dnnl.conv2d_relu", conv2d_relu), ("dnnl.conv2d", conv2d)]
partitioned = relax.transform.FuseOpsByPattern(table, True, True)(PlainThenRelu)
assert called_from(partitioned) == ["fused_relax_nn_conv2d_dnnl", "fused_relax_nn_conv2d_relax_nn_relu_dnnl"]
assert composites(partitioned) == {
    "fused_relax_nn_conv2d_dnnl": ("dnnl.conv2d", ["relax.nn.conv2d"]),
    "fused_relax_nn_conv2d_relax_nn_relu_dnnl": ("dnnl.conv2d_relu", ops),
}
partitioned = relax.transform.FuseOpsByPattern(table, True, True)(Two)
assert called_from(partitioned) == [relu_name, second]

for item in (partition_for_cublas, partition_for_cutlass, is_op, is_tuple_get_item, wildcard, PatternCheckContext):
    assert callable(item)
assert I.ir_module is tvm.script.ir_module and T.prim_func is not None
One.show()
partitioned.show()
print("done")
