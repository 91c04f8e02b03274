//===- Strides.cpp - where the elements of tensors lie --------------------===//

#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include <numeric>

using namespace mlir;
using namespace mirage::kernel;

constexpr int64_t kAlign = 16;

SmallVector<int64_t> mirage::kernel::getStrides(RankedTensorType tensor) {
  if (auto view = dyn_cast_or_null<StridesAttr>(tensor.getEncoding()))
    return SmallVector<int64_t>(view.getSteps());
  SmallVector<int64_t> strides(tensor.getRank(), 1);
  for (int64_t dim = tensor.getRank() - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * std::max<int64_t>(tensor.getDimSize(dim + 1), 1);
  return strides;
}

int64_t mirage::kernel::getStartAlign(RankedTensorType tensor) {
  auto view = dyn_cast_or_null<StridesAttr>(tensor.getEncoding());
  return view ? view.getAlign() : kAlign;
}

int64_t mirage::kernel::getRowAlign(RankedTensorType tensor) {
  int64_t bytes = std::max<int64_t>(tensor.getElementTypeBitWidth() / 8, 1),
          rank = tensor.getRank();
  SmallVector<int64_t> strides = getStrides(tensor);
  if (rank == 0 || strides.back() != 1)
    return bytes;
  if (!tensor.getEncoding())
    return std::gcd(kAlign, tensor.getShape().back() * bytes);
  int64_t align = getStartAlign(tensor);
  for (int64_t dim = 0; dim < rank - 1; ++dim)
    if (tensor.getDimSize(dim) > 1)
      align = std::gcd(align, strides[dim] * bytes);
  return align;
}
