"""TVM's error classes by our own."""

from eutectic.support.errors import EutecticError, InternalError, ScriptError
from eutectic.support.errors import EutecticError as TVMError

DiagnosticError = ScriptError
__all__ = ["DiagnosticError", "EutecticError", "InternalError", "TVMError"]
