"""CompiledModel: what `eutectic.compile` gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eutectic.artefact.model import LoadedModel
from eutectic.driver.report import CompileReport
from eutectic.driver.saved_text import constants_of
from eutectic.ir.module import IRModule
from eutectic.ir.printer import show_text
from eutectic.relax.base import StructInfo
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.runtime.executable import Executable
from eutectic.runtime.program import Program
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature, Signature
from eutectic.runtime.trees import Leaf, Node, Tree
from eutectic.support.deep import deep

if TYPE_CHECKING:
    from eutectic.driver.linked import Linked


class CompiledModel(LoadedModel):
    """A model that was compiled in this process; call it like the original.

    What is read from its data or from a file is a `LoadedModel`, and so is a deep copy.

    Attributes:
        report: What was fused, what was not, and why.
        executable: What runs.

    Args:
        executable: What runs.
        signature: How it is called.
        report: What was fused, what was not, and why.
        made: Gives what it was linked with.
        target: What it was compiled for.
        threads: Threads of calls that Python makes of libraries; None takes what is available.
        precision: What libraries were allowed to take.
        state: Gives the tensors of the torch module, or arrays, that calls read and write.
    """

    report: CompileReport

    def __init__(
        self,
        executable: Executable,
        signature: Signature,
        report: CompileReport,
        made: Callable[[], Linked],
        *,
        target: str,
        threads: int | None = None,
        precision: str = "default",
        state: Callable[[], Sequence[Any]] | None = None,
    ) -> None:
        self.executable, self.report = executable, report
        self._made = made
        self._threads, self._target, self._precision = threads, target, precision
        self._state = state
        self.use_signature(signature)

    def before_calls(self, look: Callable[[], bool]) -> None:
        """Have something done before each call, until it returns False."""
        self._before = look

    def become(self, other: CompiledModel, state: Callable[[], Sequence[Any]] | None) -> None:
        """Run another model of the same arguments and results from now on; calls that have begun end as they began.

        Args:
            other: The model.
            state: What gives the tensors that its calls read and write.
        """
        self.__dict__.update({**vars(other), "_before": self._before, "_state": state})

    @property
    def variant(self) -> str:
        """The target that it was compiled for."""
        return self._target

    @property
    def module(self) -> IRModule:
        """The graph with its regions, before code was generated."""
        return self._made().partitioned.module

    @property
    def lowered(self) -> IRModule:
        """The graph of kernels that was linked."""
        return self._made().lowered.module

    def _saved(self) -> SavedModel:
        return self.around(self._made().executable.complete())

    def around(self, program: Program) -> SavedModel:
        """A program of this model with all else that is kept of it.

        Args:
            program: That of `executable`, or the same with what computes calls that fast code would compute wrongly.

        Raises:
            LoadError: the torch module has lost a buffer.
        """
        signature: Any = self._signature
        module = self.module
        return SavedModel(
            program,
            signature,
            self.report.to_json(),
            module.script(),
            self._threads,
            constants_of(module),
            self._target,
            self._precision,
            self._state_now(),
        )

    def _timed(self) -> Executable:
        return self._made().timed()

    def _threads_of_calls(self) -> int | None:
        return self._threads

    def __copy__(self) -> CompiledModel:
        copy = CompiledModel(
            self.executable,
            self._signature,
            self.report,
            self._made,
            threads=self._threads,
            target=self._target,
            precision=self._precision,
            state=self._state,
        )
        copy._before = self._before
        return copy

    def script(self) -> str:
        """The module as text."""
        return self.module.script()

    def show(self) -> None:
        """Print the module, with syntax colours on a terminal."""
        show_text(self.script(), "python")


def array_signature(names: Sequence[str], result: StructInfo) -> ArraySignature:
    """The signature of a graph function.

    Args:
        names: Names of its parameters.
        result: What it returns.
    """
    return ArraySignature(tuple(names), _tree(result))


@deep
def _tree(info: StructInfo) -> Tree:
    if isinstance(info, TupleStructInfo):
        return Node("tuple", "", None, tuple(map(_tree, info.fields)))
    return Leaf()
