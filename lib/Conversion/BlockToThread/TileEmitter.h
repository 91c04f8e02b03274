//===- TileEmitter.h - tile ops as thread ops -------------------*- C++ -*-===//

#ifndef MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_TILEEMITTER_H
#define MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_TILEEMITTER_H

#include "MaskGuards.h"

#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"
#include "mirage/Dialect/Kernel/IR/Kernel.h"
#include "mirage/Dialect/Thread/IR/Layouts.h"

#include "mlir/IR/Builders.h"

namespace mirage {

/// An offset in shared memory that no ring has, since equal allocations would
/// count as one; offsets are planned later.
inline constexpr int64_t kBeyondRings = int64_t(1) << 20;

/// A tile in shared memory in the form that an op sees.
struct SharedView {
  /// One slot.
  mlir::Value tile;
  /// Rows and columns of the block-level tile are columns and rows of `tile`.
  bool transposed = false;
};

/// The place of a block-level tile in a device tensor, whose parameter has at
/// least two dimensions (missing leading ones are 1).
struct TilePlace {
  mlir::Value tensor;
  llvm::SmallVector<mlir::Value> offsets;
  /// Tensor dimensions of the tile's rows and columns.
  llvm::SmallVector<int64_t, 2> dims;
  llvm::SmallVector<bool, 2> inBounds;
  /// Rows and columns of the tile if the holder has more, otherwise empty.
  llvm::SmallVector<int64_t, 2> extents;
  /// i1, or null for always.
  mlir::Value when;
};

/// The steps of a loop that this block takes, at least one.
struct LoopSteps {
  mlir::Value first, end, count;
  /// Whether they are all steps of the loop.
  bool all = true;
};

/// Boxes that one op copies to a ring.
struct Boxes {
  llvm::SmallVector<mlir::Value> maps, coordinates;
  /// Those of which each block of a cluster copies a part.
  llvm::SmallVector<int64_t> shared;
};

/// The row of a table that an index names, 0 if there is none, and whether
/// there is one (i1).
struct TableRow {
  mlir::Value row, exists;
};

/// A loop whose tiles all warps copy to shared memory.
struct StagedLoop {
  block::LoopOp op;
  LoopSteps steps;
  int64_t stages;
  /// Each with its ring of tiles.
  llvm::SmallVector<std::pair<mlir::Operation *, mlir::Value>> loads;
  /// The slot of the step and, if the loop's ring rotates, the slot to fill.
  mlir::Value readSlot, fillSlot;
  /// Lookups whose indices are read a step before their rows are copied.
  struct Ahead {
    /// Several may need the same indices.
    llvm::SmallVector<block::GatherOp> lookups;
    mlir::Value indices;
  };
  llvm::SmallVector<Ahead> ahead;

  /// Whether copies run ahead.
  bool hasRing() const { return !loads.empty() && stages > 1; }
  /// Whether slots are reused. Otherwise each step has its own slot, and all
  /// copies begin before the loop.
  bool rotates() const { return hasRing() && stages < int64_t(block::LoopOp(op).getExtent()); }
  /// The indices of a lookup that have been read; null if none.
  mlir::Value getIndices(mlir::Operation *load) const;
};

/// A parameter of the kernel for loads by the tensor memory accelerator.
struct TensorMapParameter {
  kernel::TensorMapAttr map;
  thread::TensorMapType type;
  bool operator==(const TensorMapParameter &other) const { return map == other.map; }
};

/// The tensor maps that a launch needs for its rings and stores, each once.
llvm::SmallVector<TensorMapParameter> getTensorMaps(kernel::LaunchOp launch);

/// The kernel's parameter for a result of `element`s that is stored elsewhere:
/// its row, then the dimensions that form the result's dimensions.
mlir::MemRefType getPlacedType(kernel::PlaceAttr place, mlir::Type element);

/// Whether the tiles of a launch can be stored at its places.
llvm::LogicalResult checkPlaces(kernel::LaunchOp launch);

/// Emits the body of one launch as thread ops.
///
/// With `engine = warpgroup` the body is executed by a role of the schedule's
/// warps; the copies of its loops are issued by another role of one warp, or of four
/// where rows are looked up one by one.
///
/// Copies to shared memory are asynchronous and form groups. `committed`
/// counts them in program order; a shared tile is usable once its group has
/// been waited for and a barrier has followed. Loops with stages keep `stages -
/// 1` groups in flight (see emitLoop).
class TileEmitter {
public:
  /// `isSized`: the number of rows is known only at the launch.
  TileEmitter(kernel::LaunchOp launch, mlir::OpBuilder &builder, mlir::ValueRange inputs,
              mlir::ValueRange outputs, mlir::ValueRange tensorMaps, bool isSized);

