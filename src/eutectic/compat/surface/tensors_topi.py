"""Public names of TVM: operators as tensor expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface, each

WINOGRAD: Final = "topi.nn.conv2d_winograd with weights that relax.transform prepares"
BITS: Final = "arithmetic of single bits"
TRAINING: Final = "gradients, for training"

TOPI: Final[Mapping[str, Surface]] = {
    "tvm.topi": Surface(
        """
        abs(x) acos(x) acosh(x) add(lhs,rhs) adv_index(data,indices) all(data,axis,keepdims)
        any(data,axis,keepdims) arange(start,stop,step,dtype) argmax(data,axis,keepdims,select_last_index)
        argmin(data,axis,keepdims,select_last_index) argsort(data,valid_count,axis,is_ascend,dtype) asin(x)
        asinh(x) atan(x) atan2(lhs,rhs) atanh(x)
        binary_search(sequence_offset,search_range,sorted_sequence,value,right,out_dtype) bitwise_and(lhs,rhs)
        bitwise_not(data) bitwise_or(lhs,rhs) bitwise_xor(lhs,rhs) broadcast_to(data,shape) cast(x,dtype)
        ceil(x) ceil_log2(x) clip(x,a_min,a_max) collapse_sum(data,target_shape) concatenate(a_tuple,axis)
        cos(x) cosh(x) cumprod(data,axis,dtype,exclusive) cumsum(data,axis,dtype,exclusive)
        dft(re_data,im_data,inverse) divide(lhs,rhs) dyn_tile(a,new_shape,rdim)
        dynamic_strided_slice(a,begin,end,strides,output_shape) einsum(subscripts,*operand) elemwise_sum(xs)
        equal(lhs,rhs) erf(x) exp(x) expand_dims(a,axis,num_newaxis) expand_like(a,shape_like,axis)
        eye(n,m,k,dtype) fast_erf(x) fast_exp(x) fast_tanh(x) fixed_point_multiply(x,multiplier,shift)
        fixed_point_multiply_per_axis(x,y,lshift,rshift,is_lshift_required,is_rshift_required,axes) flip(a,axis)
        floor(x) floor_divide(lhs,rhs) floor_mod(lhs,rhs) full(shape,dtype,fill_value) full_like(x,fill_value)
        gather(data,axis,indices) gather_nd(a,indices,batch_dims) greater(lhs,rhs) greater_equal(lhs,rhs)
        hamming_window(window_size,periodic,alpha,beta,dtype) identity(x)
        index_put(data,indices,values,accumulate) index_tensor(data,indices) isfinite(x) isinf(x) isnan(x)
        layout_transform(array,src_layout,dst_layout,schedule_rule) left_shift(lhs,rhs) less(lhs,rhs)
        less_equal(lhs,rhs) log(x) log10(x) log2(x) log_add_exp(lhs,rhs) logical_and(lhs,rhs) logical_not(data)
        logical_or(lhs,rhs) logical_xor(lhs,rhs) matmul(a,b,transp_a,transp_b)
        matrix_set_diag(data,diagonal,k,align) max(data,axis,keepdims) maximum(lhs,rhs)
        meshgrid(a_tuple,indexing) min(data,axis,keepdims) minimum(lhs,rhs) mod(lhs,rhs) multiply(lhs,rhs)
        negative(x) not_equal(lhs,rhs) one_hot(indices,on_value,off_value,depth,axis,dtype) power(lhs,rhs)
        prod(data,axis,keepdims) reinterpret(x,dtype) repeat(a,repeats,axis) reshape(a,newshape)
        reverse_sequence(a,seq_lengths,seq_axis,batch_axis) right_shift(lhs,rhs) round(x) rsqrt(x)
        scanop(data,binop,identity_value,op_name,axis,dtype,exclusive)
        scatter_elements(data,indices,updates,axis,reduction) scatter_nd(data,indices,updates,mode)
        searchsorted(sorted_sequence,values,right,out_dtype) sequence_mask(data,valid_length,mask_value,axis)
        shape(array,dtype) sigmoid(x) sign(x) sin(x) sinh(x) slice_scatter(input_tensor,src,start,end,step,axis)
        sliding_window(data,axis,window_shape,strides) sort(data,axis,is_ascend)
        sparse_reshape(sparse_indices,prev_shape,new_shape,new_sparse_indices_shape,new_shape_shape)
        sparse_to_dense(sparse_indices,output_shape,sparse_values,default_value)
        split(ary,indices_or_sections,axis) sqrt(x) squeeze(a,axis) stack(tensors,axis)
        stft(data,n_fft,hop_length,win_length,window,normalized,onesided,output_shape)
        strided_set(a,v,begin,end,strides) strided_slice(a,begin,end,strides,axes,slice_mode,assume_inbound)
        subtract(lhs,rhs) sum(data,axis,keepdims) take(a,indices,axis,batch_dims,mode) tan(x) tanh(x)
        tensor_size(array,dtype) tensordot(a,b,axes) tile(a,reps) topk(data,k,axis,ret_type,is_ascend,dtype)
        transpose(a,axes) trilu(data,k,upper) trunc(x) unravel_index(indices,shape) where(condition,x,y)
        InvalidShapeError
        """,
        refused={
            "InvalidShapeError": "shapes that do not go together raise ValueError",
            **each("sort argsort topk", "relax.op.sort, argsort and topk; no stage of tensor expressions sorts"),
            **each("cumsum cumprod scanop", "relax.op.cumsum and relax.op.cumprod; topi.scan makes their program"),
            **each("scatter_elements scatter_nd index_put", "no stage writes at indices it reads: write a T.prim_func"),
            "binary_search": "topi.searchsorted",
            "dyn_tile": "topi.tile, or topi.broadcast_to a shape of variables",
            **each("fixed_point_multiply fixed_point_multiply_per_axis", "topi.quantize and topi.dequantize by scales"),
            **each("sparse_reshape sparse_to_dense", "tensors are dense"),
            "stft": "topi.sliding_window, topi.multiply with a window, and topi.dft",
        },
    ),
    "tvm.topi.nn": Surface(
        """
        adaptive_pool(data,output_size,pool_type,layout) adaptive_pool1d(data,output_size,pool_type,layout)
        adaptive_pool3d(data,output_size,pool_type,layout)
        batch_matmul(tensor_a,tensor_b,oshape,out_dtype,transpose_a,transpose_b,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        batch_norm(data,gamma,beta,moving_mean,moving_var,axis,epsilon,center,scale,training,momentum)
        batch_to_space_nd(data,block_shape,crop_begin_list,crop_end_list) binarize_pack(data,axis,name)
        binary_dense(data,weight) bitpack(data,bits,pack_axis,bit_axis,pack_type,name)
        bitserial_conv2d_nchw(data,kernel,stride,padding,activation_bits,weight_bits,pack_dtype,out_dtype,unipolar)
        bitserial_conv2d_nhwc(data,kernel,stride,padding,activation_bits,weight_bits,pack_dtype,out_dtype,unipolar)
        bitserial_dense(data,weight,data_bits,weight_bits,pack_dtype,out_dtype,unipolar)
        circular_pad(data,pad_before,pad_after,name)
        conv(inp,filt,stride,padding,dilation,groups,data_layout,kernel_layout,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_original_shape,auto_scheduler_should_rewrite_layout)
        conv1d(data,kernel,strides,padding,dilation,groups,data_layout,kernel_layout,out_dtype)
        conv1d_ncw(data,kernel,strides,padding,dilation,out_dtype)
        conv1d_nwc(data,kernel,strides,padding,dilation,out_dtype)
        conv1d_transpose_ncw(data,kernel,stride,padding,out_dtype,output_padding)
        conv2d(input,filter,strides,padding,dilation,data_layout,kernel_layout,out_dtype)
        conv2d_NCHWc(data,kernel,stride,padding,dilation,layout,out_layout,out_dtype)
        conv2d_NCHWc_OIHWo(data,kernel,stride,padding,dilation,layout,out_layout,out_dtype)
        conv2d_NCHWc_int8(data,kernel,stride,padding,dilation,layout,out_layout,out_dtype,n_elems)
        conv2d_hwcn(Input,Filter,stride,padding,dilation,out_dtype)
        conv2d_nchw(Input,Filter,stride,padding,dilation,out_dtype)
        conv2d_nhwc(Input,Filter,stride,padding,dilation,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        conv2d_transpose_nchw(Input,Filter,strides,padding,out_dtype,output_padding)
        conv2d_winograd_nchw(data,weight,strides,padding,dilation,out_dtype,pre_computed,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        conv2d_winograd_nchw_without_weight_transform(data,weight,strides,padding,dilation,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        conv2d_winograd_nhwc(data,weight,strides,padding,dilation,out_dtype,pre_computed,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        conv2d_winograd_nhwc_without_weight_transform(data,weight,strides,padding,dilation,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        conv2d_winograd_weight_transform(kernel,tile_size)
        conv3d_ncdhw(Input,Filter,stride,padding,dilation,groups,out_dtype)
        conv3d_ndhwc(Input,Filter,stride,padding,dilation,groups,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_origin_shape)
        conv3d_transpose_ncdhw(Input,Filter,strides,padding,out_dtype,output_padding)
        conv3d_winograd_weight_transform(kernel,tile_size)
        correlation_nchw(data1,data2,kernel_size,max_displacement,stride1,stride2,padding,is_multiply)
        deformable_conv2d_nchw(data,offset,kernel,strides,padding,dilation,deformable_groups,groups,out_dtype)
        deformable_conv2d_nhwc(data,offset,kernel,strides,padding,dilation,deformable_groups,groups,out_dtype)
        dense(data,weight,bias,out_dtype,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        dense_pack(data,weight,bias,out_dtype) depth_to_space(data,block_size,layout,mode)
        depthwise_conv2d_NCHWc(Input,Filter,stride,padding,dilation,layout,out_layout,out_dtype)
        depthwise_conv2d_backward_input_nhwc(Filter,Out_grad,oshape,ishape,stride,padding)
        depthwise_conv2d_backward_weight_nhwc(Input,Out_grad,oshape,fshape,stride,padding)
        depthwise_conv2d_nchw(Input,Filter,stride,padding,dilation,out_dtype)
        depthwise_conv2d_nhwc(Input,Filter,stride,padding,dilation,kernel_layout,out_dtype)
        dilate(data,strides,dilation_value,name) fast_softmax(x,axis) fifo_buffer(data,buffer,axis)
        flatten(data) get_pad_tuple(padding,kernel) get_pad_tuple1d(padding,kernel)
        global_pool(data,pool_type,layout)
        group_conv1d_ncw(data,kernel,strides,padding,dilation,groups,out_dtype)
        group_conv1d_nwc(data,kernel,strides,padding,dilation,groups,out_dtype)
        group_conv1d_transpose_ncw(data,kernel,stride,padding,out_dtype,output_padding,groups)
        group_conv2d_nchw(Input,Filter,stride,padding,dilation,groups,out_dtype)
        group_conv2d_nhwc(Input,Filter,stride,padding,dilation,groups,out_dtype)
        group_conv2d_transpose_nchw(data,kernel,stride,padding,out_dtype,output_padding,groups)
        group_conv3d_transpose_ncdhw(data,kernel,strides,padding,out_dtype,output_padding,groups)
        group_norm(data,gamma,beta,num_groups,channel_axis,axes,epsilon)
        instance_norm(data,gamma,beta,channel_axis,axis,epsilon) layer_norm(data,gamma,beta,axis,epsilon)
        leaky_relu(x,alpha) log_softmax(x,axis) lrn(data,size,axis,alpha,beta,bias)
        lstm(Xs,Wi,Wh,Bi,Bh,h_init,c_init,proj,p_i,p_f,p_o,f_act,g_act,h_act,reverse,weight_layout)
        matmul(tensor_a,tensor_b,bias,out_dtype,transpose_a,transpose_b,auto_scheduler_rewritten_layout,meta_schedule_original_shape)
        mirror_pad(data,pad_before,pad_after,mode,name)
        nll_loss(predictions,targets,weights,reduction,ignore_index)
        pad(data,pad_before,pad_after,pad_value,name,attrs)
        pool1d(data,kernel,stride,dilation,padding,pool_type,ceil_mode,layout,count_include_pad)
        pool2d(data,kernel,stride,dilation,padding,pool_type,ceil_mode,layout,count_include_pad)
        pool3d(data,kernel,stride,dilation,padding,pool_type,ceil_mode,layout,count_include_pad)
        pool_grad(grads,data,kernel,stride,padding,pool_type,ceil_mode,count_include_pad,layout)
        prelu(x,slope,axis) reflect_pad(data,pad_before,pad_after,name) relu(x)
        replicate_pad(data,pad_before,pad_after,name) rms_norm(data,weight,axis,epsilon)
        scale_shift_nchw(Input,Scale,Shift) scale_shift_nchwc(Input,Scale,Shift)
        scale_shift_nhwc(Input,Scale,Shift)
        simulated_dequantize(data,in_dtype,input_scale,input_zero_point,axis)
        simulated_quantize(data,out_dtype,output_scale,output_zero_point,axis) softmax(x,axis)
        softmax_common(x,axis,use_fast_exp) softplus(x,beta,threshold)
        space_to_batch_nd(data,block_shape,pad_before,pad_after,pad_value)
        space_to_depth(data,block_size,layout) unpack_NCHWc_to_nchw(packed_out,out_dtype)
        upsampling(data,scale_h,scale_w,layout,method,align_corners,output_shape)
        upsampling3d(data,scale_d,scale_h,scale_w,layout,method,coordinate_transformation_mode,output_shape)
        winograd_transform_matrices(tile_size,kernel_size,out_dtype)
        """,
        refused={
            **each("conv2d_NCHWc conv2d_NCHWc_OIHWo conv2d_NCHWc_int8 depthwise_conv2d_NCHWc", "conv2d_nchwc"),
            **each("conv2d_winograd_nchw conv2d_winograd_nhwc", WINOGRAD),
            **each("conv2d_winograd_nchw_without_weight_transform conv2d_winograd_weight_transform", WINOGRAD),
            **each("conv2d_winograd_nhwc_without_weight_transform conv3d_winograd_weight_transform", WINOGRAD),
            "winograd_transform_matrices": WINOGRAD,
            **each("deformable_conv2d_nchw deformable_conv2d_nhwc", "topi.image.grid_sample reads at computed places"),
            "correlation_nchw": "te.compute with te.sum over the products of two windows",
            "lstm": "write a T.prim_func with a serial loop over the steps",
            **each("simulated_quantize simulated_dequantize", "topi.quantize and topi.dequantize"),
            "upsampling3d": "upsampling of each pair of axes",
        },
        not_ours={
            **each("binarize_pack binary_dense bitpack bitserial_conv2d_nchw bitserial_conv2d_nhwc", BITS),
            "bitserial_dense": BITS,
            **each("depthwise_conv2d_backward_input_nhwc depthwise_conv2d_backward_weight_nhwc pool_grad", TRAINING),
        },
    ),
    "tvm.topi.image": Surface(
        """
        affine_grid(data,target_shape)
        crop_and_resize(data,boxes,box_indices,crop_size,layout,method,extrapolation_value,out_dtype)
        dilation2d_nchw(input,filter,stride,padding,dilations,out_dtype)
        dilation2d_nhwc(input,filter,stride,padding,dilations,out_dtype)
        grid_sample(data,grid,method,layout,padding_mode,align_corners)
        resize1d(data,roi,size,layout,method,coordinate_transformation_mode,rounding_method,bicubic_alpha,bicubic_exclude,extrapolation_value,out_dtype,output_shape)
        resize2d(data,roi,size,layout,method,coordinate_transformation_mode,rounding_method,bicubic_alpha,bicubic_exclude,extrapolation_value,out_dtype,output_shape)
        resize3d(data,roi,size,layout,method,coordinate_transformation_mode,rounding_method,bicubic_alpha,bicubic_exclude,extrapolation_value,out_dtype,output_shape)
        """,
        refused={
            "crop_and_resize": "topi.image.grid_sample with a grid over each box",
            "resize3d": "resize2d of each pair of axes",
        },
    ),
}
