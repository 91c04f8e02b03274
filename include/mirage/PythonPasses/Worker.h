//===- Worker.h - a Python process that runs passes -------------*- C++ -*-===//
//
// The process runs `python -m mirage.passes.worker` and talks over one stream
// socket, its standard input. The protocol is described in that module.
//
//===----------------------------------------------------------------------===//

#ifndef MIRAGE_PYTHONPASSES_WORKER_H
#define MIRAGE_PYTHONPASSES_WORKER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <sys/types.h>

namespace mirage {

/// Sets the interpreter that workers run in unless the environment variable
/// MIRAGE_PYTHON names another. Tools that embed Python pass their own.
void setPythonInterpreter(llvm::StringRef path);

/// The interpreter that workers run in, in order of preference: MIRAGE_PYTHON,
/// the one set by setPythonInterpreter, the virtual environment `.venv` of a
/// folder above the running executable, `python3` of the search path.
llvm::Expected<std::string> findPythonInterpreter();

/// The answer to one request: a JSON header and a payload.
struct PythonReply {
  llvm::json::Object header;
  std::string payload;
};

/// A running worker. One request at a time; calls from several threads wait.
class PythonWorker {
public:
  /// The worker of this process, started on first use and again after it died.
  static llvm::Expected<std::shared_ptr<PythonWorker>> get();

  PythonWorker(const PythonWorker &) = delete;
  PythonWorker &operator=(const PythonWorker &) = delete;
  ~PythonWorker();

  /// Sends `header` (its "length" is filled in) and `payload`, and waits for
  /// the answer. After an error the worker is gone.
  llvm::Expected<PythonReply> request(llvm::json::Object header, llvm::StringRef payload);

private:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  PythonWorker(pid_t process, int channel, std::string command)
      : process(process), channel(channel), command(std::move(command)) {}

  static llvm::Expected<std::shared_ptr<PythonWorker>> start();

  llvm::Error send(llvm::StringRef bytes);
  llvm::Expected<llvm::json::Object> receiveHeader(TimePoint deadline);
  llvm::Error receiveUntil(size_t size, TimePoint deadline);
  /// Reads once into `buffer`; an error when the deadline passes first.
  llvm::Error receiveSome(TimePoint deadline);
  /// Ends the process and says how it ended.
  llvm::Error fail(const llvm::Twine &what);
  std::string reap();

  std::mutex mutex;
  pid_t process;
  int channel;
  std::string command;
  /// Received bytes that no message has consumed.
  std::string buffer;
  std::chrono::seconds timeout{0};
};

} // namespace mirage

#endif // MIRAGE_PYTHONPASSES_WORKER_H
