# Declares the sources of MLIR's Python bindings that we ship: MirageUpstreamPython.
# Debian's MLIR exports no MLIRPythonSources targets, hence the declarations here.
set(upstream_python "${MIRAGE_MLIR_SOURCES}/python/mlir")
set(upstream_cpp "${MIRAGE_MLIR_SOURCES}/lib/Bindings/Python")

if(MIRAGE_STATIC)
  set(MIRAGE_PYTHON_LLVM LLVMSupport)
else()
  # add_mlir_python_modules names LLVMSupport itself. Its archive next to libLLVM.so would be a
  # second copy of LLVM's globals in the process: let the name mean the shared library.
  set(MIRAGE_PYTHON_LLVM LLVM)
  foreach(configuration RELWITHDEBINFO RELEASE NOCONFIG)
    get_target_property(location LLVM IMPORTED_LOCATION_${configuration})
    if(location)
      break()
    endif()
  endforeach()
  set_target_properties(LLVMSupport PROPERTIES
    INTERFACE_LINK_LIBRARIES ""
    IMPORTED_LOCATION_${configuration} "${location}")
endif()

declare_mlir_python_sources(MirageUpstreamPython)
declare_mlir_python_sources(MirageUpstreamPython.Core
  ADD_TO_PARENT MirageUpstreamPython
  ROOT_DIR "${upstream_python}"
  SOURCES
    _mlir_libs/__init__.py ir.py passmanager.py rewrite.py
    dialects/_ods_common.py extras/types.py extras/meta.py)
declare_mlir_python_sources(MirageUpstreamPython.Dialects ADD_TO_PARENT MirageUpstreamPython)

# upstream_dialect(<name> <td file> [<extra arguments of declare_mlir_dialect_python_bindings>…])
function(upstream_dialect name td)
  if(NOT "SOURCES_GLOB" IN_LIST ARGN)
    list(APPEND ARGN SOURCES dialects/${name}.py)
  endif()
  declare_mlir_dialect_python_bindings(
    ADD_TO_PARENT MirageUpstreamPython.Dialects
    ROOT_DIR "${upstream_python}"
    TD_FILE dialects/${td}
    DIALECT_NAME ${name} ${ARGN})
endfunction()
upstream_dialect(builtin BuiltinOps.td)
upstream_dialect(func FuncOps.td)
upstream_dialect(arith ArithOps.td GEN_ENUM_BINDINGS)
upstream_dialect(math MathOps.td)
upstream_dialect(index IndexOps.td GEN_ENUM_BINDINGS)
upstream_dialect(ub UBOps.td)
upstream_dialect(cf ControlFlowOps.td)
upstream_dialect(scf SCFOps.td)
upstream_dialect(memref MemRefOps.td)
upstream_dialect(tensor TensorOps.td)
upstream_dialect(vector VectorOps.td GEN_ENUM_BINDINGS_TD_FILE dialects/VectorAttributes.td)
upstream_dialect(gpu GPUOps.td GEN_ENUM_BINDINGS SOURCES_GLOB dialects/gpu/__init__.py)
upstream_dialect(nvgpu NVGPUOps.td GEN_ENUM_BINDINGS)
upstream_dialect(nvvm NVVMOps.td GEN_ENUM_BINDINGS)
upstream_dialect(llvm LLVMOps.td GEN_ENUM_BINDINGS)

function(upstream_extension name)
  declare_mlir_python_extension(MirageUpstreamPython.${name}
    ADD_TO_PARENT MirageUpstreamPython.Core
    MODULE_NAME ${name}
    ROOT_DIR "${upstream_cpp}"
    SOURCES ${ARGN}
    PRIVATE_LINK_LIBS ${MIRAGE_PYTHON_LLVM})
endfunction()
declare_mlir_python_extension(MirageUpstreamPython.Support
  _PRIVATE_SUPPORT_LIB
  ADD_TO_PARENT MirageUpstreamPython.Core
  MODULE_NAME MLIRPythonSupport
  ROOT_DIR "${upstream_cpp}"
  SOURCES Globals.cpp IRAttributes.cpp IRCore.cpp IRTypes.cpp
  PRIVATE_LINK_LIBS ${MIRAGE_PYTHON_LLVM})
upstream_extension(_mlir MainModule.cpp IRAffine.cpp IRInterfaces.cpp Pass.cpp Rewrite.cpp)
upstream_extension(_mlirDialectsGPU DialectGPU.cpp)
upstream_extension(_mlirDialectsNVGPU DialectNVGPU.cpp)
upstream_extension(_mlirDialectsLLVM DialectLLVM.cpp)
