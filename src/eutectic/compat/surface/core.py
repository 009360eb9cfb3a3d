"""Public names of TVM: TVM itself: modules, passes, the runtime, targets, tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.kinds import WHOLE, Surface, each

_DEVICE: Final = "another device than the CPU and CUDA"
_REMOTE: Final = "remote machines; call what eutectic.build gives on this one"
_DEVICES: Final = each("ext_dev hexagon metal opencl rocm vpi vulkan", _DEVICE)
_FILES: Final = "models are written by eutectic.compile(...).save(path) and read by eutectic.load(path)"
_BUILT: Final = "compiled modules are what eutectic.build gives: call them, or index them by name"
_INTERNAL: Final = "TVM's own tests of its foreign function interface"
_CLASSES: Final = "nodes are Python classes here: derive from eutectic.ir.node.Node"
_VDEVICE: Final = "describe the place of a tensor with tvm.ir.VDevice(target, vdevice_id, memory_scope)"
_TAGS: Final = 'targets have no tags: describe one, as Target({"kind": "llvm", "mcpu": "haswell"})'
_TIME: Final = "run a function with vm.time_evaluator, or measure with eutectic bench"

CORE: Final[Mapping[str, Surface]] = {
    "tvm": Surface(
        """
        DataType(content) DataTypeCode IRModule(functions,attrs,global_infos) Object TVMError build(mod,target)
        compile(mod,target,relax_pipeline,tir_pipeline) cpu(dev_id) cuda(dev_id) device(device_type,index)
        ext_dev(dev_id) get_global_func(name,allow_missing) hexagon(dev_id) metal(dev_id) opencl(dev_id)
        register_func(func_name,f,override) register_global_func(func_name,f,override)
        register_object(type_key,init) rocm(dev_id) runtime vpi(dev_id) vulkan(dev_id)
        """,
        refused={"register_object": _CLASSES},
        not_ours=_DEVICES,
    ),
    "tvm.ir": Surface(
        """
        Array(input_list) Attrs BaseExpr BaseFunc BaseFunc.with_attr
        BaseFunc.without_attr CallingConv DictAttrs DummyGlobalInfo() EnvFunc(name,func) EnvFunc.get(name)
        FuncType(arg_types,ret_type) GlobalInfo GlobalVar(name_hint) IRModule(functions,attrs,global_infos)
        IRModule.clone() IRModule.from_expr IRModule.functions_items() IRModule.get_attr
        IRModule.get_global_var(name) IRModule.get_global_vars() IRModule.script() IRModule.show(style,black_format)
        IRModule.update(other) IRModule.update_func IRModule.update_global_info(name,global_info)
        IRModule.with_attr IRModule.with_attrs IRModule.without_attr
        IRModule.replace_global_vars(replacements)
        Map(input_dict) Node Op Op.get Op.get_attr Op.has_attr Op.list_op_names()
        Op.reset_attr Op.set_attr PointerType(element_type,storage_scope) PrimExpr
        PrimType(dtype) Range(begin,end) Range.from_min_extent(min_value,extent) RelaxExpr SequentialSpan(spans)
        SourceName(name) Span TupleType(fields) Type VDevice(target,vdevice_id,memory_scope)
        assert_structural_equal(lhs,rhs,map_free_vars) get_first_structural_mismatch(lhs,rhs,map_free_vars)
        load_json(json_str) make_node(type_key,**kwargs) register_intrin_lowering(op_name,target,f,level)
        register_op_attr(op_name,attr_key,value,level) save_json(node) structural_equal(lhs,rhs,map_free_vars)
        structural_hash
        """,
        refused={
            "FuncType": "types of functions are relax.FuncStructInfo(params, ret)",
            "SequentialSpan": "a value of several origins has one Span, whose `others` are the rest",
            "SourceName": "a Span has the name of its file itself: tvm.ir.Span(file, line, column)",
            "register_intrin_lowering": "write the intrinsic as a T.prim_func, and use it with Schedule.tensorize",
        },
        not_ours={"CallingConv": "TVM's own conventions of calls between host and device"},
    ),
    "tvm.ir.transform": Surface(
        """
        ApplyPassToFunction(transform,func_name_regex,error_if_no_function_matches_regex) ModulePass Pass Pass.info
        PassContext(opt_level,required_pass,disabled_pass,instruments,config) PassContext.current()
        PassContext.list_configs() PassContext.override_instruments(instruments)
        PassInfo(opt_level,name,required,traceable) PrintIR(header)
        Sequential(passes,opt_level,name,required,traceable)
        module_pass(pass_func,opt_level,name,required,traceable)
        """
    ),
    "tvm.instrument": Surface(
        """
        DumpIR(dump_dir,refresh) PassInstrument PassInstrument.enter_pass_ctx() PassInstrument.exit_pass_ctx()
        PassInstrument.run_after_pass(mod,info) PassInstrument.run_before_pass(mod,info)
        PassInstrument.should_run(mod,info) PassPrintingInstrument(print_before_pass_names,print_after_pass_names)
        PassTimingInstrument() PassTimingInstrument.render() PrintAfterAll() PrintBeforeAll()
        pass_instrument
        """
    ),
    "tvm.runtime": Surface(
        """
        DataType(content) DataTypeCode Device Executable(mod) Module Object ObjectConvertible Scriptable
        ShapeTuple(content) Tensor Tensor.copyfrom Tensor.copyto Tensor.numpy() Tensor.shape
        Tensor.dtype const(value,dtype) convert(value) cpu(dev_id) cuda(dev_id)
        device(device_type,index) disco empty(shape,dtype,device,mem_scope) enabled(target) ext_dev(dev_id)
        from_dlpack(ext_tensor) load_module(path) load_param_dict(param_bytes) load_param_dict_from_file(path)
        load_static_library(path,func_names) metal(dev_id) num_threads() opencl(dev_id) rocm(dev_id)
        save_param_dict(params) save_param_dict_to_file(params,path) system_lib(symbol_prefix)
        tensor(arr,device,mem_scope) vpi(dev_id) vulkan(dev_id)
        """,
        refused={
            "Executable": _BUILT,
            "Module": _BUILT,
            "ObjectConvertible": "give operators expressions, arrays or numbers",
            "load_module": _FILES,
            "load_static_library": _FILES,
            "system_lib": _FILES,
        },
        not_ours={**_DEVICES, "disco": "distributed sessions"},
    ),
    "tvm.error": Surface(
        """
        DiagnosticError InternalError OpAttributeInvalid OpAttributeRequired OpAttributeUnImplemented OpError
        OpNotImplemented RPCError RPCSessionTimeoutError TVMError register_error(name_or_cls,cls)
        """,
        not_ours=each("RPCError RPCSessionTimeoutError", _REMOTE),
    ),
    "tvm.target": Surface(
        """
        Target(target,host) Target.current(allow_none) TargetKind
        VirtualDevice(device,target,memory_scope) list_tags() register_tag(name,config,override)
        """,
        refused={"VirtualDevice": _VDEVICE, "list_tags": _TAGS, "register_tag": _TAGS},
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
        parametrize_targets(*args) requires_cuda requires_gpu requires_llvm requires_cublas requires_cudnn
        requires_cutlass requires_vulkan requires_opencl requires_metal requires_rocm requires_x86 requires_aarch64
        rpc_run(mod,device_type,args,evaluator_config,rpc_config,export_func,output_format) run_check_signal
        skip_if_32bit(reason) skip_if_no_reference_system(func) slow strtobool(val) terminate_self() test_raise_error
        utils
        """,
        refused={
            "check_int_constraints_trans_consistency": "check values with tvm.testing.check_bool_expr_is_true",
            "local_run": _TIME,
        },
        not_ours={
            **each("echo identity_after nop object_use_count run_check_signal test_raise_error", _INTERNAL),
            "install_request_hook": "a server that TVM's own continuous integration downloads from",
            "rpc_run": _REMOTE,
            "skip_if_no_reference_system": "a simulator of microcontrollers",
            "terminate_self": "processes that TVM starts itself",
        },
    ),
    "tvm.support": Surface(
        """
        describe() libinfo()
        """
    ),
    "tvm.driver": Surface(
        """
        build(mod,target) compile(mod,target,relax_pipeline,tir_pipeline)
        """
    ),
    "tvm.contrib": Surface(
        """
        cblas cudnn graph_executor hexagon mkl ndk nvcc pickle_memoize popen_pool utils
        """,
        refused={
            "cblas": "products by a library are asked for with the target: llvm -libs=dnnl",
            "cudnn": "use tvm.relax.backend.cuda.cudnn.partition_for_cudnn",
            "graph_executor": "use tvm.relax.VirtualMachine",
            "mkl": "products by a library are asked for with the target: llvm -libs=dnnl",
            "pickle_memoize": "it would unpickle files, which can run code: use functools.cache",
            "nvcc": "kernels for CUDA are compiled by NVRTC when a module is built",
            "popen_pool": "use concurrent.futures.ProcessPoolExecutor",
        },
        not_ours={"hexagon": _DEVICE, "ndk": _DEVICE},
    ),
    "tvm.contrib.utils": Surface(
        """
        TempDirectory(custom_path) tempdir(custom_path)
        """
    ),
    "tvm.rpc": Surface(
        """
        LocalSession() PopenSession(binary) RPCSession(sess)
        Server(host,port,port_end,is_proxy,tracker_addr,key,load_library,custom_addr,silent,no_fork,server_init_callback,reuse_addr,timeout)
        TrackerSession(addr) connect(url,port,key,session_timeout,session_constructor_args,enable_logging)
        connect_tracker(url,port) with_minrpc(compile_func,server)
        """,
        not_ours={WHOLE: _REMOTE},
    ),
}
