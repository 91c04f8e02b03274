//===- MmaPlan.cpp - a matrix product as tensor-core instructions ---------===//

#include "mirage/Dialect/Thread/IR/MmaPlan.h"

#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace mirage::thread;

namespace {
/// One bit of an instruction's m, n or k, at its places in the two operands that have it.
struct SharedBit {
  const char *name;
  Coord first;
  int64_t firstAxis;
  Coord second;
  int64_t secondAxis;
};
} // namespace

static bool isAlong(Coord vector, int64_t axis) {
  return vector[axis] != 0 && vector[1 - axis] == 0;
}

/// Warp bit by warp bit: m of lhs and acc, n of rhs and acc, k of lhs and rhs
/// agree, and summands are counted once.
static std::string checkWarps(FragmentType lhs, FragmentType rhs, FragmentType acc) {
  const LinearLayout &a = lhs.getLinearLayout(), &b = rhs.getLinearLayout(),
                     &c = acc.getLinearLayout();
  if (a.getWarp().size() != b.getWarp().size() || a.getWarp().size() != c.getWarp().size())
    return llvm::formatv("expected operands of the same number of warps, got {0}, {1} and {2}",
                         a.getNumWarps(), b.getNumWarps(), c.getNumWarps());
  if (lhs.getPartial() && rhs.getPartial())
    return "expected at most one partial factor";
  bool splitsK = a.warpsSpan(1);
  bool partial = splitsK || lhs.getPartial() || rhs.getPartial();
  if (partial != acc.getPartial())
    return llvm::formatv("expected {0} accumulator, as the warps {1}",
                         partial ? "a partial" : "no partial",
                         partial ? "hold summands" : "hold whole sums");
  for (size_t i = 0; i < a.getWarp().size(); ++i) {
    Coord wa = a.getWarp()[i], wb = b.getWarp()[i], wc = c.getWarp()[i];
    if (wa.row != wc.row || wb.col != wc.col || wa.col != wb.row)
      return llvm::formatv("warp vectors {0} do not fit together: lhs [{1}, {2}], rhs [{3}, {4}], "
                           "acc [{5}, {6}]",
                           i, wa.row, wa.col, wb.row, wb.col, wc.row, wc.col);
    bool summands =
        wa.col != 0 || (lhs.getPartial() && wa.isZero()) || (rhs.getPartial() && wb.isZero());
    if (partial && wc.isZero() != summands)
      return llvm::formatv("warp vector {0}: expected {1} in the partial accumulator, got [{2}, "
                           "{3}]",
                           i,
                           summands ? "zero"
                                    : "a vector that is not zero (there would be "
                                      "copies among the summands)",
                           wc.row, wc.col);
  }
  return "";
}

static std::string checkTypes(FragmentType lhs, FragmentType rhs, FragmentType acc) {
  Type element = lhs.getElementType();
  if (element != rhs.getElementType() || !(element.isF16() || element.isBF16() || element.isF32()))
    return "expected factors of the same element type, f16, bf16 or f32";
  if (!acc.getElementType().isF32())
    return "expected an accumulator of f32";
  if (lhs.getRows() != acc.getRows() || rhs.getCols() != acc.getCols() ||
      lhs.getCols() != rhs.getRows())
    return llvm::formatv("shapes do not fit: {0}x{1} times {2}x{3} into {4}x{5}", lhs.getRows(),
                         lhs.getCols(), rhs.getRows(), rhs.getCols(), acc.getRows(), acc.getCols());
  return "";
}

