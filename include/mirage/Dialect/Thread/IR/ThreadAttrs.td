//===- ThreadAttrs.td - attributes of the thread dialect -------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_THREAD_IR_THREADATTRS_TD
#define MIRAGE_DIALECT_THREAD_IR_THREADATTRS_TD

include "mirage/Dialect/Thread/IR/ThreadDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Thread_LayoutAttr : AttrDef<Thread_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "which element of a tile each register holds";
  let description = [{
    A linear map over GF(2) from the bits of the register, lane and warp index to
    the row and column. It is a list of basis vectors `[row, column]`, lowest bit
    first; the coordinates of an index are the XOR of the vectors of its set
    bits. A zero vector means that the bit does not matter: threads (or registers)
    that differ only in this bit hold copies. Each of the other vectors is a
    different single bit of one dimension. `repeat` puts copies of this tile side by
    side in further registers, so that extents need not be powers of two. The copies
    come in row-major order and are the most significant part of the register index.
    See `LinearLayout.h`.

    Example, a 16x24 result of tensor-core instructions in one warp:
    `#thread.layout<reg = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0],
    [2, 0], [4, 0]], repeat = [1, 3]>`. `warp` and `repeat` may be omitted.
  }];
  let parameters = (ins AttrParameter<"::mirage::thread::LinearLayout", "the map",
                                      "const ::mirage::thread::LinearLayout &">:$value);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let genMnemonicAlias = 1;
}

def Thread_FenceKind : I32EnumAttr<"FenceKind", "what a fence orders", [
    I32EnumAttrCase<"AsyncProxy", 0, "async_proxy">,
    I32EnumAttrCase<"MbarrierInit", 1, "mbarrier_init">,
    I32EnumAttrCase<"Block", 2, "block">,
    I32EnumAttrCase<"Cluster", 3, "cluster">,
    I32EnumAttrCase<"Device", 4, "device">]> {
  let cppNamespace = "::mirage::thread";
}

#endif // MIRAGE_DIALECT_THREAD_IR_THREADATTRS_TD
