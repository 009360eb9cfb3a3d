"""Primitives that find blocks and loops; they change nothing."""

from __future__ import annotations

from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, LoopRV
from eutectic.tir.schedule.legality.scope import child_blocks, siblings
from eutectic.tir.schedule.primitive import primitive


@primitive
def get_block(edit: Edit, name: str, func_name: str | None = None) -> BlockRV:
    """The block of a name.

    Args:
        edit: The call.
        name: Its name.
        func_name: Function to look in; None takes the one that is worked on.

    Raises:
        ScheduleError: there is none, or there are several.
    """
    function = func_name or edit.function
    if func_name is not None and func_name not in edit.state.functions():
        known = ", ".join(edit.state.functions())
        edit.refuse(None, f"get_block: no tensor function is called {func_name}; there are: {known}")
    site = edit.named(name, function)
    edit.resolved["func_name"] = site.function
    return edit.block_rv(site.function, site.block)


@primitive
def get_loops(edit: Edit, block: BlockLike) -> list[LoopRV]:
    """The loops around a block up to the next block, outermost first.

    Args:
        edit: The call.
        block: The block.
    """
    site = edit.block(block)
    return [edit.loop_rv(site.function, loop) for loop in site.loops]


@primitive
def get_child_blocks(edit: Edit, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
    """The blocks directly inside a block or loop, in the order of the program.

    Args:
        edit: The call.
        block_or_loop: Where to look.
    """
    site = edit.site(block_or_loop)
    return [edit.block_rv(site.function, child.block) for child in child_blocks(edit, site)]


@primitive
def get_producers(edit: Edit, block: BlockLike) -> list[BlockRV]:
    """The blocks of the same scope that write what a block reads, in the order of the program.

    Args:
        edit: The call.
        block: The block.
    """
    site = edit.block(block)
    read = accesses_of(site.stmt).read
    producers = [other for other in siblings(edit, site) if accesses_of(other.stmt).written & read]
    return [edit.block_rv(site.function, other.block) for other in producers]


@primitive
def get_consumers(edit: Edit, block: BlockLike) -> list[BlockRV]:
    """The blocks of the same scope that read what a block writes, in the order of the program.

    Args:
        edit: The call.
        block: The block.
    """
    site = edit.block(block)
    written = accesses_of(site.stmt).written
    consumers = [other for other in siblings(edit, site) if accesses_of(other.stmt).read & written]
    return [edit.block_rv(site.function, other.block) for other in consumers]


@primitive
def get_output_blocks(edit: Edit, scope_block: BlockLike) -> list[BlockRV]:
    """The blocks of a scope that write what exists outside of the scope.

    Args:
        edit: The call.
        scope_block: The block whose body is the scope.
    """
    site = edit.block(scope_block)
    inside = child_blocks(edit, site)
    outer = accesses_of(site.stmt)
    writers = [child for child in inside if accesses_of(child.stmt).written - outer.private]
    return [edit.block_rv(site.function, child.block) for child in writers]
