//===- Bulk.cpp - tensor memory accelerator, distributed shared memory ----===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "SharedAccess.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mirage::thread;

static SmallVector<Value> indices(ArrayRef<ValueRange> values) {
  return llvm::map_to_vector(values, [](ValueRange range) { return single(range); });
}

static Value barrierAddress(Emitter &e, Value barriers, Value index) {
  return e.sharedAddress(e.offset(barriers, e.mul(e.toI32(index), 8)));
}

/// "{$2, $3}", with the constraints that belong to it appended.
static std::string coordinateList(int64_t rank, int64_t first, std::string &constraints) {
  std::string text = "{";
  for (int64_t i = 0; i < rank; ++i) {
    text += llvm::formatv("{0}${1}", i ? ", " : "", first + i).str();
    constraints += ",r";
  }
  return text + "}";
}

namespace {
/// One tensor copy for each panel of a tile, or of a part of its rows that begins at
/// `start`: `emit` gets the panel's address and coordinates, innermost first.
template <typename Emit>
void forEachPanel(Emitter &e, TensorMapType map, SharedType tile, Value start,
                  ArrayRef<Value> coordinates, Emit emit) {
  int64_t boxCols = map.getBox().back();
  SmallVector<Value> inner;
  for (Value coordinate : llvm::reverse(coordinates))
    inner.push_back(e.toI32(coordinate));
  Value first = inner.front();
  for (int64_t panel = 0; panel < tile.getCols() / boxCols; ++panel) {
    inner.front() = e.add(first, panel * boxCols);
    int64_t bytes = panel * tile.getRows() * boxCols * tile.getElementBytes();
    emit(e.sharedAddress(e.offset(start, bytes)), inner);
  }
}

struct PrefetchMapLowering : ThreadPattern<PrefetchMapOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(PrefetchMapOp, Adaptor operands, Emitter &e, Results &) const override {
    e.ptxWhere(e.isFirstThread(), "prefetch.tensormap [$0];", "l", {single(operands.getMap())});
    return success();
  }
};

struct TmaLoadLowering : ThreadPattern<TmaLoadOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(TmaLoadOp op, Adaptor operands, Emitter &e, Results &) const override {
    TensorMapType map = op.getMap().getType();
    int64_t rank = map.getBox().size();
    Value barrier = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    std::string constraints = "r,l,r";
    std::string list = coordinateList(rank, 3, constraints);
    bool multicast = op.getMulticast().has_value();
    std::string text = llvm::formatv(
        "cp.async.bulk.tensor.{0}d.shared::cluster.global.mbarrier::complete_tx::bytes{1} [$0], "
        "[$1, {2}], [$2]{3};",
        rank, multicast ? ".multicast::cluster" : "", list,
        multicast ? llvm::formatv(", ${0}", 3 + rank).str() : "");
    if (multicast)
      constraints += ",h";
    Value start = single(operands.getDest());
    if (op.getPart()) {
      int64_t bytes = op.getDest().getType().getElementBytes();
      for (int64_t extent : map.getBox())
        bytes *= extent;
      start = e.offset(start, e.mul(e.toI32(single(operands.getPart())), bytes));
    }
    forEachPanel(e, map, op.getDest().getType(), start, indices(operands.getCoordinates()),
                 [&](Value dest, ArrayRef<Value> inner) {
                   SmallVector<Value> args = {dest, single(operands.getMap()), barrier};
                   llvm::append_range(args, inner);
                   if (multicast)
                     args.push_back(arith::ConstantOp::create(
                         e, e.getI16IntegerAttr(int16_t(*op.getMulticast()))));
                   e.ptxWhere(e.isFirstThread(), text, constraints, args);
                 });
    return success();
  }
};

struct TmaStoreLowering : ThreadPattern<TmaStoreOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(TmaStoreOp op, Adaptor operands, Emitter &e, Results &) const override {
    TensorMapType map = op.getMap().getType();
    int64_t rank = map.getBox().size();
    std::string constraints = "r,l";
    std::string list = coordinateList(rank, 2, constraints);
    std::string text = llvm::formatv(
        "cp.async.bulk.tensor.{0}d.global.shared::cta.bulk_group [$1, {1}], [$0];", rank, list);
    e.ifThen(op.getGroup() ? e.isFirstOfGroup() : e.isFirstThread(), [&] {
      forEachPanel(e, map, op.getSource().getType(), single(operands.getSource()),
                   indices(operands.getCoordinates()), [&](Value source, ArrayRef<Value> inner) {
                     SmallVector<Value> args = {source, single(operands.getMap())};
                     llvm::append_range(args, inner);
                     e.ptx(text, constraints, args);
                   });
    });
    return success();
  }
};

struct BulkCopyLowering : ThreadPattern<BulkCopyOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(BulkCopyOp op, Adaptor operands, Emitter &e, Results &) const override {
    SharedType dest = op.getDest().getType();
    int64_t shape[2] = {dest.getRows(), dest.getCols()};
    bool inBounds[2] = {true, true};
    GlobalTile tile(op, op.getSource().getType(), op.getDims(), inBounds, shape);
    int64_t vector = 16 / tile.getElementBytes();
    if (tile.getVectorWidth(1, vector) != vector)
      return op.emitOpError("expected rows that provably start at a multiple of 16 bytes; the "
                            "offsets or strides do not show it");
    int64_t rowBytes = dest.getCols() * dest.getElementBytes();
    bool whole = dest.getRowPitch() == rowBytes &&
                 (dest.getRows() == 1 || tile.getStride(0) == dest.getCols());
    int64_t copies = whole ? 1 : dest.getRows();
    int64_t bytes = whole ? rowBytes * dest.getRows() : rowBytes;
    Value barrier = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    Value start = single(operands.getDest());
    e.ifThen(e.isFirstThread(), [&] {
      GlobalTile::Access access = tile.begin(e, single(operands.getSource()),
                                             indices(operands.getOffsets()), e.i32(0), e.i32(0));
      for (int64_t i = 0; i < copies; ++i)
        e.ptx("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
              "[$3];",
              "r,l,r,r",
              {e.sharedAddress(e.offset(start, i * dest.getRowPitch())),
               tile.pointer(e, access, Coord{int32_t(i), 0}), e.i32(bytes), barrier});
    });
    return success();
  }
};

struct LoadRemoteLowering : ThreadPattern<LoadRemoteOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(LoadRemoteOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType type = op.getType();
    Value base = e.mapToRank(single(operands.getSource()), e.toI32(single(operands.getRank())));
    SharedAccess access(op.getSource().getType(), type.getLinearLayout());
    results.push_back(pack(e, type, access.load(e, base)));
    return success();
  }
};

struct StoreRemoteLowering : ThreadPattern<StoreRemoteOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(StoreRemoteOp op, Adaptor operands, Emitter &e, Results &) const override {
    FragmentType type = op.getValue().getType();
    Value base = e.mapToRank(single(operands.getDest()), e.toI32(single(operands.getRank())));
    SharedAccess(op.getDest().getType(), type.getLinearLayout())
        .store(e, base, unpack(e, type, operands.getValue()));
    return success();
  }
};
} // namespace

void mirage::thread::populateBulkPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<PrefetchMapLowering, TmaLoadLowering, TmaStoreLowering, BulkCopyLowering,
               LoadRemoteLowering, StoreRemoteLowering>(converter, patterns.getContext());
}
