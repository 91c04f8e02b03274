# The few functions that the CMakeLists.txt files of this tree are made of.

# All generated headers: every library depends on it, so sources include what they like.
add_custom_target(mirage-headers)

# mirage_collect_headers(<directory>): makes mirage-headers depend on every target below a folder.
function(mirage_collect_headers directory)
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  if(targets)
    add_dependencies(mirage-headers ${targets})
  endif()
  get_property(children DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(child ${children})
    mirage_collect_headers("${child}")
  endforeach()
endfunction()

# mirage_add_dialect_ods(<Name> <mnemonic>)
# To be called in include/mirage/Dialect/<Name>/IR, which holds <Name>Dialect.td, <Name>Attrs.td
# (enums too), <Name>Types.td where it has types, and <Name>Ops.td (it includes the others).
# Generates <Name>{Dialect,Enums,Attrs,Types,Ops}.{h,cpp}.inc and, where <Name>Interfaces.td is
# there, <Name>OpInterfaces.{h,cpp}.inc with its op interfaces.
function(mirage_add_dialect_ods name mnemonic)
  foreach(kind decls defs)
    set(suffix .h.inc)
    if(kind STREQUAL defs)
      set(suffix .cpp.inc)
    endif()
    set(LLVM_TARGET_DEFINITIONS ${name}Ops.td)
    mlir_tablegen(${name}Dialect${suffix} -gen-dialect-${kind} -dialect=${mnemonic})
    mlir_tablegen(${name}Attrs${suffix} -gen-attrdef-${kind} -attrdefs-dialect=${mnemonic})
    mlir_tablegen(${name}Types${suffix} -gen-typedef-${kind} -typedefs-dialect=${mnemonic})
    mlir_tablegen(${name}Ops${suffix} -gen-op-${kind} -dialect=${mnemonic})
    # From the attributes' file: the ops' file includes the enums that all dialects share.
    set(LLVM_TARGET_DEFINITIONS ${name}Attrs.td)
    mlir_tablegen(${name}Enums${suffix} -gen-enum-${kind})
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${name}Interfaces.td")
      set(LLVM_TARGET_DEFINITIONS ${name}Interfaces.td)
      mlir_tablegen(${name}OpInterfaces${suffix} -gen-op-interface-${kind})
    endif()
  endforeach()
  add_public_tablegen_target(Mirage${name}IncGen)
endfunction()

# mirage_add_passes_ods(<Group>): Passes.td of this folder, as Passes.h.inc with
# register<Group>Passes().
function(mirage_add_passes_ods group)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name=${group})
  add_public_tablegen_target(Mirage${group}PassesIncGen)
endfunction()

# mirage_searchable_tables(<output> <file>.td): the GenericTables of a file, by llvm-tblgen.
find_program(MIRAGE_TABLEGEN_EXE llvm-tblgen HINTS "${LLVM_TOOLS_BINARY_DIR}" REQUIRED)
set(MIRAGE_TABLEGEN_TARGET "")
function(mirage_searchable_tables output file)
  set(LLVM_TARGET_DEFINITIONS ${file})
  tablegen(MIRAGE ${output} -gen-searchable-tables EXTRA_INCLUDES ${MLIR_INCLUDE_DIRS})
  set(TABLEGEN_OUTPUT ${TABLEGEN_OUTPUT} PARENT_SCOPE)
endfunction()

# mirage_own_code(<target>): the compile settings of this project's own C++.
function(mirage_own_code target)
  llvm_update_compile_flags(${target})
  add_dependencies(${target} mirage-headers)
  # GCC's plain -Wshadow also objects to constructor parameters named like members.
  target_compile_options(${target} PRIVATE -Wall
    $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow>)
  if(MIRAGE_WERROR)
    # Some of GCC's flow-based warnings fire inside inlined LLVM headers.
    target_compile_options(${target} PRIVATE -Werror
      $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized
      -Wno-error=array-bounds -Wno-error=stringop-overflow>)
  endif()
  if(MIRAGE_PRECOMPILE)
    # libstdc++'s own use of what it deprecates is no longer hidden behind a precompiled header.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  endif()
endfunction()

