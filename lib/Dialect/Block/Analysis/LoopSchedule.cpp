//===- LoopSchedule.cpp - stages and order of a loop's ops ----------------===//

#include "mirage/Dialect/Block/Analysis/LoopSchedule.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/ProductPhases.h"
#include "mirage/Dialect/Block/Analysis/RegisterEstimate.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

bool mirage::block::isDeferred(MatmulOp matmul) {
  auto stage = matmul->getAttrOfType<IntegerAttr>(kStage);
  return stage && stage.getInt() > 0;
}

bool mirage::block::isScheduled(LoopOp loop) {
  return llvm::any_of(loop.getBody().front(),
                      [](Operation &op) { return op.hasAttr(kStage) || op.hasAttr(kOrder); });
}

/// Loads, tiles in shared memory and numbers take no place: whoever reads them finds them.
static bool takesPlace(Operation &op) {
  if (op.getNumResults() != 1 || isa<ConstantOp>(op))
    return false;
  auto tile = dyn_cast<TileType>(op.getResult(0).getType());
  return tile && !getShared(op.getResult(0));
}

/// Clocks for which a multiprocessor's tensor cores, or its units for one group of warps, are busy.
static int64_t getClocks(Operation *op) {
  // Multiplications of 16-bit factors in a clock; 8-bit ones are twice as fast, TF32 half.
  constexpr int64_t products = 2048;
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    TileType lhs = getTile(matmul.getLhs()), result = getTile(matmul.getResult());
    int64_t bits = lhs.getElementType().getIntOrFloatBitWidth();
    return llvm::divideCeil(result.getNumElements() * lhs.getShape().back() * bits / 16, products);
  }
  auto tile = dyn_cast<TileOpInterface>(op);
  thread::FragmentType type = getFragment(op->getResult(0));
  return tile && type ? tile.getElementWork() * type.getNumRegisters() : 0;
}

/// Whether the last products of a plain loop stay in flight at the end of a step.
static bool staysInFlight(LoopOp loop, const ProductPhases &phases) {
  ArrayRef<MatmulOp> last = phases.getProducts(phases.getCount());
  return loop.getStages().value_or(1) > 1 && llvm::all_of(last, isOnlySummed) &&
         (phases.getCount() > 1 ||
          llvm::all_of(last, [](MatmulOp product) { return bool(getShared(product.getLhs())); }));
}

LoopBody::LoopBody(LoopOp loop, int64_t groups, int64_t registers) {
  problem.groups = groups;
  problem.registers = registers;
  ProductPhases phases(loop);
  Block &body = loop.getBody().front();
  DenseMap<Operation *, size_t> numbers;
  auto add = [&](ArrayRef<Operation *> together, ModuloProblem::Op op) {
    for (Operation *member : together) {
      numbers[member] = ops.size();
      op.clocks += getClocks(member);
      auto matmul = dyn_cast<MatmulOp>(member);
      // The sums of a product are there all the time.
      if (!matmul || !isOnlySummed(matmul))
        op.registers += getTileRegisters(member->getResult(0));
    }
    ops.emplace_back(together);
    problem.ops.push_back(op);
  };
  for (int64_t phase = 0; phase <= phases.getCount(); ++phase) {
    if (phase > 0) {
      bool isLast = phase == phases.getCount();
      ModuloProblem::Op op{/*isProduct=*/true};
      op.lastStage = isLast && !phases.whyNotDeferred() ? 1 : 0;
      op.inPlace = false;
      op.isWaited = isLast && !staysInFlight(loop, phases);
      SmallVector<Operation *> products(phases.getProducts(phase).begin(),
                                        phases.getProducts(phase).end());
      add(products, op);
    }
    for (Operation &op : body.without_terminator())
      if (phases.getPhase(&op) == phase && !isa<MatmulOp>(op) && takesPlace(op))
        add({&op}, {});
  }
  auto addEdge = [&](Value from, size_t to, int64_t distance) {
    if (Operation *made = from.getDefiningOp(); made && numbers.contains(made))
      problem.edges.push_back({numbers.lookup(made), to, distance});
  };
  for (size_t number = 0; number < ops.size(); ++number)
    for (Operation *op : ops[number]) {
      for (Value operand : op->getOperands())
        addEdge(operand, number, 0);
      auto matmul = dyn_cast<MatmulOp>(op);
      if (!matmul)
        continue;
      if (Value rescale = getRescale(matmul))
        addEdge(rescale, number, 0);
      // The next step's factor takes the registers of this one's.
      if (Operation *factor = matmul.getLhs().getDefiningOp();
          numbers.contains(factor) && !isa<MatmulOp>(factor))
        problem.edges.push_back({number, numbers.lookup(factor), 1});
    }
  for (Operation &op : body.without_terminator())
    isSchedulable &= op.getNumRegions() == 0 &&
                     (numbers.contains(&op) || llvm::none_of(op.getOperands(), [&](Value operand) {
                        return numbers.contains(operand.getDefiningOp());
                      }));
}

