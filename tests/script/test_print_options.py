"""What `script()` takes beside the name."""

from __future__ import annotations

import pytest

from eutectic.ir.structural import assert_structural_equal, structural_mismatch
from eutectic.script import from_source
from eutectic.script import ir as I
from eutectic.script import relax as R
from eutectic.script import tir as T


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Module
        with R.dataflow():
            y = R.add(x, R.const(1.0))
            z = R.call_tir(cls.double, (y,), out_sinfo=R.Tensor((4, 4), "float32"))
            R.output(z)
        return z


MAIN, DOUBLE = Module["main"], Module["double"]
FIRST = MAIN.body.blocks[0].bindings[0]


def marks(text: str) -> list[str]:
    """What is underlined, line by line."""
    lines = text.splitlines()
    pairs = [(lines[i - 1], line) for i, line in enumerate(lines) if line.strip() and set(line) <= {" ", "^"}]
    return ["".join(c for c, mark in zip(above, line, strict=False) if mark == "^") for above, line in pairs]


def test_forms_without_sugar_read_back():
    text = Module.script(syntax_sugar=False)
    assert "T.grid" not in text
    assert 'with T.block("root"):' in text
    assert "A = T.match_buffer(var_A, (4, 4))" in text
    assert_structural_equal(from_source(text), Module)


def test_types_that_the_value_says():
    text = MAIN.script(show_all_struct_info=False)
    assert "        y = R.add(x" in text
    assert_structural_equal(from_source(Module.script(show_all_struct_info=False)), Module)


def test_names_of_namespaces():
    text = Module.script(ir_prefix="X", tir_prefix="Y", relax_prefix="Z", module_alias="me", name="Mine")
    assert text.startswith("# from tvm.script import ir as X\n# from tvm.script import tir as Y\n")
    assert "class Mine:" in text
    assert "me = Mine" in text
    assert 'z: Z.Tensor((4, 4), dtype="float32") = Z.call_tir(me.double' in text
    assert "T." not in text.replace("float32", "")


def test_a_string_is_no_namespace():
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        R.func_attr({"note": "R.add T.x I.y"})
        return x

    assert '"R.add T.x I.y"' in main.script(relax_prefix="Z", tir_prefix="Y", ir_prefix="X")


def test_indentation_and_numbers():
    lines = Module.script(indent_spaces=2, print_line_numbers=True).splitlines()
    assert lines[6] == " 7   @T.prim_func(private=True)"
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))


def test_bare_dtypes():
    text = DOUBLE.script(int_dtype="int64", float_dtype="float32", buffer_dtype="int8")
    assert "T.grid(T.int32(4), T.int32(4))" in text
    assert "A[vi, vj] * 2.0" in text


def test_addresses():
    text = MAIN.script(show_object_address=True)
    assert f"x_{id(MAIN.params[0]):#x}" in text


def test_marks_and_context():
    assert marks(Module.script(obj_to_underline=[FIRST.value])) == ['R.add(x, R.const(1.0, "float32"))']
    assert marks(MAIN.script(path_to_underline=["<root>.body.blocks[0].bindings[0].value.args[1]"])) == [
        'R.const(1.0, "float32")'
    ]
    assert marks(Module.script(obj_to_underline=[MAIN.params[0]])) == ["x", "x"]
    few = Module.script(obj_to_underline=[FIRST], num_context_lines=0).splitlines()
    assert [line.split()[0] for line in few] == ["(...", "y:", "^" * len(few[1].strip()), "(..."]


def test_marks_in_tensor_programs():
    loop = DOUBLE.body.block.body
    block = loop.body.body.block
    assert marks(Module.script(obj_to_underline=[block.body.value])) == ["A[vi, vj] * T.float32(2.0)"]
    assert len(marks(Module.script(obj_to_underline=[loop]))) == 6
    assert marks(DOUBLE.script(syntax_sugar=False, obj_to_underline=[loop]))[0] == "for i in range(4):"


def test_a_difference_can_be_shown():
    other = from_source(Module.script().replace("R.add(", "R.subtract("))
    path = structural_mismatch(Module, other)
    assert marks(Module.script(path_to_underline=[path.replace(".op", "")])) == ['R.add(x, R.const(1.0, "float32"))']


def test_remarks():
    text = MAIN.script(obj_to_annotate={FIRST: "first"}, path_to_annotate={"<root>.body.blocks[0]": "block"})
    lines = [line.strip() for line in text.splitlines() if "  # " in line]
    assert lines == ["with R.dataflow():  # block", f"{FIRST.script().strip()}  # first"]


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match="no option 'indent_space'; did you mean indent_spaces"):
        MAIN.script(indent_space=2)
    with pytest.raises(ValueError, match=r"leads nowhere at '.nothing'"):
        MAIN.script(path_to_underline=["<root>.body.nothing"])
    with pytest.raises(ValueError, match="is not understood at '!'"):
        MAIN.script(path_to_underline=["<root>.body!"])
    with pytest.raises(ValueError, match="indent_spaces"):
        MAIN.script(indent_spaces=0)
    with pytest.raises(ValueError, match="a module as a whole"):
        Module.script(obj_to_underline=[Module])
