//===- BlockOps.cpp - verifiers of tile ops -------------------------------===//

#include "BlockAssembly.h"

#include "mirage/Dialect/Block/IR/Block.h"
#include "mirage/Dialect/Common/Assembly.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Common/Shapes.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

unsigned mirage::block::getAlignedDim(Operation *op, unsigned operand, unsigned dim) {
  auto rankOf = [](Value value) { return cast<TileType>(value.getType()).getRank(); };
  return dim + rankOf(op->getResult(0)) - rankOf(op->getOperand(operand));
}

#define GET_OP_CLASSES
#include "mirage/Dialect/Block/IR/BlockOps.cpp.inc"

namespace {

TileType tileOf(Value value) { return cast<TileType>(value.getType()); }
ArrayRef<int64_t> shapeOf(Value value) { return tileOf(value).getShape(); }

LogicalResult verifyElementType(Operation *op, Type expected) {
  Type actual = tileOf(op->getResult(0)).getElementType();
  if (expected == actual)
    return success();
  return op->emitOpError("expected a result of element type ") << expected << ", got " << actual;
}

/// Only totals, formulas and ops that move elements accept exact integers.
LogicalResult verifyFloats(Operation *op) {
  for (Value operand : op->getOperands())
    if (tileOf(operand).getElementType().isInteger())
      return op->emitOpError("expected tiles of floats, got ")
             << operand.getType() << ", of which there are only totals and formulas";
  return success();
}

/// A tile that is read has the type in which tiles hold the tensor, or exact integers.
LogicalResult verifyReadType(Operation *op, Type element) {
  Type actual = tileOf(op->getResult(0)).getElementType();
  bool isNumber = element.isInteger() && !element.isInteger(1);
  if (isNumber && actual.isInteger(64))
    return success();
  return verifyElementType(op, getTileElement(element));
}

/// Computation gives f32, or f64 if an operand is f64.
LogicalResult verifyComputedType(Operation *op) {
  if (failed(verifyFloats(op)))
    return failure();
  for (Value operand : op->getOperands())
    if (tileOf(operand).getElementType().isF64())
      return verifyElementType(op, Float64Type::get(op->getContext()));
  return verifyElementType(op, Float32Type::get(op->getContext()));
}

/// The same for totals, which also accept exact integers.
LogicalResult verifyTotalType(Operation *op) {
  Type element = tileOf(op->getOperand(0)).getElementType();
  return element.isInteger() ? verifyElementType(op, element) : verifyComputedType(op);
}

LogicalResult verifyKeptType(Operation *op) {
  return verifyElementType(op, tileOf(op->getOperand(0)).getElementType());
}

/// Extent of the grid or loop axis `name` that is visible from `op`, or nullopt.
std::optional<int64_t> axisExtent(Operation *op, StringRef name) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp()) {
    if (auto loop = dyn_cast<LoopOp>(parent); loop && loop.getAxis() == name)
      return loop.getExtent();
    if (auto launch = dyn_cast<kernel::LaunchOp>(parent))
      return launch.getGridExtent(name);
  }
  return std::nullopt;
}

/// Number of parts that `axes` make; errors for unknown axes and ones in `seen`.
FailureOr<int64_t> countParts(Operation *op, ArrayAttr axes, llvm::StringSet<> &seen) {
  int64_t parts = 1;
  for (Attribute axis : axes) {
    StringRef name = cast<StringAttr>(axis).getValue();
    auto extent = axisExtent(op, name);
    if (!extent)
      return op->emitOpError("expected axes of the grid or of a loop around, got '") << name << "'";
    if (!seen.insert(name).second)
      return op->emitOpError("expected each axis at most once in a map, got '")
             << name << "' twice";
    parts *= *extent;
  }
  return parts;
}

