//===- KernelAttrs.td - attributes of the kernel dialect -------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_KERNEL_IR_KERNELATTRS_TD
#define MIRAGE_DIALECT_KERNEL_IR_KERNELATTRS_TD

include "mirage/Dialect/Kernel/IR/KernelDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Kernel_Attr<string name, string attrMnemonic> : AttrDef<Kernel_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Kernel_Form : I32EnumAttr<"Form", "what a kernel graph may contain", [
    I32EnumAttrCase<"Reference", 0, "reference">,
    I32EnumAttrCase<"Candidates", 1, "candidates">,
    I32EnumAttrCase<"Verified", 2, "verified">,
    I32EnumAttrCase<"Selected", 3, "selected">,
    I32EnumAttrCase<"Scheduled", 4, "scheduled">,
    I32EnumAttrCase<"Thread", 5, "thread">,
    I32EnumAttrCase<"Binary", 6, "binary">]> {
  let cppNamespace = "::mirage::kernel";
  let genSpecializedAttr = 0;
}

def Kernel_FormAttr : EnumAttr<Kernel_Dialect, Kernel_Form, "form"> {
  let summary = "the form that a graph has reached";
  let description = [{
    Each form is a contract that is checked whenever the IR is verified:

    - `reference`: predefined tensor ops only; no launch, no alternatives.
    - `candidates`: `kernel.alternatives` list the reference and its candidates.
    - `verified`: every alternative except the reference carries a verdict, which
      is `proved` or `probable`.
    - `selected`: no alternatives are left.
    - `scheduled`: in addition, every launch has a `#kernel.schedule`.
    - `thread`: all computation is done by `kernel.invoke`; the code is in GPU
      modules of thread-level ops.
    - `binary`: like `thread`, but the code is PTX.

    Example: `kernel.graph @f(...) attributes {form = #kernel.form<selected>}`.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def Kernel_VerdictKind : I32EnumAttr<"VerdictKind", "outcome of an equivalence check", [
    I32EnumAttrCase<"Unknown", 0, "unknown">,
    I32EnumAttrCase<"Refuted", 1, "refuted">,
    I32EnumAttrCase<"Probable", 2, "probable">,
    I32EnumAttrCase<"Proved", 3, "proved">]> {
  let cppNamespace = "::mirage::kernel";
}

def Kernel_VerdictAttr : Kernel_Attr<"Verdict", "verdict"> {
  let summary = "outcome of an equivalence check, with its evidence";
  let description = [{
    `proved` and `refuted` are certain. `probable` comes with a bound on the
    probability that programs which are not equivalent would have passed, given
    as its base-2 logarithm. The evidence says in words which checks were run.

    Example: `#kernel.verdict<probable bound -67, "3 draws over 2 primes">`.
  }];
  let parameters = (ins EnumParameter<Kernel_VerdictKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$boundLog2,
                        OptionalParameter<"::mlir::StringAttr">:$evidence);
  let assemblyFormat = "`<` $kind (`bound` $boundLog2^)? (`,` $evidence^)? `>`";
}

def Kernel_Engine : I32EnumAttr<"Engine", "who multiplies matrices, and who copies their tiles", [
    I32EnumAttrCase<"Warp", 0, "warp">,
    I32EnumAttrCase<"Warpgroup", 1, "warpgroup">]> {
  let cppNamespace = "::mirage::kernel";
}

def Kernel_ScheduleAttr : Kernel_Attr<"Schedule", "schedule"> {
  let summary = "how a thread block executes its graph";
  let description = [{
    `warps` is the number of warps that compute, and `stages` is the depth of the
    pipeline that copies the tiles of a loop into shared memory (1: copies and
    computation do not overlap). `engine` says how the products of loops are
    computed:

    - `warp`: each warp multiplies fragments in its registers, and all warps
      take part in copies (`mma.sync`, `cp.async`);
    - `warpgroup`: four warps together multiply tiles in shared memory, which
      an additional warp keeps filled (`wgmma`, tensor memory accelerator).
      `mirage-choose-engine` checks whether a launch allows this.

    `resident` limits the number of blocks that are started. Block `i` then computes
    the positions `i`, `i + resident`, `i + 2 * resident`, … of the grid, and while it
    stores one tile, the factors of the next are already being copied. With 0, there is
    one block for each position of the grid.

    With `cluster`, this many blocks run together. With `engine = warpgroup`, they are
    neighbours along one axis of the grid, and each of them copies its share of the tiles
    that do not depend on this axis to all of them. Of the axes whose extents `cluster`
    divides, it is the one along which the most is shared. With `engine = warp`, they share
    the work of one position of the grid: each of them has a part of the columns of what
    it stores and takes a part of the steps of its loops, and they exchange totals
    (`mirage-split-over-clusters`).

    Examples: `#kernel.schedule<warps = 4, stages = 3>`,
    `#kernel.schedule<warps = 8, stages = 4, engine = warpgroup, resident = 132>`,
    `#kernel.schedule<warps = 8, stages = 4, engine = warpgroup, cluster = 2>`,
    `#kernel.schedule<warps = 8, stages = 1, cluster = 16>`.
  }];
  let parameters = (ins "int64_t":$warps, "int64_t":$stages,
                        DefaultValuedParameter<"::mirage::kernel::Engine",
                                               "::mirage::kernel::Engine::Warp">:$engine,
                        DefaultValuedParameter<"int64_t", "0">:$resident,
                        DefaultValuedParameter<"int64_t", "1">:$cluster);
  let builders = [AttrBuilder<(ins "int64_t":$warps, "int64_t":$stages), [{
    return $_get($_ctxt, warps, stages, ::mirage::kernel::Engine::Warp, 0, 1);
  }]>];
  let extraClassDeclaration = [{
    ScheduleAttr withWarps(int64_t warps) const {
      return get(getContext(), warps, getStages(), getEngine(), getResident(), getCluster());
    }
    ScheduleAttr withEngine(Engine engine) const {
      return get(getContext(), getWarps(), getStages(), engine,
                 engine == Engine::Warpgroup ? getResident() : 0,
                 engine == Engine::Warpgroup ? getCluster() : 1);
    }
    /// The same without clusters.
    ScheduleAttr withoutCluster() const {
      return get(getContext(), getWarps(), getStages(), getEngine(), getResident(), 1);
    }
    bool usesWarpgroups() const { return getEngine() == Engine::Warpgroup; }
    /// Warps of a block, including those that only copy.
    int64_t getBlockWarps() const { return getWarps() + (usesWarpgroups() ? 1 : 0); }
  }];
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_TensorMapAttr : Kernel_Attr<"TensorMap", "tensor_map"> {
  let summary = "a kernel parameter that describes a tensor to the tensor memory accelerator";
  let description = [{
    `parameter` is the number of the tensor among the kernel's operands followed by
    its results; `box` is the part that one copy moves, one extent for each of the
    tensor's dimensions (if there are fewer extents, the last one is that of the last
    dimensions of a dense tensor, which are one dimension of the map); `swizzle` is the
    swizzle, in bytes, of the tile in shared memory. With `tf32`, copies round elements
    in f32 to TF32, for products of warpgroups.

    Examples: `#kernel.tensor_map<parameter = 0, box = [128, 64], swizzle = 128>`,
    `#kernel.tensor_map<parameter = 1, box = [128, 32], swizzle = 128, tf32 = true>`.
  }];
  let parameters = (ins "int64_t":$parameter, ArrayRefParameter<"int64_t">:$box, "int64_t":$swizzle,
                        DefaultValuedParameter<"bool", "false">:$tf32);
  let assemblyFormat = [{
    `<` `parameter` `=` $parameter `,` `box` `=` `[` $box `]` `,` `swizzle` `=` $swizzle
    (`,` `tf32` `=` $tf32^)? `>`
  }];
}

def Kernel_StridesAttr : Kernel_Attr<"Strides", "strides"> {
  let summary = "places of the elements of a tensor that is a part of another one";
  let description = [{
    The encoding of a tensor that is a view of a larger piece of memory. `steps` are
    the distances, in elements, between neighbours along each dimension, and the
    address of the first element is a multiple of `align` bytes. A tensor without an
    encoding is dense and in row-major order, and its address is a multiple of 16.

    Example: `tensor<50x16xf16, #kernel.strides<[32, 1], align = 16>>`, the left half
    of a `tensor<50x32xf16>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$steps, "int64_t":$align);
  let assemblyFormat = "`<` `[` $steps `]` `,` `align` `=` $align `>`";
}

def Kernel_PlaceAttr : Kernel_Attr<"Place", "place"> {
  let summary = "where a launch stores a result that is a row of another tensor";
  let description = [{
    Result number `result` has no memory of its own. It is stored to the tensor that
    a `kernel.index_copy` updates, in the row given by the single element of operand
    `index` when the kernel runs. The memory in question begins `offset` elements after
    the first element of the tensor; its extents are `shape`, and `steps` are the
    distances between neighbours, in elements. The first extent is the number of rows:
    if the index is negative or not below it, nothing is stored. The other extents make
    up the dimensions of the result; `digits` says how many make up each dimension, the
    most significant first.

    Example: `#kernel.place<result = 0, index = 2, offset = 0, shape = [4096, 8, 128],
    steps = [128, 524288, 1], digits = [2]>`, a result of 1024 elements in a cache of
    8 heads, 4096 tokens and 128 elements.
  }];
  let parameters = (ins "int64_t":$result, "int64_t":$index, "int64_t":$offset,
                        ArrayRefParameter<"int64_t">:$shape, ArrayRefParameter<"int64_t">:$steps, ArrayRefParameter<"int64_t">:$digits);
  let assemblyFormat = [{
    `<` `result` `=` $result `,` `index` `=` $index `,` `offset` `=` $offset `,` `shape` `=` `[` $shape `]` `,`
    `steps` `=` `[` $steps `]` `,` `digits` `=` `[` $digits `]` `>`
  }];
}

def Kernel_DynamicAttr : Kernel_Attr<"Dynamic", "dynamic"> {
  let summary = "tensors whose outermost dimension depends on a size that is known only at launch";
  let description = [{
    Types have the shapes for the largest allowed size, `bound`. `tensors` are the numbers of
    the tensors whose number of rows is proportional to the size; their outermost dimension is
    therefore a multiple of `bound`. At a smaller size, such a tensor has only the first rows
    of its type, and its memory need not be any larger than that.

    On a graph, `tensors` are numbers of arguments, and whatever is computed from a dynamic
    tensor is dynamic too. On a compiled kernel they number the operands followed by the
    results, and the size is the last parameter, an i32.

    Example: `#kernel.dynamic<bound = 64, tensors = [0]>`.
  }];
  let parameters = (ins "int64_t":$bound, ArrayRefParameter<"int64_t">:$tensors);
  let assemblyFormat = "`<` `bound` `=` $bound `,` `tensors` `=` `[` $tensors `]` `>`";
  let genVerifyDecl = 1;
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELATTRS_TD
