//===- OrderColumns.cpp - columns of odd rows in vectors ------------------===//

#include "mirage/Dialect/Thread/IR/Thread.h"
#include "mirage/Dialect/Thread/Transforms/Passes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

namespace mirage::thread {
#define GEN_PASS_DEF_ORDERCOLUMNS
#include "mirage/Dialect/Thread/Transforms/Passes.h.inc"
} // namespace mirage::thread

using namespace mlir;
using namespace mirage::thread;

namespace {
/// The columns of a load or store of a tile.
struct Access {
  Operation *op;
  Value tile, tensor;
  ValueRange offsets;
  ArrayRef<int64_t> dims;
  std::optional<ArrayRef<int64_t>> extents;

  static std::optional<Access> get(Operation *op) {
    if (auto load = dyn_cast<LoadGlobalOp>(op))
      return Access{op,
                    load.getResult(),
                    load.getSource(),
                    load.getOffsets(),
                    load.getDims(),
                    load.getExtents()};
    if (auto store = dyn_cast<StoreGlobalOp>(op))
      return Access{op,
                    store.getValue(),
                    store.getDest(),
                    store.getOffsets(),
                    store.getDims(),
                    store.getExtents()};
    return std::nullopt;
  }

  FragmentType type() const { return cast<FragmentType>(tile.getType()); }
  MemRefType memref() const { return cast<MemRefType>(tensor.getType()); }
  int64_t bytes() const { return type().getElementType().getIntOrFloatBitWidth() / 8; }
  int64_t columns() const { return memref().getDimSize(dims[1]); }

  /// Elements between the starts of neighbouring tiles along each dimension.
  SmallVector<int64_t> strides() const {
    SmallVector<int64_t> strides;
    int64_t offset;
    (void)memref().getStridesAndOffset(strides, offset);
    return strides;
  }

  /// Whether the tile's rows are whole rows of the tensor, which start at any word or element.
  bool hasWholeRows() const {
    if (type().getElementType() != memref().getElementType() || (bytes() != 2 && bytes() != 4) ||
        dims[0] < 0 || dims[1] < 0 || type().getPartial())
      return false;
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(memref().getStridesAndOffset(strides, offset)) || offset != 0 ||
        strides[dims[1]] != 1 || !matchPattern(offsets[dims[1]], m_Zero()) ||
        type().getCols() < columns() || (extents && (*extents)[1] != columns()))
      return false;
    int64_t width = kVectorBytes / bytes();
    return strides[dims[0]] * bytes() % (kVectorBytes / 2) != 0 &&
           countWholeColumns(columns(), width) > 0 && startsAtVector();
  }

  /// Whether rows have the same offsets from multiples of 16 bytes as the corresponding rows of
  /// `other`.
  bool startsLike(const Access &other) const {
    return bytes() == other.bytes() && columns() == other.columns() && dims == other.dims &&
           strides() == other.strides() && llvm::equal(offsets, other.offsets);
  }

private:
  /// Whether the tensor itself does.
  bool startsAtVector() const {
    auto argument = dyn_cast<BlockArgument>(tensor);
    auto kernel =
        argument ? dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp()) : gpu::GPUFuncOp();
    if (!kernel || kernel.getArgAttr(argument.getArgNumber(), kUnitAttr))
      return false;
    auto align = kernel.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kAlignAttr);
    return !align || align.getInt() % kVectorBytes == 0;
  }
};

/// Tiles that are connected by ops for which the order of columns does not matter, as long as it is
/// the same in all of them.
class Tiles {
public:
  /// Collects the tiles connected with `load`; false if an order matters.
  bool collect(LoadGlobalOp load) {
    first = Access::get(load);
    if (!first->hasWholeRows())
      return false;
    add(load.getResult());
    for (size_t i = 0; i < values.size(); ++i) {
      Value value = values[i];
      if (!value.getDefiningOp() || !mayDefine(value.getDefiningOp()))
        return false;
      for (Operation *user : value.getUsers())
        if (!mayUse(user))
          return false;
    }
    return true;
  }

