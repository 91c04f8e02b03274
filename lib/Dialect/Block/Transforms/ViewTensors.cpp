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

/// Bytes at multiples of which tensors start, and at which the tensor memory accelerator can find
/// rows.
constexpr int64_t kBoxAlign = 16;

RankedTensorType getTensor(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t getBytes(RankedTensorType tensor) {
  return std::max<int64_t>(tensor.getElementTypeBitWidth() / 8, 1);
}

/// Extents and steps of the runs of evenly spaced consecutive dimensions, the last one first.
SmallVector<std::pair<int64_t, int64_t>> evenRuns(ArrayRef<int64_t> shape,
                                                  ArrayRef<int64_t> strides) {
  SmallVector<std::pair<int64_t, int64_t>> runs;
  for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
    if (shape[dim] == 1)
      continue;
    if (!runs.empty() && strides[dim] == runs.back().first * runs.back().second)
      runs.back().first *= shape[dim];
    else
      runs.emplace_back(shape[dim], strides[dim]);
  }
  return runs;
}

/// Steps of the same elements in another shape, or nothing if no steps lead to all of them. Each
/// dimension of the result is inside of one of the operand's, or covers several evenly spaced ones.
std::optional<Strides> reshaped(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                                ArrayRef<int64_t> result) {
  auto runs = evenRuns(shape, strides);
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

/// How a result of a launch forms a part of another tensor.
struct Digits {
  SmallVector<int64_t> shape, steps, counts;
};

/// The same elements in the shape `result`, each dimension of which may cover several that are not
/// evenly spaced: these are then the digits of its index.
std::optional<Digits> inDigits(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                               ArrayRef<int64_t> result) {
  auto runs = evenRuns(shape, strides);
  Digits found; // the last one first
  unsigned run = 0;
  int64_t taken = 1; // elements of the run that dimensions cover already
  for (int64_t left : llvm::reverse(result)) {
    int64_t count = 0;
    while (left > 1 || count == 0) {
      if (run < runs.size() && taken == runs[run].first)
        ++run, taken = 1;
      int64_t extent = run < runs.size() ? std::min(left, runs[run].first / taken) : 1;
      if (left > 1 && (run == runs.size() || left % extent || runs[run].first % (taken * extent)))
        return std::nullopt;
      found.shape.push_back(extent);
      found.steps.push_back(run < runs.size() ? runs[run].second * taken : 1);
      taken *= extent;
      left /= extent;
      ++count;
    }
    found.counts.push_back(count);
  }
  for (SmallVector<int64_t> *numbers : {&found.shape, &found.steps, &found.counts})
    std::reverse(numbers->begin(), numbers->end());
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
    for (kernel::IndexCopyOp copy : graph.getOps<kernel::IndexCopyOp>())
      storeInPlace(copy);
    SmallVector<kernel::ConcatOp> joins(graph.getOps<kernel::ConcatOp>());
    for (kernel::ConcatOp concat : llvm::reverse(joins)) // a join before its parts
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
      return; // it is an address already
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

  /// Whether only launches read a value with these steps, possibly parts of it and in other shapes.
  /// Launches of warpgroups read rows at multiples of 16 bytes.
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
      if (!launch || !launch.getSchedule())
        return false;
      auto view = cast<RankedTensorType>(withSteps(getTensor(value), steps, align));
      bool isAligned = getRowAlign(view) == kBoxAlign;
      return isLoaded(launch, use.getOperandNumber(), isAligned && hasDenseRows(view)) &&
             (!launch.getSchedule()->usesWarpgroups() || isAligned);
    });
  }

  /// Whether a launch only loads tiles of an operand, or rows by index if it may be a table
  /// (`isTable`).
  static bool isLoaded(kernel::LaunchOp launch, unsigned number, bool isTable) {
    Value inside = launch.getBody().getArgument(number);
    return llvm::all_of(inside.getUses(), [&](OpOperand &use) {
      if (auto integers = dyn_cast<block::IntegersOp>(use.getOwner()))
        return !integers.getParsedFormula().isTable(use.getOperandNumber());
      auto gather = dyn_cast<block::GatherOp>(use.getOwner());
      bool isRead = gather && gather.getTable() == inside && gather.getIndices() != inside;
      return isa<block::LoadOp>(use.getOwner()) || (isRead && isTable);
    });
  }

  /// Whether each row, along the first dimension, has the layout of a separate tensor.
  static bool hasDenseRows(RankedTensorType view) {
    Strides steps = getStrides(view);
    int64_t dense = 1;
    for (int64_t dim = view.getRank() - 1; dim > 0; dense *= view.getDimSize(dim--))
      if (steps[dim] != dense)
        return false;
    return true;
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

  /// The result of a launch that is only an operand of a join, possibly in another shape.
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
    SmallVector<std::pair<Value, Type>> found;
    if (!findParts(concat, getStrides(whole), 0, found))
      return;
    for (auto [value, type] : found)
      value.setType(type);
    ++numViews;
  }

  /// Finds the parts of a join that begins at element `start` of a tensor with these steps, and
  /// those of joins that only it reads, as views of that tensor. Returns whether launches compute
  /// all of them.
  static bool findParts(kernel::ConcatOp concat, const Strides &steps, int64_t start,
                        SmallVectorImpl<std::pair<Value, Type>> &found) {
    RankedTensorType whole = getTensor(concat.getResult());
    for (Value operand : concat.getInputs()) {
      RankedTensorType part = getTensor(operand);
      if (part.getEncoding() || part.getElementType() != whole.getElementType())
        return false;
      auto inner = operand.getDefiningOp<kernel::ConcatOp>();
      int64_t align = std::gcd<int64_t>(16, start * getBytes(whole));
      if (inner ? !operand.hasOneUse() || !findParts(inner, steps, start, found)
                : !getWritten(operand) || getPlace(getWritten(operand)))
        return false;
      for (Value value = operand;;) {
        std::optional<Strides> own = reshaped(part.getShape(), steps, getTensor(value).getShape());
        if (!own)
          return false;
        found.emplace_back(value, withSteps(getTensor(value), *own, align));
        auto reshape = value.getDefiningOp<kernel::ReshapeOp>();
        if (!reshape)
          break;
        value = reshape.getInput();
      }
      start += part.getDimSize(concat.getDim()) * steps[concat.getDim()];
    }
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Updates
  //===--------------------------------------------------------------------===//

  /// A result of a launch that is a part of a row, and where that is in the row: its first element,
  /// and the steps of the operand.
  struct Part {
    Value operand, written;
    int64_t offset;
    Strides steps;
  };

  /// The results that form a row: it is one of them, or a join of them, possibly in another shape.
  /// None if something else reads one, or if no launch computes it.
  static SmallVector<Part> getParts(Value row, const Strides &steps) {
    Value joined = row;
    while (auto reshape = joined.getDefiningOp<kernel::ReshapeOp>()) {
      if (!joined.hasOneUse())
        break;
      joined = reshape.getInput();
    }
    auto concat = joined.getDefiningOp<kernel::ConcatOp>();
    std::optional<Strides> inside =
        reshaped(getTensor(row).getShape(), steps, getTensor(joined).getShape());
    if (!concat || !joined.hasOneUse() || !inside)
      return {{row, getWritten(row), 0, steps}};
    SmallVector<Part> parts;
    int64_t offset = 0;
    for (Value operand : concat.getInputs()) {
      parts.push_back({operand, getWritten(operand), offset, *inside});
      offset += getTensor(operand).getDimSize(concat.getDim()) * (*inside)[concat.getDim()];
    }
    return parts;
  }

  /// The launches that compute the row store it to the updated tensor. The tensor and the index
  /// exist when the graph begins, and nothing reads the tensor's previous contents.
  void storeInPlace(kernel::IndexCopyOp copy) {
    bool isGiven = isa<BlockArgument>(copy.getTensor()) && isa<BlockArgument>(copy.getIndex());
    if (!isGiven || !copy.getTensor().hasOneUse())
      return;
    RankedTensorType whole = getTensor(copy.getTensor());
    Strides steps = getStrides(whole);
    SmallVector<Part> parts = getParts(copy.getRow(), steps);
    SmallVector<Digits> found;
    for (const Part &part : parts) {
      if (!part.written || getTensor(part.written).getEncoding() ||
          getTensor(part.operand).getElementType() != whole.getElementType() ||
          getPlace(part.written))
        return;
      std::optional<Digits> digits = inDigits(getTensor(part.operand).getShape(), part.steps,
                                              getTensor(part.written).getShape());
      if (!digits)
        return;
      found.push_back(*digits);
    }
    for (auto [part, digits] : llvm::zip_equal(parts, found))
      place(copy, part, digits, whole.getDimSize(copy.getDim()), steps[copy.getDim()]);
    ++numViews;
  }

  static kernel::PlaceAttr getPlace(Value written) {
    return written.getDefiningOp<kernel::LaunchOp>().getPlace(
        cast<OpResult>(written).getResultNumber());
  }

  static void place(kernel::IndexCopyOp copy, const Part &part, const Digits &digits, int64_t rows,
                    int64_t step) {
    auto launch = part.written.getDefiningOp<kernel::LaunchOp>();
    SmallVector<int64_t> extents{rows}, strides{step};
    llvm::append_range(extents, digits.shape);
    llvm::append_range(strides, digits.steps);
    auto place = kernel::PlaceAttr::get(
        copy.getContext(), cast<OpResult>(part.written).getResultNumber(), launch->getNumOperands(),
        part.offset, extents, strides, digits.counts);
    SmallVector<Attribute> places;
    if (launch.getPlaces())
      llvm::append_range(places, *launch.getPlaces());
    places.push_back(place);
    launch.getInputsMutable().append(copy.getIndex());
    launch.getBody().addArgument(copy.getIndex().getType(), copy.getLoc());
    launch.setPlacesAttr(ArrayAttr::get(copy.getContext(), places));
  }
};

} // namespace
