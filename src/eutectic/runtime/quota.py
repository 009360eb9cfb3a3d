"""How much processor time this process may use, where a container limits it.

Reference: Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max; Documentation/scheduler/sched-bwc.rst for version 1.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def processor_quota(root: Path = ROOT, own: Path = OWN) -> int | None:
    """Whole processors that the quota of this process is worth, at least one; None without a quota.

    Args:
        root: Where control groups are mounted.
        own: The file that names the groups of this process.
    """
    groups = [_version_2(folder / "cpu.max") for folder in _folders(root, own)]
    groups += [_version_1(root / name) for name in ("cpu", "cpu,cpuacct")]
    shares = [share for share in groups if share is not None]
    return max(1, ceil(min(shares))) if shares else None


def _folders(root: Path, own: Path) -> list[Path]:
    """The group of this process and those around it, as limits of all of them hold."""
    path = next((line[3:] for line in _text(own).splitlines() if line.startswith("0::")), "/")
    inner = root / path.strip("/")
    around = [folder for folder in inner.parents if folder.is_relative_to(root)]
    return [inner, *around] if ".." not in inner.parts else [root]


def _version_2(file: Path) -> float | None:
    words = _text(file).split()
    return _ratio(*words) if len(words) == 2 else None


def _version_1(folder: Path) -> float | None:
    return _ratio(_text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip())


def _ratio(quota: str, period: str) -> float | None:
    """Processors; None for `max`, -1 and what is no number."""
    is_limit = quota.isdigit() and period.isdigit() and int(period) > 0
    return int(quota) / int(period) if is_limit else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
