"""The likeliest faults of fusing compilers, eleven to twenty: programs for each, compared with torch eager."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
import warnings

import pytest
import torch
from torch import nn

import eutectic
from eutectic.relax.dpl import is_op, wildcard
from eutectic.relax.transform import FuseOpsByPattern
from eutectic.support.errors import EutecticAdvice
from eutectic.testing.eager import Net, check, compare, module, same_as_eager

torch.manual_seed(0)
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-42, -5.0, 5.0])
X = torch.randn(2, 4, 8, 8)


def conv(channels: int = 4, kernel: int = 3, **options) -> nn.Conv2d:
    return nn.Conv2d(4, channels, kernel, **options)


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
    assert_same_results(mod, FuseOpsByPattern([("d.l", long), ("d.s", short)])(mod))
    with pytest.warns(EutecticAdvice, match=r"put d\.l before d\.s"):
        fused = FuseOpsByPattern([("d.s", short), ("d.l", long)])(mod)
    assert_same_results(mod, fused)


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
