//===- KernelsToLaunches.cpp - predefined ops as launches -----------------===//

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

namespace mirage::block {
#define GEN_PASS_DEF_KERNELSTOLAUNCHES
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {

ArrayRef<int64_t> getShape(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

bool isConstant(Value tensor) { return tensor.getDefiningOp<kernel::ConstantOp>() != nullptr; }

/// Builds one launch: its grid from the tiling of the result, then its body.
class LaunchBuilder {
public:
  /// `tile` cuts the result, dimension by dimension; dimensions that are cut
  /// into several parts get an axis of the grid.
  LaunchBuilder(OpBuilder &builder, Location loc, RankedTensorType result, ValueRange inputs,
                ArrayRef<int64_t> tile, int64_t stages)
      : builder(builder), loc(loc), tile(tile) {
    SmallVector<Attribute> names;
    SmallVector<int64_t> extents;
    for (auto [dim, size] : llvm::enumerate(result.getShape())) {
      int64_t parts = llvm::divideCeil(size, tile[dim]);
      SmallVector<Attribute> axes;
      if (parts > 1) {
        axes.push_back(builder.getStringAttr("d" + Twine(dim)));
        names.push_back(axes.front());
        extents.push_back(parts);
      }
      map.push_back(builder.getArrayAttr(axes));
    }
    SmallVector<Value> operands;
    llvm::copy_if(inputs, std::back_inserter(operands), [](Value v) { return !isConstant(v); });
    launch = kernel::LaunchOp::create(
        builder, loc, TypeRange{result}, operands, builder.getArrayAttr(names),
        builder.getDenseI64ArrayAttr(extents),
        kernel::ScheduleAttr::get(builder.getContext(), /*warps=*/4, stages),
        /*places=*/ArrayAttr());
    Block &body = launch.getBody().emplaceBlock();
    for (Value operand : operands)
      arguments[operand] = body.addArgument(operand.getType(), loc);
    builder.setInsertionPointToStart(&body);
  }

  Attribute getAxes(int64_t resultDim) { return map[resultDim]; }
  Attribute getLoopAxes(StringRef axis) {
    return builder.getArrayAttr({builder.getStringAttr(axis)});
  }
  Attribute getNoAxes() { return builder.getArrayAttr({}); }

  /// A tile of `tensor`; constants become constants of the body.
  Value load(Value tensor, ArrayRef<int64_t> shape, ArrayRef<Attribute> axes) {
    Type element = getTileElement(cast<RankedTensorType>(tensor.getType()).getElementType());
    if (auto scalar = tensor.getDefiningOp<kernel::ConstantOp>())
      return ConstantOp::create(builder, loc, TileType::get(ArrayRef<int64_t>(), element),
                                scalar.getValueAttr());
    return LoadOp::create(builder, loc, TileType::get(shape, element), arguments.lookup(tensor),
                          builder.getArrayAttr(axes));
  }

  /// The part of `tensor` that corresponds to a tile of the result when it
  /// broadcasts to the result's shape.
  Value loadBroadcast(Value tensor) {
    ArrayRef<int64_t> shape = getShape(tensor);
    int64_t missing = int64_t(tile.size()) - int64_t(shape.size());
    SmallVector<int64_t> part;
    SmallVector<Attribute> axes;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      bool repeated = size == 1;
      part.push_back(repeated ? 1 : tile[missing + dim]);
      axes.push_back(repeated ? getNoAxes() : map[missing + dim]);
    }
    return load(tensor, part, axes);
  }

  TileType getComputedType(ArrayRef<int64_t> shape, Type element) {
    return TileType::get(shape, element.isF64() ? element : builder.getF32Type());
  }

  Value finish(Value value) {
    StoreOp::create(builder, loc, value, builder.getArrayAttr({builder.getArrayAttr(map)}));
    builder.setInsertionPointAfter(launch);
    return launch.getResult(0);
  }

private:
  OpBuilder &builder;
  Location loc;
  SmallVector<int64_t> tile;
  SmallVector<Attribute> map;
  kernel::LaunchOp launch;
  DenseMap<Value, Value> arguments;
};

/// Tile for elementwise work on a row-major tensor: up to `maxCols` columns and
/// `maxElements` elements of the last two dimensions.
SmallVector<int64_t> getRowTile(ArrayRef<int64_t> shape, int64_t maxCols, int64_t maxElements) {
  SmallVector<int64_t> tile(shape.size(), 1);
  if (shape.empty())
    return tile;
  tile.back() = std::min(shape.back(), maxCols);
  if (shape.size() > 1)
    tile[tile.size() - 2] =
        std::min(shape[shape.size() - 2], std::max<int64_t>(1, maxElements / tile.back()));
  return tile;
}

/// Whether a conversion may change numbers: to an integer type that may not hold them.
bool cuts(kernel::CastOp cast) {
  Type from = getElementTypeOrSelf(cast.getInput()), to = getElementTypeOrSelf(cast.getResult());
  return !cast.getWhole() && to.isInteger() &&
         (!from.isInteger() || from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth());
}

/// Makes a launch of one predefined op.
class OpExpander {
public:
  OpExpander(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  /// The launch's result, or null for ops that stay.
  Value expand(Operation *op) {
    if (op->hasTrait<kernel::Elementwise>())
      return elementwise(op, [&](TileType result, ValueRange operands) {
        return getTileOp(op, result, operands);
      });
    return TypeSwitch<Operation *, Value>(op)
        .Case<kernel::CastOp>([&](auto cast) {
          if (cuts(cast)) // tiles hold integers as floats
            return Value();
          return elementwise(cast, [](TileType, ValueRange operands) { return operands[0]; });
        })
        .Case<kernel::BroadcastOp>([&](auto repeat) { return broadcast(repeat); })
        .Case<kernel::ReduceOp>([&](auto reduce) { return reduceAll(reduce); })
        .Case<kernel::CumulateOp>([&](auto cumulate) { return this->cumulate(cumulate); })
        .Case<kernel::MatmulOp>([&](auto product) { return matmul(product); })
        .Case<kernel::TransposeOp>([&](auto swap) { return transpose(swap); })
        .Default(Value());
  }

private:
  /// `compute` makes the result's tile from those of the operands.
  Value elementwise(Operation *op, function_ref<Value(TileType, ValueRange)> compute) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<int64_t> tile = getRowTile(type.getShape(), 1024, 2048);
    LaunchBuilder launch(builder, loc, type, op->getOperands(), tile, /*stages=*/1);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(launch.loadBroadcast(operand));
    return launch.finish(compute(launch.getComputedType(tile, type.getElementType()), operands));
  }

  /// The block op of the same name, with the same properties.
  Value getTileOp(Operation *op, TileType result, ValueRange operands) {
    std::string name =
        (BlockDialect::getDialectNamespace() + "." + op->getName().stripDialect()).str();
    OperationState state(loc, name, operands, result);
    state.propertiesAttr = op->getPropertiesAsAttribute();
    return builder.create(state)->getResult(0);
  }

  Value broadcast(kernel::BroadcastOp op) {
    return elementwise(op, [&](TileType result, ValueRange operands) -> Value {
      Type element = cast<TileType>(operands[0].getType()).getElementType();
      return BroadcastOp::create(builder, loc, TileType::get(result.getShape(), element),
                                 operands[0]);
    });
  }

  /// Each block has a row along the dimension, and a few neighbouring rows.
  Value cumulate(kernel::CumulateOp op) {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    constexpr int64_t most = 4096;
    int64_t rank = type.getRank(), dim = op.getDim(), size = type.getShape()[dim];
    if (size > most)
      return Value();
    SmallVector<int64_t> tile(rank, 1);
    tile[dim] = size;
    if (rank > 1) {
      int64_t other = dim == rank - 1 ? rank - 2 : rank - 1;
      tile[other] = std::min(type.getShape()[other], std::max<int64_t>(1, most / size));
    }
    LaunchBuilder launch(builder, loc, type, op.getInput(), tile, /*stages=*/1);
    TileType result = launch.getComputedType(tile, type.getElementType());
    return launch.finish(CumulateOp::create(builder, loc, result, op.getFn(),
                                            launch.loadBroadcast(op.getInput()), dim,
                                            op.getExclusive(), op.getReversed()));
  }

  /// One dimension after the other, the last one first; intermediate results are f32.
  Value reduceAll(kernel::ReduceOp op) {
    Value value = op.getInput();
    auto result = cast<RankedTensorType>(op.getResult().getType());
    Type wide =
        result.getElementType().isF64() ? result.getElementType() : Type(builder.getF32Type());
    for (auto [position, dim] : llvm::enumerate(llvm::reverse(op.getDims()))) {
      bool isLast = position + 1 == op.getDims().size();
      value = reduceOne(op.getFn(), value, dim, isLast ? result.getElementType() : wide);
    }
    return value;
  }

  Value reduceOne(ReduceFn fn, Value input, int64_t dim, Type element) {
    SmallVector<int64_t> shape(getShape(input));
    int64_t rank = shape.size(), size = shape[dim];
    SmallVector<int64_t> tile(rank, 1), resultShape(shape);
    resultShape[dim] = 1;
    int64_t step = std::min<int64_t>(size, dim == rank - 1 ? 1024 : 32);
    if (dim != rank - 1)
      tile.back() = std::min<int64_t>(shape.back(), 128);
    else if (rank > 1)
      tile[rank - 2] = std::min<int64_t>(shape[rank - 2], 4);
    LaunchBuilder launch(builder, loc, RankedTensorType::get(resultShape, element), input, tile,
                         /*stages=*/2);
    int64_t steps = llvm::divideCeil(size, step);
    TileType partial = launch.getComputedType(tile, element);
    auto loop = LoopOp::create(builder, loc, TypeRange{partial}, "k", steps, IntegerAttr(),
                               AffineMapAttr(), ArrayAttr(), ValueRange());
    Block &body = loop.getBody().emplaceBlock();
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&body);
      SmallVector<int64_t> part(tile);
      SmallVector<Attribute> axes;
      for (int64_t d = 0; d < rank; ++d)
        axes.push_back(d == dim ? launch.getLoopAxes("k") : launch.getAxes(d));
      part[dim] = step;
      Value value = launch.load(input, part, axes);
      // Elements outside of the tensor are zero, which only sums ignore.
      if (fn == ReduceFn::Max && steps * step != size)
        value = MaskOp::create(builder, loc, value.getType(), value, builder.getI64IntegerAttr(dim),
                               builder.getStrArrayAttr({"k"}), builder.getI64IntegerAttr(size),
                               builder.getF64FloatAttr(-std::numeric_limits<double>::infinity()));
      value =
          ReduceOp::create(builder, loc, partial, fn, value, builder.getDenseI64ArrayAttr({dim}));
      accumulate(fn == ReduceFn::Sum ? AccumulateFn::Sum : AccumulateFn::Max, value);
    }
    return launch.finish(loop.getResult(0));
  }

