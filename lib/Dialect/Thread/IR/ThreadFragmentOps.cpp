//===- ThreadFragmentOps.cpp - verifiers of ops on registers --------------===//

#include "Verifiers.h"

#include "mirage/Dialect/Common/IntegerFormula.h"
#include "mirage/Dialect/Thread/IR/Cumulation.h"
#include "mirage/Dialect/Thread/IR/LayoutConversion.h"
#include "mirage/Dialect/Thread/IR/Thread.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

/// "reg = .., lane = .." of a fragment for a message.
static std::string layoutOf(FragmentType type) { return type.getLinearLayout().str(); }

LogicalResult mirage::thread::verifyNotPartial(Operation *op, FragmentType type, StringRef what) {
  if (type.getPartial())
    return op->emitOpError() << "expected " << what
                             << " not to be partial; sum it with thread.reduce_warps first";
  return success();
}

static LogicalResult verifyDim(Operation *op, int64_t dim) {
  if (dim != 0 && dim != 1)
    return op->emitOpError() << "expected dimension 0 or 1, got " << dim;
  return success();
}

static LogicalResult verifyLayout(Operation *op, FragmentType type, const LinearLayout &expected) {
  if (type.getLinearLayout() == expected)
    return success();
  return op->emitOpError() << "expected a result of layout <" << expected.str() << ">, got <"
                           << layoutOf(type) << ">";
}

/// The type in which totals are computed.
static LogicalResult verifyNumbers(Operation *op, FragmentType type) {
  Type element = type.getElementType();
  if (element.isF32() || element.isInteger(64))
    return success();
  return op->emitOpError() << "expected elements of type f32 or i64, got " << element;
}

static int64_t getElementBytes(FragmentType type) {
  return type.getElementType().getIntOrFloatBitWidth() / 8;
}

//===----------------------------------------------------------------------===//
// Values in registers
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  double value = getValue().convertToDouble();
  FragmentType type = getType();
  if (type.getPartial() && value != 0)
    return emitOpError("expected 0 in a partial fragment, where every copy counts, got ") << value;
  if (type.getElementType().isInteger(32) && value != double(int32_t(value)))
    return emitOpError("expected a value that i32 holds, got ") << value;
  return success();
}

LogicalResult SplatOp::verify() {
  if (getValue().getType() != getType().getElementType())
    return emitOpError("expected a scalar of the fragment's element type ")
           << getType().getElementType() << ", got " << getValue().getType();
  return verifyNotPartial(*this, getType(), "the result");
}

LogicalResult IotaOp::verify() {
  Type element = getType().getElementType();
  if (!element.isF32() && !element.isInteger(32) && !element.isInteger(64))
    return emitOpError("expected elements of type f32, i32 or i64, got ") << element;
  if (failed(verifyDim(*this, getDim())))
    return failure();
  return verifyNotPartial(*this, getType(), "the result");
}

LogicalResult UnaryOp::verify() {
  if (!isa<FloatType>(getType().getElementType()))
    return emitOpError("expected floating-point elements, got ") << getType().getElementType();
  if (getFn() != UnaryFn::Neg)
    return verifyNotPartial(*this, getType(), "the operand");
  return success();
}

LogicalResult BinaryOp::verify() {
  Type element = getType().getElementType();
  bool additive = getFn() == BinaryFn::Add || getFn() == BinaryFn::Sub;
  bool integral =
      additive || getFn() == BinaryFn::Mul || getFn() == BinaryFn::Max || getFn() == BinaryFn::Min;
  if (element.isInteger() && !integral)
    return emitOpError("expected floating-point elements, got ") << element;
  if (!additive)
    return verifyNotPartial(*this, getType(), "the operands");
  return success();
}

LogicalResult IntegersOp::verify() {
  FailureOr<IntegerFormula> formula =
      IntegerFormula::parse([&] { return emitOpError(); }, getFormula());
  if (failed(formula))
    return failure();
  int64_t given = formula->countOperands() + int64_t(formula->getPositions().size());
  if (given != int64_t(getOperands().size()))
    return emitOpError("expected a load, a table or a position for each of the ")
           << getOperands().size() << " operands, got " << given;
  FragmentType type = getType();
  auto isNumber = [](Type element) { return element.isInteger(64) || element.isF32(); };
  for (Value input : getInputs()) {
    auto from = cast<FragmentType>(input.getType());
    if (!isNumber(from.getElementType()) || from.withElementType(type.getElementType()) != type)
      return emitOpError("expected operands of i64 or f32 in the result's layout, got ") << from;
  }
  bool isFloat = isa<FloatType>(formula->getSteps().back().type);
  if (isFloat ? !type.getElementType().isF32() : !isNumber(type.getElementType()))
    return emitOpError("expected a result of f32")
           << (isFloat ? "" : " or i64") << ", got " << type;
  return verifyNotPartial(*this, type, "the result");
}

