// SPDX-License-Identifier: Apache-2.0
#include "launch/local_ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "launch/port.h"
#include "launch/unique_fd.h"
#include "util/error.h"
#include "util/failure_text.h"

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

// A rank's own reason, such as a lack of memory, is the world's; else the world ends because a rank
// died.
Exit code_of(int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  const bool reason =
      code >= static_cast<int>(Exit::kUsage) && code <= static_cast<int>(Exit::kDisk);
  return reason ? static_cast<Exit>(code) : Exit::kRankDied;
}

// How a rank failed.
struct Failure {
  std::string text;
  Exit code = Exit::kDone;
  // It waited in vain for a rank that is gone, whose own reason tells more.
  bool of_another = false;
};

Failure failure_of(size_t rank, int status, const std::string& answer) {
  const bool killed = WIFSIGNALED(status);
  const std::string why = killed ? fmt::format("signal {}", WTERMSIG(status)) : answer;
  return {.text = fmt::format("rank {}: {}", rank, why),
          .code = code_of(status),
          .of_another = killed ? WTERMSIG(status) == SIGALRM
                               : tells_of_lost_peer(why) || tells_of_vain_wait(why)};
}

std::string read_to_end(int descriptor) {
  std::string text;
  char buffer[1 << 16];
  for (ssize_t n; (n = ::read(descriptor, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
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
  std::optional<Failure> failure;  // the first one, or the first that tells of its own reason
  for (Child& child : children) {
    answers.push_back(read_to_end(child.answer.get()));
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (status == 0) continue;
    Failure own = failure_of(answers.size() - 1, status, answers.back());
    if (!failure || (failure->of_another && !own.of_another)) failure = std::move(own);
  }
  if (failure) fail(failure->code, "{}", failure->text);
  return answers;
}

}  // namespace gantrain
