"""The C interface of oneDNN 3.2 as data: enumeration values, structures and function prototypes.

The wheel has no headers, so what is needed of them is written down here. Tests
compare results, which is how a wrong value would show.
Reference: oneDNN 3.2 developer guide, C API.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_void_p
from typing import Any, Final

MAX_NDIMS: Final = 12
"""Axes a memory descriptor can have."""

Dims = c_int64 * MAX_NDIMS
"""`dnnl_dims_t`: always twelve entries, of which the first `ndims` count."""

DATA_TYPES: Final[dict[str, int]] = {"float16": 1, "bfloat16": 2, "float32": 3}
"""Number of each dtype that regions compute in."""

FORMAT_TAG_ANY: Final = 1
FORMAT_KIND_BLOCKED: Final = 2
FORWARD_INFERENCE: Final = 96
CONVOLUTION_DIRECT: Final = 1
DECONVOLUTION_DIRECT: Final = 10
FPMATH_STRICT: Final = 0
SCRATCHPAD_USER: Final = 1
ENGINE_CPU: Final = 1
STREAM_IN_ORDER: Final = 1

POOLING: Final[dict[str, int]] = {"max": 511, "avg_include_pad": 767, "avg_exclude_pad": 1023}
BINARY: Final[dict[str, int]] = {
    "add": 131056,
    "mul": 131057,
    "max": 131058,
    "min": 131059,
    "div": 131060,
    "sub": 131061,
}

ARG_SRC: Final = 1
ARG_SRC_1: Final = 2
ARG_DST: Final = 17
ARG_WEIGHTS: Final = 33
ARG_BIAS: Final = 41
ARG_SCRATCHPAD: Final = 80
_ARG_POST_OP: Final = 32768

QUERY_IMPL_INFO: Final = 8
QUERY_EXEC_ARG_MD: Final = 255
QUERY_STRIDES: Final = 14
QUERY_NDIMS: Final = 256
QUERY_DIMS: Final = 257
QUERY_DATA_TYPE: Final = 258
QUERY_OFFSET: Final = 259
QUERY_PADDED_DIMS: Final = 260
QUERY_FORMAT_KIND: Final = 262
QUERY_INNER_NBLKS: Final = 263
QUERY_INNER_BLKS: Final = 264
QUERY_INNER_IDXS: Final = 265

STATUS: Final[dict[int, str]] = {
    0: "success",
    1: "out_of_memory",
    2: "invalid_arguments",
    3: "unimplemented",
    4: "last_impl_reached",
    5: "runtime_error",
    6: "not_required",
    7: "invalid_graph",
    8: "invalid_graph_op",
    9: "invalid_shape",
    10: "invalid_data_type",
}
UNIMPLEMENTED: Final = 3

ISA: Final[dict[int, str]] = {
    0x1: "sse41",
    0x3: "avx",
    0x7: "avx2",
    0xF: "avx2_vnni",
    0x1F: "avx2_vnni_2",
    0x27: "avx512_core",
    0x67: "avx512_core_vnni",
    0xE7: "avx512_core_bf16",
    0x1EF: "avx512_core_fp16",
    0xFEF: "avx512_core_amx",
    0x1FEF: "avx512_core_amx_fp16",
}


INSTRUCTIONS: Final[dict[str, tuple[str, int]]] = {"bfloat16": ("AVX512BF16", 0x80), "float16": ("AVX512FP16", 0x100)}
"""What multiplies a dtype of 16 bits, and its bit in an instruction set; those above it have it, too."""


def arg_post_op(index: int) -> int:
    """Argument number of the second operand of the binary post-op at position `index`."""
    return (_ARG_POST_OP * (index + 1)) | ARG_SRC_1


class ExecArg(ctypes.Structure):
    """`dnnl_exec_arg_t`: which argument, and the memory object given for it."""

    _fields_ = (("arg", c_int), ("memory", c_void_p))


class Version(ctypes.Structure):
    """`dnnl_version_t`."""

    _fields_ = (
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", c_char_p),
        ("cpu_runtime", c_uint),
        ("gpu_runtime", c_uint),
    )


_HANDLE = c_void_p
_OUT = POINTER(c_void_p)
_DIMS = POINTER(c_int64)

PROTOTYPES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "dnnl_version": (POINTER(Version), ()),
    "dnnl_get_effective_cpu_isa": (c_int, ()),
    "dnnl_engine_create": (c_int, (_OUT, c_int, c_size_t)),
    "dnnl_engine_destroy": (c_int, (_HANDLE,)),
    "dnnl_stream_create": (c_int, (_OUT, _HANDLE, c_uint)),
    "dnnl_stream_destroy": (c_int, (_HANDLE,)),
    "dnnl_memory_desc_create_with_strides": (c_int, (_OUT, c_int, _DIMS, c_int, _DIMS)),
    "dnnl_memory_desc_create_with_tag": (c_int, (_OUT, c_int, _DIMS, c_int, c_int)),
    "dnnl_memory_desc_clone": (c_int, (_OUT, _HANDLE)),
    "dnnl_memory_desc_destroy": (c_int, (_HANDLE,)),
    "dnnl_memory_desc_equal": (c_int, (_HANDLE, _HANDLE)),
    "dnnl_memory_desc_get_size": (c_size_t, (_HANDLE,)),
    "dnnl_memory_desc_query": (c_int, (_HANDLE, c_int, c_void_p)),
    "dnnl_memory_create": (c_int, (_OUT, _HANDLE, _HANDLE, c_void_p)),
    "dnnl_memory_destroy": (c_int, (_HANDLE,)),
    "dnnl_memory_set_data_handle": (c_int, (_HANDLE, c_void_p)),
    "dnnl_post_ops_create": (c_int, (_OUT,)),
    "dnnl_post_ops_destroy": (c_int, (_HANDLE,)),
    "dnnl_post_ops_append_sum": (c_int, (_HANDLE, c_float, c_int32, c_int)),
    "dnnl_post_ops_append_eltwise": (c_int, (_HANDLE, c_int, c_float, c_float)),
    "dnnl_post_ops_append_binary": (c_int, (_HANDLE, c_int, _HANDLE)),
    "dnnl_primitive_attr_create": (c_int, (_OUT,)),
    "dnnl_primitive_attr_destroy": (c_int, (_HANDLE,)),
    "dnnl_primitive_attr_set_post_ops": (c_int, (_HANDLE, _HANDLE)),
    "dnnl_primitive_attr_set_scratchpad_mode": (c_int, (_HANDLE, c_int)),
    "dnnl_primitive_attr_set_fpmath_mode": (c_int, (_HANDLE, c_int)),
    "dnnl_convolution_forward_primitive_desc_create": (
        c_int,
        (_OUT, _HANDLE, c_int, c_int, *(_HANDLE,) * 4, *(_DIMS,) * 4, _HANDLE),
    ),
    "dnnl_deconvolution_forward_primitive_desc_create": (
        c_int,
        (_OUT, _HANDLE, c_int, c_int, *(_HANDLE,) * 4, *(_DIMS,) * 4, _HANDLE),
    ),
    "dnnl_matmul_primitive_desc_create": (c_int, (_OUT, _HANDLE, *(_HANDLE,) * 4, _HANDLE)),
    "dnnl_pooling_forward_primitive_desc_create": (
        c_int,
        (_OUT, _HANDLE, c_int, c_int, _HANDLE, _HANDLE, *(_DIMS,) * 5, _HANDLE),
    ),
    "dnnl_binary_primitive_desc_create": (c_int, (_OUT, _HANDLE, c_int, *(_HANDLE,) * 3, _HANDLE)),
    "dnnl_eltwise_forward_primitive_desc_create": (
        c_int,
        (_OUT, _HANDLE, c_int, c_int, _HANDLE, _HANDLE, c_float, c_float, _HANDLE),
    ),
    "dnnl_reorder_primitive_desc_create": (c_int, (_OUT, *(_HANDLE,) * 5)),
    "dnnl_primitive_desc_query": (c_int, (_HANDLE, c_int, c_int, c_void_p)),
    "dnnl_primitive_desc_query_md": (c_void_p, (_HANDLE, c_int, c_int)),
    "dnnl_primitive_desc_destroy": (c_int, (_HANDLE,)),
    "dnnl_primitive_create": (c_int, (_OUT, _HANDLE)),
    "dnnl_primitive_execute": (c_int, (_HANDLE, _HANDLE, c_int, c_void_p)),
    "dnnl_primitive_destroy": (c_int, (_HANDLE,)),
    "omp_get_max_threads": (c_int, ()),
    "omp_set_num_threads": (None, (c_int,)),
}
"""Name to (result type, argument types). The two OpenMP functions come from the libgomp that oneDNN is bound to."""
