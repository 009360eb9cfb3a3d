"""From nodes to text. Importing this package makes `node.script()` print TVMScript."""

from eutectic.script.printer.module import print_text, print_with_metadata
from eutectic.support.lazy import lazy

__all__ = ["print_text", "print_with_metadata"]

lazy(globals())
