"""Examples of names: see `eutectic.compat.surface.relax`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import tvm
from tests.compat.surface import relax_patterns as _patterns  # noqa: F401 - collected here
from tests.compat.surface.examples import example
from tests.compat.surface.graphs import INFO, X, graph, names_of, operators, two_paths
from tvm import relax
from tvm.relax import analysis, dpl, transform
from tvm.relax.backend import patterns
from tvm.relax.backend.utils import has_leaking_intermediate_variables
from tvm.relax.binding_rewrite import DataflowBlockRewrite
from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from tvm.script import ir as I
from tvm.script import relax as R


def run(mod: Any, *arrays: np.ndarray) -> Any:
    result = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())["main"](*arrays)
    return tuple(r.numpy() for r in result) if isinstance(result, (tuple, list)) else result.numpy()


def keeps(run_pass: Any, mod: Any, *arrays: np.ndarray, changes: bool = True) -> Any:
    """The module after a pass, which computes the same, and is well formed."""
    after = run_pass(mod)
    assert changes != tvm.ir.structural_equal(after, mod)
    assert analysis.well_formed(after)
    for a, b in zip(run(after, *arrays), run(mod, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return after


# ---- tvm.relax


@example(
    *names_of("tvm.relax", "Binding BindingBlock Call Constant DataTypeImm DataflowBlock DataflowVar Expr ExternFunc")
)
@example(*names_of("tvm.relax", "Function If MatchCast PrimValue SeqExpr ShapeExpr StringImm Tuple TupleGetItem Var"))
@example(*names_of("tvm.relax", "VarBinding GlobalVar const extern convert_to_expr get_shape_of Span"))
def expressions() -> None:
    x, y = relax.Var("x", INFO), relax.DataflowVar("y", INFO)
    block = relax.DataflowBlock([relax.VarBinding(y, relax.Call(tvm.ir.Op.get("relax.add"), [x, x]))])
    cast = relax.MatchCast(relax.Var("z", INFO), y, INFO)
    assert isinstance(cast, relax.Binding)
    plain = relax.BindingBlock([cast])
    function = relax.Function([x], relax.SeqExpr([plain], cast.var), INFO, True, {"a": 1})
    assert function.body.blocks[0].bindings[0].value is y
    assert block.bindings[0].var is y
    pair = relax.Tuple([x, relax.PrimValue(3)])
    assert relax.TupleGetItem(pair, 0).index == 0
    branch = relax.SeqExpr([], x)
    assert relax.If(relax.const(True), branch, branch).cond.data.dtype == "bool"
    assert (relax.StringImm("s").value, relax.DataTypeImm("int8").value) == ("s", "int8")
    assert relax.const(1.0).struct_info.dtype == "float32"
    assert isinstance(relax.Constant(X), relax.Expr)
    assert relax.extern("f").global_symbol == relax.ExternFunc("f").global_symbol
    assert relax.convert_to_expr((x, 2)).fields[1].value.value == 2
    assert list(map(int, relax.get_shape_of(x))) == [2, 3]
    assert list(map(int, relax.ShapeExpr([4]).values)) == [4]
    assert relax.GlobalVar("f").name_hint == "f"
    assert relax.Span("file.py", 3).line == 3


@example(
    *names_of("tvm.relax", "StructInfo TensorStructInfo ShapeStructInfo PrimStructInfo TupleStructInfo FuncStructInfo")
)
@example(
    *names_of("tvm.relax", "ObjectStructInfo Type ObjectType ShapeType TensorType TupleType FuncType PackedFuncType")
)
@example("tvm.relax.analysis.get_static_type")
def types() -> None:
    shape, scalar = relax.ShapeStructInfo([2, 3]), relax.PrimStructInfo("int64")
    both = relax.TupleStructInfo([INFO, shape])
    function = relax.FuncStructInfo([INFO], both)
    for info in (shape, scalar, both, function, relax.ObjectStructInfo()):
        assert isinstance(info, relax.StructInfo)
        assert isinstance(analysis.get_static_type(info), relax.Type)
    static = analysis.get_static_type(function)
    assert isinstance(static, relax.FuncType)
    assert tvm.ir.structural_equal(static.arg_types[0], relax.TensorType(2, "float32"))
    assert tvm.ir.structural_equal(static.ret_type, relax.TupleType([relax.TensorType(2), relax.ShapeType(2)]))
    assert isinstance(analysis.get_static_type(relax.FuncStructInfo.opaque_func()), relax.PackedFuncType)
    assert isinstance(analysis.get_static_type(relax.ObjectStructInfo()), relax.ObjectType)


@example(*names_of("tvm.relax", "BlockBuilder VirtualMachine VMExecutable build get_default_pipeline get_pipeline"))
@example("tvm.relax.register_pipeline")
def building() -> None:
    mod = graph(lambda bb, x: bb.emit(relax.op.add(x, x)))
    executable = relax.build(mod, "llvm")
    assert isinstance(executable, relax.VMExecutable)
    vm = relax.VirtualMachine(executable, tvm.cpu())
    np.testing.assert_array_equal(vm["main"](X).numpy(), X + X)
    assert "relax.add" not in operators(relax.get_default_pipeline(tvm.target.Target("llvm"))(mod))
    assert "relax.add" not in operators(relax.get_pipeline("default")(mod))

    @relax.register_pipeline("example")
    def made() -> Any:
        return tvm.transform.Sequential([transform.LegalizeOps()])

    assert "relax.add" not in operators(relax.get_pipeline("example")(mod))


@example("tvm.relax.PyExprMutator", *names_of("tvm.relax.expr_functor", "PyExprMutator mutator"))
def mutators() -> None:
    @mutator
    class Swap(PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            return relax.op.multiply(*call.args) if call.op.name == "relax.add" else call

    mod = graph(lambda bb, x: bb.emit(relax.op.add(x, x)))
    mod["main"] = Swap(mod).visit_expr(mod["main"])
    assert operators(mod) == ["relax.multiply"]
    assert relax.PyExprMutator is PyExprMutator


@example("tvm.relax.PyExprVisitor", *names_of("tvm.relax.expr_functor", "PyExprVisitor visitor"))
def visitors() -> None:
    @visitor
    class Count(PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def visit_call_(self, call: Any) -> None:
            self.calls += 1

    counter = Count()
    counter.visit_expr(graph(lambda bb, x: bb.emit(relax.op.exp(bb.emit(relax.op.add(x, x)))))["main"])
    assert counter.calls == 2
    assert relax.PyExprVisitor is PyExprVisitor


@example("tvm.relax.DataflowBlockRewrite", "tvm.relax.binding_rewrite.DataflowBlockRewrite")
def rewriting_a_block() -> None:
    def build(bb: Any, x: Any) -> Any:
        bb.emit(relax.op.exp(x))
        return bb.emit(relax.op.add(x, x))

    mod = graph(build)
    main = mod["main"]
    block = main.body.blocks[0]
    rewrite = relax.DataflowBlockRewrite(block, main)
    rewrite.remove_all_unused()
    assert [b.value.op.name for b in rewrite.mutated_dfb().bindings if isinstance(b.value, relax.Call)] == ["relax.add"]
    rewrite.add(name="tail", expr=relax.op.negative(main.params[0]), is_dfvar=True)
    tail = rewrite.mutated_dfb().bindings[-1].var
    assert isinstance(tail, relax.DataflowVar)
    rewrite.replace_all_uses(next(b.var for b in block.bindings if getattr(b.value, "op", None)), tail)
    rewrite.remove_unused(tail)
    assert "relax.negative" not in operators(tvm.IRModule({"main": rewrite.mutated_root_fn()}))
    assert operators(rewrite.mutate_irmodule(mod)) == ["relax.add"]
    assert operators(mod) == ["relax.exp", "relax.add"]
    assert DataflowBlockRewrite is relax.DataflowBlockRewrite


# ---- passes


def passes(names: str, build: Callable[..., Any], *infos: Any, changes: bool = True, **options: Any) -> None:
    for name in names.split():
        mod = graph(build, *infos)
        arrays = [X for _ in infos or (INFO,)]
        run_pass = partial(keeps, getattr(transform, name)(**options), mod, *arrays, changes=changes)
        example(f"tvm.relax.transform.{name}")(run_pass)


passes("LegalizeOps ToNonDataflow RemovePurityChecking", two_paths)
passes(
    "Normalize AttachGlobalSymbol ConvertToDataflow ExpandTupleArguments InlinePrivateFunctions",
    two_paths,
    changes=False,
)
passes("LambdaLift NormalizeGlobalVar RemoveUnusedParameters BundleModelParams", two_paths, changes=False)
passes("EliminateCommonSubexpr", lambda bb, x: relax.op.multiply(bb.emit(relax.op.exp(x)), bb.emit(relax.op.exp(x))))
passes("DeadCodeElimination", lambda bb, x: (bb.emit(relax.op.exp(x)), relax.op.add(x, x))[1])
passes("CanonicalizeBindings", lambda bb, x: relax.op.add(bb.emit(x), x))
passes("FoldConstant", lambda bb, x: relax.op.add(x, bb.emit(relax.op.exp(relax.const(X)))))
passes(
    "RemoveRedundantReshape",
    lambda bb, x: relax.op.reshape(bb.emit(relax.op.reshape(x, (6,))), (3, 2)),
)


@example(*names_of("tvm.relax.transform", "AnnotateTIROpPattern FuseOps FuseTIR"))
def fusion() -> None:
    mod = transform.LegalizeOps()(graph(two_paths))
    kinds = transform.AnnotateTIROpPattern()(mod)
    assert {f.attrs["op_pattern"] for _, f in kinds.functions_items() if "op_pattern" in f.attrs} == {0}
    fused = keeps(transform.FuseOps(fuse_opt_level=2), kinds, X)
    assert any(f.attrs and f.attrs.get("Primitive") for _, f in fused.functions_items())
    assert len(keeps(transform.FuseTIR(), fused, X).get_global_vars()) == 2


def conv_relu() -> Any:
    return graph(
        lambda bb, x, w: relax.op.nn.relu(bb.emit(relax.op.nn.conv2d(x, w))),
        relax.TensorStructInfo((1, 2, 4, 4), "float32"),
        relax.TensorStructInfo((3, 2, 3, 3), "float32"),
    )


@example(*names_of("tvm.relax.transform", "FuseOpsByPattern MergeCompositeFunctions FusionPattern PatternCheckContext"))
@example("tvm.relax.transform.RunCodegen", "tvm.relax.backend.utils.has_leaking_intermediate_variables")
@example("tvm.relax.backend.utils.PatternCheckContext", "tvm.relax.backend.patterns.make_conv2d_pattern")
def partitioning() -> None:
    seen: list[Any] = []

    def check(ctx: Any) -> bool:
        assert isinstance(ctx, transform.PatternCheckContext)
        seen.append(ctx)
        return not has_leaking_intermediate_variables(ctx)

    pattern, annotations = patterns.make_conv2d_pattern(activation="relax.nn.relu")
    entry = transform.FusionPattern("dnnl.conv2d_relu", pattern, annotations, check)
    mod = transform.FuseOpsByPattern([entry], bind_constants=False, annotate_codegen=False)(conv_relu())
    assert seen
    assert [f.attrs["Composite"] for _, f in mod.functions_items() if "Composite" in f.attrs] == ["dnnl.conv2d_relu"]
    merged = transform.MergeCompositeFunctions()(mod)
    regions = [f for _, f in merged.functions_items() if "Codegen" in f.attrs]
    assert [f.attrs["Codegen"] for f in regions] == ["dnnl"]
    calls = transform.RunCodegen()(merged)
    assert "relax.call_dps_packed" in operators(calls)


@example(
    *names_of(
        "tvm.relax.backend.patterns", "make_fused_bias_activation_pattern make_matmul_pattern make_rms_norm_pattern"
    )
)
@example(
    *names_of(
        "tvm.relax.backend.patterns", "make_attention_pattern make_layer_norm_pattern make_residual_block_pattern"
    )
)
@example(*names_of("tvm.relax.backend.patterns", "make_matmul_dequantize_pattern make_matmul_multiply_pattern"))
@example(*names_of("tvm.relax.backend.patterns", "make_stacked_attention_pattern make_attention_rewrite_pattern"))
@example("tvm.relax.dpl.make_fused_bias_activation_pattern")
def library_patterns() -> None:
    mod = graph(lambda bb, x, y: bb.emit(relax.op.matmul(x, y)), INFO, relax.TensorStructInfo((3, 2), "float32"))
    product = mod["main"].body.blocks[0].bindings[0].value
    pattern, named = patterns.make_matmul_pattern()
    assert pattern.match(product)
    assert {"lhs", "rhs", "root"} <= set(named)
    for pattern, _ in (
        patterns.make_attention_pattern(),
        patterns.make_layer_norm_pattern(),
        patterns.make_matmul_dequantize_pattern(),
        patterns.make_matmul_multiply_pattern(),
        patterns.make_rms_norm_pattern(),
        patterns.make_residual_block_pattern(patterns.make_conv2d_pattern()),
        patterns.make_stacked_attention_pattern("split"),
        patterns.make_fused_bias_activation_pattern("relax.nn.conv2d", True, "relax.nn.relu"),
    ):
        assert isinstance(pattern, dpl.DFPattern)
        assert not pattern.match(product)
    assert isinstance(dpl.make_fused_bias_activation_pattern("relax.matmul", True), dpl.DFPattern)
    rewriting, rewriter = patterns.make_attention_rewrite_pattern("BSNH", "BSNH", False, False)
    assert isinstance(rewriting, dpl.DFPattern)
    assert callable(rewriter)


@example(*names_of("tvm.relax.transform", "BindParams BindSymbolicVars UpdateParamStructInfo"))
def binding() -> None:
    mod = graph(lambda bb, x, y: bb.emit(relax.op.add(x, y)), INFO, INFO)
    bound = transform.BindParams("main", {"x1": X})(mod)
    assert len(bound["main"].params) == 1
    np.testing.assert_array_equal(run(bound, X), X + X)
    n = tvm.tir.Var("n", "int64")
    open_sizes = graph(lambda bb, x: bb.emit(relax.op.exp(x)), relax.TensorStructInfo((n, 3), "float32"))
    closed = transform.BindSymbolicVars({"n": 2}, "main")(open_sizes)
    assert closed["main"].params[0].struct_info == INFO
    wide = relax.TensorStructInfo((4, 3), "float32")
    updated = transform.UpdateParamStructInfo(lambda var: wide)(graph(two_paths))
    assert updated["main"].ret_struct_info == wide


@example("tvm.relax.transform.CallTIRRewrite")
def memory_of_results() -> None:
    mod = transform.ToNonDataflow()(transform.LegalizeOps()(graph(two_paths)))
    after = transform.CallTIRRewrite()(mod)
    assert operators(after) == ["relax.builtin.alloc_tensor"] * 2
    assert "relax.call_tir" in operators(mod)


@example("tvm.relax.transform.RewriteDataflowReshape", "tvm.relax.analysis.has_reshape_pattern")
def reshapes() -> None:
    mod = transform.LegalizeOps()(graph(lambda bb, x: relax.op.reshape(bb.emit(relax.op.exp(x)), (6,))))
    assert analysis.has_reshape_pattern(mod["reshape"])
    assert not analysis.has_reshape_pattern(mod["exp"])
    keeps(transform.RewriteDataflowReshape(), mod, X, changes=False) if "relax.reshape" in operators(mod) else None
    assert analysis.well_formed(transform.RewriteDataflowReshape()(mod))


IMAGE = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype("float32")
SCALE = np.array([1, 2], "float32")


def normalised(bb: Any, x: Any) -> Any:
    constants = [relax.const(a) for a in (SCALE, SCALE, SCALE, SCALE)]
    weight = relax.const(np.ones((2, 2, 1, 1), "float32"))
    conv = bb.emit(relax.op.nn.conv2d(x, weight))
    return bb.emit(relax.TupleGetItem(bb.emit(relax.op.nn.batch_norm(conv, *constants, axis=1, training=False)), 0))


@example(*names_of("tvm.relax.transform", "DecomposeOpsForInference FoldBatchnormToConv2D"))
def norms() -> None:
    mod = graph(normalised, relax.TensorStructInfo((1, 2, 4, 4), "float32"))
    for run_pass in (transform.DecomposeOpsForInference("main"), transform.FoldBatchnormToConv2D()):
        assert "relax.nn.batch_norm" not in operators(keeps(run_pass, mod, IMAGE))


@example("tvm.relax.transform.DecomposeOpsForTraining")
def norms_in_training() -> None:
    ones, info = relax.const(np.ones(4, "float32")), relax.TensorStructInfo(IMAGE.shape, "float32")
    mod = graph(lambda bb, x: bb.emit(relax.op.nn.layer_norm(x, ones, ones, axes=[-1])), info)
    assert "relax.nn.layer_norm" not in operators(keeps(transform.DecomposeOpsForTraining("main"), mod, IMAGE))


@example("tvm.relax.transform.ToMixedPrecision")
def precision() -> None:
    mod = graph(lambda bb, x, y: bb.emit(relax.op.matmul(x, y)), INFO, relax.TensorStructInfo((3, 2), "float32"))
    assert "float16" in transform.ToMixedPrecision(out_dtype="float32")(mod).script()


@example("tvm.relax.transform.AllocateWorkspace")
def workspace() -> None:
    mod = graph(two_paths)
    assert transform.AllocateWorkspace()(mod) is mod


@example(*names_of("tvm.relax.transform", "FunctionPass function_pass dataflowblock_pass"))
def own_passes() -> None:
    @transform.function_pass(opt_level=1, name="Marked")
    class Marked:
        def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
            return func.with_attr("marked", True)

    @transform.dataflowblock_pass(opt_level=0)
    def unchanged(block: Any, mod: Any, ctx: Any) -> Any:
        seen.append(len(block.bindings))
        return block

    seen: list[int] = []
    mod = graph(two_paths)
    assert Marked()(mod)["main"].attrs["marked"]
    assert isinstance(Marked(), transform.FunctionPass)
    assert tvm.ir.structural_equal(unchanged(mod), mod)
    assert seen[0] >= 2


# ---- analysis


@I.ir_module
class Looked:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 3), "float32")) -> R.Tensor(("n", 3), "float32"):
        R.func_attr({"num_input": 1})
        cls = Looked
        with R.dataflow():
            lv = R.exp(w)
            lv1 = R.matmul(x, lv)
            unused = R.exp(x)  # noqa: F841 - what removes it is shown
            gv = cls.helper(lv1)
            R.output(gv)
        return gv

    @R.function(private=True)
    def helper(y: R.Tensor(("m", 3), "float32")) -> R.Tensor(("m", 3), "float32"):
        return R.add(y, y)


ANALYSIS = (
    "all_global_vars all_vars bound_vars used_vars free_vars get_var2val name_to_binding udchain post_order_visit"
)


@example(*names_of("tvm.relax.analysis", ANALYSIS))
@example(
    *names_of(
        "tvm.relax.analysis", "computable_at_compile_time contains_impure_call detect_recursion remove_all_unused"
    )
)
@example(*names_of("tvm.relax.analysis", "free_symbolic_vars defined_symbolic_vars tir_vars_in_struct_info"))
@example("tvm.relax.analysis.definable_tir_vars_in_struct_info", "tvm.relax.analysis.well_formed")
def looking_at_functions() -> None:
    main = Looked["main"]
    x, w = main.params
    lv, lv1 = (binding.var for binding in main.body.blocks[0].bindings[:2])
    assert [gv.name_hint for gv in analysis.all_global_vars(main)] == ["helper"]
    assert {x, w, lv, lv1} <= set(analysis.all_vars(main))
    assert lv in analysis.bound_vars(main)
    assert {x, w} <= set(analysis.used_vars(main.body))
    assert set(analysis.free_vars(main.body)) == {x, w}
    assert analysis.free_vars(main) == []
    assert analysis.get_var2val(main)[lv].op.name == "relax.exp"
    assert analysis.name_to_binding(main)["lv1"][0].var is lv1
    assert lv1 in analysis.udchain(main.body.blocks[0])[lv]
    kinds: list[type] = []
    analysis.post_order_visit(main, lambda item: kinds.append(type(item)))
    assert relax.Call in kinds
    assert lv in analysis.computable_at_compile_time(main)
    assert lv1 not in analysis.computable_at_compile_time(main)
    assert not analysis.contains_impure_call(main)
    assert analysis.contains_impure_call(R.call_packed("f", x, sinfo_args=INFO))
    assert analysis.detect_recursion(Looked) == []
    assert "unused" not in analysis.remove_all_unused(main).script()
    assert [v.name for v in analysis.defined_symbolic_vars(main)] == ["n"]
    assert analysis.free_symbolic_vars(main) == []
    assert [v.name for v in analysis.tir_vars_in_struct_info(x.struct_info)] == ["n"]
    assert [v.name for v in analysis.definable_tir_vars_in_struct_info(x.struct_info)] == ["n"]
    assert analysis.well_formed(Looked)
    assert analysis.well_formed(Looked["helper"])


@example(
    *names_of("tvm.relax.analysis", "BaseCheckResult struct_info_base_check struct_info_lca erase_to_well_defined")
)
@example("tvm.relax.analysis.derive_call_ret_struct_info")
def relations_of_types() -> None:
    loose = relax.TensorStructInfo(dtype="float32", ndim=2)
    assert analysis.struct_info_base_check(loose, INFO) == analysis.BaseCheckResult.PASS
    assert analysis.struct_info_base_check(relax.ShapeStructInfo(ndim=2), INFO) == analysis.BaseCheckResult.FAIL_L0
    other = relax.TensorStructInfo((4, 3), "float32")
    assert analysis.struct_info_lca(INFO, other) == loose
    n, m = tvm.tir.Var("n", "int64"), tvm.tir.Var("m", "int64")
    sized = relax.TensorStructInfo((n, 3), "float32")
    assert analysis.erase_to_well_defined(sized) == loose
    assert analysis.erase_to_well_defined(sized, {n: m}) == relax.TensorStructInfo((m, 3), "float32")
    main = Looked["main"]
    call = relax.Call(Looked.get_global_var("helper"), [relax.Var("z", INFO)])
    signature = Looked["helper"].struct_info
    assert analysis.derive_call_ret_struct_info(signature, call, relax.BlockBuilder()) == INFO
    assert main.ret_struct_info != INFO


# ---- the way in, and texts


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


@example(*names_of("tvm.relax.frontend.torch", "from_exported_program from_fx"), "tvm.relax.frontend.detach_params")
def importing() -> None:
    from tvm.relax.frontend import detach_params
    from tvm.relax.frontend.torch import from_exported_program, from_fx

    model = Model().eval()
    want = model(torch.from_numpy(X)).detach().numpy()
    exported = torch.export.export(model, (torch.from_numpy(X),))
    mod = from_exported_program(exported, unwrap_unit_return_tuple=True)
    np.testing.assert_allclose(run(mod, X), want, rtol=1e-5)
    traced = from_fx(torch.fx.symbolic_trace(model), [((2, 3), "float32")])
    assert traced["main"].params[0].name_hint == "inp_0"
    np.testing.assert_allclose(run(traced, X), want, rtol=1e-5)
    kept, params = detach_params(
        from_exported_program(exported, keep_params_as_input=True, unwrap_unit_return_tuple=True)
    )
    assert "params" not in kept["main"].attrs
    np.testing.assert_allclose(run(kept, X, *(p.numpy() for p in params["main"])), want, rtol=1e-5)
    bundled = transform.BundleModelParams("weights")(kept)
    assert bundled["main"].params[-1].name_hint == "weights"


@example("tvm.relax.testing.dump_ast")
def trees() -> None:
    from tvm.relax.testing import dump_ast

    text = dump_ast(graph(lambda bb, x: bb.emit(relax.op.nn.softmax(x)))["main"])
    assert text.startswith("Function(")
    assert 'op=Op(name="relax.nn.softmax")' in text
    assert "axis=-1" in text.replace(" ", "")
    assert "axis" not in dump_ast(relax.op.nn.softmax(relax.Var("v", INFO)), include_call_attrs=False)
    assert "struct_info" not in dump_ast(relax.Var("v", INFO), include_struct_info_annotations=False)


@example("tvm.relax.utils.convert_to_expr", "tvm.relax.utils.copy_with_new_vars")
def helpers() -> None:
    from tvm.relax import utils

    main = graph(two_paths)["main"]
    copied = utils.copy_with_new_vars(main)
    assert tvm.ir.structural_equal(copied, main)
    assert copied.params[0] is not main.params[0]
    assert utils.convert_to_expr("text").value == "text"
