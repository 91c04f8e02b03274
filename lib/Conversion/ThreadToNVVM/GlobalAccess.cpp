//===- GlobalAccess.cpp - tiles of device tensors -------------------------===//

#include "GlobalAccess.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mirage::thread;

constexpr int64_t kMaxDivisor = int64_t(1) << 20;
/// Alignment in bytes of tensors whose parameter does not state it.
constexpr int64_t kDefaultAlign = 16;

static int64_t powerOfTwoPart(int64_t value) {
  return value == 0 ? kMaxDivisor : std::min(value & -value, kMaxDivisor);
}

int64_t mirage::thread::getDivisor(Value index) {
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return powerOfTwoPart(constant.getSExtValue());
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || loop.getInductionVar() != index)
      return 1;
    return std::gcd(getDivisor(loop.getLowerBound()), getDivisor(loop.getStep()));
  }
  return llvm::TypeSwitch<Operation *, int64_t>(index.getDefiningOp())
      .Case<arith::MulIOp>([](auto op) {
        return std::min(kMaxDivisor, getDivisor(op.getLhs()) * getDivisor(op.getRhs()));
      })
      .Case<arith::AddIOp, arith::SubIOp, arith::RemUIOp, arith::RemSIOp, arith::MinUIOp,
            arith::MinSIOp, arith::MaxUIOp, arith::MaxSIOp>(
          [](auto op) { return std::gcd(getDivisor(op.getLhs()), getDivisor(op.getRhs())); })
      .Case<arith::ShLIOp>([](auto op) {
        APInt bits;
        int64_t divisor = getDivisor(op.getLhs());
        if (matchPattern(op.getRhs(), m_ConstantInt(&bits)) && bits.ult(20))
          return std::min(kMaxDivisor, divisor << bits.getZExtValue());
        return divisor;
      })
      .Case<arith::SelectOp>([](auto op) {
        return std::gcd(getDivisor(op.getTrueValue()), getDivisor(op.getFalseValue()));
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>(
          [](auto op) { return getDivisor(op.getIn()); })
      .Default([](Operation *) { return int64_t(1); });
}

static int64_t getAlign(Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return kDefaultAlign;
  auto kernel = dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  if (!kernel)
    return kDefaultAlign;
  auto align = kernel.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kAlignAttr);
  return align ? align.getInt() : kDefaultAlign;
}

/// An attribute of the kernel's parameter that is this tensor; none of any other value.
static Attribute getParameterAttr(Value tensor, StringRef name) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return {};
  auto kernel = dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  return kernel ? kernel.getArgAttr(argument.getArgNumber(), name) : Attribute();
}

static IntegerAttr getUnit(Value tensor) {
  return dyn_cast_if_present<IntegerAttr>(getParameterAttr(tensor, kUnitAttr));
}

LogicalResult mirage::thread::annotateAccesses(Operation *root) {
  auto annotate = [](Operation *op, Value tensor, ValueRange offsets) {
    Builder builder(op->getContext());
    op->setAttr(kAlignAttr, builder.getI64IntegerAttr(getAlign(tensor)));
    op->setAttr(kDivisorsAttr,
                builder.getDenseI64ArrayAttr(llvm::map_to_vector(offsets, getDivisor)));
    if (IntegerAttr unit = getUnit(tensor))
      op->setAttr(kUnitAttr, unit);
    if (getParameterAttr(tensor, kInterleavedAttr))
      op->setAttr(kBesideOthersAttr, builder.getUnitAttr());
  };
  WalkResult result = root->walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<LoadGlobalOp, CopyAsyncOp, BulkCopyOp>(
            [&](auto access) { annotate(op, access.getSource(), access.getOffsets()); })
        .Case<GatherGlobalOp, GatherAsyncOp>(
            [&](auto access) { annotate(op, access.getTable(), access.getOffsets()); })
        .Case<StoreGlobalOp, AtomicAddOp>(
            [&](auto access) { annotate(op, access.getDest(), access.getOffsets()); });
    // Bulk copies have no bounds, and single elements and indices have no default.
    bool isDynamic = llvm::any_of(op->getOperands(), getUnit);
    if (!isDynamic || isa<LoadGlobalOp, CopyAsyncOp, StoreGlobalOp, AtomicAddOp>(op))
      return WalkResult::advance();
    op->emitOpError("expected tensors of a known size, got one of a dynamic size, which only "
                    "copies by elements keep within its rows");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

GlobalTile::GlobalTile(Operation *op, MemRefType type, ArrayRef<int64_t> dims,
                       ArrayRef<bool> inBounds, ArrayRef<int64_t> shape,
                       std::optional<ArrayRef<int64_t>> extents)
    : type(type), dims(dims), shape(shape), extents(extents.value_or(shape)), inBounds(inBounds),
      elementBytes(type.getElementTypeBitWidth() / 8), op(op) {
  (void)type.getStridesAndOffset(strides, offset);
  divisors.assign(type.getRank(), 1);
  if (auto known = op->getAttrOfType<DenseI64ArrayAttr>(kDivisorsAttr))
    divisors.assign(known.asArrayRef().begin(), known.asArrayRef().end());
  auto known = op->getAttrOfType<IntegerAttr>(kAlignAttr);
  align = known ? known.getInt() : elementBytes;
  auto perSize = op->getAttrOfType<IntegerAttr>(kUnitAttr);
  unit = perSize ? perSize.getInt() : 0;
  isBesideOthers = op->hasAttr(kBesideOthersAttr);
}

bool GlobalTile::isAligned(int64_t axis, int64_t width) const {
  if (align % (width * elementBytes) || offset % width)
    return false;
  for (auto [divisor, stride] : llvm::zip(divisors, strides))
    if (divisor * stride % width)
      return false;
  if (shape[1 - axis] > 1 && getStride(1 - axis) % width)
    return false;
  if (isPadded(axis) && extents[axis] % width)
    return false;
  if (unit % width)
    return false;
  if (!isChecked(axis))
    return true;
  return type.getDimSize(dims[axis]) % width == 0 && divisors[dims[axis]] % width == 0;
}

bool GlobalTile::startsAt(int64_t bytes) const {
  if (align % bytes || offset * elementBytes % bytes)
    return false;
  return llvm::all_of(llvm::zip(divisors, strides), [&](auto pair) {
    auto [divisor, stride] = pair;
    return divisor * stride * elementBytes % bytes == 0;
  });
}

int64_t GlobalTile::getAlignment(const LinearLayout &layout, Coord constant, int64_t bytes) const {
  constexpr int64_t widest = 16;
  if (!isBesideOthers)
    return bytes;
  int64_t found = std::gcd(widest, std::gcd(align, offset * elementBytes));
  for (auto [divisor, stride] : llvm::zip(divisors, strides))
    found = std::gcd(found, divisor * stride * elementBytes);
  for (int64_t axis : {0, 1}) {
    found = std::gcd(found, constant[axis] * getStride(axis) * elementBytes);
    for (ArrayRef<Coord> basis : {layout.getLane(), layout.getWarp()})
      for (Coord vector : basis)
        found = std::gcd(found, vector[axis] * getStride(axis) * elementBytes);
  }
  return std::max(found, bytes);
}

int64_t GlobalTile::getVectorWidth(int64_t axis, int64_t limit) const {
  if (dims[axis] < 0 || getStride(axis) != 1)
    return 1;
  int64_t width = std::min<int64_t>(llvm::bit_floor(uint64_t(limit)), 16 / elementBytes);
  while (width > 1 && !isAligned(axis, width))
    width /= 2;
  return width;
}

int64_t GlobalTile::countElements() const {
  int64_t count = 1;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides))
    count += (size - 1) * stride;
  return count;
}

