//===- Gather.cpp - rows of a table by index ------------------------------===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "SharedAccess.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mirage::thread;

namespace {
/// Row-major strides of a shape, in elements.
SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// The row that an index names.
struct Row {
  Value pointer; // to its first element; to the table's where there is none
  Value exists;  // i1
};

/// Reads an index. Negative ones are large without a sign, so they name no row.
Row readRow(Emitter &e, MemRefType indexType, Value pointer, MemRefType tableType, Value table) {
  int64_t bytes = indexType.getElementTypeBitWidth() / 8;
  Value index = LLVM::LoadOp::create(e, indexType.getElementType(), pointer, bytes);
  if (bytes == 4)
    index = e.createOrFold<arith::ExtSIOp>(e.getI64Type(), index);
  Value exists = e.compare(arith::CmpIPredicate::ult, index, e.i64(tableType.getShape().front()));
  int64_t rowBytes =
      getStrides(tableType.getShape()).front() * (tableType.getElementTypeBitWidth() / 8);
  return {e.offset(table, e.mul(e.select(exists, index, e.i64(0)), rowBytes)), exists};
}

/// The elements of a gathered tile that one thread holds in registers.
class GatheredElements {
public:
  GatheredElements(GatherGlobalOp op, Emitter &e, Value table, Value indices,
                   ArrayRef<Value> tileOffsets)
      : op(op), e(e), table(table), indices(indices), gathered(op.getGatheredType()),
        layout(op.getType().getLinearLayout()), indexRank(op.getIndexRank()),
        // Rows of the table lie as they would in the tensor that the op stands for, so
        // what is aligned and contiguous there is so here.
        tile(op, gathered, op.getDims(), op.getInBounds(), op.getType().getShape(),
             op.getExtents()) {
    for (Value offset : tileOffsets)
      offsets.push_back(e.toI64(offset));
    Value thread[2] = {e.threadOffset(layout, 0), e.threadOffset(layout, 1)};
    for (int64_t which : {0, 1})
      if (int64_t dim = op.getDims()[which]; dim >= 0)
        offsets[dim] =
            e.add(offsets[dim], e.createOrFold<arith::ExtUIOp>(e.getI64Type(), thread[which]));
    access = tile.begin(e, table, tileOffsets, thread[0], thread[1]);
    int64_t axis = 1;
    if (op.getDims()[axis] >= indexRank)
      width = tile.getVectorWidth(axis, layout.contiguous(axis));
    none = fill(NAN);
    zero = fill(0);
  }

  /// One scalar for each register.
  SmallVector<Value> load() {
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
      Value loaded = loadFrom(layout.getRegister(i));
      if (width == 1) {
        scalars.push_back(loaded);
        continue;
      }
      for (int64_t j = 0; j < width; ++j)
        scalars.push_back(e.createOrFold<vector::ExtractOp>(loaded, j));
    }
    return scalars;
  }

private:
  /// What one access reads.
  Type getAccessType() const {
    Type element = gathered.getElementType();
    return width == 1 ? element : VectorType::get({width}, element);
  }

  /// The same number in all elements of an access.
  Value fill(double value) {
    auto scalar = cast<TypedAttr>(e.getFloatAttr(gathered.getElementType(), value));
    if (width == 1)
      return arith::ConstantOp::create(e, scalar);
    return arith::ConstantOp::create(e, cast<TypedAttr>(DenseElementsAttr::get(
                                            cast<VectorType>(getAccessType()), Attribute(scalar))));
  }

  /// One access: zero outside of the tensor, NaN where the index names no row.
  Value loadFrom(Coord at) {
    Value inside = tile.isInside(e, access, at);
    Row row = getRow(at, inside);
    Value elements = getDistance(at, indexRank, getStrides(gathered.getShape()));
    if (inside)
      elements = e.select(inside, elements, e.i64(0));
    int64_t bytes = tile.getElementBytes();
    Value pointer = e.offset(row.pointer, e.mul(elements, bytes));
    Value loaded = LLVM::LoadOp::create(e, getAccessType(), pointer, width * bytes);
    loaded = e.select(row.exists, loaded, none);
    return inside ? e.select(inside, loaded, zero) : loaded;
  }

  /// The row of an element. Registers that differ in the table's dimensions alone read one row.
  Row getRow(Coord at, Value inside) {
    auto part = [&](int64_t which) {
      int64_t dim = op.getDims()[which];
      return dim >= 0 && dim < indexRank ? at[which] : int64_t(0);
    };
    auto key = std::make_pair(part(0), part(1));
    if (auto found = known.find(key); found != known.end() && !inside)
      return found->second;
    MemRefType indexType = op.getIndices().getType();
    Value distance = getDistance(at, 0, getStrides(gathered.getShape().take_front(indexRank)));
    Value pointer = e.offset(indices, e.mul(distance, indexType.getElementTypeBitWidth() / 8));
    if (inside)
      pointer = e.select(inside, pointer, indices);
    Row row = readRow(e, indexType, pointer, op.getTable().getType(), table);
    if (!inside)
      known[key] = row;
    return row;
  }

