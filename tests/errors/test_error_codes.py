"""Errors: every code is documented, texts have the promised parts, errors survive copying between processes."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

import eutectic
from eutectic.ir.span import Span
from eutectic.relax import TensorStructInfo, Var, op
from eutectic.support import errors
from eutectic.support.errors import EutecticError, Excerpt, TypeInferenceError

ROOT = Path(__file__).parents[2]


def codes() -> set[str]:
    """Codes of the classes and those given at a raise."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, EutecticError)]
    given = {
        code
        for path in (ROOT / "src").rglob("*.py")
        for code in re.findall(r'"([A-Z]\d{4})"', path.read_text(encoding="utf-8"))
    }
    return {c.default_code for c in classes} | given


def test_every_code_has_its_section_and_every_section_its_code():
    sections = set(re.findall(r"^## ([A-Z]\d{4})$", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.M))
    assert sections == codes()


def test_the_parts_of_a_text(golden):
    at = Excerpt("model.py:27:17", "        return self.proj(x) @ self.keys.T", 27, 15, 25)
    notes = ["argument 0 has another type", "so has argument 1"]
    golden(str(TypeInferenceError("they do not fit", at=at, notes=notes, help="transpose one side")))


def test_an_error_of_an_operator_points_at_the_users_line():
    x, w = Var("x", TensorStructInfo((8, 64))), Var("w", TensorStructInfo((32, 64)))
    with pytest.raises(TypeInferenceError) as caught:
        op.matmul(x, w)
    text = str(caught.value)
    assert "64" in text
    assert "32" in text
    assert "test_error_codes.py" in text
    assert "op.matmul(x, w)" in text
    assert '= note: argument 0 has type R.Tensor((8, 64), "float32")' in text
    assert "= help: " in text


def test_a_span_whose_file_is_gone_still_says_where():
    assert Span("gone.py", 3).excerpt().render() == ["  --> gone.py:3"]


def test_errors_can_be_copied():
    error = TypeInferenceError("m", at=Excerpt("f:1", "t", 1), notes=["n"], help="h")
    clone = copy.copy(error)
    assert str(clone) == str(error)
    assert type(clone) is TypeInferenceError


def test_notes_are_added_once():
    error = EutecticError("m").with_note("in pass A").with_note("in pass A")
    assert error.facts == ("in pass A",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"precision": "exact"}, "unknown precision 'exact'"), ({"threads": 0}, "threads=0: expected a positive number")],
)
def test_bad_options_of_compile(arguments, message):
    with pytest.raises(errors.PassError, match=message):
        eutectic.compile(eutectic.IRModule(), **arguments)


def test_a_module_without_main():
    with pytest.raises(errors.FrontendError, match="the module has no graph function main"):
        eutectic.compile(eutectic.IRModule())
