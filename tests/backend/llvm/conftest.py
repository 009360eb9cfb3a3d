"""Programs of these tests are small, and still for all threads: what is tested is what several of them do."""

from __future__ import annotations

import pytest

from eutectic.backend.llvm import program


@pytest.fixture(autouse=True)
def small_work_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "ALONE_FLOPS", 0)
