//===- PlacedStores.cpp - results that are rows of other tensors ----------===//

#include "TileEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mirage;
using block::getTile;
using block::TileType;

MemRefType mirage::getPlacedType(kernel::PlaceAttr place, Type element) {
  MLIRContext *context = place.getContext();
  SmallVector<int64_t> shape(place.getShape()), steps(place.getSteps());
  // Results have at least two dimensions, like any parameter.
  for (size_t rank = place.getDigits().size(); rank < 2; ++rank) {
    shape.insert(shape.begin() + 1, 1);
    steps.insert(steps.begin() + 1, shape.front() * steps.front());
  }
  return MemRefType::get(shape, element, StridedLayoutAttr::get(context, place.getOffset(), steps));
}

LogicalResult mirage::checkPlaces(kernel::LaunchOp launch) {
  if (!launch.getPlaces())
    return success();
  auto store = cast<block::StoreOp>(launch.getBody().front().getTerminator());
  for (auto place : launch.getPlaces()->getAsRange<kernel::PlaceAttr>()) {
    unsigned number = place.getResult();
    bool splits = llvm::any_of(place.getDigits(), [](int64_t count) { return count > 1; });
    if (!splits)
      continue;
    // Digits of a position that is outside of the result are inside of the tensor.
    auto map = cast<ArrayAttr>(store.getMaps()[number]);
    ArrayRef<int64_t> tile = getTile(store.getTiles()[number]).getShape();
    auto tensor = cast<RankedTensorType>(launch.getResult(number).getType());
    size_t next = 1;
    for (auto [dim, digits] : llvm::enumerate(place.getDigits())) {
      int64_t parts = 1;
      for (Attribute axis : cast<ArrayAttr>(map[dim]))
        parts *= *launch.getGridExtent(cast<StringAttr>(axis).getValue());
      next += digits;
      int64_t last = place.getShape()[next - 1];
      if (parts * tile[dim] != tensor.getDimSize(dim) || (digits > 1 && last % tile[dim]))
        return launch.emitOpError("expected tiles that cut a result into whole parts of its place, "
                                  "got tiles of ")
               << tile[dim] << " elements along dimension " << dim << " of " << tensor << " in "
               << place;
    }
  }
  return success();
}

/// The indices are read before there are roles and loops.
void TileEmitter::emitPlacedRows() {
  if (!launch.getPlaces())
    return;
  for (auto place : launch.getPlaces()->getAsRange<kernel::PlaceAttr>()) {
    Value tensor = tensors.lookup(launch.getBody().getArgument(place.getIndex()));
    int64_t rank = cast<MemRefType>(tensor.getType()).getRank();
    Value found = memref::LoadOp::create(builder, loc, tensor, SmallVector<Value>(rank, index(0)));
    if (!found.getType().isInteger(64))
      found = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), found);
    // Negative ones are large as unsigned numbers.
    Value rows = arith::ConstantIntOp::create(builder, loc, place.getShape().front(), 64);
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, found, rows);
    Value row = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), found);
    // Elements that are not stored also have an address within the tensor.
    row = arith::SelectOp::create(builder, loc, exists, row, index(0));
    placedRows[place.getResult()] = {row, exists};
  }
}

/// The tile of a result in the tensor to which it is stored.
TilePlace TileEmitter::getPlacedTile(unsigned result, ArrayAttr map, TileType tile,
                                     ArrayRef<int64_t> holderShape) {
  kernel::PlaceAttr place = launch.getPlace(result);
  auto type = cast<RankedTensorType>(launch.getResult(result).getType());
  SmallVector<int64_t> shape(type.getShape());
  while (shape.size() < 2)
    shape.insert(shape.begin(), 1);
  TilePlace dense = getTilePlace(outputs[result], MemRefType::get(shape, type.getElementType()),
                                 map, tile, holderShape);
  TilePlace placed = dense;
  placed.offsets = {placedRows.lookup(result).row};
  placed.when = placedRows.lookup(result).exists;
  auto addOffset = [&](Value offset, int64_t dim) {
    for (auto [axis, own] : llvm::enumerate(dense.dims))
      if (own == dim)
        placed.dims[axis] = placed.offsets.size();
    placed.offsets.push_back(offset);
  };
  int64_t missing = int64_t(shape.size()) - type.getRank();
  for (int64_t dim = 0; dim < missing; ++dim)
    addOffset(index(0), dim);
  size_t next = 1;
  for (auto [dim, digits] : llvm::enumerate(place.getDigits())) {
    Value rest = dense.offsets[missing + dim];
    SmallVector<Value> found; // the last digit first
    for (int64_t digit = digits - 1; digit > 0; --digit) {
      Value extent = index(place.getShape()[next + digit]);
      found.push_back(arith::RemUIOp::create(builder, loc, rest, extent));
      rest = arith::DivUIOp::create(builder, loc, rest, extent);
    }
    found.push_back(rest);
    next += digits;
    for (Value offset : llvm::drop_end(llvm::reverse(found)))
      addOffset(offset, -1);
    addOffset(found.front(), missing + dim);
  }
  return placed;
}