  /// Elements from the first one to that of a register, along the dimensions from `first` on that
  /// have a stride.
  Value getDistance(Coord at, int64_t first, ArrayRef<int64_t> strides) {
    Value elements = e.i64(0);
    for (int64_t dim = first, last = strides.size(); dim < last; ++dim) {
      int64_t own = 0;
      for (int64_t which : {0, 1})
        own += op.getDims()[which] == dim ? at[which] : 0;
      elements = e.add(elements, e.mul(e.add(offsets[dim], own), strides[dim]));
    }
    return elements;
  }

  GatherGlobalOp op;
  Emitter &e;
  Value table, indices;
  MemRefType gathered;
  const LinearLayout &layout;
  int64_t indexRank;
  GlobalTile tile;
  SmallVector<Value> offsets; // of this thread's elements, but for their registers
  GlobalTile::Access access;
  int64_t width = 1; // elements of an access
  Value none, zero;
  std::map<std::pair<int64_t, int64_t>, Row> known;
};

struct GatherGlobalLowering : ThreadPattern<GatherGlobalOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(GatherGlobalOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    GatheredElements elements(op, e, single(operands.getTable()), single(operands.getIndices()),
                              llvm::map_to_vector(operands.getOffsets(), single));
    results.push_back(pack(e, op.getType(), elements.load()));
    return success();
  }
};

/// Pieces of 16 bytes of the tile's rows, consecutive threads taking consecutive ones.
struct GatherAsyncLowering : ThreadPattern<GatherAsyncOp> {
  using ThreadPattern::ThreadPattern;
  static constexpr int64_t kBytes = 16;

  LogicalResult lower(GatherAsyncOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    SmallVector<Value> offsets =
        llvm::map_to_vector(operands.getOffsets(), [](ValueRange range) { return single(range); });
    e.ifThen(when, [&] {
      emit(op, e, single(operands.getTable()), single(operands.getIndices()), offsets,
           single(operands.getDest()));
    });
    return success();
  }

  static void emit(GatherAsyncOp op, Emitter &e, Value table, Value indices,
                   ArrayRef<Value> offsets, Value dest) {
    SharedType shared = op.getDest().getType();
    GlobalTile tile(op, op.getGatheredType(), op.getDims(), op.getInBounds(),
                    {shared.getRows(), shared.getCols()}, op.getExtents());
    int64_t width = kBytes / shared.getElementBytes(), perRow = shared.getCols() / width,
            total = shared.getRows() * perRow, threads = e.role.numThreads();
    // Of all rows of the tile, where none of them is an index of its own.
    std::optional<Row> only;
    if (op.getDims()[0] >= int64_t(op.getIndexRank()) || op.getDims()[0] == -1)
      only = findRow(op, e, table, indices, offsets, Value(), Value());
    auto emitPiece = [&](Value piece, bool isLast) {
      Value isPiece = isLast ? e.compare(arith::CmpIPredicate::slt, piece, e.i32(total)) : Value();
      e.ifThen(isPiece, [&] {
        Value row = e.createOrFold<arith::DivUIOp>(piece, e.i32(perRow));
        Value col = e.mul(e.createOrFold<arith::RemUIOp>(piece, e.i32(perRow)), width);
        GlobalTile::Access access = tile.begin(e, table, offsets, row, col);
        Value to = SharedAddresses(e, shared, dest, row, col, -1, -1).get({});
        Value inside = tile.isInside(e, access, {});
        Row from = only ? *only : findRow(op, e, table, indices, offsets, row, inside);
        copyPiece(op, e, from, offsets, row, col, inside, table, to);
      });
    };
    bool inRole = op->getParentOfType<WarpsOp>() != nullptr;
    // In a role, tiles of one row are copied as boxes; here are those whose row does not exist.
    // Their addresses would be computed in advance, and registers do not suffice for them.
    if (only && inRole) {
      e.thread();
      auto loop = scf::ForOp::create(e, e.i32(0), e.i32(total), e.i32(threads));
      OpBuilder::InsertionGuard guard(e);
      e.setInsertionPointToStart(loop.getBody());
      return emitPiece(e.add(e.thread(), loop.getInductionVar()), total % threads != 0);
    }
    for (int64_t first = 0; first < total;) {
      if (inRole && !only && total - first >= kTogether * threads) {
        emitTogether(op, e, tile, table, indices, offsets, dest, perRow, first);
        first += kTogether * threads;
        continue;
      }
      emitPiece(e.add(e.thread(), first), total - first < threads);
      first += threads;
    }
  }

