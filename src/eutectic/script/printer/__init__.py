"""From nodes to text. Importing this package makes `node.script()` print TVMScript."""

from eutectic.script.printer.module import print_text

__all__ = ["print_text"]
