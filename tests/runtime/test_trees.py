"""Trees of containers: torch takes the same values apart in the same way, and no class is looked for elsewhere."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from eutectic.relax.frontend.torch.trees import tree_from
from eutectic.runtime.encoding import from_bytes, to_bytes
from eutectic.runtime.program import Program
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import ArraySignature
from eutectic.runtime.trees import Leaf, Node, Tree, builder, built, leaves_of, taker, tree_of, tree_text
from eutectic.support.errors import LoadError

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Box:
    inside: Any
    lid: Any = None


pytree.register_dataclass(Box)

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
KEYS = st.one_of(st.text(max_size=3), st.integers(0, 9))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=3)
    return st.one_of(
        items,
        items.map(tuple),
        items.map(deque),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.dictionaries(KEYS, inner, max_size=3).map(lambda given: defaultdict(list, given)),
        st.tuples(inner, inner).map(lambda both: Pair(*both)),
        st.tuples(inner, inner).map(lambda both: Box(*both)),
        st.tuples(inner, inner).map(torch.return_types.max),
    )


def written_and_read(tree: Tree) -> Tree:
    model = SavedModel(Program((), (), 0, {}, ()), ArraySignature((), tree), {}, "")
    found = from_bytes(to_bytes(model), SavedModel).signature
    assert isinstance(found, ArraySignature)
    return found.result


@given(st.recursive(LEAVES, _containers, max_leaves=8))
def test_values_are_taken_apart_and_put_together_as_torch_does(value: Any):
    want, spec = pytree.tree_flatten(value)
    for tree in (tree_from(spec), tree_of(value), written_and_read(tree_from(spec))):
        assert leaves_of(tree, value) == want
        made = built(tree, iter(want))
        assert made == value
        taken: list[Any] = []
        taker(tree)(value, taken)
        assert taken == want
        ready = builder(tree)(iter(want))
        assert (ready, type(ready)) == (made, type(made))
        assert tree_text(tree) == tree_text(tree_of(value))
    assert tree_from(spec) == tree_of(value)


@given(st.recursive(LEAVES, _containers, max_leaves=5), st.recursive(LEAVES, _containers, max_leaves=5))
def test_values_of_another_form_are_noticed(value: Any, other: Any):
    same = pytree.tree_structure(value) == pytree.tree_structure(other)
    assert (leaves_of(tree_of(value), other) is not None) == same
    assert is_taken(tree_of(value), other) == same


def is_taken(tree: Tree, value: Any) -> bool:
    leaves: list[Any] = []
    try:
        taker(tree)(value, leaves)
    except TypeError:
        return False
    return all(tree_of(leaf) == Leaf() for leaf in leaves)


def test_classes_that_torch_knows_are_found_by_their_names():
    assert type(built(written_and_read(tree_of(Box(1))), iter([1]))) is Box
    found = built(written_and_read(tree_of(torch.return_types.max((1, 2)))), iter([1, 2]))
    assert type(found) is torch.return_types.max


def test_nothing_is_imported_for_a_class_that_is_not_known():
    """A plain container with the same fields stands for it, among the results and among the arguments."""
    pair = Node("namedtuple", "antigravity.Pair", ("left", "right"), (Leaf(), Leaf()))
    named = Node("registered", "antigravity.Output", ["a", "b"], (Leaf(), Leaf()))
    box = Node("registered", "antigravity.Box", [["a"], ["none"]], (Leaf(),))
    plain = Node("registered", "antigravity.Three", None, (Leaf(),) * 3)
    found = built(pair, iter([1, 2]))
    assert (found, found.left, type(found).__name__) == ((1, 2), 1, "Pair")
    assert built(named, iter([1, 2])) == {"a": 1, "b": 2}
    assert built(box, iter([1])) == {"a": 1}
    assert built(plain, iter([1, 2, 3])) == (1, 2, 3)
    for tree in (pair, named, box, plain):
        leaves = list(range(len(tree.children)))
        assert leaves_of(tree, built(tree, iter(leaves))) == leaves
    assert leaves_of(named, {"b": 1, "a": 2}) is None
    assert "antigravity" not in sys.modules


def test_a_module_with_a_lazy_class_is_not_asked():
    tree = Node("namedtuple", f"{__name__}.Pair", ("left", "right"), (Leaf(), Leaf()))
    assert type(built(tree, iter([1, 2]))) is not Pair


@pytest.mark.parametrize(
    "parts",
    [("set", "", None, ()), ("dict", "", ("a",), ()), ("list", "", None, (3,)), ("namedtuple", "P", ("a",), ())],
)
def test_trees_that_cannot_be_are_refused(parts: Any):
    with pytest.raises(LoadError, match="cannot have"):
        Node(*parts)
