//===- Gather.cpp - rows of a table by index, in registers ----------------===//

#include "GlobalAccess.h"
#include "Patterns.h"
#include "TableRows.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mirage::thread;

namespace {
/// The elements of a gathered tile that one thread holds in registers.
class GatheredElements {
public:
  GatheredElements(GatherGlobalOp op, Emitter &e, Value table, Value indices,
                   ArrayRef<Value> tileOffsets)
      : op(op), e(e), table(table), indices(indices), gathered(op.getGatheredType()),
        layout(op.getType().getLinearLayout()), indexRank(op.getIndexRank()),
        // Rows of the table have the same layout as in the tensor that the op represents, so
        // alignment and contiguity there also hold here.
        tile(op, gathered, op.getDims(), op.getInBounds(), op.getType().getShape(),
             op.getExtents()) {
    for (Value offset : tileOffsets)
      offsets.push_back(e.toI64(offset));
    Value thread[2] = {e.threadOffset(layout, 0), e.threadOffset(layout, 1)};
    for (int64_t which : {0, 1})
      if (int64_t dim = op.getDims()[which]; dim >= 0)
        offsets[dim] =
            e.add(offsets[dim], e.createOrFold<arith::ExtUIOp>(e.getI64Type(), thread[which]));
    access = tile.begin(e, table, tileOffsets, thread[0], thread[1]);
    int64_t axis = 1;
    if (op.getDims()[axis] >= indexRank)
      width = tile.getVectorWidth(axis, layout.contiguous(axis));
    none = fill(NAN);
    zero = fill(0);
  }

  /// One scalar for each register.
  SmallVector<Value> load() {
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width) {
      Value loaded = loadFrom(layout.getRegister(i));
      if (width == 1) {
        scalars.push_back(loaded);
        continue;
      }
      for (int64_t j = 0; j < width; ++j)
        scalars.push_back(e.createOrFold<vector::ExtractOp>(loaded, j));
    }
    return scalars;
  }

private:
  /// The elements that one access reads.
  Type getAccessType() const {
    Type element = gathered.getElementType();
    return width == 1 ? element : VectorType::get({width}, element);
  }

  /// The same number in all elements of an access.
  Value fill(double value) {
    auto scalar = cast<TypedAttr>(e.getFloatAttr(gathered.getElementType(), value));
    if (width == 1)
      return arith::ConstantOp::create(e, scalar);
    return arith::ConstantOp::create(e, cast<TypedAttr>(DenseElementsAttr::get(
                                            cast<VectorType>(getAccessType()), Attribute(scalar))));
  }

  /// One access: zero outside of the tensor, NaN where the index names no row.
  Value loadFrom(Coord at) {
    Value inside = tile.isInside(e, access, at);
    Row row = getRow(at, inside);
    Value elements = getDistance(at, indexRank, getStrides(gathered.getShape()));
    if (inside)
      elements = e.select(inside, elements, e.i64(0));
    int64_t bytes = tile.getElementBytes();
    Value pointer = e.offset(row.pointer, e.mul(elements, bytes));
    Value loaded = LLVM::LoadOp::create(e, getAccessType(), pointer, width * bytes);
    loaded = e.select(row.exists, loaded, none);
    return inside ? e.select(inside, loaded, zero) : loaded;
  }

  /// The row of an element. Registers that differ only in the table's dimensions read one row.
  Row getRow(Coord at, Value inside) {
    auto part = [&](int64_t which) {
      int64_t dim = op.getDims()[which];
      return dim >= 0 && dim < indexRank ? at[which] : int64_t(0);
    };
    auto key = std::make_pair(part(0), part(1));
    if (auto found = known.find(key); found != known.end() && !inside)
      return found->second;
    MemRefType indexType = op.getIndices().getType();
    Value distance = getDistance(at, 0, getStrides(gathered.getShape().take_front(indexRank)));
    Value pointer = e.offset(indices, e.mul(distance, indexType.getElementTypeBitWidth() / 8));
    if (inside)
      pointer = e.select(inside, pointer, indices);
    Row row =
        rowOf(e, readIndex(e, indexType, pointer), op.getTable().getType(), table, op.getFromEnd());
    if (!inside)
      known[key] = row;
    return row;
  }

  /// Elements from the first one to that of a register, along the dimensions from `first` on that
  /// have a stride.
  Value getDistance(Coord at, int64_t first, ArrayRef<int64_t> strides) {
    Value elements = e.i64(0);
    for (int64_t dim = first, last = strides.size(); dim < last; ++dim) {
      int64_t own = 0;
      for (int64_t which : {0, 1})
        own += op.getDims()[which] == dim ? at[which] : 0;
      elements = e.add(elements, e.mul(e.add(offsets[dim], own), strides[dim]));
    }
    return elements;
  }

  GatherGlobalOp op;
  Emitter &e;
  Value table, indices;
  MemRefType gathered;
  const LinearLayout &layout;
  int64_t indexRank;
  GlobalTile tile;
  SmallVector<Value> offsets; // of this thread's elements, but for their registers
  GlobalTile::Access access;
  int64_t width = 1; // elements of an access
  Value none, zero;
  std::map<std::pair<int64_t, int64_t>, Row> known;
};

struct GatherGlobalLowering : ThreadPattern<GatherGlobalOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(GatherGlobalOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    GatheredElements elements(op, e, single(operands.getTable()), single(operands.getIndices()),
                              llvm::map_to_vector(operands.getOffsets(), single));
    results.push_back(pack(e, op.getType(), elements.load()));
    return success();
  }
};
} // namespace

void mirage::thread::populateGatherPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<GatherGlobalLowering>(converter, patterns.getContext());
}
