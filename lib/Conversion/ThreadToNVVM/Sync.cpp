//===- Sync.cpp - barriers, fences, launches ------------------------------===//

#include "Patterns.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mirage::thread;

/// Address of one mbarrier of an array.
static Value barrierAddress(Emitter &e, Value barriers, Value index) {
  return e.sharedAddress(e.offset(barriers, e.mul(e.toI32(index), 8)));
}

static Value counterPointer(Emitter &e, Value counters, Value index) {
  return e.offset(counters, e.mul(e.toI64(index), 4));
}

namespace {
struct BarrierLowering : ThreadPattern<BarrierOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(BarrierOp op, Adaptor, Emitter &e, Results &) const override {
    if (op.getGroup())
      e.groupBarrier();
    else
      e.barrier();
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Mbarriers
//===----------------------------------------------------------------------===//

struct MbarrierAllocLowering : ThreadPattern<MbarrierAllocOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(MbarrierAllocOp op, Adaptor, Emitter &e, Results &results) const override {
    results.push_back({e.shared(op.getOffset())});
    return success();
  }
};

struct MbarrierInitLowering : ThreadPattern<MbarrierInitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(MbarrierInitOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value start = single(operands.getBarriers());
    e.ifThen(e.isFirstThread(), [&] {
      for (int64_t i = 0; i < op.getBarriers().getType().getCount(); ++i)
        e.ptx("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r",
              {e.sharedAddress(e.offset(start, i * 8)), e.i32(op.getArrivals())});
      e.ptx("fence.mbarrier_init.release.cluster;", "", {});
    });
    return success();
  }
};

struct MbarrierArriveLowering : ThreadPattern<MbarrierArriveOp> {
  using ThreadPattern::ThreadPattern;
  static void arriveElsewhere(Emitter &e, int64_t cluster, Value barriers, Value index);
  LogicalResult lower(MbarrierArriveOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value address = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    // The other lanes' accesses come before the arrival of the first one.
    e.ptx("bar.warp.sync 0xffffffff;", "", {});
    e.ptxWhere(e.compare(arith::CmpIPredicate::eq, e.lane(), e.i32(0)),
               "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", {address});
    arriveElsewhere(e, op.getCluster(), single(operands.getBarriers()),
                    single(operands.getIndex()));
    return success();
  }
};

/// At the mbarriers of the other blocks of a cluster, whose ranks differ from one's own in
/// some bits. The scope is the default one, as in NVIDIA's own kernels: it only publishes that
/// shared memory has been read, and a release for the cluster would wait for all accesses to device
/// memory, half a microsecond for each step of a ring.
void MbarrierArriveLowering::arriveElsewhere(Emitter &e, int64_t cluster, Value barriers,
                                             Value index) {
  if (cluster == 1)
    return;
  Value own = NVVM::ClusterId::create(e, e.getI32Type());
  for (int64_t other = 1; other < cluster; ++other) {
    Value rank = arith::XOrIOp::create(e, own, e.i32(other));
    Value remote = e.offset(e.mapToRank(barriers, rank), e.mul(e.toI32(index), 8));
    Value address = e.sharedAddress(remote);
    e.ptxWhere(e.compare(arith::CmpIPredicate::eq, e.lane(), e.i32(0)),
               "mbarrier.arrive.shared::cluster.b64 _, [$0];", "r", {address});
  }
}

struct CopyArriveLowering : ThreadPattern<CopyArriveOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(CopyArriveOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value address = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    e.ptx("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r", {address});
    return success();
  }
};

struct MbarrierExpectLowering : ThreadPattern<MbarrierExpectOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(MbarrierExpectOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value address = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    e.ptxWhere(e.isFirstThread(), "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r",
               {address, e.i32(op.getBytes())});
    return success();
  }
};