  void run();

  /// The axis of a sized launch's grid along which the grid consists of
  /// consecutive parts, and the number of positions in each part; an
  /// empty name if there is none.
  static std::pair<llvm::StringRef, int64_t> getSlowestAxis(kernel::LaunchOp launch);

private:
  using FragmentType = thread::FragmentType;

  // The assignment of tiles to blocks (BlockOrder.cpp).
  void setPositions(mlir::Value number);
  void startPosition(mlir::Value number);
  block::LoopOp findUnevenLoop();
  void split(mlir::Value number, llvm::ArrayRef<llvm::StringRef> axes);
  llvm::SmallVector<llvm::StringRef> withLookupsFastest(llvm::ArrayRef<llvm::StringRef> axes);
  void splitByWork(mlir::Value number, llvm::ArrayRef<llvm::StringRef> axes, block::LoopOp uneven);
  void splitInSquares(mlir::Value number, llvm::ArrayRef<llvm::StringRef> axes);
  static bool sharesTiles(kernel::LaunchOp launch);
  static int64_t getGroupHeight(int64_t rows, bool isSized);
  void startWithMostSteps();

  // Straight-line code.
  void emitBody(mlir::Block &body);
  void emit(mlir::Operation *op);
  void emitOp(mlir::Operation *op);
  void emitLoad(block::LoadOp op);
  void emitUnary(block::UnaryOp op);
  void emitBinary(block::BinaryOp op);
  void emitMask(block::MaskOp op);
  void emitMapIntegers(block::MapIntegersOp op);
  void emitReduce(block::ReduceOp op);
  void emitClusterReduce(block::ClusterReduceOp op);
  void rescaleAll(llvm::MutableArrayRef<mlir::Value> values, llvm::ArrayRef<mlir::Value> maxima);
  void announceStart();
  void emitCumulate(block::CumulateOp op);
  void emitArgsort(block::ArgsortOp op);
  void emitTranspose(block::TransposeOp op);
  void emitConvertLayout(block::ConvertLayoutOp op);
  void emitStore(block::StoreOp op);

  // Masks that do nothing at some steps (MaskGuards.cpp, IdleMasks.cpp).
  friend class PositionBounds;
  mlir::Value emitMaskIsIdle(mlir::Operation *op, const MaskGuard &guard);
  void emitGuarded(mlir::Operation *op, const MaskGuard &guard);
  void emitUnguarded(mlir::Operation *op, const MaskGuard &guard);

  // Values that are computed in place of a load (SourceEmitter.cpp).
  void emitIota(block::IotaOp op);
  void emitGather(block::GatherOp op);

  // Exact arithmetic on integers (IntegerTiles.cpp).
  void emitIntegers(block::IntegersOp op);
  mlir::Value loadOperand(block::IntegersOp op, unsigned number, const TilePlace &place,
                          FragmentType type);
  mlir::Value emitPosition(int64_t dim, const TilePlace &place, FragmentType type);
  mlir::Value withZerosBeyond(mlir::Value fragment, const TilePlace &place,
                              llvm::ArrayRef<int64_t> shape);

  // Integers that bound loops (SourceEmitter.cpp).
  void emitScalar(block::ScalarOp op);

  // Matmuls (MatmulEmitter.cpp).
  void emitMatmul(block::MatmulOp op);
  void emitWarpgroupMatmul(block::MatmulOp op);
  mlir::Value getProductOperand(mlir::Value operand, bool isTransposed, FragmentType whole,
                                FragmentType part, int64_t row, int64_t col);
  int64_t countTogether(mlir::Value lhs, mlir::Value rhs, bool swapped, int64_t k,
                        thread::WarpGrid grid);
  mlir::Value getAccumulator(block::MatmulOp op, FragmentType productType);

