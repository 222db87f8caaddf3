// SPDX-License-Identifier: Apache-2.0
#include "launch/local/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <new>
#include <numeric>
#include <string_view>

#include "launch/local/processes.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Bytes, so that a rank that prints without end does not keep the launcher busy.
constexpr size_t kMostAtOnce = 1 << 20;
constexpr size_t kMostBeforeReader = 64 << 10;  // for a reader that may be slow
constexpr size_t kLastBytes = 8 << 10;
constexpr double kRedrawSeconds = 10;
constexpr size_t kLongestAnswer = 1 << 20;  // bytes, of a fork server

std::string_view last_drawn(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const size_t redraw = line.rfind('\r');
  return redraw == std::string_view::npos ? line : line.substr(redraw + 1);
}

struct Plan {
  const Attempt& attempt;
  Listener& listener;
  std::map<int64_t, std::array<Pipe, 2>> pipes;  // by rank; rank 0 has the launcher's output
  Pipe answer;
  pid_t launcher;
};

RankContext context_of(const Plan& plan, int64_t local_rank) {
  const World& world = plan.attempt.spec.world;
  RankContext context;
  Rendezvous& meeting = context.rendezvous;
  meeting.ranks = world.ranks;
  meeting.ranks.rank = first_rank(world) + local_rank;
  meeting.ranks.local_rank = local_rank;
  meeting.master = {plan.attempt.master_host, plan.listener.port};
  context.board = &plan.attempt.board;
  context.board_index = local_rank;
  context.threads = plan.attempt.threads;
  context.attempt = plan.attempt.number;
  context.stop = &stop_flag();
  if (context.rank() == 0) {
    meeting.listen_fd = plan.listener.socket.get();
  } else {
    plan.listener.socket.close();  // a copy elsewhere would keep the port after rank 0's death
  }
  return context;
}

// Makes this rank die with the launcher. The kernel sends the parent-death signal when that process
// dies which was the parent at the time of the prctl() call. So this waits until the fork server
// has ended and the launcher is the parent. If the parent is a third process then, the launcher is
// gone.
void belong_to(pid_t launcher, pid_t fork_server) {
  while (getppid() == fork_server) usleep(100);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(code_of(Exit::kRankDied));
}

void redirect(Plan& plan, int64_t rank) {
  // A program's rank 0 reads what is piped into the launcher; no rank reads from the terminal.
  const bool reads = plan.attempt.spec.program != nullptr && rank == 0 && ::isatty(0) == 0;
  const int null = reads ? -1 : ::open("/dev/null", O_RDONLY);
  if (null >= 0 && null != STDIN_FILENO) {
    dup2(null, STDIN_FILENO);
    ::close(null);
  }
  if (const auto mine = plan.pipes.find(rank); mine != plan.pipes.end()) {
    dup2(mine->second[0].write.get(), STDOUT_FILENO);
    dup2(mine->second[1].write.get(), STDERR_FILENO);
  }
  plan.pipes.clear();
}

[[noreturn]] void rank_process(Plan& plan, RankMain main, int64_t local_rank, pid_t fork_server) {
  plan.answer.write.close();
  redirect(plan, first_rank(plan.attempt.spec.world) + local_rank);
  belong_to(plan.launcher, fork_server);
  const RankContext context = context_of(plan, local_rank);
  if (const Program* program = plan.attempt.spec.program) {
    sigprocmask(SIG_SETMASK, &plan.attempt.gate.original_mask(), nullptr);
    run_program(*program, context, plan.attempt.spec.options.threads.has_value());
  }
  context.slot().set_phase("start-up");
  install_rank_signals(*context.board, context.board_index, false);
  export_environment(context, plan.attempt.spec.options.threads.has_value());
  ask_name_servers_briefly();
  sigprocmask(SIG_SETMASK, &plan.attempt.gate.original_mask(), nullptr);
  const int code = run_rank(context, main, plan.attempt.spec.request_json);
  std::fflush(nullptr);
  flush_standard_error(kLastWords);
  _exit(code);  // no static destructors: they wait for peers that may be dead
}

void fork_ranks(Plan& plan, RankMain main) {
  const pid_t fork_server = getpid();
  for (const int64_t i : slots_of(plan.attempt)) {
    const pid_t pid = fork();
    if (pid == 0) rank_process(plan, main, i, fork_server);
    if (pid < 0) {
      const std::string reason = errno_text();
      for (const int64_t k : slots_of(plan.attempt)) {
        if (k < i) signal_process(static_cast<pid_t>(plan.attempt.board.slot(k).pid), SIGKILL);
      }
      fail(Exit::kEnvironment,
           "cannot start rank {}: {}",
           first_rank(plan.attempt.spec.world) + i,
           reason);
    }
    plan.attempt.board.slot(i).pid = pid;
  }
}

