"""What all tests share: hypothesis profiles, golden files, one thread per parallel worker, skips of GPU tests, time."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import tiers

from eutectic.ir import transform
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_digest
from eutectic.relax.analysis import well_formed
from eutectic.testing.round_trip import check_round_trip

if "PYTEST_XDIST_WORKER" in os.environ:  # read by OpenMP when the first kernel library loads, hence before any test
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Programs are many small objects: at Python's own threshold of 700, searches for cycles among all that torch and the
# tests keep take a good part of the time of tests that use torch, 24 of 107 seconds in those of the driver.
gc.set_threshold(50_000, 10, 10)

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"

_common = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, derandomize=True, database=None, **_common)
settings.register_profile("ci", max_examples=300, derandomize=True, database=None, **_common)
settings.register_profile("nightly", max_examples=5000, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

Golden = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Keep kernels in a folder of this run, which parallel workers share: the user's and what they tuned is left alone.

    It is said before tests are collected, because some modules compile while they are imported. Workers inherit it.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.mkdtemp(prefix="eutectic-tests-")
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
        os.environ["EUTECTIC_CACHE_DIR"] = folder
        os.environ["EUTECTIC_CACHE_MODELS"] = "0"  # tests look at passes, which a model that is read does not need
        os.environ["EUTECTIC_TUNING_FILE"] = ""  # choices are those of the rules
    tiers.configure(config)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.arrange(config, items)
    if not Path("/dev/nvidiactl").exists():
        skip = pytest.mark.skip(reason="no CUDA device (/dev/nvidiactl is missing)")
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(skip)


def pytest_runtest_setup(item: pytest.Item) -> None:
    tiers.skip_if_late(item)


def pytest_collection_finish() -> None:
    """Leave what lives for the whole run out of searches for cycles: modules, and tests with their parameters."""
    gc.collect()
    gc.freeze()


class _Modules:
    """Modules that passes took or gave during a test; each program is kept once per process."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.fresh: list[IRModule] = []

    def see(self, mod: IRModule) -> None:
        digest = structural_digest(mod)
        if digest not in self.known and mod.functions:
            self.known.add(digest)
            self.fresh.append(mod.clone())


_modules = _Modules()


class _ObservedRecord(transform.PassRecord):
    """The record of a pass, which is made whenever one has run."""

    def __post_init__(self) -> None:
        _modules.see(self.before)
        if self.after is not self.before:
            _modules.see(self.after)


transform.PassRecord = _ObservedRecord


@pytest.fixture(autouse=True)
def every_module_has_a_text() -> Iterator[None]:
    """Whatever well-formed module went through a pass during a test must survive printing and parsing."""
    yield
    fresh, _modules.fresh = _modules.fresh, []
    for mod in fresh:
        if well_formed(mod):
            check_round_trip(mod)


@pytest.fixture
def narrow_takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Says how long oneDNN takes in 16 bits, over the time of float32."""
    return lambda share: monkeypatch.setattr("eutectic.backend.dnnl.speed.time_share", lambda dtype: share)


@pytest.fixture
def narrow_is_faster(narrow_takes: Callable[[float], None]) -> None:
    """oneDNN is said to be faster in 16 bits, so that what it computes is looked at where it is slower, too."""
    narrow_takes(0.01)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare text with `tests/golden/<path of the test module>/<test>[.<part>].txt`; see `--update-golden`.

    A test that has several texts gives each a `part`; without parts it calls the fixture once.
    """
    folder = GOLDEN / request.path.relative_to(TESTS).with_suffix("")
    test = re.sub(r"[^\w.,=+-]+", "_", request.node.name).strip("_")
    seen: set[str] = set()

    def check(text: str, part: str = "") -> None:
        assert part not in seen, f"golden text {part!r} given twice by one test: name the parts"
        seen.add(part)
        path = folder / f"{test}{'.' + part if part else ''}.txt"
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {path.relative_to(TESTS)}; write it with pytest --update-golden:\n{text}")
        want = path.read_text(encoding="utf-8")
        if text != want:
            lines = (want.splitlines(), text.splitlines())
            diff = unified_diff(*lines, fromfile=str(path.relative_to(TESTS)), tofile="this run", lineterm="")
            pytest.fail("golden text differs:\n" + "\n".join(diff))

    return check
