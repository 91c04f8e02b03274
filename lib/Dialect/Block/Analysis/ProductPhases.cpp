//===- ProductPhases.cpp - the order of a loop's products -----------------===//

#include "mirage/Dialect/Block/Analysis/ProductPhases.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Common/ElementTypes.h"

#include <limits>
#include <tuple>

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

bool mirage::block::isPromoted(MatmulOp matmul) {
  thread::SharedType rhs = getShared(matmul.getRhs());
  return rhs && isEightBitFloat(rhs.getElementType());
}

bool mirage::block::isOnlySummed(MatmulOp matmul) {
  if (!matmul->hasOneUse() || isPromoted(matmul))
    return false;
  OpOperand &use = *matmul->getUses().begin();
  auto accumulate = dyn_cast<AccumulateOp>(use.getOwner());
  return accumulate && accumulate->getBlock() == matmul->getBlock() &&
         use.getOperandNumber() < accumulate.getValues().size() &&
         accumulate.getFn(use.getOperandNumber()) == AccumulateFn::Sum;
}

Value mirage::block::getRescale(MatmulOp matmul) {
  if (!isOnlySummed(matmul))
    return {};
  OpOperand &use = *matmul->getUses().begin();
  return cast<AccumulateOp>(use.getOwner()).getRescale(use.getOperandNumber());
}

ProductPhases::ProductPhases(LoopOp loop) : loop(loop) {
  findPhases();
  findRings();
}

void ProductPhases::findPhases() {
  Block &body = loop.getBody().front();
  auto getKnown = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == &body ? phases.lookup(op) : 0;
  };
  for (Operation &op : body.without_terminator()) {
    int64_t phase = 0;
    for (Value operand : op.getOperands())
      phase = std::max(phase, getKnown(operand));
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      // The sum is rescaled before the product is added to it.
      if (Value rescale = getRescale(matmul))
        phase = std::max(phase, getKnown(rescale));
      products.resize(std::max<size_t>(products.size(), ++phase));
      products[phase - 1].push_back(matmul);
    }
    phases[&op] = phase;
  }
  if (isScheduled(loop))
    return placeFreeOps();
  // Products of the last of several phases may be deferred to the next step, together with all
  // later ops that depend on them.
  int64_t latest = getCount() > 1 ? getCount() - 1 : getCount();
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (phases[&op] > 0)
      continue;
    int64_t phase = latest;
    for (Operation *user : op.getUsers())
      if (auto matmul = dyn_cast<MatmulOp>(user))
        phase = std::min(phase, phases[user] - 1);
      else if (user != body.getTerminator())
        phase = std::min(phase, phases[user]);
    phases[&op] = phase;
  }
}

/// In a scheduled loop, an op that depends on no product belongs to the phase of the products
/// before it. The ops are in their order.
void ProductPhases::placeFreeOps() {
  int64_t phase = 0;
  bool waited = true;
  for (Operation &op : loop.getBody().front().without_terminator()) {
    int64_t &own = phases[&op];
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (!block::isDeferred(matmul) && own > phase) {
        phase = own;
        waited = false;
      }
      continue;
    }
    waited |= own == phase;
    if (!waited && op.hasAttr(kOrder))
      beside.insert(&op);
    own = std::max(own, phase);
  }
}

void ProductPhases::findRings() {
  for (Value tile : getStagedTiles(loop)) {
    RingLoads found;
    found.first = std::numeric_limits<int64_t>::max();
    auto visit = [&](auto &self, Value value) -> void {
      for (Operation *user : value.getUsers()) {
        if (user->getNumResults() == 1 && !isa<MatmulOp>(user) && getShared(user->getResult(0))) {
          self(self, user->getResult(0));
          continue;
        }
        int64_t phase = getPhase(user);
        found.first = std::min(found.first, phase);
        found.last = std::max(found.last, phase);
        (isa<MatmulOp>(user) ? found.byProducts : found.byOps) = true;
      }
    };
    visit(visit, tile);
    auto same = llvm::find_if(rings, [&](const RingLoads &ring) {
      return std::tie(ring.first, ring.last, ring.byProducts, ring.byOps) ==
             std::tie(found.first, found.last, found.byProducts, found.byOps);
    });
    if (same == rings.end())
      same = rings.insert(rings.end(), found);
    same->loads.push_back(tile.getDefiningOp());
  }
  llvm::stable_sort(rings,
                    [](const RingLoads &a, const RingLoads &b) { return a.first < b.first; });
}

bool ProductPhases::isDeferred() const {
  return getCount() > 0 &&
         llvm::any_of(products.back(), [](MatmulOp matmul) { return block::isDeferred(matmul); });
}

std::optional<std::string> ProductPhases::whyNotDeferred() {
  if (getCount() < 1 || (getCount() == 1 && getHeldFactors().empty()))
    return "products that depend on other products of the step, or on factors computed in it";
  if (getCount() == 1 && llvm::any_of(products.back(), getRescale))
    return "sums that are not rescaled before them";
  if (!llvm::all_of(products.back(), isOnlySummed))
    return "last products that the loop does nothing with but sum them";
  if (loop.getStages().value_or(1) < 2)
    return "at least 2 stages";
  for (const RingLoads &ring : rings)
    if (getCount() > 1 && ring.last == getCount() && (ring.first < getCount() || ring.byOps))
      return "tiles that nothing reads but the last products";
  return std::nullopt;
}

SmallVector<Value> ProductPhases::getHeldFactors() const {
  llvm::SetVector<Value> held;
  if (getCount() > 0)
    for (MatmulOp matmul : products.back())
      if (!getShared(matmul.getLhs()) &&
          matmul.getLhs().getDefiningOp()->getBlock() == matmul->getBlock())
        held.insert(matmul.getLhs());
  return held.takeVector();
}
