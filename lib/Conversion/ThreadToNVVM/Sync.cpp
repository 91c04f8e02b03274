//===- Sync.cpp - barriers ------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace mirage::thread;

namespace {
struct BarrierLowering : ThreadPattern<BarrierOp> {
  using ThreadPattern::ThreadPattern;
  LogicalResult lower(BarrierOp, Adaptor, Emitter &e, Results &) const override {
    e.barrier();
    return success();
  }
};
} // namespace

void mirage::thread::populateSyncPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<BarrierLowering>(converter, patterns.getContext());
}
