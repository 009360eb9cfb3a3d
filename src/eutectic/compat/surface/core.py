"""Public names of TVM: TVM itself: modules, passes, the runtime, targets, tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import Surface

CORE: Final[Mapping[str, Surface]] = {
    "tvm": Surface(
        """
        DataType(content) DataTypeCode(value,names,module,qualname,type,start,boundary)
        IRModule(functions,attrs,global_infos) Object build(mod,target,pipeline)
        compile(mod,target,relax_pipeline,tir_pipeline) cpu(dev_id) cuda(dev_id) device(device_type,index)
        ext_dev(dev_id) get_global_func(name,allow_missing) hexagon(dev_id) metal(dev_id) opencl(dev_id)
        register_global_func(func_name,f,override) register_object(type_key,init) rocm(dev_id)
        tvm_wrap_excepthook(exception_hook) vpi(dev_id) vulkan(dev_id)
        """
    ),
    "tvm.ir": Surface(
        """
        Array(input_list) Attrs() BaseExpr() BaseFunc(struct_info_,attrs)
        CallingConv(value,names,module,qualname,type,start,boundary) DictAttrs(__dict__) DummyGlobalInfo()
        EnvFunc(name,func) FuncType(arg_types,ret_type) GlobalInfo(*args,**kwargs) GlobalVar(name_hint)
        IRModule(functions,attrs,global_infos) Map(input_dict) Node Op() PointerType(element_type,storage_scope)
        PrimExpr(dtype) PrimType(dtype) Range(begin,end) RelaxExpr(struct_info_) SequentialSpan(spans)
        SourceName(name) Span(source_name,line,end_line,column,end_column) TupleType(fields) Type()
        VDevice(target,vdevice_id,memory_scope) assert_structural_equal(lhs,rhs,map_free_vars)
        load_json(json_str) make_node(type_key,**kwargs) register_intrin_lowering(op_name,target,f,level)
        register_op_attr(op_name,attr_key,value,level) save_json(node)
        """
    ),
    "tvm.ir.transform": Surface(
        """
        ModulePass(pass_info) Pass(*args,**kwargs)
        PassContext(opt_level,required_pass,disabled_pass,instruments,config)
        PassInfo(opt_level,name,required,traceable) PrintIR(header)
        Sequential(passes,opt_level,name,required,traceable)
        module_pass(pass_func,opt_level,name,required,traceable)
        """
    ),
    "tvm.runtime": Surface(
        """
        DataType(content) DataTypeCode(value,names,module,qualname,type,start,boundary) Device Executable(mod)
        Module(*args,**kwargs) Object ObjectConvertible() Scriptable() ShapeTuple(content) Tensor
        const(value,dtype) convert(value) cpu(dev_id) cuda(dev_id) device(device_type,index) disco
        empty(shape,dtype,device,mem_scope) enabled(target) ext_dev(dev_id) from_dlpack(ext_tensor)
        load_module(path) load_param_dict(param_bytes) load_param_dict_from_file(path)
        load_static_library(path,func_names) metal(dev_id) num_threads() opencl(dev_id) rocm(dev_id)
        save_param_dict(params) save_param_dict_to_file(params,path) system_lib(symbol_prefix)
        tensor(arr,device,mem_scope) vpi(dev_id) vulkan(dev_id)
        """
    ),
    "tvm.error": Surface(
        """
        DiagnosticError InternalError OpAttributeInvalid OpAttributeRequired OpAttributeUnImplemented OpError
        OpNotImplemented RPCError RPCSessionTimeoutError register_error(name_or_cls,cls)
        """
    ),
    "tvm.target": Surface(
        """
        Target(target,host) TargetKind(name,default_device_type,default_keys)
        VirtualDevice(device,target,memory_scope) list_tags() register_tag(name,config,override)
        """
    ),
    "tvm.testing": Surface(
        """
        DEFAULT_TEST_TARGETS IS_IN_CI SKIP_SLOW_TESTS assert_allclose(actual,desired,rtol,atol,verbose)
        assert_prim_expr_equal(lhs,rhs) check_bool_expr_is_true(bool_expr,vranges,cond)
        check_int_constraints_trans_consistency(constraints_trans,vranges)
        check_numerical_grads(function,input_values,grad_values,function_value,delta,atol,rtol)
        device_enabled(target) echo enabled_targets() exclude_targets(*args) fixture(func,cache_return_value)
        generate_random_array(dtype,shape) get_dtype_range(dtype) identity_after(x,sleep)
        install_request_hook(depth) is_ampere_or_newer() known_failing_targets(*args)
        local_run(mod,device_type,args,evaluator_config,export_func,output_format) main() ml_dtypes_dict nop
        np_dtype_from_str(dtype) object_use_count parameter(*values,ids,by_dict) parameters(*value_sets,ids)
        parametrize_targets(*args)
        rpc_run(mod,device_type,args,evaluator_config,rpc_config,export_func,output_format) run_check_signal
        skip_if_32bit(reason) skip_if_no_reference_system(func) strtobool(val) terminate_self() test_raise_error
        """
    ),
    "tvm.support": Surface(
        """
        describe() libinfo()
        """
    ),
    "tvm.driver": Surface(
        """
        build(mod,target,pipeline) compile(mod,target,relax_pipeline,tir_pipeline)
        """
    ),
    "tvm.rpc": Surface(
        """
        LocalSession() PopenSession(binary) RPCSession(sess)
        Server(host,port,port_end,is_proxy,tracker_addr,key,load_library,custom_addr,silent,no_fork,server_init_callback,reuse_addr,timeout)
        TrackerSession(addr) connect(url,port,key,session_timeout,session_constructor_args,enable_logging)
        connect_tracker(url,port) with_minrpc(compile_func,server)
        """
    ),
}
