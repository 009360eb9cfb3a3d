"""Tensor intrinsics: what a small kernel computes, and a program that does it, which `tensorize` puts in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.ir.structural import structural_equal
from eutectic.support.errors import ScheduleError
from eutectic.support.spelling import did_you_mean
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.legality.tensor_check import agreement
from eutectic.tir.schedule.legality.tensor_form import require_description, require_implementation
from eutectic.tir.schedule.rewriting.tensor_pattern import pattern_of
from eutectic.tir.tensor_intrin_cpu import FORMS, cpu_intrinsic

_REGISTERED: Final[dict[str, TensorIntrin]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """A computation on regions, described and implemented.

    Attributes:
        desc: What is computed: loops from zero on with constant extents around one block, which accesses all
            of each buffer.
        impl: How: a function of buffers of the same dtypes, shapes and scopes.
        exact: Whether the implementation is known to give the same bits, for floats of all kinds too.
        is_checked: Whether it was run against the description; otherwise it is trusted.

    Raises:
        ScheduleError: a function does not have the form it must have, or their buffers differ.

    Reference: TVM `tir.TensorIntrin`, for names.
    """

    desc: PrimFunc
    impl: PrimFunc
    exact: bool = False
    is_checked: bool = False

    def __post_init__(self) -> None:
        require_description(self.desc)
        pattern_of(self.desc)  # tensorize compares programs with it
        require_implementation(self.impl, self.desc)

    @staticmethod
    def register(
        name: str,
        desc: PrimFunc,
        impl: PrimFunc,
        override: bool = False,
        *,
        check: bool = True,
        reassociates: bool = False,
    ) -> TensorIntrin:
        """Make an intrinsic known by a name, after both functions were run on the same inputs.

        Integers, over their whole range, and floats that are small integers must agree bit for bit.

        Args:
            name: The name that `tensorize` takes.
            desc: What is computed.
            impl: How.
            override: Replace what is known by the name already.
            check: Run both in the reference interpreter. Without that the implementation is trusted:
                this is for bodies that cannot be interpreted, as calls of external functions.
            reassociates: The implementation may round floats differently than the description, as one
                that adds in another order does; results are then not kept bit for bit.

        Returns:
            The intrinsic.

        Raises:
            ScheduleError: the form is wrong, the name is taken by another one, or results differ.
        """
        known = None if override else TensorIntrin.get(name, allow_missing=True)
        if known is not None:
            if structural_equal(known.desc, desc) and structural_equal(known.impl, impl):
                return known
            message = f"tensor intrinsic {name} is registered already, with another content"
            raise ScheduleError(message, help="choose another name, or pass override=True")
        TensorIntrin(desc, impl)  # before anything is run
        exact = check and agreement(name, desc, impl)
        if check and not exact and not reassociates:
            message = f"the implementation of tensor intrinsic {name} rounds floats differently than its description"
            raise ScheduleError(message, help="keep the order of the operations, or pass reassociates=True")
        _REGISTERED[name] = TensorIntrin(desc, impl, exact, check)
        return _REGISTERED[name]

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of a name.

        Args:
            name: Its name, or that of a microkernel for CPUs, such as `matmul_6x16x64_f32`
                (`eutectic.tir.tensor_intrin_cpu` lists their families).
            allow_missing: Give None when there is none.

        Raises:
            ScheduleError: there is none.
        """
        intrin = _REGISTERED.get(name) or _microkernel(name)
        if intrin is None and not allow_missing:
            forms = f"make it known with tir.TensorIntrin.register; names of microkernels are {', '.join(FORMS)}"
            raise ScheduleError(f"no tensor intrinsic is called {name}", help=did_you_mean(name, _REGISTERED) or forms)
        return intrin


def _microkernel(name: str) -> TensorIntrin | None:
    """One of the families for CPUs, which give the same bits in all sizes, as tests of them show; made once."""
    functions = cpu_intrinsic(name)
    if functions is not None:
        _REGISTERED[name] = TensorIntrin(*functions, exact=True, is_checked=True)
    return _REGISTERED.get(name)
