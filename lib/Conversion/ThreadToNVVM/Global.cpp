//===- Global.cpp - fragments from and to device memory -------------------===//

#include "EightBits.h"
#include "GlobalAccess.h"
#include "OrderedRows.h"
#include "Patterns.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
/// The axis along which a fragment is accessed, and how many registers at once.
struct Width {
  int64_t axis = 1, elements = 1;
};

Width chooseWidth(const GlobalTile &tile, const LinearLayout &layout) {
  Width best;
  for (int64_t axis : {1, 0}) {
    int64_t elements = tile.getVectorWidth(axis, layout.contiguous(axis));
    if (elements > best.elements)
      best = {axis, elements};
  }
  return best;
}

SmallVector<Value> indices(ArrayRef<ValueRange> offsets) {
  return llvm::map_to_vector(offsets, [](ValueRange range) { return single(range); });
}

struct LoadGlobalLowering : ThreadPattern<LoadGlobalOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(LoadGlobalOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    FragmentType type = op.getType();
    const LinearLayout &layout = type.getLinearLayout();
    Type held = op.getSource().getType().getElementType(), element = getMemoryType(held);
    GlobalTile tile(op, op.getSource().getType(), op.getDims(), op.getInBounds(), type.getShape(),
                    op.getExtents());
    if (op.getOrdered()) {
      Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
      OrderedRows rows(e, tile, layout, op.getSource().getType().getDimSize(op.getDims()[1]),
                       element, single(operands.getSource()), indices(operands.getOffsets()), when);
      results.push_back(pack(e, type, rows.load()));
      return success();
    }
    Width width = chooseWidth(tile, layout);
    int64_t bytes = width.elements * tile.getElementBytes();
    Type accessType = width.elements == 1 ? element : VectorType::get({width.elements}, element);
    GlobalTile::Access access =
        tile.begin(e, single(operands.getSource()), indices(operands.getOffsets()),
                   e.threadOffset(layout, 0), e.threadOffset(layout, 1));
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    Value zero;
    SmallVector<Value> scalars;
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width.elements) {
      Coord at = layout.getRegister(i);
      Value pointer = tile.pointer(e, access, at);
      Value inside = e.both(when, tile.isInside(e, access, at));
      // Outside, the tensor's first elements are read and dropped: no branch.
      if (inside)
        pointer = e.select(inside, pointer, access.origin);
      int64_t align = inside ? bytes : tile.getAlignment(layout, at, bytes);
      Value loaded = LLVM::LoadOp::create(e, accessType, pointer, align);
      if (inside) {
        if (!zero)
          zero = arith::ConstantOp::create(e, cast<TypedAttr>(e.getZeroAttr(accessType)));
        loaded = e.select(inside, loaded, zero);
      }
      if (width.elements == 1) {
        scalars.push_back(loaded);
        continue;
      }
      for (int64_t j = 0; j < width.elements; ++j)
        scalars.push_back(e.createOrFold<vector::ExtractOp>(loaded, j));
    }
    for (Value &scalar : scalars)
      scalar = fromMemory(e, scalar, held, type.getElementType());
    results.push_back(pack(e, type, scalars));
    return success();
  }
};

/// One element, the same for all threads: an integer that bounds a loop.
struct LoadElementLowering : OpConversionPattern<memref::LoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor operands,
                                ConversionPatternRewriter &rewriter) const override {
    MemRefType type = op.getMemRefType();
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(type.getStridesAndOffset(strides, offset)))
      return rewriter.notifyMatchFailure(op, "expected known strides");
    Emitter e(rewriter, op.getLoc(), Role());
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value place = e.i64(offset * bytes);
    for (auto [index, stride] : llvm::zip_equal(operands.getIndices(), strides))
      place = e.add(place, e.mul(e.toI64(single(index)), stride * bytes));
    Value pointer = e.offset(single(operands.getMemref()), place);
    rewriter.replaceOp(op, LLVM::LoadOp::create(e, type.getElementType(), pointer, bytes));
    return success();
  }
};

