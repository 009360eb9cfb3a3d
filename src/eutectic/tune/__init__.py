"""Measured choices: a search for the fastest ones, and the database that remembers them.

The package can be called: `eutectic.tune(model, inputs)` is `eutectic.tune.tune(model, inputs)`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

if TYPE_CHECKING:
    from eutectic.tune.database import Database
    from eutectic.tune.report import TunedChoice, TuneReport
    from eutectic.tune.tuning import tune

__all__ = ["Database", "TuneReport", "TunedChoice", "tune"]

_MEMBERS: Final = {
    "eutectic.tune.database": ("Database",),
    "eutectic.tune.report": ("TuneReport", "TunedChoice"),
    "eutectic.tune.tuning": ("tune",),
}


class _Callable(ModuleType):
    """A package that is called as the function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tune(*args, **kwargs)


open_doors(globals())
lazy(globals(), _MEMBERS)
sys.modules[__name__].__class__ = _Callable
