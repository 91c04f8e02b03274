//===- DynamicTensors.cpp - tensors of a dynamic size -------------------===//

#include "DynamicTensors.h"
#include "Copies.h"
#include "TileEmitter.h"

using namespace mlir;
using namespace mirage;

SmallVector<int64_t> DynamicTensors::getNumbers(Operation *op) const {
  SmallVector<int64_t> numbers;
  for (auto [number, value] :
       llvm::enumerate(llvm::concat<const Value>(ValueRange(op->getOperands()), op->getResults())))
    if (values.contains(value))
      numbers.push_back(number);
  return numbers;
}

/// The type of one of the tensors of an op, operands first.
static RankedTensorType getTensor(Operation *op, int64_t number) {
  int64_t operands = op->getNumOperands();
  return cast<RankedTensorType>(
      (number < operands ? op->getOperand(number) : op->getResult(number - operands)).getType());
}

std::optional<int64_t> DynamicTensors::getUnit(Operation *op, int64_t number) const {
  RankedTensorType tensor = getTensor(op, number);
  SmallVector<int64_t> strides = kernel::getStrides(tensor);
  int64_t last = 0; // of a row, from its first element
  for (int64_t dim = 1; dim < tensor.getRank(); ++dim)
    last += (tensor.getDimSize(dim) - 1) * strides[dim];
  if (last >= strides.front())
    return std::nullopt;
  return tensor.getDimSize(0) / size.getBound() * strides.front();
}

LogicalResult DynamicTensors::check(kernel::GraphOp graph,
                                    function_ref<bool(kernel::SliceOp)> isAddress) const {
  for (Operation &op : graph.getBody().front()) {
    SmallVector<int64_t> numbers = getNumbers(&op);
    if (numbers.empty() || isa<kernel::ReshapeOp, kernel::ReturnOp>(op))
      continue;
    auto slice = dyn_cast<kernel::SliceOp>(op);
    auto concat = dyn_cast<kernel::ConcatOp>(op);
    if ((slice && isAddress(slice) && slice.getOffsets().front() == 0) ||
        (concat && isWrittenInParts(concat) && concat.getDim() != 0))
      continue;
    if (!isa<kernel::LaunchOp>(op))
      return op.emitOpError("expected dynamic tensors in launches, and in reshapes, slices and "
                            "joins that are addresses");
    for (int64_t number : numbers)
      if (!getUnit(&op, number))
        return op.emitOpError("expected a dynamic tensor whose rows follow each other, got ")
               << getTensor(&op, number);
  }
  return success();
}

void DynamicTensors::setSize(kernel::InvokeOp invoke, kernel::LaunchOp launch) const {
  SmallVector<int64_t> numbers = getNumbers(invoke);
  if (numbers.empty())
    return;
  invoke.setDynamicAttr(kernel::DynamicAttr::get(invoke.getContext(), size.getBound(), numbers));
  if (std::optional<std::pair<int64_t, int64_t>> rows = getRows(launch))
    invoke.setRows(ArrayRef<int64_t>{rows->first, rows->second});
}

/// Rows for each unit of the size, and rows of each part of the grid along the
/// axis of consecutive parts, if all results are cut along that axis first.
std::optional<std::pair<int64_t, int64_t>> DynamicTensors::getRows(kernel::LaunchOp launch) const {
  auto [axis, height] = TileEmitter::getSlowestAxis(launch);
  if (axis.empty())
    return std::nullopt;
  std::optional<std::pair<int64_t, int64_t>> found;
  auto store = cast<block::StoreOp>(launch.getBody().front().getTerminator());
  for (auto [number, tile] : llvm::enumerate(store.getTiles())) {
    auto axes = cast<ArrayAttr>(cast<ArrayAttr>(store.getMaps()[number])[0]);
    if (axes.empty() || cast<StringAttr>(axes[0]).getValue() != axis)
      return std::nullopt;
    int64_t rows = block::getTile(tile).getShape().front() * height;
    for (Attribute inner : axes.getValue().drop_front())
      rows *= *launch.getGridExtent(cast<StringAttr>(inner).getValue());
    auto tensor = cast<RankedTensorType>(launch.getResult(number).getType());
    auto here = std::make_pair(tensor.getDimSize(0) / size.getBound(), rows);
    if (found && *found != here)
      return std::nullopt;
    found = here;
  }
  return found;
}

void DynamicTensors::replace(Value before, Value now) {
  if (values.contains(before))
    values.insert(now);
}