LogicalResult RescaleOp::verify() {
  FragmentType expected = getType().withPartial(false);
  if (getFactor().getType() != expected)
    return emitOpError("expected a factor of type ")
           << expected << ", got " << getFactor().getType();
  if (!isa<FloatType>(expected.getElementType()))
    return emitOpError("expected floating-point elements, got ") << expected.getElementType();
  return success();
}

LogicalResult ExceedsOp::verify() {
  FragmentType type = getOperand().getType();
  if (!type.getElementType().isF32())
    return emitOpError("expected elements of f32, got ") << type.getElementType();
  return verifyNotPartial(*this, type, "the operand");
}

LogicalResult CastOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (from.withElementType(to.getElementType()) != to)
    return emitOpError("expected operand and result to differ in the element type alone, got ")
           << from << " and " << to;
  if (!isa<FloatType>(from.getElementType()) || !isa<FloatType>(to.getElementType()))
    return emitOpError("expected floating-point elements, got ")
           << from.getElementType() << " and " << to.getElementType();
  return success();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getOperand().getType() == getType() ? OpFoldResult(getOperand()) : OpFoldResult();
}

LogicalResult MaskOp::verify() {
  if (failed(verifyDim(*this, getDim())))
    return failure();
  return verifyNotPartial(*this, getType(), "the operand");
}

//===----------------------------------------------------------------------===//
// Changes of shape and layout
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (failed(verifyDim(*this, getDim())))
    return failure();
  if (failed(verifyNumbers(*this, from)))
    return failure();
  if (to.getElementType() != from.getElementType())
    return emitOpError("expected a result of the operand's element type ")
           << from.getElementType() << ", got " << to.getElementType();
  if (failed(verifyLayout(*this, to, from.getLinearLayout().reduce(getDim()))))
    return failure();
  if (!to.getPartial())
    return verifyNotPartial(*this, from, "the operand (or the result as well)");
  if (getFn() != ReduceFn::Sum)
    return emitOpError("expected a result that is not partial: only sums may be");
  bool copies =
      llvm::any_of(from.getLinearLayout().getWarp(), [](Coord vector) { return vector.isZero(); });
  if (!from.getPartial() && copies)
    return emitOpError("expected an operand without copies in several warps for a partial result, "
                       "got layout <")
           << layoutOf(from) << ">";
  return success();
}

int64_t ReduceOp::getScratchBytes() {
  const LinearLayout &layout = getOperand().getType().getLinearLayout();
  if (getType().getPartial() || !layout.warpsSpan(getDim()))
    return 0;
  int64_t warps = 1;
  for (Coord vector : layout.getWarp())
    warps *= vector[getDim()] ? 2 : 1;
  return warps * getType().getRows() * getType().getCols() * getElementBytes(getType());
}

LogicalResult CumulateOp::verify() {
  FragmentType type = getOperand().getType();
  if (failed(verifyDim(*this, getDim())))
    return failure();
  if (failed(verifyNumbers(*this, type)))
    return failure();
  return verifyNotPartial(*this, type, "the operand");
}

int64_t CumulateOp::getScratchBytes() {
  FragmentType type = getOperand().getType();
  return countExchangedTotals(type.getLinearLayout(), getDim()) * getElementBytes(type);
}

LogicalResult ArgsortOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (failed(verifyDim(*this, getDim())) || failed(verifyNumbers(*this, from)))
    return failure();
  const LinearLayout &layout = from.getLinearLayout();
  if (int64_t extent = layout.getExtent(getDim()); !llvm::isPowerOf2_64(extent))
    return emitOpError("expected as many elements along dimension ")
           << getDim() << " as a power of two, got " << extent;
  if (!to.getElementType().isInteger(64))
    return emitOpError("expected places of type i64, got ") << to.getElementType();
  if (failed(verifyLayout(*this, to, layout)))
    return failure();
  return verifyNotPartial(*this, from, "the operand");
}

int64_t ArgsortOp::getScratchBytes() {
  FragmentType type = getOperand().getType();
  const LinearLayout &layout = type.getLinearLayout();
  if (!layout.warpsSpan(getDim()))
    return 0;
  return layout.getExtent(0) * layout.getExtent(1) * getExchangedBytes();
}

