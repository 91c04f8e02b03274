//===- LayoutCosts.cpp - what layouts cost --------------------------------===//

#include "mirage/Dialect/Block/Analysis/LayoutCosts.h"

#include "mirage/Dialect/Thread/IR/Cumulation.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace mirage;
using namespace mirage::block;
using thread::Coord;
using thread::LinearLayout;

/// A load of less than 32 bits: it takes a register for two bytes, so half as many bytes are in
/// flight, or ptxas saves registers and requests one part after the other. (Decoding with 4095 keys
/// in blocks of 128 threads, whose values were loaded by elements to save an exchange between
/// warps: 64 loads for each thread instead of 8, in 32 registers.)
static constexpr double narrowLoadCost = 4;

double mirage::block::getConversionCost(const LinearLayout &from, const LinearLayout &to) {
  if (from == to)
    return 0;
  double registers = from.getNumRegisters() + to.getNumRegisters();
  if (from.getWarp() != to.getWarp())
    return getExchangeCost(registers);
  if (from.getLane() != to.getLane())
    return 2 + 2 * registers;
  return 0.01;
}

double mirage::block::getWarpSumCost(const LinearLayout &from, const LinearLayout &to) {
  double summands = 1;
  for (Coord vector : from.getWarp())
    summands *= vector.isZero() ? 2 : 1;
  return mirage::getWarpSumCost(from.getNumRegisters(), summands, to.getNumRegisters());
}

double mirage::block::getReductionCost(const LinearLayout &from, int64_t dim, bool partial) {
  LinearLayout to = from.reduce(dim);
  double cost = from.getNumRegisters();
  for (Coord vector : from.getLane())
    if (vector[dim] != 0)
      cost += 2 * to.getNumRegisters();
  if (from.warpsSpan(dim) && !partial)
    cost += exchangeCost + 2 * to.getNumRegisters();
  return cost;
}

double mirage::block::getCumulationCost(const LinearLayout &layout, int64_t dim) {
  // The totals of a thread are added up across registers, lanes and warps, and the preceding total
  // is added to the registers at the end. A thread reads the totals of all warps.
  double totals = double(layout.getNumRegisters());
  double cost = 2.0 * totals;
  for (const thread::CumulationStep &step : thread::planCumulation(layout, dim)) {
    if (step.kind == thread::CumulationStep::Registers)
      totals /= 2;
    else if (step.kind == thread::CumulationStep::Lanes)
      cost += 4 * totals;
    else
      cost += exchangeCost + 2 * totals * double(step.after / step.before);
  }
  return cost;
}

double mirage::block::getSortingCost(const LinearLayout &layout, int64_t dim) {
  // Bit b of the position is compared once for each of the bits above it, and once more.
  int64_t bits = llvm::Log2_64(layout.getExtent(dim)), lanes = 0, warps = 0;
  for (int64_t bit = 0; bit < bits; ++bit) {
    auto isBit = [&](Coord vector) { return vector[dim] == int64_t(1) << bit; };
    if (llvm::any_of(layout.getLane(), isBit))
      lanes += bits - bit;
    else if (llvm::any_of(layout.getWarp(), isBit))
      warps += bits - bit;
  }
  double registers = double(layout.getNumRegisters()), all = double(bits * (bits + 1) / 2);
  return registers * (8 * all + 4 * double(lanes + warps)) + exchangeCost * double(warps);
}

/// Elements of one vector access: neighbours along `dim`, at most 16 bytes.
static int64_t getVectorWidth(const LinearLayout &layout, int64_t elementBytes, int64_t dim) {
  return std::min<int64_t>(layout.contiguous(dim), 16 / elementBytes);
}

double mirage::block::getGlobalAccessCost(const LinearLayout &layout, int64_t elementBytes,
                                          int64_t contiguousDim, int64_t aligned) {
  int64_t width = std::min(getVectorWidth(layout, elementBytes, contiguousDim), aligned);
  std::set<std::pair<int64_t, int64_t>> sectors;
  for (int64_t lane = 0; lane < 32; ++lane) {
    Coord at = layout.getLaneOffset(lane);
    sectors.insert({at[1 - contiguousDim], at[contiguousDim] * elementBytes / 32});
  }
  double accesses = double(layout.getNumRegisters()) / width;
  return accesses * (4 + 2.0 * sectors.size());
}

double mirage::block::getStridedAccessCost(const LinearLayout &layout, int64_t elementBytes,
                                           std::array<int64_t, 2> steps) {
  std::set<int64_t> sectors;
  for (int64_t lane = 0; lane < 32; ++lane) {
    Coord at = layout.getLaneOffset(lane);
    sectors.insert((at[0] * steps[0] + at[1] * steps[1]) * elementBytes / 32);
  }
  return double(layout.getNumRegisters()) * (4 + 2.0 * sectors.size());
}

double mirage::block::getNarrowLoadCost(const LinearLayout &layout, int64_t elementBytes,
                                        int64_t contiguousDim, int64_t aligned) {
  int64_t width = std::min(getVectorWidth(layout, elementBytes, contiguousDim), aligned);
  int64_t possible = std::min(aligned, 16 / elementBytes);
  return width * elementBytes < 4 && possible > width
             ? narrowLoadCost * double(layout.getNumRegisters()) / width
             : 0;
}

double mirage::block::getSharedAccessCost(const LinearLayout &layout, int64_t elementBytes) {
  return 2.0 * layout.getNumRegisters() / getVectorWidth(layout, elementBytes, 1);
}

double mirage::block::getSpillCost(const LinearLayout &layout, int64_t elementBytes) {
  return mirage::getSpillCost(double(layout.getNumRegisters()) * elementBytes / 4);
}
