"""The machine behind a target: LLVM's processor, features, and how wide its vectors are."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, Final

import llvmlite.binding as llvm

from eutectic.ir.services import Speeds
from eutectic.runtime.processor import USED
from eutectic.support.config import default_cpu
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.tir.schedule.rules.processor import FEW_REGISTERS

_WIDE: Final = ("avx512", "znver4", "znver5", "x86-64-v4", "icelake", "sapphirerapids", "cascadelake", "cooperlake")
_MIDDLE: Final = ("haswell", "broadwell", "skylake", "znver", "x86-64-v3", "alderlake", "raptorlake", "avx2")
_ASKS: Final = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2])
"""
_lock = threading.Lock()
SPEED: Final = 12.0
"""Operations of each lane in a nanosecond, one thread: what estimates reckon with where nothing was measured."""
# Processors that multiply one vector of 512 bits at a time: others two. Of 256 bits all of them multiply two.
# Sources: AMD's optimization guides for Zen 4 and Zen 5; the port tables of uops.info for Intel's client cores.
_ONE_AT_A_TIME: Final = frozenset({"znver4", "cannonlake", "icelake-client", "tigerlake", "rocketlake"})
_MEMORY: Final = 30.0  # bytes of weights that come from memory in a nanosecond, where that was not measured
_MEMORY_NARROW: Final = 16.0  # the same, of processors whose vectors are not wide
_MEMORY_REACHED: Final = 0.4  # the same, as a share of what a copy reaches: reads alone, beside arithmetic
_REACHED: Final = 0.75  # share of the peak that kernels reach, on the processor that estimates are fitted on


