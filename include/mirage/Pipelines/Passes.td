//===- Passes.td - the last steps to PTX -----------------------*- tablegen -*-===//

#ifndef MIRAGE_PIPELINES_PASSES_TD
#define MIRAGE_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def FinishBinaries : Pass<"mirage-finish-binaries", "::mlir::ModuleOp"> {
  let summary = "make serialized kernels reproducible and note the form of graphs";
  let description = [{
    Precondition: GPU modules are `gpu.binary`s. Removes the timings of the
    serialization from their objects, so that equal programs give equal text, and
    changes the form of graphs from `thread` to `binary`. A GPU module that has not
    been serialized is an error.
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mirage::kernel::KernelDialect"];
}

def PrintPTX : Pass<"mirage-print-ptx", "::mlir::ModuleOp"> {
  let summary = "write the PTX of all serialized kernels to a file";
  let description = [{
    Writes the text of every `gpu.binary` in order, for people and for tests. The IR
    is not changed.
  }];
  let options = [Option<"file", "file", "std::string", "\"-\"", "where to; - is standard output">];
}

#endif // MIRAGE_PIPELINES_PASSES_TD
