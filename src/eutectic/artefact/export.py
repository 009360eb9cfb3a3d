"""A model as a shared library for programs in C: its object code and weights behind one function.

The team of threads has no workers there: a call runs on the thread that makes it, and any number of threads may call.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from eutectic.artefact.verify import libraries_of
from eutectic.runtime.executable import Executable
from eutectic.runtime.instructions import RunNative
from eutectic.runtime.native_code import RAISE, NativeCode
from eutectic.runtime.packed_array import plain
from eutectic.runtime.params import TensorParam
from eutectic.runtime.team import RECORD_BYTES
from eutectic.support.errors import LoadError
from eutectic.support.toolchain import run_compiler

_ALIGNMENT: Final = 64
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLDataTypeCode by NumPy's kinds
_BFLOAT: Final = 4
# Features that compilers of C can ask the processor for by the same names.
_ASKED: Final = frozenset(
    "ssse3 sse4.1 sse4.2 popcnt avx avx2 fma bmi bmi2 avx512f avx512bw avx512cd avx512dq avx512vl".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class _Tensor:
    """An input or a result.

    Attributes:
        name: As the model calls it.
        dtype: Its dtype.
        shape: Its shape.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """How large it is."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def text(self) -> str:
        """What a comment in C says about it."""
        return f"{re.sub(r'[^A-Za-z0-9_.]', '_', self.name)}: {self.dtype.name} {self.shape}"


def export_library(executable: Executable, library: Path, header: Path) -> None:
    """Write a shared library and its header.

    Args:
        executable: The model; one native function with fixed sizes, without libraries.
        library: File of the library, such as `libnet.so`; `net` begins the names in C.
        header: File of the header.

    Raises:
        LoadError: the model is more than one native function; says what it needs beside that.
        ToolchainError: there is no C compiler, or it fails.
    """
    name = re.sub(r"\W", "_", library.stem.removeprefix("lib"), flags=re.ASCII)
    name = name if name[:1].isalpha() else f"net_{name}"
    code, inputs, outputs = _parts(executable)
    with tempfile.TemporaryDirectory() as folder:
        _build(Path(folder), name, code, inputs, outputs, library.resolve())
    header.write_text(_header(name, code, inputs, outputs), encoding="utf-8")


def _parts(executable: Executable) -> tuple[NativeCode, list[_Tensor], list[_Tensor]]:
    """The native function of a model, its inputs and its results.

    Raises:
        LoadError: there is more to the model.
    """
    names = sorted(libraries_of(executable.program))
    if names:
        raise _refused(f"it calls {' and '.join(names)}", 'compile it with target="llvm"')
    others = [step.name for step in executable.instructions if not isinstance(step, RunNative)]
    direct = executable.direct
    fixed = None if direct is None else direct.fixed_outputs
    if others or fixed is None:
        why = (
            f"{', '.join(others)} runs in Python" if others else "sizes vary, or a result is an argument or a constant"
        )
        raise _refused(why, "compile it with fixed sizes, and compute the rest outside of the model")
    inputs = []
    for param in executable.params:
        if not isinstance(param, TensorParam) or param.dtype is None or not _is_fixed(param.shape):
            raise _refused(f"the size of argument {param.name} varies", "compile it with fixed sizes")
        inputs.append(_Tensor(param.name, param.dtype, param.shape))  # type: ignore[arg-type]  # all are integers
    outputs = [_Tensor(f"result {i}", dtype, shape) for i, (shape, dtype) in enumerate(fixed)]
    (step,) = executable.instructions
    assert isinstance(step, RunNative)
    return step.code, inputs, outputs


def _is_fixed(shape: tuple[Any, ...] | None) -> bool:
    return shape is not None and all(isinstance(size, int) for size in shape)


def _refused(why: str, help: str) -> LoadError:
    return LoadError(f"the model cannot be a library for C: {why}", help=help)


def _build(
    folder: Path, name: str, code: NativeCode, inputs: list[_Tensor], outputs: list[_Tensor], library: Path
) -> None:
    objects = []
    for number, content in enumerate((*code.objects, code.team)):
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(content)
    places, size = [], 0
    with open(folder / "weights.bin", "wb") as file:
        for array in map(plain, code.constants):
            file.write(bytes(-size % _ALIGNMENT))
            size += -size % _ALIGNMENT
            places.append(size)
            file.write(np.ascontiguousarray(array).tobytes())
            size += array.nbytes
    (folder / "weights.S").write_text(_WEIGHTS)
    (folder / "entry.c").write_text(_entry(name, code, inputs, outputs, places))
    (folder / "names").write_text(f"{{ global: {name}_run; {name}_error; local: *; }};\n")
    flags = [
        "-shared",
        "-fPIC",
        "-O2",
        "-std=c11",
        "-Wl,--version-script=names",
        "-Wl,-Bsymbolic",
        "-Wl,-z,noexecstack",
    ]
    run_compiler([*flags, "-o", library, "entry.c", "weights.S", *objects, "-lm"], folder)


_WEIGHTS: Final = """.section .rodata
.balign 64
.globl eutectic_weights
.hidden eutectic_weights
eutectic_weights:
.incbin "weights.bin"
.byte 0
.section .note.GNU-stack,"",%progbits
"""


def _entry(name: str, code: NativeCode, inputs: list[_Tensor], outputs: list[_Tensor], places: list[int]) -> str:
    tensors = [*inputs, *outputs]
    shapes = "\n".join(
        f"static int64_t shape{i}[] = {{{', '.join(map(str, tensor.shape)) or '0'}}};"
        for i, tensor in enumerate(tensors)
    )
    rows = "\n".join(_row(i, tensor) for i, tensor in enumerate(tensors))
    table = "\n".join(f"    constants[{i}] = (void *)(eutectic_weights + {place});" for i, place in enumerate(places))
    asked = sorted(_ASKED.intersection(code.features))
    checks = "\n".join(f'    if (!__builtin_cpu_supports("{feature}")) return "{feature}";' for feature in asked)
    return _ENTRY.format(
        name=name,
        symbol=code.symbol,
        error=RAISE,
        record=RECORD_BYTES,
        count=len(tensors),
        inputs=len(inputs),
        shapes=shapes,
        rows=rows,
        table=table,
        checks=checks,
    )


def _row(number: int, tensor: _Tensor) -> str:
    code = _BFLOAT if tensor.dtype.name == "bfloat16" else _CODES[tensor.dtype.kind]
    return f"    {{0, 1, 0, {len(tensor.shape)}, {code}, {8 * tensor.dtype.itemsize}, 1, shape{number}, 0, 0}},"


# The records are those of DLPack (a tensor) and tvm-ffi (an argument), as in `backend/llvm/entry_arguments.py`.
_ENTRY: Final = """#include <stdint.h>
#include <stdio.h>

