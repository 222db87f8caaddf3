// SPDX-License-Identifier: Apache-2.0
// A rank that another launcher has started: torchrun, srun or mpirun.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "launch/local/processes.h"
#include "launch/local/supervise.h"
#include "launch/nodes/node_council.h"
#include "launch/where/devices.h"
#include "launch/where/network.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"

namespace gantrain {

namespace {

// All of these are in seconds.
constexpr double kStep = 0.25;      // between two looks
constexpr double kMuchTooLate = 1;  // a look that comes so late: this process was stopped
constexpr double kOrphanGrace = 10;
constexpr double kMeetingEndGrace = 0.5;  // for a meeting that ends by itself just then

// The process whose end ends the worker; 0: none. RANK, WORLD_SIZE and LOCAL_RANK may have been set
// by hand, and a shell that starts ranks in the background may end before them.
pid_t starter_of(const World& world) {
  const bool by_hand =
      world.source == "torchrun" && current_environment().count("TORCHELASTIC_RUN_ID") == 0;
  return by_hand ? 0 : ::getppid();
}

RankContext worker_context(const World& world,
                           RankStatusBoard& board,
                           const std::string& master,
                           const Listener& listener) {
  RankContext context;
  context.rendezvous = {
      world.ranks, {master, listener.port}, listener.socket.get(), world.store_is_served};
  context.board = &board;
  context.stop = &stop_flag();
  return context;
}

// How a worker ends, as it says and records it.
struct WorkerEnds {
  const LaunchSpec& spec;
  const RankContext& context;

  AttemptEnd end_of(const Death& death, int code, bool hinted) const {
    const AttemptOutcome end = decide({death}, context.ranks().nodes)->end;
    const std::string folder = context.board->run_folder();
    // A rank that failed because another one died ends with the code for that.
    return {spec.world,
            folder,
            is_victim(death) ? end.code : code,
            end.error,
            hinted ? spec.resume_hint(folder) : "",
            {death},
            false,
            context.board};
  }

  // Prints the report that a launcher of ours would have printed for this rank. Returns the exit
  // code.
  int failed(int code) const {
    Death death = death_in(context.slot(), context.rank());
    if (death.ns == 0) death.code = code;
    const AttemptEnd end = end_of(death, code, death.iteration > 0 && context.rank() == 0);
    tell_failure(end, spec.record);
    context.slot().recorded = true;
    return end.code;
  }

  // What is done when the worker has died without having written down how it ended, in the process
  // that outlives it.
  void died(int64_t kills_before) const {
    const RankSlot& slot = context.slot();
    if (!spec.record || slot.recorded) return;
    Death death = death_in(slot, context.rank());
    death.signal = SIGKILL;  // the only end that leaves no trace
    if (const auto crash = slot.crash()) death.signal = crash->signal;
    death.host_was_short = death.signal == SIGKILL && out_of_memory_kills() > kills_before;
    AttemptEnd end = end_of(death, 128 + death.signal, true);
    end.code = 128 + death.signal;
    end.died = true;
    tell_failure(end, spec.record);
  }

  // The end of a worker that was asked to stop, which its rank may not have told of.
  void stopped(int code) const {
    const std::string folder = context.board->run_folder();
    const RankSlot& slot = context.slot();
    const bool told = slot.returned || context.rank() != 0;
    if (!told) {
      info("{}", early_stop_text(stop_requested(), slot.iteration()));
      if (const std::string hint = spec.resume_hint(folder); !hint.empty()) info("{}", hint);
    }
    if (spec.record) spec.record({spec.world, folder, code, "", "", {}});
    context.slot().recorded = true;
  }
};

// Sees to a worker of torchrun, srun or mpirun as our own launcher sees to its ranks. A thread
// looks several times a second:
// - If `starter`, the process that started the worker, is gone, the worker is asked to save and
//   stop, as by SIGTERM. If it has not ended after the grace time, but at most ten seconds, it is
//   ended with 75.
// - If the rank gives no sign of life for the hang timeout, the worker is ended with 6. The time
//   counts from the first sign of life on, and anew after the process was stopped (SIGSTOP) or the
//   machine slept.
// - If a stop is asked for while the ranks still meet, where nothing looks at it, the worker is
//   ended with the stop's code: it has nothing to save.
// How it ended is told and recorded on that thread before the process is ended.
class WorkerWatch {
 public:
  // `starter`: the parent, taken before anything that lasts; 0: it may end before the worker.
  WorkerWatch(pid_t starter, const WorkerEnds& ends)
      : options_(ends.spec.options),
        ends_(ends),
        starter_(starter),
        watch_from_(monotonic_seconds()) {
    // The thread must take no signal: the rank's handlers set flags that the main thread reads.
    const BlockSignals blocked;
    thread_ = std::thread([this] { watch(); });
  }
  ~WorkerWatch() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  WorkerWatch(const WorkerWatch&) = delete;
  WorkerWatch& operator=(const WorkerWatch&) = delete;

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    double expected = monotonic_seconds() + kStep;
    while (!ended_.wait_for(lock, std::chrono::duration<double>(kStep), [this] { return end_; })) {
      const double now = monotonic_seconds();
      if (now - expected > kMuchTooLate) watch_from_ = now;
      look(now);
      expected = monotonic_seconds() + kStep;
    }
  }

