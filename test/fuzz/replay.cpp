// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer:  NAME CORPUS_FOLDER MUTATIONS
// First every file of the corpus, then that many damaged copies of them, the same ones each time.
// The target runs in a child process; where it dies, the input that it died of is left in
// NAME.crash in the working folder.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kLargestInput = size_t{1} << 20;
constexpr rlim_t kMostMegabytes = 1024;  // resident, as libFuzzer's -rss_limit_mb

// Shared by both processes: what the child works on.
struct Current {
  size_t size = 0;
  uint8_t bytes[kLargestInput];
};

std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const std::filesystem::path& file : files) corpus.push_back(read_file(file));
  return corpus;
}

// Changes a copy of an input in one of the ways in which foreign files differ from whole ones.
class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    for (size_t count = 1 + below(4); count > 0; --count) change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  void change(std::string& bytes) {
    if (bytes.empty()) bytes.push_back('\0');
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(bytes.size() - at, 64));
    switch (below(7)) {
      case 0:  // one bit
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:  // any byte
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:  // cut off
        bytes.resize(at);
        break;
      case 3:  // a part missing
        bytes.erase(at, length);
        break;
      case 4:  // a part twice
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 5:  // a number at the edge of its range
        set_extreme(bytes, at);
        break;
      default:  // the end of another file
        append_end(bytes, at);
    }
  }

  void set_extreme(std::string& bytes, size_t at) {
    const uint64_t values[] = {
        0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 1ULL << 62, ~0ULL};
    const uint64_t value = values[below(std::size(values))];
    const size_t count = std::min(bytes.size() - at, size_t{1} << below(4));
    const bool big_endian = below(2) == 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t shift = 8 * (big_endian ? count - 1 - i : i);
      bytes[at + i] = static_cast<char>(value >> shift & 255);
    }
  }

  void append_end(std::string& bytes, size_t at) {
    const std::string& other = corpus_[below(corpus_.size())];
    bytes.resize(at);
    if (!other.empty()) bytes += other.substr(below(other.size()));
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{14};
};

void run_input(const std::string& bytes, Current& current) {
  current.size = std::min(bytes.size(), kLargestInput);
  std::memcpy(current.bytes, bytes.data(), current.size);
  // Memory of exactly this size, so that sanitizers see a byte read beyond it.
  const std::vector<uint8_t> exact(current.bytes, current.bytes + current.size);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

int run_all(const std::vector<std::string>& corpus, int64_t mutations, Current& current) {
  run_input("", current);
  for (const std::string& bytes : corpus) run_input(bytes, current);
  Mutator mutator(corpus);
  for (int64_t i = 0; i < mutations; ++i) run_input(mutator.next(), current);
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto megabytes = static_cast<rlim_t>(used.ru_maxrss) / 1024;
  fmt::print("{} inputs, at most {} MB resident\n",
             corpus.size() + static_cast<size_t>(mutations),
             megabytes);
  return megabytes <= kMostMegabytes ? 0 : 1;
}

int watch(pid_t child, const std::string& name, const Current& current) {
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  write_file(name + ".crash",
             std::string_view(reinterpret_cast<const char*>(current.bytes), current.size));
  fmt::print(
      stderr, "{}: failed; its last input is in {}.crash ({} bytes)\n", name, name, current.size);
  return 1;
}

int replay(int count, char** arguments) {
  const auto mutations = count == 3 ? parse_int(arguments[2]) : std::nullopt;
  if (!mutations) fail(Exit::kUsage, "usage: {} CORPUS_FOLDER MUTATIONS", arguments[0]);
  const std::vector<std::string> corpus = read_corpus(arguments[1]);
  if (corpus.empty()) fail(Exit::kInput, "{}: an empty corpus", arguments[1]);
  void* shared =
      mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto& current = *new (shared) Current;
  const pid_t child = fork();
  if (child == 0) _exit(run_all(corpus, *mutations, current) | std::fflush(nullptr));
  return watch(child, std::filesystem::path(arguments[0]).filename().string(), current);
}

}  // namespace

}  // namespace gantrain

int main(int count, char** arguments) {
  try {
    return gantrain::replay(count, arguments);
  } catch (const gantrain::UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