struct MbarrierWaitLowering : ThreadPattern<MbarrierWaitOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(MbarrierWaitOp, Adaptor operands, Emitter &e, Results &) const override {
    Value address = barrierAddress(e, single(operands.getBarriers()), single(operands.getIndex()));
    e.ptx("{\n"
          ".reg .pred done;\n"
          "wait_${:uid}:\n"
          "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
          "@!done bra wait_${:uid};\n"
          "}",
          "r,r", {address, e.toI32(single(operands.getParity()))});
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Fences, clusters, launches
//===----------------------------------------------------------------------===//

/// An op that is one instruction without operands.
template <typename OpT, typename Text> struct InstructionLowering : ThreadPattern<OpT> {
  InstructionLowering(const TypeConverter &converter, MLIRContext *context, Text text)
      : ThreadPattern<OpT>(converter, context), text(text) {}
  LogicalResult lower(OpT op, typename ThreadPattern<OpT>::Adaptor, Emitter &e,
                      typename ThreadPattern<OpT>::Results &) const override {
    e.ptx(text(op), "", {});
    return success();
  }
  Text text;
};

StringRef fenceText(FenceKind kind) {
  switch (kind) {
  case FenceKind::AsyncProxy:
    return "fence.proxy.async.shared::cta;";
  case FenceKind::MbarrierInit:
    return "fence.mbarrier_init.release.cluster;";
  case FenceKind::Block:
    return "fence.acq_rel.cta;";
  case FenceKind::Cluster:
    return "fence.acq_rel.cluster;";
  case FenceKind::Device:
    return "fence.acq_rel.gpu;";
  }
  llvm_unreachable("every case returns");
}

/// By intrinsics, which LLVM knows to be convergent: copies of the instructions on two
/// paths would split a warp.
struct ClusterBarrierLowering : ThreadPattern<ClusterBarrierOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ClusterBarrierOp, Adaptor, Emitter &e, Results &) const override {
    NVVM::ClusterArriveOp::create(e, e.getUnitAttr());
    NVVM::ClusterWaitOp::create(e, e.getUnitAttr());
    return success();
  }
};

struct ClusterRankLowering : ThreadPattern<ClusterRankOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(ClusterRankOp, Adaptor, Emitter &e, Results &results) const override {
    Value rank = NVVM::ClusterId::create(e, e.getI32Type());
    results.push_back({e.createOrFold<arith::IndexCastOp>(e.getIndexType(), rank)});
    return success();
  }
};

struct SignalLowering : ThreadPattern<SignalOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(SignalOp, Adaptor operands, Emitter &e, Results &) const override {
    Value pointer = counterPointer(e, single(operands.getCounters()), single(operands.getIndex()));
    e.barrier();
    e.ifThen(e.isFirstThread(), [&] {
      e.ptx("fence.acq_rel.gpu;\nred.release.gpu.global.add.u32 [$0], 1;", "l", {pointer});
    });
    return success();
  }
};

struct WaitCounterLowering : ThreadPattern<WaitCounterOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(WaitCounterOp op, Adaptor operands, Emitter &e, Results &) const override {
    Value pointer = counterPointer(e, single(operands.getCounters()), single(operands.getIndex()));
    e.ifThen(e.isFirstThread(), [&] {
      e.ptx("{\n"
            ".reg .pred less;\n"
            ".reg .b32 count;\n"
            "poll_${:uid}:\n"
            "ld.acquire.gpu.global.b32 count, [$0];\n"
            "setp.lt.u32 less, count, $1;\n"
            "@less bra poll_${:uid};\n"
            "}",
            "l,r", {pointer, e.i32(op.getValue())});
    });
    e.barrier();
    return success();
  }
};
} // namespace

template <typename OpT, typename Text>
static void addInstruction(const TypeConverter &converter, RewritePatternSet &patterns, Text text) {
  patterns.add<InstructionLowering<OpT, Text>>(converter, patterns.getContext(), text);
}

void mirage::thread::populateSyncPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<BarrierLowering, MbarrierAllocLowering, MbarrierInitLowering, MbarrierArriveLowering,
               CopyArriveLowering, MbarrierExpectLowering, MbarrierWaitLowering,
               ClusterBarrierLowering, ClusterRankLowering, SignalLowering, WaitCounterLowering>(
      converter, patterns.getContext());
  addInstruction<FenceOp>(converter, patterns, [](FenceOp op) { return fenceText(op.getKind()); });
  addInstruction<SetMaxRegistersOp>(converter, patterns, [](SetMaxRegistersOp op) {
    return llvm::formatv("setmaxnreg.{0}.sync.aligned.u32 {1};", op.getDecrease() ? "dec" : "inc",
                         op.getCount())
        .str();
  });
  addInstruction<DependentWaitOp>(converter, patterns,
                                  [](DependentWaitOp) { return "griddepcontrol.wait;"; });
  addInstruction<DependentLaunchOp>(
      converter, patterns, [](DependentLaunchOp) { return "griddepcontrol.launch_dependents;"; });
  addInstruction<BulkCommitOp>(converter, patterns,
                               [](BulkCommitOp) { return "cp.async.bulk.commit_group;"; });
  addInstruction<BulkWaitOp>(converter, patterns, [](BulkWaitOp op) {
    return llvm::formatv("cp.async.bulk.wait_group{0} {1};", op.getRead() ? ".read" : "",
                         op.getPending())
        .str();
  });
  addInstruction<WgmmaFenceOp>(converter, patterns,
                               [](WgmmaFenceOp) { return "wgmma.fence.sync.aligned;"; });
  addInstruction<WgmmaCommitOp>(converter, patterns,
                                [](WgmmaCommitOp) { return "wgmma.commit_group.sync.aligned;"; });
}
