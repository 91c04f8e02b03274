//===- RowCopies.cpp - copies of rows of a table by index -----------------===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "SharedAccess.h"
#include "TableRows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
/// Copies of rows of a table to a tile, in pieces of 16 bytes: consecutive threads take consecutive
/// pieces. `OpT` copies them, or reads their indices in advance.
template <typename OpT> class RowPieces {
public:
  static constexpr int64_t kBytes = 16;

  /// A piece of this thread.
  struct Piece {
    Value row, col; // in the tile
    Value inside;   // i1; null if all of the tile is inside of the tensor
  };

  RowPieces(OpT op, Emitter &e, SharedType tile, Value table, Value indices,
            ArrayRef<Value> offsets)
      : op(op), e(e), shared(tile), table(table), indices(indices), offsets(offsets),
        place(op, op.getGatheredType(), op.getDims(), op.getInBounds(),
              {tile.getRows(), tile.getCols()}, op.getExtents()) {}

  int64_t countPerRow() { return shared.getCols() / (kBytes / shared.getElementBytes()); }
  /// The pieces of the tile.
  int64_t count() { return shared.getRows() * countPerRow(); }
  /// Whether all rows of the tile are parts of one row of the table.
  bool isOneRow() { return op.getDims()[0] >= int64_t(op.getIndexRank()) || op.getDims()[0] == -1; }

  Piece get(Value number) {
    Value row = e.createOrFold<arith::DivUIOp>(number, e.i32(countPerRow()));
    Value col = e.mul(e.createOrFold<arith::RemUIOp>(number, e.i32(countPerRow())),
                      kBytes / shared.getElementBytes());
    return {row, col, place.isInside(e, place.begin(e, table, offsets, row, col), {})};
  }

  /// Reads the index of a piece's row or, where `when` does not hold, of some other row.
  Value readIndex(const Piece &piece, Value when = Value()) {
    MemRefType indexType = op.getIndices().getType();
    int64_t rank = op.getIndexRank();
    SmallVector<int64_t> strides = getStrides(op.getGatheredType().getShape().take_front(rank));
    Value elements = e.i64(0);
    for (int64_t dim = 0; dim < rank; ++dim) {
      Value at = e.toI64(offsets[dim]);
      if (piece.row && op.getDims()[0] == dim)
        at = e.add(at, e.createOrFold<arith::ExtUIOp>(e.getI64Type(), piece.row));
      elements = e.add(elements, e.mul(at, strides[dim]));
    }
    if (Value exists = e.both(piece.inside, when))
      elements = e.select(exists, elements, e.i64(0));
    int64_t bytes = indexType.getElementTypeBitWidth() / 8;
    return mirage::thread::readIndex(e, indexType, e.offset(indices, e.mul(elements, bytes)));
  }

  Row getRow(Value index) {
    return rowOf(e, index, op.getTable().getType(), table, op.getFromEnd());
  }

protected:
  OpT op;
  Emitter &e;
  SharedType shared;
  Value table, indices;
  ArrayRef<Value> offsets;
  GlobalTile place;
};

/// Issues the copies.
class RowCopies : public RowPieces<GatherAsyncOp> {
public:
  RowCopies(GatherAsyncOp op, Emitter &e, Value table, Value indices, ArrayRef<Value> offsets,
            Value dest, Value rows)
      : RowPieces(op, e, op.getDest().getType(), table, indices, offsets), dest(dest), rows(rows) {}

  void emit() {
    int64_t total = count(), threads = e.role.numThreads();
    std::optional<Row> only;
    if (isOneRow())
      only = getRow(readIndex(Piece{}));
    bool inRole = op->getParentOfType<WarpsOp>() != nullptr;
    // In a role, tiles of one row are copied as boxes; here are those whose row does not exist.
    // Their addresses would be computed in advance, and registers do not suffice for them.
    if (only && inRole) {
      e.thread();
      auto loop = scf::ForOp::create(e, e.i32(0), e.i32(total), e.i32(threads));
      OpBuilder::InsertionGuard guard(e);
      e.setInsertionPointToStart(loop.getBody());
      Value number = e.add(e.thread(), loop.getInductionVar());
      return emitPiece(number, 0, only, total % threads != 0);
    }
    for (int64_t first = 0; first < total;) {
      int64_t together = std::min((total - first) / threads, inRole ? kTogetherInRole : kTogether);
      if (!only && together > 1) {
        emitTogether(first, together);
        first += together * threads;
        continue;
      }
      emitPiece(e.add(e.thread(), first), first / threads, only, total - first < threads);
      first += threads;
    }
  }

private:
  /// The most pieces of a thread whose indices are in flight at the same time. A role that only
  /// copies has few registers.
  static constexpr int64_t kTogether = 8, kTogetherInRole = 4;

  Row findRow(const Piece &piece, int64_t turn) {
    return getRow(rows ? e.createOrFold<vector::ExtractOp>(rows, turn) : readIndex(piece));
  }

  Value getPlace(const Piece &piece) {
    return SharedAddresses(e, shared, dest, piece.row, piece.col, -1, -1).get({});
  }

  /// The piece of this number, which the thread copies in this turn; only some threads have the
  /// last ones.
  void emitPiece(Value number, int64_t turn, std::optional<Row> only, bool isLast) {
    Value isPiece = isLast ? e.compare(arith::CmpIPredicate::slt, number, e.i32(count())) : Value();
    e.ifThen(isPiece, [&] {
      Piece piece = get(number);
      Value to = getPlace(piece);
      copyPiece(piece, only ? *only : findRow(piece, turn), to);
    });
  }

