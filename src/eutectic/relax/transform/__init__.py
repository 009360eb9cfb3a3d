"""Graph passes; one file per pass, named like it."""

from eutectic.relax.dpl.checks import has_leaking_intermediate_variables
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.transform.allocate_workspace import AllocateWorkspace
from eutectic.relax.transform.annotate_tir_op_pattern import AnnotateTIROpPattern
from eutectic.relax.transform.apply_pass_to_function import ApplyPassToFunction
from eutectic.relax.transform.attention.fuse import FuseAttention
from eutectic.relax.transform.batchnorm_to_scale_shift import BatchnormToScaleShift
from eutectic.relax.transform.bind_params import BindParams, bind_params, bind_symbolic_vars
from eutectic.relax.transform.bind_region_constants import BindRegionConstants
from eutectic.relax.transform.call_tir_rewrite import CallTIRRewrite
from eutectic.relax.transform.canonicalize_bindings import CanonicalizeBindings
from eutectic.relax.transform.combine_permute_dims import CombinePermuteDims
from eutectic.relax.transform.conv_transpose.decompose import DecomposeConvTranspose
from eutectic.relax.transform.convert_conv1d_to_conv2d import ConvertConv1DToConv2D
from eutectic.relax.transform.dead_code_elimination import DeadCodeElimination
from eutectic.relax.transform.decompose_ops import DecomposeOpsForInference, DecomposeOpsForTraining
from eutectic.relax.transform.dense_pack.convert import ConvertMatmulToDensePack
from eutectic.relax.transform.dense_pack.plain import ConvertDensePackToMatmul
from eutectic.relax.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from eutectic.relax.transform.fold_batchnorm_to_conv2d import FoldBatchnormToConv2D
from eutectic.relax.transform.fold_constant import FoldConstant
from eutectic.relax.transform.fold_pad_into_conv import FoldPadIntoConv
from eutectic.relax.transform.fold_scale_into_weights import FoldScaleIntoWeights
from eutectic.relax.transform.fuse_conv2d_reshape_add_relu import FuseConv2dReshapeAddRelu
from eutectic.relax.transform.fuse_ops import FuseOps
from eutectic.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern
from eutectic.relax.transform.fuse_tir import FuseTIR
from eutectic.relax.transform.global_symbols import AttachGlobalSymbol, NormalizeGlobalVar
from eutectic.relax.transform.infra import FunctionPass, dataflowblock_pass, function_pass
from eutectic.relax.transform.inline_private_functions import InlinePrivateFunctions
from eutectic.relax.transform.inverted_residual.fuse import FuseInvertedResidual
from eutectic.relax.transform.join_varying_axes import JoinVaryingAxes
from eutectic.relax.transform.lambda_lift import LambdaLift
from eutectic.relax.transform.layouts.assign_layouts import AssignLayouts
from eutectic.relax.transform.legalize_ops import LegalizeOps
from eutectic.relax.transform.mark_finite_constants import MarkFiniteConstants
from eutectic.relax.transform.merge_composite_functions import MergeCompositeFunctions
from eutectic.relax.transform.normalize import Normalize
from eutectic.relax.transform.remove_identity_ops import RemoveIdentityOps
from eutectic.relax.transform.remove_padded_taps import RemovePaddedTaps
from eutectic.relax.transform.remove_purity_checking import RemovePurityChecking
from eutectic.relax.transform.remove_redundant_reshape import RemoveRedundantReshape
from eutectic.relax.transform.remove_unused_parameters import ExpandTupleArguments, RemoveUnusedParameters
from eutectic.relax.transform.rewrite_dataflow_concat import RewriteDataflowConcat
from eutectic.relax.transform.rewrite_dataflow_reshape import RewriteDataflowReshape
from eutectic.relax.transform.round_after_bias import RoundAfterBias
from eutectic.relax.transform.run_codegen import RunCodegen
from eutectic.relax.transform.split_batch.split import SplitBatch
from eutectic.relax.transform.to_mixed_precision import ToMixedPrecision
from eutectic.relax.transform.to_non_dataflow import ConvertToDataflow, ToNonDataflow
from eutectic.relax.transform.update_param_struct_info import BindSymbolicVars, BundleModelParams, UpdateParamStructInfo
from eutectic.relax.transform.widen_convolutions import WidenConvolutions
from eutectic.relax.transform.winograd.convert import ConvertConv2DToWinograd
from eutectic.relax.transform.winograd.direct import ConvertWinogradToConv2D
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = [
    "AllocateWorkspace",
    "AnnotateTIROpPattern",
    "ApplyPassToFunction",
    "AssignLayouts",
    "AttachGlobalSymbol",
    "BatchnormToScaleShift",
    "BindParams",
    "BindRegionConstants",
    "BindSymbolicVars",
    "BundleModelParams",
    "CallTIRRewrite",
    "CanonicalizeBindings",
    "CombinePermuteDims",
    "ConvertConv1DToConv2D",
    "ConvertConv2DToWinograd",
    "ConvertDensePackToMatmul",
    "ConvertMatmulToDensePack",
    "ConvertToDataflow",
    "ConvertWinogradToConv2D",
    "DeadCodeElimination",
    "DecomposeConvTranspose",
    "DecomposeOpsForInference",
    "DecomposeOpsForTraining",
    "EliminateCommonSubexpr",
    "ExpandTupleArguments",
    "FoldBatchnormToConv2D",
    "FoldConstant",
    "FoldPadIntoConv",
    "FoldScaleIntoWeights",
    "FunctionPass",
    "FuseAttention",
    "FuseConv2dReshapeAddRelu",
    "FuseInvertedResidual",
    "FuseOps",
    "FuseOpsByPattern",
    "FuseTIR",
    "FusionPattern",
    "InlinePrivateFunctions",
    "JoinVaryingAxes",
    "LambdaLift",
    "LegalizeOps",
    "MarkFiniteConstants",
    "MergeCompositeFunctions",
    "Normalize",
    "NormalizeGlobalVar",
    "PatternCheckContext",
    "RemoveIdentityOps",
    "RemovePaddedTaps",
    "RemovePurityChecking",
    "RemoveRedundantReshape",
    "RemoveUnusedParameters",
    "RewriteDataflowConcat",
    "RewriteDataflowReshape",
    "RoundAfterBias",
    "RunCodegen",
    "SplitBatch",
    "ToMixedPrecision",
    "ToNonDataflow",
    "UpdateParamStructInfo",
    "WidenConvolutions",
    "bind_params",
    "bind_symbolic_vars",
    "dataflowblock_pass",
    "function_pass",
    "has_leaking_intermediate_variables",
]

open_doors(globals())
lazy(globals())
