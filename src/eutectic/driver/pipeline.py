"""Which passes make native code of a graph, in which order: the one place that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.backend.choose_precision import ChoosePrecision
from eutectic.backend.contract import NARROW
from eutectic.backend.outline import check_precision
from eutectic.backend.partition import Partition
from eutectic.backend.registry import available, backend, default_backends
from eutectic.driver.pipeline_text import Pipeline
from eutectic.ir.transform import Pass
from eutectic.relax.transform import (
    AnnotateTIROpPattern,
    AssignLayouts,
    BatchnormToScaleShift,
    CanonicalizeBindings,
    CombinePermuteDims,
    ConvertConv1DToConv2D,
    ConvertConv2DToWinograd,
    ConvertMatmulToDensePack,
    DeadCodeElimination,
    DecomposeConvTranspose,
    DecomposeOpsForInference,
    EliminateCommonSubexpr,
    FoldBatchnormToConv2D,
    FoldConstant,
    FoldPadIntoConv,
    FoldScaleIntoWeights,
    FuseAttention,
    FuseInvertedResidual,
    FuseOps,
    FuseTIR,
    JoinVaryingAxes,
    LegalizeOps,
    MarkFiniteConstants,
    RemoveIdentityOps,
    RemovePaddedTaps,
    RewriteDataflowConcat,
    RewriteDataflowReshape,
    RoundAfterBias,
    RunCodegen,
    SplitBatch,
    WidenConvolutions,
)
from eutectic.runtime.team import available_threads
from eutectic.support.errors import CodegenError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target
from eutectic.tir.transform import LowerTIR, NameSizes, ScheduleForTarget, TakeDecisions, TakeExampleSizes
from eutectic.tir.transform.check_bounds import CheckBounds


def prepare() -> Pipeline:
    """Passes that make the graph simpler, whatever runs it afterwards."""
    return Pipeline(
        (
            CanonicalizeBindings(),
            RemoveIdentityOps(),
            CombinePermuteDims(),
            FoldBatchnormToConv2D(),
            FoldPadIntoConv(),
            RemovePaddedTaps(),
            BatchnormToScaleShift(),
            FoldConstant(),
            FoldScaleIntoWeights(),
            DecomposeConvTranspose(varying=False),
            EliminateCommonSubexpr(),
            DeadCodeElimination(),
        ),
        "prepare",
    )


def kernels(fuse: bool = True) -> Pipeline:
    """Passes that lower every operator to a tensor program and fuse them.

    Args:
        fuse: Whether neighbours become one kernel.
    """
    fusion: tuple[Pass, ...] = (AnnotateTIROpPattern(), FoldConstant(), FuseOps(fuse_opt_level=2)) if fuse else ()
    return Pipeline(
        (
            DecomposeConvTranspose(),
            FoldConstant(),
            DecomposeOpsForInference(),
            LegalizeOps(),
            CanonicalizeBindings(),
            *fusion,
            FuseTIR(),
            RewriteDataflowReshape(),
            RewriteDataflowConcat(),
            CanonicalizeBindings(),
            DeadCodeElimination(),
        ),
        "default" if fuse else "no_fusion",
    )


def pipeline(target: str | Target | None = None, precision: str = "default", threads: int | None = None) -> Pipeline:
    """All passes from a graph of operators to a graph of kernels and calls of libraries.

    Args:
        target: What for. Its libraries are used wherever they take something; None takes what `default_target`
            says, and uses a library only for models that are worth its calls.
        precision: As in `compile`.
        threads: As in `compile`.

    Raises:
        PassError: an unknown precision.
        CodegenError: the target is none.
    """
    check_precision(precision)
    chosen = default_target()[0] if target is None else Target(target)
    libraries = ",".join(chosen.libs)
    by_default = target is None
    narrow: tuple[Pass, ...] = ()
    if precision in NARROW:
        narrow = (ChoosePrecision(libraries, precision, str(chosen), if_worthwhile=by_default),)
    hand_over: tuple[Pass, ...] = ()
    if libraries:
        hand_over = (Partition(libraries, precision, if_worthwhile=by_default, lower=False),)
    attention = (FuseAttention(), CombinePermuteDims())
    theirs = [dtype for dtype in NARROW.values() if _multiplied(dtype, chosen)]
    own = [dtype for dtype in NARROW.values() if dtype not in theirs]
    wide: tuple[Pass, ...] = (WidenConvolutions(",".join(own)),) if own else ()
    team = available_threads(threads)
    pieces = (SplitBatch(str(chosen), team),)
    faster: tuple[Pass, ...] = (
        FuseInvertedResidual(str(chosen), team),
        ConvertMatmulToDensePack(str(chosen), NARROW.get(precision, ""), ",".join(theirs)),
        RoundAfterBias(),
    )
    if precision != "strict":
        faster = (*faster, ConvertConv2DToWinograd(str(chosen)))
    images = (DecomposeConvTranspose(), ConvertConv1DToConv2D())
    layouts = (*images, AssignLayouts(str(chosen)), *([RunCodegen()] if libraries else []))
    graph = (*prepare(), *narrow, *attention, *wide, *pieces, *faster, *hand_over, *layouts)
    known = (TakeExampleSizes(), JoinVaryingAxes(), NameSizes(), MarkFiniteConstants())
    return Pipeline((*graph, *kernels(), *known, TakeDecisions(), *loops(chosen)), "compile")


def _multiplied(dtype: str, target: Target) -> bool:
    """Whether a library of a target has kernels of a dtype of 16 bits."""
    return any(backend(name).multiplies(dtype, target) for name in target.libs)


def loops(target: Target) -> Pipeline:
    """Passes that make flat loops of tensor programs, as the code generator takes them.

    Args:
        target: What for.
    """
    return Pipeline((CheckBounds(), ScheduleForTarget(str(target)), LowerTIR()), "loops")


def before_loops(plan: Pipeline, target: Target) -> Pipeline:
    """A pipeline without the passes of `loops` at its end.

    Whoever links the module runs these, and only for programs whose kernels are not in the cache: scheduling all of
    them would cost more than loading all kernels. A pipeline that ends otherwise is to be run as it is.

    Args:
        plan: The pipeline.
        target: What the module is linked for.
    """
    end = loops(target).passes
    return Pipeline(plan.passes[: -len(end)], plan.name) if plan.passes[-len(end) :] == end else plan


def after_partition(plan: Pipeline) -> Pipeline:
    """What a pipeline does to a graph with its regions: it lowers these, and then the rest.

    Args:
        plan: A pipeline as `pipeline` makes them, or a part of one that has these passes.
    """
    names = [step.info.name for step in plan.passes]
    return plan.split("RunCodegen" if "RunCodegen" in names else "DecomposeOpsForInference")[1]


def default_target() -> tuple[Target, list[str]]:
    """The target that is meant when nobody names one, and a sentence for each library that is missing."""
    plain = Target()
    candidates = [(each, available(each, plain)) for each in default_backends(plain)]
    notes = [f"{each.title} is not used: {state.reason}" for each, state in candidates if not state.ok]
    names = ",".join(each.name for each, state in candidates if state.ok)
    return (Target(f"{plain} -libs={names}") if names else plain), notes


Maker = Callable[[], Pass]
_PIPELINES: Final[dict[str, Maker]] = {
    "default": kernels,
    "zero": lambda: Pipeline(kernels().passes, "zero"),
    "no_fusion": lambda: kernels(fuse=False),
}


def register_pipeline(name: str) -> Callable[[Maker], Maker]:
    """Decorator: give a function that makes a pass a name for `relax.build` and `compile`."""

    def register(function: Maker) -> Maker:
        _PIPELINES[name] = function
        return function

    return register


def get_pipeline(name: Any = "default") -> Pass:
    """The pipeline of a name, or that a text such as `"LegalizeOps,FuseOps{fuse_opt_level=2}"` describes.

    Raises:
        CodegenError: there is none of that name.
        PassError: the text names an unknown pass or option.
    """
    if isinstance(name, str):
        if name in _PIPELINES:
            return _PIPELINES[name]()
        if "," in name or "{" in name or Pipeline.names_a_pass(name):
            return Pipeline.parse(name)
    known = sorted(_PIPELINES)
    near = did_you_mean(name, [*known, *Pipeline.known_passes()]) if isinstance(name, str) else None
    raise CodegenError(
        f"unknown pipeline {shown(name)}",
        help=near or f"known are {', '.join(known)}; or give passes, such as LegalizeOps,FuseTIR",
    )
