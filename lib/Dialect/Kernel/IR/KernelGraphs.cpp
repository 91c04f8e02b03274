//===- KernelGraphs.cpp - graphs, alternatives and launches ---------------===//

#include "mirage/Dialect/Common/Shapes.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"

#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::kernel;

namespace {

/// Checks that `values` have the types `expected`; `what` names them in messages.
LogicalResult verifyTypes(Operation *op, TypeRange expected, TypeRange actual, StringRef what) {
  if (expected.size() != actual.size())
    return op->emitOpError("expected ")
           << expected.size() << " " << what << "s, got " << actual.size();
  for (auto [index, pair] : llvm::enumerate(llvm::zip(expected, actual)))
    if (std::get<0>(pair) != std::get<1>(pair))
      return op->emitOpError("expected ") << what << " " << index << " of type "
                                          << std::get<0>(pair) << ", got " << std::get<1>(pair);
  return success();
}

/// Checks that the size determines the number of rows of a tensor, which `what` names.
LogicalResult verifyRows(Operation *op, DynamicAttr dynamic, Type type, const Twine &what) {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.getRank() && tensor.getDimSize(0) && tensor.getDimSize(0) % dynamic.getBound() == 0)
    return success();
  return op->emitOpError("expected ") << what << ", which is dynamic, to have a multiple of "
                                      << dynamic.getBound() << " rows, got " << type;
}

} // namespace

//===----------------------------------------------------------------------===//
// GraphOp
//===----------------------------------------------------------------------===//

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildFuncType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                          function_interface_impl::VariadicFlag,
                          std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildFuncType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult GraphOp::verify() {
  for (ArrayRef<Type> types : {getFunctionType().getInputs(), getFunctionType().getResults()})
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !tensor.hasStaticShape() || !tensor.getElementType().isIntOrFloat())
        return emitOpError("expected inputs and results to be tensors of static shape, of floats, "
                           "integers or truth values, got ")
               << type;
    }
  if (DynamicAttr dynamic = getDynamicAttr())
    for (int64_t number : dynamic.getTensors()) {
      if (number >= int64_t(getFunctionType().getNumInputs()))
        return emitOpError("expected dynamic arguments among ")
               << getFunctionType().getNumInputs() << ", got " << number;
      if (failed(verifyRows(*this, dynamic, getFunctionType().getInput(number),
                            "argument " + Twine(number))))
        return failure();
    }
  return success();
}

llvm::DenseSet<Value> GraphOp::getDynamicValues() {
  llvm::DenseSet<Value> found;
  if (DynamicAttr dynamic = getDynamicAttr())
    for (int64_t number : dynamic.getTensors())
      found.insert(getBody().getArgument(number));
  for (Operation &op : getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return found.contains(operand); }))
      found.insert_range(op.getResults());
  return found;
}

/// The reason why `form` does not allow `op`, or an empty string.
static std::string violates(Form form, Operation *op) {
  bool alternatives = isa<AlternativesOp>(op), launch = isa<LaunchOp>(op),
       invoke = isa<InvokeOp>(op);
  switch (form) {
  case Form::Reference:
    return alternatives || launch || invoke ? "predefined tensor ops only" : "";
  case Form::Verified:
    if (auto found = dyn_cast<AlternativesOp>(op)) {
      ArrayAttr verdicts = found.getVerdictsAttr();
      if (!verdicts)
        return "a verdict for each candidate";
      for (Attribute verdict : verdicts) {
        VerdictKind kind = cast<VerdictAttr>(verdict).getKind();
        if (kind != VerdictKind::Proved && kind != VerdictKind::Probable)
          return "verdicts that are proved or probable";
      }
    }
    [[fallthrough]];
  case Form::Candidates:
    return invoke ? "no compiled kernels" : "";
  case Form::Scheduled:
    if (auto found = dyn_cast<LaunchOp>(op); found && !found.getSchedule())
      return "a schedule for each launch";
    [[fallthrough]];
  case Form::Selected:
    return alternatives ? "no alternatives" : invoke ? "no compiled kernels" : "";
  case Form::Thread:
  case Form::Binary:
    return alternatives || launch ? "compiled kernels only" : "";
  }
  llvm_unreachable("all forms are handled");
}

