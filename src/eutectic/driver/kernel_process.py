"""A process that makes kernels for another one: programs come in, and their kernels are in the cache afterwards.

A request is a line of JSON, an answer an empty line. Nothing says whether a kernel was made: who asked looks into the
cache, makes what is not there, and so raises what was raised here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import IO, Final

from eutectic.backend.kernel import Built
from eutectic.backend.registry import code_generator
from eutectic.ir.json_form import load_json, save_json
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.lower_tir import lowered
from eutectic.tir.transform.schedule_for_target import scheduled

_OUTPUT: Final = 1
_ERRORS: Final = 2


def make_kernel(func: PrimFunc, target: Target, name: str) -> Built:
    """The kernel of a program whose accesses were checked, scheduled and lowered as by the passes of `loops`.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    return code_generator(target).kernel(func, target, name, lowered(scheduled(func, target)))


def request_of(func: PrimFunc, target: Target, name: str) -> str:
    """The line that asks for a kernel.

    Raises:
        TypeError: the program holds a value that has no form in JSON.
    """
    return json.dumps([save_json(func), str(target), name]) + "\n"


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until there are no more."""
    for request in requests:
        program, target, name = json.loads(request)
        with suppress(Exception):  # whatever it is: who asked sees for itself
            make_kernel(load_json(program), Target(target), name)
        answers.write("\n")
        answers.flush()


def main() -> None:
    """Serve whoever started this process, by its standard streams; what code prints goes to the error stream.

    An interrupt from the keyboard reaches both processes; this one ends when the other closes its end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(_OUTPUT), "w")
    os.dup2(_ERRORS, _OUTPUT)
    serve(sys.stdin, answers)
