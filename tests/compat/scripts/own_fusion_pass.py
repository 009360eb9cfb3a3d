"""A user's pass that makes conv2d, reshape(bias), add and relu one composite, then merged for the backend."""

import tvm
from tvm import IRModule, relax
from tvm.relax.dpl.pattern import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R


def _pattern():
    data, weight, bias, shape = wildcard(), wildcard(), wildcard(), wildcard()
    conv_out = is_op("relax.nn.conv2d")(data, weight, varg_default_wildcard=True)
    reshaped_bias = is_op("relax.reshape")(bias, shape)
    add_out = is_op("relax.add")(conv_out, reshaped_bias)
    relu_out = is_op("relax.nn.relu")(add_out)
    return relu_out, {"conv_out": conv_out, "bias": bias}, lambda context: True


@tvm.transform.module_pass(opt_level=0, name="FuseConv2dReshapeAddRelu")
class FuseConv2dReshapeAddRelu:
    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        return relax.transform.FuseOpsByPattern([("dnnl.conv2d_reshape_add_relu", *_pattern())], bind_constants=False)(
            mod
        )


@I.ir_module
class TestModule:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), b: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            lv1 = R.reshape(b, (1, 4, 1, 1))
            lv2 = R.add(lv, lv1)
            gv = R.nn.relu(lv2)
            R.output(gv)
        return gv


fused = FuseConv2dReshapeAddRelu()(TestModule)
names = [v.name_hint for v in fused.functions if v.name_hint != "main"]
assert names == ["fused_relax_nn_conv2d_relax_reshape_relax_add_relax_nn_relu"], names
assert fused[names[0]].attrs["Composite"] == "dnnl.conv2d_reshape_add_relu"
assert [p.name_hint for p in fused[names[0]].params] == ["x", "w", "b"]
assert len(fused["main"].body.blocks[0].bindings) == 1

final = tvm.ir.transform.Sequential(
    [relax.transform.FuseConv2dReshapeAddRelu(), relax.transform.MergeCompositeFunctions()]
)(TestModule)
regions = [f for f in final.functions.values() if f.attrs and f.attrs.get("Codegen") == "dnnl"]
assert len(regions) == 1
inner = regions[0].body.blocks[0].bindings[0].value
assert inner.attrs["Composite"] == "dnnl.conv2d_reshape_add_relu"
print(final)
print("done")
