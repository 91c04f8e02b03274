//===- WarpSharing.h - how warps share a matrix product ---------*- C++ -*-===//
//
// What the layout assignment may choose from and what it costs, in estimated
// instructions of one warp. The search, which is written in Python, foresees the
// same choices with the same functions (python/bindings). Plain C++.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_TARGET_WARPSHARING_H
#define MIRAGE_TARGET_WARPSHARING_H

#include <cstdint>
#include <vector>

namespace mirage {

/// Warps along the dimensions of a matrix product; powers of two.
struct WarpGrid {
  int64_t m = 1, n = 1, k = 1;
  int64_t size() const { return m * n * k; }
};

/// Padded extents of a matrix product as the instruction sees it.
struct Product {
  int64_t m, n, k;
  int64_t elementBytes;
};

/// A barrier and the latency of a round trip through shared memory.
inline constexpr double exchangeCost = 150;
/// 32-bit registers of one tile that a thread holds with comfort, and the cost
/// of each further one.
inline constexpr double comfortableRegisters = 128, spillCost = 20;

/// K of one tensor-core instruction: 16 for 2-byte operands, 8 for f32 (TF32).
inline int64_t mmaInstructionK(int64_t elementBytes) { return elementBytes == 2 ? 16 : 8; }

/// Bytes along K of one instruction of a warpgroup.
inline constexpr int64_t wgmmaBytes = 32;
/// The hardware adds up products of 8-bit factors with about 14 bits. Sums over so
/// many of them are added in f32: the error stays that of these sums, however long
/// the contraction is. What is multiplied from zero and held beside the sums are
/// parts of 64 rows of a group, and so many columns.
inline constexpr int64_t promotedDepth = 128, promotedColumns = 128;

/// Every way in which `warps` warps can share a product. Warps that are left
/// over hold copies, which must not be summed: those grids do not cut k.
std::vector<WarpGrid> getWarpGrids(const Product &product, int64_t warps);

/// Tensor-core instructions of 16 x 8 x 32 bytes, and what reads their operands
/// from shared memory, 512 bytes at a time.
double getProductCost(const Product &product, const WarpGrid &grid);

/// A tile of which a thread holds `registers` 32-bit registers.
double getSpillCost(double registers);

/// A change of layout across warps; `registers` of both layouts together.
double getExchangeCost(double registers);

/// Sum of what `summands` warps hold, `held` registers each: a thread adds up
/// `summed` of them.
double getWarpSumCost(double held, double summands, double summed);

/// Ways to share an m x n product among groups of four warps (wgmma), in
/// groups: instructions are 64 rows by a multiple of 8 columns; groups beside
/// one another own whole panels of up to 64 columns.
std::vector<WarpGrid> getWarpgroupGrids(int64_t m, int64_t n, int64_t warps);

} // namespace mirage

#endif // MIRAGE_TARGET_WARPSHARING_H
