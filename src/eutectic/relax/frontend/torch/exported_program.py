"""from_exported_program: an ExportedProgram of torch as an IRModule with one function, `main`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, TensorArgument

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Constant, Tuple, Var, describe_info
from eutectic.relax.frontend.core import dims_of
from eutectic.relax.frontend.torch.as_exported import FunctionalProgram, Rewritten
from eutectic.relax.frontend.torch.axes_with_elements import ranges_of
from eutectic.relax.frontend.torch.complex_parts import ComplexParts, is_of_parts, parts_of
from eutectic.relax.frontend.torch.decompose import decomposed, functional
from eutectic.relax.frontend.torch.eager import EagerCalls
from eutectic.relax.frontend.torch.guards import assert_equations
from eutectic.relax.frontend.torch.importer import Importer
from eutectic.relax.frontend.torch.kernels import Kernels, autocasts
from eutectic.relax.frontend.torch.multiples import Multiples
from eutectic.relax.frontend.torch.params import Parameters
from eutectic.relax.frontend.torch.spans import module_path
from eutectic.relax.frontend.torch.symbols import Symbols, free_symbols
from eutectic.relax.frontend.torch.training import refuse_training_operators
from eutectic.relax.op import tensor_to_shape
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import EutecticError, FrontendError, UnsupportedTypeError

_STATE_CHANGES: Final = (OutputKind.BUFFER_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", None))


@dataclass(frozen=True, slots=True)
class _Options:
    keep_params_as_input: bool
    unwrap_unit_return_tuple: bool
    no_bind_return_tuple: bool
    leaves_to_torch: bool
    state_as_input: bool
    sizes_as_input: bool = False


def from_exported_program(
    exported_program: ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[Any, Callable[..., Any]] | None = None,
    run_ep_decomposition: bool = True,
    leaves_to_torch: bool = False,
    state_as_input: bool = False,
) -> IRModule:
    """An exported program as a graph module.

    Args:
        exported_program: The result of `torch.export.export`.
        keep_params_as_input: Whether parameters and buffers stay parameters of `main`, after the
            user's inputs; their values are then the attribute `params`, and `num_input` is the
            number of the others.
        unwrap_unit_return_tuple: Whether a single output is returned as it is, not in a tuple.
        no_bind_return_tuple: Whether the tuple of outputs is returned without a variable of its own.
        custom_convert_map: Converters by operator (`aten.relu.default`, `relu.default`, `relu`, or the
            overload itself), called with the node and a `Context`; they go before the built-in ones.
        run_ep_decomposition: Whether in-place operators and views are made functional first; switch
            off for a program that has been through `run_decompositions` already.
        leaves_to_torch: Whether operators that cannot be imported become calls of torch (`relax.call_eager`); sizes and
            numbers that depend on values of tensors are then computed by torch, too.
        state_as_input: Whether buffers that the model changes become parameters of `main` after the inputs; their new
            values are the first results, and their names are the attribute `state`.

    Returns:
        A module whose `main` takes the tensor inputs under their names in the graph and returns a tuple
        of the tensor outputs, new values of mutated inputs first. Among them is a tensor without axes for each output
        that is a number of data, such as `x.sum().item()`. Every value carries the
        module path and source line of the user's program. Sizes that vary are variables, whose ranges are
        in the attributes `tir_var_lower_bound` and `tir_var_upper_bound`. Parameters are copied.

    Raises:
        UnsupportedOperatorError: operators without converter; lists all of them.
        ModelStateError: the program was exported in training mode.
        UnsupportedTypeError: inputs or parameters that are not dense CPU tensors of a supported dtype.
        FrontendError: not an exported program, or it changes a buffer and `state_as_input` is off.

    Reference: TVM relax.frontend.torch.from_exported_program.
    """
    if not isinstance(exported_program, ExportedProgram):
        raise FrontendError(
            f"from_exported_program needs a torch.export.ExportedProgram, got {type(exported_program).__name__}",
            help="export the model first: torch.export.export(model.eval(), example_inputs)",
        )
    refuse_training_operators(exported_program)
    kernels, modes = Kernels(), autocasts(exported_program.graph_module)
    custom = custom_convert_map or {}
    keys = [str(key) for key in custom]
    for module in exported_program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            kernels.refuse(module.graph, keys, leaves_to_torch=leaves_to_torch, autocast=modes.get(module))
    options = _Options(
        keep_params_as_input, unwrap_unit_return_tuple, no_bind_return_tuple, leaves_to_torch, state_as_input
    )
    if not run_ep_decomposition:
        return _Builder(exported_program, options, custom).build()
    return _imported(exported_program, options, custom)


def _imported(program: ExportedProgram, options: _Options, custom: Mapping[Any, Callable[..., Any]]) -> IRModule:
    """The program in the form that leaves least to torch: as exported, else in torch's own terms."""
    keys = [str(key) for key in custom]
    whole = replace(options, leaves_to_torch=False)
    first = functional(program, keys)
    try:
        return _Builder(first, whole, custom).build()
    except EutecticError:
        if not options.leaves_to_torch and first is not program and not isinstance(first, Rewritten):
            raise
    # What a converter refuses of an operator as it was exported may be fine in torch's own terms.
    try:
        return _Builder(decomposed(program, keys), whole, custom).build()
    except EutecticError:
        if not options.leaves_to_torch:
            raise
    return _Builder(decomposed(program, keys), options, custom).build()


