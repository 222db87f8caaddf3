// SPDX-License-Identifier: Apache-2.0
// main() of the test programs. Behind --forked as first argument, each case runs in a fork: cases
// that start processes need one that has not called LibTorch yet, and loading LibTorch takes longer
// than most of them.
#if __has_include(<catch2/catch_session.hpp>)  // Catch2 3
#include <catch2/catch_session.hpp>
#define GANTRAIN_LIST_NAMES "--list-tests", "--verbosity", "quiet"
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#define GANTRAIN_LIST_NAMES "--list-test-names-only"
#endif

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

int run(const Words& words) {
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return Catch::Session().run(static_cast<int>(arguments.size()), arguments.data());
}

// A fork in which a session runs, and the file that gets what it says; null where it says it
// itself.
struct Fork {
  pid_t pid = -1;
  std::string name;
  std::FILE* said = nullptr;
};

Fork start(const Words& words, std::FILE* said) {
  std::fflush(nullptr);
  const Fork fork{::fork(), words.back(), said};
  if (fork.pid != 0) return fork;
  if (said != nullptr) {
    ::dup2(::fileno(said), STDOUT_FILENO);
    ::dup2(::fileno(said), STDERR_FILENO);
  }
  const int code = run(words);
  std::fflush(nullptr);
  ::_exit(code);  // the static objects are the first process's, too
}

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int letter; (letter = std::fgetc(file)) != EOF;) text += static_cast<char>(letter);
  std::fclose(file);
  return text;
}

// The names of the cases that the arguments choose, one a line.
Words names_of(Words words) {
  std::FILE* file = std::tmpfile();
  words.insert(words.end(), {GANTRAIN_LIST_NAMES});
  ::waitpid(start(words, file).pid, nullptr, 0);
  Words names;
  std::istringstream lines(text_of(file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

// Waits until one of the forks has ended, tells what it said and takes it out. Returns whether its
// case passed.
bool end_one(std::vector<Fork>& forks) {
  int status = 0;
  const pid_t pid = ::waitpid(-1, &status, 0);
  for (auto fork = forks.begin(); fork != forks.end(); ++fork) {
    if (fork->pid != pid) continue;
    if (fork->said != nullptr) std::fputs(text_of(fork->said).c_str(), stdout);
    if (WIFSIGNALED(status)) std::printf("killed by signal %d\n", WTERMSIG(status));
    if (status != 0) std::printf("FAILED: %s\n", fork->name.c_str());
    forks.erase(fork);
    return status == 0;
  }
  return pid > 0;  // an orphan
}

// Runs so many cases at a time. Returns 0 if every one passed, and there is one.
int run_in_forks(const Words& words, size_t at_once) {
  int failed = 0;
  std::vector<Fork> forks;
  const Words names = names_of(words);
  for (const std::string& name : names) {
    while (forks.size() >= at_once) failed += end_one(forks) ? 0 : 1;
    Words chosen = words;
    chosen.back() = name;
    forks.push_back(start(chosen, at_once > 1 ? std::tmpfile() : nullptr));
  }
  while (!forks.empty()) failed += end_one(forks) ? 0 : 1;
  std::printf("%zu cases in forks, %d failed\n", names.size(), failed);
  return failed > 0 || names.empty() ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  Words words(arguments, arguments + count);
  const std::string forked = "--forked=";
  if (count < 2 || words[1].rfind(forked, 0) != 0) return run(words);
  const size_t at_once = std::stoul(words[1].substr(forked.size()));
  words.erase(words.begin() + 1);
  return run_in_forks(words, at_once);
}