  /// Gives all of them the layout that `load` has in vectors; false if threads have too few
  /// columns.
  bool order() {
    std::optional<LinearLayout> layout = withVectors(first->type().getLinearLayout());
    if (!layout)
      return false;
    for (Value value : values)
      value.setType(cast<FragmentType>(value.getType()).withLayout(*layout));
    for (Operation *op : accesses)
      op->setAttr("ordered", UnitAttr::get(op->getContext()));
    return true;
  }

private:
  void add(Value value) { values.insert(value); }

  bool isAlike(Operation *op) {
    std::optional<Access> access = Access::get(op);
    if (!access || !access->hasWholeRows() || !access->startsLike(*first) ||
        access->type().getLinearLayout() != first->type().getLinearLayout())
      return false;
    accesses.insert(op);
    return true;
  }

  /// Elementwise ops, whose fragments have one layout.
  bool isElementwise(Operation *op) {
    if (!isa<UnaryOp, BinaryOp, ScaleOp, CastOp, MaskOp>(op))
      return false;
    if (auto mask = dyn_cast<MaskOp>(op))
      if (mask.getDim() == 1 && !(matchPattern(mask.getOffset(), m_Zero()) &&
                                  int64_t(mask.getExtent()) == first->columns()))
        return false;
    for (Value operand : op->getOperands())
      if (isa<FragmentType>(operand.getType()))
        add(operand);
    add(op->getResult(0));
    return true;
  }

  bool mayDefine(Operation *op) {
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return broadcast.getDim() == 1;
    return isa<ConstantOp, SplatOp>(op) || isElementwise(op) ||
           (isa<LoadGlobalOp>(op) && isAlike(op));
  }

  bool mayUse(Operation *op) {
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return reduce.getDim() == 1;
    return isElementwise(op) || (isa<StoreGlobalOp>(op) && isAlike(op));
  }

  /// The layout with the columns that threads have side by side, if they have enough of them for
  /// vectors: its vectors along columns, in the order of registers of a vector, lanes, warps and
  /// other registers.
  std::optional<LinearLayout> withVectors(const LinearLayout &layout) const {
    LinearLayout::Basis reg(layout.getReg()), lane(layout.getLane()), warp(layout.getWarp());
    llvm::stable_sort(reg, [](Coord a, Coord b) { return (a.col != 0) > (b.col != 0); });
    size_t inVector = llvm::Log2_64(kVectorBytes / first->bytes());
    SmallVector<Coord *> places;
    auto take = [&](MutableArrayRef<Coord> basis) {
      for (Coord &vector : basis)
        if (vector.col)
          places.push_back(&vector);
    };
    if (reg.size() < inVector || llvm::any_of(ArrayRef(reg).take_front(inVector),
                                              [](Coord vector) { return vector.col == 0; }))
      return std::nullopt;
    take(MutableArrayRef(reg).take_front(inVector));
    take(lane);
    take(warp);
    take(MutableArrayRef(reg).drop_front(inVector));
    for (auto [number, place] : llvm::enumerate(places))
      place->col = int32_t(1) << number;
    return LinearLayout(reg, lane, warp, layout.getRepeat());
  }

  std::optional<Access> first;
  llvm::SetVector<Value> values;
  llvm::SetVector<Operation *> accesses;
};

struct OrderColumns : mirage::thread::impl::OrderColumnsBase<OrderColumns> {
  void runOnOperation() override {
    SmallVector<LoadGlobalOp> loads;
    getOperation()->walk([&](LoadGlobalOp load) { loads.push_back(load); });
    for (LoadGlobalOp load : loads) {
      Tiles tiles;
      if (!load.getOrdered() && tiles.collect(load) && tiles.order())
        ++numOrdered;
    }
  }
};
} // namespace
