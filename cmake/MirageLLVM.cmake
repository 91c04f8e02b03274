# Finds the installed MLIR and defines
#   mirage-mlir   INTERFACE target: what a final binary links to get MLIR and LLVM, either the two
#                 shared libraries or, with MIRAGE_STATIC, archives. Never both: two copies of MLIR
#                 in one process have two sets of type ids.
set(MIRAGE_LLVM_VERSION 22)
list(APPEND CMAKE_PREFIX_PATH "/usr/lib/llvm-${MIRAGE_LLVM_VERSION}")

if(MIRAGE_STATIC)
  set(ZLIB_USE_STATIC_LIBS ON)
  # LLVMSupport's exported link interface names this target, which libzstd-dev's CMake files define
  # only since Debian 13.
  find_library(MIRAGE_ZSTD_ARCHIVE libzstd.a)
  if(NOT MIRAGE_ZSTD_ARCHIVE)
    message(FATAL_ERROR "MIRAGE_STATIC needs libzstd.a (Debian: libzstd-dev)")
  endif()
  if(NOT TARGET zstd::libzstd_shared)
    add_library(zstd::libzstd_shared STATIC IMPORTED GLOBAL)
    set_target_properties(zstd::libzstd_shared PROPERTIES
      IMPORTED_LOCATION "${MIRAGE_ZSTD_ARCHIVE}")
  endif()
endif()

# LLVM compares major.minor.
find_package(MLIR ${MIRAGE_LLVM_VERSION}.1 REQUIRED CONFIG)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")

set(LLVM_RUNTIME_OUTPUT_INTDIR "${PROJECT_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${PROJECT_BINARY_DIR}/lib")
set(MLIR_BINARY_DIR "${PROJECT_BINARY_DIR}")
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# LLVM's linker, where it is installed, needs a sixth of the time of GNU's. The latter links what is
# handed out.
if(NOT MIRAGE_STATIC)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld MIRAGE_LLD)
  if(MIRAGE_LLD)
    set(LLVM_USE_LINKER lld)
  endif()
endif()
include(HandleLLVMOptions)

separate_arguments(mirage_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${mirage_llvm_definitions})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
# Generated code is held to LLVM's warnings, not to ours.
include_directories("${PROJECT_SOURCE_DIR}/include")
include_directories(SYSTEM "${PROJECT_BINARY_DIR}/include")

add_library(mirage-mlir INTERFACE)
if(NOT MIRAGE_STATIC)
  target_link_libraries(mirage-mlir INTERFACE MLIR LLVM)
  return()
endif()

# Every exported MLIR archive names the shared LLVM in its link interface: name archives instead.
llvm_map_components_to_libnames(mirage_llvm_archives
  NVPTX Core Support Passes AsmParser BitReader BitWriter IRReader Linker Target TargetParser
  Analysis TransformUtils ipo MC CodeGen FrontendOpenMP FrontendOffloading SupportLSP)
add_library(mirage-llvm-archives INTERFACE)
target_link_libraries(mirage-llvm-archives INTERFACE ${mirage_llvm_archives})
foreach(target ${MLIR_EXPORTED_TARGETS})
  get_target_property(type ${target} TYPE)
  get_target_property(interface ${target} INTERFACE_LINK_LIBRARIES)
  if(type STREQUAL "STATIC_LIBRARY" AND interface)
    list(TRANSFORM interface REPLACE "^LLVM$" mirage-llvm-archives)
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${interface}")
  endif()
endforeach()
target_link_libraries(mirage-mlir INTERFACE
  MLIROptLib MLIRLspServerLib MLIRTransforms
  MLIRVectorToSCF MLIRSCFToControlFlow MLIRNVGPUToNVVM MLIRAffineToStandard
  MLIRGPUToNVVMTransforms MLIRVectorToLLVMPass MLIRNVVMToLLVM MLIRFuncToLLVM
  MLIRReconcileUnrealizedCasts MLIRArithToLLVM MLIRControlFlowToLLVM MLIRIndexToLLVM
  MLIRMathToLLVM MLIRMemRefToLLVM MLIRUBToLLVM
  MLIRArithTransforms MLIRGPUTransforms MLIRMemRefTransforms MLIRVectorTransforms
  MLIRFuncInlinerExtension MLIRNVVMTarget MLIRTargetLLVM
  MLIRBuiltinToLLVMIRTranslation MLIRGPUToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRNVVMToLLVMIRTranslation
  mirage-llvm-archives)
