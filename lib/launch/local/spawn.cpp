// SPDX-License-Identifier: Apache-2.0
#include "launch/local/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>

#include "launch/local/signals.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Bytes, so that a rank that prints without end does not keep the launcher busy.
constexpr size_t kMostAtOnce = 1 << 20;

std::string_view last_drawn(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const size_t redraw = line.rfind('\r');
  return redraw == std::string_view::npos ? line : line.substr(redraw + 1);
}

}  // namespace

void clear_live_bar() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) write_standard_error("\r\033[K", Unread::kDrop);
}

void Output::add(int64_t rank, UniqueFd pipe) {
  set_nonblocking(pipe.get());
  streams_.push_back({rank, std::move(pipe), ""});
}

void Output::watch(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    if (stream.pipe) polled.push_back({stream.pipe.get(), POLLIN, 0});
  }
}

void Output::relay() {
  for (Stream& stream : streams_) {
    if (!stream.pipe) continue;
    if (!read_from(stream.pipe.get(), stream.pending, kMostAtOnce)) stream.pipe.close();
    print_lines(stream, !stream.pipe);
  }
}

void Output::finish() {
  relay();
  for (Stream& stream : streams_) print_lines(stream, true);
  streams_.clear();
}

void Output::print_lines(Stream& stream, bool unfinished_too) {
  std::string text;
  std::string_view rest = stream.pending;
  while (!rest.empty()) {
    const size_t newline = rest.find('\n');
    const bool whole = newline < kLongestLine;  // npos is not
    if (!whole && rest.size() < kLongestLine && !unfinished_too) break;
    const std::string_view line = rest.substr(0, whole ? newline : kLongestLine);
    fmt::format_to(std::back_inserter(text), "[rank {}] {}\n", stream.rank, last_drawn(line));
    rest.remove_prefix(line.size() + (whole ? 1 : 0));
  }
  stream.pending.erase(0, stream.pending.size() - rest.size());
  if (text.empty()) return;
  clear_live_bar();
  write_standard_error(text);
}

namespace {

struct RankPipes {
  int64_t rank;
  Pipe out;
  Pipe err;
};

struct Plan {
  const Attempt& attempt;
  Listener& listener;
  std::vector<std::optional<RankPipes>> pipes;  // by local rank; rank 0 has the launcher's output
  Pipe answer;
  pid_t launcher;
};

RankContext context_of(const Plan& plan, int64_t local_rank) {
  const World& world = plan.attempt.world;
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
  if (getppid() != launcher) _exit(static_cast<int>(Exit::kRankDied));
}

void redirect(Plan& plan, int64_t local_rank) {
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0 && null != STDIN_FILENO) {
    dup2(null, STDIN_FILENO);
    ::close(null);
  }
  if (const auto& mine = plan.pipes[static_cast<size_t>(local_rank)]) {
    dup2(mine->out.write.get(), STDOUT_FILENO);
    dup2(mine->err.write.get(), STDERR_FILENO);
  }
  plan.pipes.clear();
}

[[noreturn]] void rank_process(Plan& plan, RankMain main, int64_t local_rank, pid_t fork_server) {
  plan.answer.write.close();
  redirect(plan, local_rank);
  belong_to(plan.launcher, fork_server);
  const RankContext context = context_of(plan, local_rank);
  context.slot().set_phase("start-up");
  install_rank_signals(*context.board, context.board_index, false);
  export_environment(context, plan.attempt.options.threads.has_value());
  sigprocmask(SIG_SETMASK, &plan.attempt.rank_mask, nullptr);
  const int code = run_rank(context, main, plan.attempt.request_json);
  std::fflush(nullptr);
  flush_standard_error(kLastWords);
  _exit(code);  // no static destructors: they wait for peers that may be dead
}

std::string fork_ranks(Plan& plan, RankMain main) {
  const pid_t fork_server = getpid();
  std::vector<pid_t> pids;
  std::string answer = "ok";
  for (int64_t i = 0; i < plan.attempt.world.ranks.local_world; ++i) {
    const pid_t pid = fork();
    if (pid == 0) rank_process(plan, main, i, fork_server);
    if (pid < 0) {
      const std::string reason = errno_text();
      for (const pid_t forked : pids) ::kill(forked, SIGKILL);
      fail(Exit::kEnvironment,
           "cannot start rank {}: {}",
           first_rank(plan.attempt.world) + i,
           reason);
    }
    plan.attempt.board.slot(i).set_pid(pid);
    pids.push_back(pid);
    answer += " " + std::to_string(pid);
  }
  return answer;
}

[[noreturn]] void fork_server_process(Plan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(static_cast<int>(Exit::kRankDied));
  ::close(plan.attempt.signal_descriptor);
  if (plan.attempt.nodes != nullptr) {
    for (const int fd : plan.attempt.nodes->descriptors()) ::close(fd);
  }
  plan.answer.read.close();
  for (auto& pipes : plan.pipes) {
    if (!pipes) continue;
    pipes->out.read.close();
    pipes->err.read.close();
  }
  std::string answer;
  try {
    answer = fork_ranks(plan, plan.attempt.load());
  } catch (const UserError& e) {
    answer = fmt::format("error {} {}", static_cast<int>(e.code()), e.what());
  } catch (const std::exception& e) {
    answer = fmt::format("error {} {}", static_cast<int>(Exit::kInternal), e.what());
  }
  write_all(plan.answer.write.get(), answer + '\0');
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

ForkServer start_fork_server(const Attempt& attempt, Listener listener, Output& output) {
  Plan plan{attempt, listener, {}, make_pipe(), getpid()};
  for (int64_t i = 0; i < attempt.world.ranks.local_world; ++i) {
    const int64_t rank = first_rank(attempt.world) + i;
    plan.pipes.emplace_back();
    if (rank != 0) plan.pipes.back() = RankPipes{rank, make_pipe(), make_pipe()};
  }
  std::fflush(nullptr);  // else what is buffered would be printed by every process
  const pid_t pid = fork();
  if (pid == 0) fork_server_process(plan);
  if (pid < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
  for (auto& pipes : plan.pipes) {
    if (!pipes) continue;
    output.add(pipes->rank, std::move(pipes->out.read));
    output.add(pipes->rank, std::move(pipes->err.read));
  }
  set_nonblocking(plan.answer.read.get());
  return {pid, std::move(plan.answer.read)};
}

ForkServerAnswer parse_answer(const std::string& text) {
  ForkServerAnswer answer;
  answer.complete = !text.empty() && text.back() == '\0';
  if (!answer.complete) return answer;
  const std::string line = text.substr(0, text.size() - 1);
  const std::vector<std::string> words = split(line, ' ');
  if (words.front() == "ok") {
    for (size_t i = 1; i < words.size(); ++i) {
      answer.pids.push_back(static_cast<pid_t>(parse_int(words[i]).value_or(-1)));
    }
    return answer;
  }
  answer.code = static_cast<Exit>(parse_int(words.at(1)).value_or(1));
  answer.error = line.substr(words[0].size() + words[1].size() + 2);
  return answer;
}

}  // namespace gantrain