  void look(double now) {
    if (ends_.spec.at_work && !is_told_ && ends_.context.rank() == 0 &&
        slot().heartbeat_ns() != 0) {
      is_told_ = true;
      ends_.spec.at_work(ends_.context.board->run_folder());
    }
    if (const int signal = stop_requested(); signal != 0 && slot().phase() == "rendezvous") {
      if (stop_ends_ == 0) stop_ends_ = now + kMeetingEndGrace;
      if (now >= stop_ends_) {
        const int code = stopped_outcome(signal).code;
        ends_.stopped(code);
        ::_exit(code);
      }
    }
    if (starter_ > 0 && orphan_ends_ == 0 && ::getppid() != starter_) {
      const double grace = std::min(options_.grace.seconds, kOrphanGrace);
      orphan_ends_ = now + grace;
      warn("process {}, which started this worker, is gone: saving and stopping, at most {}",
           starter_,
           short_duration(grace));
      ::kill(::getpid(), SIGTERM);
    }
    if (orphan_ends_ > 0) {
      if (now >= orphan_ends_) {
        end_process(Exit::kStopped, "it did not stop in time after its launcher was gone");
      }
      return;
    }
    const int64_t beat = slot().heartbeat_ns();
    const double allowed = options_.hang_timeout.seconds;
    if (allowed <= 0 || beat == 0) return;
    const double since = std::max(static_cast<double>(beat) / 1e9, watch_from_);
    if (now - since <= allowed) return;
    end_process(Exit::kRankDied,
                hang_text(allowed) + ": this rank hangs, or waits for another one that does");
  }

  [[noreturn]] void end_process(Exit code, const std::string& reason) {
    slot().report_failure(code, reason);
    ends_.failed(code_of(Exit::kRankDied));
    ::_exit(static_cast<int>(code));
  }

  RankSlot& slot() const { return ends_.context.slot(); }

  const LaunchOptions& options_;
  const WorkerEnds& ends_;
  const pid_t starter_;
  bool is_told_ = false;    // LaunchSpec::at_work was called
  double watch_from_ = 0;   // monotonic seconds; silence is counted from here at the earliest
  double stop_ends_ = 0;    // when a worker that was to stop while it met is ended; 0: it was not
  double orphan_ends_ = 0;  // when an orphan is ended; 0: it is none
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace

WorldEnd run_worker(const LaunchSpec& spec) {
  const World& world = spec.world;
  const LaunchOptions& options = spec.options;
  const pid_t starter = starter_of(world);
  const std::string master = reachable_master(world);
  Listener listener;
  listener.port = world.master.port;
  if (world.ranks.rank == 0 && !world.store_is_served)
    listener = listen_on(world.master.port, addresses_to_bind(master));
  RankStatusBoard* board = RankStatusBoard::create(1).release();  // signal handlers keep it
  RankContext context = worker_context(world, *board, master, listener);
  context.threads = threads_per_rank(options, current_environment(), world.ranks.local_world);
  export_environment(context, options.threads.has_value());
  const RankMain main = spec.load();
  context.slot().set_phase("start-up");
  context.slot().pid = getpid();
  install_rank_signals(*board, 0, true);
  const WorkerEnds ends{spec, context};
  start_survivor([&, kills = out_of_memory_kills()] { ends.died(kills); });
  int code = 0;
  {
    const WorkerWatch watch(starter, ends);
    code = run_rank(context, main, spec.request_json);
  }
  if (code == code_of(Exit::kDone) || is_stop_code(code)) {
    ends.stopped(code);
  } else {
    code = ends.failed(code);
  }
  return {code, board->run_folder()};
}

}  // namespace gantrain
