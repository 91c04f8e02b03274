//===- SkewedRows.cpp - rows at odd elements, copied in whole lines -------===//

#include "SkewedRows.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mirage::thread;

bool SkewedRows::canCopy(const GlobalTile &tile, SharedType shared) {
  int64_t bytes = tile.getElementBytes(), rowBytes = shared.getCols() * bytes;
  // A row may take one line more than it fills, and no line holds parts of two rows.
  bool apart = shared.getRowPitch() >= rowBytes + kLine;
  bool alike = (shared.getRowPitch() - tile.getStride(0) * bytes) % kLine == 0;
  return !shared.getSwizzle() && tile.getStride(1) == 1 && rowBytes % kLine == 0 && apart &&
         alike && tile.startsAt(kLine);
}

void SkewedRows::clearBesideRows(Emitter &e, SharedType shared, Value dest) {
  Value zero = arith::ConstantOp::create(e, e.getIntegerAttr(e.getIntegerType(16), 0));
  int64_t threads = e.role.numThreads(), pitch = shared.getRowPitch();
  for (int64_t first = 0; first < shared.getRows(); first += threads) {
    Value row = e.add(e.thread(), first), isRow;
    if (first + threads > shared.getRows())
      isRow = e.compare(arith::CmpIPredicate::slt, row, e.i32(shared.getRows()));
    e.ifThen(isRow, [&] {
      // After this row, and before the next one.
      Value end = e.offset(dest, e.add(e.mul(row, pitch), shared.getCols() * 2));
      LLVM::StoreOp::create(e, zero, end, /*alignment=*/2);
      LLVM::StoreOp::create(e, zero, e.offset(end, pitch - shared.getCols() * 2 - 2),
                            /*alignment=*/2);
    });
  }
}

void SkewedRows::copy() {
  int64_t lines = shared.getCols() * tile.getElementBytes() / kLine;
  copyLines(0, lines);
  copyLines(lines, 1);
}

void SkewedRows::copyLines(int64_t first, int64_t count) {
  int64_t threads = e.role.numThreads(), total = shared.getRows() * count;
  // Threads keep their place in a row where each row has whole rows of threads.
  int64_t rowsAtOnce = threads % count == 0 ? threads / count : 0;
  llvm::DenseMap<int64_t, Line> found; // the distance of the rows of a step from those of the first
  for (int64_t i = 0; i * threads < total; ++i) {
    int64_t step = i * rowsAtOnce;
    int64_t behind = step * tile.getStride(0) * tile.getElementBytes() % kLine;
    if (!rowsAtOnce || !found.contains(behind)) {
      Value number = e.add(e.thread(), rowsAtOnce ? 0 : i * threads), lines = e.i32(count);
      Value row = e.createOrFold<arith::DivUIOp>(number, lines);
      Value start = e.mul(e.add(e.createOrFold<arith::RemUIOp>(number, lines), first), kLine);
      found[behind] = find(row, start, step);
    }
    Value condition;
    if (int64_t left = total - i * threads; left < threads)
      condition = e.compare(arith::CmpIPredicate::slt, e.thread(), e.i32(left));
    e.ifThen(condition, [&] { copyLine(found[behind], step); });
  }
}

SkewedRows::Line SkewedRows::find(Value row, Value start, int64_t step) const {
  Type i32 = e.getI32Type(), i64 = e.getI64Type();
  int64_t bytes = tile.getElementBytes();
  Line line;
  line.from = tile.begin(e, source, offsets, row, e.i32(0));
  Value address = LLVM::PtrToIntOp::create(e, i64, tile.pointer(e, line.from, {int32_t(step), 0}));
  Value behind = e.bitAnd(arith::TruncIOp::create(e, i32, address), kLine - 1);
  Value end = e.i32(shared.getCols() * bytes);
  if (Value left = line.from.left[1])
    end = e.createOrFold<arith::MinSIOp>(e.mul(left, bytes), end);
  Value there = e.sub(e.add(end, behind), start);
  there = e.createOrFold<arith::MaxSIOp>(there, e.i32(0));
  line.bytes = e.createOrFold<arith::MinSIOp>(there, e.i32(kLine));
  Value from = e.sub(start, behind);
  line.from.pointer = e.offset(line.from.pointer, e.createOrFold<arith::ExtSIOp>(i64, from));
  line.to = e.offset(dest, e.add(e.mul(row, shared.getRowPitch()), from));
  return line;
}

void SkewedRows::copyLine(const Line &line, int64_t step) const {
  Value from = e.offset(line.from.pointer, step * tile.getStride(0) * tile.getElementBytes());
  Value bytes = line.bytes, zero = e.i32(0);
  if (Value inside = tile.isInside(e, line.from, {int32_t(step), 0}))
    bytes = e.select(inside, bytes, zero);
  // Nothing is read from lines after the end, whatever the address.
  from = e.select(e.compare(arith::CmpIPredicate::sgt, bytes, zero), from, line.from.origin);
  NVVM::CpAsyncOp::create(e, e.offset(line.to, step * shared.getRowPitch()), from, kLine,
                          NVVM::LoadCacheModifierKind::CG, bytes);
}