  /// Pieces of each thread, `turns` of them. One branch reads all of their indices, so that no
  /// request waits for another index; only if a row does not exist, there is a branch for each
  /// piece.
  void emitTogether(int64_t first, int64_t turns) {
    struct Copy {
      Piece piece;
      Row from;
      Value to;
    };
    SmallVector<Copy> copies;
    Value all; // rows exist
    int64_t threads = e.role.numThreads();
    for (int64_t turn = first / threads, end = turn + turns; turn < end; ++turn) {
      Piece piece = get(e.add(e.thread(), turn * threads));
      Row from = findRow(piece, turn);
      copies.push_back({piece, from, getPlace(piece)});
      all =
          e.both(all, piece.inside ? e.select(piece.inside, from.exists, e.i1(true)) : from.exists);
    }
    auto copyAll = [&](bool exist) {
      for (Copy copy : copies) {
        if (exist)
          copy.from.exists = e.i1(true);
        copyPiece(copy.piece, copy.from, copy.to);
      }
    };
    e.ifThenElse(all, [&] { copyAll(true); }, [&] { copyAll(false); });
  }

  /// Elements outside of the tensor are zero, and rows that do not exist are NaN.
  void copyPiece(const Piece &piece, Row from, Value to) {
    MemRefType gathered = op.getGatheredType();
    SmallVector<int64_t> strides = getStrides(gathered.getShape());
    Value elements = e.createOrFold<arith::ExtUIOp>(e.getI64Type(), piece.col);
    for (int64_t dim = op.getIndexRank(); dim < gathered.getRank(); ++dim) {
      Value at = e.toI64(offsets[dim]);
      if (op.getDims()[0] == dim)
        at = e.add(at, e.createOrFold<arith::ExtUIOp>(e.getI64Type(), piece.row));
      elements = e.add(elements, e.mul(at, strides[dim]));
    }
    Value pointer = e.offset(from.pointer, e.mul(elements, gathered.getElementTypeBitWidth() / 8));
    Value copied = from.exists, missing = e.select(copied, e.i1(false), e.i1(true)), size;
    if (piece.inside) {
      pointer = e.select(piece.inside, pointer, table);
      size = e.select(piece.inside, e.i32(kBytes), e.i32(0));
      copied = e.select(piece.inside, copied, e.i1(true));
      missing = e.select(piece.inside, missing, e.i1(false));
    }
    auto copy = [&] {
      NVVM::CpAsyncOp::create(e, to, pointer, kBytes, NVVM::LoadCacheModifierKind::CG, size);
    };
    if (matchPattern(copied, m_One()))
      return copy();
    e.ifThen(copied, copy);
    e.ifThen(missing, [&] {
      // All bits set represent NaN in every floating-point type.
      auto type = VectorType::get({4}, e.getI32Type());
      Value none = arith::ConstantOp::create(
          e, cast<TypedAttr>(DenseElementsAttr::get(type, llvm::APInt::getAllOnes(32))));
      LLVM::StoreOp::create(e, none, to, kBytes);
    });
  }

  Value dest;
  Value rows; // the indices of this thread's pieces, null if they have not been read
};

struct GatherAsyncLowering : ThreadPattern<GatherAsyncOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(GatherAsyncOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    Value rows = op.getRows() ? single(operands.getRows().front()) : Value();
    if (failed(checkCount(op, e, op.getDest().getType(), op.getRows())))
      return failure();
    SmallVector<Value> offsets =
        llvm::map_to_vector(operands.getOffsets(), [](ValueRange range) { return single(range); });
    RowCopies copies(op, e, single(operands.getTable()), single(operands.getIndices()), offsets,
                     single(operands.getDest()), rows);
    e.ifThen(when, [&] { copies.emit(); });
    return success();
  }

  /// Whether there is an index for each piece that a thread copies.
  static LogicalResult checkCount(Operation *op, Emitter &e, SharedType tile, Value rows) {
    int64_t expected = ReadIndicesOp::countPieces(tile, e.role.numThreads());
    if (!rows || cast<VectorType>(rows.getType()).getNumElements() == expected)
      return success();
    return op->emitOpError("expected the indices of ")
           << expected << " pieces of " << tile << ", got " << rows.getType();
  }
};

struct ReadIndicesLowering : ThreadPattern<ReadIndicesOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ReadIndicesOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    if (failed(GatherAsyncLowering::checkCount(op, e, op.getShared(), op.getRows())))
      return failure();
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    SmallVector<Value> offsets =
        llvm::map_to_vector(operands.getOffsets(), [](ValueRange range) { return single(range); });
    RowPieces<ReadIndicesOp> pieces(op, e, op.getShared(), single(operands.getTable()),
                                    single(operands.getIndices()), offsets);
    SmallVector<Value> read;
    auto type = cast<VectorType>(op.getRows().getType());
    for (int64_t turn = 0; turn < type.getNumElements(); ++turn) {
      int64_t threads = e.role.numThreads(), first = turn * threads;
      Value number = e.add(e.thread(), first);
      if (first + threads > pieces.count()) // only some threads have the last ones
        number = e.createOrFold<arith::MinUIOp>(number, e.i32(pieces.count() - 1));
      read.push_back(pieces.readIndex(pieces.get(number), when));
    }
    results.push_back({vector::FromElementsOp::create(e, type, read)});
    return success();
  }
};
} // namespace

void mirage::thread::populateRowCopyPatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns) {
  patterns.add<GatherAsyncLowering, ReadIndicesLowering>(converter, patterns.getContext());
}
