//===- KernelIndexOps.td - ops of positions and indices --------*- tablegen -*-===//
//
// Positions, rows that are looked up by index, and tensors with some rows replaced. KernelOps.td
// has all ops, these near its end.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELINDEXOPS_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELINDEXOPS_TD

include "mirage/Dialect/Kernel/IR/KernelOps.td"

//===----------------------------------------------------------------------===//
// Tensors that no kernel writes: their elements are determined where they are loaded
// ===----------------------------------------------------------------------===//

def Kernel_IotaOp : Kernel_TensorOp<"iota"> {
  let summary = "positions along a dimension";
  let description = [{
    Each element is its own index along `dim`. It is never stored: the kernels that
    load it compute it instead (`block.iota`).

    ```mlir
    %i = kernel.iota dim 0 : tensor<128xi64>
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$dim);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
}

def Kernel_GatherOp : Kernel_TensorOp<"gather"> {
  let summary = "rows of a table, by index";
  let description = [{
    For each element of `indices`, the row of `table` (along its first dimension) with
    that index; the result has the dimensions of `indices`, followed by those of a row.
    Indices must be at least 0 and below the number of rows; with `from_end`, negative
    ones count from the end of the table, down to minus the number of rows. For any other
    index a kernel reads nothing and computes with NaN (`block.gather`); if PyTorch
    computes the op, it raises an error.

    ```mlir
    %x = kernel.gather %table, %ids : (tensor<1000x64xf16>, tensor<2x16xi64>) -> tensor<2x16x64xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$table, Kernel_IndexTensor:$indices, UnitAttr:$from_end);
  let assemblyFormat = [{
    $table `,` $indices (`from_end` $from_end^)? attr-dict `:` functional-type(operands, $result)
  }];
}

def Kernel_IntegersOp : Kernel_TensorOp<"integers"> {
  let summary = "exact arithmetic on integers, element by element";
  let description = [{
    The last step of `formula`, for each element. The first steps load the operands:
    `load 0 2` means that the operand's two dimensions correspond to the dimensions 0 and 2 of the
    result, and that it is repeated along all others; -1 means none, for a dimension of size 1. The
    other steps are functions of earlier ones, which are named by their numbers, or constants.
    Results wrap around at the ends of their types, as in PyTorch. Quotients are rounded down, and
    remainders have the sign of the divisor; both are 0 if it is 0. Truth values are 1 or 0, and
    what is combined logically is true unless it is 0. Shifts by a number of bits that is negative
    or not below the width of the type shift all bits out. An operand of floats is only converted:
    it is truncated towards zero.

    `table 2` in place of a load is an operand of two dimensions, of which `pick 0 4 5 : i64` is the
    element at the indices that are the steps 4 and 5, or 0 if one of them is outside; `position 1 :
    i64` is the index along a dimension of the result. So joins, slices and shifts are formulas,
    too. A formula may also end with an element of a table of floats, which is NaN if an index is
    outside.

    It is never stored unless something other than a kernel reads it: the kernels
    that load it compute it instead (`block.integers`).

    ```mlir
    %y = kernel.integers %a, %b ["load 0", "load 1", "le 1 0 : i1"]
         : (tensor<16xi64>, tensor<16xi64>) -> tensor<16x16xi1>
    ```
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$inputs, StrArrayAttr:$formula);
  let assemblyFormat = "$inputs $formula attr-dict `:` functional-type($inputs, $result)";
}

//===----------------------------------------------------------------------===//
// Totals of integers of any size
//===----------------------------------------------------------------------===//

def Kernel_IntegerReduceOp : Kernel_TensorOp<"integer_reduce"> {
  let summary = "exact sum or maximum of integers over dimensions";
  let description = [{
    A `kernel.reduce` of integers that f32 need not hold. Sums wrap around at the ends of
    their type. A separate kernel computes it, with tiles of 64-bit integers; if few results have
    many terms each, several blocks share a result and a second kernel combines their partial
    results.

    ```mlir
    %s = kernel.integer_reduce sum %x dims [1] : (tensor<4x8xi64>) -> tensor<4x1xi64>
    ```
  }];
  let arguments = (ins Mirage_ReduceFn:$fn, Kernel_NumberTensor:$input, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$fn $input `dims` $dims attr-dict `:` functional-type($input, $result)";
}

def Kernel_IntegerCumulateOp : Kernel_TensorOp<"integer_cumulate"> {
  let summary = "exact sums, maxima or products of the integers so far along a dimension";
  let description = [{
    A `kernel.cumulate` of integers that f32 need not hold. Sums and products wrap around
    at the ends of their type. With `exclusive`, the first maximum is the least integer of
    64 bits.

    ```mlir
    %c = kernel.integer_cumulate sum %x dim 1 : (tensor<4x8xi64>) -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Mirage_CumulateFn:$fn, Kernel_NumberTensor:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim, UnitAttr:$exclusive, UnitAttr:$reversed);
  let assemblyFormat = [{
    $fn (`exclusive` $exclusive^)? (`reversed` $reversed^)? $input `dim` $dim attr-dict `:` functional-type($input, $result)
  }];
}

def Kernel_ArgsortOp : Kernel_TensorOp<"argsort"> {
  let summary = "the places of the elements of each line in order";
  let description = [{
    Element `i` of a line of the result along `dim` is the index of the line's element of
    rank `i` in ascending order, or with `descending` in descending order. Equal elements
    keep their order, and NaN is larger than all numbers. The result may have the first
    places of each line only. A kernel of its own computes it.

    ```mlir
    %p = kernel.argsort descending %x dim 1 : (tensor<4x512xf16>) -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, ConfinedAttr<I64Attr, [IntNonNegative]>:$dim,
                       UnitAttr:$descending);
  let assemblyFormat = [{
    (`descending` $descending^)? $input `dim` $dim attr-dict `:` functional-type($input, $result)
  }];
}

//===----------------------------------------------------------------------===//
// Tensors that equal another one except for some rows
// ===----------------------------------------------------------------------===//

def Kernel_IndexCopyOp : Kernel_TensorOp<"index_copy"> {
  let summary = "a tensor with one row replaced, by index";
  let description = [{
    `tensor` with one row along `dim` replaced by `row`, whose extent along `dim` is 1.
    The single element of `index` says which row. If it is negative or not below the
    number of rows, nothing is replaced. Compiled programs do this in the memory of
    `tensor`, which is an input of the graph that nothing else reads: the launch that
    computes `row` stores it there (`mirage-view-tensors`).

    ```mlir
    %y = kernel.index_copy %x, %i, %r dim 1
         : (tensor<8x4096x128xf16>, tensor<1xi64>, tensor<8x1x128xf16>) -> tensor<8x4096x128xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$tensor, Kernel_IndexTensor:$index, Kernel_Tensor:$row,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim);
  let assemblyFormat = [{
    $tensor `,` $index `,` $row `dim` $dim attr-dict `:` functional-type(operands, $result)
  }];
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELINDEXOPS_TD
