"""Analyses of graph functions: uses, struct info relations."""

from eutectic.relax.analysis.calls import computable_at_compile_time, detect_recursion
from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.analysis.op_pattern import OpPatternKind, op_pattern_of
from eutectic.relax.analysis.reshape_pattern import has_reshape_pattern
from eutectic.relax.analysis.unused import contains_impure_call, remove_all_unused
from eutectic.relax.analysis.uses import (
    all_global_vars,
    all_vars,
    bound_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
)
from eutectic.relax.analysis.well_formed import problems_of, verify, well_formed
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    defined_symbolic_vars,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    free_symbolic_vars,
    struct_info_base_check,
    struct_info_lca,
)
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = [
    "BaseCheckResult",
    "OpPatternKind",
    "all_global_vars",
    "all_vars",
    "bound_vars",
    "computable_at_compile_time",
    "contains_impure_call",
    "copy_with_new_vars",
    "defined_symbolic_vars",
    "derive_call_ret_struct_info",
    "detect_recursion",
    "erase_to_well_defined",
    "free_symbolic_vars",
    "free_vars",
    "get_var2val",
    "has_reshape_pattern",
    "name_to_binding",
    "op_pattern_of",
    "post_order_visit",
    "problems_of",
    "remove_all_unused",
    "struct_info_base_check",
    "struct_info_lca",
    "udchain",
    "used_vars",
    "verify",
    "well_formed",
]

open_doors(globals())
lazy(globals())
