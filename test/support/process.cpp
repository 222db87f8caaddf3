// SPDX-License-Identifier: Apache-2.0
#include "support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "support/catch.h"
#include "support/paths.h"
#include "support/starter.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Variables that say where ranks run or how: they would change what the command does.
bool is_foreign(const std::string& entry) {
  static const std::vector<std::string> kPrefixes = {"GANTRAIN_",
                                                     "RANK=",
                                                     "LOCAL_RANK=",
                                                     "WORLD_SIZE=",
                                                     "LOCAL_WORLD_SIZE=",
                                                     "MASTER_ADDR=",
                                                     "MASTER_PORT=",
                                                     "GROUP_RANK=",
                                                     "SLURM_",
                                                     "OMPI_",
                                                     "PMI_",
                                                     "PMIX_",
                                                     "TORCHELASTIC_",
                                                     "PET_"};
  for (const std::string& prefix : kPrefixes) {
    if (starts_with(entry, prefix)) return true;
  }
  return false;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!is_foreign(text) && added.count(text.substr(0, text.find('='))) == 0)
      result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Reads what is there; false at the end of the file.
bool drain(int descriptor, std::string& text) {
  char buffer[65536];
  const ssize_t count = read(descriptor, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<size_t>(count));
  return count != 0;
}

// The variable by which all processes of one command are found, whatever became of their parents.
constexpr const char* kMark = "GANTRAIN_TEST_ID";

std::string new_mark() {
  static int count = 0;
  return std::to_string(getpid()) + "." + std::to_string(now()) + "." + std::to_string(count++);
}

// What a process of the program has from its start on and no fork of it can change: limits, and
// variables that libraries read while they are loaded.
struct Start {
  std::vector<rlimit> limits;
  std::vector<std::string> variables;

  bool operator==(const Start& other) const {
    const auto same = [](const rlimit& a, const rlimit& b) {
      return a.rlim_cur == b.rlim_cur && a.rlim_max == b.rlim_max;
    };
    return variables == other.variables && std::ranges::equal(limits, other.limits, same);
  }
};

Start start_with(const std::vector<std::string>& environment) {
  Start start;
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    start.limits.emplace_back();
    getrlimit(static_cast<__rlimit_resource>(resource), &start.limits.back());
  }
  for (const std::string& entry : environment) {
    for (const std::string& prefix :
         split("LD_ OMP_ GOMP_ KMP_ MKL_ MALLOC_ GLIBC_ LC_ LANG TORCH_ ATEN_ GANTRAIN_TORCH_LIB",
               ' ')) {
      if (starts_with(entry, prefix)) start.variables.push_back(entry);
    }
  }
  std::ranges::sort(start.variables);
  return start;
}

// As this process was started, before any test changed anything.
const Start own_start = start_with(environment_with({}));

// The verbs that load the trainer library, as the program itself lists them.
std::set<std::string> computing_verbs() {
  const std::string command = shell_quote(gantrain_program().string()) + " help --json";
  FILE* const out = popen(command.c_str(), "re");
  REQUIRE(out != nullptr);
  std::string text;
  while (drain(fileno(out), text)) {
  }
  REQUIRE(pclose(out) == 0);
  std::set<std::string> verbs;
  for (const auto& verb : nlohmann::json::parse(text).at("commands"))
    if (verb.at("computes").get<bool>()) verbs.insert(verb.at("name").get<std::string>());
  return verbs;
}

// Whether the command, of the program's name and its arguments, loads the trainer library.
bool computes(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  if (words.size() < 2 || has("--dry-run") || has("--help")) return false;
  static const std::set<std::string> verbs = computing_verbs();
  return starts_with(words[1], "--") || verbs.count(words[1]) != 0;
}

// A process that starts commands as forks of itself, for which the trainer library need not be
// loaded again (program_starter.cpp). The first command of a test that computes is executed, and so
// is every one that does not compute or begins otherwise, as with less memory.
class Starter {
 public:
  // The process, a child of this one; nothing where it has to be executed.
  std::optional<pid_t> start(const std::vector<std::string>& words,
                             const std::vector<std::string>& environment,
                             const fs::path& folder,
                             int out,
                             int err);

 private:
  void begin(const fs::path& starter, const std::vector<std::string>& environment);

  std::mutex mutex_;
  int commands_ = 0;
  int socket_ = -1;  // ends with this process, and so does the other
};