def from_functional_program(
    program: FunctionalProgram, *, leaves_to_torch: bool, sizes_as_input: bool = False
) -> IRModule:
    """A program without operators that write in place as a graph module; see `from_exported_program`.

    Args:
        program: The program.
        leaves_to_torch: Whether operators that cannot be imported become calls of torch.
        sizes_as_input: Whether inputs that are sizes become int64 tensors with one element. Those that are the size of
            an axis of a tensor are left out.

    Raises:
        FrontendError: it cannot be imported.
    """
    options = _Options(False, False, False, leaves_to_torch, False, sizes_as_input)
    return _Builder(program, options, {}).build()


class _Builder:
    """Builds `main` of one program."""

    def __init__(self, program: FunctionalProgram, options: _Options, custom: Mapping[Any, Callable[..., Any]]) -> None:
        self.program, self.options = program, options
        self.symbols = Symbols(ranges_of(program))
        self.block_builder = BlockBuilder()
        eager = EagerCalls(self.symbols) if options.leaves_to_torch else None
        self.importer = Importer(self.block_builder, self.symbols, custom, eager)
        self.parameters = Parameters()
        self.inputs: list[Var] = []
        self.kept: list[tuple[Var, Constant]] = []
        self.state: list[tuple[Var, str]] = []
        self.sizes: list[tuple[Var, ScalarVar]] = []
        self.multiples = Multiples(self.symbols, [] if options.sizes_as_input else _input_shapes(program))
        self.recast: list[tuple[fx.Node, Var, TensorStructInfo]] = []
        self.changed = frozenset(changed_buffers(program) if options.state_as_input else ())

    def build(self) -> IRModule:
        nodes = {node.name: node for node in self.program.graph.nodes}
        refuse_state_changes(self.program, self.changed)
        refuse_resized_inputs(self.program)
        for spec in self.program.graph_signature.input_specs:
            if spec.arg.name in nodes:
                self._input(spec, nodes[spec.arg.name])
        if self.options.sizes_as_input:
            self._take_sizes(nodes)
        self._check_symbols()
        params = [*self.inputs, *(var for var, _ in self.state), *(var for var, _ in self.kept)]
        builder = self.block_builder
        with builder.function("main", params):
            if not self.options.sizes_as_input:  # where they are inputs, torch.compile asserts them before it calls
                assert_equations(self.program, self.symbols, builder)
            with builder.dataflow():
                self._define_sizes()
                self._define_multiples()
                self.importer.run(self.program.graph)
                self._check_symbols()
                output = self._output()
            builder.emit_func_output(output)
        return self._annotated(builder.finalize())

    def _input(self, spec: InputSpec, node: fx.Node) -> None:
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, TensorArgument):
                self.inputs.append(self._tensor_input(node))
            elif isinstance(node.meta.get("val"), torch.SymInt) and self.options.sizes_as_input:
                self.importer.env[node] = self.symbols.size(node.meta["val"])
            elif isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise UnsupportedTypeError(
                    f"input {node.name} is a number that may vary",
                    help="pass it as a tensor, or export it as a constant",
                )
            return
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            name = spec.target or node.name
            if name in self.changed:
                self.state.append((self._parameter(node, name), name))
                return
            tensor, what = tensor_of(self.program, spec), f"{spec.kind.name.lower()} {name}"
            if is_of_parts(tensor) and not self.options.keep_params_as_input:
                self.importer.env[node] = ComplexParts(self.parameters.constant(parts_of(tensor), what))
                return
            constant = self.parameters.constant(tensor, what)
            if self.options.keep_params_as_input and spec.kind is not InputKind.CONSTANT_TENSOR:
                self.kept.append((self._parameter(node, name), constant))
            else:
                self.importer.env[node] = constant
            return
        if spec.kind is InputKind.TOKEN:
            return  # the operators with effects that it keeps in order are refused by their names
        raise UnsupportedTypeError(
            f"input {node.name} of the exported program is a {spec.kind.name.lower().replace('_', ' ')}",
            help="use tensors only",
        )

    def _take_sizes(self, nodes: Mapping[str, fx.Node]) -> None:
        """Parameters for the sizes that no axis of an input has by itself."""
        for node in size_inputs(self.program, nodes.values()):
            size = self.importer.env[node]
            var = Var(node.name, TensorStructInfo(ShapeExpr((as_prim(1, "int64"),)), "int64"))
            self.inputs.append(var)
            self.sizes.append((var, size))
            self.symbols.define(node.meta["val"])

    def _define_sizes(self) -> None:
        for var, size in self.sizes:
            shape = self.block_builder.emit(tensor_to_shape(var))
            self.block_builder.match_cast(shape, ShapeStructInfo((size,)))

    def _define_multiples(self) -> None:
        """Symbols that are found from axes that have multiples of them, and inputs under the shapes that torch says."""
        self.multiples.define(self.block_builder)
        for node, var, info in self.recast:
            self._bind(node, self.block_builder.match_cast(var, info))

    def _check_symbols(self) -> None:
        """Refuse sizes that no axis of an input gives: nothing would give them a value at run time."""
        defined = {id(size) for var in self.inputs for size in dims_of(var) if isinstance(size, ScalarVar)}
        of_values = self.symbols.of_values | self.multiples.found.keys()
        variables = self.symbols.variables.items()
        missing = [name for name, var in variables if id(var) not in defined and name not in of_values]
        if missing:
            raise FrontendError(
                f"the size {missing[0]} is not the size of any axis of an input, nor found from one",
                notes=[f"input {var.name_hint} is {describe_info(var.struct_info)}" for var in self.inputs],
                help="export with a size of its own, or a multiple of it, for each axis that varies",
            )

    def _tensor_input(self, node: fx.Node) -> Var:
        what, sizes = f"input {node.name}", node.meta["val"].shape
        if not any(map(self.multiples.are_part_of, sizes)):
            return self._parameter(node, what)
        info, parts = self._info(node, what), [as_prim(2, "int64")] * is_of_parts(node.meta["val"])
        shape = (*self.multiples.shape(sizes), *parts)
        var = Var(node.name, TensorStructInfo(ShapeExpr(shape), info.dtype))
        self.recast.append((node, var, info))
        return var

    def _parameter(self, node: fx.Node, what: str) -> Var:
        var = Var(node.name, self._info(node, what))
        self._bind(node, var)
        return var

    def _info(self, node: fx.Node, what: str) -> TensorStructInfo:
        """What the program takes for a tensor; for complex numbers their parts."""
        value = node.meta["val"]
        return self.importer.parts_info(value) if is_of_parts(value) else self.importer.info(value, what)

    def _bind(self, node: fx.Node, value: Expr) -> None:
        self.importer.env[node] = ComplexParts(value) if is_of_parts(node.meta["val"]) else value

    def _output(self) -> Expr:
        fields = [self.importer.result(node) for node in computed_outputs(self.program)]
        fields[:1] = map(self.importer.asserted, fields[:1])
        if self.options.unwrap_unit_return_tuple and len(fields) == 1:
            return self.block_builder.emit_output(fields[0])
        if self.options.no_bind_return_tuple:
            return Tuple(tuple(self.block_builder.emit_output(item) for item in fields))
        return self.block_builder.emit_output(Tuple(tuple(fields)))

    def _annotated(self, mod: IRModule) -> IRModule:
        attrs: dict[str, Any] = {}
        lower, upper = self.symbols.bounds()
        if lower:
            attrs["tir_var_lower_bound"] = lower
        if upper:
            attrs["tir_var_upper_bound"] = upper
        if self.options.keep_params_as_input:
            attrs["num_input"] = len(self.inputs)
            attrs["params"] = tuple(constant for _, constant in self.kept)
        if self.state:
            attrs["state"] = tuple(name for _, name in self.state)
        if attrs:
            mod["main"] = mod["main"].with_attr(attrs)
        return mod


