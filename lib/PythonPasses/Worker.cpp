//===- Worker.cpp - a Python process that runs passes ---------------------===//

#include "mirage/PythonPasses/Worker.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace llvm;
using namespace mirage;

extern char **environ;

// How long a worker may take for its imports on a busy machine.
static constexpr std::chrono::seconds startupTimeout{60};
// How long a pass may take if MIRAGE_WORKER_TIMEOUT is not set. Passes have their own limits; this
// one catches passes that hang.
static constexpr std::chrono::seconds defaultTimeout{1800};

static Expected<std::chrono::seconds> requestTimeout() {
  std::optional<std::string> text = sys::Process::GetEnv("MIRAGE_WORKER_TIMEOUT");
  if (!text)
    return defaultTimeout;
  unsigned seconds = 0;
  if (StringRef(*text).getAsInteger(10, seconds) || seconds == 0)
    return createStringError("MIRAGE_WORKER_TIMEOUT must be a positive number "
                             "of seconds, but it is '" +
                             *text + "'");
  return std::chrono::seconds(seconds);
}

//===----------------------------------------------------------------------===//
// Starting and ending the process
//===----------------------------------------------------------------------===//

Expected<std::shared_ptr<PythonWorker>> PythonWorker::get() {
  // A process, like a thread pool, is worth keeping: one pipeline after the
  // other (one per chunk of a split input) would start Python again.
  static std::mutex mutex;
  static std::shared_ptr<PythonWorker> shared;
  std::lock_guard<std::mutex> lock(mutex);
  if (!shared || shared->process < 0) {
    Expected<std::shared_ptr<PythonWorker>> started = start();
    if (!started)
      return started.takeError();
    shared = std::move(*started);
  }
  return shared;
}

Expected<std::shared_ptr<PythonWorker>> PythonWorker::start() {
  Expected<std::string> interpreter = findPythonInterpreter();
  if (!interpreter)
    return interpreter.takeError();
  Expected<std::chrono::seconds> timeout = requestTimeout();
  if (!timeout)
    return timeout.takeError();
  std::string command = *interpreter + " -m mirage.passes.worker";

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return createStringError("could not make a socket pair: " + sys::StrError());
  scope_exit closeTheirs([&] { close(ends[1]); });

  // The socket is the worker's standard input; its output goes to our standard error, so that a
  // stray print cannot break the protocol.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  scope_exit destroyActions([&] { posix_spawn_file_actions_destroy(&actions); });
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);

  const char *arguments[] = {interpreter->c_str(), "-m", "mirage.passes.worker", nullptr};
  // `-m` would put the current folder, and any random.py in it, on the path.
  std::string safePath = "PYTHONSAFEPATH=1";
  SmallVector<char *> environment;
  for (char **entry = environ; *entry; ++entry)
    environment.push_back(*entry);
  environment.push_back(safePath.data());
  environment.push_back(nullptr);

  pid_t process = -1;
  int status = posix_spawnp(&process, interpreter->c_str(), &actions, nullptr,
                            const_cast<char **>(arguments), environment.data());
  if (status != 0) {
    close(ends[0]);
    return createStringError("could not start '" + command + "': " + sys::StrError(status) +
                             "; set MIRAGE_PYTHON to an interpreter that can import mirage");
  }
  std::shared_ptr<PythonWorker> worker(new PythonWorker(process, ends[0], std::move(command)));
  worker->timeout = *timeout;
  closeTheirs.release();
  close(ends[1]); // otherwise the worker's end would go unnoticed

  Expected<json::Object> greeting = worker->receiveHeader(Clock::now() + startupTimeout);
  if (!greeting)
    return createStringError(toString(greeting.takeError()) +
                             " before it was ready; set MIRAGE_PYTHON to an interpreter that can "
                             "import mirage");
  if (greeting->getInteger("protocol") != 1)
    return worker->fail("the python worker '" + worker->command +
                        "' speaks another protocol version (expected 1)");
  return worker;
}

PythonWorker::~PythonWorker() { reap(); }

// Closing the channel asks the worker to end; it is killed when it does not.
std::string PythonWorker::reap() {
  if (process < 0)
    return "was not running";
  close(channel);
  int status = 0;
  pid_t ended = 0;
  for (int attempt = 0; attempt < 50; ++attempt) {
    ended = waitpid(process, &status, WNOHANG);
    if (ended != 0)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  bool killed = ended == 0;
  if (killed) {
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
  }
  process = -1;
  if (killed)
    return "was stopped";
  if (WIFSIGNALED(status))
    return formatv("was killed by signal {0}", WTERMSIG(status));
  return formatv("exited with status {0}", WEXITSTATUS(status));
}

Error PythonWorker::fail(const Twine &what) {
  std::string message = what.str();
  reap();
  return createStringError(message);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

Error PythonWorker::send(StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::send(channel, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return createStringError("the python worker '" + command + "' " + reap());
    bytes = bytes.drop_front(count);
  }
  return Error::success();
}

Error PythonWorker::receiveSome(TimePoint deadline) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{channel, POLLIN, 0};
    int ready = left.count() <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      return fail("the python worker '" + command + "' did not answer in time");
    char chunk[1 << 16];
    ssize_t count = ready < 0 ? -1 : recv(channel, chunk, sizeof(chunk), 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return createStringError("the python worker '" + command + "' " + reap());
    buffer.append(chunk, count);
    return Error::success();
  }
}

Error PythonWorker::receiveUntil(size_t size, TimePoint deadline) {
  while (buffer.size() < size)
    if (Error error = receiveSome(deadline))
      return error;
  return Error::success();
}

Expected<json::Object> PythonWorker::receiveHeader(TimePoint deadline) {
  size_t newline;
  while ((newline = buffer.find('\n')) == std::string::npos)
    if (Error error = receiveSome(deadline))
      return std::move(error);
  std::string line = buffer.substr(0, newline);
  buffer.erase(0, newline + 1);
  Expected<json::Value> value = json::parse(line);
  if (!value)
    return joinErrors(fail("the python worker '" + command + "' answered with malformed JSON"),
                      value.takeError());
  if (json::Object *object = value->getAsObject())
    return std::move(*object);
  return fail("the python worker '" + command + "' answered with JSON that is no object");
}

Expected<PythonReply> PythonWorker::request(json::Object header, StringRef payload) {
  std::lock_guard<std::mutex> lock(mutex);
  if (process < 0)
    return createStringError("the python worker '" + command +
                             "' has ended after an earlier error");
  TimePoint deadline = Clock::now() + timeout;
  header["length"] = static_cast<int64_t>(payload.size());
  std::string line = formatv("{0}\n", json::Value(std::move(header)));
  if (Error error = send(line))
    return std::move(error);
  if (Error error = send(payload))
    return std::move(error);

  PythonReply reply;
  Expected<json::Object> answer = receiveHeader(deadline);
  if (!answer)
    return answer.takeError();
  reply.header = std::move(*answer);
  int64_t length = reply.header.getInteger("length").value_or(0);
  if (length < 0)
    return fail("the python worker '" + command + "' announced a payload of negative length");
  if (Error error = receiveUntil(length, deadline))
    return std::move(error);
  reply.payload = buffer.substr(0, length);
  buffer.erase(0, length);
  return reply;
}
