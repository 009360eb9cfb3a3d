"""An IRModule from TVMScript: its functions, attributes, text, and text read back."""

import tvm
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            lv = R.nn.relu(x)
            gv = R.add(lv, R.const(1.0))
            R.output(gv)
        return gv


assert isinstance(Module, tvm.IRModule)
print([gv.name_hint for gv in Module.get_global_vars()])
main = Module["main"]
print([param.name_hint for param in main.params], main.ret_struct_info)
print([binding.var.name_hint for binding in main.body.blocks[0].bindings])
again = tvm.script.from_source(Module.script())
tvm.ir.assert_structural_equal(Module, again)
print("done")
