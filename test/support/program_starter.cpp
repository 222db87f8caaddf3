// SPDX-License-Identifier: Apache-2.0
// Preloaded into the program, which then starts commands of itself: its main() in forks of a
// process that has loaded the trainer library, whose loading takes longer than most commands of the
// tests. Such a command differs from one that was executed in nothing that it can see but its time
// and memory: arguments, environment, working folder and standard files are its own.
#include <dlfcn.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "launch/where/devices.h"
#include "support/starter.h"
#include "util/file.h"

namespace gantrain {
namespace {

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

// The numbers of /proc/self/stat from field 3, the state, on; it counts as 0.
std::vector<uint64_t> numbers_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(line.rfind(')') + 1));
  std::vector<uint64_t> numbers;
  for (std::string word; words >> word;)
    numbers.push_back(std::strtoull(word.c_str(), nullptr, 10));
  return numbers;
}

// What /proc shows as this process's arguments and environment. False where the kernel does not
// allow it.
bool show(char* arguments, char* environment, char* end) {
  const std::vector<uint64_t> numbers = numbers_of_process();
  const auto field = [&](size_t number) { return numbers.at(number - 3); };
  prctl_mm_map map{};
  map.start_code = field(26);
  map.end_code = field(27);
  map.start_stack = field(28);
  map.start_data = field(45);
  map.end_data = field(46);
  map.start_brk = field(47);
  map.brk = reinterpret_cast<uintptr_t>(::sbrk(0));
  map.arg_start = reinterpret_cast<uintptr_t>(arguments);
  map.arg_end = map.env_start = reinterpret_cast<uintptr_t>(environment);
  map.env_end = reinterpret_cast<uintptr_t>(end);
  map.exe_fd = static_cast<uint32_t>(-1);
  return ::prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0;
}

[[noreturn]] void run(const StartRequest& request, std::vector<char>& texts, const int* files) {
  constexpr int kNoProgram = 127;  // as where it cannot be executed
  for (int standard = 0; standard < kStandardFiles; ++standard) {
    if (::dup2(files[standard], standard) < 0) ::_exit(kNoProgram);
  }
  ::close_range(kStandardFiles, ~0U, 0);
  char* const end = texts.data() + texts.size();
  std::vector<char*> words;
  for (char* at = texts.data(); at < end; at += std::strlen(at) + 1) words.push_back(at);
  const auto arguments = words.begin() + 1, environment = arguments + request.arguments;
  std::vector<char*> argv(arguments, environment), envp(environment, words.end());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  if (::chdir(words[0]) != 0 || !show(argv.front(), envp.front(), end)) ::_exit(kNoProgram);
  environ = envp.data();
  std::exit(program_main(static_cast<int>(request.arguments), argv.data(), envp.data()));
}

// A fork that is a child of this process's parent. Glibc's fork() cannot do that; what it does
// beside is to keep the id of the thread, where the kernel clears it at the end, and the list of
// robust locks, of which the program has none.
pid_t fork_for_parent(int* id_of_thread) {
  clone_args how{};
  how.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  how.child_tid = reinterpret_cast<uintptr_t>(id_of_thread);
  return static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
}

// Loads the trainer library as the program does. Returns whether forks can be made of this process.
bool prepare() {
  set_variables_of_libtorch();
  const std::string trainer = (executable_folder() / "libgantrain_trainer.so").string();
  constexpr size_t kThreads = 20 - 3;
  unsigned size = 0;
  return ::dlopen(trainer.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr &&
         numbers_of_process().at(kThreads) == 1 &&
         ::prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0) == 0 && size == sizeof(prctl_mm_map);
}

// One program asks over this socket, and the commands are its children. Answers with their ids.
int serve_parent(int socket) {
  int* id_of_thread = nullptr;
  if (!prepare() || ::prctl(PR_GET_TID_ADDRESS, &id_of_thread) != 0 || id_of_thread == nullptr)
    return 1;
  StartRequest request;
  std::vector<char> texts;
  for (int files[kStandardFiles]; receive_request(socket, request, texts, files);) {
    const pid_t child = fork_for_parent(id_of_thread);
    if (child == 0) run(request, texts, files);
    for (const int file : files) ::close(file);
    if (::write(socket, &child, sizeof child) != sizeof child) break;
  }
  return 0;
}

// Answers with a command's id, and with its status once it has ended.
void serve_one(int socket) {
  StartRequest request;
  std::vector<char> texts;
  int files[kStandardFiles];
  if (!receive_request(socket, request, texts, files)) return;
  const pid_t child = ::fork();
  if (child == 0) run(request, texts, files);
  for (const int file : files) ::close(file);
  int status = 0;
  if (::write(socket, &child, sizeof child) != sizeof child) return;
  if (child > 0 && ::waitpid(child, &status, 0) == child &&
      ::write(socket, &status, sizeof status) != sizeof status)
    return;
}

// Any program asks (quick_gantrain.cpp), until the one that has started this one ends.
int serve_all(const char* path) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!prepare() || ::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening, 128) != 0)
    return 1;
  for (int socket; (socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (::fork() == 0) {
      serve_one(socket);
      ::_exit(0);
    }
    ::close(socket);
  }
  return 1;
}

int serve(int, char**, char**) {
  const std::string where = std::getenv("GANTRAIN_TEST_STARTER");
  return where[0] == '/' ? serve_all(where.c_str()) : serve_parent(std::atoi(where.c_str()));
}

}  // namespace
}  // namespace gantrain

extern "C" int __libc_start_main(gantrain::Main main,
                                 int argc,
                                 char** argv,
                                 void (*init)(),
                                 void (*fini)(),
                                 void (*rtld_fini)(),
                                 void* stack_end) {
  using Start = int (*)(gantrain::Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  gantrain::program_main = main;
  return start(gantrain::serve, argc, argv, init, fini, rtld_fini, stack_end);
}
