"""The likeliest faults of fusing compilers, one to ten: programs for each, compared with torch eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import eutectic
from eutectic.support.errors import CallError
from eutectic.testing.eager import Net, Wrap, check, compare, module, same_as_eager

torch.manual_seed(0)
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42, -5.0, 5.0])
X = torch.randn(2, 4, 8, 8)


def conv(channels: int = 4, kernel: int = 3, **options) -> nn.Conv2d:
    return nn.Conv2d(4, channels, kernel, **options)


# 1. NaN lost in max, min, relu, clip


@pytest.mark.parametrize(
    "function",
    [
        torch.relu,
        F.relu6,
        F.hardtanh,
        F.hardsigmoid,
        F.hardswish,
        F.silu,
        F.gelu,
        F.elu,
        F.leaky_relu,
        torch.sigmoid,
        torch.tanh,
        torch.exp,
        lambda x: torch.clamp(x, -1, 2),
        lambda x: torch.clamp(x, min=0.5),
        lambda x: torch.maximum(x, torch.zeros_like(x)),
        lambda x: torch.minimum(torch.ones_like(x), x),
        lambda x: x.amax(),
        lambda x: x.amin(0),
        lambda x: F.softmax(x, 0),
    ],
    ids=lambda f: getattr(f, "__name__", "lambda"),
)
@pytest.mark.parametrize("precision", ["default", "strict"])
@pytest.mark.filterwarnings("ignore::eutectic.support.errors.EutecticAdvice")
def test_01_special_values_survive(function, precision):
    check(function, SPECIAL.clone(), precision=precision)


@pytest.mark.filterwarnings("ignore::eutectic.support.errors.EutecticAdvice")
def test_01_nan_survives_fused_convolutions_and_pools():
    x = X.clone()
    x[0, 1, 2, 3] = float("nan")
    x[1, 2, 4, 4] = float("inf")
    check(nn.Sequential(conv(), nn.ReLU6(), nn.MaxPool2d(2)), X, calls=[(x,)])


# 2. dtype rules


@pytest.mark.parametrize(
    "function",
    [
        lambda i, f, b: i + f,
        lambda i, f, b: i / 2,
        lambda i, f, b: i // 2,
        lambda i, f, b: i * 2.5,
        lambda i, f, b: f.half() + 1,
        lambda i, f, b: b + 1,
        lambda i, f, b: b & (i > 0),
        lambda i, f, b: i.to(torch.int8) + i,
        lambda i, f, b: f.double() + f,
        lambda i, f, b: i @ i.t(),
        lambda i, f, b: torch.where(b, i, f),
        lambda i, f, b: f.bfloat16() * 3,
        lambda i, f, b: b.sum() + i.sum(),
        lambda i, f, b: i % 3,
        lambda i, f, b: -i // 4,
        lambda i, f, b: i > 1.5,
    ],
)
def test_02_types_follow_torch(function):
    i = torch.arange(-4, 8).reshape(3, 4)
    check(function, i, torch.randn(3, 4), torch.randn(3, 4) > 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_02_convolutions_keep_their_dtype(dtype):
    check(nn.Sequential(conv(), nn.ReLU()).to(dtype), X.to(dtype))


# 3. an add that is not a bias


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1), (4,), (4, 4, 4), (1, 1, 1), (1, 4, 1, 1)])
def test_03_added_tensors_of_any_shape(shape):
    def forward(self, x, b):
        return torch.relu(self.conv(x) + b)

    check(Net(forward, conv=conv(4, 1, bias=False)), torch.randn(1, 4, 4, 4), torch.randn(shape))
    constant = torch.randn(shape)
    check(Net(lambda self, x: torch.relu(self.conv(x) + constant), conv=conv(4, 1)), torch.randn(1, 4, 4, 4))


@pytest.mark.parametrize("alpha", [1, 2, -0.5])
def test_03_alpha_scales(alpha):
    check(Net(lambda s, x: F.relu(torch.add(s.conv(x), s.conv(x).mean(), alpha=alpha)), conv=conv()), X)
    check(Net(lambda s, x: F.relu(torch.sub(s.a(x), x, alpha=alpha)), a=conv(4, 1)), X)


def test_03_values_per_sample_and_residuals():
    check(Net(lambda s, x, b: F.relu(s.conv(x) + b), conv=conv(4, 1)), torch.randn(4, 4, 4, 4), torch.randn(4, 1, 1, 1))
    check(Net(lambda s, x: F.relu(s.conv(x) + x), conv=conv(4, 1)), X)
    check(Net(lambda s, x: s.conv(x) + s.conv(x), conv=conv(4, 1)), X)
    check(Net(lambda s, x: x - s.conv(x), conv=conv(4, 1)), X)


# 4. several consumers


def test_04_values_read_several_times():
    def forward(self, x):
        y = self.conv(x)
        z = torch.relu(y)
        return y, z, z + y, y.sum()

    check(Net(forward, conv=conv()), X)


def test_04_a_shared_convolution():
    def forward(self, x):
        return torch.relu(self.conv(x)) + torch.tanh(self.conv(x * 2))

    check(Net(forward, conv=conv()), X)


def test_04_a_diamond_of_depth_forty_stays_small():
    def forward(self, x):
        for _ in range(40):
            x = torch.tanh(x + x)
        return x

    compiled = check(Net(forward), torch.randn(3))
    assert len(compiled.report.unfused) + len(compiled.report.composites) <= 81


# 5. in-place operators, views, aliases


def test_05_in_place_operators_keep_their_meaning():
    def forward(self, x):
        y = self.conv(x)
        z = y * 2
        y.relu_()
        y.add_(1)
        return y, z

    check(Net(forward, conv=conv()), X)
    check(nn.Sequential(conv(), nn.ReLU(inplace=True), conv(), nn.ReLU6(inplace=True)), X)


def test_05_views_see_later_writes():
    def forward(x):
        y = x.clone()
        view = y[0]
        y.mul_(3)
        view.add_(1)
        return y, view

    check(forward, torch.randn(3, 4))


def test_05_a_mutated_argument_is_written_back():
    def forward(x):
        x.add_(1)
        return x * 2

    check(forward, torch.randn(3, 4))


def test_05_slices_may_be_assigned():
    def forward(x):
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1]
        return y

    check(forward, torch.randn(3, 4))


def test_05_one_tensor_given_twice():
    net = Wrap(lambda a, b: (a + b, a * b)).eval()
    x = torch.randn(3)
    compiled = eutectic.compile(net, (torch.randn(3), torch.randn(3)))
    compare(compiled(x, x), net(x, x))


def test_05_results_belong_to_the_caller():
    net = Net(lambda s, x: (s.conv(x), s.conv(x).flatten(1)), conv=conv()).eval()
    compiled = eutectic.compile(net, (X,))
    first = compiled(X)
    kept = first[0].clone()
    first[1].zero_()
    second = compiled(X)
    assert torch.equal(second[0], kept)
    first[0].fill_(7)
    assert torch.equal(compiled(X)[0], kept)


def storages(x: torch.Tensor, results) -> list[int]:
    """For the argument and each result, the first of them whose memory it is in."""
    found = [t.untyped_storage().data_ptr() for t in (x, *(results if isinstance(results, tuple) else (results,)))]
    return [found.index(pointer) for pointer in found]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.relu(), x.relu()),
        lambda x: (x.relu(), x.relu().clone()),
        lambda x: (x.relu(),) * 2,
        lambda x: (x, x.clone()),
        lambda x: x.view(-1),
        lambda x: F.adaptive_avg_pool1d(x, 3),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: (x.relu(), x.relu().reshape(-1)),
        lambda x: (x.flatten(), x.float(), x.contiguous()),
    ],
)
def test_05_results_share_memory_exactly_where_eagers_do(function):
    x = torch.randn(2, 3)
    net = module(function)
    with torch.no_grad():
        want = storages(x, net(x))
    assert storages(x, eutectic.compile(net, (x,))(x)) == want


# 6. memory planning


def test_06_views_of_intermediates_live_long_enough():
    def forward(self, x):
        a = self.a(x)
        view = a.reshape(a.shape[0], -1)
        b = self.b(torch.relu(a))
        c = self.a(b)
        return view.sum(1), c, b

    check(Net(forward, a=conv(4, 3, padding=1), b=conv(4, 3, padding=1)), X)


def test_06_empty_tensors():
    check(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(0, 4))
    check(lambda x: x.sum(0), torch.zeros(0, 4))
    check(lambda x: torch.cat([x, x[:0]]), torch.randn(2, 3))


# 7. epilogues once, after the sum


@pytest.mark.parametrize(
    "activation", [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.1, 0.1), nn.Sigmoid(), nn.GELU(), nn.SiLU()]
)
def test_07_epilogues_are_applied_once(activation):
    check(nn.Sequential(nn.Linear(64, 32), activation), torch.randn(8, 64))
    check(nn.Sequential(conv(16), activation), X)


# 8. stale specialisation


def test_08_other_values_strides_and_offsets():
    base = torch.randn(3, 4, 8, 9)
    calls = [(base[1:, :, :, 1:],), (base[:2, :, :, :8].clone(),), (torch.randn(8, 8, 4, 2).permute(3, 2, 0, 1),)]
    check(nn.Sequential(conv(), nn.ReLU()), X, calls=calls)


def test_08_another_shape_dtype_or_number_is_refused():
    compiled = eutectic.compile(nn.Sequential(conv(), nn.ReLU()).eval(), (X,))
    with pytest.raises(CallError, match="size"):
        compiled(torch.randn(3, 4, 8, 8))
    with pytest.raises(CallError, match=r"float64|float32"):
        compiled(X.double())
    with pytest.raises(CallError):
        compiled(X, X)
    with pytest.raises(CallError):
        compiled()


def test_08_a_dynamic_batch_serves_every_size():
    net = module(nn.Sequential(conv(), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)))
    batch = torch.export.Dim("batch", min=1, max=16)
    compiled = eutectic.compile(net, (torch.randn(2, 4, 8, 8),), dynamic_shapes=({0: batch},), verify=True)
    for size in (1, 2, 7, 16, 1):
        same_as_eager(net, compiled, (torch.randn(size, 4, 8, 8),))
    with pytest.raises(CallError, match=r"17|16"):
        compiled(torch.randn(17, 4, 8, 8))


def test_08_a_python_number_that_export_fixed_is_checked():
    net = module(Net(lambda s, x, k: x * k))
    compiled = eutectic.compile(net, (torch.randn(3), 2))
    compare(compiled(torch.ones(3), 2), torch.full((3,), 2.0))
    with pytest.raises(CallError):
        compiled(torch.ones(3), 3)


# 9. tails


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 13, 17, 31, 33])
def test_09_extents_that_nothing_divides(size):
    check(nn.Sequential(nn.Conv2d(size, size + 1, 3, padding=1), nn.ReLU6()), torch.randn(1, size, size, 5))
    check(nn.Sequential(nn.Linear(size, size + 2), nn.GELU()), torch.randn(size, size))


# 10. padding


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("kernel", [2, 3, 4, 5])
@pytest.mark.parametrize("padding", ["same", "valid", 1, 2])
def test_10_convolution_padding(kernel, padding):
    check(nn.Sequential(conv(3, kernel, padding=padding), nn.ReLU()), X)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_10_padding_modes(mode):
    check(conv(3, 3, padding=1, padding_mode=mode), X)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_10_pooling(ceil_mode, padding, stride):
    x = torch.randn(1, 2, 8, 7) - 5  # negative, so that a zero from padding would win a maximum
    options = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    check(nn.MaxPool2d(3, **options), x)
    check(nn.AvgPool2d(3, **options), x)
    check(nn.AvgPool2d(3, **options, count_include_pad=False), x)


def test_10_explicit_padding():
    for widths, value in [((1, 2, 0, 1), 0.0), ((1, 1, 1, 1), 0.5), ((-1, 1, 0, -2), 0.0), ((0, 1), 0.0)]:
        check(Net(lambda s, x, w=widths, v=value: F.relu(s.conv(F.pad(x, w, value=v))), conv=conv()), X)


def test_10_dilated_max_pooling():
    check(nn.MaxPool2d(3, 1, 2 // 2, dilation=2), X)
