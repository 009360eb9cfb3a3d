"""Virtual devices: where tensors of a program are meant to live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from eutectic.ir.global_info import GlobalInfo
from eutectic.ir.json_form import register_json
from eutectic.ir.node import init_field, node
from eutectic.support.errors import ScriptError
from eutectic.target import Target

KEY: Final = "vdevice"  # of `IRModule.global_infos`
_DECLARED: ContextVar[tuple[Any, ...]] = ContextVar("virtual devices of the module being parsed", default=())


@node("ir.VDevice")
class VDevice(GlobalInfo):
    """A place for tensors.

    Attributes:
        target: What code for it is made for.
        vdevice_id: Its number among devices of that target.
        memory_scope: Memory of the device.

    Raises:
        CodegenError: the target is not known.
    """

    target: Any = None
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        init_field(self, "target", Target(self.target if self.target is not None else "llvm"))


@contextmanager
def declared(devices: Sequence[Any]) -> Iterator[None]:
    """While a module is parsed: its virtual devices, which types refer to by kind and number."""
    token = _DECLARED.set(tuple(devices))
    try:
        yield
    finally:
        _DECLARED.reset(token)


def find_vdevice(text: str | VDevice) -> VDevice:
    """The device of the module being parsed that `kind:number` means: `cuda:1` is the second with target `cuda`.

    Args:
        text: Such a text, also with a third part, the memory scope, which must agree; or a device, given back.

    Raises:
        ScriptError: the module declares no such device.
    """
    if isinstance(text, VDevice):
        return text
    kind, _, rest = text.partition(":")
    number, _, scope = rest.partition(":")
    of_kind = [device for device in _DECLARED.get() if device.target.kind.name == kind]
    index = int(number) if number.isdigit() else 0
    if index >= len(of_kind) or (number and not number.isdigit()):
        known = ", ".join(device_text(device, {KEY: _DECLARED.get()}) for device in _DECLARED.get()) or "none"
        raise ScriptError(
            f"there is no virtual device {text!r}; the module has: {known}",
            help='declare it first: I.module_global_infos({"vdevice": [I.vdevice("llvm")]})',
        )
    device: VDevice = of_kind[index]
    if scope and scope != device.memory_scope:
        raise ScriptError(f"virtual device {kind}:{index} has memory scope {device.memory_scope!r}, not {scope!r}")
    return device


def device_text(device: VDevice | str, infos: Mapping[str, Sequence[Any]]) -> str:
    """How types refer to a device of a module: `cuda:1:global`.

    Args:
        device: It.
        infos: `global_infos` of the module; without it there, its own number stands for that among its kind.
    """
    if isinstance(device, str):  # a text that was never looked up
        return device
    of_kind = [other for other in infos.get(KEY, ()) if getattr(other, "target", None) is not None]
    same = [other for other in of_kind if other.target.kind == device.target.kind]
    places = [place for place, other in enumerate(same) if other is device]
    places += [place for place, other in enumerate(same) if _fields(other) == _fields(device)]
    index = places[0] if places else device.vdevice_id
    return f"{device.target.kind.name}:{index}:{device.memory_scope}"


def _fields(device: VDevice) -> tuple[Any, int, str]:
    return device.target, device.vdevice_id, device.memory_scope


register_json("target", Target, str, Target)
