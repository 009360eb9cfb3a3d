"""What torch does one at a time: tracing under a lock, without the output that torch makes about it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch

from eutectic.relax.frontend.torch.derivatives import closing_levels
from eutectic.relax.frontend.torch.lost_arguments import keeping_arguments
from eutectic.relax.frontend.torch.recurrent_shapes import recurrent_shapes

_ASSIGNED: Final = r"The tensor attributes? .* (was|were) assigned during export"  # `python_state` says it, and of what
_TORCH: Final = str(Path(torch.__file__).resolve().parent)
# torch.export keeps what it is doing in globals of its modules: two exports at once end in its internal errors.
_LOCK = threading.RLock()


def _unlocked() -> None:
    """A child process has one thread, which does not hold what another thread of its parent did."""
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_unlocked)


@contextmanager
def tracing() -> Iterator[None]:
    """Trace alone, without gradients, and without what torch logs, prints and warns about its own tracing.

    What torch says is in the error that it raises. With `TORCH_LOGS` set nothing is silenced; what a model prints
    itself is never.
    """
    with _LOCK, warnings.catch_warnings(), torch.no_grad(), closing_levels(), recurrent_shapes(), keeping_arguments():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        warnings.filterwarnings("ignore", _ASSIGNED, UserWarning)
        if os.environ.get("TORCH_LOGS"):
            yield
            return
        with _without_logs(), _without_prints():
            yield


@contextmanager
def _without_logs() -> Iterator[None]:
    """Drop what this thread logs under torch's name."""
    thread = threading.get_ident()

    def passes(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logger for name, logger in list(logging.Logger.manager.loggerDict.items()) if name.startswith("torch")]
    handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", ())}
    for handler in handlers:
        handler.addFilter(passes)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(passes)


class _WithoutTorch:
    """A stream that drops what torch's own code prints in one thread; everything else goes through."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()

    def write(self, text: str) -> int:
        """Write, unless torch prints."""
        if threading.get_ident() == self._thread and sys._getframe(1).f_code.co_filename.startswith(_TORCH):
            return len(text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _without_prints() -> Iterator[None]:
    stream = sys.stderr
    if stream is None:
        yield
        return
    muted: Any = _WithoutTorch(stream)  # all else that a stream does is the stream's
    sys.stderr = muted
    try:
        yield
    finally:
        if sys.stderr is muted:  # the model may have put another there
            sys.stderr = stream
