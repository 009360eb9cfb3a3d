"""Networks of images and signals of any size, put together from blocks: each takes and gives (batch, 8, *size)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eutectic.testing.dynamic.sized import Sized

CHANNELS = 8


def _normed(*parts: nn.Module) -> nn.Sequential:
    net = nn.Sequential(*parts)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.2, 0.2)  # type: ignore[arg-type]  # a buffer, which is a tensor
            nn.init.uniform_(part.running_var, 0.8, 1.2)  # type: ignore[arg-type]  # as above
    return net


class Residual(nn.Module):
    """Two convolutions added to their input, as in ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.one = _normed(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU())
        self.two = _normed(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        return F.relu(x + self.two(self.one(x)))


class Inverted(nn.Module):
    """Wide, per channel, narrow, as in MobileNetV2; with squeeze and excitation as in V3."""

    def __init__(self, excited: bool = False) -> None:
        super().__init__()
        wide = 2 * CHANNELS
        self.wide = _normed(nn.Conv2d(CHANNELS, wide, 1), nn.BatchNorm2d(wide), nn.Hardswish())
        self.each = _normed(nn.Conv2d(wide, wide, 3, padding=1, groups=wide), nn.BatchNorm2d(wide), nn.ReLU6())
        self.squeeze, self.excite = nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)
        self.narrow, self.excited = nn.Conv2d(wide, CHANNELS, 1), excited

    def forward(self, x: Tensor) -> Any:
        """Same shape."""
        y = self.each(self.wide(x))
        if self.excited:
            y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + self.narrow(y)


class ConvNext(nn.Module):
    """A wide kernel per channel, a norm of channels, two products, as in ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2, groups=CHANNELS)
        self.norm = nn.LayerNorm(CHANNELS)
        self.wide, self.narrow = nn.Linear(CHANNELS, 4 * CHANNELS), nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Any:
        """Same shape."""
        y = self.norm(self.each(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)


class Dense(nn.Module):
    """A convolution whose result is put beside its input, as in DenseNet."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.join = nn.Conv2d(CHANNELS + 4, CHANNELS, 1)

    def forward(self, x: Tensor) -> Any:
        """Same shape."""
        return self.join(F.elu(torch.cat((x, self.grow(F.relu(x))), 1)))


class Pyramid(nn.Module):
    """Half and quarter size, brought back and added, as in a feature pyramid."""

    def __init__(self, mode: str = "nearest") -> None:
        super().__init__()
        self.down, self.further = (nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1) for _ in range(2))
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        half = F.relu(self.down(x))
        quarter = F.relu(self.further(half))
        options: dict[str, Any] = {} if self.mode == "nearest" else {"align_corners": False}
        half = half + F.interpolate(quarter, size=half.shape[2:], mode=self.mode, **options)
        return x + F.interpolate(half, size=x.shape[2:], mode=self.mode, **options)


