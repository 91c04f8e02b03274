//===- LateOrder.cpp - ops where their results are needed -----------------===//

#include "LateOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mirage;

bool mirage::isScalarArithmetic(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  if (auto call = dyn_cast<LLVM::CallIntrinsicOp>(op))
    return call.getIntrin().starts_with("llvm.nvvm.ex2.approx") ||
           call.getIntrin().starts_with("llvm.fma.");
  return isa<arith::ArithDialect, vector::VectorDialect>(op->getDialect()) &&
         isMemoryEffectFree(op);
}

int64_t mirage::countWords(Value value) {
  if (auto type = dyn_cast<VectorType>(value.getType()))
    return llvm::divideCeil(type.getNumElements() * type.getElementTypeBitWidth(), 32);
  return value.getType().isF32() ? 1 : 0;
}

/// The kernel's parameter into which a pointer points; null if it is not known.
static BlockArgument getParameter(Value pointer) {
  while (auto gep = pointer.getDefiningOp<LLVM::GEPOp>())
    pointer = gep.getBase();
  // The start of a tensor takes the place of elements beyond its end.
  if (auto select = pointer.getDefiningOp<arith::SelectOp>()) {
    BlockArgument tensor = getParameter(select.getTrueValue());
    return tensor == getParameter(select.getFalseValue()) ? tensor : BlockArgument();
  }
  auto argument = dyn_cast<BlockArgument>(pointer);
  return argument && isa<gpu::GPUFuncOp>(argument.getOwner()->getParentOp()) ? argument
                                                                             : BlockArgument();
}

/// Whether only loads and copies to shared memory use the pointer, and those computed from it.
static bool isOnlyRead(Value pointer) {
  return llvm::all_of(pointer.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<LLVM::GEPOp, arith::SelectOp>(user))
      return isOnlyRead(user->getResult(0));
    if (auto copy = dyn_cast<NVVM::CpAsyncOp>(user))
      return use.get() == copy.getSrc();
    return isa<LLVM::LoadOp>(user);
  });
}

/// Whether the op loads from a tensor that the kernel only reads, so that it may come later.
static bool readsInput(Operation *op) {
  auto load = dyn_cast<LLVM::LoadOp>(op);
  BlockArgument tensor = load ? getParameter(load.getAddr()) : BlockArgument();
  return tensor && !load.getVolatile_() && isOnlyRead(tensor);
}

static void forEachOperand(Operation *op, function_ref<void(Value)> visit) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      visit(operand);
  });
}

/// The ops from which those before and including `last` compute anything, except for loads.
static llvm::SetVector<Operation *> getNeeded(Block &block, Operation *last) {
  llvm::SetVector<Operation *> needed;
  for (Operation &op : llvm::make_range(block.begin(), std::next(last->getIterator())))
    if (!isScalarArithmetic(&op) && !isa<LLVM::GEPOp>(op) && !readsInput(&op))
      needed.insert(&op);
  for (size_t i = 0; i < needed.size(); ++i)
    forEachOperand(needed[i], [&](Value operand) {
      if (Operation *op = operand.getDefiningOp())
        needed.insert(op);
    });
  return needed;
}

/// Pairs of f32 values rounded to 16 bits.
static bool isRounding(Operation *op) {
  auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
  return call && call.getIntrin().starts_with("llvm.nvvm.ff2");
}

void LateOrder::findLate(Operation *barrier) {
  last = barrier;
  llvm::SetVector<Operation *> needed = getNeeded(block, barrier);
  for (Operation &op : block)
    if (readsInput(&op) && !needed.contains(&op))
      places[&op] = 0;
  Ops seen;
  for (auto [number, op] : llvm::enumerate(block)) {
    if (!isScalarArithmetic(&op) && !isa<LLVM::GEPOp>(op)) // which stay
      numbers[&op] = number;
    if (!isMovable(&op))
      forEachOperand(&op, [&](Value operand) { list(operand, seen); });
  }
  places.clear();
  for (auto [place, op] : llvm::enumerate(late))
    places[op] = place;
  for (Operation *op : late)
    earliest[op] = getEarliest(op);
  if (hasLate())
    keepOrderOfAccesses();
}

/// Appends the late loads from which a value is computed.
void LateOrder::list(Value value, Ops &seen) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block || !isMovable(op) || !seen.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    list(operand, seen);
  if (isLate(op))
    late.push_back(op);
}

/// The number of the op behind which the op may be: what it needs; if the kernel waits for other
/// ones, a load stays behind everything that was before it.
size_t LateOrder::getEarliest(Operation *op) const {
  auto load = dyn_cast<LLVM::LoadOp>(op);
  BlockArgument tensor = load ? getParameter(load.getAddr()) : BlockArgument();
  bool isFree =
      !tensor || cast<gpu::GPUFuncOp>(block.getParentOp())
                     .getArgAttr(tensor.getArgNumber(), LLVM::LLVMDialect::getNoAliasAttrName());
  if (!isMovable(op) || !isFree)
    return numbers.lookup(op);
  size_t number = 0;
  for (Value operand : op->getOperands())
    if (Operation *needed = operand.getDefiningOp(); needed && needed->getBlock() == &block)
      number = std::max(number, getEarliest(needed));
  return number;
}

void LateOrder::keepOrderOfAccesses() {
  auto kernel = cast<gpu::GPUFuncOp>(block.getParentOp());
  auto forget = [&](Value pointer) {
    if (BlockArgument tensor = getParameter(pointer))
      kernel.removeArgAttr(tensor.getArgNumber(), LLVM::LLVMDialect::getNoAliasAttrName());
  };
  for (Operation *op : late)
    forget(cast<LLVM::LoadOp>(op).getAddr());
  kernel.walk([&](LLVM::StoreOp store) { forget(store.getAddr()); });
}

bool LateOrder::isMovable(Operation *op) const {
  return isScalarArithmetic(op) || isa<LLVM::GEPOp>(op) || isLate(op) ||
         (hasLate() && isRounding(op));
}

void LateOrder::apply(int64_t words) {
  ahead = words;
  // Nothing would place ops without users after their operands.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if ((isScalarArithmetic(&op) || isa<LLVM::GEPOp>(op)) && op.use_empty())
      op.erase();
  SmallVector<Operation *> fixed;
  waiting.clear();
  for (Operation &op : block)
    if (isMovable(&op))
      waiting.insert(&op);
    else
      fixed.push_back(&op);
  for (Operation *op : fixed) {
    // If there are registers, the first loads do not wait for the barrier.
    if (op == last && hasLate() && ahead == kMostAhead)
      moveLate(0, op);
    forEachOperand(op, [&](Value operand) { moveBefore(operand, op); });
  }
}

/// Moves what computes a value before `place`; if that is a late load, the next ones, too.
void LateOrder::moveBefore(Value value, Operation *place) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  if (isLate(op))
    moveLate(places.lookup(op), place);
  moveAlone(op, place);
}

void LateOrder::moveLate(size_t first, Operation *place) {
  int64_t words = 0;
  for (Operation *op : ArrayRef(late).drop_front(first)) {
    words += countWords(op->getResult(0));
    if (words > ahead || earliest.lookup(op) >= numbers.lookup(place))
      return;
    moveAlone(op, place);
  }
}

void LateOrder::moveAlone(Operation *op, Operation *place) {
  if (!waiting.erase(op))
    return;
  for (Value operand : op->getOperands())
    moveBefore(operand, place);
  op->moveBefore(place);
}
