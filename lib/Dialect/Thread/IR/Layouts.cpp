//===- Layouts.cpp - the layouts that code generation uses ----------------===//

#include "mirage/Dialect/Thread/IR/Layouts.h"

#include "llvm/Support/MathExtras.h"

using namespace mirage::thread;

namespace {
/// Hands out the bits of a rows x cols tile, lowest first, one dimension at a
/// time; the odd factors of the extents become the repetition.
class BitDealer {
public:
  BitDealer(int64_t rows, int64_t cols) : extent{rows, cols} {
    for (int64_t dim : {0, 1})
      power[dim] = extent[dim] & -extent[dim];
  }

  /// The next vector along `dim`; zero when the power-of-two part is used up.
  Coord take(int64_t dim) {
    if (used[dim] >= power[dim])
      return {};
    int32_t bit = used[dim];
    used[dim] *= 2;
    return dim == 0 ? Coord{bit, 0} : Coord{0, bit};
  }
  bool has(int64_t dim) const { return used[dim] < power[dim]; }
  /// The remaining vectors along `dim`.
  int64_t left(int64_t dim) const { return llvm::Log2_64(power[dim] / used[dim]); }

  /// Appends vectors along `dim` while there are any, at most `count`.
  void deal(LinearLayout::Basis &basis, int64_t dim, int64_t count) {
    for (int64_t i = 0; i < count && has(dim); ++i)
      basis.push_back(take(dim));
  }
  std::array<int32_t, 2> repeat() const {
    return {int32_t(extent[0] / power[0]), int32_t(extent[1] / power[1])};
  }

private:
  std::array<int64_t, 2> extent;
  std::array<int64_t, 2> power;
  std::array<int64_t, 2> used = {1, 1};
};

/// Vectors along one dimension of a product that all its operands must share:
/// the instruction's, the further registers', the warps'.
struct ProductDim {
  llvm::SmallVector<int32_t, 5> instruction;
  llvm::SmallVector<int32_t, 8> registers;
  llvm::SmallVector<int32_t, 4> warps;
  int32_t repeat;

  ProductDim(int64_t extent, int64_t instructionExtent, int64_t warpCount) {
    int64_t power = extent & -extent;
    repeat = int32_t(extent / power);
    int64_t warpOwned = power / warpCount;
    for (int64_t bit = 1; bit < power; bit *= 2) {
      if (bit < instructionExtent)
        instruction.push_back(int32_t(bit));
      else if (bit < warpOwned)
        registers.push_back(int32_t(bit));
      else
        warps.push_back(int32_t(bit));
    }
  }

  /// For 2-byte elements along K, an instruction has the two lowest vectors of lanes between two of
  /// registers: those of `count` instructions (a power of two) become a thread's lowest vectors.
  void bringTogether(int64_t count) {
    if (count == 1)
      return;
    assert(instruction.size() == 4 && registers.size() >= llvm::Log2_64(count));
    instruction = {1, int32_t(4 * count), int32_t(8 * count), 2};
    for (unsigned bit = 0; bit < llvm::Log2_64(count); ++bit)
      registers[bit] = int32_t(4 << bit);
  }
};

Coord along(int64_t dim, int32_t value) { return dim == 0 ? Coord{value, 0} : Coord{0, value}; }

/// Warp vectors of one operand: n fastest, then m, then k. A dimension that the
/// operand lacks (null) leaves zeros. Axis 0 is rows, 1 columns.
LinearLayout::Basis warpBasis(WarpGrid grid, const ProductDim *m, const ProductDim *n,
                              const ProductDim *k, int64_t mAxis, int64_t nAxis, int64_t kAxis) {
  LinearLayout::Basis basis;
  auto append = [&](const ProductDim *dim, int64_t axis, int64_t count) {
    for (unsigned bit = 0, bits = llvm::Log2_64(count); bit < bits; ++bit)
      basis.push_back(dim && bit < dim->warps.size() ? along(axis, dim->warps[bit]) : Coord{});
  };
  append(n, nAxis, grid.n);
  append(m, mAxis, grid.m);
  append(k, kAxis, grid.k);
  return basis;
}
} // namespace

