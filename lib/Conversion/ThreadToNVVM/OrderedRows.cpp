//===- OrderedRows.cpp - whole rows in an order of their own --------------===//

#include "OrderedRows.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mirage::thread;
using arith::CmpIPredicate;

OrderedRows::OrderedRows(Emitter &e, const GlobalTile &tile, const LinearLayout &layout,
                         int64_t columns, Type element, Value base, ArrayRef<Value> offsets,
                         Value when)
    : e(e), layout(layout), element(element), columns(columns), bytes(tile.getElementBytes()),
      width(kVectorBytes / bytes), whole(countWholeColumns(columns, width)) {
  GlobalTile::Access access =
      tile.begin(e, base, offsets, e.threadOffset(layout, 0), /*col=*/e.i32(0));
  origin = access.origin;
  column = e.threadOffset(layout, 1);
  for (int64_t i = 0; i < layout.getNumRegisters(); ++i) {
    int32_t number = layout.getRegister(i).row;
    if (rows.contains(number))
      continue;
    Coord at{number, 0};
    Value start = tile.pointer(e, access, at);
    Value address = LLVM::PtrToIntOp::create(e, e.getI64Type(), start);
    Value low = arith::TruncIOp::create(e, e.getI32Type(), address);
    Value head = e.bitAnd(e.sub(e.i32(0), low), kVectorBytes - 1);
    rows[number] = {start, head, e.both(when, tile.isInside(e, access, at))};
  }
}

OrderedRows::Vector OrderedRows::getVector(int64_t reg) const {
  Coord at = layout.getRegister(reg);
  int64_t last = at.col; // of any thread
  for (ArrayRef<Coord> basis : {layout.getLane(), layout.getWarp()})
    for (Coord vector : basis)
      last += vector.col;
  Vector vector;
  vector.row = &rows.find(at.row)->second;
  vector.first = e.add(column, at.col);
  vector.isEmpty = at.col >= columns;
  vector.isSurelyNot = at.col >= whole;
  if (last >= whole)
    vector.isWhole = e.compare(CmpIPredicate::slt, vector.first, e.i32(whole));
  return vector;
}

Value OrderedRows::addressOf(const Vector &vector) const {
  Value byte = e.add(e.mul(vector.first, bytes), vector.row->head);
  return e.offset(vector.row->start, byte);
}

std::pair<Value, Value> OrderedRows::find(const Vector &vector, int64_t number) const {
  Value place = e.mul(e.add(vector.first, number), bytes);
  Value behind = e.add(place, -whole * bytes);
  Value isBefore = e.compare(CmpIPredicate::slt, behind, vector.row->head);
  Value isThere = e.compare(CmpIPredicate::slt, place, e.i32(columns * bytes));
  return {e.offset(vector.row->start, e.select(isBefore, behind, place)), isThere};
}

Value OrderedRows::hasElements(const Vector &vector) const {
  Value has =
      e.both(vector.row->inside, e.compare(CmpIPredicate::slt, vector.first, e.i32(columns)));
  return e.both(has, e.compare(CmpIPredicate::sge, vector.first, e.i32(whole)));
}

Value OrderedRows::zero(Type type) const {
  return arith::ConstantOp::create(e, cast<TypedAttr>(e.getZeroAttr(type)));
}

SmallVector<Value> OrderedRows::loadElements(const Vector &vector) const {
  SmallVector<Value> none(width, zero(element));
  if (!vector.isWhole || vector.isEmpty)
    return none;
  OpBuilder::InsertionGuard guard(e);
  auto branch = scf::IfOp::create(e, SmallVector<Type>(width, element), hasElements(vector),
                                  /*withElseRegion=*/true);
  e.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(e, none);
  e.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> elements;
  for (int64_t i = 0; i < width; ++i) {
    auto [pointer, isThere] = find(vector, i);
    pointer = e.select(isThere, pointer, vector.row->start);
    Value loaded = LLVM::LoadOp::create(e, element, pointer, bytes);
    elements.push_back(e.select(isThere, loaded, none[i]));
  }
  scf::YieldOp::create(e, elements);
  return SmallVector<Value>(branch.getResults());
}

SmallVector<Value> OrderedRows::loadVector(const Vector &vector, ArrayRef<Value> elements) const {
  if (vector.isSurelyNot)
    return SmallVector<Value>(elements);
  // Elsewhere, the tensor's first elements are read and dropped: no branch.
  Value pointer = addressOf(vector), inside = e.both(vector.row->inside, vector.isWhole);
  if (inside)
    pointer = e.select(inside, pointer, origin);
  Value loaded = LLVM::LoadOp::create(e, VectorType::get({width}, element), pointer, kVectorBytes);
  SmallVector<Value> scalars;
  for (int64_t i = 0; i < width; ++i) {
    Value scalar = e.createOrFold<vector::ExtractOp>(loaded, i);
    scalars.push_back(inside ? e.select(inside, scalar, elements[i]) : scalar);
  }
  return scalars;
}

SmallVector<Value> OrderedRows::load() const {
  // Elements first: their branches end before anything waits for the loads.
  SmallVector<Vector> vectors;
  SmallVector<SmallVector<Value>> elements;
  for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
    vectors.push_back(getVector(i));
    elements.push_back(loadElements(vectors.back()));
  }
  SmallVector<Value> scalars;
  for (auto [vector, single] : llvm::zip_equal(vectors, elements))
    llvm::append_range(scalars, loadVector(vector, single));
  return scalars;
}

void OrderedRows::store(ArrayRef<Value> scalars) const {
  auto type = VectorType::get({width}, element);
  for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
    Vector vector = getVector(i);
    ArrayRef<Value> values = scalars.slice(i, width);
    if (!vector.isSurelyNot)
      e.ifThen(e.both(vector.row->inside, vector.isWhole), [&] {
        Value all = e.createOrFold<vector::FromElementsOp>(type, values);
        LLVM::StoreOp::create(e, all, addressOf(vector), kVectorBytes);
      });
    if (!vector.isWhole || vector.isEmpty)
      continue;
    e.ifThen(hasElements(vector), [&] {
      for (int64_t j = 0; j < width; ++j) {
        std::pair<Value, Value> found = find(vector, j);
        e.ifThen(found.second, [&] { LLVM::StoreOp::create(e, values[j], found.first, bytes); });
      }
    });
  }
}
