// SPDX-License-Identifier: Apache-2.0
#include "train/memory/memory_shortage.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "train/plan/plan.h"
#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// "20.00 MiB ..." or "20 bytes ..." -> bytes; 0 for anything else.
int64_t size_at(const std::string& text, size_t at) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str() + at, &end);
  std::string_view unit(end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  constexpr std::array<std::string_view, 6> kUnits{"byte", "kib", "mib", "gib", "tib", "pib"};
  double factor = 1;
  for (const std::string_view known : kUnits) {
    if (starts_with(unit, known)) return std::llround(number * factor);
    factor *= 1024;
  }
  return 0;
}

// The size that follows these words; 0 where they do not stand there.
int64_t size_after(const std::string& text, std::string_view words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? 0 : size_at(text, at + words.size());
}

// The size that stands before these words: "and 2.00 GiB is reserved".
int64_t size_before(const std::string& text, std::string_view words) {
  const size_t end = text.find(words);
  if (end == std::string::npos || end == 0) return 0;
  const size_t unit = text.rfind(' ', end - 1);
  if (unit == std::string::npos || unit == 0) return 0;
  const size_t number = text.rfind(' ', unit - 1);
  return size_at(text, number == std::string::npos ? 0 : number + 1);
}

std::string size_text(int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  if (number >= kGiB) return fmt::format("{:.2f} GiB", number / kGiB);
  if (number >= kMiB) return fmt::format("{:.1f} MiB", number / kMiB);
  return fmt::format("{} bytes", bytes);
}

std::string what_there_is(const MemoryShortage& shortage, const HostMemory& host) {
  std::vector<std::string> parts;
  if (shortage.on_device) {
    if (shortage.in_tensors > 0) parts.push_back(size_text(shortage.in_tensors) + " in tensors");
    if (shortage.kept > 0) parts.push_back(size_text(shortage.kept) + " kept for later ones");
    if (shortage.total > 0)
      parts.push_back(size_text(shortage.free) + " of " + size_text(shortage.total) + " free");
    return join(parts, ", ");
  }
  parts.push_back("this process holds " + size_text(host.resident));
  if (host.limit > 0)
    parts.push_back("its address space may have " + size_text(host.limit) + " (ulimit -v)");
  parts.push_back("the machine has " + size_text(host.available) + " of " + size_text(host.total) +
                  " left");
  return join(parts, ", ");
}

// What makes the need of a run smaller besides its micro-batch.
std::string other_ways(const MemoryShortage& shortage, const MemoryUser& user) {
  std::vector<std::string> ways;
  if (shortage.on_device && !user.amp) ways.emplace_back("--amp");
  if (shortage.on_device && user.graphs) ways.emplace_back("--graphs off");
  ways.emplace_back("a smaller --resolution");
  ways.push_back(
      fmt::format("smaller networks ({} presets show NAME lists their keys)", program()));
  if (shortage.on_device) {
    ways.emplace_back("more GPUs (--nproc)");
  } else if (user.ranks_here > 1) {
    ways.emplace_back(fmt::format("fewer ranks here (--nproc, {} now)", user.ranks_here));
  }
  return join(ways, ", ");
}

std::string ways_out(const MemoryShortage& shortage, const MemoryUser& user) {
  if (user.phase == "samples" || user.phase == "metrics" || user.phase == "looking for collapse") {
    return "give fewer pictures (--set samples.rows=N, --set metrics.images=N), or --metrics none, "
           "or need less in training: " +
           other_ways(shortage, user);
  }
  if (user.phase == "generate" || user.phase == "interpolate") {
    return shortage.on_device ? "give --device cpu, or use a GPU or a part of one that is free"
                              : "end other programs, or use a machine with more memory";
  }
  const int64_t smaller = smaller_micro_batch(user.micro_batch);
  if (smaller == 0) return "give " + other_ways(shortage, user);
  return fmt::format("give --micro-batch {} ({} now; --batch stays what it is),\nor {}",
                     smaller,
                     user.micro_batch,
                     other_ways(shortage, user));
}

}  // namespace

std::optional<MemoryShortage> shortage_in(std::string_view message) {
  const std::string text = lower(message);
  MemoryShortage found;
  const MemoryLack lack = memory_lack(message);
  if (lack == MemoryLack::kNone) return std::nullopt;
  found.on_device = lack == MemoryLack::kOfDevice;
  for (const char* words : {"tried to allocate ", "a tensor of "}) {
    if (found.asked == 0) found.asked = size_after(text, words);
  }
  if (!found.on_device) return found;
  found.total = size_after(text, "has a total capacity of ");
  found.free = size_after(text, "of which ");
  found.in_tensors = size_before(text, " is allocated by pytorch");
  found.kept = size_before(text, " is reserved by pytorch");
  return found;
}

HostMemory host_memory() {
  HostMemory host;
  host.resident = proc_bytes("/proc/self/status", "VmRSS");
  host.available = proc_bytes("/proc/meminfo", "MemAvailable");
  host.total = proc_bytes("/proc/meminfo", "MemTotal");
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    host.limit = static_cast<int64_t>(limit.rlim_cur);
  return host;
}

std::string shortage_text(const MemoryShortage& shortage,
                          const MemoryUser& user,
                          const HostMemory& host) {
  std::string text = "out of ";
  if (!shortage.on_device) {
    text += "host memory";
  } else {
    text += user.device.empty() ? "the GPU's memory" : "memory on " + user.device;
  }
  if (shortage.asked > 0)
    text += fmt::format(": {} more were asked for", size_text(shortage.asked));
  if (const std::string sizes = what_there_is(shortage, host); !sizes.empty()) text += "; " + sizes;
  return text + "\n" + ways_out(shortage, user);
}

}  // namespace gantrain
