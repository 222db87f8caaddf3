// SPDX-License-Identifier: Apache-2.0
// A rank that another launcher has started: torchrun, srun or mpirun.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "launch/death/error_files.h"
#include "launch/local/processes.h"
#include "launch/local/supervise.h"
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
constexpr double kWordWait = 5;           // for the word of the rank that explains this one's end
constexpr double kHasteWait = 0.8;  // likewise once asked to stop: mpirun kills after a second

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

// The words that tell how a world of workers ended: of a hang those that say who is behind, else
// those of deaths; whichever came first.
std::vector<Death> telling(std::vector<Death> words) {
  constexpr int64_t kNever = INT64_MAX;
  int64_t hang_ns = kNever, cause_ns = kNever;
  double hang_timeout = 0;
  for (const Death& word : words) {
    if (word.kind == Death::Kind::kHang && word.ns < hang_ns) {
      hang_ns = word.ns;
      hang_timeout = word.hang_timeout;
    }
    if (blame_of(word) == Blame::kCause) cause_ns = std::min(cause_ns, word.ns);
  }
  if (cause_ns < hang_ns)
    std::erase_if(words, [](const Death& word) { return word.kind == Death::Kind::kHang; });
  for (Death& word : words) {
    if (hang_ns > cause_ns || hang_ns == kNever || word.kind != Death::Kind::kAlive) continue;
    word.kind = Death::Kind::kHang;
    word.hang_timeout = hang_timeout;
  }
  return words;
}

// How a worker ends, as it says and records it. A worker knows its own rank alone; of the others it
// knows what they have written into the run folder.
struct WorkerEnds {
  const LaunchSpec& spec;
  const RankContext& context;
  const pid_t starter;  // the parent, taken before anything that lasts; 0: it may end before

  bool is_orphan() const { return starter > 0 && ::getppid() != starter; }

  // What is known here of how this rank ended; `hang_timeout` in seconds where it hangs.
  Death own_death(int code, double hang_timeout = 0) const {
    const RankSlot& slot = context.slot();
    Death death = death_in(slot, context.rank());
    if (death.ns == 0) {
      death.ns = monotonic_ns();
      death.code = code;
    }
    if (hang_timeout > 0) death.kind = Death::Kind::kHang;
    death.hang_timeout = hang_timeout;
    death.progress = {.stopped = false,
                      .collectives = slot.trace.entered(),
                      .iteration = slot.iteration(),
                      .heartbeat_ns = slot.heartbeat_ns()};
    return death;
  }

  // Tells the other workers, of which it returns the words, and this one's own.
  std::vector<Death> exchange_words(const Death& own) const {
    std::vector<Death> words;
    const std::string folder = context.board->run_folder();
    try {
      if (!folder.empty()) {
        write_word(folder, own);
        words = words_in(folder, context.board->start_ns);
      }
    } catch (const UserError& e) {  // a full disk, whose own failure is told
      debug("{}", e.what());
    }
    std::erase_if(words, [&](const Death& word) { return word.rank == own.rank; });
    words.push_back(own);
    return words;
  }

