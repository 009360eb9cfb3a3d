"""Native functions with the calling convention of tvm-ffi, called with arrays and tensors.

Reference: https://tvm.apache.org/ffi, stable C ABI.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from eutectic.support.errors import CallError, SpecialValues


class OtherThread(Exception):
    """A library cannot be called by this thread, as a fork took its helpers away."""


def raise_address() -> int:
    """Address of `void raise(const char* kind, const char* message)`, after which a native function returns -1."""
    import tvm_ffi  # heavy: it imports torch where that is installed

    address = ctypes.cast(tvm_ffi.LIB.TVMFFIErrorSetRaisedFromCStr, ctypes.c_void_p).value
    assert address is not None
    return address


@cache
def _register_errors() -> None:
    """Let native code raise our exceptions, by name."""
    import tvm_ffi  # as above

    for kind in (SpecialValues, OtherThread):
        tvm_ffi.register_error(kind.__name__, kind)


class NativeFunction:
    """A native function; its arguments are tensors in memory of the CPU, then integers.

    Args:
        address: Where it is.
        owner: What must stay as long as the function, such as the loaded code.
    """

    def __init__(self, address: int, owner: Any = None) -> None:
        import tvm_ffi  # as above

        _register_errors()
        self._function = tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=owner)
        self.raw = self._function

    def keep_lock(self) -> None:
        """Keep Python's global lock during calls: what takes microseconds is not worth giving it away.

        Not for code that calls functions of Python: a worker would wait for the lock, and the caller for the worker.
        """
        self._function.release_gil = False

    def __call__(self, *args: Any) -> None:
        """Call it.

        Raises:
            CallError: it refuses its arguments, or a check inside fails.
        """
        try:
            self._function(*args)
        except BufferError:
            self._again([_exportable(arg) for arg in args])
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            raise _kind(error) from None

    def _again(self, args: Sequence[Any]) -> None:
        try:
            self._function(*args)
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            raise _kind(error) from None


def _kind(error: Exception) -> Exception:
    return error if isinstance(error, MemoryError) else CallError(str(error))


def _exportable(value: Any) -> Any:
    """An array that DLPack takes: read-only ones are handed over as writable, bfloat16 as the bits it is made of.

    Inputs are not written to by any function of ours.
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.name == "bfloat16":
        value = value.view(np.uint16)
    if value.flags.writeable or value.size == 0:
        return value if value.flags.writeable else value.copy()
    return np.asarray(_Writable(value))


class _Writable:
    """The memory of a read-only array as that of one that may be written; an array of it keeps this, hence that."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