LogicalResult GraphOp::verifyRegions() {
  Operation *terminator = getBody().front().getTerminator();
  if (!isa<ReturnOp>(terminator))
    return emitOpError("expected to end with kernel.return, got ") << terminator->getName();
  llvm::DenseSet<Value> dynamic = getDynamicValues();
  for (Operation &op : getBody().front())
    for (Value value : op.getResults())
      if (dynamic.contains(value) &&
          failed(verifyRows(&op, getDynamicAttr(), value.getType(), "a result")))
        return failure();
  if (!getForm())
    return success();
  WalkResult result = walk([&](Operation *op) {
    std::string expected = violates(*getForm(), op);
    if (expected.empty())
      return WalkResult::advance();
    InFlightDiagnostic error = op->emitOpError("form '")
                               << stringifyForm(*getForm()) << "' expects " << expected;
    error.attachNote(getLoc()) << "the form is claimed here";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult ReturnOp::verify() {
  return verifyTypes(*this, cast<GraphOp>((*this)->getParentOp()).getResultTypes(),
                     getOperandTypes(), "result");
}

//===----------------------------------------------------------------------===//
// AlternativesOp
//===----------------------------------------------------------------------===//

LogicalResult AlternativesOp::verify() {
  size_t count = getCandidates().size();
  if (count == 0)
    return emitOpError("expected at least the reference, got no regions");
  if (getVerdicts() && getVerdicts()->size() != count - 1)
    return emitOpError("expected ")
           << count - 1 << " verdicts, one for each candidate, got " << getVerdicts()->size();
  if (getCosts() && getCosts()->size() != count)
    return emitOpError("expected ")
           << count << " costs, one for each region, got " << getCosts()->size();
  return success();
}

LogicalResult AlternativesOp::verifyRegions() {
  for (Region &region : getCandidates()) {
    if (failed(verifyTypes(*this, getInputs().getTypes(), region.getArgumentTypes(),
                           "block argument")))
      return failure();
    if (!isa<YieldOp>(region.front().getTerminator()))
      return emitOpError("expected each region to end with kernel.yield, got ")
             << region.front().getTerminator()->getName();
  }
  return success();
}

LogicalResult YieldOp::verify() {
  return verifyTypes(*this, (*this)->getParentOp()->getResultTypes(), getOperandTypes(), "result");
}

//===----------------------------------------------------------------------===//
// LaunchOp and InvokeOp
//===----------------------------------------------------------------------===//

std::optional<int64_t> LaunchOp::getGridExtent(StringRef name) {
  for (auto [axis, extent] : llvm::zip(getGridNames(), getGridExtents()))
    if (cast<StringAttr>(axis).getValue() == name)
      return extent;
  return std::nullopt;
}

int64_t LaunchOp::getNumBlocks() {
  int64_t blocks = 1;
  for (int64_t extent : getGridExtents())
    blocks *= extent;
  return blocks;
}

int64_t LaunchOp::getStartedBlocks() {
  int64_t resident = getSchedule() ? getSchedule()->getResident() : 0;
  return resident ? std::min(resident, getNumBlocks()) : getNumBlocks();
}

/// Checks that a result is at `place`; `placed` are the results before it.
static LogicalResult verifyPlace(LaunchOp launch, PlaceAttr place,
                                 llvm::DenseSet<int64_t> &placed) {
  int64_t number = place.getResult();
  if (number < 0 || number >= launch->getNumResults() || !placed.insert(number).second)
    return launch.emitOpError("expected places of different results below ")
           << launch->getNumResults() << ", got one of " << number;
  if (place.getIndex() < 0 || place.getIndex() >= launch->getNumOperands())
    return launch.emitOpError("expected the index of a place among ")
           << launch->getNumOperands() << " operands, got " << place.getIndex();
  auto index = cast<RankedTensorType>(launch->getOperand(place.getIndex()).getType());
  if (index.getNumElements() != 1 ||
      !(index.getElementType().isInteger(32) || index.getElementType().isInteger(64)))
    return launch.emitOpError("expected the index of a place to be one i32 or i64, got ") << index;
  auto result = cast<RankedTensorType>(launch.getResult(number).getType());
  ArrayRef<int64_t> shape = place.getShape();
  bool matches = !shape.empty() && shape.size() == place.getSteps().size() &&
                 int64_t(place.getDigits().size()) == result.getRank() && !result.getEncoding() &&
                 llvm::none_of(place.getDigits(), [](int64_t digits) { return digits < 1; });
  size_t next = 1;
  for (size_t dim = 0; matches && dim < place.getDigits().size(); ++dim) {
    int64_t extent = 1;
    for (int64_t digit = 0; digit < place.getDigits()[dim] && next < shape.size(); ++digit)
      extent *= shape[next++];
    matches = extent == result.getDimSize(dim);
  }
  if (!matches || next != shape.size())
    return launch.emitOpError("expected a place whose digits make up ")
           << result << ", got " << place;
  return success();
}

LogicalResult LaunchOp::verify() {
  if (getGridNames().size() != getGridExtents().size())
    return emitOpError("expected one extent for each grid axis, got ")
           << getGridNames().size() << " names and " << getGridExtents().size() << " extents";
  llvm::StringSet<> names;
  for (auto [axis, extent] : llvm::zip(getGridNames(), getGridExtents())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    if (!names.insert(name).second)
      return emitOpError("expected distinct names of axes, got '") << name << "' twice";
    if (extent < 1)
      return emitOpError("expected axis '") << name << "' to have at least 1 block, got " << extent;
  }
  if (!getPlaces())
    return success();
  llvm::DenseSet<int64_t> placed;
  for (auto place : getPlaces()->getAsRange<PlaceAttr>())
    if (failed(verifyPlace(*this, place, placed)))
      return failure();
  return success();
}

PlaceAttr LaunchOp::getPlace(unsigned number) {
  if (getPlaces())
    for (auto place : getPlaces()->getAsRange<PlaceAttr>())
      if (place.getResult() == number)
        return place;
  return {};
}

LogicalResult LaunchOp::verifyRegions() {
  if (failed(verifyTypes(*this, getInputs().getTypes(), getBody().getArgumentTypes(),
                         "block argument")))
    return failure();
  Operation *terminator = getBody().front().getTerminator();
  if (!terminator->hasTrait<LaunchTerminator>())
    return emitOpError("expected a body that ends with block.store, got ") << terminator->getName();
  return success();
}

LogicalResult InvokeOp::verify() {
  for (auto [what, numbers] :
       {std::pair<StringRef, ArrayRef<int64_t>>("grid", getGrid()),
        std::pair<StringRef, ArrayRef<int64_t>>("block", getBlock()),
        std::pair<StringRef, ArrayRef<int64_t>>("cluster", getCluster().value_or(getBlock()))}) {
    if (numbers.size() != 3 || llvm::any_of(numbers, [](int64_t n) { return n < 1; }))
      return emitOpError("expected three positive sizes for ")
             << what << ", got " << formatList(numbers);
  }
  for (auto [blocks, together] : llvm::zip(getGrid(), getCluster().value_or(ArrayRef<int64_t>())))
    if (blocks % together)
      return emitOpError("expected a grid of whole clusters, got ")
             << formatList(getGrid()) << " blocks in clusters of " << formatList(*getCluster());
  SmallVector<Type> tensors(getOperandTypes());
  llvm::append_range(tensors, getResultTypes());
  for (auto map :
       getTensorMaps().value_or(ArrayAttr::get(getContext(), {})).getAsRange<TensorMapAttr>()) {
    if (map.getParameter() < 0 || map.getParameter() >= int64_t(tensors.size()))
      return emitOpError("expected a tensor map of one of ")
             << tensors.size() << " tensors, got parameter " << map.getParameter();
    auto tensor = cast<RankedTensorType>(tensors[map.getParameter()]);
    int64_t rank = tensor.getRank(), dims = map.getBox().size();
    bool mayJoin = dims >= 2 && !tensor.getEncoding(); // rows of several dimensions
    if (dims > rank || (dims < rank && !mayJoin))
      return emitOpError("expected a box with the rank of ") << tensor << ", got " << map;
  }
  if (DynamicAttr dynamic = getDynamicAttr())
    for (int64_t number : dynamic.getTensors()) {
      if (number >= int64_t(tensors.size()))
        return emitOpError("expected dynamic tensors among ")
               << tensors.size() << ", got " << number;
      if (failed(verifyRows(*this, dynamic, tensors[number], "tensor " + Twine(number))))
        return failure();
    }
  if (getBeside() && (!getDependent() || *getBeside() < 1))
    return emitOpError("expected 'beside' of a dependent kernel and a positive number, got ")
           << *getBeside();
  if (!getRows())
    return success();
  if (!getDynamic())
    return emitOpError("expected 'rows' of dynamic tensors only, got them without 'dynamic'");
  ArrayRef<int64_t> rows = *getRows();
  if (rows.size() != 2 || rows[0] < 1 || rows[1] < 1)
    return emitOpError("expected two positive numbers for rows, got ") << formatList(rows);
  int64_t parts = llvm::divideCeil(getDynamicAttr().getBound() * rows[0], rows[1]);
  if (getGrid()[0] % parts)
    return emitOpError("expected a grid of ")
           << parts << " equal parts along x, as 'rows' says, got " << getGrid()[0] << " blocks";
  return success();
}
