"""Public names of TVM: graphs: nodes, builders, passes, patterns, importers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface import reasons
from eutectic.compat.surface.kinds import Surface, each

RELAX: Final[Mapping[str, Surface]] = {
    "tvm.relax": Surface(
        """
        BasePyModule(ir_mod,device,target) Binding BindingBlock(bindings) BlockBuilder(mod)
        Call(op,args,attrs,sinfo_args) Constant(data,struct_info) DataTypeImm(value) DataflowBlock(bindings)
        DataflowBlockRewrite(dfb,root_fn) DataflowVar(name_hint,struct_info) ExecBuilder() Expr
        ExternFunc(global_symbol,struct_info) FuncStructInfo(params,ret,purity) FuncType(arg_types,ret_type)
        Function(params,body,ret_struct_info,is_pure,attrs) GlobalVar(name_hint) If(cond,true_branch,false_branch)
        MatchCast(var,value,struct_info) ObjectStructInfo() ObjectType() PackedFuncType() PrimStructInfo(dtype,value)
        PrimValue(value) PyExprMutator(mod) PyExprVisitor() SeqExpr(blocks,body) ShapeExpr(values)
        ShapeStructInfo(values,ndim) ShapeType(ndim) Span StringImm(value) StructInfo()
        TensorStructInfo(shape,dtype,vdevice,ndim) TensorType(ndim,dtype) Tuple(fields)
        TupleGetItem(tuple_value,index) TupleStructInfo(fields) TupleType(fields) Type() VMExecutable
        VMInstrumentReturnKind(value,names,module,qualname,type,start,boundary) Var(name_hint,struct_info)
        VarBinding(var,value) VirtualMachine(rt_mod,device,memory_cfg)
        build(mod,target,params,relax_pipeline,tir_pipeline,exec_mode,system_lib) call_dps_packed(func,args,out_sinfo)
        call_pure_packed(func,*args,sinfo_args) call_tir(gvar,args,out_sinfo,tir_vars)
        call_tir_inplace(gvar,args,inplace_indices,out_sinfo,tir_vars)
        call_tir_with_grad(gvar,args,out_sinfo,te_grad_name,te_grad_kwargs,tir_vars) const(value,dtype)
        convert_to_expr(value) extern(name,struct_info) get_default_pipeline(target) get_pipeline(name,**kwargs)
        get_shape_of(expr) register_pipeline(name)
        """,
        refused={
            "BasePyModule": ("call Python from a graph with R.call_pure_packed and register_global_func"),
            "ExecBuilder": reasons.VIRTUAL_MACHINE,
            "VMInstrumentReturnKind": ("look at times with VirtualMachine.profile, and at values by returning them"),
        },
    ),
    "tvm.relax.transform": Surface(
        """
        AdjustMatmulOrder() AllocateWorkspace()
        AlterOpImpl(op_impl_map,op_buffer_transforms,op_buffer_axis_separators,op_buffer_input_axis_separators)
        AnnotateTIROpPattern() AttachAttrLayoutFreeBuffers() AttachExternModules(extern_modules) AttachGlobalSymbol()
        BindParams(func_name,params) BindSymbolicVars(binding_map,func_name) BundleModelParams(param_tuple_name)
        CallTIRRewrite() CanonicalizeBindings() CombineParallelMatmul(check) ComputePrimValue()
        ConvertLayout(desired_layouts,layout_cb) ConvertToDataflow(min_size) DataflowUseInplaceCalls()
        DeadCodeElimination(entry_functions) DecomposeOpsForInference(func_name) DecomposeOpsForTraining(func_name)
        EliminateCommonSubexpr(call_only) ExpandMatmulOfSum() ExpandTupleArguments() FastMathTransform
        FoldBatchnormToConv2D() FoldConstant() FunctionPass FuseOps(fuse_opt_level)
        FuseOpsByPattern(patterns,bind_constants,annotate_codegen,entry_functions) FuseTIR() FuseTransposeMatmul
        FusionPattern(name,pattern,annotation_patterns,check,attrs_getter)
        Gradient(func_name,require_grads,target_index) IPCAllReduceRewrite(allreduce_strategy)
        InlinePrivateFunctions() KillAfterLastUse() LambdaLift() LazyGetInput() LazySetOutput()
        LazyTransformParams(fget_item,fset_item,extra_get_item_params,extra_set_item_params)
        LegalizeOps(customize_legalize_map,skip_ops,enable_warning) LiftTransformParams(shared_transform)
        LowerAllocTensor() LowerGPUIPCAllocStorage LowerRuntimeBuiltin() MergeCompositeFunctions()
        MetaScheduleApplyDatabase(work_dir,enable_warning)
        MetaScheduleTuneIRMod(params,work_dir,max_trials_global,max_trials_per_task,op_names)
        MetaScheduleTuneTIR(work_dir,max_trials_global) Normalize() NormalizeGlobalVar() OptimizeLayoutTransform()
        PatternCheckContext(matched_expr,annotated_expr,matched_bindings,var_usages,value_to_bound_var)
        RealizeVDevice() RemovePurityChecking() RemoveRedundantReshape() RemoveUnusedOutputs()
        RemoveUnusedParameters() ReorderPermuteDimsAfterConcat() ReorderTakeAfterMatmul() RewriteCUDAGraph()
        RewriteDataflowReshape() RunCodegen(target_options,entry_functions) SpecializePrimFuncBasedOnCallSite()
        SplitCallTIRByPattern(patterns,fcodegen) SplitLayoutRewritePreproc() StaticPlanBlockMemory()
        ToMixedPrecision(out_dtype,fp16_input_names) ToNonDataflow() TopologicalSort(order,direction)
        UpdateParamStructInfo(sinfo_func) UpdateVDevice(new_vdevice,index) VMBuiltinLower() VMShapeLower(emit_err_ctx)
        dataflowblock_pass(pass_func,opt_level,name,required,traceable)
        function_pass(pass_func,opt_level,name,required,traceable)
        """,
        refused={
            **each(
                "AdjustMatmulOrder ExpandMatmulOfSum ReorderTakeAfterMatmul",
                ("it changes how results are rounded; write the order that you want in the model"),
            ),
            **each(
                "AlterOpImpl AttachAttrLayoutFreeBuffers ConvertLayout OptimizeLayoutTransform "
                "SplitLayoutRewritePreproc",
                "layouts are chosen by AssignLayouts, which relax.build runs",
            ),
            "AttachExternModules": (
                "register functions with register_global_func, and call them with R.call_dps_packed"
            ),
            "CombineParallelMatmul": (
                "concatenate the weights in the model; RemoveIdentityOps and FoldConstant clean up after it"
            ),
            "ComputePrimValue": "sizes are computed where they are needed, without a function for them",
            "DataflowUseInplaceCalls": ("relax.build lets results take the memory of operands that are not read again"),
            "FastMathTransform": (
                "functions are computed to the accuracy that the documentation of each operator states"
            ),
            "FuseTransposeMatmul": (
                "FuseOps and FuseTIR take permute_dims into the program that reads it where that is faster"
            ),
            **each("KillAfterLastUse LowerAllocTensor StaticPlanBlockMemory", reasons.MEMORY),
            **each(
                "LazyGetInput LazySetOutput LazyTransformParams LiftTransformParams",
                ("bind weights with BindParams; FoldConstant transforms them once, when the model is compiled"),
            ),
            **each("LowerRuntimeBuiltin VMBuiltinLower VMShapeLower", reasons.VIRTUAL_MACHINE),
            **each("MetaScheduleApplyDatabase MetaScheduleTuneIRMod MetaScheduleTuneTIR", reasons.TUNING),
            **each(
                "RealizeVDevice UpdateVDevice",
                (
                    "programs run on the processor; state another device in the struct info, with "
                    "TensorStructInfo(vdevice=...)"
                ),
            ),
            "RemoveUnusedOutputs": ("use DeadCodeElimination, and return from a function what its callers read"),
            "ReorderPermuteDimsAfterConcat": "write the permutation after the concatenation in the model",
            "SpecializePrimFuncBasedOnCallSite": "build a program of the sizes of the call with te.create_prim_func",
            "SplitCallTIRByPattern": "take operators before LegalizeOps with FuseOpsByPattern",
            "TopologicalSort": (
                "DeadCodeElimination and FuseOps keep bindings in an order in which each is defined before it is read"
            ),
        },
        not_ours={
            "Gradient": reasons.TRAINING,
            **each("IPCAllReduceRewrite LowerGPUIPCAllocStorage", reasons.DISTRIBUTED),
            "RewriteCUDAGraph": reasons.OTHER_DEVICES,
        },
    ),
    "tvm.relax.analysis": Surface(
        """
        BaseCheckResult all_global_vars(expr) all_vars(expr) bound_vars(expr) collect_non_negative_expressions(sinfo)
        computable_at_compile_time(func) contains_impure_call(expr,own_name) definable_tir_vars_in_struct_info(sinfo)
        defined_symbolic_vars(func) derive_call_ret_struct_info(func_sinfo,call,ctx) detect_recursion(mod)
        erase_to_well_defined(sinfo,shape_var_map,var_map) estimate_memory_usage(mod) free_symbolic_vars(func)
        free_vars(expr) get_static_type(sinfo) get_var2val(func) has_reshape_pattern(func) name_to_binding(func)
        post_order_visit(expr,fvisit) remove_all_unused(func) struct_info_base_check(base,derived)
        struct_info_lca(lhs,rhs) suggest_layout_transforms(func,write_buffer_transforms)
        tir_vars_in_struct_info(sinfo) udchain(dfb) used_vars(expr) well_formed(obj,check_struct_info)
        """,
        refused={
            "collect_non_negative_expressions": (
                "sizes are known to be non-negative by eutectic.arith.Analyzer where they are bound"
            ),
            "estimate_memory_usage": "compile the model, and read memory in eutectic.explain",
            "suggest_layout_transforms": "layouts are chosen by AssignLayouts, which relax.build runs",
        },
    ),
    "tvm.relax.dpl": Surface(
        """
        AndPattern(left,right) AttrPattern(pattern,attrs) CallPattern(op,args,varg_default_wildcard,add_constraint)
        ConstantPattern() DFPattern DataTypePattern(pattern,dtype) DataflowVarPattern(name_hint)
        ExprPattern(expr) ExprPatternRewriter(pattern,func) ExternFuncPattern(global_symbol)
        FunctionPattern(params,body) GlobalVarPattern(name_hint) NotPattern(to_reject) OrPattern(left,right)
        OrRewriter(lhs,rhs) PatternContext(incremental) PatternMatchingRewriter(*args,**kwargs)
        PatternSeq(patterns,only_use) PrimArrPattern(shape) SameShapeConstraint(*args) ShapePattern(pattern,shape)
        StructInfoPattern(pattern,struct_info) TupleGetItemPattern(tuple_value,index) TuplePattern(fields)
        UnorderedTuplePattern(fields) VarPattern(name_hint) WildcardPattern() has_attr(attrs,pattern)
        has_dtype(dtype,pattern) is_call_dps_packed(func_name,args) is_call_packed(func_name,args)
        is_call_tir(func_name,args,tir_vars) is_const() is_dfv(name) is_expr(expr) is_gv(name) is_op(op_name)
        is_shape(shape) is_tuple(fields,unordered) is_tuple_get_item(tuple_value,index) is_var(name)
        make_fused_bias_activation_pattern(op_name,with_bias,activation,allow_reshape) reject(pattern)
        rewrite_bindings(ctx,rewriter,func) rewrite_call(pattern,rewriter,func) wildcard()
        """
    ),
    "tvm.relax.backend": Surface(
        """
        DispatchSampling DispatchSortScan get_pattern(name) get_patterns_with_prefix(prefix)
        """,
        refused={
            **each(
                "DispatchSampling DispatchSortScan",
                (
                    "no library here sorts, scans or draws samples; LegalizeOps lowers sorts and scans, and "
                    "the runtime computes the others"
                ),
            ),
        },
    ),
    "tvm.relax.backend.patterns": Surface(
        """
        make_attention_pattern(with_bias,var_len)
        make_attention_rewrite_pattern(qkv_layout,out_layout,with_bias,with_cast,with_kv_repeat)
        make_conv2d_pattern(with_bias,activation)
        make_fused_bias_activation_pattern(op_name,with_bias,activation,allow_reshape) make_layer_norm_pattern()
        make_matmul_dequantize_pattern(transposed_rhs) make_matmul_multiply_pattern(transposed_rhs)
        make_matmul_pattern(with_bias,activation,transposed_rhs)
        make_residual_block_pattern(node_output,binary_op,activation) make_rms_norm_pattern()
        make_stacked_attention_pattern(start_op,with_bias,layout)
        """
    ),
    "tvm.relax.backend.pattern_registry": Surface(
        """
        FusionPattern(name,pattern,annotation_patterns,check,attrs_getter) get_pattern(name)
        get_patterns_with_prefix(prefix) register_patterns(patterns)
        """
    ),
    "tvm.relax.backend.utils": Surface(
        """
        BackendDispatcher(mod)
        PatternCheckContext(matched_expr,annotated_expr,matched_bindings,var_usages,value_to_bound_var)
        has_leaking_intermediate_variables(context)
        """,
        refused={
            "BackendDispatcher": (
                "choose by target with a rule of your own in LegalizeOps(customize_legalize_map=...)"
            ),
        },
    ),
    "tvm.relax.binding_rewrite": Surface(
        """
        DataflowBlockRewrite(dfb,root_fn)
        """
    ),
    "tvm.relax.expr_functor": Surface(
        """
        ExprFunctor() PyExprMutator(mod) PyExprVisitor() mutator(cls) visitor(cls)
        """,
        refused={
            "ExprFunctor": "derive from PyExprVisitor or PyExprMutator",
        },
    ),
    "tvm.relax.frontend": Surface(
        """
        detach_params(mod)
        """
    ),
    "tvm.relax.frontend.torch": Surface(
        """
        dynamo_capture_subgraphs(model,*params,**kwargs)
        from_exported_program(exported_program,keep_params_as_input,unwrap_unit_return_tuple,no_bind_return_tuple,custom_convert_map,run_ep_decomposition)
        from_fx(model,input_info,keep_params_as_input,unwrap_unit_return_tuple,no_bind_return_tuple,custom_convert_map,default_image_layout)
        relax_dynamo(pipeline)
        """,
        refused={
            **each("dynamo_capture_subgraphs relax_dynamo", 'use torch.compile(model, backend="eutectic")'),
        },
    ),
    "tvm.relax.testing": Surface(
        """
        Linear(in_features,out_features,bias) LogSoftmax() Module() Parameter(shape,dtype,name)
        Placeholder(shape,dtype,name) ReLU() Sequential(*modules) checkpoint(func,*args,**kwargs)
        dump_ast(exp,indent_str,include_struct_info_annotations,include_call_attrs) emit(expr,name_hint)
        emit_checkpoint(func,*args,**kwargs) emit_checkpoint_sequential(functions,segments,input,checkpoint_last)
        emit_te(func,*args,**kwargs) end_checkpoint(input)
        get_relax_attention_module(q_shape,k_shape,v_shape,dtype,bias_shape,qk_scale,causal_mask,window_size)
        get_relax_matmul_module(x_shape,y_shape,in_dtype,out_dtype,transposed_y,bias_shape,activation,residual_bin_op,residual_activation)
        get_relax_stacked_attention_module(qkv,b,s,n,h,h_v,op,bias,qk_scale,single_shape,layout) init_params(mod)
        start_checkpoint(input)
        """,
        refused={
            **each(
                "Linear LogSoftmax Module Parameter Placeholder ReLU Sequential emit emit_te init_params",
                reasons.MODELS,
            ),
            **each(
                "get_relax_attention_module get_relax_matmul_module get_relax_stacked_attention_module",
                "build the module with relax.BlockBuilder, or parse it from its text",
            ),
        },
        not_ours={
            **each(
                "checkpoint emit_checkpoint emit_checkpoint_sequential end_checkpoint start_checkpoint",
                reasons.TRAINING,
            ),
        },
    ),
    "tvm.relax.utils": Surface(
        """
        convert_to_expr(value) copy_with_new_vars(func) gen_call_tir_inputs(func,*args,**kwargs)
        metadata_partitioner(rx_txt)
        """,
        refused={
            "gen_call_tir_inputs": "use BlockBuilder.call_te, which gives the call and adds the program",
            "metadata_partitioner": ("print with show_meta=True and parse the text with tvm.script.from_source"),
        },
    ),
    "tvm.relax.training": Surface(
        """
        AppendLoss(func_name,loss_function,num_backbone_outputs,new_func_name)
        SetupTrainer(loss,optimizer,loss_args,legalize) Trainer(train_mod,vm,device,zero_init_param_state)
        """,
        not_ours={
            "*": reasons.TRAINING,
        },
    ),
    "tvm.relax.distributed": Surface(
        """
        DTensorStructInfo(tensor_sinfo,device_mesh,placement) DeviceMesh(shape,device_ids) Placement(dim_specs)
        PlacementSpec(*args,**kwargs) device_mesh(shape,device_ids)
        """,
        not_ours={
            "*": reasons.DISTRIBUTED,
        },
    ),
}
