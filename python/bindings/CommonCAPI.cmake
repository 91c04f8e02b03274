# MirageCAPIAll: the C API, MLIR's and ours, as one shared library that all extension modules link to.
# libMLIR.so exports no C API, and Debian's build has no object libraries for
# add_mlir_python_common_capi_library: the archives are taken whole instead.
#
# Our own code is in a shared library of its own beneath it. MLIR's archives were compiled with hidden
# visibility; linked together with them, our copies of the type ids that MLIR keeps in inline
# functions would be hidden too, the dynamic linker could not unite them with libMLIR's, and traits
# would not be recognised ("parent must have the SymbolTable trait"). A static build has one copy.
set(MIRAGE_PYTHON_PACKAGE "${PROJECT_BINARY_DIR}/python_packages/mirage")

set(upstream_capi
  IR Interfaces Debug Arith ControlFlow Func GPU Index LLVM Math MemRef NVGPU NVVM SCF Tensor UB
  Vector Target Transforms)
set(archives)
set(upstream_dependencies)
foreach(name ${upstream_capi})
  list(APPEND archives $<TARGET_FILE:MLIRCAPI${name}>)
  get_target_property(dependencies MLIRCAPI${name} INTERFACE_LINK_LIBRARIES)
  list(APPEND upstream_dependencies ${dependencies})
endforeach()
list(FILTER upstream_dependencies EXCLUDE REGEX "^MLIRCAPI")
list(REMOVE_DUPLICATES upstream_dependencies)

file(CONFIGURE OUTPUT capi_anchor.cpp CONTENT "// the library is made of archives\n")
function(mirage_add_capi_library name)
  add_library(${name} SHARED "${CMAKE_CURRENT_BINARY_DIR}/capi_anchor.cpp")
  set(rpath "\$ORIGIN")
  if(NOT MIRAGE_STATIC)
    list(APPEND rpath "${LLVM_LIBRARY_DIR}")
  endif()
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${MIRAGE_PYTHON_PACKAGE}/_mlir_libs"
    BUILD_RPATH "${rpath}"
    INSTALL_RPATH "${rpath}")
  install(TARGETS ${name} COMPONENT MiragePython LIBRARY DESTINATION mirage/_mlir_libs)
endfunction()

mirage_add_capi_library(MirageCAPIAll)
target_link_libraries(MirageCAPIAll PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive)
set(own -Wl,--whole-archive $<TARGET_FILE:MirageCAPI> -Wl,--no-whole-archive MirageRegistration)
if(MIRAGE_STATIC)
  file(CONFIGURE OUTPUT capi.map CONTENT "{ global: mlir*; mirage*; local: *; };\n")
  target_link_libraries(MirageCAPIAll PRIVATE ${own} ${upstream_dependencies})
  target_link_options(MirageCAPIAll PRIVATE
    LINKER:--version-script=${CMAKE_CURRENT_BINARY_DIR}/capi.map LINKER:--gc-sections
    -static-libstdc++ -static-libgcc $<$<CONFIG:Release>:LINKER:--strip-all>)
  add_dependencies(MirageCAPIAll MirageCAPI)
else()
  mirage_add_capi_library(MirageCAPIOwn)
  target_link_libraries(MirageCAPIOwn PRIVATE ${own} mirage-mlir)
  add_dependencies(MirageCAPIOwn MirageCAPI)
  # Before libMLIR.so in the search order, and named even if nothing here refers to it.
  target_link_libraries(MirageCAPIAll PUBLIC -Wl,--no-as-needed MirageCAPIOwn -Wl,--as-needed)
endif()
target_link_libraries(MirageCAPIAll PRIVATE mirage-mlir)
