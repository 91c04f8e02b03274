//===- SharedAccess.cpp - fragments from and to shared memory -------------===//

#include "SharedAccess.h"

#include "mirage/Target/Staging.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage::thread;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

int64_t SharedAddresses::keyShift() const { return llvm::Log2_64(128 / tile.getSwizzle()); }

/// The formula of `!thread.shared`, on values.
Value SharedAddresses::dynamicOffset(Value atRow, Value atCol) {
  Value byte = e.mul(atCol, tile.getElementBytes());
  int64_t swizzle = tile.getSwizzle();
  if (!swizzle)
    return e.add(e.mul(atRow, tile.getRowPitch()), byte);
  Value inPanel = e.bitAnd(byte, swizzle - 1);
  Value key = e.bitAnd(e.shiftRight(atRow, keyShift()), swizzle / 16 - 1);
  Value offset = e.add(e.mul(atRow, swizzle), e.bitXor(inPanel, e.shiftLeft(key, 4)));
  if (tile.getCols() * tile.getElementBytes() == swizzle)
    return offset;
  Value panel = e.shiftRight(byte, llvm::Log2_64(swizzle));
  return e.add(offset, e.mul(panel, tile.getRows() * swizzle));
}

Value SharedAddresses::get(Coord constant) {
  int64_t swizzle = tile.getSwizzle();
  if (!swizzle) {
    if (!plain)
      plain = e.offset(base, dynamicOffset(row, col));
    return e.offset(plain,
                    constant.row * tile.getRowPitch() + constant.col * tile.getElementBytes());
  }
  if ((constant.row & rowBits) || (constant.col & colBits))
    return e.offset(base, dynamicOffset(e.add(row, constant.row), e.add(col, constant.col)));
  // Disjoint bits: panel, row, chunk and key of the sum are those of the parts.
  int64_t byte = constant.col * tile.getElementBytes();
  int64_t key = (constant.row >> keyShift()) & (swizzle / 16 - 1);
  int64_t flip = ((byte % swizzle) & ~15) ^ (key * 16);
  Value &start = byFlip[flip];
  if (!start) {
    if (!plain)
      plain = dynamicOffset(row, col);
    start = e.offset(base, flip ? e.bitXor(plain, e.i32(flip)) : plain);
  }
  return e.offset(start, (byte / swizzle * tile.getRows() + constant.row) * swizzle + byte % 16);
}

//===----------------------------------------------------------------------===//
// Plain accesses
//===----------------------------------------------------------------------===//

SharedAccess::SharedAccess(SharedType tile, const LinearLayout &layout, Coord at, bool transposed)
    : tile(tile), original(layout), layout(transposed ? layout.transpose() : layout), at(at),
      transposed(transposed) {}

int64_t SharedAccess::getVectorWidth() const {
  int64_t width = std::min(layout.contiguous(1), 16 / elementBytes());
  while (width > 1 && (at.col % width || tile.getRowPitch() % (width * elementBytes())))
    width /= 2;
  return width;
}

static int64_t bitsOf(const LinearLayout &layout, int64_t dim) {
  int64_t bits = 0;
  for (ArrayRef<Coord> basis : {layout.getLane(), layout.getWarp()})
    for (Coord vector : basis)
      bits |= vector[dim];
  return bits;
}

SharedAddresses SharedAccess::addresses(Emitter &e, Value base, const LinearLayout &of) const {
  return SharedAddresses(e, tile, base, e.threadOffset(of, 0), e.threadOffset(of, 1), bitsOf(of, 0),
                         bitsOf(of, 1));
}

Coord SharedAccess::position(const LinearLayout &of, int64_t reg) const {
  return of.getRegister(reg) + at;
}

SmallVector<Value> SharedAccess::restore(ArrayRef<Value> scalars) const {
  if (!transposed)
    return SmallVector<Value>(scalars);
  SmallVector<Value> result(scalars.size());
  for (size_t i = 0; i < scalars.size(); ++i)
    result[i] = scalars[original.transposeRegister(i)];
  return result;
}

bool SharedAccess::readsPairs() const {
  return tile.startsAtOddElements() && layout.contiguous(1) >= 2;
}

/// Bytes from a lane's row to the neighbouring row, which belongs to another lane; null if not all
/// lanes have one.
Value SharedAccess::toRowBeside(Emitter &e) const {
  auto found = llvm::find(layout.getLane(), Coord{1, 0});
  if (found == layout.getLane().end())
    return {};
  Value isSecond = e.bitAnd(e.shiftRight(e.lane(), found - layout.getLane().begin()), 1);
  Value above = e.compare(arith::CmpIPredicate::ne, isSecond, e.i32(0));
  return e.select(above, e.i32(-tile.getRowPitch()), e.i32(tile.getRowPitch()));
}

