# Which compiler builds the project, and how the compiler cache is used; sourced with $root set.
# CC and CXX choose another one: Clang needs about half of GCC's time for MLIR's headers.
export CC=${CC:-clang-22} CXX=${CXX:-clang++-22}
# Clones and build folders share the compiler cache.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true
# What is compiled with precompiled headers is kept too; cmake/MirageTargets.cmake writes their sums.
export CCACHE_PCH_EXTSUM=true
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
