"""The contenders: each turns a torch model into a call to measure, in float32, with a given number of threads.

The model file is `OnnxRuntime`: a name, a check for what is missing, `prepare`.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

import eutectic

Array = npt.NDArray[Any]
Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A contender ready to run one model on one input.

    Attributes:
        call: What is measured, with gradients of torch switched off around all of it; returns the contender's own kind
            of output.
        result: Runs once and gives the output as an array.
        note: What a reader should know, such as how much was fused.
    """

    call: Callable[[], Any]
    result: Callable[[], Array]
    note: str = ""


class Peer(Protocol):
    """A contender."""

    name: str

    def missing(self) -> str | None:
        """Why it cannot take part here; None when it can."""
        ...

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Compile the model; torch's own number of threads is already set."""
        ...


def _needs(*modules: str) -> str | None:
    gone = [m for m in modules if find_spec(m) is None]
    return f"not installed: {', '.join(gone)}" if gone else None


def _with_torch(function: Callable[..., torch.Tensor], inputs: Inputs, note: str = "") -> Prepared:
    def result() -> Array:
        with torch.no_grad():
            return function(*inputs).numpy().copy()

    return Prepared(partial(function, *inputs), result, note)


class Eutectic:
    """This project: oneDNN where it takes an operator, kernels of our own for the rest."""

    name = "eutectic"
    target: str | None = None
    precision = "default"

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Compile."""
        fast = eutectic.compile(model, inputs, threads=threads, target=self.target, precision=self.precision)
        report = fast.report
        kernels = sum(len(region.composites) for region in report.regions)
        note = (
            f"{report.convolutions_fused}/{report.convolutions} convolutions fused, "
            f"{kernels} kernels in {len(report.regions)} native calls"
        )
        return _with_torch(fast, inputs, note)


class EutecticLlvm(Eutectic):
    """This project with kernels of its own only."""

    name = "eutectic-llvm"
    target = "llvm"


class Eager:
    """torch without a compiler: the yardstick of correctness too."""

    name = "eager"

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Nothing to do."""
        return _with_torch(model, inputs)


class Inductor:
    """torch.compile with freezing really on: the option of that name has no effect, the global setting has."""

    name = "inductor"

    def missing(self) -> str | None:
        """It wants a C++ compiler."""
        from torch._inductor import config, cpp_builder  # a second, for this peer only

        try:
            cpp_builder.get_cpp_compiler()
        except Exception as error:  # whatever goes wrong in the search, there is none to use
            return f"no C++ compiler for {config.cpp.cxx}: {error}"
        return None

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Compile with constant folding and oneDNN fusion, and count the fused calls in the generated code."""
        from torch._inductor import config  # as above
        from torch._inductor.utils import run_and_get_code

        torch._dynamo.reset()
        with config.patch(freezing=True), torch.no_grad():
            fast = torch.compile(model)
            _, sources = run_and_get_code(fast, *inputs)
        lines = [line for source in sources for line in source.splitlines() if not line.lstrip().startswith("#")]
        calls = [line for line in lines if re.search(r"mkldnn\._(convolution|linear)_pointwise\w*\.\w+\(", line)]
        return _with_torch(fast, inputs, f"freezing on, {len(calls)} fused oneDNN calls")


def to_onnx(model: torch.nn.Module, inputs: Inputs, folder: Path, dynamic_shapes: Any = None) -> Path:
    """A model as a file of ONNX.

    Args:
        model: The model.
        inputs: Its inputs.
        folder: Where the file is written.
        dynamic_shapes: Sizes that may change, as `torch.export.export` takes them.

    Raises:
        RuntimeError: torch's exporter gave nothing.
    """
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)  # no torchvision here
    path = folder / "model.onnx"
    program = torch.onnx.export(model, inputs, dynamo=True, verbose=False, dynamic_shapes=dynamic_shapes)
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    program.save(str(path))
    return path


def onnxruntime_session(path: Path, threads: int) -> Any:
    """A session of ONNX Runtime's CPU provider with all optimisations."""
    import onnxruntime  # optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def openvino_model(path: Path, threads: int, precision: str = "f32") -> Any:
    """A model compiled by OpenVINO's CPU plugin for latency."""
    import openvino  # optional

    config = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    core = openvino.Core()
    return core.compile_model(core.read_model(str(path)), "CPU", config)


class OnnxRuntime:
    """ONNX Runtime's CPU provider with all optimisations, from torch.onnx's export."""

    name = "onnxruntime"

    def missing(self) -> str | None:
        """It wants the exporter's packages too."""
        return _needs("onnxruntime", "onnx", "onnxscript")

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Export, then make a session."""
        with tempfile.TemporaryDirectory() as folder:
            session = onnxruntime_session(to_onnx(model, inputs, Path(folder)), threads)
        feed = {arg.name: x.numpy() for arg, x in zip(session.get_inputs(), inputs, strict=True)}
        return Prepared(lambda: session.run(None, feed), lambda: np.array(session.run(None, feed)[0]))


class OpenVino:
    """OpenVINO's CPU plugin, float32 forced: on some processors its default is bfloat16."""

    name = "openvino"
    precision = "f32"

    def missing(self) -> str | None:
        """It wants the exporter's packages too."""
        return _needs("openvino", "onnx", "onnxscript")

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Export to ONNX, read that, compile for latency."""
        with tempfile.TemporaryDirectory() as folder:
            compiled = openvino_model(to_onnx(model, inputs, Path(folder)), threads, self.precision)
        request = compiled.create_infer_request()
        arrays = [x.numpy() for x in inputs]
        precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()

        def call() -> Any:
            return request.infer(arrays, share_inputs=True, share_outputs=True)

        return Prepared(call, lambda: np.array(call()[0]), f"precision {precision}")


PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (Eutectic(), EutecticLlvm(), Eager(), Inductor(), OnnxRuntime(), OpenVino())
}
OURS = Eutectic.name
