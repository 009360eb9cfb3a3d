"""Options of script(): indentation, types, names, marks."""

from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            y = R.exp(x)
            z = R.add(y, x)
            R.output(z)
        return z


print(Module["main"].script(show_all_struct_info=False, indent_spaces=2))
print(Module["main"].script(obj_to_underline=[Module["main"].body.blocks[0].bindings[0].value]))
print(Module.script(ir_prefix="IR").splitlines()[-10:-8])
first = Module["main"].body.blocks[0].bindings[0]
print(Module["main"].script(obj_to_annotate={first: "first"}).splitlines()[5])
print("done")