  // Waits for the word that explains why this rank lost a peer or waits for one: another rank's
  // own death, or that it is stopped.
  std::vector<Death> await_words(Death& own) const {
    std::vector<Death> words = exchange_words(own);
    const std::string folder = context.board->run_folder();
    const bool hang = own.kind == Death::Kind::kHang;
    if (folder.empty() || context.ranks().world == 1 || blame_of(own) == Blame::kCause)
      return words;
    const double begun = monotonic_seconds();
    const auto in_time = [&] {
      return monotonic_seconds() - begun < (stop_requested() != 0 ? kHasteWait : kWordWait);
    };
    const auto explains = [&](const Death& word) {
      return word.progress.stopped || blame_of(word) == Blame::kCause;
    };
    while (!std::ranges::any_of(words, explains) && in_time() && !is_orphan()) {
      if (hang && static_cast<int64_t>(words.size()) == context.ranks().world) break;
      ::usleep(10'000);
      words = words_in(folder, context.board->start_ns);
    }
    if (!is_orphan() || hang || std::ranges::any_of(words, explains)) return words;
    own.message = fmt::format("process {}, which started this rank{}, is gone: {}",
                              starter,
                              spec.world.store_is_served ? " and served the ranks' store" : "",
                              own.message);
    own.code = code_of(Exit::kRankDied);
    return exchange_words(own);
  }

  // What the words of all workers say together.
  std::optional<DeathVerdict> verdict_on(const std::vector<Death>& words) const {
    return decide(telling(words), context.ranks().nodes);
  }

  // A rank that failed because another one died, as is `known`, ends with the code for that.
  AttemptEnd end_of(const Death& own,
                    const std::optional<DeathVerdict>& known,
                    int code,
                    bool hinted) const {
    const bool first = !known || known->ranks.front().rank == own.rank;
    Death alone = own;
    if (alone.kind == Death::Kind::kHang) alone.kind = Death::Kind::kRank;
    const bool told = first && own.kind != Death::Kind::kAlive;  // in its own words
    const AttemptOutcome end = told ? decide({alone}, context.ranks().nodes)->end : known->end;
    const std::string folder = context.board->run_folder();
    AttemptEnd result{spec.world,
                      folder,
                      !first || is_victim(own) ? end.code : code,
                      end.error,
                      hinted ? spec.resume_hint(folder) : "",
                      {alone},
                      false,
                      context.board};
    result.first = first && !is_victim(own);
    return result;
  }

  // Prints the report that a launcher of ours would have printed, and records it unless another
  // process has done so. Returns the exit code.
  int failed(int code, double hang_timeout = 0) const {
    Death own = own_death(code, hang_timeout);
    std::vector<Death> words;
    if (context.slot().recorded) {  // look_at() has told of it, and then it was continued
      own.kind = Death::Kind::kAlive;
      words = words_in(context.board->run_folder(), context.board->start_ns);
    } else {
      words = await_words(own);
    }
    const std::optional<DeathVerdict> known = verdict_on(words);
    const AttemptEnd end = end_of(own, known, code, own.iteration > 0 && context.rank() == 0);
    const RecordEnd record = context.slot().recorded ? RecordEnd{} : spec.record;
    // Of those that only lost a peer rank 0 alone says so, for which it may be the only word; rank
    // 1 does where rank 0 is what was lost, whose own stream may have ended with it.
    const bool rank_0_is_lost = own.rank != 0 && known && known->ranks.front().rank == 0;
    const bool speaks =
        !is_one_stream(spec.world) || !is_victim(own) || context.rank() == (rank_0_is_lost ? 1 : 0);
    if (speaks) {
      tell_failure(end, record);
    } else if (record) {
      record(end);
    }
    context.slot().recorded = true;
    return end.code;
  }

  // What is done when the worker has died without having written down how it ended, in the process
  // that outlives it.
  void died(int64_t kills_before) const {
    const RankSlot& slot = context.slot();
    if (slot.recorded) return;
    Death death = own_death(code_of(Exit::kRankDied));
    if (const auto crash = slot.crash()) {
      death.signal = crash->signal;
    } else if (!slot.failure()) {
      death.signal = SIGKILL;  // the only end that leaves no trace
    }
    death.host_was_short = death.signal == SIGKILL && out_of_memory_kills() > kills_before;
    const int code = death.signal != 0 ? 128 + death.signal : death.code;
    AttemptEnd end = end_of(death, verdict_on(exchange_words(death)), code, true);
    end.died = true;
    tell_failure(end, spec.record);
  }

  // Does what a worker cannot do that is stopped, as by SIGSTOP, while the others end because they
  // have waited for it in vain: says so, in the process beside it.
  void look_at(pid_t worker) const {
    RankSlot& slot = context.slot();
    const std::string folder = context.board->run_folder();
    if (slot.recorded || slot.returned || folder.empty() || !is_stopped(worker)) return;
    const std::vector<Death> others = words_in(folder, context.board->start_ns);
    if (std::ranges::none_of(others, [](const Death& d) { return blame_of(d) != Blame::kNone; }))
      return;
    slot.recorded = true;
    Death death = own_death(code_of(Exit::kRankDied));
    death.kind = Death::Kind::kAlive;
    death.progress.stopped = true;
    AttemptEnd end =
        end_of(death, verdict_on(exchange_words(death)), code_of(Exit::kRankDied), true);
    end.first = true;
    end.died = end.frozen = true;
    end.deaths.front().message = "it is stopped (SIGSTOP), and other ranks waited for it in vain";
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
  explicit WorkerWatch(const WorkerEnds& ends)
      : options_(ends.spec.options), ends_(ends), watch_from_(monotonic_seconds()) {
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
    if (orphan_ends_ == 0 && ends_.is_orphan()) {
      const double grace = std::min(options_.grace.seconds, kOrphanGrace);
      orphan_ends_ = now + grace;
      warn("process {}, which started this worker, is gone: saving and stopping, at most {}",
           ends_.starter,
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
                hang_text(allowed) + ": this rank hangs, or waits for another one that does",
                allowed);
  }

  [[noreturn]] void end_process(Exit code, const std::string& reason, double hang_timeout = 0) {
    slot().report_failure(code, reason);
    ends_.failed(code_of(Exit::kRankDied), hang_timeout);
    ::_exit(static_cast<int>(code));
  }

  RankSlot& slot() const { return ends_.context.slot(); }

  const LaunchOptions& options_;
  const WorkerEnds& ends_;
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
  if (const auto note = no_restarts_text(world, options.max_restarts); !note.empty())
    warn("{}", note);
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
  ask_name_servers_briefly();
  const RankMain main = spec.load();
  context.slot().set_phase("start-up");
  context.slot().pid = getpid();
  install_rank_signals(*board, 0, true);
  const WorkerEnds ends{spec, context, starter};
  start_survivor([&, kills = out_of_memory_kills()] { ends.died(kills); },
                 [&, worker = ::getpid()] { ends.look_at(worker); });
  int code = 0;
  {
    const WorkerWatch watch(ends);
    code = run_rank(context, main, spec.request_json);
  }
  if (code == code_of(Exit::kDone) || is_stop_code(code)) {
    ends.stopped(code);
  } else {
    code = ends.failed(code);
  }
  return {code, board->run_folder(), tells_at_first(spec.world)};
}

}  // namespace gantrain
