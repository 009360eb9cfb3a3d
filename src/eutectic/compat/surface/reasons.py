"""Why names are not here, where one reason is that of several."""

from __future__ import annotations

from typing import Final

TRAINING: Final = "this is for training: train with PyTorch, and import the model"
DISTRIBUTED: Final = "this is for several devices at once; Eutectic compiles for one"
OTHER_DEVICES: Final = "this is for a device that Eutectic does not compile for; use cpu()"
MEMORY: Final = "relax.build plans and frees memory itself; eutectic.explain shows the plan"
VIRTUAL_MACHINE: Final = "relax.build lowers to native code without instructions of a virtual machine"
TUNING: Final = "tune with eutectic.tune, which records what it measures"
STATEMENTS: Final = "the statements of a script are Python's own; build programs step by step with relax.BlockBuilder"
BOXES: Final = (
    "compute boxes outside of the graph, with torchvision for example, or call a function of "
    "your own with R.call_pure_packed"
)
RESAMPLING: Final = "use R.image.resize2d, or call a function of your own with R.call_pure_packed"
MODELS: Final = (
    "write the model with torch.nn and import it with from_exported_program, or build it with relax.BlockBuilder"
)