/// The words of rows that start at odd elements, which a lane reads one after the other. A run of
/// pairs that starts at a word has one word less than one that starts within a word: instead of
/// that word, the lane reads one that the lane of the neighbouring row needs, so that all words are
/// in different banks. Its place depends on where the banks of even and odd rows meet
/// (getSkewedPad).
struct SharedAccess::SplitWords {
  Value words, spare; // addresses of the words that all lanes need, and of the one that some do
  Value shift;
  bool spareIsFirst;

  Value load(Emitter &e, int64_t byte, bool isSpare) const {
    return LLVM::LoadOp::create(e, e.getI32Type(), e.offset(isSpare ? spare : words, byte), 4);
  }
  /// The pair of which each of two words has a half, or one has all.
  Value join(Emitter &e, Value low, Value high) const {
    return e.intrinsic(spareIsFirst ? "llvm.fshl.i32" : "llvm.fshr.i32", e.getI32Type(),
                       {high, low, shift});
  }
};

/// Of pairs that start `half` a word (0 or 2 bytes) behind a word.
SharedAccess::SplitWords SharedAccess::findWords(Emitter &e, Value start, Value half) const {
  constexpr int64_t word = 4;
  bool first = readsFirstBeside(tile.getRowPitch());
  Value splits = e.compare(arith::CmpIPredicate::ne, half, e.i32(0));
  Value words = e.select(splits, e.i32(-2), e.i32(first ? -word : 0));
  // Without such a lane, a word that the lane reads anyway.
  Value beside = toRowBeside(e), own = e.i32(first ? 0 : -word);
  Value spare = e.select(splits, e.i32(-2), beside ? e.sub(beside, e.i32(2)) : own);
  return {e.offset(start, words), e.offset(start, spare), e.shiftLeft(half, 3), first};
}

SmallVector<Value> SharedAccess::loadPairs(Emitter &e, Value base) const {
  constexpr int64_t word = 4;
  Value start = addresses(e, base, layout).get({});
  Value odd = e.bitAnd(e.sharedAddress(start), 2), even = e.sub(e.i32(2), odd);
  // By whether the registers' constant part moves a pair by half a word.
  SplitWords words[2] = {findWords(e, start, odd), findWords(e, start, even)};
  SmallVector<std::pair<int64_t, int64_t>> pairs; // first byte and register
  for (int64_t i = 0; i < layout.getNumRegisters(); i += 2) {
    Coord where = position(layout, i);
    pairs.push_back({where.row * tile.getRowPitch() + where.col * elementBytes(), i});
  }
  llvm::sort(pairs);
  SmallVector<Value> scalars(layout.getNumRegisters());
  for (size_t begin = 0, end; begin < pairs.size(); begin = end) {
    // Consecutive pairs share the words between them.
    for (end = begin + 1; end < pairs.size(); ++end)
      if (pairs[end].first != pairs[end - 1].first + word)
        break;
    const SplitWords &from = words[pairs[begin].first % word / 2];
    Value low = from.load(e, pairs[begin].first, from.spareIsFirst);
    for (auto [byte, number] : ArrayRef(pairs).slice(begin, end - begin)) {
      bool isLast = byte == pairs[end - 1].first;
      Value high = from.load(e, byte + word, isLast && !from.spareIsFirst);
      Value pair = e.bitcast(from.join(e, low, high), VectorType::get({2}, elementType()));
      for (int64_t j : {0, 1})
        scalars[number + j] = e.createOrFold<vector::ExtractOp>(pair, j);
      low = high;
    }
  }
  return restore(scalars);
}

SmallVector<Value> SharedAccess::load(Emitter &e, Value base) const {
  if (readsPairs())
    return loadPairs(e, base);
  int64_t width = getVectorWidth();
  SharedAddresses address = addresses(e, base, layout);
  SmallVector<Value> scalars;
  for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
    Value pointer = address.get(position(layout, i));
    if (width == 1) {
      scalars.push_back(LLVM::LoadOp::create(e, elementType(), pointer, elementBytes()));
      continue;
    }
    Value loaded = LLVM::LoadOp::create(e, VectorType::get({width}, elementType()), pointer,
                                        width * elementBytes());
    for (int64_t j = 0; j < width; ++j)
      scalars.push_back(e.createOrFold<vector::ExtractOp>(loaded, j));
  }
  return restore(scalars);
}

