//===- PythonPass.td - what passes in Python share ----------*- tablegen -*-===//

#ifndef MIRAGE_PYTHONPASSES_PYTHONPASS_TD
#define MIRAGE_PYTHONPASSES_PYTHONPASS_TD

include "mlir/Pass/PassBase.td"

class Mirage_PythonPass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  // Dialects that may occur in a worker's answer must be loaded before the passes run.
  let dependentDialects = [
    "::mirage::kernel::KernelDialect", "::mirage::block::BlockDialect",
    "::mlir::func::FuncDialect"
  ];
}

#endif // MIRAGE_PYTHONPASSES_PYTHONPASS_TD