int64_t GlobalTile::countTileBytes() const {
  int64_t elements = 1;
  for (int64_t axis : {0, 1})
    elements += (shape[axis] - 1) * getStride(axis);
  return elements * elementBytes;
}

static Value wide(Emitter &e, Value index) {
  return e.createOrFold<arith::ExtUIOp>(e.getI64Type(), index);
}

/// The parameter of the kernel around `op` that is the size.
static Value findSize(Operation *op) {
  auto kernel = op->getParentOfType<gpu::GPUFuncOp>();
  for (BlockArgument argument : kernel.getArguments())
    if (kernel.getArgAttr(argument.getArgNumber(), kSizeAttr))
      return argument;
  llvm_unreachable("the pass checks that kernels of dynamic tensors take the size");
}

GlobalTile::Access GlobalTile::begin(Emitter &e, Value base, ArrayRef<Value> offsets, Value row,
                                     Value col) const {
  Access access;
  access.origin = e.offset(base, offset * elementBytes);
  auto addTerm = [&](Value &sum, Value index, int64_t stride) {
    Value term = e.mul(index, stride * elementBytes);
    sum = sum ? e.add(sum, term) : term;
  };
  Value elements, inTile;
  for (auto [index, stride] : llvm::zip(offsets, strides))
    addTerm(elements, e.toI64(index), stride);
  Value thread[2] = {row, col};
  // Loops hold pointers from step to step; elsewhere one more addition matters.
  bool isNarrow = op->getParentOfType<scf::ForOp>() && countTileBytes() < (int64_t(1) << 31);
  for (int64_t axis : {0, 1}) {
    if (dims[axis] < 0)
      continue;
    addTerm(inTile, isNarrow ? thread[axis] : wide(e, thread[axis]), getStride(axis));
    Value left = isPadded(axis) ? e.i32(extents[axis]) : Value();
    if (isChecked(axis)) {
      // Sizes are below 2^31, offsets are not negative.
      Value inTensor = e.sub(e.i32(type.getDimSize(dims[axis])), e.toI32(offsets[dims[axis]]));
      left = left ? e.createOrFold<arith::MinSIOp>(left, inTensor) : inTensor;
    }
    if (left)
      access.left[axis] = e.sub(left, thread[axis]);
  }
  if (inTile) {
    inTile = isNarrow ? wide(e, inTile) : inTile;
    elements = elements ? e.add(elements, inTile) : inTile;
  }
  access.pointer = elements ? e.offset(access.origin, elements) : access.origin;
  if (unit) {
    // Rows are consecutive in memory, so the existing ones are its first part.
    Value size = e.createOrFold<arith::ExtUIOp>(e.getI64Type(), findSize(op));
    Value there = e.mul(size, unit * elementBytes);
    access.present = elements ? e.sub(there, elements) : there;
  }
  return access;
}

Value GlobalTile::pointer(Emitter &e, const Access &access, Coord constant) const {
  return e.offset(access.pointer,
                  (constant.row * getStride(0) + constant.col * getStride(1)) * elementBytes);
}

Value GlobalTile::isInside(Emitter &e, const Access &access, Coord constant) const {
  Value inside;
  for (int64_t axis : {0, 1})
    if (access.left[axis])
      inside = e.both(
          inside, e.compare(arith::CmpIPredicate::slt, e.i32(constant[axis]), access.left[axis]));
  if (access.present) {
    int64_t elements = constant.row * getStride(0) + constant.col * getStride(1);
    inside = e.both(inside, e.compare(arith::CmpIPredicate::slt, e.i64(elements * elementBytes),
                                      access.present));
  }
  return inside;
}
