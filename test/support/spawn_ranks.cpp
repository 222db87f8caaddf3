// SPDX-License-Identifier: Apache-2.0
#include "support/spawn_ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "core/torch.h"

namespace gantrain {

namespace {

struct Port {
  int socket = -1;
  int number = 0;
};

Port listen_anywhere() {
  Port port{::socket(AF_INET, SOCK_STREAM, 0), 0};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ::bind(port.socket, reinterpret_cast<sockaddr*>(&address), length);
  ::listen(port.socket, 128);
  ::getsockname(port.socket, reinterpret_cast<sockaddr*>(&address), &length);
  port.number = ntohs(address.sin_port);
  return port;
}

}  // namespace

int failed_ranks(int64_t world, const std::function<int(const Rendezvous&)>& body) {
  const Port port = listen_anywhere();
  std::vector<pid_t> pids;
  for (int64_t rank = 0; rank < world; ++rank) {
    const pid_t pid = ::fork();
    if (pid != 0) {
      pids.push_back(pid);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE,
             SIG_IGN);  // as in the launcher's ranks: gloo writes to peers that may be dead
    ::alarm(600);
    if (rank != 0) ::close(port.socket);
    int code = 1;
    try {
      at::set_num_threads(1);
      Rendezvous meeting;
      meeting.ranks = {.rank = rank, .world = world, .local_rank = rank, .local_world = world};
      meeting.master.port = port.number;
      meeting.listen_fd = rank == 0 ? port.socket : -1;
      code = body(meeting);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", static_cast<int>(rank), e.what());
    }
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(port.socket);
  int failed = 0;
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    ::waitpid(pids[rank], &status, 0);
    if (status != 0) ++failed;
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "rank %zu: killed by signal %d\n", rank, WTERMSIG(status));
    }
  }
  return failed;
}

}  // namespace gantrain
