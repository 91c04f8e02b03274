//===- WarpSharing.h - how warps share a matrix product ---------*- C++ -*-===//
//
// The choices of the layout assignment and their costs, in estimated instructions of one warp. The
// search, which is written in Python, predicts the choices with the same functions
// (python/bindings). Plain C++.
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

/// Padded extents of a matrix product, in the form of the instruction.
struct Product {
  int64_t m, n, k;
  int64_t elementBytes;
};

/// A barrier and the latency of a round trip through shared memory.
inline constexpr double exchangeCost = 150;
/// 32-bit registers of one tile that a thread holds at no cost, and the cost of each further one.
inline constexpr double comfortableRegisters = 128, spillCost = 20;

/// K of one tensor-core instruction: 16 for 2-byte operands, 8 for f32 (TF32).
inline int64_t mmaInstructionK(int64_t elementBytes) { return elementBytes == 2 ? 16 : 8; }

/// Bytes along K of one instruction of a warpgroup.
inline constexpr int64_t wgmmaBytes = 32;
/// The hardware adds up products of 8-bit factors with about 14 bits. Sums over this number of
/// products are added in f32, so the error stays that of these sums for contractions of any length.
/// The parts that are multiplied from zero, and held in addition to the sums, have 64 rows of a
/// group and this number of columns.
inline constexpr int64_t promotedDepth = 128, promotedColumns = 128;

/// Every way in which `warps` warps can share a product. Surplus warps hold copies, which must not
/// be summed: such grids do not cut k.
std::vector<WarpGrid> getWarpGrids(const Product &product, int64_t warps);

/// Tensor-core instructions of 16 x 8 x 32 bytes, and the reads of their operands from shared
/// memory, 512 bytes at a time.
double getProductCost(const Product &product, const WarpGrid &grid);

/// The cost of a tile of which a thread holds `registers` 32-bit registers.
double getSpillCost(double registers);

/// A change of layout across warps; `registers` of both layouts together.
double getExchangeCost(double registers);

/// The cost of the sum of the values of `summands` warps, `held` registers each: a thread adds up
/// `summed` of them.
double getWarpSumCost(double held, double summands, double summed);

/// Ways to share an m x n product among groups of four warps (wgmma), in
/// groups: instructions are 64 rows by a multiple of 8 columns; neighbouring groups own whole
/// panels of up to 64 columns.
std::vector<WarpGrid> getWarpgroupGrids(int64_t m, int64_t n, int64_t warps);

} // namespace mirage

#endif // MIRAGE_TARGET_WARPSHARING_H
