"""The text form of programs."""

from eutectic.script.printer import print_text

__all__ = ["print_text"]
