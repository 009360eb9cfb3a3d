"""What the tests of default schedules cover: every operator of topi."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.backend.llvm.batch import Case, check, noise

from eutectic import topi

KINDS = ("elementwise", "products", "reductions", "inverted_residual")
TESTS = (*(f"test_rules_{kind}.py" for kind in KINDS), "test_blocked_layouts.py")
# Names that are no operators.
NO_OPERATORS = {"image": "a module", "nn": "a module", "checked": "tested in test_checked_values.py"}
ELSEWHERE = {
    "attention_in_tiles": "tested in tests/topi/test_attention_tiles.py",
    "conv2d_winograd": "tested in tests/tir/schedule/rules/test_winograd_rule.py",
    "conv3d_ncdhwc": "tested in tests/backend/llvm/test_blocked_layouts.py",
    "conv3d_winograd": "tested in tests/tir/schedule/rules/test_winograd_rule.py",
    "dense_pack": "tested in tests/tir/schedule/rules/test_dense_pack_rule.py",
    "im2col": "tested in tests/relax/transform/test_legalize_every_op.py",
    "rows_in_tiles": "tested in tests/topi/test_attention_tiles.py",
    "recurrent": "tested in tests/tir/schedule/rules/test_recurrent_rule.py",
}


def test_every_operator_occurs():
    text = "\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in TESTS)
    words = set(re.findall(r"\w+", text))
    # Families of one definition, whose names the tests put together.
    words |= {f"conv{rank}d" for rank in (1, 2, 3)} | {f"conv{rank}d_transpose" for rank in (1, 2, 3)}
    words |= {f"pool{rank}d" for rank in (1, 2, 3)}
    names = {*topi.__all__, *topi.nn.__all__, *topi.image.__all__} - set(NO_OPERATORS) - set(ELSEWHERE)
    assert not names - words


def test_a_wrong_result_is_seen():
    """The comparison that the other tests rely on."""
    x = noise(0, 5, 9)
    with pytest.raises(AssertionError, match="off by"):
        check([Case("exp", topi.exp, [x], lambda a: a.exp() + 1e-3)])
    with pytest.raises(AssertionError, match="NaN in other places"):
        check([Case("log", topi.log, [x], lambda a: a.abs().log())])
    with pytest.raises(AssertionError, match="shape"):
        check([Case("sum", lambda a: topi.sum(a, 0), [x], lambda a: a.sum(1))])
    with pytest.raises(AssertionError):
        check([Case("round", topi.nn.relu, [noise(1, 5, dtype="int8")], lambda a: a)])
    assert np.isfinite(x).all()
