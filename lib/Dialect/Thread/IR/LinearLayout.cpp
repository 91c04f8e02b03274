//===- LinearLayout.cpp - which element each register holds ---------------===//

#include "mirage/Dialect/Thread/IR/LinearLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mirage::thread;
using llvm::ArrayRef;

LinearLayout::LinearLayout(Basis reg, Basis lane, Basis warp, std::array<int32_t, 2> repeat)
    : reg(std::move(reg)), lane(std::move(lane)), warp(std::move(warp)), repeat(repeat) {}

Coord LinearLayout::combine(ArrayRef<Coord> basis, int64_t index) {
  Coord result;
  for (auto [bit, vector] : llvm::enumerate(basis))
    if ((index >> bit) & 1)
      result = result ^ vector;
  return result;
}

int64_t LinearLayout::getTileExtent(int64_t dim) const {
  int32_t all = 0;
  for (ArrayRef<Coord> basis : {getReg(), getLane(), getWarp()})
    for (Coord vector : basis)
      all |= vector[dim];
  return int64_t(all) + 1;
}

int64_t LinearLayout::getNumRegisters() const {
  return (int64_t(1) << reg.size()) * repeat[0] * repeat[1];
}

Coord LinearLayout::getRegister(int64_t index) const {
  int64_t tileRegisters = int64_t(1) << reg.size();
  int64_t copy = index / tileRegisters;
  Coord origin{int32_t(copy / repeat[1] * getTileExtent(0)),
               int32_t(copy % repeat[1] * getTileExtent(1))};
  return origin + combine(reg, index % tileRegisters);
}

/// The index whose bits select the vectors that `coord` consists of; clears them
/// in `coord`.
static int64_t takeBits(ArrayRef<Coord> basis, Coord &coord) {
  int64_t index = 0;
  for (auto [bit, vector] : llvm::enumerate(basis)) {
    if ((coord.row & vector.row) || (coord.col & vector.col)) {
      index |= int64_t(1) << bit;
      coord = coord ^ vector;
    }
  }
  return index;
}

std::array<int64_t, 3> LinearLayout::invert(Coord coord) const {
  int32_t rows = getTileExtent(0), cols = getTileExtent(1);
  int64_t copy = int64_t(coord.row / rows) * repeat[1] + coord.col / cols;
  Coord inTile{coord.row % rows, coord.col % cols};
  int64_t regIndex = (copy << reg.size()) + takeBits(reg, inTile);
  int64_t laneIndex = takeBits(lane, inTile);
  return {regIndex, laneIndex, takeBits(warp, inTile)};
}

std::optional<int64_t> LinearLayout::findRegister(Coord coord) const {
  if (coord.row < 0 || coord.col < 0 || coord.row >= getExtent(0) || coord.col >= getExtent(1))
    return std::nullopt;
  auto [regIndex, laneIndex, warpIndex] = invert(coord);
  if (laneIndex != 0 || warpIndex != 0)
    return std::nullopt;
  return regIndex;
}

LinearLayout LinearLayout::reduce(int64_t dim) const {
  auto drop = [dim](Coord vector) {
    return dim == 0 ? Coord{0, vector.col} : Coord{vector.row, 0};
  };
  LinearLayout result;
  for (Coord vector : reg)
    if (Coord kept = drop(vector); !kept.isZero())
      result.reg.push_back(kept);
  result.lane = llvm::map_to_vector<12>(lane, drop);
  result.warp = llvm::map_to_vector<12>(warp, drop);
  result.repeat = repeat;
  result.repeat[dim] = 1;
  return result;
}

LinearLayout LinearLayout::transpose() const {
  auto swap = [](Coord vector) { return Coord{vector.col, vector.row}; };
  return LinearLayout(llvm::map_to_vector<12>(reg, swap), llvm::map_to_vector<12>(lane, swap),
                      llvm::map_to_vector<12>(warp, swap), {repeat[1], repeat[0]});
}

int64_t LinearLayout::transposeRegister(int64_t index) const {
  int64_t copy = index >> reg.size();
  int64_t transposed = (copy % repeat[1]) * repeat[0] + copy / repeat[1];
  return (transposed << reg.size()) | (index & ((int64_t(1) << reg.size()) - 1));
}

int64_t LinearLayout::contiguous(int64_t dim) const {
  int64_t run = 1;
  for (Coord vector : reg) {
    if (vector != (dim == 0 ? Coord{int32_t(run), 0} : Coord{0, int32_t(run)}))
      break;
    run *= 2;
  }
  return run;
}

bool LinearLayout::warpsSpan(int64_t dim) const {
  return llvm::any_of(warp, [dim](Coord vector) { return vector[dim] != 0; });
}

bool LinearLayout::operator==(const LinearLayout &other) const {
  return reg == other.reg && lane == other.lane && warp == other.warp && repeat == other.repeat;
}

std::string LinearLayout::check() const {
  std::string message;
  llvm::raw_string_ostream os(message);
  if (lane.size() != 5) {
    os << "expected 5 lane vectors, got " << lane.size();
    return message;
  }
  if (repeat[0] < 1 || repeat[1] < 1) {
    os << "expected positive repeat counts, got [" << repeat[0] << ", " << repeat[1] << "]";
    return message;
  }
  std::set<Coord> seen;
  for (ArrayRef<Coord> basis : {getReg(), getLane(), getWarp()}) {
    for (Coord vector : basis) {
      if (vector.isZero() && basis.data() != reg.data())
        continue;
      bool single = (vector.row == 0 && vector.col > 0 && llvm::isPowerOf2_32(vector.col)) ||
                    (vector.col == 0 && vector.row > 0 && llvm::isPowerOf2_32(vector.row));
      if (!single) {
        os << "expected vectors that are one bit of one dimension, got [" << vector.row << ", "
           << vector.col << "]";
        return message;
      }
      if (!seen.insert(vector).second) {
        os << "vector [" << vector.row << ", " << vector.col << "] occurs twice";
        return message;
      }
    }
  }
  // Distinct powers of two that cover an extent are all its bits.
  int64_t size = getTileExtent(0) * getTileExtent(1);
  if (size != int64_t(1) << seen.size())
    os << "the vectors do not reach every element of their " << getTileExtent(0) << "x"
       << getTileExtent(1) << " tile";
  return message;
}

static void printBasis(llvm::raw_ostream &os, ArrayRef<Coord> basis) {
  os << "[";
  llvm::interleaveComma(
      basis, os, [&](Coord vector) { os << "[" << vector.row << ", " << vector.col << "]"; });
  os << "]";
}

void LinearLayout::print(llvm::raw_ostream &os) const {
  os << "reg = ";
  printBasis(os, reg);
  os << ", lane = ";
  printBasis(os, lane);
  if (!warp.empty()) {
    os << ", warp = ";
    printBasis(os, warp);
  }
  if (repeat[0] != 1 || repeat[1] != 1)
    os << ", repeat = [" << repeat[0] << ", " << repeat[1] << "]";
}

std::string LinearLayout::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return text;
}

namespace mirage::thread {
llvm::hash_code hash_value(const LinearLayout &layout) {
  auto range = [](ArrayRef<Coord> basis) {
    return llvm::hash_combine_range(basis.begin(), basis.end());
  };
  return llvm::hash_combine(range(layout.reg), range(layout.lane), range(layout.warp),
                            layout.repeat[0], layout.repeat[1]);
}
} // namespace mirage::thread
