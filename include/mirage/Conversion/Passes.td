//===- Passes.td - Conversion passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_CONVERSION_PASSES_TD
#define MIRAGE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertBlockToThread : Pass<"mirage-convert-block-to-thread", "::mlir::ModuleOp"> {
  let summary = "turn launches into GPU functions of thread-level ops";
  let description = [{
    Precondition: graphs without alternatives whose launches have layouts
    (`mirage-assign-layouts`), masked padding (`mirage-mask-padding`) and
    pipelined loops (`mirage-pipeline-loops`).

    Each launch becomes a `gpu.func` in a `gpu.module` named after the graph,
    with the operands followed by the results as memref parameters, and a
    `kernel.invoke`; equal launches share a function. The axes of the grid become
    one dimension, of which the first axis is the most significant part. Loops
    become `scf.for` with accumulators in registers; copies to shared memory are
    issued ahead, with the waits and barriers that they need. With
    `engine = warpgroup` the tiles of loops are in rings (`thread.ring_create`),
    which a role of one warp fills through tensor maps (additional parameters of the
    kernel); another role does the rest. Until `mirage-plan-shared-memory`, shared
    tiles lie one after the other. `kernel.slice` and `kernel.concat` become
    kernels that copy. Graphs that have no launches left get the form `thread`.
  }];
  let statistics = [Statistic<"numKernels", "kernels", "GPU functions emitted">];
  let dependentDialects = ["::mirage::thread::ThreadDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif // MIRAGE_CONVERSION_PASSES_TD
