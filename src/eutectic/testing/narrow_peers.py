"""The contenders that compute in bfloat16; the model file is `peers.py`."""

from __future__ import annotations

import copy
from typing import Final

import torch

from eutectic.testing.peers import Eutectic, Inputs, OpenVino, Peer, Prepared


class NarrowEutectic(Eutectic):
    """This project with `precision="bf16"`."""

    name = "eutectic-bf16"
    precision = "bf16"


class NarrowEager:
    """torch without a compiler, the model and its inputs brought to bfloat16."""

    name = "eager-bf16"

    def missing(self) -> str | None:
        """It is always there."""
        return None

    def prepare(self, model: torch.nn.Module, inputs: Inputs, threads: int) -> Prepared:
        """Copy the model."""
        narrow = copy.deepcopy(model).bfloat16()
        arguments = tuple(x.bfloat16() if x.is_floating_point() else x for x in inputs)

        def call() -> torch.Tensor:
            with torch.no_grad():
                return torch.as_tensor(narrow(*arguments))

        return Prepared(call, lambda: call().float().numpy().copy())


class NarrowOpenVino(OpenVino):
    """OpenVINO's CPU plugin with bfloat16, which is its default on processors that have it."""

    name = "openvino-bf16"
    precision = "bf16"


NARROW_PEERS: Final[dict[str, Peer]] = {peer.name: peer for peer in (NarrowEutectic(), NarrowEager(), NarrowOpenVino())}