LinearLayout mirage::thread::mmaResultLayout(int64_t mExtent, int64_t nExtent, WarpGrid grid) {
  ProductDim m(mExtent, 16, grid.m), n(nExtent, 8, grid.n);
  LinearLayout::Basis reg = {along(1, n.instruction[0]), along(0, m.instruction[3])};
  LinearLayout::Basis lane = {along(1, n.instruction[1]), along(1, n.instruction[2])};
  for (int bit : {0, 1, 2})
    lane.push_back(along(0, m.instruction[bit]));
  for (int32_t bit : n.registers)
    reg.push_back(along(1, bit));
  for (int32_t bit : m.registers)
    reg.push_back(along(0, bit));
  return LinearLayout(reg, lane, warpBasis(grid, &m, &n, nullptr, 0, 1, -1), {m.repeat, n.repeat});
}

LinearLayout mirage::thread::mmaLhsLayout(int64_t mExtent, int64_t kExtent, int64_t elementBytes,
                                          WarpGrid grid, int64_t together) {
  ProductDim m(mExtent, 16, grid.m), k(kExtent, mmaInstructionK(elementBytes), grid.k);
  k.bringTogether(together);
  LinearLayout::Basis reg, lane;
  if (elementBytes == 2) {
    reg = {along(1, k.instruction[0]), along(0, m.instruction[3]), along(1, k.instruction[3])};
    lane = {along(1, k.instruction[1]), along(1, k.instruction[2])};
  } else {
    reg = {along(0, m.instruction[3]), along(1, k.instruction[0])};
    lane = {along(1, k.instruction[1]), along(1, k.instruction[2])};
  }
  for (int bit : {0, 1, 2})
    lane.push_back(along(0, m.instruction[bit]));
  for (int32_t bit : k.registers)
    reg.push_back(along(1, bit));
  for (int32_t bit : m.registers)
    reg.push_back(along(0, bit));
  return LinearLayout(reg, lane, warpBasis(grid, &m, nullptr, &k, 0, -1, 1), {m.repeat, k.repeat});
}

LinearLayout mirage::thread::mmaRhsLayout(int64_t kExtent, int64_t nExtent, int64_t elementBytes,
                                          WarpGrid grid, int64_t together) {
  ProductDim k(kExtent, mmaInstructionK(elementBytes), grid.k), n(nExtent, 8, grid.n);
  k.bringTogether(together);
  LinearLayout::Basis reg, lane;
  if (elementBytes == 2) {
    reg = {along(0, k.instruction[0]), along(0, k.instruction[3])};
    lane = {along(0, k.instruction[1]), along(0, k.instruction[2])};
  } else {
    reg = {along(0, k.instruction[0])};
    lane = {along(0, k.instruction[1]), along(0, k.instruction[2])};
  }
  for (int bit : {0, 1, 2})
    lane.push_back(along(1, n.instruction[bit]));
  for (int32_t bit : k.registers)
    reg.push_back(along(0, bit));
  for (int32_t bit : n.registers)
    reg.push_back(along(1, bit));
  return LinearLayout(reg, lane, warpBasis(grid, nullptr, &n, &k, -1, 1, 0), {k.repeat, n.repeat});
}

/// Warp vectors of wgmma operands: the four warps of a warpgroup own 16 rows
/// each; warpgroups go along n, then along m.
static LinearLayout::Basis warpgroupBasis(const ProductDim &m, const ProductDim *n, WarpGrid grid) {
  LinearLayout::Basis basis = {{16, 0}, {32, 0}};
  for (unsigned bit = 0, bits = llvm::Log2_64(grid.n); bit < bits; ++bit)
    basis.push_back(n && bit < n->warps.size() ? along(1, n->warps[bit]) : Coord{});
  for (int32_t bit : m.warps)
    basis.push_back(along(0, bit));
  return basis;
}

