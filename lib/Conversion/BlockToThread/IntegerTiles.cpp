//===- IntegerTiles.cpp - exact arithmetic on integers where it is read ---===//

#include "TileEmitter.h"

#include "mirage/Dialect/Common/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mirage;
using block::getMatrix;
using block::getTile;
using block::TileType;
using thread::FragmentType;
using thread::LinearLayout;

/// Loads the part of an operand that the tile needs; it is repeated along the
/// dimensions of the result that the operand lacks.
Value TileEmitter::loadOperand(block::IntegersOp op, unsigned number, const TilePlace &place,
                               FragmentType type) {
  Value tensor = tensors.lookup(op.getInputs()[number]);
  auto memory = cast<MemRefType>(tensor.getType());
  IntegerFormula formula = op.getParsedFormula();
  ArrayRef<int64_t> along = formula.getSteps()[number].args;
  // Leading dimensions that the parameter, and the result, have beyond those of the formula.
  int64_t added = memory.getRank() - int64_t(along.size());
  int64_t addedToResult = int64_t(place.offsets.size()) - int64_t(op.getShape().size());
  SmallVector<Value> offsets(memory.getRank(), index(0));
  TilePlace own = place;
  own.dims = {-1, -1};
  for (auto [dim, result] : llvm::enumerate(along)) {
    if (result < 0)
      continue;
    offsets[added + int64_t(dim)] = place.offsets[addedToResult + result];
    for (int64_t axis : {0, 1})
      if (place.dims[axis] == addedToResult + result)
        own.dims[axis] = added + int64_t(dim);
  }
  LinearLayout layout = type.getLinearLayout();
  for (int64_t axis : {0, 1}) {
    if (own.dims[axis] >= 0)
      continue;
    own.inBounds[axis] = true;
    if (layout.getExtent(axis) > 1)
      layout = layout.reduce(axis);
    if (!own.extents.empty())
      own.extents[axis] = 1;
  }
  Type element = cast<RankedTensorType>(op.getInputs()[number].getType()).getElementType();
  Type held = element.isInteger() ? builder.getI64Type() : getTileElement(element);
  Value loaded = thread::LoadGlobalOp::create(
      builder, loc, FragmentType::get(held, layout), tensor, offsets, own.dims, own.inBounds,
      own.extents.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(own.extents),
      own.when);
  if (!element.isInteger())
    loaded = castTo(loaded, builder.getF32Type());
  return broadcastTo(loaded,
                     type.withElementType(cast<FragmentType>(loaded.getType()).getElementType()));
}

/// Positions along a dimension of the result.
Value TileEmitter::emitPosition(int64_t dim, const TilePlace &place, FragmentType type) {
  FragmentType integers = type.withElementType(builder.getI64Type());
  for (int64_t axis : {0, 1})
    if (place.dims[axis] == dim)
      return thread::IotaOp::create(builder, loc, integers, builder.getI64IntegerAttr(axis),
                                    place.offsets[dim]);
  // The tile has one index.
  Value at = arith::IndexCastOp::create(builder, loc, builder.getI64Type(), place.offsets[dim]);
  return thread::SplatOp::create(builder, loc, integers, at);
}

/// Overwrites the elements outside of the tensor of `shape`, or of the tile,
/// with zeros, like a load.
Value TileEmitter::withZerosBeyond(Value fragment, const TilePlace &place,
                                   ArrayRef<int64_t> shape) {
  auto mask = [&](int64_t axis, Value offset, int64_t extent) {
    fragment = thread::MaskOp::create(
        builder, loc, fragment.getType(), fragment, builder.getI64IntegerAttr(axis), offset,
        builder.getI64IntegerAttr(extent), builder.getF64FloatAttr(0));
  };
  for (int64_t axis : {0, 1}) {
    int64_t dim = place.dims[axis];
    if (!place.inBounds[axis])
      mask(axis, place.offsets[dim], shape[dim]);
    int64_t held = cast<FragmentType>(fragment.getType()).getShape()[axis];
    if (!place.extents.empty() && place.extents[axis] < held)
      mask(axis, index(0), place.extents[axis]);
  }
  return fragment;
}

void TileEmitter::emitIntegers(block::IntegersOp op) {
  FragmentType type = typeOf(op.getResult());
  // Tensors have at least two dimensions here.
  SmallVector<int64_t> shape(op.getShape());
  while (shape.size() < 2)
    shape.insert(shape.begin(), 1);
  SmallVector<int64_t> shapes(getTile(getMatrix(op.getResult())).getShape());
  llvm::append_range(shapes, ArrayRef<int64_t>{type.getRows(), type.getCols()});
  TilePlace place = getTilePlace(Value(), MemRefType::get(shape, type.getElementType()),
                                 op.getMap(), cast<TileType>(op.getResult().getType()), shapes);
  // Nothing is read for a tile without rows inside: if another dimension ends,
  // its rows begin at their end, too, but operands need not have rows.
  if (!place.inBounds[0])
    place.when = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                       place.offsets[place.dims[0]], index(shape[place.dims[0]]));
  IntegerFormula formula = op.getParsedFormula();
  SmallVector<Value> operands, tables;
  for (auto [number, input] : llvm::enumerate(op.getInputs()))
    if (formula.isTable(number))
      tables.push_back(tensors.lookup(input));
    else
      operands.push_back(loadOperand(op, number, place, type));
  int64_t added = int64_t(shape.size() - op.getShape().size());
  for (int64_t dim : formula.getPositions())
    operands.push_back(emitPosition(added + dim, place, type));
  bool isExact = type.getElementType().isInteger();
  FragmentType computed = isExact ? type : type.withElementType(builder.getF32Type());
  Value result =
      thread::IntegersOp::create(builder, loc, computed, operands, tables, op.getFormulaAttr());
  fragments[op.getResult()] = castTo(withZerosBeyond(result, place, shape), type.getElementType());
}

void TileEmitter::emitMapIntegers(block::MapIntegersOp op) {
  FragmentType type = typeOf(op.getResult());
  SmallVector<Value> operands;
  for (Value input : op.getInputs())
    operands.push_back(getOperand(input, type.withElementType(getTile(input).getElementType())));
  bool isExact = type.getElementType().isInteger();
  FragmentType computed = isExact ? type : type.withElementType(builder.getF32Type());
  Value result = thread::IntegersOp::create(builder, loc, computed, operands, ValueRange(),
                                            op.getFormulaAttr());
  fragments[op.getResult()] = castTo(result, type.getElementType());
}
