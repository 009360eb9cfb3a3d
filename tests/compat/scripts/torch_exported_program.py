"""A PyTorch model imported, changed by a pass, compiled and compared."""

import numpy as np
import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


torch.manual_seed(0)
model = Model().eval()
example = torch.randn(2, 8)
with torch.no_grad():
    program = torch.export.export(model, (example,))
mod = from_exported_program(program, unwrap_unit_return_tuple=True)
print([param.name_hint for param in mod["main"].params], mod["main"].ret_struct_info)
vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
result = vm["main"](tvm.runtime.tensor(example.numpy())).numpy()
np.testing.assert_allclose(result, model(example).detach().numpy(), rtol=1e-4, atol=1e-5)
print("done")