void Starter::begin(const fs::path& starter, const std::vector<std::string>& environment) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::vector<std::string> words = {"gantrain"}, variables = environment;
  // It is no part of the command's family.
  std::erase_if(variables, [](const std::string& entry) { return starts_with(entry, kMark); });
  variables.push_back("LD_PRELOAD=" + starter.string());
  variables.push_back("GANTRAIN_TEST_STARTER=" + std::to_string(ends[1]));
  const std::string program = gantrain_program().string();
  std::vector<char*> argv = pointers(words), envp = pointers(variables);
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    fcntl(ends[1], F_SETFD, 0);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  socket_ = ends[0];
}

std::optional<pid_t> Starter::start(const std::vector<std::string>& words,
                                    const std::vector<std::string>& environment,
                                    const fs::path& folder,
                                    int out,
                                    int err) {
  const std::lock_guard lock(mutex_);
  const fs::path starter = fs::path(build_folder()) / "test/libgantrain_starter.so";
  if (!computes(words) || !fs::exists(starter) || commands_++ == 0) return {};
  if (!(start_with(environment) == own_start)) return {};
  if (socket_ < 0) begin(starter, environment);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t pid = -1;
  const bool asked = send_request(socket_,
                                  fs::absolute(folder.empty() ? "." : folder).string(),
                                  words,
                                  environment,
                                  {in, out, err}) &&
                     read_whole(socket_, &pid, sizeof pid);
  close(in);
  if (asked && pid > 0) return pid;
  return {};
}

// Third field of /proc/<pid>/stat; the second may hold blanks.
char state_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() ? 'X' : line[end + 2];
}

}  // namespace

fs::path gantrain_program() { return fs::path(build_folder()) / "gantrain"; }

Command::Command(const std::vector<std::string>& arguments, const CommandOptions& options)
    : started_(now()), limit_(options.seconds), mark_(new_mark()) {
  int out[2];
  int err[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(pipe2(err, O_CLOEXEC) == 0);
  const std::string program = gantrain_program().string();
  std::vector<std::string> words = {options.typed};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> added = options.environment;
  added[kMark] = mark_;
  std::vector<std::string> variables = environment_with(added);
  std::vector<char*> argv = pointers(words);
  std::vector<char*> envp = pointers(variables);
  static Starter starter;
  const std::optional<pid_t> started =
      starter.start(words, variables, options.folder, out[1], err[1]);
  pid_ = started ? *started : fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Command::~Command() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t pid : family()) kill(pid, SIGKILL);
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

void Command::signal(int number) const { REQUIRE(kill(pid_, number) == 0); }

bool Command::read_some() {
  if (now() - started_ > limit_) {
    kill(pid_, SIGKILL);
    FAIL("not done after " << limit_ << " s; standard error: " << outcome_.err);
  }
  pollfd files[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};  // poll ignores negative descriptors
  if (out_ < 0 && err_ < 0) return false;
  if (poll(files, 2, 100) <= 0) return true;
  const auto take = [](const pollfd& file, int& descriptor, std::string& text) {
    if (file.revents == 0 || drain(descriptor, text)) return;
    close(descriptor);
    descriptor = -1;
  };
  take(files[0], out_, outcome_.out);
  take(files[1], err_, outcome_.err);
  return true;
}

bool Command::wait_for(const std::string& text) {
  while (outcome_.err.find(text) == std::string::npos) {
    if (!read_some()) return false;
  }
  return true;
}

Outcome Command::wait() {
  while (read_some()) {
  }
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  outcome_.seconds = watch_.seconds();
  outcome_.left = family();
  outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome_;
}

Outcome gantrain(const std::vector<std::string>& arguments, const CommandOptions& options) {
  return Command(arguments, options).wait();
}

TakenPort::TakenPort() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(descriptor_, 1) == 0);
  REQUIRE(getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
}

TakenPort::~TakenPort() { close(descriptor_); }

bool is_alive(pid_t pid) {
  const char state = state_of_process(pid);
  return state != 'X' && state != 'Z';
}

std::vector<pid_t> Command::family() const {
  const std::string entry = fmt::format("{}={}{}", kMark, mark_, '\0');
  std::vector<pid_t> result;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    const auto pid = parse_int(process.path().filename().string());
    if (!pid) continue;
    std::ifstream file(process.path() / "environ");  // empty for zombies
    std::ostringstream variables;
    variables << file.rdbuf();  // fails without an exception where the process has ended
    if (variables.str().find(entry) != std::string::npos && is_alive(static_cast<pid_t>(*pid))) {
      result.push_back(static_cast<pid_t>(*pid));
    }
  }
  return result;
}

bool eventually(const std::function<bool()>& holds, double seconds) {
  const double end = now() + seconds;
  while (!holds()) {
    if (now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace gantrain
