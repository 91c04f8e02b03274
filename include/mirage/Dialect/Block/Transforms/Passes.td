//===- Passes.td - passes on block graphs ----------------------*- tablegen -*-===//

#ifndef MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD
#define MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD

include "mirage/Dialect/Common/ChipOption.td"

include "mlir/Pass/PassBase.td"

def KernelsToLaunches : Pass<"mirage-kernels-to-launches"> {
  let summary = "give predefined tensor ops a launch of their own";
  let description = [{
    Precondition: composite ops are decomposed. Elementwise ops, casts,
    reductions (one dimension after the other), matmuls, transposes and
    broadcasts that are in a graph outside of launches become launches with a
    fixed tiling. This is the path for ops for which no µGraph was found; it is
    correct for all shapes, but not tuned. `kernel.reshape`, which moves nothing,
    and `kernel.slice` and `kernel.concat`, which block-to-thread turns into
    copies, stay in the graph, as do constants that other ops use.
  }];
  let statistics = [Statistic<"numLaunches", "launches", "ops that became launches">];
  let dependentDialects = ["::mirage::block::BlockDialect"];
}

def ViewTensors : Pass<"mirage-view-tensors", "::mirage::kernel::GraphOp"> {
  let summary = "turn slices that launches load, and joins of their results, into addresses";
  let description = [{
    A `kernel.slice` that is loaded only by launches with a schedule, possibly in
    another shape, needs no memory of its own: they load from the whole tensor, and
    the type of the slice gets an encoding with the steps (`#kernel.strides`). A
    `kernel.concat` of results of launches that nothing else reads needs no kernel:
    the launches store to their parts of it. Warpgroups can use only rows that the
    tensor memory accelerator can read. All other slices and joins do not change, and are copied by
    separate kernels. If a `kernel.index_copy` stores a row to an input of the graph, and nothing
    else reads the input or the row, the launch that computes the row stores it there. The pass
    cannot fail.
  }];
  let statistics = [
    Statistic<"numViews", "views", "slices, joins and updates that became addresses">
  ];
}

def SplitOverClusters : Pass<"mirage-split-over-clusters"> {
  let summary = "share the work of one position of the grid among the blocks of a cluster";
  let description = [{
    For launches with clusters that warps compute (`#kernel.schedule`). The grid gets one more
    axis, along which the blocks of a cluster are. Each of them has a part of the tiles
    that are stored, cut along their longest dimension, and of all tiles that these are computed
    from, as far as the dimension reaches. Loops whose number of steps the number of blocks
    divides take a part of the steps in each block; a loop of which one step is left
    becomes its body. Totals, over a dimension that is cut or over steps that are shared,
    are combined by `block.cluster_reduce`. What a launch means does not change, except for the
    order in which numbers are added up.

    If a launch cannot be divided in this way, a remark says why and it runs without
    clusters: other ops than elementwise ones, movements and totals along
    the dimension that is cut, a size that the number of blocks does not divide, results that are
    stored to places in other tensors, or no totals, or some of more than 64 numbers.
  }];
  let statistics = [
    Statistic<"numSplit", "split", "launches whose blocks became clusters">,
    Statistic<"numTotals", "totals", "totals over clusters">];
  let dependentDialects = ["::mirage::block::BlockDialect"];
}

def LegalizeTiles : Pass<"mirage-legalize-tiles"> {
  let summary = "rewrite block graphs into forms that code can be generated for";
  let description = [{
    - Ops in a loop that depend neither on its axis nor on values computed in it
      are moved out of it.
    - A matmul over one column becomes an elementwise product.
    - Operands of a matmul that have different element types are converted to
      f32, which holds both exactly.
    - Loops of one step stay loops; loads that nothing uses are dropped.
  }];
  let statistics = [Statistic<"numHoisted", "hoisted", "ops moved out of loops">];
  let dependentDialects = ["::mirage::block::BlockDialect"];
}

def FlattenTiles : Pass<"mirage-flatten-tiles"> {
  let summary = "make every tile a matrix";
  let description = [{
    Precondition: a launch whose tiles have at most two dimensions larger than 1
    (among those that are combined element by element; if a matmul is involved,
    these must be the last two). The pass chooses two dimensions of each tile as
    its rows and columns, such that each op sees the same choice in all of its
    operands, and drops the others. After it, tiles have rank 2, except for scalar
    constants, results of loads and operands of the store. Loads and the store keep
    the rank of their tensor and are followed or preceded by a `block.reshape`.
    Reshapes and transposes of unit dimensions are gone.

    An error names the tile that has more dimensions; the remedy is a smaller
    tile along one of them (split it over the grid or a loop).
  }];
  let dependentDialects = ["::mirage::block::BlockDialect"];
}

