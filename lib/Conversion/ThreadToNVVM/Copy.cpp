//===- Copy.cpp - asynchronous copies to shared memory --------------------===//
//
// The tile is cut into chunks along the dimension that is contiguous in device
// memory; consecutive threads take consecutive chunks.
//
//===----------------------------------------------------------------------===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "SharedAccess.h"
#include "SkewedRows.h"
#include "ThroughRegisters.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
/// Where thread `t` finds its chunk number `i`: fast + slow coordinates in
/// chunks, each a value plus a constant.
struct ChunkMap {
  int64_t fastCount, total, threads;

  int64_t iterations() const { return llvm::divideCeil(total, threads); }
  /// One row of threads covers whole rows of chunks, or a part of one.
  bool rowsDivideThreads() const { return threads % fastCount == 0; }
  bool threadsDivideRow() const { return fastCount % threads == 0; }
};

struct CopyAsyncLowering : ThreadPattern<CopyAsyncOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(CopyAsyncOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    SmallVector<Value> offsets =
        llvm::map_to_vector(operands.getOffsets(), [](ValueRange range) { return single(range); });
    e.ifThen(when, [&] {
      emit(op, e, single(operands.getSource()), offsets, single(operands.getDest()));
    });
    return success();
  }

  static void emit(CopyAsyncOp op, Emitter &e, Value source, ArrayRef<Value> offsets, Value dest) {
    SharedType shared = op.getDest().getType();
    int64_t shape[2] = {shared.getRows(), shared.getCols()};
    GlobalTile tile(op, op.getSource().getType(), op.getDims(), op.getInBounds(), shape,
                    op.getExtents());
    // Rows are contiguous in shared memory; along columns only single elements
    // can be moved.
    int64_t fast = tile.getStride(1) != 1 && tile.getStride(0) == 1 ? 0 : 1;
    int64_t width = 1;
    bool shifts = false;
    if (fast == 1 && tile.getVectorWidth(1, shape[1] & -shape[1]) * tile.getElementBytes() < 4 &&
        SkewedRows::canCopy(tile, shared))
      return SkewedRows(e, tile, shared, source, offsets, dest).copy();
    if (shared.startsAtOddElements())
      SkewedRows::clearBesideRows(e, shared, dest);
    if (fast == 1) {
      width = tile.getVectorWidth(1, shape[1] & -shape[1]);
      while (width > 1 && shared.getRowPitch() % (width * tile.getElementBytes()))
        width /= 2;
      // Several at once through registers, if rows may start anywhere.
      constexpr int64_t chunk = ThroughRegisters::kChunk;
      bool fits = shape[1] % chunk == 0 && shared.getRowPitch() % 16 == 0;
      if (width == 1 && fits && ThroughRegisters::canShift(tile))
        width = chunk, shifts = true;
    }
    ChunkMap map{shape[fast] / width, shape[1 - fast] * (shape[fast] / width), e.role.numThreads()};
    if (map.rowsDivideThreads() || map.threadsDivideRow())
      return emitRegular(e, tile, shared, source, offsets, dest, fast, width, shifts, map);
    ThroughRegisters small(e, tile);
    for (int64_t i = 0; i < map.iterations(); ++i) {
      Value chunk = e.add(e.thread(), i * map.threads);
      // Elements that are requested outside of a branch are not written inside of it.
      bool flushes = !shifts || i + 1 == map.iterations();
      if (flushes)
        small.flush();
      guard(e, map, i, [&] {
        Value count = e.i32(map.fastCount);
        Value slowIndex = e.createOrFold<arith::DivUIOp>(chunk, count);
        Value fastIndex = e.mul(e.createOrFold<arith::RemUIOp>(chunk, count), width);
        Value row = fast == 1 ? slowIndex : fastIndex, col = fast == 1 ? fastIndex : slowIndex;
        GlobalTile::Access access = tile.begin(e, source, offsets, row, col);
        SharedAddresses address(e, shared, dest, row, col, -1, -1);
        emitChunk(e, tile, access, address, {}, width, shifts, small);
        if (flushes)
          small.flush();
      });
    }
  }

  /// Threads keep their place in a row (or rows their place among the threads).
  static void emitRegular(Emitter &e, const GlobalTile &tile, SharedType shared, Value source,
                          ArrayRef<Value> offsets, Value dest, int64_t fast, int64_t width,
                          bool shifts, const ChunkMap &map) {
    Value slowIndex = e.i32(0), fastIndex = e.thread();
    int64_t slowBits = 0, fastBits = -1;
    if (map.rowsDivideThreads()) {
      Value count = e.i32(map.fastCount);
      slowIndex = e.createOrFold<arith::DivUIOp>(e.thread(), count);
      fastIndex = e.createOrFold<arith::RemUIOp>(e.thread(), count);
      slowBits = llvm::PowerOf2Ceil(map.threads / map.fastCount) - 1;
    } else {
      fastBits = llvm::PowerOf2Ceil(map.threads * width) - 1;
    }
    fastIndex = e.mul(fastIndex, width);
    Value row = fast == 1 ? slowIndex : fastIndex, col = fast == 1 ? fastIndex : slowIndex;
    int64_t rowBits = fast == 1 ? slowBits : fastBits, colBits = fast == 1 ? fastBits : slowBits;
    GlobalTile::Access access = tile.begin(e, source, offsets, row, col);
    // Without added constants, the thread may determine all bits.
    SharedAddresses address(e, shared, dest, row, col, rowBits, colBits);
    ThroughRegisters small(e, tile);
    for (int64_t i = 0; i < map.iterations(); ++i) {
      int64_t slowStep, fastStep;
      if (map.rowsDivideThreads()) {
        slowStep = i * (map.threads / map.fastCount);
        fastStep = 0;
      } else {
        int64_t perRow = map.fastCount / map.threads;
        slowStep = i / perRow;
        fastStep = i % perRow * map.threads * width;
      }
      Coord step{int32_t(fast == 1 ? slowStep : fastStep),
                 int32_t(fast == 1 ? fastStep : slowStep)};
      bool isWhole = i + 1 < map.iterations() || map.total % map.threads == 0;
      if (!isWhole)
        small.flush();
      guard(e, map, i, [&] {
        if (isWhole)
          return emitChunk(e, tile, access, address, step, width, shifts, small);
        // Cached addresses must not come from inside of this branch alone.
        SharedAddresses last(e, shared, dest, row, col, rowBits, colBits);
        emitChunk(e, tile, access, last, step, width, shifts, small);
        small.flush();
      });
    }
    small.flush();
  }

  /// The last round may have chunks for some threads only.
  static void guard(Emitter &e, const ChunkMap &map, int64_t i, llvm::function_ref<void()> body) {
    Value condition;
    int64_t left = map.total - i * map.threads;
    if (left < map.threads)
      condition = e.compare(arith::CmpIPredicate::slt, e.thread(), e.i32(left));
    e.ifThen(condition, body);
  }

  static void emitChunk(Emitter &e, const GlobalTile &tile, const GlobalTile::Access &access,
                        SharedAddresses &address, Coord at, int64_t width, bool shifts,
                        ThroughRegisters &small) {
    int64_t bytes = width * tile.getElementBytes();
    if (shifts)
      return small.copyChunk(access, at, address.get(at));
    Value from = tile.pointer(e, access, at), to = address.get(at);
    Value inside = tile.isInside(e, access, at);
    if (bytes < 4) // which cp.async cannot move alone
      return small.copy(from, to, inside, access.origin, bytes);
    // Fewer source bytes than the size: the rest is filled with zeros.
    Value sourceBytes = inside ? e.select(inside, e.i32(bytes), e.i32(0)) : Value();
    if (inside)
      from = e.select(inside, from, access.origin);
    NVVM::CpAsyncOp::create(e, to, from, bytes,
                            bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                                        : NVVM::LoadCacheModifierKind::CA,
                            sourceBytes);
  }
};

struct CopyCommitLowering : ThreadPattern<CopyCommitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(CopyCommitOp, Adaptor, Emitter &e, Results &) const override {
    NVVM::CpAsyncCommitGroupOp::create(e);
    return success();
  }
};

struct CopyWaitLowering : ThreadPattern<CopyWaitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(CopyWaitOp op, Adaptor, Emitter &e, Results &) const override {
    NVVM::CpAsyncWaitGroupOp::create(e, int32_t(op.getPending()));
    return success();
  }
};
} // namespace

void mirage::thread::populateCopyPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<CopyAsyncLowering, CopyCommitLowering, CopyWaitLowering>(converter,
                                                                        patterns.getContext());
}
