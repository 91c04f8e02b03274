//===- Passes.td - ThreadTransforms passes -----------------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanSharedMemory : Pass<"mirage-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give shared tiles and scratch areas their offsets";
  let description = [{
    Precondition: GPU functions of thread ops. Shared allocations live from
    their first to their last use, those used in a loop that they are defined
    outside of through all of it; the scratch area of an op lives during the op.
    Offsets are those of a dynamic storage allocation (`SharedMemoryProblem.h`):
    exact by branch and bound for few buffers, first fit by size otherwise.
    Where memory is used again, a barrier is inserted before the new owner's
    first write unless one is there.

    The bytes that a function needs are noted as `thread.shared_bytes` and in
    the `kernel.invoke`s of the function. An error lists the tiles when they
    exceed what the chip has; the remedy is smaller tiles or fewer stages.
  }];
  let options = [Option<"chip", "chip", "std::string", "\"sm_90a\"", "compilation target">];
  let statistics = [Statistic<"numBuffers", "buffers", "tiles and scratch areas placed">,
                    Statistic<"numBarriers", "barriers", "barriers inserted">];
  let dependentDialects = ["::mirage::thread::ThreadDialect"];
}

#endif // MIRAGE_DIALECT_THREAD_TRANSFORMS_PASSES_TD
