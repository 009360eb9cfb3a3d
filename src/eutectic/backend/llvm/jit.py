"""Object code in this process: loaded once, called by address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import llvmlite.binding as llvm

from eutectic.backend.llvm.machine import start_llvm
from eutectic.support.errors import CodegenError


class Library:
    """Loaded object code; it stays as long as this object.

    Args:
        objects: Object files of the host.
        imports: Addresses of functions they call, by symbol, beside those of the process.
    """

    def __init__(self, objects: Iterable[bytes], imports: Mapping[str, int] | None = None) -> None:
        start_llvm()
        for symbol, address in (imports or {}).items():
            llvm.add_symbol(symbol, address)
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for data in objects:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self._addresses: dict[str, int] = {}
        self._is_kept = False

    def address(self, symbol: str) -> int:
        """Address of a function.

        Raises:
            CodegenError: there is none of that name.
        """
        found = self._addresses.get(symbol)
        if found is None:
            found = 0 if self._is_kept else int(self._engine.get_function_address(symbol))
            if not found:
                raise CodegenError(f"the loaded code has no function {symbol}")
            self._addresses[symbol] = found
        return found

    def data(self, symbol: str) -> int:
        """Address of a global variable.

        Raises:
            CodegenError: there is none of that name.
        """
        found = int(self._engine.get_global_value_address(symbol))
        if not found:
            raise CodegenError(f"the loaded code has no variable {symbol}")
        return found

    def keep_forever(self, symbols: Iterable[str]) -> None:
        """Never unload the code, as threads may run it until the end; only these functions can be asked for."""
        for symbol in symbols:
            self.address(symbol)
        self._is_kept = True
        self._engine.detach()