  void accumulate(AccumulateFn fn, Value value) {
    AccumulateOp::create(builder, loc,
                         builder.getArrayAttr({AccumulateFnAttr::get(builder.getContext(), fn)}),
                         value, ValueRange(), builder.getDenseI64ArrayAttr({}));
  }

  Value matmul(kernel::MatmulOp op) {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    int64_t rank = type.getRank(), m = type.getShape()[rank - 2], n = type.getShape()[rank - 1];
    int64_t k = getShape(op.getLhs()).back();
    SmallVector<int64_t> tile(rank, 1);
    tile[rank - 2] = std::min<int64_t>(m, 64);
    tile[rank - 1] = std::min<int64_t>(n, m <= 16 ? 32 : 64);
    int64_t step = std::min<int64_t>(k, 64), steps = llvm::divideCeil(k, step);
    LaunchBuilder launch(builder, loc, type, op->getOperands(), tile, /*stages=*/3);
    TileType product = launch.getComputedType(tile, type.getElementType());
    auto loop = LoopOp::create(builder, loc, TypeRange{product}, "k", steps, IntegerAttr(),
                               AffineMapAttr(), ArrayAttr(), ValueRange());
    Block &body = loop.getBody().emplaceBlock();
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&body);
      auto load = [&](Value operand, bool isLhs) {
        ArrayRef<int64_t> shape = getShape(operand);
        int64_t own = shape.size(), missing = rank - own;
        SmallVector<int64_t> part(own, 1);
        SmallVector<Attribute> axes;
        for (int64_t d = 0; d + 2 < own; ++d)
          axes.push_back(shape[d] == 1 ? launch.getNoAxes() : launch.getAxes(missing + d));
        part[own - 2] = isLhs ? tile[rank - 2] : step;
        part[own - 1] = isLhs ? step : tile[rank - 1];
        axes.push_back(isLhs ? launch.getAxes(rank - 2) : launch.getLoopAxes("k"));
        axes.push_back(isLhs ? launch.getLoopAxes("k") : launch.getAxes(rank - 1));
        return launch.load(operand, part, axes);
      };
      Value lhs = load(op.getLhs(), true), rhs = load(op.getRhs(), false);
      Value value = MatmulOp::create(builder, loc, product, lhs, rhs, DenseI64ArrayAttr(), false);
      cast<MatmulOp>(value.getDefiningOp()).setTf32(op.getTf32());
      accumulate(AccumulateFn::Sum, value);
    }
    return launch.finish(loop.getResult(0));
  }

  Value transpose(kernel::TransposeOp op) {
    auto type = cast<RankedTensorType>(op.getResult().getType());
    int64_t rank = type.getRank();
    ArrayRef<int64_t> permutation = op.getPermutation();
    // Both the dimension that is contiguous in the result and the one that is
    // contiguous in the operand are cut into runs.
    SmallVector<int64_t> tile = getRowTile(type.getShape(), 1024, 2048);
    int64_t other = llvm::find(permutation, rank - 1) - permutation.begin();
    if (rank > 0 && other != rank - 1) {
      tile.assign(rank, 1);
      tile[rank - 1] = std::min<int64_t>(type.getShape()[rank - 1], 64);
      tile[other] = std::min<int64_t>(type.getShape()[other], 32);
    }
    LaunchBuilder launch(builder, loc, type, op.getInput(), tile, /*stages=*/1);
    SmallVector<int64_t> part(rank);
    SmallVector<Attribute> axes(rank);
    for (auto [dim, from] : llvm::enumerate(permutation)) {
      part[from] = tile[dim];
      axes[from] = launch.getAxes(dim);
    }
    Value value = launch.load(op.getInput(), part, axes);
    value = TransposeOp::create(builder, loc,
                                TileType::get(tile, getTileElement(type.getElementType())), value,
                                builder.getDenseI64ArrayAttr(permutation));
    return launch.finish(value);
  }

  OpBuilder &builder;
  Location loc;
};

struct KernelsToLaunches : block::impl::KernelsToLaunchesBase<KernelsToLaunches> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](kernel::GraphOp graph) {
      for (Operation &op : graph.getBody().front())
        ops.push_back(&op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : ops) {
      rewriter.setInsertionPoint(op);
      if (Value result = OpExpander(rewriter, op->getLoc()).expand(op)) {
        rewriter.replaceOp(op, result);
        ++numLaunches;
      }
    }
  }
};

} // namespace