/// Stores and atomic additions: what they have in common.
template <typename OpT, typename Emit>
void lowerStore(OpT op, Emitter &e, Value base, ArrayRef<Value> offsets, ArrayRef<Value> scalars,
                Value when, std::optional<ArrayRef<int64_t>> extents, bool vectors, Emit emit) {
  FragmentType type = op.getValue().getType();
  Type held = op.getDest().getType().getElementType(), element = getMemoryType(held);
  const LinearLayout &layout = type.getLinearLayout();
  GlobalTile tile(op, op.getDest().getType(), op.getDims(), op.getInBounds(), type.getShape(),
                  extents);
  Width width = vectors ? chooseWidth(tile, layout) : Width();
  e.ifThen(e.both(when, e.isLeader(layout)), [&] {
    GlobalTile::Access access =
        tile.begin(e, base, offsets, e.threadOffset(layout, 0), e.threadOffset(layout, 1));
    for (int64_t i = 0; i < layout.getNumRegisters(); i += width.elements) {
      Coord at = layout.getRegister(i);
      e.ifThen(tile.isInside(e, access, at), [&] {
        SmallVector<Value> values(scalars.slice(i, width.elements));
        if (held != type.getElementType())
          for (Value &scalar : values)
            scalar = isEightBitFloat(held) ? toEightBits(e, e.toF32(scalar), held)
                     : type.getElementType().isInteger()
                         ? arith::TruncIOp::create(e, element, scalar).getResult()
                         : e.fromF32(scalar, element);
        Value value = values.front();
        if (width.elements > 1)
          value = e.createOrFold<vector::FromElementsOp>(VectorType::get({width.elements}, element),
                                                         values);
        emit(value, tile.pointer(e, access, at),
             tile.getAlignment(layout, at, width.elements * tile.getElementBytes()));
      });
    }
  });
}

struct StoreGlobalLowering : ThreadPattern<StoreGlobalOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(StoreGlobalOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value when = op.getWhen() ? single(operands.getWhen().front()) : Value();
    if (op.getOrdered()) {
      FragmentType type = op.getValue().getType();
      MemRefType tensor = op.getDest().getType();
      GlobalTile tile(op, tensor, op.getDims(), op.getInBounds(), type.getShape(), op.getExtents());
      const LinearLayout &layout = type.getLinearLayout();
      e.ifThen(e.both(when, e.isLeader(layout)), [&] {
        OrderedRows(e, tile, layout, tensor.getDimSize(op.getDims()[1]), type.getElementType(),
                    single(operands.getDest()), indices(operands.getOffsets()), Value())
            .store(unpack(e, type, operands.getValue()));
      });
      return success();
    }
    lowerStore(op, e, single(operands.getDest()), indices(operands.getOffsets()),
               unpack(e, op.getValue().getType(), operands.getValue()), when, op.getExtents(),
               /*vectors=*/true, [&](Value value, Value pointer, int64_t align) {
                 LLVM::StoreOp::create(e, value, pointer, align);
               });
    return success();
  }
};

struct AtomicAddLowering : ThreadPattern<AtomicAddOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(AtomicAddOp op, Adaptor operands, Emitter &e, Results &) const override {
    lowerStore(op, e, single(operands.getDest()), indices(operands.getOffsets()),
               unpack(e, op.getValue().getType(), operands.getValue()), Value(), std::nullopt,
               /*vectors=*/false, [&](Value value, Value pointer, int64_t) {
                 e.ptx("red.relaxed.gpu.global.add.f32 [$0], $1;", "l,f", {pointer, value});
               });
    return success();
  }
};
} // namespace

void mirage::thread::populateGlobalPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns) {
  patterns.add<LoadGlobalLowering, LoadElementLowering, StoreGlobalLowering, AtomicAddLowering>(
      converter, patterns.getContext());
}
