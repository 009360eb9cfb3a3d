"""A visitor that collects the operators of a function, also of its branches."""

from tvm import relax
from tvm.script import relax as R


@R.function
def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
    a = R.exp(x)
    if c:
        b = R.sin(a)
    else:
        b = R.cos(a)
    d = R.add(b, b)
    return d


@relax.expr_functor.visitor
class Operators(relax.PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []

    def visit_call_(self, call):
        self.names.append(call.op.name)
        for arg in call.args:
            self.visit_expr(arg)


visitor = Operators()
visitor.visit_expr(main)
print(visitor.names)
print("done")