void SharedAccess::storeWhere(Emitter &e, Value base, ArrayRef<Value> values,
                              bool warpsHoldParts) const {
  SmallVector<Value> scalars(values);
  if (transposed)
    for (size_t i = 0; i < scalars.size(); ++i)
      scalars[original.transposeRegister(i)] = values[i];
  int64_t width = getVectorWidth();
  LinearLayout writers = layout;
  if (warpsHoldParts)
    writers = LinearLayout({}, LinearLayout::Basis(layout.getLane()), {});
  e.ifThen(e.isLeader(writers), [&] {
    SharedAddresses address = addresses(e, base, layout);
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
      Value value = scalars[i];
      if (width > 1)
        value = e.createOrFold<vector::FromElementsOp>(
            VectorType::get({width}, elementType()), ValueRange(ArrayRef(scalars).slice(i, width)));
      LLVM::StoreOp::create(e, value, address.get(position(layout, i)), width * elementBytes());
    }
  });
}

//===----------------------------------------------------------------------===//
// ldmatrix
//===----------------------------------------------------------------------===//

std::optional<SharedAccess::MatrixPlan> SharedAccess::planMatrix() const {
  ArrayRef<Coord> reg = layout.getReg(), lane = layout.getLane();
  if (elementBytes() == 1)
    return std::nullopt;
  if (at.col * elementBytes() % 16 || (!tile.getSwizzle() && tile.getRowPitch() % 16))
    return std::nullopt;
  MatrixPlan plan;
  plan.registersOfMatrix = elementBytes() == 2 ? 2 : 1;
  size_t matrixBit = elementBytes() == 2 ? 1 : 0;
  if (elementBytes() == 2 && reg.empty())
    return std::nullopt;
  Coord row[3];
  if (elementBytes() == 2
          ? reg[0] == Coord{0, 1} && lane[0] == Coord{0, 2} && lane[1] == Coord{0, 4}
          : lane[0] == Coord{0, 1} && lane[1] == Coord{0, 2}) {
    plan.transposed = false;
    row[0] = lane[2], row[1] = lane[3], row[2] = lane[4];
  } else if (elementBytes() == 2 && lane[2] == Coord{0, 1} && lane[3] == Coord{0, 2} &&
             lane[4] == Coord{0, 4}) {
    plan.transposed = true;
    row[0] = reg[0], row[1] = lane[0], row[2] = lane[1];
  } else {
    return std::nullopt;
  }
  // Lanes 8 to 15 address the second matrix, and so on; with fewer than four
  // matrices the other lanes' addresses are not used.
  size_t matrixBits = std::min<size_t>(2, reg.size() - matrixBit);
  plan.matrices = int64_t(1) << matrixBits;
  LinearLayout::Basis addressLane(row, row + 3);
  for (size_t i = 0; i < 2; ++i)
    addressLane.push_back(i < matrixBits ? reg[matrixBit + i] : Coord{});
  LinearLayout::Basis addressReg(reg.drop_front(matrixBit + matrixBits));
  plan.addresses = LinearLayout(addressReg, addressLane, LinearLayout::Basis(layout.getWarp()),
                                layout.getRepeat());
  return plan;
}

SmallVector<Value> SharedAccess::loadMatrix(Emitter &e, Value base) const {
  std::optional<MatrixPlan> plan = planMatrix();
  if (!plan)
    return load(e, base);
  // The tile of `addresses` lacks the columns within a matrix row, hence its own
  // repeat would be too narrow: positions are taken from the layout.
  SharedAddresses address = addresses(e, base, plan->addresses);
  int64_t step = plan->matrices * plan->registersOfMatrix;
  MLIRContext *context = e.getContext();
  Type word = e.getI32Type();
  Type resultType =
      plan->matrices == 1
          ? word
          : LLVM::LLVMStructType::getLiteral(context, SmallVector<Type>(plan->matrices, word));
  SmallVector<Value> scalars;
  for (int64_t i = 0; i < layout.getNumRegisters(); i += step) {
    Value loaded = NVVM::LdMatrixOp::create(
        e, resultType, address.get(position(layout, i)), plan->matrices,
        plan->transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(context, 8, 8), NVVM::LdStMatrixEltType::B16);
    for (int64_t m = 0; m < plan->matrices; ++m) {
      Value bits = plan->matrices == 1 ? loaded : LLVM::ExtractValueOp::create(e, loaded, m);
      if (plan->registersOfMatrix == 1) {
        scalars.push_back(e.bitcast(bits, elementType()));
        continue;
      }
      Value pair = e.bitcast(bits, VectorType::get({2}, elementType()));
      for (int64_t j : {0, 1})
        scalars.push_back(e.createOrFold<vector::ExtractOp>(pair, j));
    }
  }
  return restore(scalars);
}
