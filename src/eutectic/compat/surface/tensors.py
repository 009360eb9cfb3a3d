"""Public names of TVM: tensor programs: nodes, schedules, expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface
from eutectic.compat.surface.tensors_script import SCRIPTS
from eutectic.compat.surface.tensors_tir import TIR
from eutectic.compat.surface.tensors_topi import TOPI

TENSORS: Final[Mapping[str, Surface]] = {**TIR, **TOPI, **SCRIPTS}
