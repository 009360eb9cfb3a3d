"""The gate for values from outside: native code sees plain dense memory of the CPU, and nothing else.

A tensor or an array may be more than the elements at its address: a view that is
to be negated, zeros that have no memory, a mask, a layout of its own, another
device. Whatever loses nothing by being copied is made plain; the rest is refused
by name. torch is looked at only when a value comes from it.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NoReturn

import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy by name
import numpy as np

from eutectic.support.errors import CallError, EutecticError

_ARRAYS: Final = (np.ndarray, np.memmap)
# NumPy has no such types of its own: bits travel as integers of the same width.
_BITS: Final = {"torch.bfloat16": "int16", "torch.float8_e4m3fn": "uint8", "torch.float8_e5m2": "uint8"}
# Keys of torch's dispatcher that a tensor of plain memory may have.
_PLAIN_KEYS: Final = frozenset({"CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU", "BackendSelect"})


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch, of any class."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def plain(value: Any, what: str, error: type[EutecticError] = CallError) -> Any:
    """An array or tensor whose memory holds its elements and is all there is to it.

    Args:
        value: NumPy array, torch tensor, or anything that speaks DLPack, which says itself what it cannot export.
        what: What errors call it, such as `argument x`.
        error: Class of the error.

    Returns:
        `value` itself when it is plain. A copy of tensors with pending negation or conjugation and of zeros without
        memory. Byte order and strides are left as they are, and say so themselves.

    Raises:
        EutecticError: of class `error`: masked arrays; subclasses of arrays and tensors; tensors that are sparse,
            nested, quantized, of oneDNN's layout, fake, functional, inside of a torch.func transform, on another
            device, without the memory of their elements, or that record gradients.
    """
    if type(value) in _ARRAYS:
        return value
    if isinstance(value, np.ndarray):
        return _plain_array(value, what, error)
    return _plain_tensor(value, what, error) if is_torch(value) else value


def as_array(value: Any, what: str, error: type[EutecticError] = CallError) -> np.ndarray[Any, Any]:
    """The elements of a plain value as an array that shares its memory, strides included.

    Raises:
        EutecticError: of class `error`: it is not plain (see `plain`), or neither an array nor a tensor.
    """
    value = plain(value, what, error)
    if isinstance(value, np.ndarray):
        return value
    if is_torch(value):
        return torch_array(value)
    if not hasattr(value, "__dlpack__"):
        raise error(f"{what} must be an array or a tensor, got {type(value).__name__}")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as cause:
        raise error(f"{what}, a {type(value).__name__}, cannot be read through DLPack", notes=[str(cause)]) from cause


def torch_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements of a plain tensor of torch as an array that shares its memory."""
    bits = _BITS.get(str(tensor.dtype))
    plain_bits = tensor.detach()
    if bits is None:
        return np.asarray(plain_bits.numpy())
    return np.asarray(plain_bits.view(getattr(sys.modules["torch"], bits)).numpy().view(str(tensor.dtype)[6:]))


def as_tensor(array: Any) -> Any:
    """A tensor of torch that shares an array's memory; of one that cannot be written to, or is misaligned, a copy.

    A value that torch made, such as a tensor of complex numbers, is left as it is.
    """
    if not isinstance(array, np.ndarray):
        return array
    torch = sys.modules["torch"]
    if not array.flags.behaved:
        array = array.copy()
    if array.dtype.isbuiltin != 2:  # NumPy's own
        return torch.from_numpy(array)
    bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))


def copied(value: Any) -> Any:
    """A copy of an array, or of a tensor of torch; numbers are their own."""
    if is_torch(value):
        return value.clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def _plain_array(value: Any, what: str, error: type[EutecticError]) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise error(f"{what} is a masked array, and its mask would be lost", help="fill it with .filled(value)")
        return value.data
    if isinstance(value, (np.matrix, np.recarray)):
        return np.asarray(value)
    raise error(
        f"{what} is a {type(value).__name__}, a subclass of ndarray with a meaning of its own",
        help="pass numpy.asarray of it",
    )


def _plain_tensor(value: Any, what: str, error: type[EutecticError]) -> Any:
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise error(
            f"{what} is a {type(value).__name__}, a subclass of Tensor with a meaning of its own",
            help="convert it to a plain tensor",
        )
    _refuse_wrapped(value, what, error)
    _refuse_layout(value, what, error)
    if value.device.type != "cpu":
        if value.device.type == "meta":
            raise error(f"{what} is on device meta: it has no elements", help="pass a tensor with values")
        raise error(
            f"{what} is on device {value.device}, but the model was compiled for the CPU",
            help='move it with .to("cpu")',
        )
    if value.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise error(
            f"{what} requires grad, and compiled models do not record gradients",
            help="call under torch.no_grad(), or pass its .detach()",
        )
    return _resolved(value, what, error)


def _refuse_wrapped(value: Any, what: str, error: type[EutecticError]) -> None:
    """Refuse tensors that stand for others: of functionalization, and of torch.func's transforms."""
    torch = sys.modules["torch"]
    if torch._is_functional_tensor(value):
        raise error(f"{what} is a functional tensor of torch, which stands for another", help="pass the tensor itself")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise error(
            f"{what} is inside of a transform of torch.func, such as vmap or grad, which compiled models do not see",
            help="call the model outside of the transform; a batch is one more axis",
        )


def _refuse_layout(value: Any, what: str, error: type[EutecticError]) -> None:
    if value.is_nested:
        raise error(f"{what} is a nested tensor", help="pad it with torch.nested.to_padded_tensor")
    layout = str(value.layout).removeprefix("torch.").removeprefix("_")
    if layout != "strided":
        kind = f"a sparse tensor ({layout})" if "sparse" in layout else f"a tensor of layout {layout}"
        raise error(f"{what} is {kind}", help="make it dense with .to_dense()")
    if value.is_quantized:
        raise error(f"{what} is a quantized tensor", help="make it plain with .dequantize()")


def _resolved(value: Any, what: str, error: type[EutecticError]) -> Any:
    """A tensor with what is pending done to its memory."""
    torch = sys.modules["torch"]
    if value._is_zerotensor():
        return torch.zeros(value.shape, dtype=value.dtype)
    if value.is_neg() or value.is_conj():
        value = value.resolve_neg().resolve_conj()
    _refuse_unknown(value, what, error)
    _refuse_freed(value, what, error)
    return value


def _refuse_freed(value: Any, what: str, error: type[EutecticError]) -> None:
    """Refuse tensors whose storage was made smaller, as sharding does: torch gives other memory out for them."""
    if not value.numel():
        return
    last = value.storage_offset() + sum(
        (size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True)
    )
    needed, there = (last + 1) * value.element_size(), value.untyped_storage().nbytes()
    if needed > there:
        raise error(
            f"{what} needs {needed} bytes of storage, which has {there}: it was resized",
            help="pass a tensor whose storage has its elements",
        )


def _refuse_unknown(value: Any, what: str, error: type[EutecticError]) -> None:
    """Refuse tensors with a property that this module does not know, by what torch's dispatcher says of them."""
    text = repr(sys.modules["torch"]._C._dispatch_keys(value))
    keys = text[text.find("(") + 1 : text.rfind(")")].split(", ")
    unknown = [key for key in keys if key not in _PLAIN_KEYS]
    if unknown:
        _refuse_keys(unknown, what, error)


def _refuse_keys(keys: list[str], what: str, error: type[EutecticError]) -> NoReturn:
    raise error(
        f"{what} is no plain tensor of the CPU: torch marks it as {', '.join(keys)}",
        help="pass a contiguous clone of it",
    )
