//===- WarpgroupProducts.cpp - launches whose products warpgroups compute -===//

#include "mirage/Dialect/Block/Analysis/WarpgroupProducts.h"

#include "mirage/Dialect/Block/Analysis/Boxes.h"
#include "mirage/Dialect/Block/Analysis/HeldTile.h"
#include "mirage/Dialect/Common/ElementTypes.h"
#include "mirage/Dialect/Common/Say.h"
#include "mirage/Target/WarpSharing.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::block;

SmallVector<Value> mirage::block::getStagedTiles(LoopOp loop) {
  SmallVector<Value> tiles;
  for (Operation &op : loop.getBody().front())
    if (isa<LoadOp, GatherOp>(op) && getShared(op.getResult(0)))
      tiles.push_back(op.getResult(0));
  return tiles;
}

bool mirage::block::hasWrittenTiles(kernel::LaunchOp launch) {
  return launch.getBody()
      .walk([](GatherOp gather) {
        return getShared(gather.getResult()) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

//===----------------------------------------------------------------------===//
// Requirements of warpgroups
// ===----------------------------------------------------------------------===//

/// The op of a kind of which a factor is a view, or null.
template <typename OpT> static OpT getSource(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto source = dyn_cast<OpT>(op))
      return source;
    if (!isa<ReshapeOp, TransposeOp>(op))
      return nullptr;
    value = op->getOperand(0);
  }
  return nullptr;
}

static LoadOp getLoad(Value value) { return getSource<LoadOp>(value); }

/// The lookup of which a factor is a view, if it goes through a ring, or null.
static GatherOp getRingGather(Value value) {
  auto gather = getSource<GatherOp>(value);
  return gather && canFillRing(gather) ? gather : GatherOp();
}

bool mirage::block::isComputedBefore(Value factor, MatmulOp matmul) {
  return factor.getParentBlock() != matmul->getBlock() && !getLoad(factor) &&
         !getRingGather(factor);
}

bool mirage::block::isKeptFactor(ConvertLayoutOp convert) {
  return convert->getParentOfType<kernel::LaunchOp>().getSchedule()->usesWarpgroups() &&
         llvm::any_of(convert->getUses(), [&](OpOperand &use) {
           auto matmul = dyn_cast<MatmulOp>(use.getOwner());
           return matmul && use.get() == matmul.getLhs() &&
                  convert->getBlock() != matmul->getBlock();
         });
}

/// The reason why a factor is not a tile in shared memory; such tiles are boxes that the loop or
/// the launch loads and does not change, or looked-up rows in pieces of 16 bytes.
static std::optional<std::string> whyNotShared(Value factor) {
  if (getRingGather(factor))
    return std::nullopt;
  LoadOp load = getLoad(factor);
  if (!load)
    return say("a right factor that is loaded and not changed");
  auto tensor = cast<RankedTensorType>(load.getSource().getType());
  if (tensor.getElementType() != load.getType().getElementType() &&
      !isEightBitFloat(tensor.getElementType()))
    return say("factors in the type of their tensors, got ", tensor);
  return whyNoBox(load);
}

/// The tensor of 8-bit floats of which a factor is a tile, or null.
static RankedTensorType getEightBits(Value factor) {
  LoadOp load = getLoad(factor);
  auto tensor = load ? cast<RankedTensorType>(load.getSource().getType()) : RankedTensorType();
  return tensor && isEightBitFloat(tensor.getElementType()) ? tensor : RankedTensorType();
}

std::optional<std::pair<LoadOp, int64_t>> mirage::block::getDimOfLoad(Value view, int64_t dim) {
  auto getPlace = [](ArrayRef<int64_t> shape, int64_t dim) {
    return llvm::count_if(shape.take_front(dim), [](int64_t size) { return size > 1; });
  };
  while (!view.getDefiningOp<LoadOp>()) {
    Operation *op = view.getDefiningOp();
    if (!op || !isa<ReshapeOp, TransposeOp>(op))
      return std::nullopt;
    Value source = op->getOperand(0);
    ArrayRef<int64_t> from = getTile(source).getShape(), to = getTile(view).getShape();
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      dim = transpose.getPermutation()[dim];
    } else {
      auto isWide = [](int64_t size) { return size > 1; };
      if (!llvm::equal(llvm::make_filter_range(from, isWide), llvm::make_filter_range(to, isWide)))
        return std::nullopt;
      int64_t place = getPlace(to, dim);
      for (dim = 0; from[dim] == 1 || getPlace(from, dim) != place; ++dim)
        if (dim + 1 == int64_t(from.size()))
          return std::nullopt;
    }
    view = source;
  }
  if (getTile(view).getShape()[dim] == 1)
    return std::nullopt;
  return std::pair(view.getDefiningOp<LoadOp>(), dim);
}

/// Whether dimension `dim` of a view is the last one of its source tile, ignoring dimensions of
/// size 1.
static bool isLastOfLoad(Value view, int64_t dim) {
  std::optional<std::pair<LoadOp, int64_t>> source = getDimOfLoad(view, dim);
  return source && llvm::all_of(source->first.getType().getShape().drop_front(source->second + 1),
                                [](int64_t size) { return size == 1; });
}