LogicalResult ReduceWarpsOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (!from.getPartial())
    return emitOpError("expected a partial operand");
  if (failed(verifyNumbers(*this, from)))
    return failure();
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError("expected operand and result of the same shape and element type, got ")
           << from << " and " << to;
  return verifyNotPartial(*this, to, "the result");
}

int64_t ReduceWarpsOp::getScratchBytes() {
  FragmentType from = getOperand().getType();
  int64_t summands = 1;
  for (Coord vector : from.getLinearLayout().getWarp())
    summands *= vector.isZero() ? 2 : 1;
  return summands * getExchangeType(from).getTotalBytes();
}

LogicalResult BroadcastOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (failed(verifyDim(*this, getDim())))
    return failure();
  if (from.getElementType() != to.getElementType() || from.getPartial() != to.getPartial())
    return emitOpError("expected operand and result of the same element type, both partial or "
                       "neither, got ")
           << from << " and " << to;
  LinearLayout expected = to.getLinearLayout().reduce(getDim());
  if (from.getLinearLayout() != expected)
    return emitOpError("expected an operand of layout <")
           << expected.str() << ">, got <" << layoutOf(from) << ">";
  if (from.getPartial() && to.getLinearLayout().warpsSpan(getDim()))
    return emitOpError("expected a partial result whose warps all hold the whole dimension");
  return success();
}

LogicalResult TransposeOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (from.getElementType() != to.getElementType() || from.getPartial() != to.getPartial())
    return emitOpError("expected operand and result of the same element type, both partial or "
                       "neither, got ")
           << from << " and " << to;
  return verifyLayout(*this, to, from.getLinearLayout().transpose());
}

LogicalResult SliceOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (getOffsets().size() != 2)
    return emitOpError("expected 2 offsets, got ") << getOffsets().size();
  if (from.getElementType() != to.getElementType() || from.getPartial() != to.getPartial())
    return emitOpError("expected operand and result of the same element type, both partial or "
                       "neither, got ")
           << from << " and " << to;
  const LinearLayout &source = from.getLinearLayout(), &part = to.getLinearLayout();
  if (source.getLane() != part.getLane() || source.getWarp() != part.getWarp())
    return emitOpError("expected the operand's lane and warp vectors in the result, got <")
           << part.str() << ">";
  Coord origin{int32_t(getOffsets()[0]), int32_t(getOffsets()[1])};
  for (int64_t i = 0; i < part.getNumRegisters(); ++i)
    if (Coord at = part.getRegister(i) + origin; !source.findRegister(at))
      return emitOpError("element [") << at.row << ", " << at.col
                                      << "] is not in the registers of the operand's first thread";
  return success();
}

LogicalResult ConvertLayoutOp::verify() {
  FragmentType from = getOperand().getType(), to = getType();
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType() ||
      from.getPartial() != to.getPartial())
    return emitOpError("expected operand and result to differ in the layout alone, got ")
           << from << " and " << to;
  if (from.getPartial() && from.getLinearLayout().getWarp() != to.getLinearLayout().getWarp())
    return emitOpError("expected the same warp vectors in operand and result, as they are partial");
  if (from.getPartial() && getScratchBytes())
    return emitOpError("expected layouts that differ by registers or shuffles alone, as the "
                       "operand is partial");
  return success();
}

OpFoldResult ConvertLayoutOp::fold(FoldAdaptor) {
  return getOperand().getType() == getType() ? OpFoldResult(getOperand()) : OpFoldResult();
}

int64_t ConvertLayoutOp::getScratchBytes() {
  FragmentType from = getOperand().getType(), to = getType();
  if (planWarpConversion(from.getLinearLayout(), to.getLinearLayout()))
    return 0;
  return getExchangeType(from).getTotalBytes();
}

/// Scratch ops without scratch memory are pure; nothing moves across the others.
template <typename OpT>
static void
scratchEffects(OpT op,
               SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (op.getScratchBytes() == 0)
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;
void ReduceOp::getEffects(Effects &effects) { scratchEffects(*this, effects); }
void IntegersOp::getEffects(Effects &effects) {
  for (OpOperand &table : getTablesMutable())
    effects.emplace_back(MemoryEffects::Read::get(), &table);
}
void CumulateOp::getEffects(Effects &effects) { scratchEffects(*this, effects); }
void ArgsortOp::getEffects(Effects &effects) { scratchEffects(*this, effects); }
void ReduceWarpsOp::getEffects(Effects &effects) { scratchEffects(*this, effects); }
void ConvertLayoutOp::getEffects(Effects &effects) { scratchEffects(*this, effects); }
