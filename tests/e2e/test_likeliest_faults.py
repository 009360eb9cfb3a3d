"""The twenty likeliest faults of fusing compilers, at least one program each, compared with torch eager."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import eutectic
from eutectic.relax.dpl import is_op, wildcard
from eutectic.relax.transform import FuseOpsByPattern
from eutectic.support.errors import CallError, EutecticAdvice

sys.path.insert(0, str(Path(__file__).parent))
from eager import Wrap, check, compare, module, same_as_eager

torch.manual_seed(0)
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42, -5.0, 5.0])


def conv(channels: int = 4, kernel: int = 3, **options) -> nn.Conv2d:
    return nn.Conv2d(4, channels, kernel, **options)


class Net(nn.Module):
    """Submodules by name and a forward function of them."""

    def __init__(self, forward, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.run = forward

    def forward(self, *args):
        return self.run(self, *args)


X = torch.randn(2, 4, 8, 8)


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


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.1, 0.1), nn.Sigmoid(), nn.GELU(), nn.SiLU()])
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


# 11. narrow accumulators, integer wrap-around


def test_11_half_precision_sums_and_integers_that_wrap():
    check(lambda x: x.sum(), torch.full((4096,), 0.5, dtype=torch.float16))
    check(lambda x: x.sum(), torch.full((300,), 100, dtype=torch.int8))
    check(lambda x: x * x, torch.full((3,), 100, dtype=torch.int8))
    check(lambda x: x.half().float() + 1e-4, torch.randn(5))
    check(lambda x: (x * 1000).to(torch.int32) // 7, torch.randn(50))


# 12. negative and out-of-range indices


def test_12_indices():
    table = torch.randn(5, 3)
    check(Net(lambda s, i: s.e(i), e=nn.Embedding(5, 3)), torch.tensor([0, 4, 2]))
    check(lambda x: (x[-1], x[1:100], x[-3:-1], x[::2], x[:, -2]), table)
    check(lambda x, i: x.index_select(0, i), table, torch.tensor([4, 0, 0]))
    check(lambda x, i: x.gather(1, i), table, torch.tensor([[0, 2], [1, 1]]))


def test_12_an_index_out_of_range_is_an_error():
    compiled = eutectic.compile(module(Net(lambda s, i: s.e(i), e=nn.Embedding(5, 3))), (torch.tensor([0]),))
    with pytest.raises((IndexError, eutectic.EutecticError)):
        compiled(torch.tensor([5]))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_12_division_and_remainder_of_negative_numbers(mode):
    a, b = torch.tensor([-7, 7, -7, 7]), torch.tensor([2, -2, -2, 2])
    check(lambda a, b: torch.div(a, b, rounding_mode=mode), a, b)
    check(lambda a, b: (a % b, torch.fmod(a, b)), a, b)
    check(lambda a, b: torch.div(a, b, rounding_mode=mode), a.float(), b.float())


# 13. layout


def test_13_strides_are_honoured():
    net = nn.Sequential(conv(), nn.ReLU())
    check(net, X.to(memory_format=torch.channels_last))
    check(net, torch.randn(1, 4, 1, 8).expand(2, 4, 8, 8))
    check(net, torch.randn(2, 4, 16, 16)[:, :, ::2, ::2])
    check(net.to(memory_format=torch.channels_last), X)
    check(lambda x: x.t().reshape(-1), torch.randn(3, 4))
    check(lambda x: x.permute(2, 0, 1).contiguous().view(-1), torch.randn(2, 3, 4))
    check(lambda x: x.flip(0), torch.randn(5)[1:])


# 14. batch norm


class ConvNorm(nn.Sequential):
    """A convolution and a batch norm with statistics of their own."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__(*parts)
        for part in self:
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
                nn.init.normal_(part.running_mean)
                nn.init.uniform_(part.running_var, 0.5, 2)
                if part.affine:
                    nn.init.normal_(part.weight)
                    nn.init.normal_(part.bias)


@pytest.mark.parametrize("options", [{}, {"eps": 0.1}, {"affine": False}], ids=str)
def test_14_batch_norm(options):
    check(ConvNorm(conv(6), nn.BatchNorm2d(6, **options), nn.ReLU6()), X)
    check(ConvNorm(conv(6), nn.ReLU(), nn.BatchNorm2d(6, **options), nn.ReLU()), X)
    check(ConvNorm(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6, **options)), X)
    check(ConvNorm(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6, **options)), torch.randn(2, 4, 9))
    check(ConvNorm(nn.Linear(4, 6), nn.BatchNorm1d(6, **options)), torch.randn(2, 4))


def test_14_batch_norm_of_a_shared_or_reused_convolution():
    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y, self.norm(self.conv(x + 1))

    check(Net(forward, conv=conv(6), norm=ConvNorm(nn.BatchNorm2d(6))), X)


def test_14_batch_norm_before_a_padded_convolution():
    check(ConvNorm(nn.BatchNorm2d(4), conv(6, 3, padding=1)), X)


@pytest.mark.filterwarnings("ignore:.*track_running_stats.*")
def test_14_instance_statistics_at_run_time():
    check(nn.InstanceNorm2d(4, affine=True), X)


# 15. groups, dilation, output padding, depthwise multipliers, 1-d and 3-d


