//===- Bridge.cpp - runs one Python pass on one op ------------------------===//

#include "mirage/PythonPasses/Passes.h"
#include "mirage/PythonPasses/Worker.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace llvm;
using namespace mlir;
using namespace mirage;

// The pass as its pipeline element, `name{option=value …}`, every option with its value: the C++
// declaration defines the defaults.
static std::string printPass(Pass &pass) {
  std::string text;
  raw_string_ostream stream(text);
  pass.printAsTextualPipeline(stream);
  return text;
}

static std::string printOp(Operation *op) {
  std::string text;
  raw_string_ostream stream(text);
  // Locations are included, so that Python's diagnostics point into the user's program, and
  // unchanged ops keep their places.
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  if (op->getParentOp())
    flags.useLocalScope();
  op->print(stream, flags);
  return text;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

static Location readLocation(const json::Object &diagnostic, Operation *op) {
  std::optional<StringRef> text = diagnostic.getString("location");
  if (!text)
    return op->getLoc();
  // A location is parsed for its value; errors of the parser are not reported.
  ScopedDiagnosticHandler ignore(op->getContext(), [](Diagnostic &) { return success(); });
  mlir::Attribute parsed = parseAttribute(*text, op->getContext());
  if (auto location = dyn_cast_or_null<LocationAttr>(parsed))
    return location;
  return op->getLoc();
}

static InFlightDiagnostic openDiagnostic(Location location, StringRef severity) {
  if (severity == "remark")
    return emitRemark(location);
  if (severity == "warning")
    return emitWarning(location);
  return emitError(location);
}

// Emits what the worker reported; true when there was an error among it.
static bool emitDiagnostics(const json::Object &header, Operation *op) {
  bool sawError = false;
  const json::Array *diagnostics = header.getArray("diagnostics");
  if (!diagnostics)
    return false;
  for (const json::Value &value : *diagnostics) {
    const json::Object *entry = value.getAsObject();
    if (!entry)
      continue;
    StringRef severity = entry->getString("severity").value_or("error");
    InFlightDiagnostic diagnostic = openDiagnostic(readLocation(*entry, op), severity);
    diagnostic << entry->getString("message").value_or("");
    if (const json::Array *notes = entry->getArray("notes"))
      for (const json::Value &note : *notes)
        if (const json::Object *object = note.getAsObject())
          diagnostic.attachNote(readLocation(*object, op))
              << object->getString("message").value_or("");
    sawError |= severity == "error";
  }
  return sawError;
}

//===----------------------------------------------------------------------===//
// The answer
//===----------------------------------------------------------------------===//

static LogicalResult replaceOp(Operation *op, StringRef text, StringRef argument) {
  ParserConfig config(op->getContext(), /*verifyAfterParse=*/false);
  OwningOpRef<Operation *> answer =
      parseSourceString<Operation *>(text, config, ("<answer of " + argument + ">").str());
  if (!answer)
    return emitError(op->getLoc())
           << "pass '" << argument << "' answered with text that does not parse (see above)";
  if ((*answer)->getName() != op->getName() || (*answer)->getNumRegions() != op->getNumRegions())
    return emitError(op->getLoc()) << "pass '" << argument << "' was given '" << op->getName()
                                   << "' and answered with '" << (*answer)->getName() << "'";
  op->setAttrs((*answer)->getAttrDictionary());
  for (auto [ours, theirs] : zip_equal(op->getRegions(), (*answer)->getRegions()))
    ours.takeBody(theirs);
  return success();
}

// LLVM's statistics are empty shells in builds without assertions.
static void addStatistics(const json::Object &header, Pass &pass) {
#if LLVM_ENABLE_STATS
  const json::Object *counts = header.getObject("statistics");
  if (!counts)
    return;
  for (Pass::Statistic *statistic : pass.getStatistics())
    if (std::optional<int64_t> count = counts->getInteger(statistic->Name))
      *statistic += *count;
#else
  (void)header;
  (void)pass;
#endif
}

LogicalResult mirage::runPythonPass(Pass &pass, Operation *op) {
  StringRef argument = pass.getArgument();
  auto explain = [&](Error error) {
    return emitError(op->getLoc())
           << "pass '" << argument << "' failed: " << toString(std::move(error));
  };
  Expected<std::shared_ptr<PythonWorker>> worker = PythonWorker::get();
  if (!worker)
    return explain(worker.takeError());
  Expected<PythonReply> reply =
      (*worker)->request(json::Object{{"pass", printPass(pass)}}, printOp(op));
  if (!reply)
    return explain(reply.takeError());

  bool sawError = emitDiagnostics(reply->header, op);
  StringRef status = reply->header.getString("status").value_or("");
  if (status == "failed" || sawError)
    return sawError ? failure() : emitError(op->getLoc()) << "pass '" << argument << "' failed";
  if (status == "unchanged") {
    addStatistics(reply->header, pass);
    return success();
  }
  if (status != "changed")
    return emitError(op->getLoc()) << "pass '" << argument << "' answered with unknown status '"
                                   << status << "' (expected changed, unchanged or failed)";
  addStatistics(reply->header, pass);
  return replaceOp(op, reply->payload, argument);
}
