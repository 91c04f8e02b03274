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
    - `verified`: every alternative beside the reference carries a verdict that
      is `proved` or `probable`.
    - `selected`: no alternatives are left.
    - `scheduled`: every launch also has a `#kernel.schedule`.
    - `thread`: computation is in `kernel.invoke` only; the code is in GPU
      modules of thread-level ops.
    - `binary`: as `thread`, the code being PTX.

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
    `proved` and `refuted` are certain. `probable` states a bound on the
    probability that inequivalent programs would have passed, as its base-2
    logarithm. The evidence says in words what was run.

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
    `warps` is the number of warps that compute, `stages` the depth of the
    pipeline that copies the tiles of a loop into shared memory (1: no overlap
    of copies and computation). `engine` says how the products of loops are
    computed:

    - `warp`: each warp multiplies fragments in its registers, and all warps
      take part in copies (`mma.sync`, `cp.async`);
    - `warpgroup`: four warps together multiply tiles in shared memory, which
      one more warp keeps filled (`wgmma`, tensor memory accelerator). What
      that asks of a launch is checked by `mirage-choose-engine`.

    With `resident` at most so many blocks are started, and each computes what
    blocks of its number, its number and `resident`, and so on would compute:
    while it stores one tile, the factors of the next are on their way. 0 is a
    block for each position of the grid.

    With `cluster` so many blocks that are neighbours along one axis of the grid run
    together: each copies a part of the tiles that do not depend on this axis, to all of
    them. It is the axis, among those whose extent `cluster` divides, along which most
    is shared.

    Examples: `#kernel.schedule<warps = 4, stages = 3>`,
    `#kernel.schedule<warps = 8, stages = 4, engine = warpgroup, resident = 132>`,
    `#kernel.schedule<warps = 8, stages = 4, engine = warpgroup, cluster = 2>`.
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
    /// A block for each position of the grid.
    ScheduleAttr withAllBlocks() const {
      return get(getContext(), getWarps(), getStages(), getEngine(), 0, getCluster());
    }
    /// Each block by itself.
    ScheduleAttr withoutCluster() const {
      return get(getContext(), getWarps(), getStages(), getEngine(), getResident(), 1);
    }
    bool usesWarpgroups() const { return getEngine() == Engine::Warpgroup; }
    /// Warps of a block, those that only copy included.
    int64_t getBlockWarps() const { return getWarps() + (usesWarpgroups() ? 1 : 0); }
  }];
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_TensorMapAttr : Kernel_Attr<"TensorMap", "tensor_map"> {
  let summary = "a kernel parameter that describes a tensor to the tensor memory accelerator";
  let description = [{
    `parameter` is the number of the tensor among the kernel's operands and then
    results; `box` the part that one copy moves, one extent for each of the
    tensor's dimensions; `swizzle` that of the tile in shared memory, in bytes. With `tf32`
    copies round elements of f32 to TF32, whose products warpgroups compute.

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
  let summary = "where the elements of a tensor lie that is part of another one";
  let description = [{
    The encoding of a tensor that is a view of memory which holds more: `steps`
    are the distances of neighbours along each dimension, in elements, and `align`
    divides the address of the first element, in bytes. A tensor without an
    encoding is dense, in row-major order, and starts at a multiple of 16.

    Example: `tensor<50x16xf16, #kernel.strides<[32, 1], align = 16>>`, the left half
    of a `tensor<50x32xf16>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$steps, "int64_t":$align);
  let assemblyFormat = "`<` `[` $steps `]` `,` `align` `=` $align `>`";
}

def Kernel_PlaceAttr : Kernel_Attr<"Place", "place"> {
  let summary = "where a launch stores a result that is a row of another tensor";
  let description = [{
    Result number `result` has no memory of its own: it is stored to the tensor that
    a `kernel.index_copy` updates, in the row that the element of operand `index`
    names when the kernel runs. That memory begins `offset` elements after the tensor's
    first one and has the extents `shape`, `steps` elements apart. The first of them counts rows: where the index is negative or
    not below it, nothing is stored. The others make up the result's dimensions:
    `digits` says how many make up each, the most significant first.

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
  let summary = "tensors whose outermost dimension is as long as a size that is known at launch";
  let description = [{
    Types have the sizes of one case: the one in which the size is `bound`, the largest it may
    be. `tensors` are the numbers of those that have more rows the larger it is: in
    proportion, so the outermost dimension is a multiple of `bound`. At a smaller size they
    are the first rows of what the types say, in memory of no more than that.

    Of a graph, `tensors` are arguments, and whatever is computed of a dynamic tensor is
    dynamic. Of a compiled kernel they are its operands and then its results; the size is its
    last parameter, an i32.

    Example: `#kernel.dynamic<bound = 64, tensors = [0]>`.
  }];
  let parameters = (ins "int64_t":$bound, ArrayRefParameter<"int64_t">:$tensors);
  let assemblyFormat = "`<` `bound` `=` $bound `,` `tensors` `=` `[` $tensors `]` `>`";
  let genVerifyDecl = 1;
}

#endif // MIRAGE_DIALECT_KERNEL_IR_KERNELATTRS_TD
