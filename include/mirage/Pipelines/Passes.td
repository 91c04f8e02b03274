//===- Passes.td - the last steps to PTX -----------------------*- tablegen -*-===//

#ifndef MIRAGE_PIPELINES_PASSES_TD
#define MIRAGE_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def FinishBinaries : Pass<"mirage-finish-binaries", "::mlir::ModuleOp"> {
  let summary = "make serialized kernels reproducible and note the form of graphs";
  let description = [{
    Precondition: GPU modules are `gpu.binary`s. Removes the serialization's
    timings from their objects, so that equal programs give equal text, and
    moves graphs of form `thread` to form `binary`. A GPU module that is left is
    an error.
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mirage::kernel::KernelDialect"];
}

def PrintPTX : Pass<"mirage-print-ptx", "::mlir::ModuleOp"> {
  let summary = "write the PTX of all serialized kernels to a file";
  let description = [{
    For people and tests: the text of every `gpu.binary` in order. The IR stays
    as it is.
  }];
  let options = [Option<"file", "file", "std::string", "\"-\"", "where to; - is standard output">];
}

#endif // MIRAGE_PIPELINES_PASSES_TD
