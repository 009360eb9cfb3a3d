"""Public names of TVM: scripts of tensor programs, and how they are parsed and built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface, each
from eutectic.compat.surface.tensors_tir import ARRAYS, CONSTANTS, FIXED_POINT, GPU, SHUFFLE, VSCALE

PACKED: Final = "call C functions with T.call_extern, registered ones with T.call_packed"
FLOATS: Final = "floats of a byte and less are float8_e4m3fn, float8_e5m2 and float4_e2m1fn"

_LANES: Final = ("", "x2", "x4", "x8", "x16", "x32", "x64")
_KNOWN: Final = [
    f"{element}{lanes}"
    for element in (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"),
    )
    for lanes in _LANES
]
_UNKNOWN: Final = [
    f"{element}{lanes}"
    for element in (
        *(f"float8_{kind}" for kind in ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")),
        *("float6_e2m3fn", "float6_e3m2fn"),
    )
    for lanes in _LANES
]

SCRIPTS: Final[Mapping[str, Surface]] = {
    "tvm.script.tir": Surface(
        """
        Add(a,b) And(a,b) Assert(condition,message) Broadcast(value,lanes)
        Buffer(shape,dtype,data,strides,elem_offset,scope,align,offset_factor,buffer_type,axis_separators)
        BufferLoad(buffer,indices,predicate) Call(dtype,op,args) CallEffectKind Cast(dtype,value)
        CommReducer(lhs,rhs,result,identity_element) Div(a,b) EQ(a,b) Else() FloatImm(dtype,value) FloorDiv(a,b)
        FloorMod(a,b) GE(a,b) GT(a,b) If(condition) IntImm(dtype,value) IterVar(dom,var,iter_type,thread_tag)
        LE(a,b) LT(a,b) Let(expr,where) Max(a,b) Min(a,b) Mod(a,b) Mul(a,b) NE(a,b) Not(a) Or(a,b)
        ProducerLoad(producer,indices) Ramp(base,stride,lanes) Range(begin,end)
        Reduce(combiner,src,rdom,condition,value_index,init) Select(condition,true_value,false_value)
        Shuffle(vectors,indices) SizeVar(name,dtype) StringImm(value) Sub(a,b) Then() Var(name,dtype)
        While(condition) abs(x) acos(x) acosh(x) address_of(obj)
        alloc_buffer(shape,dtype,data,strides,elem_offset,scope,align,offset_factor,buffer_type,axis_separators)
        anylist_getitem(list_handle,index) anylist_resetitem(list_handle,index)
        anylist_setitem_call_cpacked(list_handle,index,func_name,*args)
        anylist_setitem_call_packed(list_handle,index,func_name,*args) arg(name,obj) asin(x) asinh(x)
        assume(cond) atan(x) atan2(x1,x2) atanh(x) attr(node,attr_key,value) axis() bitwise_and(x,y)
        bitwise_not(x) bitwise_or(x,y) bitwise_xor(x,y) bool(expr,is_size_var) boolean(expr,is_size_var)
        broadcast(value,lanes)
        buffer(shape,dtype,data,strides,elem_offset,scope,align,offset_factor,buffer_type,axis_separators)
        buffer_store(buffer,value,indices,predicate) buffer_var(dtype,storage_scope) call_cpacked(*args)
        call_cpacked_lowered(*args) call_extern(dtype,func_name,*args) call_intrin(dtype,func_name,*args)
        call_llvm_intrin(dtype,name,*args) call_llvm_pure_intrin(dtype,name,*args) call_packed(*args)
        call_packed_lowered(*args) call_pure_extern(dtype,func_name,*args) cast(src,dtype) ceil(x)
        ceildiv(lhs,rhs) clz(x) comm_reducer(combiner,identity) cooperative_tensor_fill(d,index,value,rows,cols)
        cooperative_tensor_load(d,index,ptr,stride,rows,cols,transpose_matrix,mma_M,mma_N,mma_K,operand_role)
        cooperative_tensor_multiply_accumulate(d,index_d,a,index_a,b,index_b,c,index_c,M,N,K,transpose_a,transpose_b)
        cooperative_tensor_store(d,index,ptr,stride,rows,cols,transpose_matrix,mma_M,mma_N,mma_K,operand_role)
        copysign(x1,x2) cos(x) cosh(x)
        decl_buffer(shape,dtype,data,strides,elem_offset,scope,align,offset_factor,buffer_type,axis_separators)
        dp4a(vec1,vec2,acc) end_profile_intrinsic(id) env_thread(thread_tag,dtype) erf(x) evaluate(value) exp(x)
        exp10(x) exp2(x) fabs(x) floor(x) floordiv(a,b) floormod(a,b) fma(x,y,z) fmod(x,y) func_attr(attrs)
        func_name(name) func_ret(ret_type) get_active_lane_mask(dtype,base,limit) grid(*extents)
        handle(dtype,storage_scope,is_size_var) hypot(x1,x2) if_then_else(cond,t,f)
        index_map(mapping,inverse_index_map,index_dtype) infinity(dtype) init() isfinite(x) isinf(x) isnan(x)
        isnullptr(x) iter_var(v,dom,iter_type,thread_tag) launch_thread(thread,extent) ldexp(x1,x2) likely(cond)
        llvm_lookup_intrinsic_id(name) log(x) log10(x) log1p(x) log2(x) lookup_param(param_name)
        macro(*args,hygienic)
        match_buffer(param,shape,dtype,data,strides,elem_offset,scope,align,offset_factor,buffer_type,axis_separators)
        max(a,b) max_value(dtype) meta_var(value) min(a,b) min_value(dtype) nearbyint(x) nextafter(x1,x2)
        parallel(start,stop,annotations,step) popcount(x) pow(x,y) prim_func(func,private,check_well_formed)
        ptr(dtype,storage_scope,is_size_var) q_multiply_shift(x,y,q,s)
        q_multiply_shift_per_axis(x,y,ls,rs,q,is_lshift_required,is_rshift_required) ramp(base,stride,lanes)
        reads(*buffer_slices) reinterpret(dtype,value) ret(val) round(x) rsqrt(x) block(name,no_realize)
        block_attr(attrs) serial(start,stop,annotations,step) shift_left(x,y) shift_right(x,y) sigmoid(x) sin(x)
        sinh(x) sqrt(x) start_profile_intrinsic(id) tan(x) tanh(x) target(target_config,host)
        thread_binding(start,stop,thread,annotations) trunc(x) truncdiv(a,b) truncmod(a,b)
        tvm_access_ptr(ptype,data,offset,extent,rw_mask)
        tvm_bmma_sync(fragment_d,index_d,fragment_a,index_a,fragment_b,index_b,fragment_c,index_c)
        tvm_call_cpacked(*args) tvm_call_cpacked_lowered(*args) tvm_call_packed(*args)
        tvm_call_packed_lowered(*args) tvm_fill_fragment(fragment,m,n,k,index,value) tvm_global_barrier_kinit()
        tvm_kernel_replace_point() tvm_load_matrix_sync(fragment,m,n,k,index,buffer_ptr,stride,layout)
        tvm_mma_sync(fragment_d,index_d,fragment_a,index_a,fragment_b,index_b,fragment_c,index_c)
        tvm_stack_alloca(dtype_str,num) tvm_stack_make_array(data,shape,strides,ndim,arr_dtype,elem_offset)
        tvm_stack_make_shape(*args) tvm_store_matrix_sync(fragment,m,n,k,index,buffer_ptr,stride,layout)
        tvm_struct_get(arr,index,field,dtype) tvm_struct_set(arr,index,field,value)
        tvm_thread_allreduce(*freduce_args) tvm_thread_invariant(cond) tvm_throw_last_error() tvm_tuple(*value)
        tvm_warp_activemask() tvm_warp_shuffle(mask,value,warp_id,width,warp_size)
        tvm_warp_shuffle_down(mask,value,offset,width,warp_size)
        tvm_warp_shuffle_up(mask,value,offset,width,warp_size)
        tvm_warp_shuffle_xor(mask,value,lane_mask,width,warp_size) type_annotation(dtype) undef()
        unroll(start,stop,annotations,step) var(dtype,name) vectorcombine(dtype,vec1,vec2) vectorhigh(dtype,vec)
        vectorized(start,stop,annotations,step) vectorlow(dtype,vec) void(expr,is_size_var) vscale()
        where(predicate) writes(*buffer_slices) allocate(extents,dtype,scope,condition,annotations)
        allocate_const(data,dtype,extents,annotations) LetStmt(value,type_annotation,var)
        Ptr(dtype,storage_scope) bfloat16(expr,is_size_var) tvm_storage_sync(storage_scope)
        axis.spatial(dom,binding,dtype) axis.reduce(dom,binding,dtype) axis.scan(dom,binding,dtype)
        axis.opaque(dom,binding,dtype) axis.remap(kinds,bindings,dtype) ptx_mma ptx_mma_sp ptx_ldmatrix
        ptx_cp_async ptx_cp_async_bulk ptx_commit_group ptx_wait_group ptx_cp_async_barrier
        ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx ptx_wait_barrier
        create_barriers mma_store mma_fill make_filled_simdgroup_matrix simdgroup_load simdgroup_store
        simdgroup_multiply_accumulate dma_copy dma_wait dma_start_group dma_end_group get_vscale_expr
        tvm_check_return tvm_thread_context tvm_handle_is_null
        """
        + " ".join(f"{dtype}(expr,is_size_var)" for dtype in (*_KNOWN, *_UNKNOWN)),
        refused={
            "allocate_const": CONSTANTS,
            **each("If Then Else", "write Python's if and else"),
            **each("func_name func_ret arg", "write a function under @T.prim_func: its name, parameters and result"),
            **each("buffer Ptr buffer_var", "annotate parameters: T.Buffer(shape, dtype), or T.handle(dtype, scope)"),
            "buffer_store": "write buffer[indices] = value",
            **each("env_thread", "T.launch_thread(tag, extent) gives the variable"),
            "macro": "write a Python function of the values, and call it in T.meta_var(...)",
            **each("CommReducer comm_reducer Reduce ProducerLoad", "tvm.te: reductions are loops in a program"),
            "CallEffectKind": "whether a call has effects is answered by tir.analysis.is_pure_function",
            "target": 'func_attr({"target": ...})',
            "lookup_param": "give parameters as arguments of the function",
            "isnullptr": "tvm.tir.isnullptr",
            "tvm_handle_is_null": "tvm.tir.isnullptr",
            "llvm_lookup_intrinsic_id": "call C functions with T.call_extern",
            **each("call_cpacked call_cpacked_lowered call_packed_lowered tvm_call_packed", PACKED),
            **each("tvm_call_cpacked tvm_call_cpacked_lowered tvm_call_packed_lowered tvm_check_return", PACKED),
            **each("call_llvm_intrin call_llvm_pure_intrin", PACKED),
            **each("get_active_lane_mask get_vscale_expr vscale", VSCALE),
            **each("q_multiply_shift q_multiply_shift_per_axis", FIXED_POINT),
            "tvm_access_ptr": "T.address_of(buffer[indices]) is the pointer to an element",
            **each("tvm_struct_get tvm_struct_set tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape", ARRAYS),
            "tvm_throw_last_error": "failures are reported by T.Assert",
            "type_annotation": "write the dtype itself",
            **each("vectorcombine vectorhigh vectorlow", SHUFFLE),
            **each(" ".join(_UNKNOWN), FLOATS),
        },
        not_ours={
            **each("anylist_getitem anylist_resetitem anylist_setitem_call_packed", "code of TVM's virtual machine"),
            "anylist_setitem_call_cpacked": "code of TVM's virtual machine",
            **each("ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async ptx_cp_async_bulk ptx_commit_group", GPU),
            **each("ptx_wait_group ptx_cp_async_barrier ptx_init_barrier_thread_count ptx_arrive_barrier", GPU),
            **each("ptx_arrive_barrier_expect_tx ptx_wait_barrier create_barriers mma_store mma_fill", GPU),
            **each("make_filled_simdgroup_matrix simdgroup_load simdgroup_store dp4a", GPU),
            **each("simdgroup_multiply_accumulate dma_copy dma_wait dma_start_group dma_end_group", GPU),
            **each("cooperative_tensor_fill cooperative_tensor_load cooperative_tensor_store", GPU),
            **each("cooperative_tensor_multiply_accumulate tvm_bmma_sync tvm_fill_fragment", GPU),
            **each("tvm_load_matrix_sync tvm_mma_sync tvm_store_matrix_sync tvm_thread_allreduce", GPU),
            **each("tvm_global_barrier_kinit tvm_kernel_replace_point tvm_thread_invariant", GPU),
            **each("tvm_warp_activemask tvm_warp_shuffle tvm_warp_shuffle_down tvm_warp_shuffle_up", GPU),
            **each("tvm_warp_shuffle_xor tvm_thread_context", GPU),
            **each("start_profile_intrinsic end_profile_intrinsic", "profiling of Hexagon processors"),
        },
    ),
    "tvm.script": Surface(
        """
        from_source(program,extra_vars,check_well_formed) ir_module(mod,check_well_formed) ir relax tir
        parse(program,extra_vars,check_well_formed) register_dialect(name,module_path)
        """,
        refused={
            "parse": "from_source",
            "register_dialect": "scripts are of the dialects I, R and T",
        },
    ),
    "tvm.script.ir_builder": Surface(
        """
        IRBuilder
        """,
        refused={
            "*": "write programs as text under @T.prim_func, or build them: relax.BlockBuilder, nodes of tvm.tir",
        },
    ),
}