@dataclass(frozen=True)
class Machine:
    """A processor as LLVM knows it.

    Attributes:
        triple: Platform.
        cpu: Processor.
        features: Added and removed features, as `+avx2,-sse4a`.
        vector_bits: Bits of the vectors that code is written with.
        is_host: Whether the code runs in this process.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    is_host: bool

    def lanes(self, bits: int = 32) -> int:
        """Elements of so many bits in a vector."""
        return max(self.vector_bits // bits, 1)

    @property
    def is_wide(self) -> bool:
        """Whether vectors have 512 bits or more: estimates are fitted to such processors, and to others."""
        return self.vector_bits >= 512

    @property
    def has_fast_halves(self) -> bool:
        """Whether it multiplies two vectors of half the width in the time of one."""
        return self.is_wide and self.cpu in _ONE_AT_A_TIME

    @property
    def waits_for_memory(self) -> bool:
        """Whether sums wait for weights from beyond the caches of a core, unless these are asked for long before.

        Few registers have each weight serve few sums. With many, AMD's cores look far enough ahead by themselves, in a
        cache that gives each of them 78 bytes in a nanosecond (Zen 4). The one that cores of Intel's servers share
        gives them 29 (Emerald Rapids), and weights that nobody asked for come at 12.
        """
        return self.registers <= FEW_REGISTERS or not self.cpu.startswith("znver")

    @property
    def used_features(self) -> tuple[str, ...]:
        """What code for it makes use of and a processor may lack."""
        listed = {part[1:] for part in self.features.split(",") if part.startswith("+")}
        return tuple(sorted((listed | _level(self.cpu, self.vector_bits)) & USED))

    @property
    def vector_constraint(self) -> str:
        """What inline assembly calls a vector register; empty where it is not used."""
        return "v" if self.triple.startswith(("x86_64", "amd64")) else ""

    @property
    def registers(self) -> int:
        """Vector registers."""
        return 32 if self.vector_bits == 512 or not self.triple.startswith("x86_64") else 16


def _level(cpu: str, vector_bits: int) -> set[str]:
    """The features behind the name of a processor, as far as they are known; "generic" and the host's need none."""
    if cpu in ("", "generic", "x86-64"):
        return set()
    least = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"} if cpu.startswith("x86-64-v") else set()
    wide = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} if vector_bits >= 512 else set()
    middle = {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt", "movbe"} if vector_bits >= 256 else set()
    return wide | middle | least


def lane_speed(machine: Machine, speeds: Speeds | None) -> float:
    """Operations of each lane in a nanosecond, one thread.

    Args:
        machine: What code is for.
        speeds: What it was measured to do; None takes `SPEED`, or half of it where vectors are as wide as two others.
    """
    if speeds is not None:
        return _REACHED * speeds.flops / machine.lanes()
    return SPEED / 2 if machine.has_fast_halves else SPEED


def memory_speed(machine: Machine, speeds: Speeds | None) -> float:
    """Bytes that come from memory in a nanosecond, beside arithmetic.

    Args:
        machine: What code is for.
        speeds: What it was measured to do; None takes what is usual.
    """
    if speeds is not None:
        return _MEMORY_REACHED * speeds.memory
    return _MEMORY if machine.is_wide else _MEMORY_NARROW


def machine_of(target: Target) -> Machine:
    """The machine of a CPU target; what the description leaves open is that of `EUTECTIC_CPU`, else the host's.

    Raises:
        CodegenError: not a CPU target, or one that the installed LLVM cannot make code for.
    """
    return _machine(target, target.mcpu or ("" if target.mtriple else default_cpu()))


@functools.lru_cache(maxsize=64)
def _machine(target: Target, named: str) -> Machine:
    if target.kind.name != "llvm":
        raise CodegenError(f"target {target} is not one that LLVM makes CPU code for", help='use "llvm"')
    start_llvm()
    host = str(llvm.get_default_triple())
    triple = target.mtriple or host
    extra = ",".join(target.mattr)
    if named and not _is_known(named):
        _check_processor(triple, named)
    if named or triple != host:
        cpu, features = named or "generic", extra
        runs = triple == host and _runs_here(cpu, extra)
    else:
        cpu, detected = str(llvm.get_host_cpu_name()), llvm.get_host_cpu_features().flatten()
        features = f"{detected},{extra}" if extra else str(detected)
        runs = _runs_here("", extra)
    return Machine(triple, cpu, features, _vector_bits(triple, cpu, features), runs)


def _is_known(cpu: str) -> bool:
    return cpu in ("generic", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", str(llvm.get_host_cpu_name()))


def _check_processor(triple: str, cpu: str) -> None:
    """Refuse a processor that LLVM does not know: it would end the process when it makes code.

    LLVM says so on the error stream of the process and nowhere else, hence a process of its own.

    Raises:
        CodegenError: names the processor.
    """
    command = [sys.executable, "-c", _ASKS, triple, cpu]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if "is not a recognized processor" in answer.stderr:
        raise CodegenError(
            f"LLVM does not know the processor {cpu!r} for {triple}",
            help="give a name such as x86-64-v3, haswell or znver4, or none for the processor of this machine",
        )


def _runs_here(cpu: str, features: str) -> bool:
    """Whether the host has what a processor is known to have; unknown ones are taken at their word."""
    host = llvm.get_host_cpu_features()
    bits = _vector_bits(str(llvm.get_default_triple()), cpu, features)
    need = {512: "avx512f", 256: "avx2"}.get(bits)
    wanted = [part[1:] for part in features.split(",") if part.startswith("+")]
    return (need is None or bool(host.get(need))) and all(host.get(name, True) for name in wanted)


def _vector_bits(triple: str, cpu: str, features: str) -> int:
    if not triple.startswith(("x86_64", "i686", "amd64")):
        return 128
    flags = [part for part in features.split(",") if part]
    for bits, feature, names in ((512, "avx512f", _WIDE), (256, "avx2", _MIDDLE)):
        if f"-{feature}" in flags:
            continue
        if f"+{feature}" in flags:
            return bits
        if any(name in cpu for name in names) and not any(part.startswith("+sse4.2") for part in flags):
            return bits  # a processor that is named without the list of its features
    return 128


def start_llvm() -> None:
    """Make LLVM's code generators known; once is enough."""
    with _lock:
        _start()


@functools.cache
def _start() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # for the pause instruction


def target_machine(machine: Machine) -> Any:
    """LLVM's code generator for a machine.

    Raises:
        CodegenError: the installed LLVM has none for its platform.
    """
    start_llvm()
    try:
        kind = llvm.Target.from_triple(machine.triple)
    except RuntimeError as error:
        raise CodegenError(f"the installed LLVM cannot make code for {machine.triple}", notes=[str(error)]) from None
    return kind.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="default"
    )
