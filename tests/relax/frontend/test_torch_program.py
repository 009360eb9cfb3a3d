"""from_exported_program: signature, parameters, spans, dynamic sizes, and the one error for all that is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.relax.frontend.torch_compare import Imported, Wrapped, equal, imported, rand
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.structural import structural_equal
from eutectic.relax.analysis.well_formed import well_formed
from eutectic.relax.expr import Constant, DataflowBlock, Function, Tuple
from eutectic.relax.frontend.torch import Context, export_model, from_exported_program
from eutectic.relax.op import strided_slice
from eutectic.support.errors import FrontendError, ModelStateError, UnsupportedOperatorError, UnsupportedTypeError

HERE = str(Path(__file__))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 1)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y = self.norm(y)
        return F.relu(y)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(Block(), nn.Dropout(0.3))
        self.head = nn.Linear(3, 4)

    def forward(self, image: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        x = self.features(image).mean(-1)
        return self.head(x) * scale


def _main(model: nn.Module, args: tuple[Any, ...], **options: Any) -> Function:
    mod = from_exported_program(export_model(model.eval(), args), **options)
    assert well_formed(mod)
    function = mod["main"]
    assert isinstance(function, Function)
    return function


def _constants(function: Function) -> list[Constant]:
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    return [arg for value in values for arg in getattr(value, "args", ()) if isinstance(arg, Constant)]


def test_main_has_one_dataflow_block_and_a_tuple():
    main = _main(Net(), (rand(1, 2, 5),))
    assert [p.name_hint for p in main.params] == ["image"]
    (block,) = main.body.blocks
    assert isinstance(block, DataflowBlock)
    last = block.bindings[-1]
    assert last.var.name_hint == "gv"
    assert isinstance(last.value, Tuple)
    assert main.body.body is last.var
    assert main.attrs is not None
    assert main.attrs["global_symbol"] == "main"


def test_keep_params_as_input():
    model = Net()
    main = _main(model, (rand(1, 2, 5),), keep_params_as_input=True)
    names = [p.name_hint for p in main.params]
    assert names[:3] == ["image", "p_features_0_conv_weight", "p_features_0_conv_bias"]
    assert main.attr("num_input") == 1
    stored = dict(zip(names[1:], main.attr("params"), strict=True))
    np.testing.assert_array_equal(stored["p_head_weight"].data, model.head.weight.detach().numpy())


def test_forms_of_the_result():
    x = (rand(1, 2, 5),)
    single = _main(Net(), x, unwrap_unit_return_tuple=True)
    assert single.ret_struct_info == single.body.blocks[0].bindings[-1].var.struct_info
    assert not isinstance(single.body.blocks[0].bindings[-1].value, Tuple)
    unbound = _main(Net(), x, no_bind_return_tuple=True)
    assert isinstance(unbound.body.body, Tuple)


def test_spans_name_module_and_line():
    main = _main(Net(), (rand(1, 2, 5),))
    source = Path(HERE).read_text(encoding="utf-8").splitlines()
    found = {}
    for binding in main.body.blocks[0].bindings[:-1]:
        span = binding.var.span
        assert span is not None
        assert binding.value.span == span or binding.value.span is span
        assert span.file == HERE
        name = getattr(getattr(binding.value, "op", None), "name", "")
        found[name] = (span.module, source[span.line - 1].strip())
    assert found["relax.nn.conv1d"] == ("features.0.conv", "y = self.conv(x)")
    assert found["relax.nn.batch_norm"] == ("features.0.norm", "y = self.norm(y)")
    assert found["relax.nn.relu"] == ("features.0", "return F.relu(y)")
    assert found["relax.mean"] == (None, "x = self.features(image).mean(-1)")
    assert found["relax.matmul"] == ("head", "return self.head(x) * scale")


def test_a_shared_parameter_is_one_constant():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight
            self.b.bias = nn.Parameter(self.a.bias.detach().clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    constants = _constants(_main(Tied(), (rand(1, 3),)))
    assert len(constants) == 4
    assert len({id(constant) for constant in constants}) == 2


def test_equal_small_contents_of_other_dtypes_stay_apart():
    class Zeros(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(4))
            self.register_buffer("b", torch.zeros(4, dtype=torch.int32))
            self.register_buffer("c", torch.zeros(2, 2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + self.a, x + self.b, x[:2] + self.c

    model = imported(Zeros(), (rand(4),))
    equal(model(rand(4)), Zeros()(rand(4)))


def test_parameters_are_copied_and_may_have_any_strides():
    layer = nn.Linear(3, 4)
    layer.weight = nn.Parameter(rand(3, 4).t())
    assert not layer.weight.is_contiguous()
    model, x = imported(layer, (rand(2, 3),)), rand(2, 3)
    with torch.no_grad():
        want = layer(x)
        equal(model(x), want)
        layer.weight.zero_()
    equal(model(x), want)
    assert layer.weight.requires_grad


def test_dynamic_batch():
    model = Net().eval()
    batch = Dim("batch", min=1, max=64)
    program = export_model(model, (rand(2, 2, 5),), dynamic_shapes={"image": {0: batch}})
    found = Imported(program)
    main = found.module["main"]
    (name,) = main.attr("tir_var_upper_bound").keys()
    assert main.attr("tir_var_upper_bound")[name] == 64
    assert main.attr("tir_var_lower_bound")[name] == 1
    size = main.params[0].struct_info.dims[0]
    assert isinstance(size, ScalarVar)
    assert (size.name, size.dtype) == (name, "int64")
    for batch in (1, 3, 64):
        x = rand(batch, 2, 5)
        with torch.no_grad():
            equal(found(x), model(x))


def test_dynamic_sizes_that_follow_from_others():
    def function(x: torch.Tensor) -> Any:
        return x.flatten(1), x[:, 1:-1], x * x.shape[1], torch.arange(x.shape[1]), x[:, :2].sum(1), x.shape[0] * 2

    shapes = (({0: Dim.DYNAMIC, 1: Dim("n", min=4, max=40)},),)
    found = Imported(export_model(Wrapped(function), (rand(4, 6, 3),), dynamic_shapes=shapes))
    for shape in ((5, 8, 3), (2, 9, 3)):
        equal(found(rand(*shape)), function(rand(*shape)))


def test_a_size_that_is_found_from_its_multiple():
    half = Dim("half", min=1, max=32)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2).sum(1)

    found = Imported(export_model(Wrapped(function), (rand(4),), dynamic_shapes=(({0: 2 * half},),)))
    for size in (4, 6, 64):
        x = rand(size)
        equal(found(x), function(x))


def test_everything_unsupported_is_listed_at_once():
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.special.i1(x)
            y = torch.special.i1(y)
            return torch.special.i1e(y) + torch.lgamma(y).sum()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Odd()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.avg_pool2d(self.inner(x)[None], 1, divisor_override=3)

    with pytest.raises(UnsupportedOperatorError) as error:
        imported(Outer(), (rand(2, 5),))
    text = str(error.value)
    assert "aten.special_i1.default (2 times)" in error.value.message
    assert "aten.special_i1e.default (1 time)" in error.value.message
    assert "aten.lgamma.default (1 time)" in error.value.message
    assert "aten.avg_pool2d.default: divisor_override=3, at " in text
    assert f"inner ({HERE}:" in text
    assert "custom_convert_map" in text


@pytest.mark.parametrize("key", ["topk", "topk.default", "aten.topk", "aten.topk.default", torch.ops.aten.topk.default])
def test_custom_converters(key: Any):
    def converter(node: torch.fx.Node, ctx: Context) -> Any:
        (x, *_) = ctx.retrieve_args(node)
        return [strided_slice(x, [1], [0], [2], span=ctx.span), None]

    program = export_model(Wrapped(lambda x: x.topk(2).values), (rand(2, 5),))
    mod = from_exported_program(program, custom_convert_map={key: converter})
    assert mod["main"].body.blocks[0].bindings[0].value.op.name == "relax.strided_slice"


def test_a_custom_converter_goes_before_the_table():
    program = export_model(Wrapped(F.relu), (rand(2, 5),))
    mod = from_exported_program(program, custom_convert_map={"relu": lambda node, ctx: ctx.retrieve_args(node)[0]})
    assert len(mod["main"].body.blocks[0].bindings) == 1


@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights:UserWarning")
def test_operators_without_converter_are_taken_apart():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True).eval()
    x = rand(2, 5, 3)
    model = imported(lstm, (x,))
    with torch.no_grad():
        equal(model(x), lstm(x))


def test_sizes_are_no_operators_to_take_apart(monkeypatch):
    """Each round of taking apart traces the whole program again, for nothing when only sizes are left."""
    sizes = ({0: torch.export.Dim("n", min=1, max=8)},)
    program = export_model(nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True)), (rand(2, 3, 4),), None, sizes)
    rounds = []
    whole = torch.export.ExportedProgram.run_decompositions

    def counted(self, steps=None):
        rounds.append(steps)
        return whole(self, steps)

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", counted)
    from_exported_program(program)
    assert rounds == [{}]


def test_a_changed_buffer_is_refused_by_name():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x + self.calls

    with pytest.raises(FrontendError) as error:
        imported(nn.Sequential(Counter()), (rand(2),))
    assert error.value.message == "the model changes its own state when called: 0.calls"
    assert error.value.facts == ("0.calls is changed in module 0",)


class Shares(nn.Module):
    """Adds to a buffer, and reads another tensor: `of` says which one."""

    def __init__(self, of: Callable[[nn.Module], Any]) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.other = of(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return x + self.other


SHARING = {
    "the same buffer": (lambda model: nn.Buffer(model.total), "total and other"),
    "a part of it": (lambda model: nn.Buffer(model.total[1:]), "total and other"),
    "a parameter": (lambda model: nn.Parameter(model.total), "other and total"),
    "a tensor that is no buffer": (lambda model: model.total[0], "total and other"),
}


@pytest.mark.parametrize("case", SHARING)
def test_two_names_of_memory_that_is_written_to_are_refused(case: str):
    """torch fails at an assertion about its own graphs."""
    of, names = SHARING[case]
    with pytest.raises(FrontendError, match=f"{names} of the model share memory, and the model writes in place"):
        imported(Shares(of).eval(), (rand(2, 3),))


def test_a_part_with_state_that_has_two_names_is_refused():
    inner = Shares(lambda model: torch.ones(3))
    with pytest.raises(FrontendError, match=r"0\.total and 1\.total of the model share memory"):
        imported(nn.Sequential(inner, inner), (rand(2, 3),))


DERIVATIVES: dict[str, Callable[[torch.Tensor], Any]] = {
    "grad": lambda x: torch.func.grad(lambda a: (a.sin() * a).sum())(x),
    "grad_and_value": lambda x: torch.func.grad_and_value(lambda a: a.tanh().sum())(x),
    "jvp": lambda x: torch.func.jvp(lambda a: a.sin() * 2, (x,), (x * 0 + 1,)),
    "jacrev": lambda x: torch.func.jacrev(lambda a: a.pow(2).sum(1))(x),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.filterwarnings("ignore:A model attribute .* requires gradient:UserWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_derivatives_are_refused_and_leave_torch_as_it_was(name: str):
    """torch fails in the middle of them, and nothing that came afterwards could be computed in that process."""
    x = rand(3, 4)
    with pytest.raises(FrontendError, match=r"derivative of a function \(torch\.func\)") as error:
        imported(DERIVATIVES[name], (x,))
    assert 'backend="eutectic"' in str(error.value)
    copied = x.clone()
    assert copied.untyped_storage().data_ptr()
    with torch.autograd.forward_ad.dual_level():
        equal(copied, x)


def test_a_written_tensor_that_is_no_buffer_is_refused():
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = torch.zeros(())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.calls.add_(1)

    with pytest.raises(FrontendError, match=r"neither a buffer of it nor an argument.* \(calls\)") as error:
        imported(Counts(), (rand(2),))
    assert "register_buffer" in str(error.value)


def test_a_program_exported_in_training_mode_is_refused():
    model = nn.Sequential(nn.Dropout(0.5))
    with torch.no_grad():
        program = torch.export.export(model, (rand(3),))
    with pytest.raises(ModelStateError, match=r"exported in training mode: aten\.dropout\.default"):
        from_exported_program(program)


def test_not_an_exported_program():
    with pytest.raises(FrontendError, match="got Linear"):
        from_exported_program(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_decomposition_can_be_left_out():
    program = export_model(Net().eval(), (rand(1, 2, 5),))
    whole = from_exported_program(program)
    already = from_exported_program(program.run_decompositions({}), run_ep_decomposition=False)
    assert structural_equal(whole, already)


def test_core_aten_is_imported_too():
    model, x = Net().eval(), rand(1, 2, 5)
    program = export_model(model, (x,)).run_decompositions()
    with torch.no_grad():
        equal(Imported(program)(x), model(x))


def test_grad_mode_inside_the_model():
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x + 1
        with torch.enable_grad():
            return y * 2

    program = torch.export.export(Wrapped(function), (rand(3),))
    equal(Imported(program)(rand(3)), function(rand(3)))


def test_an_input_of_another_dtype_is_refused():
    with pytest.raises(UnsupportedTypeError, match=r"input \[0\] has dtype float8_e4m3fnuz"):
        export_model(Wrapped(torch.abs), (torch.ones(2).to(torch.float8_e4m3fnuz),))


def test_zero_batch():
    model = Net().eval()
    x = torch.zeros(0, 2, 5)
    with torch.no_grad():
        equal(imported(model, (x,))(x), model(x))
