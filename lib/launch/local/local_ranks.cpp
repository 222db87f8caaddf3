// SPDX-License-Identifier: Apache-2.0
#include "launch/local/local_ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

#include "launch/death/verdict.h"
#include "launch/local/unique_fd.h"
#include "launch/where/network.h"
#include "util/error.h"

namespace gantrain {

namespace {

struct Child {
  pid_t pid = -1;
  UniqueFd answer;
};

[[noreturn]] void run_child(const Rendezvous& meeting,
                            int64_t seconds,
                            int answer,
                            const std::function<std::string(const Rendezvous&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(static_cast<unsigned>(seconds));
  std::string text;
  int code = 0;
  try {
    text = body(meeting);
  } catch (const UserError& e) {
    text = e.what();
    code = static_cast<int>(e.code());
  } catch (const std::exception& e) {
    text = e.what();
    code = static_cast<int>(Exit::kInternal);
  }
  write_all(answer, text);
  std::fflush(nullptr);
  _exit(code);  // static destructors would wait for peers that may be gone
}

// How a rank died, of which no time is known. One that was ended by its alarm has waited in vain
// for another one, whose own reason tells more.
Death death_of(size_t rank, int status, const std::string& answer) {
  Death death{.rank = static_cast<int64_t>(rank)};
  if (WIFEXITED(status)) {
    death.code = WEXITSTATUS(status);
    death.message = answer;
  } else if (WTERMSIG(status) == SIGALRM) {
    death.message = "timed out waiting";
  } else {
    death.signal = WTERMSIG(status);
  }
  return death;
}

}  // namespace

std::vector<std::string> run_local_ranks(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  Listener listener = listen_on(0, /*loopback_only=*/true);
  std::fflush(nullptr);  // else what is buffered would be printed by every process
  std::vector<Child> children;
  for (int64_t rank = 0; rank < world; ++rank) {
    Pipe pipe = make_pipe();
    const pid_t pid = fork();
    if (pid < 0) fail(Exit::kEnvironment, "cannot start a process: {}", errno_text());
    if (pid == 0) {
      Rendezvous meeting;
      meeting.ranks = {.rank = rank, .world = world, .local_rank = rank, .local_world = world};
      meeting.master.port = listener.port;
      if (rank == 0) {
        meeting.listen_fd = listener.socket.get();
      } else {
        listener.socket.close();  // a copy would keep the port after rank 0's death
      }
      run_child(meeting, seconds, pipe.write.get(), body);
    }
    children.push_back({pid, std::move(pipe.read)});
  }
  listener.socket.close();
  std::vector<std::string> answers;
  std::vector<Death> deaths;
  for (Child& child : children) {
    read_from(child.answer.get(), answers.emplace_back(), SIZE_MAX);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (status == 0) continue;
    deaths.push_back(death_of(answers.size() - 1, status, answers.back()));
    if (WIFSIGNALED(status)) answers.back() = fmt::format("signal {}", WTERMSIG(status));
  }
  if (const auto verdict = decide(deaths, 1)) {
    const int64_t first = verdict->ranks.front().rank;
    fail(static_cast<Exit>(verdict->end.code),
         "rank {}: {}",
         first,
         answers[static_cast<size_t>(first)]);
  }
  return answers;
}

}  // namespace gantrain
