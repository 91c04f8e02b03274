//===- Passes.cpp - passes implemented in Python --------------------------===//

#include "mirage/PythonPasses/Passes.h"

using namespace mlir;

namespace mirage {
#define GEN_PASS_DEF_MIRAGESEARCH
#define GEN_PASS_DEF_MIRAGEVERIFY
#define GEN_PASS_DEF_MIRAGESTABILIZE
#define GEN_PASS_DEF_MIRAGESKIPSTEPS
#define GEN_PASS_DEF_MIRAGESELECT
#define GEN_PASS_DEF_MIRAGESHORTLIST
#define GEN_PASS_DEF_MIRAGERANK
#include "mirage/PythonPasses/Passes.h.inc"

namespace {
/// The C++ half of a pass: everything except its options is the same for all passes.
template <template <typename> class GeneratedBase>
struct PythonPass : GeneratedBase<PythonPass<GeneratedBase>> {
  using Base = GeneratedBase<PythonPass<GeneratedBase>>;
  using Base::Base;

  void runOnOperation() override {
    if (failed(runPythonPass(*this, this->getOperation())))
      this->signalPassFailure();
  }
};

// One line for each pass of Passes.td.
template struct PythonPass<impl::MirageSearchBase>;
template struct PythonPass<impl::MirageVerifyBase>;
template struct PythonPass<impl::MirageStabilizeBase>;
template struct PythonPass<impl::MirageSkipStepsBase>;
template struct PythonPass<impl::MirageSelectBase>;
template struct PythonPass<impl::MirageShortlistBase>;
template struct PythonPass<impl::MirageRankBase>;
} // namespace
} // namespace mirage
