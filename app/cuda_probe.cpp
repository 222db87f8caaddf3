// SPDX-License-Identifier: Apache-2.0
#include "cuda_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "cuda/library_info.h"
#include "launch/unique_fd.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kSeconds = 120;
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";  // its place is part of the ABI

struct ChildEnd {
  std::string output;
  std::string trouble;  // "" for a child that ended by itself with status 0
};

std::string trouble_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("it died of signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("it ended with status {}", WEXITSTATUS(status));
  return "";
}

// Runs `body` in a child, which writes to the descriptor that it is given.
ChildEnd run_child(const std::function<void(int)>& body) {
  Pipe pipe = make_pipe();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return {"", "no process could be started: " + errno_text()};
  if (child == 0) {
    body(pipe.write.get());
    _exit(0);
  }
  pipe.write.close();
  ChildEnd end;
  const double limit = monotonic_seconds() + kSeconds;
  char buffer[4096];
  for (;;) {
    pollfd file{pipe.read.get(), POLLIN, 0};
    const double left = limit - monotonic_seconds();
    if (left <= 0 || poll(&file, 1, static_cast<int>(left * 1e3) + 1) == 0) {
      kill(child, SIGKILL);
      end.trouble = fmt::format("no answer in {} seconds", kSeconds);
      break;
    }
    const ssize_t count = read(pipe.read.get(), buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) end.output.append(buffer, static_cast<size_t>(count));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (end.trouble.empty()) end.trouble = trouble_of(status);
  return end;
}

void silence_standard_error() {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDERR_FILENO);
}

// The loader's own list, as ldd prints it: "\tlibcublas.so.13 => not found". (With --list instead
// of the variable it ends at the first that is missing.)
std::vector<std::string> missing_libraries(const std::string& library) {
  const ChildEnd end = run_child([&](int out) {
    dup2(out, STDOUT_FILENO);
    silence_standard_error();
    setenv("LD_TRACE_LOADED_OBJECTS", "1", /*overwrite=*/1);
    execl(kLoader, kLoader, library.c_str(), nullptr);
    _exit(127);
  });
  std::vector<std::string> missing;
  for (const std::string& line : split(end.output, '\n')) {
    if (line.find("=> not found") != std::string::npos)
      missing.push_back(trim(line.substr(0, line.find("=>"))));
  }
  return missing;
}

std::string call_text(void* library, const char* name) {
  const auto function = reinterpret_cast<CudaLibraryText>(dlsym(library, name));
  return function == nullptr ? "" : function();
}

// Runs in the child.
Json load(const std::string& path, bool with_devices) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {{"error", dlerror()}};
  Json found = {{"architectures", call_text(library, kCudaArchitectures)}};
  const auto add = [&](const char* key, const char* function) {
    const Json parsed = Json::parse(call_text(library, function), nullptr, false);
    if (!parsed.is_discarded()) found[key] = parsed;
  };
  add("versions", kCudaVersions);
  if (with_devices) add("devices", kCudaDevices);
  return found;
}

}  // namespace

CudaProbe probe_cuda_library(bool with_devices) {
  CudaProbe probe;
  const std::string path = cuda_library().string();
  probe.built = !path.empty();
  if (!probe.built) return probe;
  probe.missing = missing_libraries(path);
  const ChildEnd end = run_child([&](int out) {
    silence_standard_error();
    write_all(out, load(path, with_devices).dump());
    _exit(0);  // without the destructors of libraries
  });
  const Json found = Json::parse(end.output, nullptr, false);
  if (found.is_discarded()) {
    probe.error = end.trouble.empty() ? "it gave no answer" : end.trouble;
    return probe;
  }
  probe.error = found.value("error", "");
  probe.architectures = found.value("architectures", "");
  probe.versions = found.value("versions", Json::object());
  probe.devices = found.value("devices", Json::object());
  return probe;
}

}  // namespace gantrain
