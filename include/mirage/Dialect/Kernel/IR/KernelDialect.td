//===- KernelDialect.td - kernel graphs over device tensors ----*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELDIALECT_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELDIALECT_TD

include "mlir/IR/DialectBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::mirage::kernel";
  let summary = "tensor programs as graphs over device tensors";
  let description = [{
    The upper level of a µGraph. A `kernel.graph` is a tensor program; its ops
    are predefined tensor ops and `kernel.launch`, which is a kernel defined by a
    graph of the `block` dialect. Values are tensors of static shape in device
    memory. Source: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor
    Programs", OSDI'25, section 2.

    A graph passes through several *forms* (`#kernel.form`). Each form is a contract
    that the verifier of `kernel.graph` checks whenever the IR is verified.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = [];
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELDIALECT_TD
