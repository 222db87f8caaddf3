// SPDX-License-Identifier: Apache-2.0
// A rank that another launcher has started: torchrun, srun or mpirun.
#include <signal.h>
#include <unistd.h>

#include "launch/devices.h"
#include "launch/early_stop.h"
#include "launch/port.h"
#include "launch/signals.h"
#include "launch/supervise.h"
#include "launch/survivor.h"
#include "launch/worker_watch.h"
#include "util/error.h"
#include "util/host_name.h"
#include "util/log.h"

namespace gantrain {

namespace {

// The process whose end ends the worker; 0: none. RANK, WORLD_SIZE and LOCAL_RANK may have been set
// by hand, and a shell that starts ranks in the background may end before them.
pid_t starter_of(const World& world) {
  const bool by_hand =
      world.source == "torchrun" && current_environment().count("TORCHELASTIC_RUN_ID") == 0;
  return by_hand ? 0 : ::getppid();
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

// Prints the report that a launcher of ours would have printed for this rank. Returns the exit
// code: a rank that failed because another one died ends with the code for that.
int report_worker(const World& world,
                  const RankContext& context,
                  int code,
                  const ResumeHint& resume_hint,
                  const RecordEnd& record) {
  const RankSlot& slot = context.slot();
  const auto reported = slot.failure();
  RankFailure failure = where_it_was(slot, context.rank());
  failure.code = reported ? static_cast<int>(reported->code) : code;
  failure.message = reported ? reported->message : "";
  const std::string folder = context.board->run_folder();
  const bool hinted = failure.iteration > 0 && context.rank() == 0;
  const AttemptEnd end{world,
                       folder,
                       is_victim(failure) ? exit_code(failure) : code,
                       failure_text(failure, host_name(), context.ranks().nodes),
                       hinted ? resume_hint(folder) : "",
                       {failure}};
  error("{}{}{}", end.error, end.hint.empty() ? "" : "\n", end.hint);
  if (record) record(end);
  context.slot().set_recorded();
  return end.code;
}

// What is done when the worker has died without having written down how it ended, in the process
// that outlives it.
void record_death(const World& world,
                  const RankContext& context,
                  int64_t kills_before,
                  const ResumeHint& resume_hint,
                  const RecordEnd& record) {
  const RankSlot& slot = context.slot();
  if (!record || slot.recorded()) return;
  RankFailure failure = where_it_was(slot, context.rank());
  failure.signal = SIGKILL;  // the only end that leaves no trace
  if (const auto reported = slot.failure()) failure.message = reported->message;
  if (const auto crash = slot.crash()) failure.signal = crash->signal;
  failure.host_was_short = failure.signal == SIGKILL && out_of_memory_kills() > kills_before;
  const std::string folder = context.board->run_folder();
  AttemptEnd end{world, folder, 128 + failure.signal, "", resume_hint(folder), {failure}};
  end.died = true;
  end.error = failure_text(failure, host_name(), context.ranks().nodes);
  error("{}\n{}", end.error, end.hint);
  record(end);
}

// The end of a worker that was asked to stop, which its rank may not have told of.
void report_stop(const World& world,
                 const RankContext& context,
                 int code,
                 const ResumeHint& resume_hint,
                 const RecordEnd& record) {
  const std::string folder = context.board->run_folder();
  const RankSlot& slot = context.slot();
  const bool told = slot.returned() || context.rank() != 0;
  if (!told) {
    info("{}", early_stop_text(stop_requested(), slot.iteration()));
    if (const std::string hint = resume_hint(folder); !hint.empty()) info("{}", hint);
  }
  if (record) record({world, folder, code, "", "", {}});
  context.slot().set_recorded();
}

}  // namespace

WorldEnd run_worker(const World& world,
                    const LaunchOptions& options,
                    const std::string& request_json,
                    const LoadTrainer& load,
                    const ResumeHint& resume_hint,
                    const RecordEnd& record) {
  const pid_t starter = starter_of(world);
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
  start_survivor([&, kills = out_of_memory_kills()] {
    record_death(world, context, kills, resume_hint, record);
  });
  int code = 0;
  {
    const auto report = [&](const std::string&) {
      report_worker(world, context, static_cast<int>(Exit::kRankDied), resume_hint, record);
    };
    const auto stop = [&](int end) { report_stop(world, context, end, resume_hint, record); };
    const WorkerWatch watch(*board, options, starter, report, stop);
    code = run_rank(context, main, request_json);
  }
  if (code == static_cast<int>(Exit::kDone) || is_stop_code(code)) {
    report_stop(world, context, code, resume_hint, record);
  } else {
    code = report_worker(world, context, code, resume_hint, record);
  }
  return {code, board->run_folder()};
}

}  // namespace gantrain
