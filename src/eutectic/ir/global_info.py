"""What all functions of a module refer to, beside functions: the base of entries of `IRModule.global_infos`."""

from __future__ import annotations

from eutectic.ir.node import Node, node


class GlobalInfo(Node):
    """Base of entries of `IRModule.global_infos`."""

    __slots__ = ()


@node("ir.DummyGlobalInfo")
class DummyGlobalInfo(GlobalInfo):
    """An entry that says nothing: for tests of what carries entries."""
