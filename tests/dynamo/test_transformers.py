"""Models of transformers, called as users call them, under torch.compile; and a loop that generates text."""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.dynamo.transformers_models import CAUSAL, PAIRS, TEXT, VISION, build, tensors

from eutectic import EutecticAdvice
from eutectic.driver.compile import compile_imported
from eutectic.dynamo import graph

pytest.importorskip("transformers")
FAST = ("bert", "vit", "resnet")
ALL = [*CAUSAL, *TEXT, *PAIRS, *VISION]
TOLERANCE = 2e-5  # of the scale of an output
TOKENS = 64


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def assert_equal_to_eager(name: str) -> None:
    model, arguments = build(name)
    if name == "vit_mae":  # hides patches at random
        arguments["noise"] = torch.linspace(0, 1, 16)[None]
    with torch.no_grad():
        expected = tensors(model(**arguments))
        received = tensors(torch.compile(model, backend="eutectic")(**arguments))
    assert expected
    assert len(received) == len(expected)
    for a, b in zip(received, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE * max(1e-3, float(b.double().abs().max())))


@pytest.mark.filterwarnings(
    "ignore::eutectic.EutecticAdvice", "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in dict.fromkeys(ALL)]
)
def test_a_model_is_equal_to_eager(name: str):
    assert_equal_to_eager(name)


def test_what_falls_back_is_said_with_its_line():
    model, arguments = build("mixtral")
    with pytest.warns(EutecticAdvice, match=r"aten\.histc.*moe\.py:\d+"), torch.no_grad():
        torch.compile(model, backend="eutectic")(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_text_is_generated_with_a_growing_cache(name: str, monkeypatch: pytest.MonkeyPatch):
    model, _ = build(name)
    model.config.pad_token_id = None
    compilations = []

    def counted(imported, settings):
        compilations.append(imported)
        return compile_imported(imported, settings)

    monkeypatch.setattr(graph, "compile_imported", counted)

    def generated(call) -> list[int]:
        ids, cache, said = torch.tensor([[5, 17]]), None, []
        for _ in range(TOKENS):
            with torch.no_grad():
                out = call(input_ids=ids, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)
            said.append(int(ids))
        return said

    expected = generated(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EutecticAdvice)
        received = generated(torch.compile(model, backend="eutectic", dynamic=True))
    assert received == expected
    assert 1 <= len(compilations) <= 3
