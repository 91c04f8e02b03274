//===- ViewTensors.cpp - slices and joins as addresses --------------------===//

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Block/Transforms/Passes.h"

#include <numeric>

namespace mirage::block {
#define GEN_PASS_DEF_VIEWTENSORS
#include "mirage/Dialect/Block/Transforms/Passes.h.inc"
} // namespace mirage::block

using namespace mlir;
using namespace mirage;
using mirage::kernel::getRowAlign;
using mirage::kernel::getStartAlign;
using mirage::kernel::getStrides;

namespace {

using Strides = SmallVector<int64_t>;

/// Bytes at multiples of which tensors start, and the tensor memory accelerator finds rows.
constexpr int64_t kBoxAlign = 16;

RankedTensorType getTensor(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t getBytes(RankedTensorType tensor) {
  return std::max<int64_t>(tensor.getElementTypeBitWidth() / 8, 1);
}

/// Steps of the same elements in another shape, or nothing where no steps lead to
/// all of them. Each dimension of the result lies within one of the operand's, or
/// covers several that follow one another evenly.
std::optional<Strides> reshaped(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                                ArrayRef<int64_t> result) {
  // Runs of dimensions that follow one another evenly, the last one first.
  SmallVector<std::pair<int64_t, int64_t>> runs; // extent, step
  for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
    if (shape[dim] == 1)
      continue;
    if (!runs.empty() && strides[dim] == runs.back().first * runs.back().second)
      runs.back().first *= shape[dim];
    else
      runs.emplace_back(shape[dim], strides[dim]);
  }
  Strides found(result.size(), 1);
  unsigned run = 0;
  int64_t taken = 1; // elements of the run that dimensions cover already
  for (int64_t dim = int64_t(result.size()) - 1; dim >= 0; --dim) {
    if (run < runs.size() && taken == runs[run].first)
      ++run, taken = 1;
    int64_t step = run < runs.size() ? runs[run].second * taken : 1;
    found[dim] = step;
    if (result[dim] == 1)
      continue;
    if (run == runs.size() || runs[run].first % (taken * result[dim]))
      return std::nullopt;
    taken *= result[dim];
  }
  return found;
}

struct ViewTensors : block::impl::ViewTensorsBase<ViewTensors> {
  using ViewTensorsBase::ViewTensorsBase;

  void runOnOperation() override {
    kernel::GraphOp graph = getOperation();
    SmallVector<kernel::SliceOp> slices(graph.getOps<kernel::SliceOp>());
    for (kernel::SliceOp slice : slices)
      if (!getTensor(slice.getResult()).getEncoding())
        viewSlice(slice);
    for (kernel::ConcatOp concat : graph.getOps<kernel::ConcatOp>())
      viewConcat(concat);
  }

private:
  static Type withSteps(RankedTensorType tensor, ArrayRef<int64_t> steps, int64_t align) {
    auto view = kernel::StridesAttr::get(tensor.getContext(), steps, align);
    return RankedTensorType::get(tensor.getShape(), tensor.getElementType(), view);
  }

  //===--------------------------------------------------------------------===//
  // Slices
  //===--------------------------------------------------------------------===//

  void viewSlice(kernel::SliceOp slice) {
    RankedTensorType whole = getTensor(slice.getInput());
    Strides steps = getStrides(whole);
    int64_t align = getAlign(slice, steps, getStartAlign(whole));
    if (slice.getContiguousStart() && align == kBoxAlign)
      return; // an address, as it is
    if (!canView(slice.getResult(), steps, align))
      return;
    setView(slice.getResult(), steps, align);
    ++numViews;
  }

  static int64_t getAlign(kernel::SliceOp slice, ArrayRef<int64_t> steps, int64_t align) {
    int64_t start = 0;
    for (auto [offset, step] : llvm::zip_equal(slice.getOffsets(), steps))
      start += offset * step;
    return std::gcd(align, start * getBytes(getTensor(slice.getResult())));
  }

  /// Whether only launches read a value, maybe parts of it and in other shapes, if
  /// it has these steps. Those of warpgroups read rows at multiples of 16 bytes.
  static bool canView(Value value, ArrayRef<int64_t> steps, int64_t align) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (auto slice = dyn_cast<kernel::SliceOp>(user))
        return canView(slice.getResult(), steps, getAlign(slice, steps, align));
      if (isa<kernel::ReshapeOp>(user)) {
        std::optional<Strides> others =
            reshaped(getTensor(value).getShape(), steps, getTensor(user->getResult(0)).getShape());
        return others && canView(user->getResult(0), *others, align);
      }
      auto launch = dyn_cast<kernel::LaunchOp>(user);
      if (!launch || !launch.getSchedule() || !isLoaded(launch, use.getOperandNumber()))
        return false;
      Type view = withSteps(getTensor(value), steps, align);
      return !launch.getSchedule()->usesWarpgroups() ||
             getRowAlign(cast<RankedTensorType>(view)) == kBoxAlign;
    });
  }

  /// Whether a launch does no more with an operand than to load tiles of it.
  static bool isLoaded(kernel::LaunchOp launch, unsigned number) {
    return llvm::all_of(launch.getBody().getArgument(number).getUsers(),
                        [](Operation *user) { return isa<block::LoadOp>(user); });
  }

  static void setView(Value value, ArrayRef<int64_t> steps, int64_t align) {
    RankedTensorType before = getTensor(value);
    value.setType(withSteps(before, steps, align));
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto slice = dyn_cast<kernel::SliceOp>(user)) {
        setView(slice.getResult(), steps, getAlign(slice, steps, align));
      } else if (auto reshape = dyn_cast<kernel::ReshapeOp>(user)) {
        Value result = reshape.getResult();
        setView(result, *reshaped(before.getShape(), steps, getTensor(result).getShape()), align);
      } else {
        Value inside = cast<kernel::LaunchOp>(user).getBody().getArgument(use.getOperandNumber());
        inside.setType(value.getType());
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Joins
  //===--------------------------------------------------------------------===//

  /// The result of a launch that is an operand of a join, maybe in another shape,
  /// and nothing else.
  static Value getWritten(Value operand) {
    while (operand.hasOneUse()) {
      if (operand.getDefiningOp<kernel::LaunchOp>())
        return operand;
      auto reshape = operand.getDefiningOp<kernel::ReshapeOp>();
      if (!reshape)
        break;
      operand = reshape.getInput();
    }
    return Value();
  }

  void viewConcat(kernel::ConcatOp concat) {
    RankedTensorType whole = getTensor(concat.getResult());
    if (whole.getEncoding())
      return;
    Strides steps = getStrides(whole);
    int64_t start = 0;
    SmallVector<std::pair<Value, Type>> found;
    for (Value operand : concat.getInputs()) {
      Value written = getWritten(operand);
      RankedTensorType part = getTensor(operand);
      if (!written || part.getEncoding() || part.getElementType() != whole.getElementType())
        return;
      int64_t align = std::gcd<int64_t>(16, start * steps[concat.getDim()] * getBytes(whole));
      start += part.getDimSize(concat.getDim());
      for (Value value = operand;;) {
        std::optional<Strides> own = reshaped(part.getShape(), steps, getTensor(value).getShape());
        if (!own)
          return;
        found.emplace_back(value, withSteps(getTensor(value), *own, align));
        if (value == written)
          break;
        value = value.getDefiningOp<kernel::ReshapeOp>().getInput();
      }
    }
    for (auto [value, type] : found)
      value.setType(type);
    ++numViews;
  }
};

} // namespace
