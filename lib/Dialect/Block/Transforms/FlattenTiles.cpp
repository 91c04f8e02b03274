//===- FlattenTiles.cpp - every tile becomes a matrix ---------------------===//

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mirage::block {
#define GEN_PASS_DEF_FLATTENTILES
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

namespace {

/// Which two dimensions of a tile are the rows and columns of its matrix,
/// counted from the last (-1), so that operands of different rank that
/// broadcast against each other agree.
struct MatrixDims {
  int64_t row = -2;
  int64_t col = -1;
};

/// Turns scalar constants that do not meet another tile into tiles, so that values computed from
/// them can be matrices.
void materializeScalars(kernel::LaunchOp launch) {
  auto isScalar = [](OpOperand &operand) {
    return operand.get().getDefiningOp<ConstantOp>() != nullptr;
  };
  IRRewriter rewriter(launch.getContext());
  launch.getBody().walk([&](Operation *op) {
    if (isa<BroadcastOp>(op))
      return;
    bool meetsTile = isa<BinaryOp>(op) && !llvm::all_of(op->getOpOperands(), isScalar);
    for (OpOperand &operand : op->getOpOperands()) {
      if (meetsTile || !isScalar(operand))
        continue;
      rewriter.setInsertionPoint(op);
      operand.set(
          BroadcastOp::create(rewriter, op->getLoc(), operand.get().getType(), operand.get()));
    }
  });
}

/// Chooses rows and columns such that ops which work dimension by dimension
/// see the same choice in all of their operands and results.
class MatrixDimsAnalysis {
public:
  explicit MatrixDimsAnalysis(kernel::LaunchOp launch) : launch(launch) {}

  LogicalResult run() {
    launch.getBody().walk([&](Operation *op) { connect(op); });
    launch.getBody().walk([&](Operation *op) {
      for (Value value : op->getResults())
        if (isa<TileType>(value.getType()))
          note(value);
      if (auto matmul = dyn_cast<MatmulOp>(op))
        for (Value value : {matmul.getLhs(), matmul.getRhs(), matmul.getResult()})
          fixed.insert(classes.getOrInsertLeaderValue(value));
    });
    for (auto &[leader, dims] : nonUnit)
      if (failed(choose(leader, dims)))
        return failure();
    return success();
  }

  /// Dimension of the value that is the matrix dimension `which` (0: rows, 1:
  /// columns); negative when the value has too small a rank.
  int64_t getDim(Value value, int64_t which) const {
    MatrixDims dims = chosen.lookup(classes.getLeaderValue(value));
    return (which == 0 ? dims.row : dims.col) + cast<TileType>(value.getType()).getRank();
  }

  /// Shape of the value's matrix.
  SmallVector<int64_t> getMatrixShape(Value value) const {
    auto type = cast<TileType>(value.getType());
    SmallVector<int64_t> shape;
    for (int64_t which : {0, 1}) {
      int64_t dim = getDim(value, which);
      shape.push_back(dim < 0 ? 1 : type.getShape()[dim]);
    }
    return shape;
  }

private:
  void tie(Value a, Value b) {
    if (!isScalar(a) && !isScalar(b))
      classes.unionSets(a, b);
  }

  static bool isScalar(Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }

  void connect(Operation *op) {
    for (Value value : op->getResults())
      if (isa<TileType>(value.getType()))
        classes.insert(value);
    if (isElementwise(op) || isa<ReduceOp, CumulateOp, ArgsortOp>(op))
      for (Value operand : op->getOperands())
        tie(operand, op->getResult(0));
    auto accumulate = dyn_cast<AccumulateOp>(op);
    if (!accumulate)
      return;
    for (auto [index, value] : llvm::enumerate(accumulate.getValues())) {
      tie(value, op->getParentOp()->getResult(index));
      if (Value rescale = accumulate.getRescale(index))
        tie(value, rescale);
    }
  }

  void note(Value value) {
    if (isScalar(value))
      return;
    auto type = cast<TileType>(value.getType());
    SmallVector<int64_t> &dims = nonUnit[classes.getLeaderValue(value)];
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (size > 1 && !llvm::is_contained(dims, (int64_t)dim - type.getRank()))
        dims.push_back((int64_t)dim - type.getRank());
  }

  LogicalResult choose(Value leader, SmallVector<int64_t> &dims) {
    MatrixDims result;
    llvm::sort(dims);
    bool standard = llvm::all_of(dims, [](int64_t dim) { return dim >= -2; });
    if (!standard) {
      if (dims.size() > 2 || fixed.contains(leader)) {
        auto diag = emitError(leader.getLoc())
                    << "expected tiles with at most two dimensions larger than 1"
                    << (fixed.contains(leader) ? ", the last two because of a matmul" : "")
                    << "; this tile and those combined with it have larger dimensions ";
        llvm::interleaveComma(dims, diag);
        return diag << " (counted from the last, -1)";
      }
      // A single dimension further out becomes the rows: dimensions over which it is reduced, or
      // with which it is combined, are inside of it.
      result.row = dims.front();
      result.col = dims.size() == 2 ? dims.back() : -1;
    }
    chosen[leader] = result;
    return success();
  }

  kernel::LaunchOp launch;
  llvm::EquivalenceClasses<Value> classes;
  llvm::MapVector<Value, SmallVector<int64_t>> nonUnit;
  DenseSet<Value> fixed;
  DenseMap<Value, MatrixDims> chosen;
};

/// Retypes one launch.
class TileFlattener {
public:
  TileFlattener(kernel::LaunchOp launch, const MatrixDimsAnalysis &dims)
      : launch(launch), dims(dims), rewriter(launch.getContext()) {}

  LogicalResult run() {
    // Everything on which the choice depends is read before types change.
    SmallVector<Operation *> ops;
    launch.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
    for (Value tile : cast<StoreOp>(launch.getBody().front().getTerminator()).getTiles())
      storeTypes.push_back(cast<TileType>(tile.getType()));
    for (Operation *op : ops) {
      for (Value value : op->getResults())
        if (isa<TileType>(value.getType()) && !isa<ConstantOp>(op))
          shapes[value] = dims.getMatrixShape(value);
      if (failed(plan(op)))
        return failure();
    }
    for (Operation *op : ops)
      rewrite(op);
    return success();
  }

private:
  /// Matrix dimension of `dim`, or -1 if it is neither rows nor columns.
  int64_t getMatrixDim(Value value, int64_t dim) const {
    for (int64_t which : {0, 1})
      if (dims.getDim(value, which) == dim)
        return which;
    return -1;
  }

  /// The same; a dimension of size 1 outside of the matrix can stand for a unit dimension of the
  /// matrix.
  int64_t getMatrixDimOrUnit(Value value, int64_t dim) const {
    int64_t found = getMatrixDim(value, dim);
    for (int64_t which : {0, 1})
      if (found < 0 && shapes.lookup(value)[which] == 1)
        found = which;
    return found;
  }

  /// Rewrites the attributes of `op` for its operand's matrix.
  LogicalResult plan(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<ReduceOp>([&](ReduceOp reduce) {
          SmallVector<int64_t> matrixDims;
          for (int64_t dim : reduce.getDims())
            if (int64_t which = getMatrixDim(reduce.getInput(), dim); which >= 0)
              matrixDims.push_back(which);
          llvm::sort(matrixDims);
          planned[op] = matrixDims;
          return success();
        })
        .Case<CumulateOp, ArgsortOp>([&](auto along) {
          int64_t which = getMatrixDimOrUnit(along.getInput(), along.getDim());
          if (which < 0)
            return LogicalResult(
                along.emitOpError(
                    "expected to go along one of the two dimensions larger than 1, got dimension ")
                << along.getDim());
          planned[op] = {which};
          return success();
        })
        .Case<MaskOp>([&](MaskOp mask) {
          int64_t which = getMatrixDimOrUnit(mask.getInput(), mask.getDim());
          if (which < 0)
            return LogicalResult(
                mask.emitOpError(
                    "expected to mask one of the two dimensions larger than 1, got dimension ")
                << mask.getDim());
          planned[op] = {which};
          return success();
        })
        .Case<IotaOp>([&](IotaOp iota) {
          int64_t which = getMatrixDimOrUnit(iota.getResult(), iota.getDim());
          if (which < 0)
            return LogicalResult(
                iota.emitOpError("expected positions along one of the two dimensions larger "
                                 "than 1, got dimension ")
                << iota.getDim());
          planned[op] = {which};
          return success();
        })
        .Case<TransposeOp>([&](TransposeOp transpose) {
          Value input = transpose.getInput(), result = transpose.getResult();
          // The source of the rows of the result.
          int64_t row = dims.getDim(result, 0), col = dims.getDim(result, 1);
          ArrayRef<int64_t> permutation = transpose.getPermutation();
          bool swapped = (row >= 0 && getMatrixDim(input, permutation[row]) == 1 &&
                          shapes.lookup(result)[0] > 1) ||
                         (col >= 0 && getMatrixDim(input, permutation[col]) == 0 &&
                          shapes.lookup(result)[1] > 1);
          planned[op] = {swapped};
          return success();
        })
        .Default(success());
  }

  TileType getMatrixType(Value value) {
    return TileType::get(shapes.lookup(value), cast<TileType>(value.getType()).getElementType());
  }

  void retype(Operation *op) {
    for (Value value : op->getResults())
      if (isa<TileType>(value.getType()))
        value.setType(getMatrixType(value));
  }

  void rewrite(Operation *op) {
    rewriter.setInsertionPoint(op);
    TypeSwitch<Operation *>(op)
        .Case<LoadOp, GatherOp, IntegersOp>([&](auto load) {
          TileType type = getMatrixType(load.getResult());
          if (type == load.getType())
            return;
          rewriter.setInsertionPointAfter(load);
          auto reshape = ReshapeOp::create(rewriter, load.getLoc(), type, load.getResult());
          rewriter.replaceAllUsesExcept(load.getResult(), reshape, reshape);
        })
        .Case<IotaOp>([&](IotaOp iota) {
          retype(iota);
          iota.setDim(planned[op].front());
        })
        .Case<StoreOp>([&](StoreOp store) { rewriteStore(store); })
        .Case<ReduceOp>([&](ReduceOp reduce) {
          retype(reduce);
          if (planned[op].empty())
            replaceByCast(reduce, reduce.getInput());
          else
            reduce.setDims(planned[op]);
        })
        .Case<CumulateOp, ArgsortOp>([&](auto along) {
          retype(along);
          along.setDim(planned[op].front());
        })
        .Case<MaskOp>([&](MaskOp mask) {
          retype(mask);
          mask.setDim(planned[op].front());
        })
        .Case<TransposeOp>([&](TransposeOp transpose) {
          retype(transpose);
          replaceByMaybeTransposed(transpose, transpose.getInput(), planned[op].front());
        })
        .Case<ReshapeOp>([&](ReshapeOp reshape) {
          // The same elements in the same order: with at most two dimensions
          // larger than 1, only a vector can change between row and column.
          retype(reshape);
          auto input = cast<TileType>(reshape.getInput().getType());
          replaceByMaybeTransposed(reshape, reshape.getInput(),
                                   input.getShape() != reshape.getType().getShape());
        })
        .Case<BroadcastOp>([&](BroadcastOp broadcast) {
          retype(broadcast);
          if (broadcast.getInput().getType() == broadcast.getType())
            rewriter.replaceOp(broadcast, broadcast.getInput());
        })
        .Case<ConstantOp>([](ConstantOp) {})
        .Default([&](Operation *other) { retype(other); });
  }

  void replaceByCast(Operation *op, Value input) {
    Type type = op->getResult(0).getType();
    if (input.getType() == type)
      return rewriter.replaceOp(op, input);
    rewriter.replaceOpWithNewOp<CastOp>(op, type, input);
  }

  void replaceByMaybeTransposed(Operation *op, Value input, bool transposed) {
    if (!transposed)
      return rewriter.replaceOp(op, input);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op->getResult(0).getType(), input,
                                             ArrayRef<int64_t>{1, 0});
  }

  /// Tiles regain the rank of the tensor that they are stored to. If that is 2,
  /// only a vector can have another shape, and is transposed.
  void rewriteStore(StoreOp store) {
    for (OpOperand &operand : store->getOpOperands()) {
      TileType original = storeTypes[operand.getOperandNumber()];
      if (operand.get().getType() == original)
        continue;
      if (original.getRank() == 2)
        operand.set(TransposeOp::create(rewriter, store.getLoc(), original, operand.get(),
                                        ArrayRef<int64_t>{1, 0}));
      else
        operand.set(ReshapeOp::create(rewriter, store.getLoc(), original, operand.get()));
    }
  }

  kernel::LaunchOp launch;
  const MatrixDimsAnalysis &dims;
  IRRewriter rewriter;
  SmallVector<TileType> storeTypes;
  DenseMap<Value, SmallVector<int64_t>> shapes;
  DenseMap<Operation *, SmallVector<int64_t>> planned;
};

struct FlattenTiles : block::impl::FlattenTilesBase<FlattenTiles> {
  void runOnOperation() override {
    SmallVector<kernel::LaunchOp> launches;
    getOperation()->walk([&](kernel::LaunchOp launch) { launches.push_back(launch); });
    for (kernel::LaunchOp launch : launches) {
      materializeScalars(launch);
      MatrixDimsAnalysis dims(launch);
      if (failed(dims.run()))
        return signalPassFailure();
      TileFlattener flattener(launch, dims);
      if (failed(flattener.run()))
        return signalPassFailure();
    }
  }
};

} // namespace
