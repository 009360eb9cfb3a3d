"""Buffers that live at the same time never share memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic.backend.dnnl.arena import ALIGNMENT, Lifetime, place

LIFETIMES = st.lists(
    st.builds(lambda n, first, length: Lifetime(n, first, first + length), *(st.integers(0, m) for m in (500, 12, 4))),
    max_size=20,
)


@given(LIFETIMES)
@settings(deadline=None, max_examples=200)
def test_living_buffers_do_not_overlap(lifetimes: list[Lifetime]):
    offsets, total = place(lifetimes)
    spans = [(o, o + a.nbytes, a) for o, a in zip(offsets, lifetimes, strict=True) if a.nbytes]
    for i, (start, end, a) in enumerate(spans):
        assert start % ALIGNMENT == 0
        assert end <= total
        for other_start, other_end, b in spans[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or end <= other_start or other_end <= start


def test_a_chain_needs_two_buffers():
    chain = [Lifetime(640, i, i + 1) for i in range(9)]
    assert place(chain)[1] == 2 * 640


def test_nothing_needs_nothing():
    assert place([]) == ((), 0)
    assert place([Lifetime(0, 0, 3)]) == ((0,), 0)
