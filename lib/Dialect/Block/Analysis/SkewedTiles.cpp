//===- SkewedTiles.cpp - tiles whose rows start at odd elements -----------===//

#include "mirage/Dialect/Block/Analysis/SkewedTiles.h"

#include "mirage/Target/Staging.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;
using thread::SharedType;

/// Whether only products that contract the matrix along its rows read it.
static bool onlyContractedAlongRows(Value matrix, bool isTransposed = false) {
  return llvm::all_of(matrix.getUses(), [&](OpOperand &use) {
    if (isa<MatmulOp>(use.getOwner()))
      return (use.getOperandNumber() == 0) != isTransposed;
    auto transpose = dyn_cast<TransposeOp>(use.getOwner());
    return transpose && onlyContractedAlongRows(transpose.getResult(), !isTransposed);
  });
}

/// Whether each tile of the load starts at a multiple of a line.
static bool startAtLines(LoadOp load, ArrayRef<int64_t> strides, int64_t bytes) {
  for (auto [axes, size, stride] :
       llvm::zip_equal(load.getMap(), load.getType().getShape(), strides))
    if (!cast<ArrayAttr>(axes).empty() && size * stride * bytes % lineBytes)
      return false;
  return kernel::getStartAlign(cast<RankedTensorType>(load.getSource().getType())) % lineBytes == 0;
}

/// Whether a factor is loaded from rows that start at odd elements.
static bool isOddFactor(Value factor) {
  while (auto transpose = factor.getDefiningOp<TransposeOp>())
    factor = transpose.getOperand();
  auto load = factor.getDefiningOp<LoadOp>();
  return load &&
         kernel::getRowAlign(cast<RankedTensorType>(load.getSource().getType())) % asyncCopyUnit !=
             0;
}

/// Whether lanes read runs of words from the matrix, whose rows have `cols` elements: both factors
/// of its products have such rows, and there are enough instructions along K for each of `warps`.
static bool isReadInRuns(Value matrix, int64_t cols, int64_t warps) {
  return cols % (runElements * warps) == 0 && llvm::all_of(matrix.getUsers(), [&](Operation *user) {
           if (auto transpose = dyn_cast<TransposeOp>(user))
             return isReadInRuns(transpose.getResult(), cols, warps);
           return llvm::all_of(user->getOperands(), isOddFactor);
         });
}

SharedType mirage::block::getSkewedType(LoadOp load, int64_t rows, int64_t cols) {
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  Type element = tensor.getElementType();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8, rank = tensor.getRank();
  ArrayRef<int64_t> tile = load.getType().getShape();
  SmallVector<int64_t> strides = kernel::getStrides(tensor);
  if (load->getParentOfType<kernel::LaunchOp>().getSchedule()->usesWarpgroups())
    return {};
  if (bytes != 2 || element != load.getType().getElementType() || rank < 2 || strides.back() != 1 ||
      kernel::getRowAlign(tensor) % asyncCopyUnit == 0 || cols * bytes % lineBytes)
    return {};
  // The matrix: its rows are along the only other dimension with several elements.
  SmallVector<int64_t> wide;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (tile[dim] > 1)
      wide.push_back(dim);
  if (wide.size() != 2 || wide.back() != rank - 1 || !startAtLines(load, strides, bytes) ||
      !onlyContractedAlongRows(getMatrix(load.getResult())))
    return {};
  int64_t warps = load->getParentOfType<kernel::LaunchOp>().getSchedule()->getWarps();
  bool inRuns = isReadInRuns(getMatrix(load.getResult()), cols, warps);
  int64_t pad = getSkewedPad(cols * bytes, strides[wide.front()] * bytes, inRuns);
  return SharedType::get({rows, cols}, element, /*swizzle=*/0, pad / bytes);
}
