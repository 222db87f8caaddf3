// SPDX-License-Identifier: Apache-2.0
#include "launch_helper.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "util/error.h"
#include "util/log.h"
#include "util/system.h"

namespace gantrain {

namespace {

// Of the process that asks first, and of all that it starts from then on: cases that run at the
// same time have each their own.
int64_t* numbers() {
  static auto* const all = static_cast<int64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return all;
}

void append(int& fd, std::string& text) {
  char buffer[65536];
  const ssize_t size = ::read(fd, buffer, sizeof buffer);
  if (size > 0) {
    text.append(buffer, static_cast<size_t>(size));
  } else {
    ::close(fd);
    fd = -1;
  }
}

// Whether a signal waits for the process: one that is sent meanwhile would be lost. None waits for
// a zombie, whatever its status says.
bool is_pending(pid_t pid, int number) {
  if (!is_alive(pid)) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("SigPnd:", 0) != 0 && line.rfind("ShdPnd:", 0) != 0) continue;
    if ((std::stoull(line.substr(7), nullptr, 16) >> (number - 1) & 1) != 0) return true;
  }
  return false;
}

constexpr size_t kMark = 7;

}  // namespace

Launcher::Launcher(RankMain main, int64_t nproc, LaunchOptions options) {
  options.device = DeviceKind::kCpu;
  start([main] { return main; }, local_world(nproc), options);
}

Launcher::Launcher(LoadTrainer load,
                   const World& world,
                   const LaunchOptions& options,
                   const std::string& run_dir) {
  start(load, world, options, run_dir);
}

Launcher::Launcher(const Program& program, const World& world, const LaunchOptions& options) {
  start(nullptr, world, options, "", &program);
}

void Launcher::start(const LoadTrainer& load,
                     const World& world,
                     const LaunchOptions& options,
                     const std::string& run_dir,
                     const Program* program) {
  int out[2];
  int err[2];
  if (pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  numbers();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    int code = 0;
    try {
      const ResumeHint hint = [](const std::string& folder) { return "next: resume " + folder; };
      const bool worker = world.role == World::Role::kWorker;
      code = (worker ? run_worker
                     : launch)({world, options, "{}", load, hint, record, run_dir, "runs", program})
                 .code;
    } catch (const UserError& e) {
      error("{}", e.what());
      code = static_cast<int>(e.code());
    }
    std::fflush(nullptr);
    _exit(code);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Launcher::~Launcher() {
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Launcher::signal(int number) {
  ::kill(pid_, number);
  eventually([&] { return !is_pending(pid_, number); }, 60);
  signalled_ = monotonic_seconds();
}

bool Launcher::read_some(int milliseconds) {
  pollfd polled[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (::poll(polled, 2, milliseconds) <= 0) return false;
  if (polled[0].revents != 0) append(out_, result_.out);
  if (polled[1].revents != 0) append(err_, result_.err);
  return true;
}

bool Launcher::wait_for(const std::string& text) {
  const double end = monotonic_seconds() + 60;
  while (result_.err.find(text) == std::string::npos) {
    if (monotonic_seconds() > end || err_ < 0) return false;
    read_some(100);
  }
  return true;
}

Launcher::Result Launcher::wait() {
  const double end = monotonic_seconds() + 60;
  while ((out_ >= 0 || err_ >= 0) && monotonic_seconds() < end) read_some(100);
  if (out_ >= 0 || err_ >= 0) return result_;  // somebody still holds the pipes
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.ended = monotonic_seconds();
  result_.after_signal = result_.ended - signalled_;
  result_.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result_;
}

LaunchOptions restarting(int64_t restarts) {
  LaunchOptions options;
  options.max_restarts = restarts;
  options.patience.first_restart = 0;
  return options;
}

World node(int64_t number, const ReservedPort& port, NodesShape shape) {
  World world;
  world.ranks.nodes = shape.nodes;
  world.ranks.world = shape.nodes * shape.ranks;
  world.ranks.local_world = shape.ranks;
  world.ranks.node_rank = number;
  world.master = {"127.0.0.1", port.number()};
  return world;
}

World local_world(int64_t nproc) {
  World world;
  world.ranks.world = world.ranks.local_world = nproc;
  return world;
}

void sleep_for_ever() {
  while (true) pause();
}

int done(const RankContext&, const char*) { return 0; }

int64_t& shared_number(size_t index) { return numbers()[index]; }

void clear_shared_numbers() {
  for (size_t i = 0; i < 16; ++i) shared_number(i) = 0;
}

void mark_now() { shared_number(kMark) = monotonic_ns(); }
double marked() { return static_cast<double>(shared_number(kMark)) / 1e9; }

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

bool eventually(const std::function<bool()>& holds, double seconds) {
  const double end = monotonic_seconds() + seconds;
  while (!holds()) {
    if (monotonic_seconds() > end) return false;
    usleep(2000);
  }
  return true;
}

}  // namespace gantrain
