"""The parameters of an imported model apart from its program."""

import numpy as np
import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
example = torch.randn(2, 4)
with torch.no_grad():
    program = torch.export.export(model, (example,))
mod = from_exported_program(program, keep_params_as_input=True, unwrap_unit_return_tuple=True)
params = [tvm.runtime.tensor(array.numpy()) for array in model.state_dict().values()]
assert len(mod["main"].attrs["params"]) == len(params)
mod = tvm.IRModule({"main": mod["main"].without_attr("params")})
print([tuple(array.shape) for array in params], int(mod["main"].attrs["num_input"]))
vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
result = vm["main"](tvm.runtime.tensor(example.numpy()), *params).numpy()
np.testing.assert_allclose(result, model(example).detach().numpy(), rtol=1e-4, atol=1e-5)
print("done")
