"""Public names of TVM: nodes, passes, analyses and schedules of tensor programs, tensor expressions, arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface, each

CONSTANTS: Final = "give the constant as a parameter of the function; relax.const holds its values"
LAYOUTS: Final = "eutectic.tir.data_layout.layout reads texts such as NCHW16c; tir.IndexMap maps indices"
SREF: Final = "sch.get_sref gives the place of a block or loop, sch.get_producers and get_consumers what it depends on"
VSCALE: Final = "vectors have constant lengths: Schedule.vectorize a loop of a constant extent"
PIPELINE: Final = "tir.transform.default_cpu_lowering() is the pipeline; build with tvm.compile"
FIXED_POINT: Final = "multiply in int64 and shift"
ARRAYS: Final = "buffers are parameters: T.match_buffer gives their sizes, strides and data"
SHUFFLE: Final = "tir.Shuffle takes lanes of vectors"
GPU: Final = "code for GPUs and other devices"
NARROW: Final = "tir.transform.LegalizeNarrowFloat computes narrow floats in float32"
HOISTING: Final = "tir.transform.HoistIfThenElse takes conditions out of loops"
OPTIONS: Final = "the pass has no options"
LLVM: Final = "LLVM does this when a program is built"
OURS: Final = "passes of tvm.compile do this where it is needed"
STAGES: Final = "Schedule.cache_read and compute_at say what is kept where"
CODEGEN: Final = "a step of TVM's code generation"
PROVED: Final = "regions are what a block accesses: they are computed, and proofs rely on them"
SETS: Final = "eutectic.arith.sets answers whether sets cover each other, are disjoint or empty"
_CALLS: Final = "call_cpacked call_cpacked_lowered call_llvm_intrin call_llvm_pure_intrin call_packed_lowered"

TIR: Final[Mapping[str, Surface]] = {
    "tvm.tir": Surface(
        """
        Add(a,b) And(a,b) AssertStmt(condition,message,body) AttrStmt(node,attr_key,value,body)
        Broadcast(value,lanes)
        Buffer(data,dtype,shape,strides,elem_offset,name,data_alignment,offset_factor,buffer_type,axis_separators)
        BufferLoad(buffer,indices,predicate) BufferRegion(buffer,region)
        BufferStore(buffer,value,indices,predicate) Call(dtype,op,args) CallEffectKind Cast(dtype,value)
        CommReducer(lhs,rhs,result,identity_element) DeclBuffer(buffer,body) Div(a,b) EQ(a,b) Evaluate(value)
        FloatImm(dtype,value) FloorDiv(a,b) FloorMod(a,b)
        For(loop_var,min,extent,kind,body,thread_binding,annotations,step) ForKind GE(a,b) GT(a,b)
        IfThenElse(condition,then_case,else_case) IndexMap(initial_indices,final_indices,inverse_index_map)
        IntImm(dtype,value) IterVar(dom,var,iter_type,thread_tag) LE(a,b) LT(a,b) Let(var,value,body)
        LetStmt(var,value,body) MatchBufferRegion(buffer,source) Max(a,b) Min(a,b) Mod(a,b) Mul(a,b) NE(a,b)
        Not(a) Or(a,b) PrimExpr PrimFunc(params,body,ret_type,buffer_map,attrs) ProducerLoad(producer,indices)
        PyStmtExprMutator() PyStmtExprVisitor() Ramp(base,stride,lanes)
        Reduce(combiner,src,rdom,condition,value_index,init)
        Block(iter_vars,reads,writes,name_hint,body,init,alloc_buffers,match_buffers,annotations)
        BlockRealize(iter_values,predicate,block) Select(condition,true_value,false_value) SeqStmt(seq)
        Shuffle(vectors,indices) SizeVar(name,dtype) Stmt() StringImm(value) Sub(a,b) TensorIntrin(desc,impl)
        Var(name,dtype) While(condition,body) abs(x) acos(x) acosh(x) add(lhs,rhs) address_of(obj) all(*args)
        any(*args) asin(x) asinh(x) assume(cond) atan(x) atan2(x1,x2) atanh(x) bitwise_and(x,y) bitwise_not(x)
        bitwise_or(x,y) bitwise_xor(x,y) break_loop() build(mod,target,pipeline) call_cpacked(*args)
        call_cpacked_lowered(*args) call_extern(dtype,func_name,*args) call_intrin(dtype,func_name,*args)
        call_llvm_intrin(dtype,name,*args) call_llvm_pure_intrin(dtype,name,*args) call_packed(*args)
        call_packed_lowered(*args) call_pure_extern(dtype,func_name,*args) ceil(x) ceildiv(lhs,rhs) clz(x)
        comm_reducer(fcombine,fidentity,name) const(value,dtype) continue_loop() convert(expr) copysign(x1,x2)
        cos(x) cosh(x)
        decl_buffer(shape,dtype,name,data,strides,elem_offset,scope,data_alignment,offset_factor,buffer_type,axis_separators)
        div(a,b) dp4a(vec1,vec2,acc) end_profile_intrinsic(id) erf(x) exp(x) exp10(x) exp2(x) floor(x)
        floordiv(a,b) floormod(a,b) fmod(x,y) get_active_lane_mask(dtype,base,limit)
        get_default_tir_pipeline(target) get_tir_pipeline(name,**kwargs) get_vscale_expr(dtype,min_size)
        hypot(x1,x2) if_then_else(cond,t,f) ignore_loop_partition(predicate) indexdiv(a,b) indexmod(a,b)
        infinity(dtype) isfinite(x) isinf(x) isnan(x) isnullptr(x) ldexp(x1,x2) likely(cond) log(x) log10(x)
        log1p(x) log2(x) logaddexp(a,b) max(expr,axis,where,init,*args) max_value(dtype)
        min(expr,axis,where,init,*args) min_value(dtype) multiply(lhs,rhs) nearbyint(x) nextafter(x1,x2)
        popcount(x) pow(x,y) power(x,y) q_multiply_shift(x,y,q,s)
        q_multiply_shift_per_axis(x,y,ls,rs,q,is_lshift_required,is_rshift_required)
        register_tir_pipeline(name,pipeline_factory) reinterpret(dtype,value) ret(val) round(x) rsqrt(x)
        shift_left(x,y) shift_right(x,y) sigmoid(x) sin(x) sinh(x) sqrt(x) start_profile_intrinsic(id)
        stmt_list(stmt) stmt_seq(*args) subtract(lhs,rhs) sum(expr,axis,where,init,*args) tan(x) tanh(x)
        trace(args,trace_action) trunc(x) truncdiv(a,b) truncmod(a,b)
        tvm_access_ptr(ptype,data,offset,extent,rw_mask)
        tvm_bmma_sync(fragment_d,index_d,fragment_a,index_a,fragment_b,index_b,fragment_c,index_c)
        tvm_fill_fragment(fragment,m,n,k,index,value)
        tvm_load_matrix_sync(fragment,m,n,k,index,buffer_ptr,stride,layout)
        tvm_mma_sync(fragment_d,index_d,fragment_a,index_a,fragment_b,index_b,fragment_c,index_c)
        tvm_stack_alloca(dtype_str,num) tvm_stack_make_array(data,shape,strides,ndim,arr_dtype,elem_offset)
        tvm_stack_make_shape(*args) tvm_store_matrix_sync(fragment,m,n,k,index,buffer_ptr,stride,layout)
        tvm_struct_get(arr,index,field,dtype) tvm_struct_set(arr,index,field,value)
        tvm_thread_allreduce(*freduce_args) tvm_throw_last_error() tvm_tuple(*value) type_annotation(dtype)
        undef() vectorcombine(dtype,vec1,vec2) vectorhigh(dtype,vec) vectorlow(dtype,vec) vscale()
        BlockDependenceInfo(mod) BlockScope Schedule(mod,seed,debug_mask,error_render_level,enable_check)
        ScheduleError ScheduleState(mod,debug_mask,enable_check) StmtSRef Trace(insts,decisions)
        Allocate(buffer_var,dtype,extents,condition,body,annotations)
        AllocateConst(buffer_var,dtype,extents,data_or_idx,body,annotations) PrimFunc.with_body(new_body,span)
        PrimFunc.with_attr(attr_key_or_dict,attr_value) PrimFunc.without_attr(attr_key) PrimFunc.script
        PrimFunc.show PrimFunc.specialize(param_map) Buffer.vload(begin,dtype,predicate)
        Buffer.vstore(begin,value,predicate) Buffer.scope() Buffer.offset_of(indices)
        Buffer.get_flattened_buffer() IndexMap.from_func(mapping_function,ndim,inverse_index_map,index_dtype)
        IndexMap.from_func_with_separators(mapping_function,ndim,inverse_index_map,index_dtype)
        IndexMap.map_indices(indices) IndexMap.map_shape(shape) IndexMap.map_ndarray(arr_src)
        IndexMap.inverse(shape) IndexMap.non_surjective_inverse(shape) IndexMap.is_equivalent_to(other_map)
        TensorIntrin.register(name,desc,impl,override) TensorIntrin.get(name,allow_missing) Layout
        BijectiveLayout layout(layout_str,dtype) bijective_layout(src_layout,dst_layout) fma(x,y,z)
        """,
        refused={
            "AllocateConst": CONSTANTS,
            "CallEffectKind": "whether a call has effects is answered by tir.analysis.is_pure_function",
            "Layout": LAYOUTS,
            "BijectiveLayout": LAYOUTS,
            "layout": LAYOUTS,
            "bijective_layout": LAYOUTS,
            "trace": "call a registered function with call_packed, in a program that is interpreted",
            "BlockDependenceInfo": SREF,
            "BlockScope": SREF,
            "ScheduleState": "sch.state of a tir.Schedule",
            "StmtSRef": SREF,
            "Trace": "import it from tvm.tir.schedule",
            **each("break_loop continue_loop", "loops end where their extent says: write T.While with a condition"),
            **each(_CALLS, "call C functions with call_extern, registered ones with call_packed"),
            **each("get_active_lane_mask get_vscale_expr vscale", VSCALE),
            **each("get_default_tir_pipeline get_tir_pipeline register_tir_pipeline", PIPELINE),
            **each("q_multiply_shift q_multiply_shift_per_axis", FIXED_POINT),
            **each("tvm_access_ptr", "address_of(buffer[indices]) is the pointer to an element"),
            **each("tvm_struct_get tvm_struct_set tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape", ARRAYS),
            "tvm_throw_last_error": "failures are reported by tir.AssertStmt",
            "type_annotation": "write the dtype itself",
            "vectorcombine": SHUFFLE,
            "vectorhigh": SHUFFLE,
            "vectorlow": SHUFFLE,
        },
        not_ours={
            **each("dp4a tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync tvm_mma_sync", GPU),
            **each("tvm_store_matrix_sync tvm_thread_allreduce", GPU),
            **each("start_profile_intrinsic end_profile_intrinsic", "profiling of Hexagon processors"),
            "ignore_loop_partition": "a mark between passes of TVM",
        },
    ),
    "tvm.tir.stmt_functor": Surface(
        """
        ir_transform(stmt,preorder,postorder,only_enable) post_order_visit(stmt,fvisit)
        pre_order_visit(stmt,fvisit) substitute(node,vmap) renew_defs(func)
        """
    ),
    "tvm.tir.transform": Surface(
        """
        AnnotateEntryFunc() Apply(ftransform) BF16ComputeLegalize() BF16StorageLegalize() BindTarget(target)
        ConvertSSA() FP8ComputeLegalize(promote_dtype) FP8StorageLegalize() Filter(fcond) FlattenBuffer()
        ForceNarrowIndexToInt32() HoistExpressionConfig(hoisted_conditionals,hoisted_let_bindings)
        HoistIfThenElseConfig(support_block_scope_hoisting) HoistedConditionals HoistedLetBindings
        InlinePrivateFunctions() LowerIntrin() LowerTVMBuiltin() LowerWarpMemory() MakePackedAPI()
        NarrowDataType(target_bits) PointerValueTypeRewrite() PrimFuncPass() RemoveNoOp()
        RemoveNoOpConfig(max_simplification_steps,ignore_profiler_call) SplitHostDevice() StorageRewrite()
        UnrollLoop()
        UnrollLoopConfig(auto_max_step,auto_max_depth,auto_max_extent,explicit_unroll,unroll_local_access)
        VectorizeLoop(enable_vectorize) VerifyMemory()
        prim_func_pass(pass_func,opt_level,name,required,traceable) AnnotateIrregularLoop() CanonicalizeLoop()
        CompactBufferAllocation(is_strict) ConvertBlocksToOpaque() DecorateDeviceScope() DefaultGPUSchedule()
        HoistExpression() HoistIfThenElse(variant) InferFragment() InjectDoubleBuffer()
        InjectDoubleBufferConfig(split_loop) InjectPTXAsyncCopy() InjectPTXLDG32(enable_inject_ptx_intrin)
        InjectPermutedLayout() InjectSoftwarePipeline() InjectVirtualThread() InstrumentBoundCheckers()
        InstrumentProfileIntrinsics() LiftThreadBinding() LoopPartition()
        LoopPartitionConfig(partition_const_loop,no_unroll_loop_with_extent_one,unroll_loop_with_partition_hint_no_interval)
        LowerAsyncDMA() LowerAutoCopy() LowerCrossThreadReduction() LowerInitBlock() LowerMatchBuffer()
        LowerOpaqueBlock() LowerThreadAllreduce() LowerVtcmAlloc() ManifestSharedMemoryLocalStage()
        MergeSharedMemoryAllocations() PlanAndUpdateBufferAllocationLocation() RemoveStoreUndef()
        RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite) RenormalizeSplitPattern() RewriteUnsafeSelect()
        ThreadSync(storage_scope) TransformMmaBufferLayout() UnifyThreadBinding() UseAssumeToReduceBranches()
        Simplify() VerifySSA() RemoveAssume() SkipAssert()
        CommonSubexprElimTIR(enable_cse_tir,identify_equiv_terms) LowerDeviceKernelLaunch()
        ExtractPrimFuncConstants() InjectRollingBuffer() ConvertForLoopsToSerial()
        ReduceBranchingThroughOvercompute() VerifyVTCMLimit(limit) LowerCustomDatatypes() CombineContextCall()
        MakeUnpackedAPI()
        """,
        refused={
            **each("BF16ComputeLegalize BF16StorageLegalize FP8ComputeLegalize FP8StorageLegalize", NARROW),
            **each("HoistExpression HoistExpressionConfig HoistedConditionals HoistedLetBindings", HOISTING),
            **each("HoistIfThenElseConfig RemoveNoOpConfig UnrollLoopConfig LoopPartitionConfig", OPTIONS),
            **each("CommonSubexprElimTIR PointerValueTypeRewrite StorageRewrite RenormalizeSplitPattern", LLVM),
            **each("RewriteUnsafeSelect ConvertForLoopsToSerial RemoveAssume SkipAssert RemoveStoreUndef", OURS),
            **each("ForceNarrowIndexToInt32 NarrowDataType", "sizes say the dtype of indices: give them as int32"),
            **each("LoopPartition AnnotateIrregularLoop CanonicalizeLoop", "Schedule.loop_partition cuts a loop"),
            **each("LowerMatchBuffer UseAssumeToReduceBranches ReduceBranchingThroughOvercompute", OURS),
            **each("InjectDoubleBuffer InjectDoubleBufferConfig InjectSoftwarePipeline InjectRollingBuffer", STAGES),
            **each("InstrumentBoundCheckers VerifyMemory", "every access is proved or checked when a program is built"),
            **each("RemoveWeightLayoutRewriteBlock ExtractPrimFuncConstants", CONSTANTS),
        },
        not_ours={
            **each("DecorateDeviceScope DefaultGPUSchedule InferFragment InjectPTXAsyncCopy InjectPTXLDG32", GPU),
            **each("InjectPermutedLayout InjectVirtualThread LiftThreadBinding LowerAsyncDMA LowerAutoCopy", GPU),
            **each("LowerCrossThreadReduction LowerThreadAllreduce LowerVtcmAlloc LowerWarpMemory ThreadSync", GPU),
            **each("ManifestSharedMemoryLocalStage MergeSharedMemoryAllocations TransformMmaBufferLayout", GPU),
            **each("UnifyThreadBinding VerifyVTCMLimit InstrumentProfileIntrinsics LowerDeviceKernelLaunch", GPU),
            **each("InlinePrivateFunctions LowerIntrin LowerTVMBuiltin MakePackedAPI MakeUnpackedAPI", CODEGEN),
            **each("SplitHostDevice CombineContextCall LowerCustomDatatypes", CODEGEN),
        },
    ),
    "tvm.tir.analysis": Surface(
        """
        expr_deep_equal(lhs,rhs) undefined_vars(node,defs) verify_memory(func) verify_ssa(func)
        verify_well_formed(obj,assert_mode) OOBChecker() assert_pure_function(func)
        calculate_allocated_bytes(func_or_mod) detect_buffer_access_lca(func) estimate_tir_flops(stmt_or_mod)
        is_pure_function(func) verify_gpu_code(func,constraints) get_block_access_region(block,buffer_var_map)
        get_block_read_write_region(block,buffer_var_map) find_anchor_block(mod)
        """,
        refused={
            "OOBChecker": "every access is proved or checked when a program is built",
            "get_block_access_region": "get_block_read_write_region gives what is read and what is written",
            "verify_memory": "every access is proved or checked when a program is built",
        },
        not_ours={"verify_gpu_code": GPU},
    ),
    "tvm.tir.schedule": Surface(
        """
        DepKind Dependency(src,dst,kind) ExprRV Instruction(kind,inputs,attrs,outputs)
        InstructionKind(name,_is_pure) LoopRV() BlockRV() BlockScope
        Schedule(mod,seed,debug_mask,error_render_level,enable_check) ScheduleDebugMask ScheduleError
        ScheduleState(mod,debug_mask,enable_check) StmtSRef Trace(insts,decisions) Schedule.mod Schedule.state
        Schedule.trace Schedule.func_working_on Schedule.copy() Schedule.show(*args,**kwargs)
        Schedule.seed(seed) Schedule.fork_seed() Schedule.work_on(func_name) Schedule.get(rand_var_or_sref)
        Schedule.get_sref(rand_var_or_stmt) Schedule.remove_rv(rand_var) Schedule.get_block(name,func_name)
        Schedule.get_loops(block) Schedule.get_child_blocks(block_or_loop) Schedule.get_producers(block)
        Schedule.get_consumers(block) Schedule.get_output_blocks(scope_block)
        Schedule.sample_categorical(candidates,probs,decision)
        Schedule.sample_perfect_tile(loop,n,max_innermost_factor,decision)
        Schedule.sample_partitioned_tile(loop,n,partition_pos,innerpart_factor,decision)
        Schedule.sample_compute_location(block,decision) Schedule.merge(*loops)
        Schedule.fuse(*loops,preserve_unit_iters)
        Schedule.split(loop,factors,preserve_unit_iters,disable_predication)
        Schedule.loop_partition(loop,factors,preserve_unit_iters) Schedule.reorder(*ordered_loops)
        Schedule.reorder_block_iter_var(block,new_order) Schedule.add_unit_loop(block_or_loop)
        Schedule.parallel(loop) Schedule.vectorize(loop) Schedule.bind(loop,thread_axis) Schedule.unroll(loop)
        Schedule.cache_read(block,read_buffer_index,storage_scope,consumer_blocks)
        Schedule.cache_write(block,write_buffer_index,storage_scope,consumer_blocks)
        Schedule.reindex_cache_read(block,read_buffer_index,storage_scope,index_map)
        Schedule.reindex_cache_write(block,write_buffer_index,storage_scope,index_map)
        Schedule.cache_inplace(block,read_buffer_index,storage_scope)
        Schedule.cache_index(block,storage_scope,cse_thresh) Schedule.reindex(block,buffer)
        Schedule.read_at(loop,block,read_buffer_index,storage_scope)
        Schedule.write_at(loop,block,write_buffer_index,storage_scope)
        Schedule.compute_at(block,loop,preserve_unit_loops,index)
        Schedule.reverse_compute_at(block,loop,preserve_unit_loops,index) Schedule.compute_inline(block)
        Schedule.reverse_compute_inline(block) Schedule.fuse_reduction_epilogue(reduction_block,epilogue_block)
        Schedule.decompose_reduction(block,loop) Schedule.rfactor(loop,factor_axis)
        Schedule.storage_align(block,buffer_index,axis,factor,offset)
        Schedule.set_scope(block,buffer_index,storage_scope) Schedule.unsafe_set_dtype(block,buffer_index,dtype)
        Schedule.annotate(block_or_loop,ann_key,ann_val) Schedule.unannotate(block_or_loop,ann_key)
        Schedule.blockize(target,preserve_unit_iters)
        Schedule.tensorize(block_or_loop,tensor_intrin,preserve_unit_iters)
        Schedule.transform_layout(block,buffer,index_map,pad_value,assume_injective_transform)
        Schedule.transform_block_layout(block,index_map)
        Schedule.set_axis_separator(block,buffer,axis_separators) Schedule.decompose_padding(block,loop)
        Schedule.can_decompose_padding(block,loop) Schedule.pad_einsum(block,padding)
        Schedule.rolling_buffer(block,write_buffer_index) Schedule.enter_postproc()
        Schedule.unsafe_hide_buffer_access(block,buf_type,buf_index_array)
        Schedule.annotate_buffer_access(block,buffer_index,buf_type,gen_new_ranges)
        Trace.as_python(remove_postproc) Trace.as_json(remove_postproc)
        Trace.apply_to_schedule(sch,remove_postproc,decision_provider)
        Trace.apply_json_to_schedule(json_obj,sch) Trace.with_decision(inst,decision,remove_postproc)
        Trace.simplified(remove_postproc) Trace.append(inst,decision) Trace.pop() Trace.get_decision(inst)
        Trace.show()
        """,
        refused={
            **each("DepKind Dependency BlockScope StmtSRef", SREF),
            "InstructionKind": "inst.kind is the name of the primitive",
            "ScheduleDebugMask": 'debug_mask of a Schedule is "all", "none" or a number',
            "Schedule.sample_partitioned_tile": "sample_perfect_tile, and loop_partition",
            "Schedule.sample_compute_location": "choose the loop, and call compute_at",
            **each("Schedule.reindex_cache_read Schedule.reindex_cache_write", "cache_read and transform_layout"),
            **each("Schedule.read_at Schedule.write_at", "cache_read or cache_write, and compute_at"),
            "Schedule.cache_index": "indices are computed once by LLVM; te.compute of them is a block of its own",
            "Schedule.unsafe_set_dtype": "write the program with the dtype, or relax.transform.ToMixedPrecision",
            "Schedule.set_axis_separator": "transform_layout with tir.IndexMap.AXIS_SEPARATOR in the map",
            "Schedule.rolling_buffer": "compute_at, and a buffer of the rows that are needed in the program",
            "Schedule.enter_postproc": "traces are replayed whole",
            **each("Schedule.unsafe_hide_buffer_access Schedule.annotate_buffer_access", PROVED),
        },
    ),
    "tvm.tir.schedule.testing": Surface(
        """
        assert_structural_equal(lhs,rhs,map_free_vars)
        assert_structural_equal_ignore_global_symbol(func1,func2,*args,**kwargs)
        verify_trace_roundtrip(sch,mod,debug_mask,text_format)
        """
    ),
    "tvm.te": Surface(
        """
        ComputeOp(name,tag,attrs,axis,body)
        ExternOp(name,tag,attrs,inputs,input_placeholders,output_placeholders,body)
        PlaceholderOp(name,tag,attrs,shape,dtype)
        ScanOp(name,tag,attrs,scan_axis,init,update,state_placeholder,inputs,spatial_axis_)
        Tensor(shape,dtype,op,value_index) TensorSlice(tensor,indices) abs(x) acos(x) acosh(x) add(lhs,rhs)
        all(*args) any(*args) asin(x) asinh(x) atan(x) atanh(x) ceil(x) comm_reducer(fcombine,fidentity,name)
        compute(shape,fcompute,name,tag,attrs,varargs_names) const(value,dtype) cos(x) cosh(x)
        create_prim_func(ops,index_dtype_override) div(a,b) erf(x) exp(x)
        extern(shape,inputs,fcompute,name,dtype,in_buffers,out_buffers,tag,attrs)
        extern_primfunc(input_tensors,primfunc,**kwargs) floor(x) floordiv(a,b) floormod(a,b) fmod(x,y)
        if_then_else(cond,t,f) indexdiv(a,b) indexmod(a,b) isfinite(x) isinf(x) isnan(x) log(x) log10(x) log2(x)
        logaddexp(a,b) max(expr,axis,where,init,*args) max_value(dtype) min(expr,axis,where,init,*args)
        min_value(dtype) multiply(lhs,rhs) nearbyint(x) placeholder(shape,dtype,name) popcount(x) power(x,y)
        reduce_axis(dom,name,thread_tag) round(x) rsqrt(x)
        scan(init,update,state_placeholder,inputs,name,tag,attrs) sigmoid(x) sin(x) sinh(x) size_var(name,dtype)
        sqrt(x) subtract(lhs,rhs) sum(expr,axis,where,init,*args) tag_scope(tag) tan(x) tanh(x)
        thread_axis(dom,tag,name) trace(args,trace_action) trunc(x) truncdiv(a,b) truncmod(a,b) var(name,dtype)
        AXIS_SEPARATOR Tensor.shape Tensor.dtype Tensor.op Tensor.ndim
        """,
        refused={
            "AXIS_SEPARATOR": "tir.IndexMap.AXIS_SEPARATOR",
            **each("ExternOp extern extern_primfunc", "write a T.prim_func, and call it with R.call_tir"),
            **each("ScanOp scan", "write a T.prim_func with a serial loop"),
            "TensorSlice": "give all indices: A[i, j]",
            "tag_scope": "give tag= to te.compute",
            "thread_axis": "Schedule.bind(loop, thread_axis) binds the loop of a program",
            "trace": "call a registered function with tir.call_packed, in a program that is interpreted",
        },
    ),
    "tvm.arith": Surface(
        """
        Analyzer() CompareResult ConstIntBound(min_value,max_value) IntSet() IntervalSet(min_value,max_value)
        IterMark(source,extent) IterSplitExpr(source,lower_factor,extent,scale) IterSumExpr(args,base)
        ModularSet(coeff,base) PresburgerSet ProofStrength deduce_bound(var,cond,hint_map,relax_map)
        detect_clip_bound(expr,var_list)
        detect_iter_map(indices,input_iters,predicate,check_level,simplify_trivial_iterators,analyzer)
        detect_linear_equation(expr,var_list) estimate_region_lower_bound(region,var_dom,predicate,analyzer)
        estimate_region_strict_bound(region,var_dom,predicate,analyzer)
        estimate_region_upper_bound(region,var_dom,predicate,analyzer) inverse_affine_iter_map(iter_map,outputs)
        iter_map_simplify(indices,input_iters,predicate,check_level,simplify_trivial_iterators,analyzer)
        normalize_iter_map_to_expr(expr) normalize_to_iter_sum(index,input_iters,analyzer)
        solve_linear_equations(equations,variables,ranges)
        solve_linear_inequalities(equations,variables,ranges,deskew_range)
        subspace_divide(bindings,input_iters,sub_iters,predicate,check_level,simplify_trivial_iterators,analyzer)
        IterMapLevel Analyzer.bind(var,expr) Analyzer.simplify(expr,steps) Analyzer.rewrite_simplify(expr)
        Analyzer.canonical_simplify(expr) Analyzer.can_prove(expr,strength) Analyzer.can_prove_equal(lhs,rhs)
        Analyzer.const_int_bound(expr) Analyzer.const_int_bound_is_bound(var) Analyzer.modular_set(expr)
        Analyzer.int_set(expr,dom_map) Analyzer.constraint_scope(constraint) Analyzer.update(var,info,override)
        Analyzer.try_compare(lhs,rhs,propagate_inequalities) IntSet.vector(vec) IntSet.single_point(point)
        IntSet.is_nothing() IntSet.is_everything()
        """,
        refused={
            **each("PresburgerSet solve_linear_equations solve_linear_inequalities", SETS),
            "detect_clip_bound": "deduce_bound of each part of the condition",
            **each("estimate_region_lower_bound estimate_region_strict_bound", "estimate_region_upper_bound"),
            "normalize_iter_map_to_expr": "iter_map_simplify gives expressions",
        },
    ),
}