  /// Some pieces of each thread, whose indices are on their way at the same time. Of a role that
  /// does little else, so that there are registers.
  static constexpr int64_t kTogether = 4;
  static void emitTogether(GatherAsyncOp op, Emitter &e, const GlobalTile &tile, Value table,
                           Value indices, ArrayRef<Value> offsets, Value dest, int64_t perRow,
                           int64_t first) {
    SharedType shared = op.getDest().getType();
    struct Piece {
      Value row, col, inside;
      Row from;
    };
    SmallVector<Piece> pieces;
    for (int64_t number = 0; number < kTogether; ++number) {
      Value piece = e.add(e.thread(), first + number * e.role.numThreads());
      Value row = e.createOrFold<arith::DivUIOp>(piece, e.i32(perRow));
      Value col = e.mul(e.createOrFold<arith::RemUIOp>(piece, e.i32(perRow)),
                        kBytes / shared.getElementBytes());
      Value inside = tile.isInside(e, tile.begin(e, table, offsets, row, col), {});
      pieces.push_back({row, col, inside, findRow(op, e, table, indices, offsets, row, inside)});
    }
    for (const Piece &piece : pieces) {
      Value to = SharedAddresses(e, shared, dest, piece.row, piece.col, -1, -1).get({});
      copyPiece(op, e, piece.from, offsets, piece.row, piece.col, piece.inside, table, to);
    }
  }

  /// Reads the index of a row of the tile (of its only row if `row` is null).
  static Row findRow(GatherAsyncOp op, Emitter &e, Value table, Value indices,
                     ArrayRef<Value> offsets, Value row, Value inside) {
    MemRefType indexType = op.getIndices().getType();
    int64_t rank = op.getIndexRank();
    SmallVector<int64_t> strides = getStrides(op.getGatheredType().getShape().take_front(rank));
    Value elements = e.i64(0);
    for (int64_t dim = 0; dim < rank; ++dim) {
      Value at = e.toI64(offsets[dim]);
      if (row && op.getDims()[0] == dim)
        at = e.add(at, e.createOrFold<arith::ExtUIOp>(e.getI64Type(), row));
      elements = e.add(elements, e.mul(at, strides[dim]));
    }
    if (inside)
      elements = e.select(inside, elements, e.i64(0));
    Value pointer = e.offset(indices, e.mul(elements, indexType.getElementTypeBitWidth() / 8));
    return readRow(e, indexType, pointer, op.getTable().getType(), table);
  }

  /// Elements outside of the tensor are zero, and rows that do not exist are NaN.
  static void copyPiece(GatherAsyncOp op, Emitter &e, Row from, ArrayRef<Value> offsets, Value row,
                        Value col, Value inside, Value table, Value to) {
    MemRefType gathered = op.getGatheredType();
    SmallVector<int64_t> strides = getStrides(gathered.getShape());
    Value elements = e.createOrFold<arith::ExtUIOp>(e.getI64Type(), col);
    for (int64_t dim = op.getIndexRank(); dim < gathered.getRank(); ++dim) {
      Value at = e.toI64(offsets[dim]);
      if (op.getDims()[0] == dim)
        at = e.add(at, e.createOrFold<arith::ExtUIOp>(e.getI64Type(), row));
      elements = e.add(elements, e.mul(at, strides[dim]));
    }
    Value pointer = e.offset(from.pointer, e.mul(elements, gathered.getElementTypeBitWidth() / 8));
    Value copied = from.exists, missing = e.select(copied, e.i1(false), e.i1(true)), size;
    if (inside) {
      pointer = e.select(inside, pointer, table);
      size = e.select(inside, e.i32(kBytes), e.i32(0));
      copied = e.select(inside, copied, e.i1(true));
      missing = e.select(inside, missing, e.i1(false));
    }
    e.ifThen(copied, [&] {
      NVVM::CpAsyncOp::create(e, to, pointer, kBytes, NVVM::LoadCacheModifierKind::CG, size);
    });
    e.ifThen(missing, [&] {
      // All bits set represent NaN in every floating-point type.
      auto type = VectorType::get({4}, e.getI32Type());
      Value none = arith::ConstantOp::create(
          e, cast<TypedAttr>(DenseElementsAttr::get(type, llvm::APInt::getAllOnes(32))));
      LLVM::StoreOp::create(e, none, to, kBytes);
    });
  }
};
} // namespace

void mirage::thread::populateGatherPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<GatherGlobalLowering, GatherAsyncLowering>(converter, patterns.getContext());
}
