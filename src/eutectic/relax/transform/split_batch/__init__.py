"""Networks computed piece by piece of a batch: which are worth it, and the pass that cuts the batch."""

from eutectic.relax.transform.split_batch.split import SplitBatch
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = ["SplitBatch"]

open_doors(globals())
lazy(globals())
