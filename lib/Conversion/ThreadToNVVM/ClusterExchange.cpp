//===- ClusterExchange.cpp - values of all blocks of a cluster ------------===//

#include "Patterns.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mirage;
using namespace mirage::thread;

namespace {
struct ClusterArriveLowering : ThreadPattern<ClusterArriveOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ClusterArriveOp, Adaptor, Emitter &e, Results &) const override {
    NVVM::ClusterArriveOp::create(e, e.getUnitAttr());
    return success();
  }
};

struct ClusterWaitLowering : ThreadPattern<ClusterWaitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ClusterWaitOp, Adaptor, Emitter &e, Results &) const override {
    NVVM::ClusterWaitOp::create(e, e.getUnitAttr());
    return success();
  }
};

/// The fragments of the block with rank `r` are `r` times their bytes from the start of the scratch
/// memory, in every block. Those who wait have read nothing yet, and who writes to another block
/// arrives afterwards, so that block is still there.
struct ClusterGatherLowering : ThreadPattern<ClusterGatherOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult lower(ClusterGatherOp op, Adaptor operands, Emitter &e,
                      Results &results) const override {
    if (!op.getScratch())
      return missingScratch(op, op.getScratchBytes());
    int64_t blocks = op.getBlocks();
    Value base = e.shared(*op.getScratch());
    Value rank = NVVM::ClusterId::create(e, e.getI32Type());
    Value own = e.offset(base, e.mul(rank, op.getBlockBytes()));
    for (auto [number, values] : llvm::enumerate(operands.getInputs())) {
      auto type = cast<FragmentType>(op.getInputs()[number].getType());
      SmallVector<Value> scalars = unpack(e, type, values);
      Value start = e.offset(own, getElement(e, op, type, number));
      e.ifThen(e.isLeader(type.getLinearLayout()), [&] {
        for (int64_t block = 0; block < blocks; ++block) {
          Value there = e.mapToRank(start, e.i32(block));
          for (auto [i, scalar] : llvm::enumerate(scalars))
            LLVM::StoreOp::create(e, scalar, e.offset(there, getOffset(type, i)), getBytes(type));
        }
      });
    }
    NVVM::ClusterArriveOp::create(e, e.getUnitAttr());
    NVVM::ClusterWaitOp::create(e, e.getUnitAttr());
    for (auto [number, input] : llvm::enumerate(op.getInputs())) {
      auto type = cast<FragmentType>(input.getType());
      Value start = e.offset(base, getElement(e, op, type, number));
      for (int64_t block = 0; block < blocks; ++block) {
        SmallVector<Value> scalars;
        for (int64_t i = 0; i < type.getLinearLayout().getNumRegisters(); ++i)
          scalars.push_back(LLVM::LoadOp::create(
              e, type.getElementType(),
              e.offset(start, block * op.getBlockBytes() + getOffset(type, i)), getBytes(type)));
        results.push_back(pack(e, type, scalars));
      }
    }
    return success();
  }

private:
  static int64_t getBytes(FragmentType type) {
    return type.getElementType().getIntOrFloatBitWidth() / 8;
  }

  /// Bytes from the first register of a thread to another one.
  static int64_t getOffset(FragmentType type, int64_t reg) {
    Coord at = type.getLinearLayout().getRegister(reg);
    return (at.row * type.getCols() + at.col) * getBytes(type);
  }

  /// The place of the thread's first register among the bytes of one block.
  static Value getElement(Emitter &e, ClusterGatherOp op, FragmentType type, int64_t number) {
    const LinearLayout &layout = type.getLinearLayout();
    int64_t bytes = getBytes(type);
    return e.add(e.add(e.mul(e.threadOffset(layout, 0), type.getCols() * bytes),
                       e.mul(e.threadOffset(layout, 1), bytes)),
                 op.getPlace(number));
  }
};
} // namespace

void mirage::thread::populateClusterPatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns) {
  patterns.add<ClusterArriveLowering, ClusterWaitLowering, ClusterGatherLowering>(
      converter, patterns.getContext());
}
