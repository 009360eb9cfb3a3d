"""Functions within functions, and names of the code around."""

from tvm.script import relax as R


def make(size):
    scale = 3.0

    def build():
        nonlocal scale

        @R.function
        def main(x: R.Tensor((size,), "float32")) -> R.Tensor((size,), "float32"):
            @R.function
            def inner(y: R.Tensor((size,), "float32")) -> R.Tensor((size,), "float32"):
                z = R.multiply(y, R.const(scale))
                return z

            w = inner(x)
            return w

        return main

    return build()


main = make(4)
bindings = main.body.blocks[0].bindings
print([type(binding.value).__name__ for binding in bindings], main.params[0].struct_info)
print("done")
