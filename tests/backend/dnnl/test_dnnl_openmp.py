"""oneDNN's parallel regions on our team: numbers, loops, barriers, nesting, many callers at once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.backend.dnnl import library
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.loading import loaded_code
from eutectic.backend.dnnl.native_text import native_text
from eutectic.backend.dnnl.openmp import share_team
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.pool_text import team_code
from eutectic.backend.llvm.program import library_code
from eutectic.runtime.team import team, team_size
from eutectic.target import Target

pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")
REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LONG = ctypes.c_int64


class OpenMP:
    """The functions that oneDNN calls."""

    def __init__(self) -> None:
        code = loaded_code(library_code(native_text(), machine_of(Target("llvm"))), team_code())
        assert share_team(library.load(), code, team(team_code(), 2))
        of = code.address
        self.thread = ctypes.CFUNCTYPE(ctypes.c_int)(of("eutectic_omp_get_thread_num"))
        self.threads = ctypes.CFUNCTYPE(ctypes.c_int)(of("eutectic_omp_get_num_threads"))
        self.inside = ctypes.CFUNCTYPE(ctypes.c_int)(of("eutectic_omp_in_parallel"))
        self.most = ctypes.CFUNCTYPE(ctypes.c_int)(of("eutectic_omp_get_max_threads"))
        self.set_most = ctypes.CFUNCTYPE(None, ctypes.c_int)(of("eutectic_omp_set_num_threads"))
        self.barrier = ctypes.CFUNCTYPE(None)(of("eutectic_GOMP_barrier"))
        start = [LONG] * 4 + [ctypes.POINTER(LONG)] * 2
        self.loop_start = ctypes.CFUNCTYPE(ctypes.c_int8, *start)(of("eutectic_GOMP_loop_static_start"))
        self.loop_next = ctypes.CFUNCTYPE(ctypes.c_int8, *start[4:])(of("eutectic_GOMP_loop_static_next"))
        self._begin = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)(
            of("eutectic_GOMP_parallel_start")
        )
        self._end = ctypes.CFUNCTYPE(None)(of("eutectic_GOMP_parallel_end"))

    def parallel(self, body: Callable[[], None], threads: int) -> None:
        """A region, as compiled code begins and ends it."""
        function = REGION(lambda _: body())
        self._begin(ctypes.cast(function, ctypes.c_void_p), None, threads)
        body()
        self._end()


@pytest.fixture(scope="module")
def openmp() -> OpenMP:
    return OpenMP()


@pytest.mark.parametrize("wanted", [1, 2, 3, 50])
def test_every_number_comes_once(openmp: OpenMP, wanted: int):
    for _ in range(50):
        seen: list[tuple[int, int, int]] = []
        openmp.parallel(lambda seen=seen: seen.append((openmp.thread(), openmp.threads(), openmp.inside())), wanted)
        count = min(wanted, team_size())
        assert sorted(seen) == [(i, count, int(count > 1)) for i in range(count)]
        assert (openmp.thread(), openmp.threads(), openmp.inside()) == (0, 1, 0)


def test_zero_asks_for_the_most(openmp: OpenMP):
    before = openmp.most()
    openmp.set_most(2)
    try:
        seen: list[int] = []
        openmp.parallel(lambda: seen.append(openmp.threads()), 0)
        assert seen == [min(2, team_size())] * min(2, team_size())
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(openmp.most).result() == before  # each thread has a number of its own
    finally:
        openmp.set_most(before)


def test_a_region_within_a_region_is_done_alone(openmp: OpenMP):
    seen: list[tuple[int, int]] = []

    def inner() -> None:
        seen.append((openmp.thread(), openmp.threads()))

    openmp.parallel(lambda: openmp.parallel(inner, 2), 2)
    assert seen == [(0, 1)] * min(2, team_size())


@pytest.mark.parametrize("chunk", [0, 1, 3, 100])
@pytest.mark.parametrize(("begin", "end", "step"), [(0, 10, 1), (3, 50, 7), (10, -11, -2), (5, 5, 1), (0, 1, 1)])
def test_loops_deal_every_iteration_once(openmp: OpenMP, begin: int, end: int, step: int, chunk: int):
    done: list[int] = []

    def body() -> None:
        first, last = LONG(), LONG()
        more = openmp.loop_start(begin, end, step, chunk, first, last)
        while more:
            done.extend(range(first.value, last.value, step))
            more = openmp.loop_next(first, last)

    openmp.parallel(body, 2)
    assert sorted(done) == sorted(range(begin, end, step))


def test_nobody_passes_a_barrier_early(openmp: OpenMP):
    if team_size() < 2:
        pytest.skip("one processor")
    for _ in range(100):
        arrived: list[int] = []
        seen: list[int] = []

        def body(arrived: list[int] = arrived, seen: list[int] = seen) -> None:
            arrived.append(openmp.thread())
            openmp.barrier()
            seen.append(len(arrived))

        openmp.parallel(body, 2)
        assert seen == [2, 2]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU6(),
            nn.Conv2d(32, 16, 1), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 64), nn.Softmax(-1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.serial
def test_many_callers_at_once_get_their_own_results():
    torch.manual_seed(0)
    net = Net().eval()
    inputs = [torch.randn(1, 3, 40, 40) for _ in range(8)]
    models = [eutectic.compile(net, (inputs[0],), target=target) for target in ("llvm -libs=dnnl", "llvm")]
    wanted = [[model(x).numpy().copy() for x in inputs] for model in models]
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(150):
            which, place = rng.integers(len(models)), rng.integers(len(inputs))
            got = models[which](inputs[place]).numpy()
            if not np.allclose(got, wanted[which][place], rtol=0, atol=1e-6):
                wrong.append(f"model {which}, input {place}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
