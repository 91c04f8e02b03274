//===- Passes.td - the pass of the bridge's tests -----------*- tablegen -*-===//
//
// Its Python half is test/PythonPasses/Inputs/mirage/passes/test_bridge.py.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_TEST_PYTHONPASSES_BRIDGE_PASSES_TD
#define MIRAGE_TEST_PYTHONPASSES_BRIDGE_PASSES_TD

include "mirage/PythonPasses/PythonPass.td"

def MirageTestBridge : Mirage_PythonPass<"mirage-test-bridge"> {
  let summary = "exercise the connection to the Python worker";
  let options = [
    Option<"action", "action", "std::string", "\"nothing\"",
           "nothing, annotate, print, remark, warn, fail, fail-at-op, raise, invalid, "
           "exit, crash or hang">,
    Option<"text", "text", "std::string", "\"\"", "what annotate or remark says">,
    ListOption<"values", "values", "int64_t", "integers that annotate records">];
  let statistics = [Statistic<"numOps", "ops", "ops that the worker saw">];
}

#endif // MIRAGE_TEST_PYTHONPASSES_BRIDGE_PASSES_TD
