"""The last few things by key are kept, the others are made again."""

from __future__ import annotations

import threading
import time

from eutectic.runtime.recently_used import RecentlyUsed


def test_what_was_not_asked_for_longest_is_forgotten():
    kept: RecentlyUsed[str, object] = RecentlyUsed(2)
    a, b = kept.get("a", object), kept.get("b", object)
    assert kept.get("a", object) is a
    kept.get("c", object)
    assert len(kept) == 2
    assert kept.get("a", object) is a
    assert kept.get("b", object) is not b


def test_a_failure_is_not_kept():
    kept: RecentlyUsed[int, int] = RecentlyUsed(2)
    for _ in range(2):
        try:
            kept.get(1, lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError("the failure was swallowed")
    assert (len(kept), kept.get(1, lambda: 5)) == (0, 5)


def test_threads_that_make_one_key_at_once_get_one_value():
    kept: RecentlyUsed[int, object] = RecentlyUsed(2)
    found: list[object] = []

    def slowly() -> object:
        time.sleep(0.05)
        return object()

    threads = [threading.Thread(target=lambda: found.append(kept.get(1, slowly))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(value) for value in found}) == 1
