//===- Passes.td - from thread ops to NVVM ---------------------*- tablegen -*-===//

#ifndef MIRAGE_CONVERSION_THREADTONVVM_PASSES_TD
#define MIRAGE_CONVERSION_THREADTONVVM_PASSES_TD

include "mirage/Dialect/Common/ChipOption.td"

include "mlir/Pass/PassBase.td"

def ConvertThreadToNVVM : Pass<"mirage-convert-thread-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "turn thread ops into LLVM and NVVM ops";
  let description = [{
    Precondition: GPU functions whose `known_block_size` is `[32 * warps, 1, 1]`,
    parameters that are memrefs of static shape and strides or tensor maps, and
    planned scratch areas (`mirage-plan-shared-memory`).

    A fragment becomes one value for each register (two 2-byte floats share one),
    memrefs and shared tiles become pointers in address spaces 1 and 3, and control
    flow stays `scf`. Accesses have the alignment that constants, products and loop
    bounds prove for the offsets. The attribute `thread.shared_bytes` of a function
    is the number of bytes of dynamic shared memory that it uses.

    An op that cannot be lowered (memrefs made by other ops, no block size, no
    scratch offset, a layout for another number of warps) is an error at that op.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def RecomputeValues : Pass<"mirage-recompute-values", "::mlir::gpu::GPUModuleOp"> {
  let summary = "keep 16-bit elements across barriers instead of what is computed from them";
  let description = [{
    Precondition: `mirage-convert-thread-to-nvvm`, before branches are lowered.

    Elements of 2 bytes that are loaded as vectors take one register for two of them; what is
    computed from them in f32 takes one for each. If f32 values that live across a barrier of a
    block need more registers than a thread has, those that few scalar ops compute from such
    vectors, constants and values that live there anyway are computed again from the vectors where
    they are used, if there are registers for what remains and for what is loaded behind the
    barrier. What a vector holds there is hidden from compilers, which would otherwise keep what
    they know already. All arithmetic of such a block is then ordered so that one element is
    computed after the other. Elements that are needed only behind the last barrier, from tensors that
    the kernel only reads, are loaded there, 4 to 32 registers of them ahead of their use, also if they
    alone need more registers than there are; these tensors and the stored ones are no longer
    `noalias`, so that compilers keep that order. The same ops have the same operands as before.

    In blocks that wait for the others of their cluster, this is done from 40 registers on, and if
    these are enough for what is kept, room for 32 warps on a multiprocessor is requested: others
    work while some wait.
  }];
  let options = [ChipOption];
  let statistics = [Statistic<"numRecomputed", "recomputed", "kernels that compute values again">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect"];
}

def SetTensorMaps : Pass<"mirage-set-tensor-maps", "::mlir::gpu::GPUModuleOp"> {
  let summary = "pass tensor maps to kernels by value";
  let description = [{
    Precondition: kernels are `llvm.func`s, and those with tensor maps list these
    parameters in `thread.tensor_maps` (`mirage-convert-thread-to-nvvm` does this).
    The pass declares such a parameter as 128 bytes that are passed by value and are
    constant over the grid. Otherwise it would be copied to local memory, where the
    tensor memory accelerator cannot read it. The pass runs after the conversion to
    `llvm.func` because `gpu.func` does not allow these attributes.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

#endif // MIRAGE_CONVERSION_THREADTONVVM_PASSES_TD
