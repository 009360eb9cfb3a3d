"""CompiledModel: what `eutectic.compile` gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eutectic.backend.registry import loader
from eutectic.driver.report import CompileReport
from eutectic.driver.shelf import Shelved
from eutectic.ir.module import IRModule
from eutectic.ir.printer import show_text
from eutectic.relax.base import StructInfo
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.runtime.encoding import from_bytes, to_bytes
from eutectic.runtime.executable import Executable, KernelTime
from eutectic.runtime.loading import Loading
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature, Signature
from eutectic.runtime.team import available_threads
from eutectic.runtime.trees import Leaf, Node, Tree
from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.registry import get_global_func

if TYPE_CHECKING:
    from eutectic.explain.explanation import Explanation


class CompiledModel:
    """A compiled model; call it like the original.

    Safe to call from several threads at once. Results belong to the caller. It can be copied, and written as data and
    read again, which is also what deep copies and Python's own way of writing objects do.

    Attributes:
        report: What was fused, what was not, and why.
        executable: What runs.

    Args:
        executable: What runs.
        signature: How it is called.
        report: What was fused, what was not, and why.
        made_from: The graph with its regions, before code was generated, and the graph of kernels that was linked; of
            a model that was read, the text of the former.
        apart: Links it once more, with an instruction per kernel.
        threads: Threads of calls that Python makes of libraries; None takes what is available.
    """

    def __init__(
        self,
        executable: Executable,
        signature: Signature,
        report: CompileReport,
        made_from: tuple[Shelved, Shelved] | str,
        *,
        apart: Callable[[], Executable] | None = None,
        threads: int | None = None,
    ) -> None:
        self.executable, self.report = executable, report
        self._signature, self._made_from, self._apart, self._threads = signature, made_from, apart, threads
        direct = executable.direct
        self._quick = None if direct is None else signature.quick(direct)

    @property
    def module(self) -> IRModule:
        """The graph with its regions, before code was generated.

        Raises:
            LoadError: the model was read from data.
        """
        return self._modules("module")[0].module

    @property
    def lowered(self) -> IRModule:
        """The graph of kernels that was linked.

        Raises:
            LoadError: the model was read from data.
        """
        return self._modules("lowered")[1].module

    def _modules(self, name: str) -> tuple[Shelved, Shelved]:
        if isinstance(self._made_from, str):
            raise LoadError(
                f"this model was read from data, which has no modules: there is no {name}",
                help="read its text with script() or show(), or compile the model again",
            )
        return self._made_from

    def to_bytes(self) -> bytes:
        """The model as data: the program with its native code, the signature, the report and the module's text.

        Raises:
            LoadError: a part of it belongs to the compiler: an operator that only the compiler can run; names it, its
                module and its line.
        """
        signature: Any = self._signature
        program = self.executable.complete()
        return to_bytes(SavedModel(program, signature, self.report.to_json(), self.script(), self._threads))

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> CompiledModel:
        """Inverse of `to_bytes`.

        The model computes the same bits. Nothing is imported for the classes of its results: of one that torch does
        not know as a container in this process, a plain one with the same fields is returned.

        Raises:
            LoadError: the data is no model, is damaged, of another version, or for another processor.
        """
        saved = from_bytes(data, SavedModel)
        executable = Executable(saved.program, Loading(loader, available_threads(saved.threads)))
        report = CompileReport.from_json(saved.report)
        return cls(executable, saved.signature, report, saved.text, threads=saved.threads)

    def __reduce__(self) -> tuple[Callable[[bytes], CompiledModel], tuple[bytes]]:
        return CompiledModel.from_bytes, (self.to_bytes(),)

    def __copy__(self) -> CompiledModel:
        origin = self._made_from
        return CompiledModel(
            self.executable, self._signature, self.report, origin, apart=self._apart, threads=self._threads
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModel:
        """A model with native code and constants of its own."""
        copy = CompiledModel.from_bytes(self.to_bytes())
        copy._signature = self._signature  # cannot change, and knows the classes of its results
        return copy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Results for some inputs: torch tensors for torch tensors, arrays for arrays.

        Raises:
            CallError: an argument does not fit; names it, what was expected and what was given.
        """
        if self._quick is not None and not kwargs:
            try:
                return self._quick(*args)
            except Exception:  # the long way takes more kinds of arguments, and says what is wrong
                pass
        results = self.executable.run(self._signature.flatten(args, kwargs))
        return self._signature.unflatten(results, args, kwargs)

    def profile(self, *args: Any, **kwargs: Any) -> list[KernelTime]:
        """Seconds per kernel of one call; neighbours of a model that is loaded from data are one."""
        executable = self._apart() if self._apart is not None else self.executable
        flat = self._signature.flatten(args, kwargs)
        executable.run(flat)
        return executable.profile(flat)[1]

    def explain(self, *args: Any, measure: bool = True, **kwargs: Any) -> Explanation:
        """What is executed, how long each part takes, and why it is not fewer kernels.

        Args:
            args: Arguments of a call, when measuring.
            measure: Whether to run the model, for times; the speed of the machine is then measured, too, once.
            kwargs: Keyword arguments of a call, when measuring.

        Raises:
            CallError: an argument does not fit.
        """
        explained = get_global_func("eutectic.explained")
        assert explained is not None  # it is provided
        flat = self._signature.flatten(args, kwargs) if measure else []
        apart = self._apart if self._apart is not None else lambda: self.executable
        explanation: Explanation = explained(self.report, self.executable, apart, flat, self._threads, measure)
        return explanation

    def script(self) -> str:
        """The module as text."""
        return self._made_from if isinstance(self._made_from, str) else self.module.script()

    def show(self) -> None:
        """Print the module, with syntax colours on a terminal."""
        show_text(self.script(), "python")

    def __repr__(self) -> str:
        inputs = ", ".join(param.name for param in self.executable.params)
        regions = len(self.report.regions)
        return f"CompiledModel({inputs}; {regions} native region{'' if regions == 1 else 's'})"


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
