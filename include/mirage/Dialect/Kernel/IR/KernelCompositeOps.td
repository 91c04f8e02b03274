//===- KernelCompositeOps.td - ops made of other tensor ops ----*- tablegen -*-===//
//
// Ops that `mirage-decompose` replaces by others. KernelOps.td has all ops, these at its end.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELCOMPOSITEOPS_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELCOMPOSITEOPS_TD

include "mirage/Dialect/Kernel/IR/KernelOps.td"

class Kernel_CompositeOp<string mnemonic>
    : Kernel_TensorOp<mnemonic, [DeclareOpInterfaceMethods<Kernel_DecomposableOpInterface>]>;

def Kernel_SoftmaxOp : Kernel_CompositeOp<"softmax"> {
  let summary = "softmax along a dimension";
  let description = [{
    `exp(x - max) / sum(exp(x - max))` along `dim`.

    ```mlir
    %y = kernel.softmax %x dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input, ConfinedAttr<I64Attr, [IntNonNegative]>:$dim);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` functional-type($input, $result)";
}

def Kernel_RmsNormOp : Kernel_CompositeOp<"rms_norm"> {
  let summary = "root-mean-square normalisation over the last dimensions";
  let description = [{
    `x * rsqrt(mean(x^2) + eps) [* gain]`, where the mean is over the last `dims`
    dimensions. Source: Zhang & Sennrich, NeurIPS 2019.

    ```mlir
    %y = kernel.rms_norm %x, %g eps 1.000000e-06 dims 1 : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input, Optional<Kernel_Tensor>:$gain, F64Attr:$eps,
                       ConfinedAttr<I64Attr, [IntPositive]>:$dims);
  let assemblyFormat = [{
    $input (`,` $gain^)? `eps` custom<Float>($eps) `dims` $dims attr-dict
    `:` functional-type(operands, $result)
  }];
}

def Kernel_LayerNormOp : Kernel_CompositeOp<"layer_norm"> {
  let summary = "layer normalisation over the last dimensions";
  let description = [{
    `(x - mean) * rsqrt(variance + eps) [* gain [+ bias]]` over the last `dims`
    dimensions, with the biased variance. Source: Ba et al., arXiv 1607.06450.

    ```mlir
    %y = kernel.layer_norm %x, %g, %b eps 1.000000e-05 dims 1
         : (tensor<4x8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$inputs, F64Attr:$eps,
                       ConfinedAttr<I64Attr, [IntPositive]>:$dims);
  let assemblyFormat = [{
    $inputs `eps` custom<Float>($eps) `dims` $dims attr-dict `:` functional-type($inputs, $result)
  }];
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELCOMPOSITEOPS_TD
