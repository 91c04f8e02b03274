//===- KernelInterfaces.td - interfaces of kernel ops ----------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELINTERFACES_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELINTERFACES_TD

include "mlir/IR/OpBase.td"

def Kernel_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::mirage::kernel";
  let description = [{
    An op that is defined by a graph of primitive ops. `mirage-decompose`
    replaces it by that graph.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the defining graph and returns the value that stands for the
        op's result. With `stable`, the form that avoids overflow is emitted
        where the two differ (softmax with a row maximum).
      }],
      "::mlir::Value", "decompose",
      (ins "::mlir::OpBuilder &":$builder, "bool":$stable)>
  ];
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELINTERFACES_TD
