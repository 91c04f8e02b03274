//===- ThreadDialect.td - what the warps of a block do ---------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADDIALECT_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADDIALECT_TD

include "mlir/IR/DialectBase.td"

def Thread_Dialect : Dialect {
  let name = "thread";
  let cppNamespace = "::mirage::thread";
  let summary = "tiles in registers and shared memory, and the warps that work on them";
  let description = [{
    The lowest level before NVVM. A kernel is a `gpu.func` whose
    `known_block_size` is `[32 * warps, 1, 1]`; its parameters are memrefs of
    static shape and strides (or `!thread.tensormap`s), control flow is `scf`, and
    indices are `index` values below 2^31. All ops are *collective*: all threads of the
    block (or of the enclosing `thread.warps` region) execute them together, on
    tiles that they hold jointly:

    - `!thread.fragment`: a 2-D tile in registers. Its layout says which element
      each register of each lane of each warp holds.
    - `!thread.shared`: a 2-D tile (or a ring of them) at a fixed byte offset of
      the dynamic shared memory, row-major, optionally swizzled.

    Only `thread.barrier` and the waits of asynchronous ops order accesses to shared
    memory: if an op reads what other warps have written, one of these must be in
    between. Ops that exchange values through a scratch area (see
    `ScratchOpInterface`) synchronise before they write to it and before they read
    from it, but not afterwards.

    Global pointers are aligned to 16 bytes unless the argument says otherwise
    (`thread.align`, in bytes), and no two parameters of a kernel overlap unless
    both are only read. The elements of a parameter may lie between those of
    another one (`thread.interleaved`, its number and the elements from the
    first one there to the first one here).
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::gpu::GPUDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADDIALECT_TD
