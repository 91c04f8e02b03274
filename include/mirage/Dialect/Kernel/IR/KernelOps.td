//===- KernelOps.td - ops of the kernel dialect ----------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELOPS_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELOPS_TD

include "mirage/Dialect/Common/ScalarOps.td"
include "mirage/Dialect/Kernel/IR/KernelAttrs.td"
include "mirage/Dialect/Kernel/IR/KernelDialect.td"
include "mirage/Dialect/Kernel/IR/KernelInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// Elements are floats, signed integers or truth values (one byte each in memory).
def Kernel_Tensor : StaticShapeTensorOf<[F16, BF16, F32, F64, F8E4M3FN, F8E5M2, I1, I8, I16, I32, I64]>;
def Kernel_IndexTensor : StaticShapeTensorOf<[I32, I64]>;
/// Integers other than truth values.
def Kernel_NumberTensor : StaticShapeTensorOf<[I8, I16, I32, I64]>;

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

/// A tensor op without side effects and with one result.
class Kernel_TensorOp<string mnemonic, list<Trait> traits = []>
    : Kernel_Op<mnemonic, !listconcat([Pure], traits)> {
  let results = (outs Kernel_Tensor:$result);
  let hasVerifier = 1;
}

def Kernel_Elementwise : NativeOpTrait<"Elementwise"> { let cppNamespace = "::mirage::kernel"; }

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

