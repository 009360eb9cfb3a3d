"""Examples of names: see `eutectic.compat.surface.core`."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from tests.compat.surface import core_testing, moved_values  # noqa: F401 - collects what these have
from tests.compat.surface.examples import example
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


def module() -> tvm.IRModule:
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("double"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            with R.dataflow():
                _ = R.exp(x)
                y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
                R.output(y)
            return y

    return Module


DATA = np.array([1, -2, 3, 0], "float32")


# ---- tvm, tvm.driver


@example("tvm.DataType", "tvm.DataTypeCode", "tvm.runtime.DataType", "tvm.runtime.DataTypeCode")
def dtypes():
    dtype = tvm.DataType("float32x4")
    assert (dtype, dtype.bits, dtype.lanes, dtype.itemsize) == ("float32x4", 32, 4, 16)
    assert dtype.type_code == tvm.DataTypeCode.FLOAT == 2
    assert tvm.runtime.DataType("uint8").type_code == tvm.runtime.DataTypeCode.UINT
    assert tvm.DataType("handle").bits == 64
    assert tvm.DataType(np.int16).with_lanes(2) == "int16x2"
    with pytest.raises(ValueError, match="unknown dtype 'foo'"):
        tvm.DataType("foo")


@example("tvm.IRModule", "tvm.ir.IRModule", "tvm.ir.IRModule.get_global_var", "tvm.ir.IRModule.get_global_vars")
@example("tvm.ir.IRModule.functions_items", "tvm.ir.IRModule.clone", "tvm.ir.IRModule.from_expr")
@example("tvm.ir.IRModule.update", "tvm.ir.IRModule.update_func")
def modules():
    mod = module()
    assert [var.name_hint for var in mod.get_global_vars()] == ["double", "main"]
    assert mod.get_global_var("main") in mod
    assert [var.name_hint for var, _ in mod.functions_items()] == ["double", "main"]
    copy = tvm.IRModule(mod.functions, attrs={"a": 1})
    copy.update_func(mod.get_global_var("main"), mod["double"])
    assert copy["main"] is mod["double"]
    again = tvm.ir.IRModule.from_expr(mod["main"]).clone()
    again.update(copy)
    assert again["main"] is mod["double"]
    assert mod["main"] is not mod["double"]


@example("tvm.ir.IRModule.get_attr", "tvm.ir.IRModule.with_attr", "tvm.ir.IRModule.with_attrs")
@example("tvm.ir.IRModule.without_attr", "tvm.ir.DictAttrs")
def module_attributes():
    mod = module().with_attr("a", 1).with_attrs({"b": 2, "c": "x"}).without_attr("b")
    assert [mod.get_attr(name) for name in "abc"] == [1, None, "x"]
    assert isinstance(mod.attrs, tvm.ir.DictAttrs)


@example("tvm.ir.IRModule.script", "tvm.ir.IRModule.show")
def module_text():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        module().show(style="plain", black_format=False)
    assert out.getvalue() == module().script() + "\n"
    assert "class Other:" in module().script(name="Other")


@example("tvm.ir.IRModule.update_global_info", "tvm.ir.DummyGlobalInfo", "tvm.ir.GlobalInfo")
def global_information():
    mod = module()
    mod.update_global_info("dummy", [tvm.ir.DummyGlobalInfo()])
    assert isinstance(mod.global_infos["dummy"][0], tvm.ir.GlobalInfo)
    assert 'I.module_global_infos({"dummy": [I.dummy_global_info()]})' in mod.script()


@example("tvm.ir.IRModule.replace_global_vars")
def renaming():
    mod = module().replace_global_vars({"double": "twice", "main": "entry"})
    assert mod["entry"].attrs["global_symbol"] == "entry"
    assert "R.call_tir(cls.twice, (x,)" in mod.script()
    with pytest.raises(ValueError, match="two functions would have one name"):
        mod.replace_global_vars({"twice": "entry"})


def _runs(build):
    vm = relax.VirtualMachine(build(module(), target="llvm"), tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.runtime.tensor(DATA)).numpy(), DATA * 2)


@example("tvm.build", "tvm.driver.build")
def build():
    for make in (tvm.build, tvm.driver.build):
        function = make(module()["double"].with_attr("global_symbol", "double"), target="llvm")
        out = tvm.runtime.empty((4,))
        function(tvm.runtime.tensor(DATA), out)
        np.testing.assert_array_equal(out.numpy(), DATA * 2)


@example("tvm.compile", "tvm.driver.compile")
def compile_module():
    _runs(tvm.compile)
    _runs(tvm.driver.compile)


@example("tvm.cpu", "tvm.cuda", "tvm.device", "tvm.runtime.cpu", "tvm.runtime.cuda", "tvm.runtime.device")
@example("tvm.runtime.Device")
def devices():
    assert (
        tvm.cpu(dev_id=0) == tvm.device(device_type="cpu", index=0) == tvm.runtime.cpu() == tvm.runtime.device("llvm")
    )
    assert isinstance(tvm.cuda(1), tvm.runtime.Device)
    assert (tvm.cuda(1).type, tvm.runtime.cuda(1).index) == ("cuda", 1)


@example("tvm.register_global_func", "tvm.register_func", "tvm.get_global_func", "tvm.ir.EnvFunc", "tvm.ir.EnvFunc.get")
def global_functions():
    @tvm.register_global_func("tests.core.add", override=True)
    def add(a, b):
        return a + b

    assert tvm.get_global_func("tests.core.add")(1, 2) == 3
    assert tvm.ir.EnvFunc.get("tests.core.add")(3, 4) == 7
    assert tvm.ir.EnvFunc("mine", add).func is add
    tvm.register_func("tests.core.add", max, override=True)
    assert tvm.get_global_func("tests.core.add", allow_missing=True)(1, 2) == 2
    assert tvm.get_global_func("tests.core.nothing", allow_missing=True) is None


@example("tvm.Object", "tvm.runtime.Object", "tvm.runtime.Scriptable", "tvm.runtime")
def objects():
    for value in (module(), module()["main"], tvm.ir.Array([1]), tvm.runtime.tensor(DATA)):
        assert isinstance(value, tvm.Object)
        assert isinstance(value, tvm.runtime.Object)
    assert not isinstance(3, tvm.Object)
    assert isinstance(module(), tvm.runtime.Scriptable)


@example("tvm.TVMError", "tvm.error.TVMError", "tvm.error.DiagnosticError", "tvm.error.InternalError")
def errors():
    with pytest.raises(tvm.TVMError):
        tvm.ir.Op.get("relax.no_such_operator")
    with pytest.raises(tvm.error.DiagnosticError, match="not valid Python"):
        tvm.script.from_source("def f(:")
    assert issubclass(tvm.error.InternalError, tvm.error.TVMError)


@example("tvm.error.OpError", "tvm.error.OpNotImplemented", "tvm.error.OpAttributeInvalid")
@example("tvm.error.OpAttributeRequired", "tvm.error.OpAttributeUnImplemented")
def operator_errors():
    errors = (tvm.error.OpNotImplemented, tvm.error.OpAttributeInvalid, tvm.error.OpAttributeRequired)
    for error in (*errors, tvm.error.OpAttributeUnImplemented):
        with pytest.raises(tvm.error.OpError, match="the reason"):
            raise error("the reason")


@example("tvm.error.register_error")
def register_error():
    @tvm.error.register_error
    class MyError(tvm.error.TVMError):
        pass

    assert tvm.error.register_error("Other", MyError) is MyError
    assert tvm.error.register_error("Third")(MyError) is MyError


# ---- tvm.ir


@example("tvm.ir.Array", "tvm.ir.Map", "tvm.runtime.convert", "tvm.runtime.ShapeTuple")
def containers():
    array = tvm.runtime.convert([1, "x", [2.5, None], {"k": (3,)}])
    assert isinstance(array, tvm.ir.Array)
    assert isinstance(array[3], tvm.ir.Map)
    assert list(array) == [1, "x", (2.5, None), {"k": (3,)}]
    assert isinstance(module()["main"].params, tvm.ir.Array)
    assert isinstance(module().functions, tvm.ir.Map)
    assert tvm.ir.Map({"a": 1})["a"] == 1
    assert tvm.ir.Array(input_list=[1]).same_as(array) is False
    assert tvm.runtime.ShapeTuple([2, 3]) == (2, 3)
    with pytest.raises(TypeError, match="sizes of a ShapeTuple"):
        tvm.runtime.ShapeTuple([1.5])
    with pytest.raises(TypeError, match="cannot be converted"):
        tvm.runtime.convert(object())


@example("tvm.ir.Attrs")
def operator_attributes():
    call = relax.op.permute_dims(relax.const(np.zeros((2, 3), "float32")), axes=[1, 0])
    assert isinstance(call.attrs, tvm.ir.Attrs)
    assert list(call.attrs.axes) == [1, 0]


@example("tvm.ir.BaseExpr", "tvm.ir.PrimExpr", "tvm.ir.RelaxExpr", "tvm.ir.Node")
def expressions():
    size, value = tvm.tir.Var("n", "int64"), relax.const(1.0)
    assert isinstance(size + 1, tvm.ir.PrimExpr)
    assert isinstance(value, tvm.ir.RelaxExpr)
    for item in (size, value):
        assert isinstance(item, tvm.ir.BaseExpr)
        assert isinstance(item, tvm.ir.Node)


@example("tvm.ir.BaseFunc", "tvm.ir.BaseFunc.with_attr", "tvm.ir.BaseFunc.without_attr")
def functions():
    main = module()["main"].with_attr("a", 1).with_attr({"b": 2})
    assert isinstance(main, tvm.ir.BaseFunc)
    assert (main.attrs["a"], main.attrs["b"]) == (1, 2)
    assert "a" not in main.without_attr("a").attrs


@example("tvm.ir.GlobalVar")
def global_vars():
    assert tvm.ir.GlobalVar(name_hint="f").name_hint == "f"


@example("tvm.ir.Op", "tvm.ir.Op.get", "tvm.ir.Op.get_attr", "tvm.ir.Op.has_attr", "tvm.ir.Op.list_op_names")
@example("tvm.ir.Op.reset_attr", "tvm.ir.Op.set_attr", "tvm.ir.register_op_attr")
def operators():
    op = tvm.ir.Op.get("relax.add")
    assert isinstance(op, tvm.ir.Op)
    assert "relax.add" in tvm.ir.Op.list_op_names()
    tvm.ir.register_op_attr("relax.add", attr_key="tests.core", value=1, level=10)
    assert op.has_attr("tests.core")
    op.set_attr("tests.core", 2)
    assert op.get_attr("tests.core") == 2
    op.reset_attr("tests.core")
    op.reset_attr("tests.core")
    assert not op.has_attr("tests.core")


@example("tvm.ir.PointerType", "tvm.ir.PrimType", "tvm.ir.TupleType", "tvm.ir.Type")
def types():
    pointer = tvm.ir.PointerType(element_type=tvm.ir.PrimType(dtype="float32"), storage_scope="shared")
    assert isinstance(pointer, tvm.ir.Type)
    assert (pointer.element_type.dtype, pointer.storage_scope) == ("float32", "shared")
    assert not tvm.ir.TupleType(fields=[]).fields


@example("tvm.ir.Range", "tvm.ir.Range.from_min_extent")
def ranges():
    taken = tvm.ir.Range(begin=2, end=6)
    assert (int(taken.min), int(taken.extent)) == (2, 4)
    tvm.ir.assert_structural_equal(taken, tvm.ir.Range.from_min_extent(min_value=2, extent=4))


@example("tvm.ir.Span")
def spans():
    span = tvm.ir.Span("model.py", 3, 4)
    assert (span.file, span.line, span.column) == ("model.py", 3, 4)


@example("tvm.ir.VDevice")
def virtual_devices():
    device = tvm.ir.VDevice(target="cuda", vdevice_id=1, memory_scope="global")
    assert (device.target.kind.name, device.vdevice_id, device.memory_scope) == ("cuda", 1, "global")


@example("tvm.ir.assert_structural_equal", "tvm.ir.structural_equal", "tvm.ir.structural_hash")
@example("tvm.ir.get_first_structural_mismatch")
def structure():
    one, other = module(), module()
    tvm.ir.assert_structural_equal(lhs=one, rhs=other, map_free_vars=False)
    assert tvm.ir.structural_hash(one) == tvm.ir.structural_hash(other)
    changed = tvm.relax.transform.DeadCodeElimination()(one)
    assert not tvm.ir.structural_equal(lhs=one, rhs=changed, map_free_vars=True)
    assert "['main']" in tvm.ir.get_first_structural_mismatch(one, changed)


@example("tvm.ir.load_json", "tvm.ir.save_json", "tvm.ir.make_node")
def json_there_and_back():
    for value in (module(), module()["double"], [1, (2.5, "x")]):
        tvm.ir.assert_structural_equal(tvm.ir.load_json(json_str=tvm.ir.save_json(node=value)), value)
    number = tvm.ir.make_node("ir.IntImm", dtype="int32", value=3)
    tvm.ir.assert_structural_equal(number, tvm.tir.IntImm("int32", 3))


# ---- tvm.ir.transform, tvm.instrument


@example("tvm.ir.transform.Pass", "tvm.ir.transform.Pass.info", "tvm.ir.transform.PassInfo")
@example("tvm.ir.transform.ModulePass", "tvm.ir.transform.module_pass", "tvm.ir.transform.Sequential")
def passes():
    @tvm.transform.module_pass(opt_level=1, name="Mark", required=["Other"], traceable=True)
    def mark(mod, ctx):
        return mod.with_attr("marked", 1)

    assert isinstance(mark, tvm.ir.transform.ModulePass)
    assert isinstance(mark, tvm.ir.transform.Pass)
    expected = tvm.ir.transform.PassInfo(opt_level=1, name="Mark", required=("Other",), traceable=True)
    assert mark.info == expected
    both = tvm.ir.transform.Sequential(
        passes=[mark, relax.transform.Normalize()], opt_level=0, name="both", required=None, traceable=False
    )
    assert both(module()).get_attr("marked") == 1
    with tvm.transform.PassContext(disabled_pass=["Mark"]):
        assert both(module()).get_attr("marked") is None
    with tvm.transform.PassContext(opt_level=0):
        assert both(module()).get_attr("marked") is None
    with tvm.transform.PassContext(opt_level=0, required_pass=["Mark"]):
        assert both(module()).get_attr("marked") == 1


@example("tvm.ir.transform.PassContext", "tvm.ir.transform.PassContext.current")
@example("tvm.ir.transform.PassContext.list_configs", "tvm.ir.transform.PassContext.override_instruments")
def contexts():
    assert tvm.ir.transform.PassContext.list_configs()["relax.FuseOps.max_depth"] == {"type": "int"}
    with tvm.ir.transform.PassContext(opt_level=3, config={"relax.FuseOps.max_depth": 2}) as ctx:
        assert tvm.ir.transform.PassContext.current() is ctx
        ctx.override_instruments([tvm.instrument.PassTimingInstrument()])
        assert len(ctx.instruments) == 1
    with pytest.raises(tvm.TVMError, match="unknown option"):
        tvm.ir.transform.PassContext(config={"no.such": 1})


@example("tvm.ir.transform.ApplyPassToFunction")
def some_functions():
    mod = module()
    only = tvm.ir.transform.ApplyPassToFunction(
        relax.transform.DeadCodeElimination(), "ma.*", error_if_no_function_matches_regex=True
    )(mod)
    assert "R.exp" not in only.script()
    assert only["double"] is mod["double"]


@example("tvm.ir.transform.PrintIR")
def print_ir():
    out = io.StringIO()
    with contextlib.redirect_stderr(out):
        tvm.ir.transform.PrintIR(header="here")(module())
    assert out.getvalue() == f"PrintIR(here):\n{module().script()}\n"


@example("tvm.instrument.PrintBeforeAll", "tvm.instrument.PrintAfterAll", "tvm.instrument.PassPrintingInstrument")
def printing_instruments():
    out, info = io.StringIO(), 'PassInfo(opt_level=0, name="Normalize", required=(), traceable=False)'
    some = tvm.instrument.PassPrintingInstrument(
        print_before_pass_names=["Normalize"], print_after_pass_names=["DeadCodeElimination"]
    )
    for instruments in ([tvm.instrument.PrintBeforeAll(), tvm.instrument.PrintAfterAll()], [some]):
        with contextlib.redirect_stdout(out), tvm.transform.PassContext(instruments=instruments):
            relax.transform.Normalize()(module())
    heads = [line for line in out.getvalue().splitlines() if "Running Pass" in line]
    assert heads == [f"{when} Running Pass: {info}" for when in ("Before", "After", "Before")]


@example("tvm.instrument.PassTimingInstrument", "tvm.instrument.PassTimingInstrument.render")
def timing():
    instrument = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[instrument]):
        tvm.transform.Sequential([relax.transform.Normalize()])(module())
        lines = instrument.render().splitlines()
    assert [line.strip().partition(":")[0] for line in lines] == ["sequential", "Normalize"]


@example("tvm.instrument.DumpIR")
def dump():
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            with tvm.transform.PassContext(instruments=[tvm.instrument.DumpIR(dump_dir=folder, refresh=True)]):
                relax.transform.Normalize()(module())
        (file,) = Path(folder).iterdir()
        assert file.name == "000_Normalize.py"
        tvm.ir.assert_structural_equal(tvm.script.from_source(file.read_text()), module())
        with (
            pytest.raises(FileExistsError, match="refresh=True"),
            tvm.transform.PassContext(instruments=[tvm.instrument.DumpIR(folder)]),
        ):
            pass


@example("tvm.instrument.PassInstrument", "tvm.instrument.PassInstrument.enter_pass_ctx")
@example("tvm.instrument.PassInstrument.exit_pass_ctx", "tvm.instrument.PassInstrument.should_run")
@example("tvm.instrument.PassInstrument.run_before_pass", "tvm.instrument.PassInstrument.run_after_pass")
@example("tvm.instrument.pass_instrument")
def own_instruments():
    seen: list[str] = []

    @tvm.instrument.pass_instrument
    class Log:
        def __init__(self, name):
            self.name = name

        def enter_pass_ctx(self):
            seen.append(f"enter {self.name}")

        def exit_pass_ctx(self):
            seen.append(f"exit {self.name}")

        def run_before_pass(self, mod, info):
            seen.append(f"before {info.name}")

    class Veto(tvm.instrument.PassInstrument):
        def should_run(self, mod, info):
            return info.name != "Normalize"

        def run_after_pass(self, mod, info):
            seen.append(f"after {info.name}")

    assert isinstance(Log("a"), tvm.instrument.PassInstrument)
    with tvm.transform.PassContext(instruments=[Log("a"), Veto(), Log("b")]):
        relax.transform.Normalize()(module())
        relax.transform.DeadCodeElimination()(module())
    inside = ["before DeadCodeElimination"] * 2 + ["after DeadCodeElimination"]
    assert seen == ["enter a", "enter b", *inside, "exit a", "exit b"]


# ---- tvm.runtime, tvm.target, tvm.support, tvm.contrib


@example("tvm.runtime.Tensor", "tvm.runtime.Tensor.copyfrom", "tvm.runtime.Tensor.copyto")
@example("tvm.runtime.Tensor.numpy", "tvm.runtime.Tensor.shape", "tvm.runtime.Tensor.dtype", "tvm.runtime.tensor")
@example("tvm.runtime.empty", "tvm.runtime.from_dlpack")
def tensors():
    tensor = tvm.runtime.tensor(arr=DATA, device=tvm.cpu(), mem_scope=None)
    other = tvm.runtime.empty(shape=(4,), dtype="float32", device=tvm.cpu(), mem_scope="global")
    tensor.copyto(other)
    assert isinstance(other, tvm.runtime.Tensor)
    assert (other.shape, other.dtype) == ((4,), "float32")
    np.testing.assert_array_equal(other.numpy(), DATA)
    other.copyfrom(np.zeros(4, "float32"))
    shared = np.zeros(3, "float32")
    view = tvm.runtime.from_dlpack(ext_tensor=shared)
    shared[1] = 5
    np.testing.assert_array_equal(view.numpy(), [0, 5, 0])


@example("tvm.runtime.const")
def constants():
    number = tvm.runtime.const(value=3, dtype="int64")
    assert (number.value, number.dtype) == (3, "int64")
    assert tvm.runtime.const(2.5).dtype == "float32"


@example("tvm.runtime.enabled", "tvm.runtime.num_threads")
def machine():
    assert tvm.runtime.enabled("llvm")
    assert not tvm.runtime.enabled("metal")
    assert tvm.runtime.num_threads() >= 1


@example("tvm.runtime.save_param_dict", "tvm.runtime.load_param_dict")
@example("tvm.runtime.save_param_dict_to_file", "tvm.runtime.load_param_dict_from_file")
def params():
    values = {"w": DATA, "b": tvm.runtime.tensor(np.array([[1, 2]], "int8"))}
    for loaded in (tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(params=values)), _through_a_file(values)):
        assert sorted(loaded) == ["b", "w"]
        np.testing.assert_array_equal(loaded["w"].numpy(), DATA)
        assert loaded["b"].dtype == "int8"
    with pytest.raises(tvm.TVMError, match="no parameters"):
        tvm.runtime.load_param_dict(b"nonsense")


def _through_a_file(values):
    with tempfile.TemporaryDirectory() as folder:
        tvm.runtime.save_param_dict_to_file(values, f"{folder}/params.bin")
        return tvm.runtime.load_param_dict_from_file(path=f"{folder}/params.bin")


@example("tvm.target.Target", "tvm.target.Target.current", "tvm.target.TargetKind")
def targets():
    target = tvm.target.Target({"kind": "llvm", "mcpu": "haswell"}, host="llvm")
    assert isinstance(target.kind, tvm.target.TargetKind)
    assert target.kind.name == "llvm"
    with target:
        assert tvm.target.Target.current(allow_none=False) == target
    assert tvm.target.Target.current() is None