typedef struct {{
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
}} tensor_t;

typedef struct {{
    int32_t kind;
    uint32_t none;
    void *value;
}} argument_t;

extern int32_t {symbol}(void *, const argument_t *, int32_t, argument_t *);
extern void release(void);
extern void *constants[];
extern void *team;
extern int64_t threads;
extern const char eutectic_weights[];

static _Alignas(64) char record[{record}];
static _Thread_local char message[256];

void {error}(const char *kind, const char *text) {{ snprintf(message, sizeof message, "%s: %s", kind, text); }}

{shapes}
static const tensor_t tensors[] = {{
{rows}
}};

static const char *missing(void) {{
{checks}
    return 0;
}}

__attribute__((constructor)) static void start(void) {{
{table}
    team = record;
    threads = 1;
}}

__attribute__((destructor)) static void stop(void) {{ release(); }}

const char *{name}_error(void) {{ return message; }}

int {name}_run(const void *const *inputs, void *const *outputs) {{
    tensor_t own[{count}];
    argument_t arguments[{count}], result = {{0, 0, 0}};
    const char *feature = missing();
    message[0] = 0;
    if (feature) {{
        snprintf(message, sizeof message, "this processor lacks %s", feature);
        return -2;
    }}
    for (int i = 0; i < {count}; ++i) {{
        own[i] = tensors[i];
        own[i].data = i < {inputs} ? (void *)inputs[i] : outputs[i - {inputs}];
        arguments[i] = (argument_t){{7, 0, &own[i]}};
    }}
    return {symbol}(0, arguments, {count}, &result);
}}
"""


def _header(name: str, code: NativeCode, inputs: list[_Tensor], outputs: list[_Tensor]) -> str:
    upper = name.upper()
    lines = [
        f"{upper}_{word}_{i}_BYTES {tensor.bytes} /* {tensor.text} */"
        for word, tensors in (("INPUT", inputs), ("OUTPUT", outputs))
        for i, tensor in enumerate(tensors)
    ]
    sizes = "\n".join(f"#define {line}" for line in lines)
    return _HEADER.format(
        name=name,
        upper=upper,
        inputs=len(inputs),
        outputs=len(outputs),
        sizes=sizes,
        features=", ".join(code.features) or "nothing beyond the least of its family",
    )


_HEADER: Final = """/* A compiled model. Of the processor it needs: {features}. */
#ifndef {upper}_H
#define {upper}_H

#define {upper}_INPUTS {inputs}
#define {upper}_OUTPUTS {outputs}
/* Arrays are dense and row-major; bool is a byte. Results must not overlap inputs. */
{sizes}

#ifdef __cplusplus
extern "C" {{
#endif

/* Computes the results. Runs on the thread that calls it; several threads may call at once.
   Returns 0, -1 when the model refuses the call, or -2 when the processor lacks a feature. */
int {name}_run(const void *const *inputs, void *const *outputs);

/* What was wrong with the last call of this thread that did not return 0. */
const char *{name}_error(void);

#ifdef __cplusplus
}}
#endif
#endif
"""
