"""A trained perceptron: a pass of one's own groups its operators, each group becomes a tensor program, all of it runs.

Images are those of FashionMNIST where Debian's package dataset-fashion-mnist is installed (or in the folder given as
argument), else the digits of scikit-learn. Predictions must be those of torch, image by image.
"""

import gzip
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import tvm
from tvm import relax, topi
from tvm.ir import Op
from tvm.relax import PyExprMutator, TensorStructInfo
from tvm.relax.analysis import remove_all_unused
from tvm.relax.expr_functor import mutator

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")


def idx(name, header):
    """An array of bytes from a file in the idx format."""
    return np.frombuffer(gzip.decompress((FOLDER / f"{name}-ubyte.gz").read_bytes()), np.uint8, offset=header)


def images():
    """(pixels, labels) to learn from, and to test with; pixels in [0, 1], one image a row."""
    if (FOLDER / "t10k-images-idx3-ubyte.gz").exists():
        print(f"FashionMNIST from {FOLDER}")
        sets = [(idx(f"{part}-images-idx3", 16), idx(f"{part}-labels-idx1", 8)) for part in ("train", "t10k")]
        return [(x.reshape(-1, 784).astype("float32") / 255, y.astype("int64")) for x, y in sets]
    from sklearn.datasets import load_digits

    print(f"no FashionMNIST in {FOLDER}; scikit-learn's digits instead")
    x, y = load_digits(return_X_y=True)
    x, y = x.astype("float32") / 16, y.astype("int64")
    return (x[:1200], y[:1200]), (x[1200:], y[1200:])