def ChooseEngine : Pass<"mirage-choose-engine"> {
  let summary = "restrict products of warpgroups to launches that allow them";
  let description = [{
    Precondition: flattened tiles and a schedule on each launch. Launches whose
    schedule has `engine = warpgroup` keep it if (`WarpgroupProducts.h`)

    - the chip multiplies tiles in shared memory and has the tensor memory
      accelerator;
    - all products are in loops at the top level that do nothing but load tiles,
      multiply them unchanged (or transposed) and sum the products;
    - factors are f16 or bf16, and groups of four warps can share each product in
      parts of 64 rows and a multiple of 8 columns;
    - every tile that is loaded there is a box of a tensor whose rows start at
      multiples of 16 bytes; right factors that are looked up, and left ones where
      that is possible, consist of 16-byte pieces of their rows.

    Otherwise the engine becomes `warp`, with a remark that says why.
  }];
  let options = [ChipOption];
  let statistics = [
    Statistic<"numKept", "warpgroup-launches", "launches that use warpgroups">,
    Statistic<"numDropped", "dropped", "launches whose engine became 'warp'">];
}

def AssignLayouts : Pass<"mirage-assign-layouts"> {
  let summary = "decide where each tile is held, and how";
  let description = [{
    Precondition: flattened tiles and a schedule on each launch.

    Operands of matmuls that come straight from device memory, and loads in
    loops with more than one stage, are staged in swizzled shared memory; all
    other tiles are register fragments. The layouts are the solution of a pairwise
    assignment problem (`LayoutModel.h`, `AssignmentProblem.h`). Its variables are
    the way in which the warps share each matmul, and the layout of each group of
    tiles whose layouts must agree. Costs are estimates of warp instructions, and
    conversions between layouts are the edges. The problem is solved exactly by
    eliminating variables, or by local search if the tables would be too large.

    With `engine = warpgroup` the products of loops have the layouts of
    warpgroup instructions, and their factors stay in shared memory.

    After the pass the type of each tile says how it is held, every change of layout
    is a `block.convert_layout`, and each matmul says how the warps share it. A tile
    that has fewer elements than its layout is padded; `mirage-mask-padding`
    deals with that.

    If the tiles that are alive at some point need more registers than a thread has
    (`RegisterEstimate.h`), ops are reordered so that fewer tiles are alive at a
    time. If that does not suffice, the launch gets twice or four times the warps of
    its schedule, provided that this does.
  }];
  let options = [
    ChipOption,
    Option<"maxTable", "max-table", "int64_t", "1 << 22",
           "entries of a table of the exact solver before local search takes over">];
  let statistics = [
    Statistic<"numVariables", "layout-variables", "variables of the assignment problems">,
    Statistic<"numExact", "exact-solutions", "problems that were solved exactly">,
    Statistic<"numConversions", "conversions", "convert_layout ops inserted">,
    Statistic<"numWidened", "widened", "launches that got more warps than scheduled">];
  let dependentDialects = ["::mirage::block::BlockDialect", "::mirage::thread::ThreadDialect"];
}

def MaskPadding : Pass<"mirage-mask-padding"> {
  let summary = "keep padding of fragments out of reductions";
  let description = [{
    Precondition: layouts are assigned. A fragment can have more rows or columns
    than its tile. Loads fill these with zeros, but after computations they can
    hold anything (`exp(0) = 1`, `0/0`). Before a reduction or a matmul contracts
    over a padded dimension whose padding is not known to be neutral, the pass
    inserts a `block.mask` that overwrites the padding (with 0 for sums and
    products, with the lowest value for maxima).
  }];
  let statistics = [Statistic<"numMasks", "masks", "masks inserted">];
  let dependentDialects = ["::mirage::block::BlockDialect"];
}

def PipelineLoops : Pass<"mirage-pipeline-loops"> {
  let summary = "decide which copies run ahead of a loop, and how far";
  let description = [{
    Precondition: layouts are assigned. Loads in a loop that are staged in shared
    memory become rings with as many slots as the launch's schedule has stages (at
    least 1, and at most as many as the loop has steps), and the loop is marked with
    the number of stages. The number of stages is reduced, with a remark, as long as
    the rings, the scratch memory of the loop's ops and the other shared tiles
    together exceed the chip's limit.

    Copies outside of loops begin before everything else, if the same number of blocks can run at
    once without sharing of memory between tiles: all warps would wait idly for a copy that begins
    after a product or a loop.

    If warpgroups multiply, the ops of a loop's body get stages and an order
    (`block.stage`, `block.order`): the modulo schedule with the least time of a
    step for which there are enough registers. Products of stage 1 run in the next
    step, while the warps compute with the results of that step's first products, or
    the factors of its only products. Products that are started together have one
    place. Ops that already have these attributes keep them; they are checked.
  }];
  let options = [ChipOption];
  let statistics = [Statistic<"numRings", "rings", "loads that became rings">,
                    Statistic<"numFirst", "first", "copies that begin before everything else">,
                    Statistic<"numDeferred", "deferred", "loops whose last products run in the next step">,
                    Statistic<"numSpeculating", "speculating",
                              "loops that take exponentials before their maximum is known">];
  let dependentDialects = ["::mirage::block::BlockDialect", "::mirage::thread::ThreadDialect"];
}

#endif // MIRAGE_DIALECT_BLOCK_TRANSFORMS_PASSES_TD
