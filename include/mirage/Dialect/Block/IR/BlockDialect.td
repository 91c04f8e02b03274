//===- BlockDialect.td - what one thread block does ------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_IR_BLOCKDIALECT_TD
#define MIRAGE_DIALECT_BLOCK_IR_BLOCKDIALECT_TD

include "mlir/IR/DialectBase.td"

def Block_Dialect : Dialect {
  let name = "block";
  let cppNamespace = "::mirage::block";
  let summary = "what one thread block does, as a graph over tiles";
  let description = [{
    The middle level of a µGraph, found in the body of `kernel.launch`. Values
    are tiles (`!block.tile`): the part of a tensor, or of an intermediate
    result, that one thread block works on. Passes of this dialect decide where a
    tile is held (in registers or in shared memory) and how it is laid out.

    A *map* lists for each tensor dimension the axes that split it, outermost
    first: `[[], [k]]` keeps dimension 0 whole and cuts dimension 1 along axis
    `k`. The axes are those of the launch's grid and of the loops around the op.
    With `p` parts (the product of the axes' extents) and tile size `t`, part
    `i` covers the indices `[i*t, (i+1)*t)` that lie inside the tensor; `t*p`
    is at least the tensor's size. Maps of loads combine the paper's imap and
    fmap, and maps of stores are its omap (Wu et al., OSDI'25, section 2).

    Elements of a tile that lie outside of the tensor are zero after `block.load`,
    dropped by `block.store` and overwritten by `block.mask`.

    Element types: loads have the tensor's type; elementwise ops, reductions,
    accumulators and matmuls give f32 (f64 if an operand is f64); `block.cast`
    converts; stores convert to the result tensor's type.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mirage::kernel::KernelDialect"];
}

#endif // MIRAGE_DIALECT_BLOCK_IR_BLOCKDIALECT_TD
