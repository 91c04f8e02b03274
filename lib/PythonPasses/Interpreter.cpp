//===- Interpreter.cpp - which Python runs the passes ---------------------===//

#include "mirage/PythonPasses/Worker.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace llvm;

namespace {
struct DefaultInterpreter {
  std::mutex mutex;
  std::string path;
};
} // namespace

static DefaultInterpreter &defaultInterpreter() {
  static DefaultInterpreter interpreter;
  return interpreter;
}

void mirage::setPythonInterpreter(StringRef path) {
  DefaultInterpreter &interpreter = defaultInterpreter();
  std::lock_guard<std::mutex> lock(interpreter.mutex);
  interpreter.path = path.str();
}

// `.venv/bin/python3` of the nearest folder above the executable that has one:
// tools in a build tree find the environment of their source tree.
static std::string findVirtualEnvironment() {
  static int anchor;
  std::string executable = sys::fs::getMainExecutable(nullptr, &anchor);
  for (StringRef folder = sys::path::parent_path(executable); !folder.empty();
       folder = sys::path::parent_path(folder)) {
    SmallString<256> python(folder);
    sys::path::append(python, ".venv", "bin", "python3");
    if (sys::fs::can_execute(python))
      return python.str().str();
  }
  return "";
}

Expected<std::string> mirage::findPythonInterpreter() {
  if (std::optional<std::string> path = sys::Process::GetEnv("MIRAGE_PYTHON"))
    if (!path->empty())
      return *path;
  {
    DefaultInterpreter &interpreter = defaultInterpreter();
    std::lock_guard<std::mutex> lock(interpreter.mutex);
    if (!interpreter.path.empty())
      return interpreter.path;
  }
  if (std::string path = findVirtualEnvironment(); !path.empty())
    return path;
  if (ErrorOr<std::string> path = sys::findProgramByName("python3"))
    return *path;
  return createStringError("no python3 on the search path to run this pass with; set MIRAGE_PYTHON "
                           "to an interpreter that can import mirage");
}
