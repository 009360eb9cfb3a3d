"""tune(): measures choices for a model in the model itself, and remembers them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from eutectic.backend.kernel import Built
from eutectic.driver.importing import Imported, import_model
from eutectic.driver.settings import settings_of
from eutectic.driver.tuned import NOTHING
from eutectic.runtime.team import available_threads
from eutectic.support.errors import ArgumentError
from eutectic.support.heap import give_back
from eutectic.support.shown import shown
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tune.database import Database
from eutectic.tune.lookup import processor_key
from eutectic.tune.machine import known_speeds
from eutectic.tune.measure import Array, call_of, contest
from eutectic.tune.network import Network
from eutectic.tune.report import TuneReport
from eutectic.tune.results import tolerances
from eutectic.tune.search import Progress, Search

_LAST_SECONDS: Final = 2.0  # of measuring the whole before and after, at the end
_LAST_PAIRS: Final = 24  # of that, in any case
_LAST_SHARE: Final = 0.25  # of the budget, at most, for that


def tune(
    model: Any,
    inputs: Sequence[Any] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target | None = None,
    precision: str = "default",
    budget: float = 30.0,
    threads: int | None = None,
    database: Database | str | Path | None = None,
    progress: Progress | None = None,
) -> TuneReport:
    """Measure choices for a model, and remember the best: `compile` uses them from then on.

    What is measured is the time of whole calls of the model, in turns with the best choices so far; a candidate counts
    when it is faster by more than the noise, and its results are those of the defaults but for the rounding of sums in
    another order, of which a network that amplifies roundings may show more. Each result is written at once, so that a
    search may be interrupted, and goes on when it is called again. The first search on a machine measures its speed,
    too.

    Args:
        model: As for `compile`.
        inputs: Example arguments; those of an exported program when not given.
        kwargs: Example keyword arguments.
        target: As for `compile`; it must be this machine.
        precision: As for `compile`.
        budget: Seconds to spend after the model was compiled once; what has begun then is finished, a kernel or a
            measurement.
        threads: Threads of a call, for which the choices are; None takes `EUTECTIC_THREADS`, else what is available.
        database: Where to remember; None takes the user's database, which `compile` reads by default.
        progress: Called with what is measured, milliseconds gone, and milliseconds in all.

    Returns:
        What was measured, and the time of a call before and after.

    Raises:
        ArgumentError: the budget is not positive, or there are no arguments to call the model with.
        LoadError: the database is damaged, or none of ours.
        EutecticError: the model cannot be compiled here.
    """
    if not budget > 0:
        raise ArgumentError(f"budget={shown(budget)}: expected a positive number of seconds")
    began = time.perf_counter()
    settings = settings_of(target, threads, precision, None, tuned=False)
    store = database if isinstance(database, Database) else Database(database)
    used, key = available_threads(settings.threads), processor_key(settings.target)
    known_speeds(store, settings.target, used)
    imported = import_model(model, inputs, kwargs, None, leaves_to_torch=True, custom_convert_map=None)
    args = _arguments(imported, inputs, kwargs)
    built: dict[PrimFunc, Built] = {}
    before = Network(imported, replace(settings, measured=NOTHING), built)
    deadline = time.perf_counter() + budget - min(_LAST_SECONDS, _LAST_SHARE * budget)
    expected, allowed = before.executable.run(args), tolerances(before.executable.run, args)
    tuned = replace(settings, measured=store.measured(key, used))
    search = Search(imported, tuned, args, expected, allowed, store, key, used, deadline, progress, built=built)
    search.run()
    after = Network(imported, replace(settings, measured=store.measured(key, used)), built)
    until = time.perf_counter() + _LAST_SECONDS
    outcome = contest(call_of(before.executable, args), call_of(after.executable, args), until, least=_LAST_PAIRS)
    if outcome.is_lost:
        search.give_up()
    give_back()
    return TuneReport(
        outcome.seconds,
        outcome.seconds - outcome.gain,
        outcome.spread,
        tuple(search.choices),
        tuple(search.refused),
        search.known,
        search.left,
        not outcome.is_lost,
        time.perf_counter() - began,
        used,
        key,
    )


def _arguments(imported: Imported, inputs: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Sequence[Array]:
    """The arguments of a call as arrays.

    Raises:
        ArgumentError: there are none.
    """
    args, named = tuple(inputs or ()), dict(kwargs or {})
    if inputs is None and imported.program is not None and imported.program.example_inputs:
        args, named = imported.program.example_inputs
    if not args and not named:
        raise ArgumentError("tune() needs arguments to call the model with", help="give them as inputs=(...)")
    state = () if imported.state is None else imported.state()
    flat: Sequence[Array] = imported.signature.flatten(args, named, state)
    return flat