def train(x, y, hidden):
    torch.manual_seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))
    optimizer = torch.optim.Adam(net.parameters(), 4e-3)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(max(2, 20_000 // len(x))):
        for rows in torch.randperm(len(x)).split(256 if len(x) > 10_000 else 64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return net.eval()


(train_x, train_y), (test_x, test_y) = images()
network = train(train_x, train_y, hidden=128 if test_x.shape[1] == 784 else 32)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "mlp.npz"
    np.savez(
        path, **dict(zip(("w0", "b0", "w1", "b1"), (p.detach().numpy() for p in network.parameters()), strict=True))
    )
    with np.load(path) as saved:
        learned = dict(saved)


# ---- the graph, operator by operator


def perceptron(values, rows=1):
    builder = relax.BlockBuilder()
    width = values["w0"].shape[1]
    image = relax.Var("image", TensorStructInfo((rows, width), "float32"))
    const = {name: relax.const(value, "float32") for name, value in values.items()}
    with builder.function("main", [image]):
        with builder.dataflow():
            state = image
            for layer in "01":
                weight = builder.emit(relax.op.permute_dims(const[f"w{layer}"]))
                state = builder.emit(relax.op.matmul(state, weight))
                state = builder.emit(relax.op.add(state, const[f"b{layer}"]))
                state = builder.emit(relax.op.nn.relu(state)) if layer == "0" else builder.emit_output(state)
        builder.emit_func_output(state)
    return builder.get()


# ---- a pass that outlines each product with the sum that follows it


@mutator
class OutlineLinear(PyExprMutator):
    def __init__(self, mod):
        super().__init__(mod)
        self.mod, self.made = mod, 0

    def run(self):
        for gv, function in self.mod.functions.items():
            if isinstance(function, relax.Function) and not (function.attrs and function.attrs.get("Primitive")):
                self.builder_.update_func(gv, remove_all_unused(self.visit_expr(function)))
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != Op.get("relax.add"):
            return call
        product = self.lookup_binding(call.args[0])
        if not (isinstance(product, relax.Call) and product.op == Op.get("relax.matmul")):
            return call
        operands = [*product.args, call.args[1]]
        return relax.Call(self.outlined(operands), operands, None, None)

    def outlined(self, operands):
        """A function of the module that multiplies and adds, for operands of these shapes."""
        params = [
            relax.Var(name, TensorStructInfo(operand.struct_info.shape, operand.struct_info.dtype))
            for name, operand in zip(("rows", "weight", "bias"), operands, strict=True)
        ]
        name, self.made = f"linear_{self.made}", self.made + 1
        inner = relax.BlockBuilder()
        with inner.function(name, params):
            with inner.dataflow():
                product = inner.emit(relax.op.matmul(params[0], params[1]))
                total = inner.emit_output(relax.op.add(product, params[2]))
            inner.emit_func_output(total)
        return self.builder_.add_func(inner.get()[name].with_attr("Primitive", 1), name)


@tvm.ir.transform.module_pass(opt_level=2, name="OutlineLinearLayers")
class OutlineLinearLayers:
    def transform_module(self, mod, _ctx):
        return OutlineLinear(mod).run()


# ---- a pass that calls a tensor program for each operator

PROGRAMS = {
    "relax.matmul": topi.nn.matmul,
    "relax.add": topi.add,
    "relax.nn.relu": topi.nn.relu,
    "relax.permute_dims": topi.transpose,
}


@mutator
class CallPrograms(PyExprMutator):
    def __init__(self, mod, emit):
        super().__init__(mod)
        self.mod, self.emit = mod, emit
        self.programs = {Op.get(name): program for name, program in PROGRAMS.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op not in self.programs:
            return call
        program = self.programs[call.op]
        if self.emit:
            return self.builder_.emit_te(program, *call.args)
        return self.builder_.call_te(program, *call.args)

    def run(self):
        for gv, function in self.mod.functions.items():
            if isinstance(function, relax.Function):
                self.builder_.update_func(gv, self.visit_expr(function))
        return self.builder_.get()


@tvm.ir.transform.module_pass(opt_level=0, name="ToTensorPrograms")
class ToTensorPrograms:
    def __init__(self, emit):
        self.emit = emit

    def transform_module(self, mod, _ctx):
        return CallPrograms(mod, self.emit).run()


def graph_functions(mod):
    return [gv.name_hint for gv, f in mod.functions.items() if isinstance(f, relax.Function)]


grouped = OutlineLinearLayers()(perceptron(learned))
assert sorted(graph_functions(grouped)) == ["linear_0", "linear_1", "main"]
fused = {}
for emit in (False, True):
    fused[emit] = relax.transform.FuseTIR()(ToTensorPrograms(emit)(grouped))
    assert graph_functions(fused[emit]) == ["main"]
    programs = [gv.name_hint for gv in fused[emit].functions if gv.name_hint != "main"]
    assert {"linear_0", "linear_1", "relu"} <= set(programs), programs
    assert not {"matmul", "add"} & set(programs)


# ---- machine code: the same predictions as torch's

with torch.no_grad():
    want = network(torch.from_numpy(test_x)).numpy()
first, second = np.sort(want, axis=1)[:, -1], np.sort(want, axis=1)[:, -2]
clear = first - second > 1e-4  # elsewhere rounding may decide
agreed = {}
for emit, mod in fused.items():
    executable = relax.build(mod, target="llvm")
    vm = relax.VirtualMachine(executable, tvm.cpu())
    image = tvm.nd.array(test_x[:1])
    got = np.empty_like(want)
    for row in range(len(test_x)):
        got[row] = vm["main"](image.copyfrom(test_x[row : row + 1])).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert (got.argmax(1) == want.argmax(1))[clear].all()
    agreed[emit] = (got.argmax(1) == want.argmax(1)).sum()
accuracy, ours = (want.argmax(1) == test_y).mean(), (got.argmax(1) == test_y).mean()
assert (clear.all() and accuracy == ours) or abs(accuracy - ours) <= (~clear).mean()
assert accuracy > (0.8 if test_x.shape[1] == 784 else 0.85), accuracy
print(f"accuracy {ours:.4f}, torch's {accuracy:.4f}; {agreed[False]} of {len(test_x)} predictions are the same")

# All at once as well, with the operators fused by the compiler instead.
vm = relax.VirtualMachine(relax.build(perceptron(learned, rows=len(test_x)), target="llvm"), tvm.cpu())
np.testing.assert_allclose(vm["main"](tvm.nd.array(test_x)).numpy(), want, rtol=1e-4, atol=1e-4)
print("done")
