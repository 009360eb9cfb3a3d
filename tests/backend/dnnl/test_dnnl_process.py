"""Threads, fork, and other users of the same process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from tests.backend.dnnl.dnnl_regions import assert_close, call, normal, region_of

from eutectic.backend.dnnl.library import Library, availability, load
from eutectic.backend.dnnl.spec import Convolution, Matmul, PostEltwise, TensorSpec
from eutectic.backend.dnnl.threads import on_living_pool
from eutectic.support.errors import LoadError

pytestmark = [
    pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}"),
    # Python 3.12 and later warn at a fork beside other threads, which is what is tested.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def network(threads: int | None = None):
    shape = (1, 32, 14, 14)
    x, w = normal(*shape), normal(32, 32, 3, 3, seed=1)
    one = (1, 1)
    steps = [Convolution("x", "w", None, TensorSpec("y", shape), one, one, one, one, 1, False, (PostEltwise("tanh"),))]
    return {"x": x}, region_of({"x": x}, {"w": w}, steps, ["y"], threads=threads)


def test_eight_threads_share_a_region():
    _, region = network()
    arguments = [normal(1, 32, 14, 14, seed=i) for i in range(8)]
    wanted = [call(region, {"x": x})[0] for x in arguments]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(100):
            if not np.array_equal(call(region, {"x": arguments[i]})[0], wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_thread_count_is_used_and_restored():
    get_threads = load().function("omp_get_max_threads")
    before = get_threads()
    results = []
    for threads in (1, 2, 3, None):
        inputs, region = network(threads)
        assert region.threads == (threads or before)
        results.append(call(region, inputs)[0])
        assert get_threads() == before
    for result in results[1:]:
        assert_close(result, results[0])


def test_denormals_survive_and_the_control_word_is_unchanged():
    x = np.full((4, 4), 1e-40, np.float32)
    steps = [Matmul("x", "w", None, TensorSpec("y", (4, 4)))]
    region = region_of({"x": x}, {"w": np.eye(4, dtype=np.float32)}, steps, ["y"])
    environment = ctypes.create_string_buffer(64)
    libm = ctypes.CDLL("libm.so.6")
    libm.fegetenv(environment)
    before = environment.raw
    (got,) = call(region, {"x": x})
    libm.fegetenv(environment)
    # The last word of fenv_t is MXCSR; its low six bits are sticky exception flags.
    assert int.from_bytes(environment.raw[28:32], "little") & ~0x3F == int.from_bytes(before[28:32], "little") & ~0x3F
    assert float(np.float32(1e-40) * np.float32(1)) != 0
    np.testing.assert_array_equal(got, x)


def in_child(function) -> int:
    """Exit status of the function in a forked child, -1 when it hangs."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -1


@pytest.mark.parametrize("threads", [None, 2])
def test_a_forked_child_computes(threads: int | None):
    inputs, region = network(threads)
    (want,) = call(region, inputs)

    def child() -> None:
        for _ in range(3):
            np.testing.assert_array_equal(call(region, inputs)[0], want)
        again, fresh = network(threads)
        np.testing.assert_array_equal(call(fresh, again)[0], want)
        assert in_child(lambda: np.testing.assert_array_equal(call(region, inputs)[0], want)) == 0
        region.profile([inputs["x"]], [np.empty_like(want)])

    for _ in range(5):
        assert in_child(child) == 0
    np.testing.assert_array_equal(call(region, inputs)[0], want)


def test_an_error_in_a_forked_child_arrives():
    inputs, region = network()
    call(region, inputs)

    def child() -> None:
        with pytest.raises(ZeroDivisionError):
            on_living_pool(lambda: 1 / 0)

    assert in_child(child) == 0


PROGRAM = """
    import sys
    order = sys.argv[1]
    if order == "torch first":
        import torch
        torch.ones(300, 300) @ torch.ones(300, 300)
    import numpy as np
    from eutectic.backend.dnnl.engine import compile_region
    from eutectic.backend.dnnl.spec import Matmul, RegionSpec, TensorSpec
    shape = (256, 256)
    x, w, y = (TensorSpec(n, shape) for n in "xwy")
    a, b = (np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i in (0, 1))
    region = compile_region(RegionSpec("f", (x,), (w,), (Matmul("x", "w", None, y),), ("y",)), {"w": b}, threads=2)
    out = np.empty(shape, np.float32)
    region.run([a], [out])
    import torch
    for _ in range(20):
        region.run([a], [out])
        theirs = torch.tensor(a) @ torch.tensor(b)
        assert np.abs(out - theirs.numpy()).max() < 1e-3
    libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line}
    print(len(libraries), region.threads)
"""


@pytest.mark.parametrize("order", ["torch first", "oneDNN first"])
def test_torch_in_the_same_process(order: str):
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), order]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2"]


def test_importing_loads_nothing_and_starts_nothing():
    program = """
        import threading
        import eutectic.backend.dnnl.engine
        assert threading.active_count() == 1
        assert "libdnnl" not in open("/proc/self/maps").read()
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_availability_says_what_it_found():
    found = availability()
    assert (found.ok, found.reason) == (True, "")
    assert found.version.startswith("3.")
    assert found.isa
    assert availability().version == load().version


@pytest.mark.parametrize(
    ("path", "reason"), [("/nonexistent/libdnnl.so.3", "cannot"), ("libm.so.6", "undefined symbol")]
)
def test_a_wrong_library_is_refused(path: str, reason: str):
    with pytest.raises(LoadError, match=f"cannot use {path} as oneDNN.*{reason}"):
        Library(path)


def test_the_environment_variable_excludes_all_others():
    program = """
        from eutectic.backend.dnnl.library import availability
        found = availability()
        assert not found.ok and "/nonexistent.so" in found.reason and found.version == "", found
    """
    paths = os.pathsep.join(p for p in sys.path if p)
    environment = os.environ | {"PYTHONPATH": paths, "EUTECTIC_DNNL_LIBRARY": "/nonexistent.so"}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr
