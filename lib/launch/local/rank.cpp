// SPDX-License-Identifier: Apache-2.0
#include "launch/local/rank.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>

#include "config/value.h"
#include "launch/local/program.h"
#include "launch/where/environment.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "processes share these, and signal handlers write them");

void RankSlot::beat(int64_t iteration, int64_t images_seen) {
  iteration_.store(iteration, std::memory_order_relaxed);
  images_seen_.store(images_seen, std::memory_order_relaxed);
  beat();
}

void RankSlot::report_failure(Exit code, std::string_view message) {
  int expected = kNone;
  if (!failure_state_.compare_exchange_strong(expected, kBeingWritten)) return;
  failure_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  failure_code_.store(static_cast<int>(code), std::memory_order_relaxed);
  std::memcpy(message_.data(), message.data(), std::min(message.size(), kMessageBytes - 1));
  failure_state_.store(kWritten, std::memory_order_release);
}

std::optional<RankSlot::Failure> RankSlot::failure() const {
  if (failure_state_.load(std::memory_order_acquire) != kWritten) return std::nullopt;
  return Failure{static_cast<Exit>(failure_code_.load(std::memory_order_relaxed)),
                 failure_ns_.load(std::memory_order_relaxed),
                 std::string(message_.data())};
}

void RankSlot::report_crash(int signal, std::string_view stack) {
  int expected = kNone;
  if (!crash_state_.compare_exchange_strong(expected, kBeingWritten)) return;
  crash_signal_.store(signal, std::memory_order_relaxed);
  std::memcpy(stack_.data(), stack.data(), std::min(stack.size(), kStackBytes - 1));
  crash_state_.store(kWritten, std::memory_order_release);
}

std::optional<RankSlot::Crash> RankSlot::crash() const {
  if (crash_state_.load(std::memory_order_acquire) != kWritten) return std::nullopt;
  return Crash{crash_signal_.load(std::memory_order_relaxed), std::string(stack_.data())};
}

std::unique_ptr<RankStatusBoard, RankStatusBoard::Unmap> RankStatusBoard::create(int64_t ranks) {
  const size_t bytes = sizeof(RankStatusBoard) + static_cast<size_t>(ranks) * sizeof(RankSlot);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(Exit::kEnvironment, "no shared memory for {} ranks", ranks);
  auto* board = new (memory) RankStatusBoard(ranks, bytes);
  for (int64_t i = 1; i < ranks; ++i) new (board->slots_ + i) RankSlot;
  return std::unique_ptr<RankStatusBoard, Unmap>(board);
}

void RankStatusBoard::Unmap::operator()(RankStatusBoard* board) const {
  munmap(board, board->bytes_);
}

bool RankStatusBoard::all_meet() const {
  for (int64_t i = 0; i < ranks_; ++i) {
    const std::string phase = slots_[i].phase();
    const bool meets = phase == "start-up" || phase == "rendezvous";
    if (!meets || slots_[i].iteration() > 0) return false;
  }
  return true;
}

bool RankStatusBoard::any_saves() const {
  return std::any_of(
      slots_, slots_ + ranks_, [](const RankSlot& slot) { return slot.saves.load(); });
}

void RankStatusBoard::renew(int64_t index) {
  slots_[index].~RankSlot();
  new (slots_ + index) RankSlot;
}

void RankStatusBoard::set_run_folder(const std::string& folder) {
  if (folder.empty() || folder == run_folder()) return;
  const size_t size = std::min(folder.size(), run_folder_.size() - 1);
  std::memcpy(run_folder_.data(), folder.data(), size);
  has_run_folder_.store(true, std::memory_order_release);
}

std::string RankStatusBoard::run_folder() const {
  return has_run_folder_.load(std::memory_order_acquire) ? run_folder_.data() : "";
}

namespace {

void set(const char* name, int64_t value) { setenv(name, std::to_string(value).c_str(), 1); }

int report(const RankContext& context, Exit code, const char* message) {
  context.slot().report_failure(code, message);
  return static_cast<int>(code);
}

}  // namespace

void export_environment(const RankContext& context, bool threads_given) {
  set("RANK", context.rank());
  set("LOCAL_RANK", context.ranks().local_rank);
  set("WORLD_SIZE", context.ranks().world);
  set("LOCAL_WORLD_SIZE", context.ranks().local_world);
  set("GROUP_RANK", context.ranks().node_rank);
  set("NODE_RANK", context.ranks().node_rank);
  setenv("MASTER_ADDR", context.rendezvous.master.host.c_str(), 1);
  set("MASTER_PORT", context.rendezvous.master.port);
  if (threads_given || environment_variable("OMP_NUM_THREADS").empty())
    set("OMP_NUM_THREADS", context.threads);
}

