"""The quota of a container limits how many threads a call uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from eutectic.runtime import team
from eutectic.runtime.quota import processor_quota


def _groups(folder: Path, limits: dict[str, str], own: str = "0::/a/b\n") -> tuple[Path, Path]:
    for name, text in limits.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "own").write_text(own)
    return folder, folder / "own"


@pytest.mark.parametrize(
    ("limits", "processors"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"a/b/cpu.max": "200000 100000\n"}, 2),
        ({"a/b/cpu.max": "150000 100000\n"}, 2),
        ({"a/b/cpu.max": "10000 100000\n"}, 1),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "cpu.max": "400000 100000"}, 3),
        ({"a/b/cpu.max": "strange"}, None),
        ({"a/b/cpu.max": "5 0"}, None),
        ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_quotas(limits: dict[str, str], processors: int | None, tmp_path: Path):
    assert processor_quota(*_groups(tmp_path, limits)) == processors


def test_groups_outside_of_the_mount_are_not_looked_at(tmp_path: Path):
    assert processor_quota(*_groups(tmp_path / "in", {"../cpu.max": "100000 100000"}, "0::/../x\n")) is None


def test_threads_follow_the_quota(monkeypatch: pytest.MonkeyPatch):
    for variable in ("EUTECTIC_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(team.os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(team, "processor_quota", lambda: 3)
    assert team.available_threads() == 3
    assert team.available_threads(5) == 5
    monkeypatch.setattr(team, "processor_quota", lambda: None)
    assert team.available_threads() == 8