/// Whether only products read a tile and its views.
static bool onlyFeedsProducts(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    bool isView = isa<ReshapeOp, TransposeOp>(user);
    return isa<MatmulOp>(user) || (isView && onlyFeedsProducts(user->getResult(0)));
  });
}

/// The reason why warpgroups cannot multiply factors of f32.
static std::optional<std::string> whyNotTf32(MatmulOp matmul) {
  if (!matmul.getTf32())
    return say("factors of f32 that are rounded to TF32, got ", getTile(matmul.getLhs()));
  for (auto [factor, along] : {std::pair(matmul.getLhs(), 1), std::pair(matmul.getRhs(), 0)}) {
    TileType tile = getTile(factor);
    if (!getLoad(factor) || !isLastOfLoad(factor, tile.getRank() - 2 + along))
      return say("factors of f32 that are loaded and whose rows in memory run along the ",
                 "contraction, got ", tile);
    if (!onlyFeedsTf32(getLoad(factor).getResult()))
      return say("tiles that are rounded to TF32 and that such products alone read, got ", tile);
  }
  return std::nullopt;
}

/// The reason why warpgroups cannot multiply factors one of which has 8 bits.
static std::optional<std::string> whyNotEightBits(MatmulOp matmul) {
  for (auto [factor, along] : {std::pair(matmul.getLhs(), 1), std::pair(matmul.getRhs(), 0)}) {
    RankedTensorType tensor = getEightBits(factor);
    TileType tile = getTile(factor);
    if (!tensor)
      return say("factors of 8 bits on both sides, got ", tile);
    int64_t dim = tile.getRank() - 2 + along;
    if (!isLastOfLoad(factor, dim))
      return say("factors of 8 bits whose rows in memory run along the contraction, got ", tensor);
    if (tile.getShape()[dim] > promotedDepth)
      return say("contractions of 8-bit factors of at most ", promotedDepth, " a step, got ", tile);
    if (!onlyFeedsProducts(getLoad(factor).getResult()))
      return say("tiles of 8 bits that products alone read, got ", tensor);
  }
  return std::nullopt;
}

static std::optional<std::string> whyNoProduct(MatmulOp matmul, int64_t warps) {
  bool eightBits = getEightBits(matmul.getLhs()) || getEightBits(matmul.getRhs());
  TileType lhs = getTile(matmul.getLhs()), result = getTile(matmul.getResult());
  Type element = lhs.getElementType();
  if (!element.isF16() && !element.isBF16() && !element.isF32())
    return say("factors of f16, bf16 or f32, got ", lhs);
  int64_t depth = wgmmaBytes / (eightBits ? 1 : element.getIntOrFloatBitWidth() / 8);
  if (!result.getElementType().isF32())
    return say("a product in f32, got ", result);
  if (element.isF32())
    if (auto why = whyNotTf32(matmul))
      return why;
  if (eightBits)
    if (auto why = whyNotEightBits(matmul))
      return why;
  if (lhs.getShape().back() % depth)
    return say("a contraction of a multiple of ", depth, ", got ", lhs);
  if (getWarpgroupGrids(result.getShape()[0], result.getShape()[1], warps).empty())
    return say("a product that ", warps, " warps can share in parts of 64 rows and a multiple of ",
               "8 columns, got ", result);
  // A computed factor comes from registers, and only a left factor can.
  if (getLoad(matmul.getLhs()))
    if (auto why = whyNotShared(matmul.getLhs()))
      return why;
  return whyNotShared(matmul.getRhs());
}

static std::optional<std::string> whyNoLoop(LoopOp loop, int64_t warps) {
  bool multiplies = false;
  for (Operation &op : loop.getBody().front().without_terminator()) {
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (auto why = whyNoProduct(matmul, warps))
        return why;
      multiplies = true;
    }
  }
  if (!multiplies)
    return say("loops that multiply");
  return std::nullopt;
}

std::optional<std::string> mirage::block::whyNoWarpgroups(kernel::LaunchOp launch, int64_t warps,
                                                          const Chip &chip) {
  if (!chip.has(Ability::WarpgroupMma) || !chip.has(Ability::TensorCopy))
    return say("a chip that multiplies tiles in shared memory, got ", StringRef(chip.name));
  if (warps % 4 || (warps + 1) * 32 > chip.maxThreads)
    return say("a multiple of 4 warps and less than ", chip.maxThreads / 32, ", got ", warps);
  std::optional<std::string> why;
  bool multiplies = false;
  launch.getBody().walk([&](Operation *op) {
    if (why)
      return;
    bool isTop = op->getParentOp() == launch;
    if (auto loop = dyn_cast<LoopOp>(op)) {
      why = isTop ? whyNoLoop(loop, warps) : say("no loops inside of loops");
      multiplies = true;
    } else if (isa<MatmulOp>(op) && isTop) {
      why = say("no products outside of loops");
    }
  });
  if (!why && !multiplies)
    why = say("a loop with a product, got none");
  return why;
}
