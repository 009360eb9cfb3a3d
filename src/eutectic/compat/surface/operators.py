"""Public names of TVM: operators of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface import reasons
from eutectic.compat.surface.kinds import Surface, each

OPERATORS: Final[Mapping[str, Surface]] = {
    "tvm.relax.op": Surface(
        """
        abs(x) acos(x) acosh(x) add(x1,x2)
        all_class_non_max_suppression(boxes,scores,max_output_boxes_per_class,iou_threshold,score_threshold,output_format)
        arange(start,end,step,dtype) argmax(x,axis,keepdims) argmin(x,axis,keepdims)
        argsort(data,axis,descending,dtype) asin(x) asinh(x) assert_op(condition,format_args,format) astype(x,dtype)
        atan(x) atan2(x1,x2) atanh(x) bitwise_and(x1,x2) bitwise_not(x) bitwise_or(x1,x2) bitwise_xor(x1,x2)
        broadcast_to(x,shape) bucketize(input_tensor,boundaries,out_int32,right)
        call_builtin_with_ctx(func,args,sinfo_args) call_dps_packed(func,args,out_sinfo)
        call_inplace_packed(func,*args,inplace_indices,sinfo_args) call_pure_packed(func,*args,sinfo_args)
        call_py_func(func_name,args,out_sinfo) call_tir(gvar,args,out_sinfo,tir_vars)
        call_tir_inplace(gvar,args,inplace_indices,out_sinfo,tir_vars)
        call_tir_with_grad(gvar,args,out_sinfo,te_grad_name,te_grad_kwargs,tir_vars) ceil(x) clip(x,min,max)
        collapse_sum_like(data,collapse_target) collapse_sum_to(data,shape) concat(tensors,axis) cos(x) cosh(x)
        cumprod(data,axis,dtype,exclusive) cumsum(data,axis,dtype,exclusive)
        dequantize(data,scale,zero_point,axis,out_dtype) divide(x1,x2) dynamic_strided_slice(x,begin,end,strides)
        einsum(operands,subscripts) equal(x1,x2) erf(x) ewise_fma(x1,x2,x3) exp(x) expand_dims(x,axis)
        eye(n,m,k,dtype) eye_like(x,k,dtype) flatten(x) flip(data,axis) floor(x) floor_divide(x1,x2) floor_mod(x1,x2)
        full(shape,fill_value,dtype) full_like(x,fill_value,dtype) gather_elements(data,indices,axis)
        gather_nd(data,indices,batch_dims) get_valid_counts(data,score_threshold,id_index,score_index) greater(x1,x2)
        greater_equal(x1,x2) hamming_window(window_size,periodic,alpha,beta,dtype)
        hint_on_device(data,dst_vdevice,memory_scope) index_put(data,indices,values,accumulate)
        index_tensor(data,indices) invoke_closure(closure,args,sinfo_args)
        invoke_pure_closure(closure,args,sinfo_args) isfinite(x) isinf(x) isnan(x)
        layout_transform(x,index_map,pad_value,axis_separators,input_axis_separators) left_shift(x1,x2) less(x1,x2)
        less_equal(x1,x2) linear(data,weight,bias,out_dtype) log(x) log_add_exp(x1,x2) logical_and(x1,x2)
        logical_not(x) logical_or(x1,x2) logical_xor(x1,x2) make_closure(func,args) masked_fill(x,mask,value)
        matmul(x1,x2,out_dtype) max(x,axis,keepdims) maximum(x1,x2) mean(x,axis,keepdims) median(x,axis,keepdims)
        meshgrid(tensors,indexing) min(x,axis,keepdims) minimum(x1,x2) mod(x1,x2)
        multibox_transform_loc(cls_pred,loc_pred,anchor,clip,threshold,variances,keep_background)
        multinomial_from_uniform(prob,uniform_sample,sample_indices,dtype) multiply(x1,x2) negative(x)
        non_max_suppression(data,valid_count,indices,max_output_size,iou_threshold,force_suppress,top_k,coord_start,score_index,id_index,return_indices,invalid_to_bottom,soft_nms_sigma,score_threshold)
        nonzero(x) not_equal(x1,x2) null_value() one_hot(indices,on_value,off_value,depth,axis) ones(shape,dtype)
        ones_like(x,dtype) outer(x1,x2) permute_dims(x,axes) power(x1,x2) print(*values,format) prod(x,axis,keepdims)
        quantize(data,scale,zero_point,axis,out_dtype) register_gradient(op_name,fgradient,level)
        repeat(data,repeats,axis) reshape(x,shape) right_shift(x1,x2)
        roi_align(data,rois,pooled_size,spatial_scale,sample_ratio,aligned,layout,mode)
        roi_pool(data,rois,pooled_size,spatial_scale,layout) round(x) rsqrt(x)
        scatter_elements(data,indices,updates,axis,reduction) scatter_nd(data,indices,updates,reduction)
        shape_of(expr) shape_to_tensor(expr) sigmoid(x) sign(x) sin(x) sinh(x) size(expr)
        slice_scatter(input_tensor,src,start,end,step,axis) sort(x,axis,descending) split(x,indices_or_sections,axis)
        sqrt(x) square(x) squeeze(x,axis) stack(tensors,axis) std(x,axis,keepdims)
        strided_slice(x,axes,begin,end,strides,assume_inbound) subtract(x1,x2) sum(x,axis,keepdims)
        take(x,indices,axis,mode) tan(x) tanh(x) tensor_to_shape(expr) tile(data,repeats) to_vdevice(data,dst_vdevice)
        topk(data,k,axis,ret_type,largest,dtype) tril(x,k) triu(x,k) trunc(x)
        unique(x,sorted,return_index,return_inverse,return_counts,axis) variance(x,axis,keepdims)
        where(condition,x1,x2) wrap_param(data,dtype) zeros(shape,dtype) zeros_like(x,dtype)
        """,
        refused={
            **each(
                "all_class_non_max_suppression get_valid_counts multibox_transform_loc non_max_suppression "
                "roi_align roi_pool",
                reasons.BOXES,
            ),
            "call_builtin_with_ctx": reasons.VIRTUAL_MACHINE,
            "call_py_func": "use R.call_pure_packed with a function from register_global_func",
        },
        not_ours={
            "register_gradient": reasons.TRAINING,
        },
    ),
    "tvm.relax.op.nn": Surface(
        """
        adaptive_avg_pool1d(data,output_size,layout,out_layout)
        adaptive_avg_pool2d(data,output_size,layout,out_layout)
        adaptive_avg_pool3d(data,output_size,layout,out_layout)
        attention(query,key,value,bias,scale,causal_mask,window_size)
        attention_bias(query,key,value,bias,scale,causal_mask,window_size)
        attention_var_len(queries,keys,values,seqstart_q,max_seqlen_q,seqstart_k,max_seqlen_k,scale,causal_mask,window_size)
        avg_pool1d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        avg_pool2d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        avg_pool3d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        batch_flatten(data)
        batch_norm(data,gamma,beta,moving_mean,moving_var,axis,epsilon,center,scale,momentum,training)
        conv1d(data,weight,strides,padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        conv1d_transpose(data,weight,strides,padding,output_padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        conv2d(data,weight,strides,padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        conv2d_transpose(data,weight,strides,padding,output_padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        conv3d(data,weight,strides,padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        conv3d_transpose(data,weight,strides,padding,output_padding,dilation,groups,data_layout,kernel_layout,out_layout,out_dtype)
        cross_entropy_with_logits(predictions,labels) dropout(data,rate) gelu(data) gelu_tanh(data)
        group_norm(data,gamma,beta,num_groups,channel_axis,axes,epsilon,center,scale)
        instance_norm(data,gamma,beta,channel_axis,axes,epsilon,center,scale)
        layer_norm(data,gamma,beta,axes,epsilon,center,scale) leakyrelu(data,alpha) log_softmax(data,axis)
        max_pool1d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        max_pool2d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        max_pool3d(data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        nll_loss(predictions,targets,weights,reduction,ignore_index) pad(data,pad_width,pad_mode,pad_value)
        pixel_shuffle(data,upscale_factor) prelu(data,alpha,axis) relu(data) relu6(data)
        rms_norm(data,weight,axes,epsilon) selu(data) silu(data) softmax(data,axis)
        softplus(data,beta,threshold)
        """
    ),
    "tvm.relax.op.image": Surface(
        """
        affine_grid(data,size) grid_sample(data,grid,method,layout,padding_mode,align_corners)
        resize2d(data,size,roi,layout,method,coordinate_transformation_mode,rounding_method,cubic_alpha,cubic_exclude,extrapolation_value,out_dtype)
        resize3d(data,size,roi,layout,method,coordinate_transformation_mode,rounding_method,cubic_alpha,cubic_exclude,extrapolation_value,out_dtype)
        """,
        refused={
            **each("affine_grid resize3d", reasons.RESAMPLING),
        },
    ),
    "tvm.relax.op.grad": Surface(
        """
        avg_pool2d_backward(output_grad,data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        end_checkpoint(input)
        max_pool2d_backward(output_grad,data,pool_size,strides,padding,dilation,ceil_mode,count_include_pad,layout,out_layout)
        nll_loss_backward(output_grad,predictions,targets,weights,reduction,ignore_index) no_grad(input)
        start_checkpoint(input) take_backward(output_grad,x,indices,axis)
        """,
        not_ours={
            "*": reasons.TRAINING,
        },
    ),
    "tvm.relax.op.memory": Surface(
        """
        alloc_storage(size,virtual_device_index,storage_scope,dtype)
        alloc_tensor(storage,offset,shape,dtype,runtime_device_ind) ensure_zero_offset(data) kill_storage(storage)
        kill_tensor(tensor) view(data,shape,dtype,relative_byte_offset)
        """,
        refused={
            **each("alloc_storage alloc_tensor kill_storage kill_tensor ensure_zero_offset", reasons.MEMORY),
            "view": "use relax.op.reshape for another shape, and astype for another dtype",
        },
    ),
    "tvm.relax.op.builtin": Surface(
        """
        alloc_tensor(shape,dtype,runtime_device_index,storage_scope) stop_lift_params(x)
        """,
        refused={
            "stop_lift_params": (
                "FoldConstant folds what has constant operands only; take the weight as an input where it must not"
            ),
        },
    ),
    "tvm.relax.op.ccl": Surface(
        """
        allgather(x,num_workers,in_group) allreduce(x,op_type,in_group) broadcast_from_worker0(x)
        scatter_from_worker0(x,num_workers,axis)
        """,
        not_ours={
            "*": reasons.DISTRIBUTED,
        },
    ),
    "tvm.relax.op.distributed": Surface(
        """
        annotate_sharding(input,device_mesh,placement) call_tir_local_view(gvar,args,out_sinfo,tir_vars)
        redistribute(input,device_mesh,placement) redistribute_replica_to_shard(input,num_workers,axis)
        """,
        not_ours={
            "*": reasons.DISTRIBUTED,
        },
    ),
    "tvm.relax.op.vision": Surface(
        """
        all_class_non_max_suppression(boxes,scores,max_output_boxes_per_class,iou_threshold,score_threshold,output_format)
        get_valid_counts(data,score_threshold,id_index,score_index)
        multibox_transform_loc(cls_pred,loc_pred,anchor,clip,threshold,variances,keep_background)
        non_max_suppression(data,valid_count,indices,max_output_size,iou_threshold,force_suppress,top_k,coord_start,score_index,id_index,return_indices,invalid_to_bottom,soft_nms_sigma,score_threshold)
        roi_align(data,rois,pooled_size,spatial_scale,sample_ratio,aligned,layout,mode)
        roi_pool(data,rois,pooled_size,spatial_scale,layout)
        """,
        refused={
            "*": reasons.BOXES,
        },
    ),
    "tvm.script.relax": Surface(
        """
        Callable(params,ret,purity,derive_func) Else() ExternFunc(global_symbol,struct_info) If(condition) Object()
        Prim(dtype,value) SeqExpr() Shape(values,ndim) ShapeExpr(values) Tensor(shape,dtype,vdevice,ndim) Then()
        Tuple(*fields) abs(x) acos(x) acosh(x) add(x1,x2) arange(start,end,step,dtype) arg(name,struct_info)
        argmax(x,axis,keepdims) argmin(x,axis,keepdims) argsort(data,axis,descending,dtype) asin(x) asinh(x)
        assert_op(condition,format_args,format) astype(x,dtype) atan(x) atan2(x1,x2) atanh(x) bitwise_and(x1,x2)
        bitwise_not(x) bitwise_or(x1,x2) bitwise_xor(x1,x2) broadcast_to(x,shape)
        bucketize(input_tensor,boundaries,out_int32,right) call_builtin_with_ctx(func,args,sinfo_args)
        call_dps_packed(func,args,out_sinfo) call_inplace_packed(func,*args,inplace_indices,sinfo_args)
        call_packed(func,*args,sinfo_args,**kwargs) call_pure_packed(func,*args,sinfo_args)
        call_py_func(py_func_name,*args,out_sinfo) call_tir(gvar,args,out_sinfo,tir_vars)
        call_tir_inplace(gvar,args,inplace_indices,out_sinfo,tir_vars)
        call_tir_with_grad(gvar,args,out_sinfo,te_grad_name,te_grad_kwargs,tir_vars) ceil(x) clip(x,min,max)
        collapse_sum_like(data,collapse_target) collapse_sum_to(data,shape) concat(tensors,axis) const(value,dtype)
        cos(x) cosh(x) cpu(dev_id) cuda(dev_id) cumprod(data,axis,dtype,exclusive) cumsum(data,axis,dtype,exclusive)
        DTensor dataflow() device_mesh dist dequantize(data,scale,zero_point,axis,out_dtype)
        device(device_type,index) divide(x1,x2)
        dtype(value) dynamic_strided_slice(x,begin,end,strides) einsum(operands,subscripts)
        emit(value,annotate_struct_info) emit_match_cast(value,struct_info) emit_te(func,*args,**kwargs)
        emit_var_binding(value) emit_with_sinfo(op,args,sinfo_args) equal(x1,x2) erf(x) ewise_fma(x1,x2,x3) exp(x)
        expand_dims(x,axis) ext_dev(dev_id) eye(n,m,k,dtype) eye_like(x,k,dtype) flatten(x) flip(data,axis) floor(x)
        floor_divide(x1,x2) floor_mod(x1,x2) full(shape,fill_value,dtype) full_like(x,fill_value,dtype)
        func_attr(attrs) func_name(name) func_ret_struct_info(ret_sinfo) func_ret_value(value) function
        gather_elements(data,indices,axis) gather_nd(data,indices,batch_dims) greater(x1,x2) greater_equal(x1,x2)
        hamming_window(window_size,periodic,alpha,beta,dtype) hexagon(dev_id)
        hint_on_device(data,dst_vdevice,memory_scope) index_put(data,indices,values,accumulate)
        index_tensor(data,indices) invoke_closure(closure,args,sinfo_args)
        invoke_pure_closure(closure,args,sinfo_args) isfinite(x) isinf(x) isnan(x)
        layout_transform(x,index_map,pad_value,axis_separators,input_axis_separators) left_shift(x1,x2) less(x1,x2)
        less_equal(x1,x2) linear(data,weight,bias,out_dtype) log(x) log_add_exp(x1,x2) logical_and(x1,x2)
        logical_not(x) logical_or(x1,x2) logical_xor(x1,x2) macro(*args,hygienic) make_closure(func,args)
        match_cast(value,struct_info) matmul(x1,x2,out_dtype) max(x,axis,keepdims) maximum(x1,x2)
        mean(x,axis,keepdims) median(x,axis,keepdims) meshgrid(tensors,indexing) metal(dev_id) min(x,axis,keepdims)
        minimum(x1,x2) mod(x1,x2) multinomial_from_uniform(prob,uniform_sample,sample_indices,dtype) multiply(x1,x2)
        negative(x) nonzero(x) not_equal(x1,x2) null_value() one_hot(indices,on_value,off_value,depth,axis)
        ones(shape,dtype) ones_like(x,dtype) opencl(dev_id) outer(x1,x2) output(*vars) permute_dims(x,axes)
        power(x1,x2) prim_value(value) print(*values,format) prod(x,axis,keepdims)
        quantize(data,scale,zero_point,axis,out_dtype) repeat(data,repeats,axis) reshape(x,shape) rewriter
        right_shift(x1,x2) rocm(dev_id) round(x) rsqrt(x) scatter_elements(data,indices,updates,axis,reduction)
        scatter_nd(data,indices,updates,reduction) shape(value) shape_of(expr) shape_to_tensor(expr) sigmoid(x)
        sign(x) sin(x) sinh(x) size(expr) slice_scatter(input_tensor,src,start,end,step,axis) sort(x,axis,descending)
        split(x,indices_or_sections,axis) sqrt(x) square(x) squeeze(x,axis) stack(tensors,axis) std(x,axis,keepdims)
        stop_lift_params(x) str(value) strided_slice(x,axes,begin,end,strides,assume_inbound) subtract(x1,x2)
        sum(x,axis,keepdims) take(x,indices,axis,mode) tan(x) tanh(x) tensor_to_shape(expr) tile(data,repeats)
        to_vdevice(data,dst_vdevice) topk(data,k,axis,ret_type,largest,dtype) tril(x,k) triu(x,k) trunc(x)
        tuple(*fields) unique(x,sorted,return_index,return_inverse,return_counts,axis) variance(x,axis,keepdims)
        vpi(dev_id) vulkan(dev_id) webgpu(dev_id) where(condition,x1,x2) wrap_param(data,dtype) zeros(shape,dtype)
        zeros_like(x,dtype)
        """,
        refused={
            **each(
                "Else If SeqExpr Then arg emit emit_match_cast emit_var_binding func_name "
                "func_ret_struct_info func_ret_value",
                reasons.STATEMENTS,
            ),
            "call_builtin_with_ctx": reasons.VIRTUAL_MACHINE,
            "call_py_func": "use R.call_pure_packed with a function from register_global_func",
            "macro": (
                "call a Python function while the script is parsed, or write an R.function and "
                "run InlinePrivateFunctions"
            ),
            "stop_lift_params": (
                "FoldConstant folds what has constant operands only; take the weight as an input where it must not"
            ),
        },
        not_ours={
            **each("DTensor device_mesh dist", reasons.DISTRIBUTED),
            **each("ext_dev hexagon metal opencl rocm vpi vulkan webgpu", reasons.OTHER_DEVICES),
        },
    ),
}
