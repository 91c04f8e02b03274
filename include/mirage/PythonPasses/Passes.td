//===- Passes.td - passes implemented in Python -------------*- tablegen -*-===//
//
// Each pass here is implemented by the Python module of the same name:
// mirage-foo-bar by mirage/passes/foo_bar.py, whose PASS object holds the
// callable and an options dataclass with the same names, defaults and help
// (a test compares the two). One line in lib/PythonPasses/Passes.cpp
// instantiates the C++ side.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_PYTHONPASSES_PASSES_TD
#define MIRAGE_PYTHONPASSES_PASSES_TD

include "mirage/PythonPasses/PythonPass.td"

def MirageSearch : Mirage_PythonPass<"mirage-search"> {
  let summary = "find candidate µGraphs for each reference graph";
  let description = [{
    Expects graphs in the `reference` form. Puts the reference and the cheapest
    candidates that the search has found into `kernel.alternatives` (form
    `candidates`). The search is exhaustive within its bounds and deterministic for
    a given seed. It always ends, with a remark that says why it stopped and what it
    covered. The pass fails if a graph contains an op without a normal form.
  }];
  let options = [
    Option<"seed", "seed", "int64_t", "0", "seed of every random choice of the search">,
    Option<"timeLimit", "time-limit", "double", "30.0",
           "seconds of search, after which the best so far is kept">,
    Option<"maxCandidates", "max-candidates", "int64_t", "18",
           "candidates that are kept, cheapest first">,
    Option<"maxCuts", "max-cuts", "int64_t", "5000",
           "the largest number of states of a program's cuts at one place">,
    Option<"maxPlans", "max-plans", "int64_t", "100",
           "the largest number of sets of stored intermediates whose kernels are solved">,
    Option<"maxMatmuls", "max-matmuls", "int64_t", "6",
           "the largest number of matmuls in one kernel">,
    Option<"maxOutputs", "max-outputs", "int64_t", "3",
           "the largest number of values that one kernel writes">,
    Option<"maxChoices", "max-choices", "int64_t", "8",
           "the largest number of ways to compute a kernel, to be combined with those of "
           "others">,
    Option<"maxDerivations", "max-derivations", "int64_t", "6",
           "the largest number of derivations of a value">,
    Option<"maxGoals", "max-goals", "int64_t", "4000",
           "the largest number of values in one type of frame">,
    Option<"maxColumns", "max-columns", "int64_t", "6000",
           "the largest number of choices of sizes in one type of frame">,
    Option<"maxSamples", "max-samples", "int64_t", "3",
           "the largest number of choices of sizes at which derivations are picked">,
    Option<"maxRowClasses", "max-row-classes", "int64_t", "16",
           "the largest number of classes of rows, which start at different elements, for "
           "boxes that are shifted">,
    Option<"chip", "chip", "std::string", "::mirage::defaultChip",
           "the GPU whose limits and cost model are used">];
  let statistics = [
    Statistic<"numCandidates", "candidates", "candidates kept">];
}

def MirageVerify : Mirage_PythonPass<"mirage-verify"> {
  let summary = "attach a verdict to each candidate and drop what is not equivalent";
  let description = [{
    Expects graphs in the `candidates` form. Compares each candidate with the
    reference (by a proof with normal forms, by random tests over finite fields, and
    in floating point against float64), keeps those that are proved or probable, and
    records their verdicts (form `verified`). A refuted candidate is reported with
    its witness. Source: Wu et al., OSDI'25, section 5.
  }];
  let options = [
    Option<"seed", "seed", "int64_t", "-1",
           "seed of the random tests; negative: from the system's entropy">,
    Option<"draws", "draws", "int64_t", "2", "independent random draws">,
    Option<"checkFloat", "check-float", "bool", "true",
           "measure rounding errors against float64">];
  let statistics = [
    Statistic<"numProved", "proved", "candidates proved equivalent">,
    Statistic<"numProbable", "probable", "candidates that passed random tests">,
    Statistic<"numRefuted", "refuted", "candidates with a witness against them">,
    Statistic<"numUnknown", "unknown", "candidates without a verdict">];
}

def MirageStabilize : Mirage_PythonPass<"mirage-stabilize"> {
  let summary = "rewrite exponentials so that they cannot overflow";
  let description = [{
    If the outputs of a kernel do not change when a row is shifted (as in softmax),
    sums of exponentials are replaced by their online forms with a running maximum.
    The pass must run before `mirage-verify`: a verdict holds only for the graph that
    was verified, so graphs in the `verified` form are refused.
  }];
}

def MirageSkipSteps : Mirage_PythonPass<"mirage-skip-steps"> {
  let summary = "leave out steps of loops whose tiles a mask empties";
  let description = [{
    If a kernel computes a mask from positions (causal, sliding window, blocks), the
    pass decides by interval arithmetic, for each block, which steps of its loops
    contribute nothing to their accumulators. It then restricts the loops (`steps` of
    `block.loop`) to an interval that contains all other steps. If the mask compares
    positions with integers from the caller, the block reads them (`block.scalar`). The
    pass runs after `mirage-stabilize`, because running maxima must not change either,
    and before `mirage-verify`, which shows independently that the omitted steps
    contribute nothing.
  }];
}

def MirageSelect : Mirage_PythonPass<"mirage-select"> {
  let summary = "replace each kernel.alternatives by its cheapest alternative";
  let description = [{
    Expects graphs in the `verified` form and leaves them in the `selected` form. The
    cost is the time on `chip` that the cost model predicts. With `keep` above 1, that
    many alternatives are kept, the cheapest first, so that measurements can choose
    among them; the form then stays `verified`.
  }];
  let options = [
    Option<"chip", "chip", "std::string", "::mirage::defaultChip",
           "the GPU whose cost model is used">,
    Option<"keep", "keep", "int64_t", "1", "how many alternatives to keep">];
}

def MirageShortlist : Mirage_PythonPass<"mirage-shortlist"> {
  let summary = "keep the candidates that are most worth verifying";
  let description = [{
    Expects graphs in the `candidates` form. For each part of the program, the
    candidates are kept that the cost model predicts to be the fastest on `chip`.
    Candidates that are safe from overflow come first. Among these, and among the
    others, at most two with the same grids, loops and schedules come before those
    with different ones. The pass runs after `mirage-stabilize`, because that rewrite
    changes times.
  }];
  let options = [
    Option<"candidates", "candidates", "int64_t", "6", "candidates to verify">,
    Option<"chip", "chip", "std::string", "::mirage::defaultChip",
           "the GPU whose cost model is used">];
  let statistics = [
    Statistic<"numCandidates", "candidates", "candidates kept">];
}

def MirageRank : Mirage_PythonPass<"mirage-rank"> {
  let summary = "keep the candidates that are predicted to be the fastest once compiled";
  let description = [{
    Expects graphs in the `verified` form. Compiles the first `finalists` programs
    by predicted time (the n-th program consists of the n-th candidate of each part)
    and predicts their times again, now with known registers, spills and shared
    memory. As long as the next program is predicted to be faster than all of them,
    it is compiled, too. For each part, the candidate of the fastest program is kept, so that
    `mirage-select` takes it. The pass fails if no program compiles. A graph with a
    part that has no candidate is not changed.
  }];
  let options = [
    Option<"finalists", "finalists", "int64_t", "4",
           "verified candidates to compile, of which the fastest is taken">,
    Option<"chip", "chip", "std::string", "::mirage::defaultChip", "the GPU to compile for">];
}

#endif // MIRAGE_PYTHONPASSES_PASSES_TD