LinearLayout mirage::thread::wgmmaResultLayout(int64_t mExtent, int64_t nExtent, WarpGrid grid) {
  ProductDim m(mExtent, 64, grid.m), n(nExtent, 8, grid.n);
  LinearLayout::Basis reg = {{0, 1}, {8, 0}};
  for (int32_t bit : n.registers)
    reg.push_back(along(1, bit));
  for (int32_t bit : m.registers)
    reg.push_back(along(0, bit));
  return LinearLayout(reg, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, warpgroupBasis(m, &n, grid),
                      {m.repeat, n.repeat});
}

LinearLayout mirage::thread::wgmmaLhsLayout(int64_t mExtent, int64_t kExtent, WarpGrid grid) {
  ProductDim m(mExtent, 64, grid.m), k(kExtent, 16, 1);
  LinearLayout::Basis reg = {{0, 1}, {8, 0}, {0, 8}};
  for (int32_t bit : k.registers)
    reg.push_back(along(1, bit));
  for (int32_t bit : m.registers)
    reg.push_back(along(0, bit));
  return LinearLayout(reg, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
                      warpgroupBasis(m, nullptr, grid), {m.repeat, k.repeat});
}

/// Gives the bits to the threads in the order of `laneDims` and `warpDims`, and the rest to
/// registers, columns first.
static LinearLayout dealLayout(int64_t rows, int64_t cols, int64_t vector, int64_t numWarps,
                               std::array<int64_t, 2> laneDims, std::array<int64_t, 2> warpDims) {
  BitDealer bits(rows, cols);
  LinearLayout::Basis reg, lane, warp;
  bits.deal(reg, 1, llvm::Log2_64(vector));
  size_t numWarpBits = llvm::Log2_64(numWarps);
  for (int64_t dim : laneDims)
    bits.deal(lane, dim, 5 - lane.size());
  for (int64_t dim : warpDims)
    bits.deal(warp, dim, numWarpBits - warp.size());
  lane.resize(5);
  warp.resize(numWarpBits);
  bits.deal(reg, 1, 64);
  bits.deal(reg, 0, 64);
  return LinearLayout(reg, lane, warp, bits.repeat());
}

LinearLayout mirage::thread::blockedLayout(int64_t rows, int64_t cols, int64_t vector,
                                           int64_t numWarps) {
  return dealLayout(rows, cols, vector, numWarps, {1, 0}, {1, 0});
}

LinearLayout mirage::thread::rowLayout(int64_t rows, int64_t cols, int64_t dim, int64_t vector,
                                       int64_t numWarps) {
  if (dim == 0)
    return dealLayout(rows, cols, vector, numWarps, {1, 0}, {1, 0});
  return dealLayout(rows, cols, vector, numWarps, {1, 0}, {0, 1});
}

LinearLayout mirage::thread::scanLayout(int64_t rows, int64_t cols, int64_t dim, int64_t vector,
                                        int64_t numWarps) {
  BitDealer bits(rows, cols);
  LinearLayout::Basis reg, lane, warp;
  bits.deal(reg, 1, llvm::Log2_64(vector));
  int64_t numWarpBits = llvm::Log2_64(numWarps);
  for (int64_t other : {1, 0})
    bits.deal(lane, other, 5 - lane.size());
  bits.deal(reg, dim, std::max<int64_t>(0, bits.left(dim) - numWarpBits));
  for (int64_t other : {dim, 1 - dim})
    bits.deal(warp, other, numWarpBits - warp.size());
  lane.resize(5);
  warp.resize(numWarpBits);
  bits.deal(reg, 1 - dim, 64);
  return LinearLayout(reg, lane, warp, bits.repeat());
}
