//===- Gather.cpp - rows of a table to registers --------------------------===//

#include "GlobalAccess.h"
#include "Patterns.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mirage::thread;

namespace {
/// Row-major strides of a shape, in elements.
SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

/// The row that an index names.
struct Row {
  Value pointer; // to its first element; to the table's where there is none
  Value exists;  // i1
};

struct GatherGlobalLowering : ThreadPattern<GatherGlobalOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(GatherGlobalOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType type = op.getType();
    const LinearLayout &layout = type.getLinearLayout();
    Type element = type.getElementType();
    MemRefType gathered = op.getGatheredType();
    // Rows of the table lie as they would in the tensor that the op stands for, so
    // what is aligned and contiguous there is so here.
    GlobalTile tile(op, gathered, op.getDims(), op.getInBounds(), type.getShape(), op.getExtents());
    int64_t indexRank = op.getIndexRank(), axis = 1, width = 1;
    if (op.getDims()[1] >= indexRank)
      width = tile.getVectorWidth(axis, layout.contiguous(axis));
    Value table = single(operands.getTable()), indices = single(operands.getIndices());
    SmallVector<Value> offsets;
    for (ValueRange offset : operands.getOffsets())
      offsets.push_back(e.toI64(single(offset)));
    Value thread[2] = {e.threadOffset(layout, 0), e.threadOffset(layout, 1)};
    for (int64_t which : {0, 1})
      if (int64_t dim = op.getDims()[which]; dim >= 0)
        offsets[dim] =
            e.add(offsets[dim], e.createOrFold<arith::ExtUIOp>(e.getI64Type(), thread[which]));
    GlobalTile::Access access = tile.begin(
        e, table, llvm::map_to_vector(operands.getOffsets(), single), thread[0], thread[1]);

    SmallVector<int64_t> indexStrides = getStrides(gathered.getShape().take_front(indexRank)),
                         strides = getStrides(gathered.getShape());
    auto sum = [&](int64_t first, int64_t last, ArrayRef<int64_t> by, Coord at) {
      Value elements = e.i64(0);
      for (int64_t dim = first; dim < last; ++dim) {
        int64_t own = 0;
        for (int64_t which : {0, 1})
          own += op.getDims()[which] == dim ? at[which] : 0;
        elements = e.add(elements, e.mul(e.add(offsets[dim], own), by[dim]));
      }
      return elements;
    };
    MemRefType indexType = op.getIndices().getType();
    int64_t indexBytes = indexType.getElementTypeBitWidth() / 8,
            rowElements = indexRank == 0 ? 1 : strides[indexRank - 1],
            rows = op.getTable().getType().getShape().front();
    // Registers that differ in the table's dimensions alone read one row.
    std::map<std::pair<int64_t, int64_t>, Row> known;
    auto getRow = [&](Coord at, Value inside) {
      auto part = [&](int64_t which) {
        int64_t dim = op.getDims()[which];
        return dim >= 0 && dim < indexRank ? at[which] : int64_t(0);
      };
      bool isChecked = inside != nullptr;
      auto key = std::make_pair(part(0), part(1));
      auto found = known.find(key);
      if (found != known.end() && !isChecked)
        return found->second;
      Value pointer = e.offset(indices, e.mul(sum(0, indexRank, indexStrides, at), indexBytes));
      if (isChecked)
        pointer = e.select(inside, pointer, indices);
      Value index = LLVM::LoadOp::create(e, indexType.getElementType(), pointer, indexBytes);
      if (indexBytes == 4)
        index = e.createOrFold<arith::ExtSIOp>(e.getI64Type(), index);
      // Negative ones are large without a sign.
      Value exists = e.compare(arith::CmpIPredicate::ult, index, e.i64(rows));
      Value row = e.select(exists, index, e.i64(0));
      Row result{e.offset(table, e.mul(row, rowElements * tile.getElementBytes())), exists};
      if (!isChecked)
        known[key] = result;
      return result;
    };

    Type accessType = width == 1 ? element : VectorType::get({width}, element);
    auto filled = [&](double value) -> Value {
      auto scalar = cast<TypedAttr>(e.getFloatAttr(element, value));
      if (width == 1)
        return arith::ConstantOp::create(e, scalar);
      return arith::ConstantOp::create(e, cast<TypedAttr>(DenseElementsAttr::get(
                                              cast<VectorType>(accessType), Attribute(scalar))));
    };
    Value none = filled(NAN), zero = filled(0);
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
      Coord at = layout.getRegister(i);
      Value inside = tile.isInside(e, access, at);
      Row row = getRow(at, inside);
      Value elements = sum(indexRank, gathered.getRank(), strides, at);
      if (inside)
        elements = e.select(inside, elements, e.i64(0));
      Value pointer = e.offset(row.pointer, e.mul(elements, tile.getElementBytes()));
      Value loaded = LLVM::LoadOp::create(e, accessType, pointer, width * tile.getElementBytes());
      loaded = e.select(row.exists, loaded, none);
      if (inside)
        loaded = e.select(inside, loaded, zero);
      if (width == 1) {
        scalars.push_back(loaded);
        continue;
      }
      for (int64_t j = 0; j < width; ++j)
        scalars.push_back(e.createOrFold<vector::ExtractOp>(loaded, j));
    }
    results.push_back(pack(e, type, scalars));
    return success();
  }
};
} // namespace

void mirage::thread::populateGatherPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<GatherGlobalLowering>(converter, patterns.getContext());
}