  // Loops (LoopEmitter.cpp).
  void emitLoop(block::LoopOp op);
  StagedLoop getStagedLoop(block::LoopOp op);
  void copyStep(const StagedLoop &loop, mlir::Value step, mlir::Value slot, mlir::Value when);
  void startCopies(StagedLoop &loop);
  void continueCopies(StagedLoop &loop, mlir::Value step);
  void setSlots(StagedLoop &loop, mlir::scf::ForOp steps);
  void addNextSlots(const StagedLoop &loop, llvm::SmallVectorImpl<mlir::Value> &next);
  void findLookupsAhead(StagedLoop &loop);
  void readIndicesAhead(StagedLoop &loop, mlir::Value step);
  llvm::SmallVector<mlir::Value> getInitialSums(block::LoopOp op);
  LoopSteps getSteps(block::LoopOp op);
  void emitAccumulate(block::AccumulateOp op, llvm::SmallVectorImpl<mlir::Value> &next);
  mlir::Value emitRescaled(block::AccumulateOp op, int64_t index);
  mlir::Value getRescaleFactor(mlir::Value runningMax, block::TileType tile, FragmentType type);
  mlir::Value emitFactor(mlir::Value previous, mlir::Value now);
  mlir::Value spreadFactor(mlir::Value factor, block::TileType maximum, block::TileType accumulator,
                           FragmentType type);

  // Running maxima (RunningMaxima.cpp).
  void emitRunningMax(block::RunningMaxOp op);
  void addInitialMaxima(llvm::ArrayRef<block::RunningMaxOp> maxima,
                        llvm::SmallVectorImpl<mlir::Value> &values);
  mlir::ValueRange setMaxima(llvm::ArrayRef<block::RunningMaxOp> maxima, mlir::ValueRange values);
  void addMaxima(llvm::ArrayRef<block::RunningMaxOp> maxima,
                 llvm::SmallVectorImpl<mlir::Value> &values);
  void settleMaxima(block::LoopOp op);

  // Roles and rings (RingEmitter.cpp), loops that read them (RingLoop.cpp).
  friend class RingLoop;
  void emitRoles();
  void createRings();
  void emitRole(int64_t first, int64_t count, int64_t barrier, llvm::function_ref<void()> emitWork);
  void emitProducer();
  void emitConsumers();
  void startApart();
  mlir::Value getGroup();
  void setMaxRegisters(int64_t role);
  mlir::Value createTurns(int64_t number);
  void forEachPosition(llvm::function_ref<void()> emitWork);
  mlir::Value getRingStep(mlir::Operation *loop, mlir::Value step);
  void fillOutsideOfLoops();
  void emitFill(llvm::ArrayRef<mlir::Operation *> reads, mlir::Value ring, mlir::Value step);
  void addBox(block::LoadOp load, Boxes &boxes);
  void emitWrites(llvm::ArrayRef<mlir::Operation *> reads, mlir::Value ring, mlir::Value step);
  void emitRowBox(block::GatherOp op, mlir::Value ring, mlir::Value step, int64_t number,
                  mlir::Value tile);
  TableRow getTableRow(block::GatherOp op);
  void findTableRows(llvm::ArrayRef<mlir::Operation *> reads, llvm::StringRef axis);
  void emitFills(block::LoopOp op);
  mlir::Value getTensorMap(kernel::TensorMapAttr map);

  // Loops that begin before their first tile (ShiftedLoops.cpp).
  LoopSteps getShiftedSteps(block::LoopOp op, block::LoadOp load);
  void shiftBox(block::LoadOp load, llvm::SmallVectorImpl<mlir::Value> &at);
  void clearBeyondRows(block::LoadOp load, mlir::Value tile, mlir::Value step, mlir::Value count);

  // Results that leave through shared memory (BoxStores.cpp).
  bool emitBoxStore(block::StoreOp op, unsigned number, mlir::Value fragment,
                    const TilePlace &place);
  void emitStoreInParts(const block::BoxStore &box, mlir::Value fragment, const TilePlace &place);

  // Device memory (DeviceTiles.cpp).
  TilePlace getTilePlace(mlir::Value tensor, mlir::ArrayAttr map, block::TileType tile,
                         llvm::ArrayRef<int64_t> holderShape) {
    return getTilePlace(tensor, llvm::cast<mlir::MemRefType>(tensor.getType()), map, tile,
                        holderShape);
  }
  /// The same in a tensor of `type` that represents `tensor`.
  TilePlace getTilePlace(mlir::Value tensor, mlir::MemRefType type, mlir::ArrayAttr map,
                         block::TileType tile, llvm::ArrayRef<int64_t> holderShape);
  mlir::Value getPart(mlir::ArrayAttr axes, int64_t &parts);
  bool lastPartOverlaps(mlir::ArrayAttr axes);
  /// The tile of a `block.load` or a `block.gather`.
  void copyToShared(mlir::Operation *read, mlir::Value slot, mlir::Value when,
                    mlir::Value indices = mlir::Value());
  TilePlace getGatheredPlace(block::GatherOp op, int64_t rows, int64_t cols);
  void gatherToShared(block::GatherOp gather, mlir::Value slot, mlir::Value when,
                      mlir::Value indices = mlir::Value());
  /// A tile outside of loops: its copy is begun.
  void beginCopy(mlir::Operation *read);
  /// One that another role copies.
  void waitForTile(mlir::Operation *read);

