//===- InterleavedTensors.cpp - views of one tensor -----------------------===//

#include "InterleavedTensors.h"

#include "Copies.h"

using namespace mlir;
using namespace mirage;

/// The bytes of the widest access of a thread.
constexpr int64_t kWidest = 16;

namespace {
/// A place in a tensor: its element `start`.
struct Place {
  Value tensor;
  int64_t start = 0;
};
} // namespace

static RankedTensorType getTensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The tensor in which an operand begins: slices and other shapes are addresses.
static Place findSource(Value operand, llvm::function_ref<bool(kernel::SliceOp)> isAddress) {
  Place place{operand};
  while (Operation *op = place.tensor.getDefiningOp()) {
    auto slice = dyn_cast<kernel::SliceOp>(op);
    if (slice && isAddress(slice)) {
      SmallVector<int64_t> steps = kernel::getStrides(getTensor(slice.getInput()));
      for (auto [offset, step] : llvm::zip_equal(slice.getOffsets(), steps))
        place.start += offset * step;
    } else if (!isa<kernel::ReshapeOp>(op)) {
      break;
    }
    place.tensor = op->getOperand(0);
  }
  return place;
}

/// The join to which a result is written, that of the largest tensor if it is a part of several.
static Place findJoin(Value result) {
  Place place{result};
  while (place.tensor.hasOneUse()) {
    OpOperand &use = *place.tensor.getUses().begin();
    auto concat = dyn_cast<kernel::ConcatOp>(use.getOwner());
    if (concat && isWrittenInParts(concat)) {
      int64_t step = kernel::getStrides(getTensor(concat.getResult()))[concat.getDim()];
      for (Value before : concat.getInputs().take_front(use.getOperandNumber()))
        place.start += getTensor(before).getDimSize(concat.getDim()) * step;
    } else if (!isa<kernel::ReshapeOp>(use.getOwner())) {
      break;
    }
    place.tensor = use.getOwner()->getResult(0);
  }
  return place;
}

/// Whether a tensor has several elements, which are further apart than this number of elements.
static bool leavesRoom(RankedTensorType tensor, int64_t elements) {
  return tensor.getNumElements() > 1 &&
         llvm::all_of(llvm::zip_equal(tensor.getShape(), kernel::getStrides(tensor)),
                      [&](auto pair) {
                        auto [size, step] = pair;
                        return size == 1 || step > elements;
                      });
}

SmallVector<InterleavedTensor>
mirage::findInterleaved(kernel::LaunchOp launch,
                        llvm::function_ref<bool(kernel::SliceOp)> isAddress) {
  SmallVector<Place> places;
  SmallVector<RankedTensorType> types;
  for (Value operand : launch->getOperands()) {
    places.push_back(findSource(operand, isAddress));
    types.push_back(getTensor(operand));
  }
  for (Value result : launch->getResults()) {
    bool isPart = getTensor(result).getEncoding() && !isPlaced(result);
    places.push_back(isPart ? findJoin(result) : Place{result});
    types.push_back(getTensor(result));
  }
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, places.size()));
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return places[a].start < places[b].start; });
  SmallVector<InterleavedTensor> found;
  SmallVector<bool> isFound(places.size(), false);
  for (auto [at, base] : llvm::enumerate(order)) {
    if (isFound[base])
      continue;
    int64_t bytes = std::max<int64_t>(types[base].getElementTypeBitWidth() / 8, 1);
    for (int64_t number : ArrayRef(order).drop_front(at + 1)) {
      int64_t elements = places[number].start - places[base].start;
      bool isBeside = places[number].tensor == places[base].tensor && elements > 0 &&
                      elements * bytes < kWidest &&
                      types[number].getElementType() == types[base].getElementType();
      if (isFound[number] || !isBeside || !leavesRoom(types[number], elements) ||
          !leavesRoom(types[base], elements))
        continue;
      if (!isFound[base])
        found.push_back({base, base, 0});
      found.push_back({number, base, elements});
      isFound[base] = isFound[number] = true;
    }
  }
  return found;
}
