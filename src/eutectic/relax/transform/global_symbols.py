"""AttachGlobalSymbol and NormalizeGlobalVar: names of functions, and the symbols under which others find them."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import BaseFunc, GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.transform import Pass, PassContext
from eutectic.ir.visit import rewrite


@dataclass(frozen=True)
class AttachGlobalSymbol(Pass):
    """Give every function its name as `global_symbol`; functions that had none become public."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Set the attribute where it is missing or another."""
        stale = [(gv, f) for gv, f in mod.functions_items() if f.attr("global_symbol") != gv.name_hint]
        if not stale:
            return mod
        out = mod.clone()
        for gv, function in stale:
            out.update_func(gv, function.with_attr("global_symbol", gv.name_hint))
        return out


@dataclass(frozen=True)
class NormalizeGlobalVar(Pass):
    """Name every public function like its `global_symbol`; private ones make way."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rename functions, and their uses."""
        symbols = {gv.name_hint: f.attr("global_symbol") for gv, f in mod.functions_items()}
        wanted = {name: symbol for name, symbol in symbols.items() if symbol is not None}
        if all(name == symbol for name, symbol in wanted.items()):
            return mod
        names = dict(wanted)
        for name in symbols:
            if name not in wanted:
                names[name] = _free(name, set(names.values()))
        fresh = {name: GlobalVar(new) for name, new in names.items()}

        def renamed(item: Node) -> Node | None:
            if not isinstance(item, GlobalVar) or names.get(item.name_hint) in (None, item.name_hint):
                return None
            return GlobalVar(names[item.name_hint], struct_info=item.struct_info)

        functions: dict[GlobalVar, BaseFunc] = {}
        for gv, function in mod.functions.items():
            body = rewrite(function, renamed)
            assert isinstance(body, BaseFunc)
            functions[gv if names[gv.name_hint] == gv.name_hint else fresh[gv.name_hint]] = body
        return IRModule(functions, mod.attrs, mod.global_infos)


def _free(name: str, taken: set[str]) -> str:
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