/// The rule of maps: the parts cover the tensor.
LogicalResult verifyMap(Operation *op, ArrayAttr map, RankedTensorType tensor, TileType tile) {
  int64_t rank = tensor.getRank();
  if (static_cast<int64_t>(map.size()) != rank || tile.getRank() != rank)
    return op->emitOpError("expected a map and a tile of the tensor's rank ")
           << rank << ", got " << map.size() << " and " << tile.getRank();
  llvm::StringSet<> seen;
  for (int64_t dim = 0; dim < rank; ++dim) {
    FailureOr<int64_t> parts = countParts(op, cast<ArrayAttr>(map[dim]), seen);
    if (failed(parts))
      return failure();
    int64_t size = tensor.getDimSize(dim), part = tile.getShape()[dim];
    if (*parts * part < size)
      return op->emitOpError("expected the parts to cover dimension ")
             << dim << " of size " << size << ", got " << *parts << " parts of " << part;
    // One part may hang over the end: instructions of warpgroups have 64 rows.
    if (part > size && *parts > 1)
      return op->emitOpError("expected a tile of at most ")
             << size << " along dimension " << dim << ", got " << part;
  }
  return success();
}

} // namespace

//===----------------------------------------------------------------------===//
// Between device tensors and tiles
//===----------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  auto tensor = cast<RankedTensorType>(getSource().getType());
  if (failed(verifyMap(*this, getMap(), tensor, tileOf(getResult()))))
    return failure();
  return verifyReadType(*this, tensor.getElementType());
}

LogicalResult IotaOp::verify() {
  TileType tile = tileOf(getResult());
  if (static_cast<int64_t>(getDim()) >= tile.getRank())
    return emitOpError("expected a dimension below ") << tile.getRank() << ", got " << getDim();
  llvm::StringSet<> seen;
  FailureOr<int64_t> parts = countParts(*this, getAxes(), seen);
  if (failed(parts))
    return failure();
  int64_t part = tile.getShape()[getDim()], extent = getExtent();
  if (*parts * part < extent)
    return emitOpError("expected the parts to cover ")
           << extent << " positions, got " << *parts << " parts of " << part;
  if (extent > (int64_t(1) << 24))
    return emitOpError("expected at most 2^24 positions, which f32 holds exactly, got ") << extent;
  return verifyElementType(*this, Float32Type::get(getContext()));
}

RankedTensorType GatherOp::getGatheredType() {
  auto table = cast<RankedTensorType>(getTable().getType());
  Shape shape(cast<RankedTensorType>(getIndices().getType()).getShape());
  llvm::append_range(shape, table.getShape().drop_front());
  return RankedTensorType::get(shape, table.getElementType());
}

LogicalResult GatherOp::verify() {
  int64_t rank = cast<RankedTensorType>(getTable().getType()).getRank();
  if (rank < 2 || cast<RankedTensorType>(getIndices().getType()).getRank() < 1)
    return emitOpError("expected a table of rank 2 or more and indices of rank 1 or more, got ")
           << getTable().getType() << " and " << getIndices().getType();
  RankedTensorType gathered = getGatheredType();
  if (failed(verifyMap(*this, getMap(), gathered, tileOf(getResult()))))
    return failure();
  return verifyElementType(*this, gathered.getElementType());
}

IntegerFormula IntegersOp::getParsedFormula() {
  return *IntegerFormula::parse([&] { return emitOpError(); }, getFormula());
}

RankedTensorType IntegersOp::getComputedType() {
  return RankedTensorType::get(getShape(), getParsedFormula().getSteps().back().type);
}

LogicalResult IntegersOp::verify() {
  auto error = [&] { return emitOpError(); };
  FailureOr<IntegerFormula> formula = IntegerFormula::parse(error, getFormula());
  if (failed(formula))
    return failure();
  Type element = formula->getSteps().back().type;
  if (failed(formula->verify(error, getInputs().getTypes(), getShape(), element)))
    return failure();
  TileType tile = tileOf(getResult());
  if (failed(verifyMap(*this, getMap(), RankedTensorType::get(getShape(), element), tile)))
    return failure();
  return verifyReadType(*this, element);
}

LogicalResult ScalarOp::verify() {
  constexpr int64_t mostElements = 128, largest = int64_t(1) << 31;
  auto tensor = cast<RankedTensorType>(getSource().getType());
  int64_t rank = tensor.getRank(), elements = 1;
  if (int64_t(getMap().size()) != rank || int64_t(getTile().size()) != rank)
    return emitOpError("expected a map and a part of the tensor's rank ")
           << rank << ", got " << getMap().size() << " and " << getTile().size();
  llvm::StringSet<> seen;
  for (int64_t dim = 0; dim < rank; ++dim) {
    FailureOr<int64_t> parts = countParts(*this, cast<ArrayAttr>(getMap()[dim]), seen);
    if (failed(parts))
      return failure();
    int64_t size = tensor.getDimSize(dim), part = getTile()[dim];
    if (part < 1 || *parts * part != size)
      return emitOpError("expected parts that cover dimension ")
             << dim << " of size " << size << " without overhang, got " << *parts << " parts of "
             << part;
    elements *= part;
  }
  if (elements > mostElements)
    return emitOpError("expected a part of at most ")
           << mostElements << " elements, got " << elements;
  int64_t least = getLeast(), most = getMost();
  if (least > most || least < -largest || most > largest)
    return emitOpError("expected bounds in order, from -2^31 to 2^31, got [")
           << least << ", " << most << "]";
  return success();
}