def Kernel_GraphOp : Kernel_Op<"graph", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "a tensor program";
  let description = [{
    A function from device tensors to device tensors. With `dynamic` it stands for a
    family of functions, one for each size up to the bound, whose tensors have only the
    first rows of their types. Whoever sets `dynamic` must have shown that rows do not
    depend on each other.

    ```mlir
    kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
      %y = kernel.unary square %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
      kernel.return %y : tensor<4x8xf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<Kernel_FormAttr>:$form,
                       OptionalAttr<Kernel_DynamicAttr>:$dynamic);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The arguments that are dynamic, and all values of the body that are computed from them.
    ::llvm::DenseSet<::mlir::Value> getDynamicValues();
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kernel_ReturnOp : Kernel_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"GraphOp">]> {
  let summary = "the results of a graph";
  let arguments = (ins Variadic<Kernel_Tensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def Kernel_AlternativesOp : Kernel_Op<"alternatives", [IsolatedFromAbove]> {
  let summary = "programs that are claimed to be equivalent";
  let description = [{
    The first region is the reference, and the others are candidates; each computes
    the results from the operands. `verdicts` has one entry for each candidate, and
    `costs` has the predicted time of every region in microseconds.

    ```mlir
    %y = kernel.alternatives(%x) verdicts [#kernel.verdict<proved>] : (tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>):
      %0 = kernel.binary mul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      kernel.yield %0 : tensor<8xf32>
    }, {
    ^bb0(%a: tensor<8xf32>):
      %0 = kernel.unary square %a : (tensor<8xf32>) -> tensor<8xf32>
      kernel.yield %0 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$inputs,
                       OptionalAttr<TypedArrayAttrBase<Kernel_VerdictAttr, "verdicts">>:$verdicts,
                       OptionalAttr<DenseF64ArrayAttr>:$costs);
  let results = (outs Variadic<Kernel_Tensor>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$candidates);
  let assemblyFormat = [{
    `(` $inputs `)` (`verdicts` $verdicts^)? (`costs` $costs^)? attr-dict-with-keyword
    `:` functional-type($inputs, $results) $candidates
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kernel_YieldOp : Kernel_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"AlternativesOp">]> {
  let summary = "the results of one alternative";
  let arguments = (ins Variadic<Kernel_Tensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Kernel_LaunchOp : Kernel_Op<"launch", [Pure, IsolatedFromAbove]> {
  let summary = "a kernel that is defined by a block graph";
  let description = [{
    Runs its body once for each point of the grid. Grid axes have names, to which
    the maps of `block.load` and `block.store` refer. Block arguments are the
    operands as device tensors. The terminator `block.store` gives the results:
    every block writes the part of each result that its map selects. Results that
    are listed in `places` are stored to a tensor that the program updates
    (`#kernel.place`); `mirage-view-tensors` decides which ones these are.

    ```mlir
    %y = kernel.launch(%x) grid [m = 4] : (tensor<64x32xf16>) -> tensor<64x32xf16> {
    ^bb0(%gx: tensor<64x32xf16>):
      %t = block.load %gx [[m], []] : tensor<64x32xf16> -> !block.tile<16x32xf16>
      %u = block.unary silu %t : (!block.tile<16x32xf16>) -> !block.tile<16x32xf32>
      block.store %u [[m], []] : !block.tile<16x32xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$inputs,
                       StrArrayAttr:$gridNames,
                       DenseI64ArrayAttr:$gridExtents,
                       OptionalAttr<Kernel_ScheduleAttr>:$schedule,
                       OptionalAttr<TypedArrayAttrBase<Kernel_PlaceAttr, "places">>:$places);
  let results = (outs Variadic<Kernel_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $inputs `)` `grid` custom<Axes>($gridNames, $gridExtents) (`schedule` $schedule^)?
    (`places` $places^)? attr-dict-with-keyword `:` functional-type($inputs, $results) $body
  }];
  let extraClassDeclaration = [{
    /// Extent of the grid axis `name`, or nullopt.
    ::std::optional<int64_t> getGridExtent(::llvm::StringRef name);
    /// Number of positions in the grid.
    int64_t getNumBlocks();
    /// Number of blocks that are started: fewer if each takes several positions.
    int64_t getStartedBlocks();
    /// The place where result `number` is stored; null if it has memory of its own.
    PlaceAttr getPlace(unsigned number);
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kernel_InvokeOp : Kernel_Op<"invoke", [Pure]> {
  let summary = "run a compiled kernel";
  let description = [{
    Launches `callee`, a `gpu.func` in a `gpu.module`, with the operands followed by
    the results as parameters. `grid` is in blocks, `block` is in threads, and `shared`
    is the dynamic shared memory of a block in bytes. Tensor maps are further
    parameters, after the tensors. A `dependent` kernel may start before the kernel
    before it has ended, and itself waits for the memory that that kernel writes. If it is `beside`
    the last `n` kernels, it shares no tensor with them that one of them writes, so it may run at
    the same time, and only ends after they have.

    With `dynamic` tensors the size is one more parameter, the last one, and `grid` is the
    grid for the bound. `rows = [a, b]` says how many blocks a smaller size `n` needs. The
    grid is divided into equal parts, and only the first `ceil(n * a / b)` parts are
    launched, because the blocks of the others have no rows at that size. Without `rows`,
    all blocks are launched.

    ```mlir
    %y = kernel.invoke @kernels::@f(%x) grid [4, 1, 1] block [128, 1, 1] shared 4096
         : (tensor<64x32xf16>) -> tensor<64x32xf16>
    ```
  }];
  let arguments = (ins SymbolRefAttr:$callee, Variadic<Kernel_Tensor>:$inputs,
                       DenseI64ArrayAttr:$grid, DenseI64ArrayAttr:$block,
                       DefaultValuedAttr<I64Attr, "0">:$shared,
                       OptionalAttr<DenseI64ArrayAttr>:$cluster,
                       OptionalAttr<TypedArrayAttrBase<Kernel_TensorMapAttr, "tensor maps">>:$tensor_maps,
                       UnitAttr:$dependent,
                       OptionalAttr<I64Attr>:$beside,
                       OptionalAttr<Kernel_DynamicAttr>:$dynamic,
                       OptionalAttr<DenseI64ArrayAttr>:$rows);
  let results = (outs Variadic<Kernel_Tensor>:$results);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `grid` $grid `block` $block (`cluster` $cluster^)? `shared` $shared
    (`maps` $tensor_maps^)? (`dependent` $dependent^)? (`beside` $beside^)? (`dynamic` $dynamic^)? (`rows` $rows^)? attr-dict `:` functional-type($inputs, $results)
  }];
  let hasVerifier = 1;
}

def Kernel_ExternalOp : Kernel_Op<"external"> {
  let summary = "a part of the program that stays with PyTorch";
  let description = [{
    A call of PyTorch for an op that this dialect does not define. `target` names
    the op, and `location` says where it is in the user's program.

    ```mlir
    %y = kernel.external "aten.cumsum"(%x) {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins StrAttr:$target, Variadic<Kernel_Tensor>:$inputs);
  let results = (outs Variadic<Kernel_Tensor>:$results);
  let assemblyFormat = "$target `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}

def Kernel_AllReduceOp : Kernel_TensorOp<"all_reduce"> {
  let summary = "reduction of a tensor over the devices of a group";
  let description = [{
    Each of the `devices` devices gets the elementwise reduction of the operands
    of all of them.

    ```mlir
    %y = kernel.all_reduce sum %x over 8 : (tensor<4x8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Mirage_CumulateFn:$fn, Kernel_Tensor:$input,
                       ConfinedAttr<I64Attr, [IntPositive]>:$devices);
  let assemblyFormat = "$fn $input `over` $devices attr-dict `:` functional-type($input, $result)";
}

//===----------------------------------------------------------------------===//
// Primitive tensor ops
//===----------------------------------------------------------------------===//

def Kernel_ConstantOp : Kernel_Op<"constant", [Pure, ConstantLike]> {
  let summary = "a scalar constant";
  let description = [{
    A rank-0 tensor, which is broadcast where it is used. Constants are exact numbers:
    a double stands for the number that it was written for (see
    `mirage/semantics/numbers.py`), so `1.0e-06` is exactly one millionth. If a different
    number is meant, the attribute `exact` gives it as a fraction, and the double is the
    one nearest to it.

    ```mlir
    %eps = kernel.constant 1.000000e-06 : tensor<f32>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs 0DTensorOf<[F16, BF16, F32, F64, I1, I8, I16, I32, I64]>:$result);
  let assemblyFormat = "custom<Float>($value) attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Kernel_UnaryOp : Kernel_TensorOp<"unary", [Kernel_Elementwise]> {
  let summary = "a scalar function of each element";
  let description = [{
    `round_e4m3` and `round_e5m2` give tensors of the 8-bit type to which they round.
    Results that are computed from such tensors are f32.

    ```mlir
    %y = kernel.unary silu %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
    %q = kernel.unary round_e4m3 %y : (tensor<4x8xf16>) -> tensor<4x8xf8E4M3FN>
    ```
  }];
  let arguments = (ins Mirage_UnaryFn:$fn, Kernel_Tensor:$input);
  let assemblyFormat = "$fn $input attr-dict `:` functional-type($input, $result)";
  let hasCanonicalizer = 1;
}

def Kernel_BinaryOp : Kernel_TensorOp<"binary", [Kernel_Elementwise]> {
  let summary = "a function of each pair of elements";
  let description = [{
    Operands are broadcast as in NumPy. Comparisons and logical functions give truth
    values (`i1`). If one operand is a float and the other an integer, the integer is
    converted to the type of the float.

    ```mlir
    %z = kernel.binary add %x, %y : (tensor<4x8xf16>, tensor<8xf16>) -> tensor<4x8xf16>
    %m = kernel.binary le %j, %i : (tensor<8xi64>, tensor<4x1xi64>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins Mirage_BinaryFn:$fn, Kernel_Tensor:$lhs, Kernel_Tensor:$rhs);
  let assemblyFormat = [{
    $fn $lhs `,` $rhs attr-dict `:` functional-type(operands, $result)
  }];
  let hasCanonicalizer = 1;
}

def Kernel_CastOp : Kernel_TensorOp<"cast"> {
  let summary = "conversion to another element type";
  let description = [{
    Conversion to an integer truncates towards zero, and integers wrap around in types
    that do not hold them. No kernel does either: such conversions are calls of PyTorch.
    With `whole`, all numbers are known to be whole numbers of the result's type: kernels
    do such conversions, which are exact.
    Rounding to 8-bit floats is not a cast but a function of its own (`round_e4m3` or
    `round_e5m2` of `kernel.unary`); a cast from an 8-bit float is exact.

    ```mlir
    %y = kernel.cast %x : (tensor<4x8xf32>) -> tensor<4x8xf16>
    %n = kernel.cast %count whole : (tensor<4x1xf32>) -> tensor<4x1xi64>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input, UnitAttr:$whole);
  let assemblyFormat = "$input (`whole` $whole^)? attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Kernel_MatmulOp : Kernel_TensorOp<"matmul"> {
  let summary = "matrix product over the last two dimensions";
  let description = [{
    `[..., m, k] x [..., k, n] -> [..., m, n]`; leading dimensions are broadcast. If both
    factors have 8 bits, groups of 128 products may be added with about 14 bits, as the
    hardware does it; the sums of the groups are added in f32. Factors that are cast to
    a wider type are multiplied with the precision of that type. With `tf32`, factors
    of f32 are first rounded to TF32, which has 11 significant bits, as PyTorch does
    after `torch.set_float32_matmul_precision("high")`.

    ```mlir
    %c = kernel.matmul %a, %b : (tensor<16x64xf16>, tensor<64x32xf16>) -> tensor<16x32xf16>
    %d = kernel.matmul %x, %w tf32 : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$lhs, Kernel_Tensor:$rhs, UnitAttr:$tf32);
  let assemblyFormat = "$lhs `,` $rhs (`tf32` $tf32^)? attr-dict `:` functional-type(operands, $result)";
}

def Kernel_ReduceOp : Kernel_TensorOp<"reduce"> {
  let summary = "reduction over dimensions";
  let description = [{
    Reduced dimensions keep size 1; `dims` is sorted.

    ```mlir
    %s = kernel.reduce sum %x dims [1] : (tensor<4x8xf16>) -> tensor<4x1xf16>
    ```
  }];
  let arguments = (ins Mirage_ReduceFn:$fn, Kernel_Tensor:$input, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$fn $input `dims` $dims attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Kernel_CumulateOp : Kernel_TensorOp<"cumulate"> {
  let summary = "sums, maxima or products of the elements so far along a dimension";
  let description = [{
    Each element is the sum, the maximum or the product of the operand's elements up to it along
    `dim`. With `exclusive`, it is that of the elements before it, of which the first
    has none: its result is 0, minus infinity, or 1. With `reversed`, elements are taken from the
    last to the first. A kernel holds whole rows along
    `dim`, so a long row is processed in blocks, each of which is combined with the result of all
    blocks before it.

    ```mlir
    %c = kernel.cumulate sum %x dim 1 : (tensor<4x8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Mirage_CumulateFn:$fn, Kernel_Tensor:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim, UnitAttr:$exclusive, UnitAttr:$reversed);
  let assemblyFormat = [{
    $fn (`exclusive` $exclusive^)? (`reversed` $reversed^)? $input `dim` $dim attr-dict `:` functional-type($input, $result)
  }];
}

def Kernel_TransposeOp : Kernel_TensorOp<"transpose"> {
  let summary = "reorder dimensions";
  let description = [{
    Dimension `i` of the result is dimension `permutation[i]` of the operand.

    ```mlir
    %y = kernel.transpose %x [1, 0] : (tensor<4x8xf16>) -> tensor<8x4xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let assemblyFormat = "$input $permutation attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Kernel_ReshapeOp : Kernel_TensorOp<"reshape"> {
  let summary = "the same elements, in row-major order, in another shape";
  let description = [{
    ```mlir
    %y = kernel.reshape %x : (tensor<4x8xf16>) -> tensor<2x2x8xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Kernel_BroadcastOp : Kernel_TensorOp<"broadcast"> {
  let summary = "repeat dimensions of size 1";
  let description = [{
    Dimensions of size 1, and missing leading ones, are repeated.

    ```mlir
    %y = kernel.broadcast %x : (tensor<8xf16>) -> tensor<4x8xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
}

def Kernel_ConcatOp : Kernel_TensorOp<"concat"> {
  let summary = "join tensors along a dimension";
  let description = [{
    If kernels compute all operands, and nothing else reads them, the kernels write
    directly to their parts of the result (`mirage-view-tensors`); otherwise the
    operands are copied.

    ```mlir
    %z = kernel.concat %x, %y dim 1 : (tensor<4x8xf16>, tensor<4x2xf16>) -> tensor<4x10xf16>
    ```
  }];
  let arguments = (ins Variadic<Kernel_Tensor>:$inputs,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$dim);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type($inputs, $result)";
}

def Kernel_SliceOp : Kernel_TensorOp<"slice"> {
  let summary = "a block of a tensor";
  let description = [{
    The block that starts at `offsets` and has the result's shape. A block that only
    kernels read is compiled to an address and steps (`mirage-view-tensors`). A block
    that is contiguous in memory, and is not an output of the program, is compiled to an
    address. All others are copied.

    ```mlir
    %y = kernel.slice %x [0, 4] : (tensor<4x8xf16>) -> tensor<4x4xf16>
    ```
  }];
  let arguments = (ins Kernel_Tensor:$input, DenseI64ArrayAttr:$offsets);
  let assemblyFormat = "$input $offsets attr-dict `:` functional-type($input, $result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// Number of elements of the row-major operand before the block, if the block
    /// is contiguous.
    std::optional<int64_t> getContiguousStart();
  }];
}

include "mirage/Dialect/Kernel/IR/KernelIndexOps.td"

include "mirage/Dialect/Kernel/IR/KernelCompositeOps.td"

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELOPS_TD
