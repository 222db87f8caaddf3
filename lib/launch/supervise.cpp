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

// The pipes that are made next must not become somebody's standard output.
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
  listener.port = world.master_port;
  if (world.node_rank == 0) {
    // --master-addr means that somebody else is to connect.
    const bool loopback_only = world.nnodes == 1 && world.master_addr == "127.0.0.1";
    listener = listen_on(world.master_port, loopback_only);
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
  if (options.max_restarts == 0 || world.nnodes == 1) return;
  fail(Exit::kUsage,
       "--max-restarts works on one node, this run has {}: leave it out and let the batch system "
       "start the job again",
       world.nnodes);
}

RankContext worker_context(const World& world, RankStatusBoard& board, const Listener& listener) {
  RankContext context;
  context.rank = world.rank;
  context.local_rank = world.local_rank;
  context.world_size = world.world_size;
  context.local_world_size = world.local_world_size;
  context.node_rank = world.node_rank;
  context.nnodes = world.nnodes;
  context.master_addr = reachable_master(world);
  context.master_port = listener.port;
  context.listen_fd = listener.socket.get();
  context.store_is_served = world.store_is_served;
  context.board = &board;
  context.stop = &stop_flag();
  return context;
}

// What the launcher would have said.
void report_worker(const RankContext& context, int code, const ResumeHint& resume_hint) {
  const RankSlot& slot = context.slot();
  const auto reported = slot.failure();
  RankFailure failure;
  failure.rank = context.rank;
  failure.pid = getpid();
  failure.code = reported ? static_cast<int>(reported->code) : code;
  failure.message = reported ? reported->message : "";
  failure.phase = slot.phase();
  failure.iteration = slot.iteration();
  failure.images_seen = slot.images_seen();
  say_error(
      failure_text(failure, host_name(), context.nnodes),
      failure.iteration > 0 && context.rank == 0 ? resume_hint(context.board->run_folder()) : "");
}

}  // namespace

WorldEnd launch(const World& world,
                const LaunchOptions& options,
                const std::string& config_json,
                const LoadTrainer& load,
                const ResumeHint& resume_hint) {
  resolve_device(options.device, world, visible_gpus(current_environment()));
  check_restarts(world, options);
  open_standard_streams();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  SignalGate gate;
  const int64_t threads = threads_per_rank(options, current_environment(), world.local_world_size);
  const std::string master = reachable_master(world);
  std::string run_folder;
  for (int64_t number = 0;; ++number) {
    const std::unique_ptr<RankStatusBoard> board = RankStatusBoard::create(world.local_world_size);
    board->set_run_folder(run_folder);
    Attempt attempt{world,
                    options,
                    config_json,
                    load,
                    *board,
                    master,
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
                    const std::string& config_json,
                    const LoadTrainer& load,
                    const ResumeHint& resume_hint) {
  resolve_device(options.device, world, visible_gpus(current_environment()));
  Listener listener;
  listener.port = world.master_port;
  if (world.rank == 0 && !world.store_is_served) listener = listen_on(world.master_port, false);
  RankStatusBoard* board = RankStatusBoard::create(1).release();  // signal handlers keep it
  RankContext context = worker_context(world, *board, listener);
  context.threads = threads_per_rank(options, current_environment(), world.local_world_size);
  export_environment(context, options.threads.has_value());
  const RankMain main = load();
  context.slot().set_phase("start-up");
  context.slot().set_pid(getpid());
  install_rank_signals(*board, 0, true);
  const int code = run_rank(context, main, config_json);
  const bool fine = code == static_cast<int>(Exit::kDone) ||
                    code == static_cast<int>(Exit::kStopped) ||
                    code == static_cast<int>(Exit::kInterrupted);
  if (!fine) report_worker(context, code, resume_hint);
  return {code, board->run_folder()};
}

}  // namespace gantrain