static std::string checkInstruction(const LinearLayout &a, const LinearLayout &b,
                                    const LinearLayout &c, const MmaPlan &plan, bool tf32) {
  size_t needA = tf32 ? 2 : 3, needB = tf32 ? 1 : 2;
  if (a.getReg().size() < needA || b.getReg().size() < needB || c.getReg().size() < 2)
    return llvm::formatv("expected at least {0}, {1} and 2 register vectors, got {2}, {3} and {4}",
                         needA, needB, a.getReg().size(), b.getReg().size(), c.getReg().size());
  SmallVector<SharedBit> bits;
  auto add = [&](const char *name, Coord first, int64_t firstAxis, Coord second,
                 int64_t secondAxis) {
    bits.push_back({name, first, firstAxis, second, secondAxis});
  };
  ArrayRef<Coord> ra = a.getReg(), la = a.getLane(), rb = b.getReg(), lb = b.getLane(),
                  rc = c.getReg(), lc = c.getLane();
  if (tf32) {
    add("k2", ra[1], 1, rb[0], 0);
    add("k0", la[0], 1, lb[0], 0);
    add("k1", la[1], 1, lb[1], 0);
  } else {
    add("k0", ra[0], 1, rb[0], 0);
    add("k1", la[0], 1, lb[0], 0);
    add("k2", la[1], 1, lb[1], 0);
    add("k3", ra[2], 1, rb[1], 0);
  }
  add("m0", la[2], 0, lc[2], 0);
  add("m1", la[3], 0, lc[3], 0);
  add("m2", la[4], 0, lc[4], 0);
  add("m3", ra[tf32 ? 0 : 1], 0, rc[1], 0);
  add("n0", lb[2], 1, rc[0], 1);
  add("n1", lb[3], 1, lc[0], 1);
  add("n2", lb[4], 1, lc[1], 1);
  for (SharedBit &bit : bits)
    if (!isAlong(bit.first, bit.firstAxis) || !isAlong(bit.second, bit.secondAxis) ||
        bit.first[bit.firstAxis] != bit.second[bit.secondAxis])
      return llvm::formatv("the two operands with {0} of the instruction place it differently or "
                           "not at all: [{1}, {2}] and [{3}, {4}]",
                           bit.name, bit.first.row, bit.first.col, bit.second.row, bit.second.col);
  return "";
}

FailureOr<MmaPlan> mirage::thread::planMma(FragmentType lhs, FragmentType rhs, FragmentType acc,
                                           std::string &message) {
  bool tf32 = lhs.getElementType().isF32();
  const LinearLayout &a = lhs.getLinearLayout(), &b = rhs.getLinearLayout(),
                     &c = acc.getLinearLayout();
  MmaPlan plan;
  plan.lhsRegisters = tf32 ? 4 : 8;
  plan.rhsRegisters = tf32 ? 2 : 4;
  for (auto check : {checkTypes, checkWarps})
    if (message = check(lhs, rhs, acc); !message.empty())
      return failure();
  if (message = checkInstruction(a, b, c, plan, tf32); !message.empty())
    return failure();

  // Position of each instruction tile -> its number, by K for lhs.
  std::map<int32_t, std::vector<std::pair<int32_t, int64_t>>> lhsByRow;
  for (int64_t i = 0; i < a.getNumRegisters() / plan.lhsRegisters; ++i) {
    Coord at = a.getRegister(i * plan.lhsRegisters);
    lhsByRow[at.row].push_back({at.col, i});
  }
  std::map<Coord, int64_t> rhsTiles;
  for (int64_t i = 0; i < b.getNumRegisters() / plan.rhsRegisters; ++i)
    rhsTiles[b.getRegister(i * plan.rhsRegisters)] = i;

  // K outermost: consecutive instructions have different accumulators.
  std::vector<std::pair<int32_t, MmaPlan::Step>> ordered;
  int64_t numAcc = c.getNumRegisters() / plan.accRegisters;
  for (int64_t i = 0; i < numAcc; ++i) {
    Coord at = c.getRegister(i * plan.accRegisters);
    for (auto [k, lhsTile] : lhsByRow[at.row]) {
      auto rhsTile = rhsTiles.find(Coord{k, at.col});
      if (rhsTile == rhsTiles.end()) {
        message = llvm::formatv("no thread of a warp that holds lhs column {0} and acc column {1} "
                                "holds rhs element [{0}, {1}]",
                                k, at.col);
        return failure();
      }
      ordered.push_back({k, {lhsTile, rhsTile->second, i}});
    }
  }
  // Every lhs tile meets every rhs tile of the same K exactly once.
  int64_t warpsK = 1;
  for (Coord vector : a.getWarp())
    warpsK *= vector.col ? 2 : 1;
  int64_t numK = lhs.getCols() / warpsK / (tf32 ? 8 : 16);
  if (int64_t(ordered.size()) != numAcc * numK) {
    message = llvm::formatv("expected {0} products of instruction size in a warp, found {1}",
                            numAcc * numK, ordered.size());
    return failure();
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](auto &x, auto &y) { return x.first < y.first; });
  for (auto &[k, step] : ordered)
    plan.steps.push_back(step);
  return plan;
}