class Atrous(nn.Module):
    """Convolutions of several dilations beside the mean of the image, as in DeepLab."""

    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.far = nn.Conv2d(CHANNELS, 4, 3, padding=2, dilation=2)
        self.whole, self.join = nn.Conv2d(CHANNELS, 4, 1), nn.Conv2d(12, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        mean = F.relu(self.whole(F.adaptive_avg_pool2d(x, 1))).expand(-1, -1, x.shape[2], x.shape[3])
        return F.relu(self.join(torch.cat((self.near(x), self.far(x), mean), 1)))


class Grouped(nn.Module):
    """Groups, a norm of groups, channels in another order, as in ShuffleNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=2), nn.GroupNorm(2, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        y = F.leaky_relu(self.norm(self.conv(x)), 0.1)
        return y.view(y.shape[0], 2, CHANNELS // 2, y.shape[2], y.shape[3]).transpose(1, 2).flatten(1, 2)


class Pooled(nn.Module):
    """Windows of several kinds, beside each other, as in Inception."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Conv2d(2 * CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        pooled = F.max_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        return torch.sigmoid(self.join(torch.cat(pooled, 1))) * x


class PixelAttention(nn.Module):
    """Every pixel attends to every other, as in networks that make images."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Conv2d(CHANNELS, 3 * CHANNELS, 1), nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Any:
        """Same shape."""
        q, k, v = self.qkv(x).flatten(2).transpose(1, 2).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.out(mixed.view(x.shape))


class Instance(nn.Module):
    """Each channel of each image by its own mean and deviation."""

    def forward(self, x: Tensor) -> Tensor:
        """Same shape."""
        deviation, mean = torch.std_mean(x, (2, 3), keepdim=True, correction=0)
        return F.softplus((x - mean) / (deviation + 1e-3))


BLOCKS: Final[dict[str, Callable[[], nn.Module]]] = {
    "residual": Residual,
    "inverted": Inverted,
    "excited": lambda: Inverted(excited=True),
    "convnext": ConvNext,
    "dense": Dense,
    "pyramid": Pyramid,
    "smooth pyramid": lambda: Pyramid("bilinear"),
    "atrous": Atrous,
    "grouped": Grouped,
    "pooled": Pooled,
    "attention": PixelAttention,
    "instance": Instance,
}
RESULTS: Final = ("classes", "map", "larger", "halves", "sizes")


class ImageNet(nn.Module):
    """A stem, blocks, and a head."""

    def __init__(self, blocks: Sequence[str], result: str, stride: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, stride=stride, padding=1)
        self.blocks = nn.Sequential(*(BLOCKS[name]() for name in blocks))
        self.kind, self.head = result, nn.Conv2d(CHANNELS, 12, 1)
        self.up, self.last = nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, stride=2), nn.Linear(CHANNELS, 5)

    def forward(self, x: Tensor) -> Any:
        """Images (batch, 3, height, width)."""
        y = self.blocks(self.stem(x))
        match self.kind:
            case "classes":
                return torch.log_softmax(self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)), -1)
            case "map":
                return F.interpolate(self.head(y), size=x.shape[2:], mode="bilinear", align_corners=False).softmax(1)
            case "larger":
                return torch.tanh(F.pixel_shuffle(self.head(y), 2)), self.up(y)
            case "halves":
                return F.max_pool2d(y, 2), y[:, :, ::2], y.flip(-1)
            case _:
                return y.sum((2, 3)) / (y.shape[2] * y.shape[3]), y.amax((2, 3)), y.shape[2]


def image_net(blocks: Sequence[str], result: str = "classes", varies: str = "hw", stride: int = 1) -> Sized:
    """A network of images.

    Args:
        blocks: Names among `BLOCKS`.
        result: One of `RESULTS`.
        varies: Two of the letters b, h, w: which sizes vary; the others are 2, 12 and 14.
        stride: Of the stem.
    """
    fixed = {"b": 2, "h": 12, "w": 14}
    least = {"b": 1, "h": 8, "w": 8}
    axis = {"b": 0, "h": 2, "w": 3}

    def inputs(first: int, second: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        sizes = {**fixed, varies[0]: first, varies[1]: second}
        return (torch.randn(sizes["b"], 3, sizes["h"], sizes["w"], generator=generator),)

    return Sized(
        lambda: ImageNet(blocks, result, stride),
        inputs,
        ((least[varies[0]], 40), (least[varies[1]], 40)),
        {"x": {axis[varies[0]]: 0, axis[varies[1]]: 1}},
        (3 if varies[0] == "b" else 12, 15),
    )


def random_image_net(rng: random.Random) -> Sized:
    """A network of images with random blocks."""
    blocks = [rng.choice(list(BLOCKS)) for _ in range(rng.randint(1, 3))]
    return image_net(blocks, rng.choice(RESULTS), rng.choice(("hw", "bh", "bw")), rng.choice((1, 2)))


# In the style of the network that each is named after.
IMAGES: Final[dict[str, Sized]] = {
    "resnet": image_net(["residual", "residual"], varies="bh"),
    "mobilenet_v2": image_net(["inverted", "inverted"], stride=2),
    "mobilenet_v3": image_net(["excited", "inverted"], stride=2),
    "convnext": image_net(["convnext", "convnext"], varies="bw"),
    "densenet": image_net(["dense", "dense"]),
    "feature pyramid": image_net(["residual", "pyramid"], "halves"),
    "unet": image_net(["smooth pyramid", "residual"], "map"),
    "deeplab": image_net(["inverted", "atrous"], "map", stride=2),
    "shufflenet": image_net(["grouped", "grouped"], "sizes"),
    "inception": image_net(["pooled", "dense"], varies="bh"),
    "super resolution": image_net(["residual", "instance"], "larger"),
    "pixel attention": image_net(["attention", "grouped"], "sizes", varies="bh"),
}
