"""Each public name of TVM: what is there runs, what is not says why."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from importlib import import_module

import pytest
from tests.compat.surface.examples import EXAMPLES, Example

from eutectic.compat import install_as_tvm, uninstall
from eutectic.compat.surface import SURFACES, WHOLE
from eutectic.compat.surface.listing import Row, Status, rows

AREAS = ("core", "relax", "operators", "tensors")


@pytest.fixture(scope="module")
def tvm() -> Iterator[None]:
    """`import tvm` gives Eutectic, and examples were collected with it."""
    install_as_tvm(replace=True)
    yield
    for name in [name for name in sys.modules if name.startswith("tests.compat.surface.")]:
        if not name.endswith(".examples"):
            del sys.modules[name]
    EXAMPLES.clear()
    _ran.cache_clear()
    uninstall()


@pytest.fixture(scope="module")
def table(tvm: None) -> Mapping[str, Row]:
    return {row.path: row for row in rows()}


@pytest.fixture(scope="module")
def examples(tvm: None) -> Mapping[str, Example]:
    for area in AREAS:
        import_module(f"tests.compat.surface.{area}")
    return EXAMPLES


@cache
def _ran(function: Example) -> Exception | None:
    """What an example raised; it is run once, for all of its names."""
    try:
        function()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("path", [f"{module}.{name.name}" for module in SURFACES for name in SURFACES[module].names()])
def test_name(path: str, table: Mapping[str, Row], examples: Mapping[str, Example]):
    row = table[path]
    assert row.status is not Status.MISSING, f"{path} is neither there nor refused"
    if row.status in (Status.THERE, Status.FEWER):
        if error := _ran(examples[path]):
            raise error
        return
    with pytest.raises((AttributeError, ModuleNotFoundError), match=r"eutectic .* has no") as error:
        reduce(getattr, row.name.split("."), import_module(row.module))
    assert row.remark in str(error.value)


def test_examples_are_of_names_that_are_listed(table: Mapping[str, Row], examples: Mapping[str, Example]):
    assert set(examples) <= set(table)


@pytest.mark.parametrize("module", [name for name in SURFACES if SURFACES[name].reason(WHOLE)])
def test_a_module_says_why_it_is_not_here(module: str, tvm: None):
    reason = SURFACES[module].reason(WHOLE)
    assert reason is not None
    with pytest.raises(ModuleNotFoundError, match=re.escape(reason)):
        import_module(module)
    parent, _, name = module.rpartition(".")
    with pytest.raises((AttributeError, ModuleNotFoundError), match=re.escape(reason)):
        getattr(import_module(parent), name)
