// SPDX-License-Identifier: Apache-2.0
#include "util/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "util/text.h"

namespace gantrain {

std::string errno_text() { return std::strerror(errno); }

namespace {

// Words are separated by "|".
constexpr std::string_view kLostPeer =
    "closed by peer|closed by remote peer|connection closed by|connection reset|broken pipe|"
    "connection refused|remote process exit|ncclremoteerror|remote error detected from rank|"
    "application crash on rank|nccl communicator was aborted|socket closed|remoteerror|read error|"
    "write error|got 0 bytes|connection was likely closed|pair closure";
constexpr std::string_view kVainWait =
    "timed out waiting|application timeout caused|socket timeout|wait timeout after|"
    "client socket has timed out|caught collective operation timeout|"
    "milliseconds before timing out|nccl timeout in";
constexpr std::string_view kNccl =
    "nccl error in|nccl timeout in|watchdog|nccl communicator|processgroupnccl";
constexpr std::string_view kLackOnDevice =
    "cuda out of memory|cuda error: out of memory|cuda driver error: out of memory|"
    "cudaerrormemoryallocation|_alloc_failed|"
    "cuda failure 'out of memory'|cuda failure 2 'out of memory'|"
    // cuDNN's benchmark hides that no algorithm's workspace could be had.
    "unable to find an engine to execute this computation";
constexpr std::string_view kLackOnHost =
    "defaultcpuallocator: can't allocate memory|out of host memory|std::bad_alloc|"
    "std::bad_array_new_length|storage size calculation overflowed|cannot allocate memory";

// How the lines begin that CUDA adds to each of its errors.
constexpr std::array<std::string_view, 5> kAdvice{"Search for `cuda",
                                                  "CUDA kernel errors might be asynchronously",
                                                  "For debugging consider passing CUDA_LAUNCH",
                                                  "Compile with `TORCH_USE_CUDA_DSA`",
                                                  "Device-side assertion tracking was not enabled"};

// From the first of these on, all is backtrace.
constexpr std::array<std::string_view, 3> kBacktrace{
    "\nException raised from ", "\nC++ CapturedTraceback", "\nframe #0"};

// A backtrace names files and functions of c10d whatever has failed, so it is not searched.
std::string_view without_backtrace(std::string_view text) {
  for (const std::string_view start : kBacktrace) {
    const size_t at = text.find(start);
    if (at != std::string_view::npos) text = text.substr(0, at);
  }
  return text;
}

bool has_one_of(std::string_view text, std::string_view words) {
  const std::string small = lower(without_backtrace(text));
  const std::vector<std::string> all = split(words, '|');
  return std::ranges::any_of(
      all, [&](const std::string& word) { return small.find(word) != std::string::npos; });
}

std::vector<std::string> without_noise(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& raw : split(without_backtrace(text), '\n')) {
    const std::string line = trim(raw);
    const bool advice = std::ranges::any_of(
        kAdvice, [&](std::string_view start) { return starts_with(line, start); });
    if (!line.empty() && !advice) lines.push_back(line);
  }
  return lines;
}

// "NCCL 2.28.9: unhandled system error" of "NCCL error in: FILE:LINE, unhandled system error (run
// with ...), NCCL version 2.28.9". What stands before "NCCL error in" stays in front.
std::string short_nccl_error(const std::string& line) {
  constexpr std::string_view kStart = "NCCL error in: ", kVersion = ", NCCL version ";
  const size_t start = line.find(kStart);
  if (start == std::string::npos) return line;
  const std::string before = line.substr(0, start);
  std::string rest = line.substr(start + kStart.size());
  const size_t place_ends = rest.find(", ");
  if (place_ends == std::string::npos) return line;
  rest = rest.substr(place_ends + 2);
  std::string version;
  if (const size_t at = rest.find(kVersion); at != std::string::npos) {
    version = " " + rest.substr(at + kVersion.size());
    rest = rest.substr(0, at);
  }
  if (const size_t advice = rest.find(" (run with"); advice != std::string::npos)
    rest = rest.substr(0, advice);
  return fmt::format("{}NCCL{}: {}", before, version, rest);
}

// "ncclSystemError: System call ... failed": the explanation of a code, which the line above has.
bool explains_code(const std::string& line) {
  const size_t word_ends = line.find_first_of(": ");
  return starts_with(line, "nccl") && word_ends != std::string::npos && line[word_ends] == ':';
}

bool is_nccl_header(const std::string& line) {
  return line.find("NCCL error in: ") != std::string::npos;
}

}  // namespace

std::vector<std::string> telling_lines(std::string_view text) {
  const std::vector<std::string> lines = without_noise(text);
  if (lines.empty()) return {""};
  const auto header = std::ranges::find_if(lines, is_nccl_header);
  if (header == lines.end()) return lines;
  std::vector<std::string> causes, explanations;
  bool last_error = false;
  for (auto line = header + 1; line != lines.end(); ++line) {
    if (starts_with(*line, "Last error:")) {
      last_error = true;
      const std::string same_line = trim(line->substr(std::string_view("Last error:").size()));
      if (!same_line.empty() && same_line != "Unknown NCCL Error") causes.push_back(same_line);
    } else {
      (last_error || !explains_code(*line) ? causes : explanations).push_back(*line);
    }
  }
  std::vector<std::string> result = causes.empty() ? explanations : causes;
  result.insert(result.end(), lines.begin(), header);
  result.push_back(short_nccl_error(*header));
  return result;
}

std::string cause_line(std::string_view text) {
  const std::vector<std::string> lines = telling_lines(text);
  const std::vector<std::string> all = without_noise(text);
  const bool nccl = std::ranges::any_of(all, is_nccl_header);
  if (!nccl || lines.size() == 1) return lines.front();
  return fmt::format("{} ({})", lines.front(), lines.back());
}

bool tells_of_lost_peer(std::string_view text) { return has_one_of(text, kLostPeer); }
// fmt's, of a standard output that would have to be waited for, says more.
bool lacks_threads(const std::system_error& e) {
  const bool again = e.code() == std::errc::resource_unavailable_try_again;
  return again && e.what() == e.code().message();
}

bool tells_of_vain_wait(std::string_view text) { return has_one_of(text, kVainWait); }
bool tells_of_nccl(std::string_view text) { return has_one_of(text, kNccl); }

MemoryLack memory_lack(std::string_view text) {
  // The loader of libraries says so of the room for their thread-local variables, which is fixed.
  if (has_one_of(text, "static tls")) return MemoryLack::kNone;
  if (has_one_of(text, kLackOnDevice)) return MemoryLack::kOfDevice;
  return has_one_of(text, kLackOnHost) ? MemoryLack::kOfHost : MemoryLack::kNone;
}

bool tells_of_lacking_memory(const std::exception& failure) {
  return memory_lack(failure.what()) != MemoryLack::kNone;
}

}  // namespace gantrain
