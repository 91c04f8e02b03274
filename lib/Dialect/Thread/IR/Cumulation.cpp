//===- Cumulation.cpp - the steps of sums so far --------------------------===//

#include "mirage/Dialect/Thread/IR/Cumulation.h"

#include "llvm/ADT/STLExtras.h"

using namespace mirage::thread;

int64_t CumulationStep::countTotals(const LinearLayout &layout, int64_t dim) const {
  if (kind != Warps)
    return 0;
  int64_t parts = after / before, totals = layout.getExtent(dim) / after;
  return parts * totals * layout.getExtent(1 - dim);
}

llvm::SmallVector<CumulationStep> mirage::thread::planCumulation(const LinearLayout &layout,
                                                                 int64_t dim) {
  auto find = [&](llvm::ArrayRef<Coord> basis, int64_t vector) {
    auto it = llvm::find_if(basis, [&](Coord at) { return at[dim] == vector; });
    return it == basis.end() ? -1 : it - basis.begin();
  };
  llvm::SmallVector<CumulationStep> steps;
  for (int64_t vector = 1; vector < layout.getTileExtent(dim); vector *= 2) {
    if (int64_t lane = find(layout.getLane(), vector); lane >= 0)
      steps.push_back({CumulationStep::Lanes, lane, vector, 2 * vector});
    else if (find(layout.getReg(), vector) >= 0)
      steps.push_back({CumulationStep::Registers, -1, vector, 2 * vector});
    else if (!steps.empty() && steps.back().kind == CumulationStep::Warps)
      steps.back().after = 2 * vector;
    else
      steps.push_back({CumulationStep::Warps, -1, vector, 2 * vector});
  }
  return steps;
}

int64_t mirage::thread::countExchangedTotals(const LinearLayout &layout, int64_t dim) {
  int64_t totals = 0;
  for (const CumulationStep &step : planCumulation(layout, dim))
    totals = std::max(totals, step.countTotals(layout, dim));
  return totals;
}
