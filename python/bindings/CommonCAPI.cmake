# MirageCAPIAll: one shared library with the whole C API, MLIR's and ours; all extension modules
# link to it. libMLIR.so exports no C API, and Debian's build has no object libraries for
# add_mlir_python_common_capi_library: the archives are taken whole instead.
set(MIRAGE_PYTHON_PACKAGE "${PROJECT_BINARY_DIR}/python_packages/mirage")

set(upstream_capi
  IR Interfaces Debug Arith ControlFlow Func GPU Index LLVM Math MemRef NVGPU NVVM SCF Tensor UB
  Vector Target Transforms Conversion)
set(archives $<TARGET_FILE:MirageCAPI>)
set(upstream_dependencies)
foreach(name ${upstream_capi})
  list(APPEND archives $<TARGET_FILE:MLIRCAPI${name}>)
  get_target_property(dependencies MLIRCAPI${name} INTERFACE_LINK_LIBRARIES)
  list(APPEND upstream_dependencies ${dependencies})
endforeach()
list(FILTER upstream_dependencies EXCLUDE REGEX "^MLIRCAPI")
list(REMOVE_DUPLICATES upstream_dependencies)

file(CONFIGURE OUTPUT capi_anchor.cpp CONTENT "// the library is made of archives\n")
add_library(MirageCAPIAll SHARED "${CMAKE_CURRENT_BINARY_DIR}/capi_anchor.cpp")
target_link_libraries(MirageCAPIAll PRIVATE
  -Wl,--whole-archive ${archives} -Wl,--no-whole-archive MirageRegistration)
add_dependencies(MirageCAPIAll MirageCAPI)
set(rpath "\$ORIGIN")
if(MIRAGE_STATIC)
  file(CONFIGURE OUTPUT capi.map CONTENT "{ global: mlir*; mirage*; local: *; };\n")
  target_link_libraries(MirageCAPIAll PRIVATE ${upstream_dependencies})
  target_link_options(MirageCAPIAll PRIVATE
    LINKER:--version-script=${CMAKE_CURRENT_BINARY_DIR}/capi.map LINKER:--gc-sections
    -static-libstdc++ -static-libgcc $<$<CONFIG:Release>:LINKER:--strip-all>)
else()
  list(APPEND rpath "${LLVM_LIBRARY_DIR}")
endif()
target_link_libraries(MirageCAPIAll PRIVATE mirage-mlir)
set_target_properties(MirageCAPIAll PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${MIRAGE_PYTHON_PACKAGE}/_mlir_libs"
  BUILD_RPATH "${rpath}"
  INSTALL_RPATH "${rpath}")
install(TARGETS MirageCAPIAll COMPONENT MiragePython LIBRARY DESTINATION mirage/_mlir_libs)