def size_inputs(program: FunctionalProgram, nodes: Iterable[fx.Node]) -> list[fx.Node]:
    """The inputs of a program that are sizes, without those that an axis of a tensor has by itself.

    Args:
        program: The program.
        nodes: Its nodes.
    """
    specs = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    values = {node: node.meta.get("val") for node in nodes if specs.get(node.name) is InputKind.USER_INPUT}
    shapes: list[Any] = [value.shape for value in values.values() if isinstance(value, torch.Tensor)]
    known = {str(size) for shape in shapes for size in shape if isinstance(size, torch.SymInt)}
    chosen: dict[str, fx.Node] = {}
    for node, value in values.items():
        if isinstance(value, torch.SymInt) and str(value) not in known:
            chosen.setdefault(str(value), node)
    return list(chosen.values())


def _input_shapes(program: FunctionalProgram) -> list[Any]:
    """The shapes of the tensors that a program is called with."""
    specs = program.graph_signature.input_specs
    names = {spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT}
    values = [node.meta.get("val") for node in program.graph.nodes if node.name in names]
    return [value.shape for value in values if isinstance(value, torch.Tensor)]


def tensor_of(program: FunctionalProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor that a lifted input of a program stands for."""
    name = spec.target or ""
    tensor = program.constants.get(name) if name not in program.state_dict else program.state_dict[name]
    if not isinstance(tensor, torch.Tensor):
        raise FrontendError(f"the exported program has no tensor for {name or spec.arg.name}")
    return tensor


def computed_outputs(program: FunctionalProgram) -> list[fx.Node]:
    """The nodes that `main` returns: tensors and numbers of data among the outputs of the graph, in order."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    return [node for node in output.args[0] if is_tensor_node(node) or is_number_of_data(node)]


def is_number_of_data(node: Any) -> bool:
    """Whether an entry of a graph's output is a number that values of tensors decide, and not sizes of arguments."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    arguments = (other.meta.get("val") for other in node.graph.nodes if other.op == "placeholder")
    return not free_symbols([value]) <= free_symbols(arguments)


def is_tensor_node(node: Any) -> bool:
    """Whether an entry of a graph's output is a tensor."""
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def changed_buffers(program: FunctionalProgram) -> tuple[str, ...]:
    """Names of the buffers that a program changes, in the order of its inputs."""
    signature = program.graph_signature
    changed = {str(spec.target) for spec in signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    buffers = [str(spec.target) for spec in signature.input_specs if spec.kind is InputKind.BUFFER]
    return tuple(name for name in buffers if name in changed)


def refuse_state_changes(program: FunctionalProgram, allowed: Collection[str]) -> None:
    """Refuse programs that change their own state.

    Args:
        program: The program.
        allowed: Names of buffers that it may change.

    Raises:
        FrontendError: names the buffers and the modules that own them.
    """
    outputs = program.graph_signature.output_specs
    nodes = {node.name: node for node in program.graph.nodes}
    notes, names = [], []
    for spec in outputs:
        if spec.kind in _STATE_CHANGES and str(spec.target) not in allowed:
            names.append(str(spec.target))
            node = nodes.get(spec.arg.name)
            path = (module_path(node) if node is not None else None) or str(spec.target).rpartition(".")[0]
            notes.append(f"{spec.target} is changed in module {path or '(the root)'}")
    if names:
        raise FrontendError(
            f"the model changes its own state when called: {', '.join(names)}",
            notes=notes,
            help="return the new value as an output and pass it in with the next call",
        )


def refuse_resized_inputs(program: FunctionalProgram) -> None:
    """Refuse programs that write what has another shape or dtype to an argument, as `out=` of operators can.

    Raises:
        FrontendError: names the argument, with what it is and what is written.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_INPUT_MUTATION:
            continue
        argument, written = (nodes[str(name)].meta["val"] for name in (spec.target, spec.arg.name))
        if (argument.dtype, tuple(argument.shape)) != (written.dtype, tuple(written.shape)):
            raise FrontendError(
                f"the model writes {_described(written)} to its input {spec.target}, which is {_described(argument)}",
                help="pass an argument of that dtype and shape, or return the new value instead",
            )


def _described(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