int report_exception(const RankContext& context) {
  try {
    throw;
  } catch (const UserError& e) {
    return report(context, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return report(context, Exit::kOutOfMemory, "out of host memory");
  } catch (const std::system_error& e) {
    if (lacks_threads(e)) return report(context, Exit::kEnvironment, kNoMoreThreads);
    return report(context, Exit::kInternal, e.what());
  } catch (const std::exception& e) {
    return report(context, Exit::kInternal, e.what());
  } catch (...) {
    return report(context, Exit::kInternal, "an exception of unknown type");
  }
}

int run_rank(const RankContext& context, RankMain main, const std::string& request_json) {
  try {
    const int code = main(context, request_json.c_str());
    context.slot().returned = true;
    return code;
  } catch (...) {
    return report_exception(context);
  }
}

namespace {

// torch puts "[rank3]: " before each line of a traceback once ranks have met.
std::string without_rank(std::string_view line) {
  const size_t end = line.find("]: ");
  if (!starts_with(line, "[rank") || end == std::string_view::npos) return std::string(line);
  return std::string(line.substr(end + 3));
}

// The line that ends the last traceback, and those after it.
std::optional<size_t> exception_in(const std::vector<std::string>& lines) {
  std::optional<size_t> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (starts_with(lines[i], "Traceback (most recent call last)")) {
      while (++i < lines.size() && (lines[i].empty() || lines[i][0] == ' ')) continue;
      if (i < lines.size()) found = i;
    } else if (starts_with(lines[i], "terminate called after throwing")) {
      found = i + 1 < lines.size() ? i + 1 : i;
    }
  }
  return found;
}

std::string message_in(const Json& content) {
  const auto at = content.find("message");
  if (at == content.end()) return "";
  if (at->is_string()) return at->get<std::string>();
  return at->is_object() ? message_in(*at) : "";
}

}  // namespace

std::filesystem::path Program::file(const std::string& run,
                                    int64_t attempt,
                                    int64_t rank,
                                    const char* kind) const {
  const std::filesystem::path folder = log_dir.empty() ? scratch : log_dir / run;
  return folder / std::to_string(attempt) / fmt::format("rank{}.{}", rank, kind);
}

bool is_run_id(std::string_view text) {
  return !text.empty() && text.front() != '.' && text.size() < 200 &&
         text == printable(text, 200) && text.find('/') == std::string_view::npos;
}

void export_program_environment(const Program& program,
                                const RankContext& context,
                                bool threads_given) {
  const RankInfo& ranks = context.ranks();
  const bool alone = ranks.local_world == 1 && !threads_given;
  const bool no_threads = alone && environment_variable("OMP_NUM_THREADS").empty();
  export_environment(context, threads_given);
  if (no_threads) ::unsetenv("OMP_NUM_THREADS");
  const bool worker = context.board == nullptr;
  const std::string run = worker ? program.run_id : context.board->run_folder();
  Env variables = {{"GROUP_WORLD_SIZE", std::to_string(ranks.nodes)},
                   {"ROLE_NAME", program.role},
                   {"ROLE_RANK", std::to_string(ranks.rank)},
                   {"ROLE_WORLD_SIZE", std::to_string(ranks.world)},
                   {"TORCHELASTIC_RUN_ID", run},
                   {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                   {"TORCHELASTIC_RESTART_COUNT", std::to_string(context.attempt)},
                   {"TORCHELASTIC_MAX_RESTARTS", std::to_string(program.max_restarts)}};
  if (!worker) {
    variables["TORCHELASTIC_ERROR_FILE"] =
        std::filesystem::absolute(program.file(run, context.attempt, ranks.rank, "json")).string();
  }
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), worker ? 0 : 1);
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
}

void run_program(const Program& program, const RankContext& context, bool threads_given) {
  if (context.board != nullptr) ::setsid();  // another launcher has groups of its own
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);  // ignored in this program
  export_program_environment(program, context, threads_given);
  std::vector<std::string> words = program.words;
  if (program.local_rank_at > 0)
    words[program.local_rank_at] += std::to_string(context.ranks().local_rank);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (context.board != nullptr) context.slot().returned = true;  // the rest is the program's
  ::execvp(arguments[0], arguments.data());
  const std::string problem = fmt::format("{} cannot be started: {}", words[0], errno_text());
  if (context.board == nullptr) fail(Exit::kInput, "{}", problem);
  context.slot().report_failure(Exit::kInput, problem);
  ::_exit(127);
}

std::string cause_in(const std::filesystem::path& error_file, std::string_view last_words) {
  const Json content = parse_foreign(content_of(error_file, kMostOfJson).value_or(""));
  if (content.is_object()) {
    if (std::string message = message_in(content); !message.empty()) return message;
  }
  std::vector<std::string> lines;
  for (const std::string& line : split(last_words, '\n')) {
    std::string plain = without_rank(line.substr(line.rfind('\r') + 1));
    if (!trim(plain).empty()) lines.push_back(std::move(plain));
  }
  constexpr size_t kLines = 3;
  const size_t last = lines.size() - std::min(lines.size(), kLines);
  lines.erase(lines.begin(),
              lines.begin() + static_cast<std::ptrdiff_t>(exception_in(lines).value_or(last)));
  return join(lines, "\n");
}

namespace {

bool handles(pid_t process, int signal) {
  const std::string caught = proc_value(fmt::format("/proc/{}/status", process), "SigCgt");
  return (std::strtoull(caught.c_str(), nullptr, 16) >> (signal - 1) & 1) != 0;
}

}  // namespace

void pass_on(pid_t rank, int signal) {
  if (handles(rank, signal)) {
    signal_process(rank, signal);
  } else if (signal == SIGUSR1) {  // a notice, which would end those that do not handle it
    for (const std::string& number : all_processes()) {
      const auto process = static_cast<pid_t>(parse_int(number).value_or(0));
      if (process > 0 && ::getpgid(process) == rank && handles(process, signal))
        signal_process(process, signal);
    }
  } else if (::killpg(rank, signal) != 0) {
    signal_process(rank, signal);  // it has no group of its own yet
  }
}

}  // namespace gantrain
