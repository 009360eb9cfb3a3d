"""The text form of programs: written by the printer, read by the parser."""

from eutectic.script import ir, relax, tir
from eutectic.script.ir import ir_module
from eutectic.script.printer import print_text, print_with_metadata
from eutectic.script.store import load, save
from eutectic.script.text import from_source
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = ["from_source", "ir", "ir_module", "load", "print_text", "print_with_metadata", "relax", "save", "tir"]

open_doors(globals(), leave=("ir_module",))
lazy(globals())
