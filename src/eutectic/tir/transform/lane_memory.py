"""Which memory the iterations of a loop share: what decides whether they may work at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field

from eutectic.ir.prim_expr import IntImm, PrimExpr, Ramp, Var, lanes_of, sub
from eutectic.ir.structural import structural_equal
from eutectic.tir.analysis.index_facts import IndexFacts
from eutectic.tir.buffer import Buffer


class SerialOnly(Exception):  # no error: it says that a loop keeps its order, and never leaves the pass
    """The iterations of a loop cannot work at the same time."""


@dataclass
class AccessLog:
    """Accesses of one loop, by the memory they go to.

    Attributes:
        lanes: Iterations of the loop.
        facts: Ranges of all loops.
    """

    lanes: int
    facts: IndexFacts
    loads: list[tuple[Buffer, PrimExpr]] = field(default_factory=list)
    stores: list[tuple[Buffer, PrimExpr]] = field(default_factory=list)

    def load(self, buffer: Buffer, index: PrimExpr) -> None:
        """Remember a load."""
        self.loads.append((buffer, index))

    def store(self, buffer: Buffer, index: PrimExpr) -> None:
        """Remember a store of a vector.

        Raises:
            SerialOnly: two lanes may store to one element.
        """
        if not self.differs(index):
            raise SerialOnly
        self.stores.append((buffer, index))

    def store_once(self, buffer: Buffer, index: PrimExpr) -> None:
        """Remember a store of what is the same in all lanes."""
        self.stores.append((buffer, index))

    def differs(self, index: PrimExpr) -> bool:
        """Whether all lanes of an index are known to differ."""
        if not isinstance(index, Ramp):
            return False
        if isinstance(index.stride, IntImm):
            return index.stride.value != 0
        interval = self.facts.analyzer.const_int_bound(index.stride)
        return interval.lo > 0 or interval.hi < 0

    def check(self) -> None:
        """See that no iteration uses what another one stores.

        Raises:
            SerialOnly: one may do so.
        """
        by_data: dict[Var, list[tuple[Buffer, PrimExpr]]] = {}
        for buffer, index in self.stores:
            by_data.setdefault(buffer.data, []).append((buffer, index))
        for buffer, index in (*self.loads, *self.stores):
            for other, stored in by_data.get(buffer.data, ()):
                if stored is not index and not self._apart(buffer, index, other, stored):
                    raise SerialOnly
        for buffer, stored in self.stores:
            once = lanes_of(stored.dtype) == 1
            if once and any(loaded.data is buffer.data for loaded, _ in self.loads):
                raise SerialOnly

    def _apart(self, buffer: Buffer, index: PrimExpr, other: Buffer, stored: PrimExpr) -> bool:
        """Whether two accesses of one memory meet only within an iteration.

        Where the distance is not constant it is the promise of the loop's kind that they do.
        """
        if buffer.dtype != other.dtype:
            return False
        if structural_equal(index, stored):
            return True
        if not (isinstance(index, Ramp) and isinstance(stored, Ramp)):
            return False
        if not structural_equal(index.stride, stored.stride) or not isinstance(stored.stride, IntImm):
            return False
        distance = self.facts.simplify(sub(index.base, stored.base))
        if not isinstance(distance, IntImm):
            return True
        step = abs(stored.stride.value)
        return distance.value % step != 0 or distance.value == 0 or abs(distance.value) >= step * self.lanes