int64_t LoopBody::getPlainRegisters() const {
  ModuloProblem plain = problem;
  ModuloSchedule schedule;
  for (size_t number = 0; number < ops.size(); ++number) {
    schedule.stages.push_back(0);
    schedule.order.push_back(number);
    plain.ops[number].isProduct = false;
  }
  llvm::erase_if(plain.edges, [](const ModuloProblem::Edge &edge) { return edge.distance > 0; });
  return plain.getRegisters(schedule);
}

void LoopBody::write(const ModuloSchedule &schedule) const {
  for (auto [place, number] : llvm::enumerate(schedule.order))
    for (Operation *op : ops[number]) {
      Builder builder(op->getContext());
      op->setAttr(kStage, builder.getI64IntegerAttr(schedule.stages[number]));
      op->setAttr(kOrder, builder.getI64IntegerAttr(int64_t(place)));
    }
}

FailureOr<ModuloSchedule> LoopBody::read() const {
  ModuloSchedule schedule;
  SmallVector<int64_t> places;
  for (ArrayRef<Operation *> together : ops) {
    for (Operation *op : together) {
      auto stage = op->getAttrOfType<IntegerAttr>(kStage);
      auto order = op->getAttrOfType<IntegerAttr>(kOrder);
      if (!stage || !order)
        return op->emitOpError("expected integers '")
               << kStage << "' and '" << kOrder << "', as other ops of the loop have";
      if (op == together.front()) {
        schedule.stages.push_back(stage.getInt());
        places.push_back(order.getInt());
      } else if (schedule.stages.back() != stage.getInt() || places.back() != order.getInt()) {
        return op->emitOpError("expected stage ")
               << schedule.stages.back() << " and place " << places.back()
               << ", as the products have with which it is started, got " << stage.getInt()
               << " and " << order.getInt();
      }
    }
  }
  for (size_t number = 0; number < ops.size(); ++number)
    schedule.order.push_back(number);
  llvm::stable_sort(schedule.order, [&](size_t a, size_t b) { return places[a] < places[b]; });
  for (size_t i = 1; i < schedule.order.size(); ++i)
    if (places[schedule.order[i - 1]] == places[schedule.order[i]])
      return ops[schedule.order[i]].front()->emitOpError("expected a place of its own, got ")
             << places[schedule.order[i]] << " again";
  if (std::optional<ModuloError> wrong = problem.verify(schedule))
    return ops[wrong->op].front()->emitOpError("cannot be scheduled so: ") << wrong->message;
  return schedule;
}

LogicalResult mirage::block::applySchedule(LoopOp loop, int64_t groups,
                                           std::optional<int64_t> registers) {
  LoopBody body(loop, groups, registers.value_or(std::numeric_limits<int64_t>::max()));
  if (body.ops.empty() || !body.isSchedulable)
    return loop.emitOpError("expected ops without bodies of their own to be scheduled");
  FailureOr<ModuloSchedule> schedule = body.read();
  if (failed(schedule))
    return failure();
  Operation *end = loop.getBody().front().getTerminator();
  for (int64_t stage : {0, 1})
    for (size_t number : schedule->order)
      if (schedule->stages[number] == stage)
        for (Operation *op : body.ops[number])
          op->moveBefore(end);
  return success();
}