constexpr const char* kNoMemory = "out of host memory while the trainer was loaded";

// Libraries that are loaded may run out of memory where nothing is caught.
int g_terminate_answer = -1;
[[noreturn]] void on_loader_terminate() {
  try {
    if (const std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    std::array<char, 128> text{};
    const int size =
        std::snprintf(text.data(), text.size(), "%d %s", code_of(Exit::kOutOfMemory), kNoMemory);
    write_whole(g_terminate_answer, {text.data(), static_cast<size_t>(size) + 1});
    _exit(0);
  } catch (...) {
    std::abort();
  }
  std::abort();
}

[[noreturn]] void fork_server_process(Plan& plan) {
  die_with(plan.launcher);
  g_terminate_answer = plan.answer.write.get();
  std::set_terminate(on_loader_terminate);
  ::close(plan.attempt.gate.descriptor());
  if (plan.attempt.nodes != nullptr) {
    for (const int fd : plan.attempt.nodes->descriptors()) ::close(fd);
  }
  plan.answer.read.close();
  for (auto& [rank, pipes] : plan.pipes) {
    for (Pipe& pipe : pipes) pipe.read.close();
  }
  std::string answer;
  try {
    const bool foreign = plan.attempt.spec.program != nullptr;
    fork_ranks(plan, foreign ? nullptr : plan.attempt.spec.load());
  } catch (const UserError& e) {
    answer = fmt::format("{} {}", code_of(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    answer = fmt::format("{} {}", code_of(Exit::kOutOfMemory), kNoMemory);
  } catch (const std::exception& e) {
    answer = fmt::format("{} {}", code_of(Exit::kInternal), e.what());
  }
  write_whole(plan.answer.write.get(), answer + '\0');
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

void clear_live_bar() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) write_standard_error("\r\033[K", Unread::kDrop);
}

std::vector<int64_t> slots_of(const Attempt& attempt) {
  if (attempt.elastic != nullptr) return attempt.slots;
  std::vector<int64_t> all(static_cast<size_t>(attempt.spec.world.ranks.local_world));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

void kill_rank(RankProcess& rank) {
  if (!rank.alive) return;
  rank.kill_sent = true;
  signal_process(rank.pid, SIGKILL);
}

Death death_of(const RankProcess& process, const RankSlot& slot, int64_t rank) {
  Death death = death_in(slot, rank);
  death.progress = {.stopped = process.alive && is_stopped(process.pid),
                    .collectives = slot.trace.entered(),
                    .iteration = slot.iteration(),
                    .heartbeat_ns = slot.heartbeat_ns()};
  return death;
}

void note_end(Death& death, int status, const rusage& usage, int64_t kills_before) {
  death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (death.ns == 0) {  // it reported nothing
    death.ns = monotonic_ns();
    death.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  }
  death.peak_kib = usage.ru_maxrss;
  death.host_was_short = death.signal == SIGKILL && out_of_memory_kills() > kills_before;
}

constexpr double kSavesLonger = 6;

std::vector<size_t> silent_ranks(std::vector<RankProcess>& ranks,
                                 const RankStatusBoard& board,
                                 double from,
                                 double allowed) {
  const double now = monotonic_seconds();
  bool silent = false;
  std::vector<size_t> watched;
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankProcess& rank = ranks[i];
    if (!rank.alive) continue;
    const RankSlot& slot = board.slot(static_cast<int64_t>(i));
    const int64_t beat = slot.heartbeat_ns();
    if (beat == 0) {  // it has not begun to train, which may take long
      if (!stopped_too_long(rank.pid, rank.stopped_since, from, allowed)) continue;
      silent = true;
    } else {
      // A slow disk may take long for a state, which would be lost.
      const bool saves =
          slot.saves && !stopped_too_long(rank.pid, rank.stopped_since, from, allowed);
      const double since = now - std::max(static_cast<double>(beat) / 1e9, from);
      silent = silent || since > (saves ? kSavesLonger : 1) * allowed;
    }
    watched.push_back(i);
  }
  return silent ? watched : std::vector<size_t>{};
}

void Output::add(int64_t rank, UniqueFd pipe, OutputWay way) {
  set_nonblocking(pipe.get());
  streams_.push_back({rank, std::move(pipe), std::move(way)});
  streams_.back().shown = monotonic_seconds();
}

namespace {

bool is_held_up(const OutputWay& way) { return way.waits && way.to >= 0 && has_unread(way.to); }

}  // namespace

void Output::watch(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    if (is_held_up(stream.way)) {
      polled.push_back({stream.way.to, POLLOUT, 0});
    } else if (stream.pipe) {
      polled.push_back({stream.pipe.get(), POLLIN, 0});
    }
  }
}

void Output::give_up_file(Stream& stream) {
  OutputWay& way = stream.way;
  const std::string problem = fmt::format("{}: {}", way.path, errno_text());
  warn("{}; what rank {} prints there is {} from here on",
       problem,
       stream.rank,
       way.to >= 0 ? "only shown" : "shown");
  if (way.unwritten != nullptr && way.unwritten->empty()) *way.unwritten = problem;
  if (way.to < 0) way.to = way.instead;
  way.file.close();
}

void Output::take(Stream& stream, size_t most) {
  const size_t before = stream.pending.size();
  if (!read_from(stream.pipe.get(), stream.pending, most)) stream.pipe.close();
  const std::string_view come = std::string_view(stream.pending).substr(before);
  if (stream.way.file && !write_whole(stream.way.file.get(), come)) give_up_file(stream);
  if (!stream.way.waits) return;
  stream.last += come.substr(come.size() - std::min(come.size(), kLastBytes));
  stream.last.erase(0, stream.last.size() - std::min(stream.last.size(), kLastBytes));
}

void Output::relay() {
  for (Stream& stream : streams_) {
    if (!stream.pipe || is_held_up(stream.way)) continue;
    take(stream, stream.way.waits ? kMostBeforeReader : kMostAtOnce);
    print_lines(stream, !stream.pipe);
  }
}

void Output::finish() {
  for (Stream& stream : streams_) {
    if (stream.pipe) take(stream, kMostAtOnce);
    print_lines(stream, true);
  }
}

std::string Output::last_words(int64_t rank) {
  std::string words;
  for (Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    if (stream.pipe) take(stream, kMostAtOnce);
    print_lines(stream, !stream.pipe);
    words = stream.last;
  }
  return words;
}

void Output::wait_for_reader(SignalGate& gate) const {
  while (std::ranges::any_of(streams_, is_held_up, &Stream::way)) {
    flush_standard_error(0.05);
    while (const auto signal = gate.next()) {
      if (*signal != SIGCHLD) return;
    }
  }
}

void Output::print_lines(Stream& stream, bool unfinished_too) {
  std::string text;
  std::string_view rest = stream.pending;
  if (!stream.way.prefixed || stream.way.to < 0) {
    if (stream.way.to >= 0) text = rest;
    rest = {};
  }
  const auto add_line = [&](std::string_view line) {
    fmt::format_to(std::back_inserter(text), "[rank {}] {}\n", stream.rank, last_drawn(line));
  };
  while (!rest.empty()) {
    const size_t newline = rest.find('\n');
    const bool whole = newline < kLongestLine;  // npos is not
    if (!whole && rest.size() < kLongestLine && !unfinished_too) break;
    const std::string_view line = rest.substr(0, whole ? newline : kLongestLine);
    add_line(line);
    rest.remove_prefix(line.size() + (whole ? 1 : 0));
  }
  const size_t redrawn = rest.rfind('\r');
  if (redrawn != std::string_view::npos && monotonic_seconds() - stream.shown > kRedrawSeconds) {
    add_line(rest.substr(0, redrawn));
    rest.remove_prefix(redrawn + 1);
  }
  stream.pending.erase(0, stream.pending.size() - rest.size());
  if (text.empty()) return;
  stream.shown = monotonic_seconds();
  if (stream.way.waits) return write_for_slow_reader(stream.way.to, text);
  clear_live_bar();
  write_standard_error(text);
}

namespace {

bool is_one_file(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// Where a program's rank writes to by that stream, which is 1 or 2.
OutputWay way_of(const Attempt& attempt, int64_t rank, int stream) {
  const Program& program = *attempt.spec.program;
  OutputWay way{.to = stream, .waits = true, .prefixed = attempt.spec.world.ranks.world > 1};
  if (is_one_file(STDOUT_FILENO, STDERR_FILENO)) way.to = STDERR_FILENO;  // lines stay whole
  if (program.log_dir.empty()) return way;
  const auto path = attempt.file_of(rank, stream == STDOUT_FILENO ? "out" : "err");
  way.file = UniqueFd(open_regular(path, O_WRONLY | O_CREAT | O_APPEND));
  way.path = path.string();
  way.unwritten = attempt.unwritten;
  way.instead = way.to;
  if (!program.tee) way.to = -1;
  return way;
}

}  // namespace

ForkServer start_fork_server(const Attempt& attempt, Listener listener, Output& output) {
  if (slots_of(attempt).empty()) return {};
  Plan plan{attempt, listener, {}, make_pipe(), getpid()};
  for (const int64_t i : slots_of(attempt)) {
    const int64_t rank = first_rank(attempt.spec.world) + i;
    if (rank != 0 || attempt.spec.program != nullptr) plan.pipes[rank] = {make_pipe(), make_pipe()};
  }
  const bool foreign = attempt.spec.program != nullptr;
  if (foreign) make_writable_folder(attempt.file_of(0, "json").parent_path());
  for (int64_t i = 0; foreign && i < attempt.spec.world.ranks.local_world; ++i) {
    std::error_code none;  // an error file of an earlier run with the same name
    fs::remove(attempt.file_of(first_rank(attempt.spec.world) + i, "json"), none);
  }
  std::fflush(nullptr);  // else what is buffered would be printed by every process
  const pid_t pid = fork();
  if (pid == 0) fork_server_process(plan);
  if (pid < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  for (auto& [rank, pipes] : plan.pipes) {
    for (const size_t i : {0, 1}) {
      OutputWay way;
      if (foreign) way = way_of(attempt, rank, static_cast<int>(i) + 1);
      output.add(rank, std::move(pipes[i].read), std::move(way));
    }
  }
  set_nonblocking(plan.answer.read.get());
  return {pid, std::move(plan.answer.read), foreign ? std::move(listener.socket) : UniqueFd()};
}

namespace {

ForkServerAnswer parse_answer(const std::string& text) {
  ForkServerAnswer answer;
  answer.complete = !text.empty() && text.back() == '\0';
  if (!answer.complete || text.size() == 1) return answer;
  const size_t blank = text.find(' ');
  answer.code = static_cast<Exit>(parse_int(text.substr(0, blank)).value_or(1));
  answer.error = text.substr(blank + 1, text.size() - blank - 2);
  return answer;
}

}  // namespace

ForkServerAnswer ForkServer::read_answer() {
  const bool open = answer && read_from(answer.get(), answered, kLongestAnswer);
  const ForkServerAnswer known = parse_answer(answered);
  if (known.complete || !open) answer.close();
  return known;
}

std::string asked_text(int signal, bool program, double grace) {
  return fmt::format("{}: {}; at most {}{}",
                     signal_text(signal),
                     program ? "passed on to the ranks" : "asked the ranks to save and stop",
                     short_duration(grace),
                     signal == SIGINT ? ", Ctrl-C again: 2s" : "");
}

int unfailed_code(int stop_signal, const std::vector<RankProcess>& ranks) {
  std::vector<int> codes;
  for (const RankProcess& rank : ranks) codes.push_back(rank.kill_sent ? -1 : rank.code);
  const bool all_done =
      !codes.empty() && std::ranges::all_of(codes, [](int code) { return code == 0; });
  if (stop_signal == SIGINT) return code_of(Exit::kInterrupted);
  if (stop_signal != 0 && !all_done) return code_of(Exit::kStopped);
  for (const Exit stop : {Exit::kInterrupted, Exit::kStopped}) {
    if (contains(codes, code_of(stop))) return code_of(stop);
  }
  return 0;
}

Exit loader_end_code(int status, bool short_of_memory) {
  if (short_of_memory) return Exit::kOutOfMemory;
  const bool stopped = WIFEXITED(status) && is_stop_code(WEXITSTATUS(status));
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const bool crashed = signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS ||
                       signal == SIGFPE || signal == SIGILL;
  return stopped || (signal != 0 && !crashed) ? Exit::kRankDied : Exit::kInternal;
}

std::string loader_end_text(int status, double hang_timeout) {
  std::string how = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) how = "died of " + signal_text(WTERMSIG(status));
  if (hang_timeout > 0)
    how = fmt::format("was stopped for {} (--hang-timeout)", short_duration(hang_timeout));
  return "loading the trainer " + how;
}

}  // namespace gantrain