# mirage_optimize_nothing(<target>): for code that is generated or calls other code, where optimizing
# takes longer than compiling and gains nothing measurable. What is handed out (static) is optimized.
function(mirage_optimize_nothing target)
  if(NOT MIRAGE_STATIC)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# mirage_add_library(<name> DIRECTORIES <dir>… [LINK <target>…] [WITHOUT_MLIR])
# A static library of every .cpp file below the folders; a new file needs no line anywhere. What is
# linked without MLIR must not be compiled with its headers either.
function(mirage_add_library name)
  cmake_parse_arguments(ARG "WITHOUT_MLIR" "" "DIRECTORIES;LINK" ${ARGN})
  set(sources)
  foreach(directory ${ARG_DIRECTORIES})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${directory}/*.cpp")
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  # The files that include what is generated from ODS.
  set(definitions ${sources})
  list(FILTER definitions INCLUDE REGEX "/IR/[A-Z][a-z]+(Dialect|Ops)\\.cpp$")
  if(definitions)
    list(REMOVE_ITEM sources ${definitions})
    add_library(${name}Definitions OBJECT ${definitions})
    mirage_own_code(${name}Definitions)
    mirage_optimize_nothing(${name}Definitions)
    mirage_compile_in_batches(${name}Definitions)
    if(MIRAGE_PRECOMPILE AND NOT MIRAGE_STATIC)
      # Else Clang refuses the headers that were parsed with -O1, of which __OPTIMIZE__ is defined.
      target_compile_options(${name}Definitions PRIVATE
        "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-validate-pch>")
    endif()
    list(APPEND sources $<TARGET_OBJECTS:${name}Definitions>)
  endif()
  add_library(${name} STATIC ${sources})
  mirage_own_code(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(NOT ARG_WITHOUT_MLIR)
    mirage_compile_in_batches(${name})
  endif()
endfunction()

# mirage_compile_in_batches(<target>): with MLIR's headers, whose parsing is most of a compilation of
# a file, and most files are small.
function(mirage_compile_in_batches target)
  mirage_precompile(${target})
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${MIRAGE_UNITY} UNITY_BUILD_BATCH_SIZE 6)
endfunction()

# mirage_precompile(<target>): MLIR's headers are parsed once for all targets. A source still
# includes what it uses: a build with MIRAGE_PRECOMPILE=OFF checks that.
function(mirage_precompile target)
  if(NOT MIRAGE_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET mirage-precompiled)
    mirage_add_precompiled("${PROJECT_SOURCE_DIR}/lib/Precompiled.h")
  endif()
  target_precompile_headers(${target} REUSE_FROM mirage-precompiled)
  # The headers are parsed with -fPIC, which LLVM gives to all: -fPIE of a program would not fit.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endfunction()

# mirage_add_precompiled(<header>): the target mirage-precompiled. It names files of this build
# folder, so the compiler cache must not hand it to another one; for what is compiled with it the
# cache goes by the text beside it (CCACHE_PCH_EXTSUM).
function(mirage_add_precompiled header)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "")
  add_library(mirage-precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
  mirage_own_code(mirage-precompiled)
  target_precompile_headers(mirage-precompiled PRIVATE "${header}")
  set_target_properties(mirage-precompiled PROPERTIES CXX_COMPILER_LAUNCHER "")
  file(SHA256 "${header}" content)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}${CMAKE_FILES_DIRECTORY}/mirage-precompiled.dir")
  file(CONFIGURE OUTPUT "${folder}/cmake_pch.hxx.pch.sum"
    CONTENT "${content} LLVM ${LLVM_PACKAGE_VERSION} ${CMAKE_CXX_COMPILER_VERSION}\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
endfunction()

# mirage_add_tool(<name> <source>…): an executable in bin/ with the whole project linked in.
function(mirage_add_tool name)
  add_executable(${name} ${ARGN})
  mirage_own_code(${name})
  mirage_precompile(${name})
  target_link_libraries(${name} PRIVATE MirageRegistration mirage-mlir)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    INSTALL_RPATH "${LLVM_LIBRARY_DIR}")
  if(MIRAGE_STATIC)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc LINKER:--gc-sections
      $<$<CONFIG:Release>:LINKER:--strip-all>)
  endif()
  install(TARGETS ${name} COMPONENT MiragePython RUNTIME DESTINATION mirage/bin)
endfunction()
