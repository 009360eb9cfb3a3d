"""Public names of TVM: graphs: nodes, builders, passes, patterns, importers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface

RELAX: Final[Mapping[str, Surface]] = {
    "tvm.relax": Surface(
        """
        BasePyModule(ir_mod,device,target) Binding(var) BindingBlock(bindings) BlockBuilder(mod)
        Call(op,args,attrs,sinfo_args) Constant(data,struct_info) DataTypeImm(value) DataflowBlock(bindings)
        DataflowBlockRewrite(dfb,root_fn) DataflowVar(name_hint,struct_info) ExecBuilder() Expr(struct_info_)
        ExprFunctor() ExternFunc(global_symbol,struct_info) FuncStructInfo(params,ret,purity)
        FuncType(arg_types,ret_type) Function(params,body,ret_struct_info,is_pure,attrs) GlobalVar(name_hint)
        Id() If(cond,true_branch,false_branch) MatchCast(var,value,struct_info) ObjectStructInfo() ObjectType()
        PackedFuncType() PrimStructInfo(dtype,value) PrimValue(value) PyExprMutator(mod) PyExprVisitor()
        SeqExpr(blocks,body) ShapeExpr(values) ShapeStructInfo(values,ndim) ShapeType(ndim)
        Span(source_name,line,end_line,column,end_column) StringImm(value) StructInfo()
        TensorStructInfo(shape,dtype,vdevice,ndim) TensorType(ndim,dtype) Tuple(fields)
        TupleGetItem(tuple_value,index) TupleStructInfo(fields) TupleType(fields) Type() VMExecutable(mod)
        VMInstrumentReturnKind(value,names,module,qualname,type,start,boundary) Var(name_hint,struct_info)
        VarBinding(var,value) VirtualMachine(rt_mod,device,memory_cfg)
        build(mod,target,params,relax_pipeline,tir_pipeline,exec_mode,system_lib)
        call_dps_packed(func,args,out_sinfo) call_pure_packed(func,*args,sinfo_args)
        call_tir(gvar,args,out_sinfo,tir_vars) call_tir_inplace(gvar,args,inplace_indices,out_sinfo,tir_vars)
        call_tir_with_grad(gvar,args,out_sinfo,te_grad_name,te_grad_kwargs,tir_vars) const(value,dtype)
        convert_to_expr(value) extern(name,struct_info) get_default_pipeline(target) get_pipeline(name,**kwargs)
        get_shape_of(expr) register_pipeline(name)
        """
    ),
    "tvm.relax.transform": Surface(
        """
        AdjustMatmulOrder() AllocateWorkspace()
        AlterOpImpl(op_impl_map,op_buffer_transforms,op_buffer_axis_separators,op_buffer_input_axis_separators)
        AnnotateTIROpPattern() AttachAttrLayoutFreeBuffers() AttachExternModules(extern_modules)
        AttachGlobalSymbol() BindParams(func_name,params) BindSymbolicVars(binding_map,func_name)
        BundleModelParams(param_tuple_name) CallTIRRewrite() CanonicalizeBindings() CombineParallelMatmul(check)
        ComputePrimValue() ConvertLayout(desired_layouts,layout_cb) ConvertToDataflow(min_size)
        DataflowBlockPass(pass_info) DataflowUseInplaceCalls() DeadCodeElimination(entry_functions)
        DecomposeOpsForInference(func_name) DecomposeOpsForTraining(func_name) EliminateCommonSubexpr(call_only)
        ExpandMatmulOfSum() ExpandTupleArguments() FastMathTransform(*args,**kwargs) FoldBatchnormToConv2D()
        FoldConstant() FunctionPass(pass_info) FuseOps(fuse_opt_level)
        FuseOpsByPattern(patterns,bind_constants,annotate_codegen,entry_functions) FuseTIR()
        FuseTransposeMatmul(*args,**kwargs) FusionPattern(name,pattern,annotation_patterns,check,attrs_getter)
        Gradient(func_name,require_grads,target_index) IPCAllReduceRewrite(allreduce_strategy)
        InlinePrivateFunctions() KillAfterLastUse() LambdaLift() LazyGetInput() LazySetOutput()
        LazyTransformParams(fget_item,fset_item,extra_get_item_params,extra_set_item_params)
        LegalizeOps(customize_legalize_map,skip_ops,enable_warning) LiftTransformParams(shared_transform)
        LowerAllocTensor() LowerGPUIPCAllocStorage(*args,**kwargs) LowerRuntimeBuiltin()
        MergeCompositeFunctions() MetaScheduleApplyDatabase(work_dir,enable_warning)
        MetaScheduleTuneIRMod(params,work_dir,max_trials_global,max_trials_per_task,op_names)
        MetaScheduleTuneTIR(work_dir,max_trials_global) Normalize() NormalizeGlobalVar()
        OptimizeLayoutTransform()
        PatternCheckContext(matched_expr,annotated_expr,matched_bindings,var_usages,value_to_bound_var)
        RealizeVDevice() RemovePurityChecking() RemoveRedundantReshape() RemoveUnusedOutputs()
        RemoveUnusedParameters() ReorderPermuteDimsAfterConcat() ReorderTakeAfterMatmul() RewriteCUDAGraph()
        RewriteDataflowReshape() RunCodegen(target_options,entry_functions) SpecializePrimFuncBasedOnCallSite()
        SplitCallTIRByPattern(patterns,fcodegen) SplitLayoutRewritePreproc() StaticPlanBlockMemory()
        ToMixedPrecision(out_dtype,fp16_input_names) ToNonDataflow() TopologicalSort(order,direction)
        UpdateParamStructInfo(sinfo_func) UpdateVDevice(new_vdevice,index) VMBuiltinLower()
        VMShapeLower(emit_err_ctx) dataflowblock_pass(pass_func,opt_level,name,required,traceable)
        function_pass(pass_func,opt_level,name,required,traceable)
        """
    ),
    "tvm.relax.analysis": Surface(
        """
        BaseCheckResult(value,names,module,qualname,type,start,boundary) all_global_vars(expr) all_vars(expr)
        bound_vars(expr) check_well_formed(obj,check_struct_info) collect_non_negative_expressions(sinfo)
        computable_at_compile_time(func) contains_impure_call(expr,own_name)
        definable_tir_vars_in_struct_info(sinfo) defined_symbolic_vars(func)
        derive_call_ret_struct_info(func_sinfo,call,ctx) detect_recursion(mod)
        erase_to_well_defined(sinfo,shape_var_map,var_map) estimate_memory_usage(mod) free_symbolic_vars(func)
        free_vars(expr) get_static_type(sinfo) get_var2val(func) has_reshape_pattern(func) name_to_binding(func)
        post_order_visit(expr,fvisit) remove_all_unused(func) struct_info_base_check(base,derived)
        struct_info_lca(lhs,rhs) suggest_layout_transforms(func,write_buffer_transforms)
        tir_vars_in_struct_info(sinfo) udchain(dfb) used_vars(expr) well_formed(obj,check_struct_info)
        """
    ),
    "tvm.relax.dpl": Surface(
        """
        AndPattern(left,right) Array(input_list) AttrPattern(pattern,attrs)
        CallPattern(op,args,varg_default_wildcard,add_constraint) ConstantPattern() DFConstraint DFPattern
        DataTypePattern(pattern,dtype) DataflowBlock(bindings) DataflowVarPattern(name_hint) Expr(struct_info_)
        ExprPattern(expr) ExprPatternRewriter(pattern,func) ExternFuncPattern(global_symbol)
        FunctionPattern(params,body) GlobalVarPattern(name_hint) Node NotPattern(to_reject) Object Op()
        OrPattern(left,right) OrRewriter(lhs,rhs) PatternContext(incremental)
        PatternMatchingRewriter(*args,**kwargs) PatternSeq(patterns,only_use) PrimArrPattern(shape)
        PrimExpr(dtype) SameShapeConstraint(*args) ShapePattern(pattern,shape)
        StructInfoPattern(pattern,struct_info) TupleGetItemPattern(tuple_value,index) TuplePattern(fields)
        UnorderedTuplePattern(fields) Var(name_hint,struct_info) VarPattern(name_hint) WildcardPattern()
        has_attr(attrs,pattern) has_dtype(dtype,pattern) is_call_dps_packed(func_name,args)
        is_call_packed(func_name,args) is_call_tir(func_name,args,tir_vars) is_const() is_dfv(name)
        is_expr(expr) is_gv(name) is_op(op_name) is_shape(shape) is_tuple(fields,unordered)
        is_tuple_get_item(tuple_value,index) is_var(name)
        make_fused_bias_activation_pattern(op_name,with_bias,activation,allow_reshape)
        make_node(type_key,**kwargs) register_df_node(type_key) reject(pattern)
        rewrite_bindings(ctx,rewriter,func) rewrite_call(pattern,rewriter,func) wildcard()
        """
    ),
    "tvm.relax.backend": Surface(
        """
        DispatchSampling(*args,**kwargs) DispatchSortScan(*args,**kwargs) get_pattern(name)
        get_patterns_with_prefix(prefix)
        """
    ),
    "tvm.relax.backend.patterns": Surface(
        """
        DFPattern GlobalVarPattern(name_hint) TuplePattern(fields) is_const() is_op(op_name)
        is_tuple_get_item(tuple_value,index) make_attention_pattern(with_bias,var_len)
        make_attention_rewrite_pattern(qkv_layout,out_layout,with_bias,with_cast,with_kv_repeat)
        make_conv2d_pattern(with_bias,activation)
        make_fused_bias_activation_pattern(op_name,with_bias,activation,allow_reshape) make_layer_norm_pattern()
        make_matmul_dequantize_pattern(transposed_rhs) make_matmul_multiply_pattern(transposed_rhs)
        make_matmul_pattern(with_bias,activation,transposed_rhs)
        make_residual_block_pattern(node_output,binary_op,activation) make_rms_norm_pattern()
        make_stacked_attention_pattern(start_op,with_bias,layout) wildcard()
        """
    ),
    "tvm.relax.backend.pattern_registry": Surface(
        """
        DFPattern Expr(struct_info_) FusionPattern(name,pattern,annotation_patterns,check,attrs_getter)
        get_pattern(name) get_patterns_with_prefix(prefix) register_patterns(patterns)
        """
    ),
    "tvm.relax.backend.utils": Surface(
        """
        BackendDispatcher(mod) DataflowVar(name_hint,struct_info)
        PatternCheckContext(matched_expr,annotated_expr,matched_bindings,var_usages,value_to_bound_var)
        PyExprMutator(mod) Target(target,host) has_leaking_intermediate_variables(context)
        """
    ),
    "tvm.relax.binding_rewrite": Surface(
        """
        Binding(var) DataflowBlock(bindings) DataflowBlockRewrite(dfb,root_fn) Expr(struct_info_)
        Function(params,body,ret_struct_info,is_pure,attrs) Object Var(name_hint,struct_info)
        """
    ),
    "tvm.relax.expr_functor": Surface(
        """
        Binding(var) BindingBlock(bindings) BlockBuilder(mod) Call(op,args,attrs,sinfo_args)
        Constant(data,struct_info) DataTypeImm(value) DataflowBlock(bindings) DataflowVar(name_hint,struct_info)
        Expr(struct_info_) ExprFunctor() ExternFunc(global_symbol,struct_info)
        Function(params,body,ret_struct_info,is_pure,attrs) GlobalVar(name_hint)
        IRModule(functions,attrs,global_infos) Id() If(cond,true_branch,false_branch)
        MatchCast(var,value,struct_info) Object Op() PrimValue(value) PyExprMutator(mod) PyExprVisitor()
        SeqExpr(blocks,body) ShapeExpr(values) Span(source_name,line,end_line,column,end_column)
        StringImm(value) StructInfo() Tuple(fields) TupleGetItem(tuple_value,index) Var(name_hint,struct_info)
        VarBinding(var,value) derived_object(cls) mutator(cls) visitor(cls)
        """
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
        """
    ),
    "tvm.relax.testing": Surface(
        """
        IRBuilder() Linear(in_features,out_features,bias) LogSoftmax() Module() Parameter(shape,dtype,name)
        Placeholder(shape,dtype,name) ReLU() Sequential(*modules) checkpoint(func,*args,**kwargs)
        dump_ast(exp,indent_str,include_struct_info_annotations,include_call_attrs) emit(expr,name_hint)
        emit_checkpoint(func,*args,**kwargs)
        emit_checkpoint_sequential(functions,segments,input,checkpoint_last) emit_te(func,*args,**kwargs)
        end_checkpoint(input)
        get_relax_attention_module(q_shape,k_shape,v_shape,dtype,bias_shape,qk_scale,causal_mask,window_size)
        get_relax_matmul_module(x_shape,y_shape,in_dtype,out_dtype,transposed_y,bias_shape,activation,residual_bin_op,residual_activation)
        get_relax_stacked_attention_module(qkv,b,s,n,h,h_v,op,bias,qk_scale,single_shape,layout)
        init_params(mod) start_checkpoint(input)
        """
    ),
    "tvm.relax.utils": Surface(
        """
        Array(input_list) Attrs() Expr(struct_info_) Function(params,body,ret_struct_info,is_pure,attrs)
        Map(input_dict) PrimExpr(dtype) PrimStructInfo(dtype,value) PrimValue(value) ShapeExpr(values)
        ShapeStructInfo(values,ndim) StringImm(value) TensorStructInfo(shape,dtype,vdevice,ndim) Type()
        VDevice(target,vdevice_id,memory_scope) convert_to_expr(value) copy_with_new_vars(func)
        create_prim_func(ops,index_dtype_override) gen_call_tir_inputs(func,*args,**kwargs)
        metadata_partitioner(rx_txt) rx_Tuple(fields) te_Tensor(shape,dtype,op,value_index)
        te_tensor(value,tir_var_map,name)
        """
    ),
    "tvm.relax.training": Surface(
        """
        AppendLoss(func_name,loss_function,num_backbone_outputs,new_func_name)
        SetupTrainer(loss,optimizer,loss_args,legalize) Trainer(train_mod,vm,device,zero_init_param_state)
        """
    ),
    "tvm.relax.distributed": Surface(
        """
        DTensorStructInfo(tensor_sinfo,device_mesh,placement) DeviceMesh(shape,device_ids) Placement(dim_specs)
        PlacementSpec(*args,**kwargs) device_mesh(shape,device_ids)
        """
    ),
}
