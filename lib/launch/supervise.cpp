// SPDX-License-Identifier: Apache-2.0
#include "launch/supervise.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "launch/devices.h"
#include "launch/supervisor.h"
#include "util/error.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Opens the standard streams that are closed, so that no pipe that is made later gets the number of
// one of them.
void open_standard_streams() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

Outcome run_attempt(Attempt& attempt, SignalGate& gate) {
  const World& world = attempt.world;
  Listener listener;
  listener.port = world.master.port;
  if (world.ranks.node_rank == 0) {
    // With --master-addr, ranks of other machines may be meant to connect.
    const bool loopback_only = world.ranks.nodes == 1 && world.master.host == "127.0.0.1";
    listener = listen_on(world.master.port, loopback_only);
  }
  Output output;
  ForkServer fork_server = start_fork_server(attempt, std::move(listener), output);
  return Supervisor(attempt, gate, std::move(fork_server), std::move(output)).run();
}

void say_error(const std::string& text, const std::string& hint) {
  error("{}{}{}", text, hint.empty() ? "" : "\n", hint);
}

void say_hint(const std::string& hint) {
  if (!hint.empty()) info("{}", hint);
}

void check_restarts(const World& world, const LaunchOptions& options) {
  if (options.max_restarts == 0 || world.ranks.nodes == 1) return;
  fail(Exit::kUsage,
       "--max-restarts works on one node, this run has {}: leave it out and let the batch system "
       "start the job again",
       world.ranks.nodes);
}

RankContext worker_context(const World& world, RankStatusBoard& board, const Listener& listener) {
  RankContext context;
  context.rendezvous = {world.ranks,
                        {reachable_master(world), listener.port},
                        listener.socket.get(),
                        world.store_is_served};
  context.board = &board;
  context.stop = &stop_flag();
  return context;
}

// Prints the report that a launcher of ours would have printed for this rank.
void report_worker(const RankContext& context, int code, const ResumeHint& resume_hint) {
  const RankSlot& slot = context.slot();
  const auto reported = slot.failure();
  RankFailure failure;
  failure.rank = context.rank();
  failure.pid = getpid();
  failure.code = reported ? static_cast<int>(reported->code) : code;
  failure.message = reported ? reported->message : "";
  failure.phase = slot.phase();
  failure.iteration = slot.iteration();
  failure.images_seen = slot.images_seen();
  say_error(
      failure_text(failure, host_name(), context.ranks().nodes),
      failure.iteration > 0 && context.rank() == 0 ? resume_hint(context.board->run_folder()) : "");
}

}  // namespace

WorldEnd launch(const World& world,
                const LaunchOptions& options,
                const std::string& request_json,
                const LoadTrainer& load,
                const ResumeHint& resume_hint) {
  check_restarts(world, options);
  open_standard_streams();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SignalGate gate;
  const int64_t threads = threads_per_rank(options, current_environment(), world.ranks.local_world);
  const std::string master_host = reachable_master(world);
  std::string run_folder;
  for (int64_t number = 0;; ++number) {
    const std::unique_ptr<RankStatusBoard> board = RankStatusBoard::create(world.ranks.local_world);
    board->set_run_folder(run_folder);
    Attempt attempt{world,
                    options,
                    request_json,
                    load,
                    *board,
                    master_host,
                    threads,
                    number,
                    gate.original_mask(),
                    gate.descriptor()};
    const Outcome end = run_attempt(attempt, gate);
    run_folder = board->run_folder();
    const bool again =
        end.restartable && number < options.max_restarts && board->stop_request() == 0;
    if (again) {
      warn("{}", end.error);
      info("starting the ranks again ({} of {} restarts)", number + 1, options.max_restarts);
      continue;
    }
    if (!end.error.empty()) {
      say_error(end.error, end.resumable ? resume_hint(run_folder) : "");
    } else if (end.killed_at_stop) {
      say_hint(resume_hint(run_folder));
    }
    return {end.code, run_folder};
  }
}

WorldEnd run_worker(const World& world,
                    const LaunchOptions& options,
                    const std::string& request_json,
                    const LoadTrainer& load,
                    const ResumeHint& resume_hint) {
  Listener listener;
  listener.port = world.master.port;
  if (world.ranks.rank == 0 && !world.store_is_served)
    listener = listen_on(world.master.port, false);
  RankStatusBoard* board = RankStatusBoard::create(1).release();  // signal handlers keep it
  RankContext context = worker_context(world, *board, listener);
  context.threads = threads_per_rank(options, current_environment(), world.ranks.local_world);
  export_environment(context, options.threads.has_value());
  const RankMain main = load();
  context.slot().set_phase("start-up");
  context.slot().set_pid(getpid());
  install_rank_signals(*board, 0, true);
  const int code = run_rank(context, main, request_json);
  const bool fine = code == static_cast<int>(Exit::kDone) ||
                    code == static_cast<int>(Exit::kStopped) ||
                    code == static_cast<int>(Exit::kInterrupted);
  if (!fine) report_worker(context, code, resume_hint);
  return {code, board->run_folder()};
}

}  // namespace gantrain
