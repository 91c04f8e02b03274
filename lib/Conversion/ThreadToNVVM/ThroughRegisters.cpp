//===- ThroughRegisters.cpp - copies of single elements -------------------===//

#include "ThroughRegisters.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mirage::thread;

bool ThroughRegisters::canShift(const GlobalTile &tile) {
  constexpr int64_t mostElements = int64_t(1) << 30;
  int64_t count = tile.countElements();
  return !tile.isDynamic() && tile.getElementBytes() == 2 && tile.getStride(1) == 1 &&
         tile.startsAtWord() && count >= 2 && count < mostElements;
}

void ThroughRegisters::copy(Value from, Value to, Value inside, Value origin, int64_t bytes) {
  constexpr size_t together = 16;
  Type word = e.getIntegerType(bytes * 8);
  if (inside)
    from = e.select(inside, from, origin);
  Value loaded = LLVM::LoadOp::create(e, word, from, bytes);
  if (inside)
    loaded = e.select(inside, loaded,
                      arith::ConstantOp::create(e, e.getIntegerAttr(word, 0)).getResult());
  elements.push_back({loaded, to, bytes});
  if (elements.size() == together)
    flush();
}

void ThroughRegisters::copyChunk(const GlobalTile::Access &access, Coord at, Value to) {
  constexpr size_t together = 4;
  Type i32 = e.getI32Type(), i64 = e.getI64Type();
  Chunk chunk;
  chunk.to = to;
  chunk.origin = access.origin;
  Value bytes = e.sub(LLVM::PtrToIntOp::create(e, i64, tile.pointer(e, access, at)),
                      LLVM::PtrToIntOp::create(e, i64, access.origin));
  chunk.first = e.shiftRight(arith::TruncIOp::create(e, i32, bytes), 1);
  Value even = e.bitAnd(chunk.first, -2);
  Value lastWord = e.i32((tile.countElements() - 2) & ~int64_t(1));
  for (int64_t word = 0; word <= kChunk / 2; ++word) {
    Value index = e.createOrFold<arith::MinSIOp>(e.add(even, 2 * word), lastWord);
    Value offset = e.createOrFold<arith::ExtUIOp>(i64, index);
    chunk.words.push_back(
        LLVM::LoadOp::create(e, i32, e.offset(access.origin, e.mul(offset, 2)), /*alignment=*/4));
  }
  if (access.left[1])
    chunk.left = e.sub(access.left[1], e.i32(at.col));
  if (access.left[0]) {
    Value inside = e.compare(arith::CmpIPredicate::slt, e.i32(at.row), access.left[0]);
    chunk.left = e.select(inside, chunk.left ? chunk.left : e.i32(kChunk), e.i32(0));
  }
  chunks.push_back(chunk);
  if (chunks.size() == together)
    flush();
}

void ThroughRegisters::write(const Chunk &chunk) {
  Type i32 = e.getI32Type();
  Value shift = e.shiftLeft(e.bitAnd(chunk.first, 1), 4);
  auto type = VectorType::get({kChunk / 2}, i32);
  Value vector = LLVM::UndefOp::create(e, type);
  for (int64_t i = 0; i < kChunk / 2; ++i) {
    Value word = e.intrinsic("llvm.fshr.i32", i32, {chunk.words[i + 1], chunk.words[i], shift});
    if (chunk.left) {
      auto has = [&](int64_t count) {
        return e.compare(arith::CmpIPredicate::sge, chunk.left, e.i32(count));
      };
      word = e.select(has(2 * i + 2), word,
                      e.select(has(2 * i + 1), e.bitAnd(word, 0xffff), e.i32(0)));
    }
    vector = LLVM::InsertElementOp::create(e, vector, word, e.i32(i));
  }
  LLVM::StoreOp::create(e, vector, chunk.to, /*alignment=*/16);
}

/// The last element of an odd number of them, if the chunk has it.
void ThroughRegisters::copyLast(const Chunk &chunk) {
  int64_t count = tile.countElements();
  if (count % 2 == 0)
    return;
  Type half = e.getIntegerType(16);
  Value place = e.sub(e.i32(count - 1), chunk.first);
  Value end =
      chunk.left ? e.createOrFold<arith::MinSIOp>(chunk.left, e.i32(kChunk)) : e.i32(kChunk);
  Value here = e.both(e.compare(arith::CmpIPredicate::sge, place, e.i32(0)),
                      e.compare(arith::CmpIPredicate::slt, place, end));
  e.ifThen(here, [&] {
    Value last = LLVM::LoadOp::create(e, half, e.offset(chunk.origin, 2 * (count - 1)), 2);
    LLVM::StoreOp::create(e, last, e.offset(chunk.to, e.mul(place, 2)), 2);
  });
}

void ThroughRegisters::flush() {
  for (const Element &element : elements)
    LLVM::StoreOp::create(e, element.loaded, element.to, element.bytes);
  for (const Chunk &chunk : chunks)
    write(chunk);
  for (const Chunk &chunk : chunks)
    copyLast(chunk);
  elements.clear();
  chunks.clear();
}