LogicalResult StoreOp::verify() {
  auto launch = cast<kernel::LaunchOp>((*this)->getParentOp());
  if (getTiles().size() != launch.getNumResults() || getMaps().size() != launch.getNumResults())
    return emitOpError("expected one tile with a map for each of the ")
           << launch.getNumResults() << " results of the launch, got " << getTiles().size();
  for (auto [tile, map, result] : llvm::zip(getTiles(), getMaps(), launch.getResults())) {
    auto tensor = cast<RankedTensorType>(result.getType());
    if (failed(verifyMap(*this, cast<ArrayAttr>(map), tensor, tileOf(tile))))
      return failure();
    bool isNumber = tensor.getElementType().isInteger() && !tensor.getElementType().isInteger(1);
    if (tileOf(tile).getElementType().isInteger() && !isNumber)
      return emitOpError("expected a tile of i64 to be stored to a tensor of integers, got ")
             << tensor;
  }
  // Axis names are unique in a launch; checked here since a launch has one store.
  llvm::StringSet<> names;
  for (Attribute axis : launch.getGridNames())
    names.insert(cast<StringAttr>(axis).getValue());
  WalkResult walk = launch.walk([&](LoopOp loop) {
    if (names.insert(loop.getAxis()).second)
      return WalkResult::advance();
    loop.emitOpError("expected an axis name that is unique in the launch, got '")
        << loop.getAxis() << "'";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Computation on tiles
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  if (!shapeOf(getResult()).empty())
    return emitOpError("expected a tile of rank 0, got ") << formatShape(shapeOf(getResult()));
  return success();
}

LogicalResult UnaryOp::verify() {
  if (failed(verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyComputedType(*this);
}

LogicalResult BinaryOp::verify() {
  if (failed(verifyBinary(*this, shapeOf(getLhs()), shapeOf(getRhs()), shapeOf(getResult()))))
    return failure();
  return verifyComputedType(*this);
}

IntegerFormula MapIntegersOp::getParsedFormula() {
  return *IntegerFormula::parse([&] { return emitOpError(); }, getFormula());
}

LogicalResult MapIntegersOp::verify() {
  FailureOr<IntegerFormula> formula =
      IntegerFormula::parse([&] { return emitOpError(); }, getFormula());
  if (failed(formula))
    return failure();
  if (formula->countOperands() != int64_t(getInputs().size()) || !formula->getPositions().empty())
    return emitOpError("expected one load for each of the ")
           << getInputs().size() << " operands and no positions, got " << formula->countOperands()
           << " and " << formula->getPositions().size();
  for (auto [input, step] : llvm::zip(getInputs(), formula->getSteps())) {
    Type element = tileOf(input).getElementType();
    if (!step.args.empty() || !(element.isInteger() || element.isF32()))
      return emitOpError("expected loads without dimensions, of tiles of i64 or f32, got ")
             << input.getType();
    auto shape = broadcastShapes(shapeOf(input), shapeOf(getResult()));
    if (!shape || ArrayRef<int64_t>(*shape) != shapeOf(getResult()))
      return emitOpError("expected operands that broadcast to ")
             << formatShape(shapeOf(getResult())) << ", got " << formatShape(shapeOf(input));
  }
  return verifyReadType(*this, formula->getSteps().back().type);
}

LogicalResult CastOp::verify() {
  if (failed(verifyFloats(*this)))
    return failure();
  return verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()));
}

LogicalResult MatmulOp::verify() {
  if (failed(verifyMatmul(*this, shapeOf(getLhs()), shapeOf(getRhs()), shapeOf(getResult()))))
    return failure();
  for (Value factor : {getLhs(), getRhs()})
    if (getTf32() && !cast<TileType>(factor.getType()).getElementType().isF32())
      return emitOpError("expected factors of f32 to be rounded to TF32, got ") << factor.getType();
  return verifyComputedType(*this);
}

LogicalResult ReduceOp::verify() {
  if (failed(verifyReduce(*this, shapeOf(getInput()), getDims(), shapeOf(getResult()))))
    return failure();
  return verifyTotalType(*this);
}

StringRef ClusterReduceOp::getAxis() { return cast<StringAttr>(getAxes()[0]).getValue(); }

LogicalResult ClusterReduceOp::verify() {
  auto launch = dyn_cast<kernel::LaunchOp>((*this)->getParentOp());
  if (!launch)
    return emitOpError("expected to be in the body of kernel.launch, outside of loops");
  if (getAxes().size() != 1)
    return emitOpError("expected one axis, got ") << getAxes().size();
  std::optional<int64_t> blocks = launch.getGridExtent(getAxis());
  if (!blocks)
    return emitOpError("expected an axis of the grid, got '") << getAxis() << "'";
  if (auto schedule = launch.getSchedule();
      schedule && (schedule->usesWarpgroups() || schedule->getCluster() != *blocks))
    return emitOpError("expected a schedule with engine = warp and clusters of the ")
           << *blocks << " blocks along '" << getAxis() << "', got " << *schedule;
  if (getRescale() && getFn() != ReduceFn::Sum)
    return emitOpError("expected a sum to rescale, got a maximum");
  if (getRescale()) {
    if (failed(verifyFloats(*this)))
      return failure();
    auto shape = broadcastShapes(shapeOf(getRescale()), shapeOf(getInput()));
    if (tileOf(getRescale()).getElementType() != tileOf(getInput()).getElementType())
      return emitOpError("expected a maximum of the sum's element type, got ")
             << getRescale().getType() << " for " << getInput().getType();
    if (!shape || ArrayRef<int64_t>(*shape) != shapeOf(getInput()))
      return emitOpError("expected a maximum that broadcasts to ")
             << formatShape(shapeOf(getInput())) << ", got " << formatShape(shapeOf(getRescale()));
  }
  return verifyTotalType(*this);
}

LogicalResult CumulateOp::verify() {
  if (failed(verifyCumulate(*this, shapeOf(getInput()), getDim(), shapeOf(getResult()))))
    return failure();
  return verifyTotalType(*this);
}

LogicalResult ArgsortOp::verify() {
  if (failed(verifyCumulate(*this, shapeOf(getInput()), getDim(), shapeOf(getResult()))))
    return failure();
  Type element = tileOf(getInput()).getElementType();
  if (!element.isF32() && !element.isInteger(64))
    return emitOpError("expected elements of type f32 or i64, got ") << element;
  return verifyElementType(*this, IntegerType::get(getContext(), 64));
}

LogicalResult TransposeOp::verify() {
  if (failed(verifyTranspose(*this, shapeOf(getInput()), getPermutation(), shapeOf(getResult()))))
    return failure();
  return verifyKeptType(*this);
}

LogicalResult ReshapeOp::verify() {
  auto squeeze = [](ArrayRef<int64_t> shape) {
    Shape kept;
    llvm::copy_if(shape, std::back_inserter(kept), [](int64_t size) { return size != 1; });
    return kept;
  };
  if (squeeze(shapeOf(getInput())) != squeeze(shapeOf(getResult())))
    return emitOpError("expected shapes that differ in dimensions of size 1 only, got ")
           << formatShape(shapeOf(getInput())) << " and " << formatShape(shapeOf(getResult()));
  return verifyKeptType(*this);
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifyBroadcast(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyKeptType(*this);
}

LogicalResult ConvertLayoutOp::verify() {
  if (failed(verifySameShape(*this, shapeOf(getInput()), shapeOf(getResult()))))
    return failure();
  return verifyKeptType(*this);
}

LogicalResult MaskOp::verify() {
  if (static_cast<int64_t>(getDim()) >= tileOf(getInput()).getRank())
    return emitOpError("expected a dimension below ")
           << tileOf(getInput()).getRank() << ", got " << getDim();
  llvm::StringSet<> seen;
  return countParts(*this, getAxes(), seen);
}