  // Results that are rows of other tensors (PlacedStores.cpp): the row, and
  // whether it exists (i1).
  struct PlacedRow {
    mlir::Value row, exists;
  };
  void emitPlacedRows();
  TilePlace getPlacedTile(unsigned result, mlir::ArrayAttr map, block::TileType tile,
                          llvm::ArrayRef<int64_t> holderShape);

  // Shared memory.
  mlir::Value allocate(mlir::Value tile);
  void emitKeptFactor(block::ConvertLayoutOp op);
  SharedView getSharedView(mlir::Value value);
  void commitCopies();
  void waitForCopies(int64_t group);
  void waitForTiles(mlir::ValueRange values);
  void waitForAllCopies() { waitForCopies(committed - 1); }

  // Fragments.
  mlir::Value get(mlir::Value value) { return fragments.lookup(value); }
  FragmentType typeOf(mlir::Value value) { return block::getFragment(value); }
  mlir::Value getOperand(mlir::Value value, FragmentType resultType);
  mlir::Value castTo(mlir::Value fragment, mlir::Type elementType);
  mlir::Value broadcastTo(mlir::Value fragment, FragmentType type);
  mlir::Value convertTo(mlir::Value fragment, FragmentType type);
  mlir::Value constant(FragmentType type, double value);
  mlir::Value binary(BinaryFn fn, mlir::Value lhs, mlir::Value rhs);
  mlir::Value index(int64_t value);

  kernel::LaunchOp launch;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::Value> tensorMaps;
  bool isSized;
  MaskGuards guards;
  /// The rings of loops (one for each of their `RingLoads`) and of loads
  /// outside of loops, if another role copies their tiles.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> rings;
  /// If a block has several positions: their number before this one and, for
  /// each loop, the steps that it took at those and takes at this one.
  mlir::Value round;
  /// Number of the block in its cluster.
  mlir::Value clusterRank;
  /// Whether all blocks of the cluster are known to have started.
  bool startIsKnown = false;
  /// Indices of lookups of one row, in the role that copies.
  llvm::DenseMap<mlir::Operation *, TableRow> tableRows;
  llvm::DenseMap<mlir::Operation *, mlir::Value> stepsBefore, stepsHere;
  /// For loops that begin before their first tile, the number of elements.
  llvm::DenseMap<mlir::Operation *, mlir::Value> shifts;
  /// The turns of loops in which groups of warps take turns.
  llvm::DenseMap<mlir::Operation *, mlir::Value> turns;
  /// Position along each grid axis and each loop around.
  llvm::StringMap<mlir::Value> position;
  llvm::StringMap<int64_t> extents;
  /// For the axes queried so far, whether their last tiles may overlap the ones
  /// before.
  llvm::StringMap<bool> overlapping;

  llvm::DenseMap<mlir::Value, mlir::Value> fragments;
  /// Integers that the block has read, of index type.
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  /// By the number of the result.
  llvm::DenseMap<unsigned, PlacedRow> placedRows;
  llvm::DenseMap<mlir::Value, SharedView> sharedViews;
  /// The group of copies for which a shared tile waits; absent if the tile is
  /// usable.
  llvm::DenseMap<mlir::Value, int64_t> pendingGroup;
  int64_t committed = 0;
  /// End of the last allocation: until they are planned by lifetime, tiles lie
  /// one after the other.
  int64_t allocated = 0;

  /// The accumulators of the loops around, before this step, by loop result.
  llvm::DenseMap<mlir::Value, mlir::Value> accumulators;
  /// The running maximum before this step, by running_max result. For a lazy
  /// maximum, this is the number used in its place, and `trueMax` has the
  /// maximum itself: before the step, then after it.
  llvm::DenseMap<mlir::Value, mlir::Value> previousMax, trueMax;
  llvm::DenseMap<mlir::Value, mlir::Value> rescaleFactors;
  /// Matmul results that already contain their accumulator.
  llvm::DenseSet<mlir::Value> accumulated;
};

} // namespace mirage

#endif // MIRAGE_LIB_CONVERSION_BLOCKTOTHREAD_TILEEMITTER_H