@pytest.mark.parametrize(
    ("kind", "options", "shape"),
    [
        (nn.Conv1d, {"groups": 2, "dilation": 2}, (2, 4, 12)),
        (nn.Conv2d, {"groups": 4}, (2, 4, 6, 6)),
        (nn.Conv2d, {"groups": 2, "stride": (2, 1), "dilation": (1, 2)}, (2, 4, 9, 9)),
        (nn.Conv3d, {"groups": 2, "padding": 1}, (1, 4, 4, 5, 6)),
        (nn.ConvTranspose1d, {"stride": 2, "output_padding": 1}, (2, 4, 6)),
        (nn.ConvTranspose2d, {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}, (2, 4, 5, 4)),
        (nn.ConvTranspose2d, {"dilation": 2}, (1, 4, 4, 4)),
        (nn.ConvTranspose3d, {"stride": 2}, (1, 4, 3, 3, 3)),
    ],
    ids=str,
)
def test_15_convolutions_of_every_kind(kind, options, shape):
    check(nn.Sequential(kind(4, 8, 3, **options), nn.ReLU()), torch.randn(shape))


# 16. rewrites that are not identities


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 0,
        lambda x: x * 0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: x / 3,
        lambda x: (x * 3) / 3,
        lambda x: (x + 1e8) - 1e8,
        lambda x: x * 2 // 2,
        lambda x: 0 - x,
        lambda x: x**2,
    ],
)
@pytest.mark.filterwarnings("ignore::eutectic.support.errors.EutecticAdvice")
def test_16_arithmetic_is_not_simplified(function):
    net = module(function)
    x = torch.cat([SPECIAL, torch.randn(50)])
    got, want = eutectic.compile(net, (x,))(x), net(x)
    assert torch.equal(torch.isnan(got), torch.isnan(want))
    assert torch.equal(got[~torch.isnan(want)], want[~torch.isnan(want)])


# 17. merging regions, order of patterns


def test_17_paths_that_leave_and_return():
    def forward(self, x):
        a = self.a(x)
        b = torch.cumsum(a, 3)
        return torch.relu(self.b(a + b)) + a

    check(Net(forward, a=conv(4, 1), b=conv(4, 1)), X)


def test_17_a_short_pattern_first_does_not_change_the_result():
    from eutectic.relax import op
    from eutectic.testing.graphs import assert_same_results, graph, weights

    mod = graph({"x": (1, 4, 4, 4)}, lambda bb, x: op.nn.relu(op.add(op.nn.conv2d(x, weights(4, 4, 1, 1)), x)))
    short = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    long = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.nn.conv2d")(wildcard(), wildcard()), wildcard()))
    for order in ([("d.s", short), ("d.l", long)], [("d.l", long), ("d.s", short)]):
        assert_same_results(mod, FuseOpsByPattern(order)(mod))


# 18. floors and remainders of symbolic sizes


def test_18_sizes_computed_from_a_dynamic_one():
    net = module(nn.Sequential(nn.Conv1d(2, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Conv1d(3, 3, 2, stride=2)))
    length = torch.export.Dim("length", min=8, max=64)
    compiled = eutectic.compile(net, (torch.randn(1, 2, 20),), dynamic_shapes=({2: length},), verify=True)
    for n in (8, 9, 20, 33, 64):
        same_as_eager(net, compiled, (torch.randn(1, 2, n),))


# 19. trees of inputs and outputs, names


Pair = collections.namedtuple("Pair", "first second")


def test_19_structures_of_results():
    def forward(self, x):
        y = self.conv(x)
        return {"a": y, "list": [y, x], "none": None, "number": 3}

    check(Net(forward, conv=conv()), X)
    check(lambda x: (x, x), torch.randn(3))
    check(lambda x, unused: [x.relu()], torch.randn(3), torch.randn(4))


def test_19_parameters_shared_and_oddly_named():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.register_buffer("lv", torch.randn(4))
            self.register_buffer("cls", torch.randn(4))
            self.register_buffer("gv1", torch.randn(4), persistent=False)

        def forward(self, main):
            return self.b(torch.relu(self.a(main + self.lv))) * self.cls + self.gv1

    check(Shared(), torch.randn(2, 4))


def test_19_keyword_arguments():
    class Options(nn.Module):
        def forward(self, x, *, scale):
            return x * scale

    net = Options().eval()
    compiled = eutectic.compile(net, (torch.ones(3),), kwargs={"scale": torch.tensor(2.0)})
    compare(compiled(torch.ones(3), scale=torch.tensor(5.0)), torch.full((3,), 5.0))


def test_19_arrays_in_arrays_out():
    net = module(nn.Sequential(conv(), nn.ReLU()))
    got = eutectic.compile(net, (X,))(X.numpy())
    assert type(got).__name__ == "ndarray"
    compare(torch.from_numpy(got), net(X).detach())


# 20. threads, processes, depth


def test_20_eight_threads():
    net = module(nn.Sequential(conv(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)))
    compiled = eutectic.compile(net, (X,))
    inputs = [torch.randn(2, 4, 8, 8) for _ in range(8)]
    with torch.no_grad():
        wanted = [net(x) for x in inputs]
    errors: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for _ in range(50):
                compare(compiled(inputs[i]), wanted[i])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_20_a_forked_child_can_call():
    code = (
        "import os, sys, torch, eutectic\n"
        "net = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU()).eval()\n"
        "x = torch.randn(1, 4, 32, 32)\n"
        "model = eutectic.compile(net, (x,), threads=2)\n"
        "want = model(x)\n"
        "for _ in range(5):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        os._exit(0 if torch.equal(model(x), want) else 3)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120, env=env)


def test_20_a_long_chain_compiles():
    def forward(self, x):
        for i in range(600):
            x = torch.tanh(x) if i % 2 else x + 1
        return x

    check(Net(forward), torch.randn(3))


def test_warnings_are_ours_alone():
    """Compiling and calling an ordinary model warns about nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(nn.Sequential(conv(), nn.ReLU6()), X)
    assert issubclass(EutecticAdvice, UserWarning)
