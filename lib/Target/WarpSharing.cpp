//===- WarpSharing.cpp - how warps share a matrix product -----------------===//

#include "mirage/Target/WarpSharing.h"

#include <algorithm>

using namespace mirage;

/// Whether a power of two of at least `multiple` divides the extent.
static bool fits(int64_t extent, int64_t multiple) { return (extent & -extent) >= multiple; }

std::vector<WarpGrid> mirage::getWarpGrids(const Product &product, int64_t warps) {
  std::vector<WarpGrid> grids;
  int64_t instructionK = mmaInstructionK(product.elementBytes);
  for (int64_t size = warps; size >= 1; size /= 2)
    for (int64_t m = 1; m <= size; m *= 2)
      for (int64_t n = 1; m * n <= size; n *= 2) {
        WarpGrid grid{m, n, size / (m * n)};
        if (size < warps && grid.k > 1)
          continue;
        if (fits(product.m, 16 * grid.m) && fits(product.n, 8 * grid.n) &&
            fits(product.k, instructionK * grid.k))
          grids.push_back(grid);
      }
  return grids;
}

double mirage::getProductCost(const Product &product, const WarpGrid &grid) {
  double m = double(product.m) / grid.m, n = double(product.n) / grid.n,
         k = double(product.k) / grid.k;
  double bytes = double(product.elementBytes);
  double products = m / 16 * (n / 8) * (k * bytes / 32) * (product.elementBytes == 2 ? 1 : 6);
  double reads = (m + n) * k * bytes / 512;
  return 2 * products + 4 * reads;
}

double mirage::getSpillCost(double registers) {
  return spillCost * std::max(0.0, registers - comfortableRegisters);
}

double mirage::getExchangeCost(double registers) { return exchangeCost + 4 * registers; }

double mirage::getWarpSumCost(double held, double summands, double summed) {
  return exchangeCost + 2 * held + 2 * summands * summed;
}

std::vector<WarpGrid> mirage::getWarpgroupGrids(int64_t m, int64_t n, int64_t warps) {
  constexpr int64_t rows = 64, cols = 8, panel = 64;
  std::vector<WarpGrid> grids;
  if (warps % 4 || n % cols)
    return grids;
  int64_t groups = warps / 4;
  for (int64_t gm = groups; gm >= 1; gm /= 2) {
    if (groups % gm)
      continue;
    int64_t gn = groups / gm, multiple = gn > 1 ? panel : cols;
    if (fits(m, rows * gm) && fits(n, multiple * gn))
      grids.push_back({gm, gn, 1});
  }
  return grids;
}
