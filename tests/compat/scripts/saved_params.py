"""Parameters as bytes, and in a file of a temporary folder."""

import numpy as np
import tvm
from tvm.contrib import utils

params = {
    "w": tvm.runtime.tensor(np.arange(6, dtype="float32").reshape(2, 3)),
    "b": tvm.runtime.tensor(np.ones(3, "int32")),
}
loaded = tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(params))
for name in sorted(loaded):
    print(name, loaded[name].dtype, loaded[name].numpy().tolist())
folder = utils.tempdir()
path = folder.relpath("params.bin")
tvm.runtime.save_param_dict_to_file(params, path)
print(folder.listdir(), sorted(tvm.runtime.load_param_dict_from_file(path)))
print("done")
