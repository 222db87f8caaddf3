// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>

#include "launch/local/elastic.h"
#include "launch/local/spawn.h"
#include "launch/nodes/node_council.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// All of these are in seconds.
constexpr double kWatchStep = 1;     // between two looks at the signs of life
constexpr double kMeetingGrace = 1;  // after a stop signal, for ranks that have not met yet
constexpr double kKilledWait = 5;    // after SIGKILL, for one in a system call of a dead disk
constexpr double kQuietWait = 5;     // for other nodes, of which nothing is said
constexpr double kSweepSeconds = 2;  // for killing what the ranks left behind

// Watches one fork server and its ranks until all of them have ended. It relays their output,
// passes stop requests on to them, ends all of them if one fails or hangs, and finds out what the
// cause was. It waits in poll(), so that it reacts to a death at once.
class Supervisor {
 public:
  Supervisor(const Attempt& attempt, ForkServer fork_server, Output output)
      : attempt_(attempt),
        fork_server_(std::move(fork_server)),
        output_(std::move(output)),
        node_(attempt.nodes == nullptr ? -1 : attempt.spec.world.ranks.node_rank),
        tells_at_work_(attempt.spec.at_work) {
    if (fork_server_.pid < 0) take_ranks();
  }

  // Returns when every rank has been reaped and no process is left below this one.
  AttemptOutcome run() {
    while (!finished() && (give_up_at_ == 0 || monotonic_seconds() < give_up_at_)) {
      wait_for_events();
      while (const auto signal = attempt_.gate.next()) {
        *signal == SIGCHLD ? reap() : on_stop_signal(*signal);
      }
      read_answer();
      consult_nodes();
      consult_elastic();
      output_.relay();
      flush_standard_error(0);  // what was kept when nobody read
      check_deadlines();
    }
    const std::vector<pid_t> left = kill_process_tree(kSweepSeconds);
    output_.finish();
    output_.wait_for_reader(attempt_.gate);
    if (program() == nullptr) clear_live_bar();
    for (const pid_t pid : left) warn("process {} cannot be killed (in a system call)", pid);
    AttemptOutcome end = outcome();
    const std::string mismatch = mismatch_text(attempt_.board, first_rank(attempt_.spec.world));
    if (!end.error.empty() && !mismatch.empty()) end.error += "\n        " + mismatch;
    return end;
  }

  // Those of this node's ranks that died, the first cause first: DeathVerdict::ranks. After them,
  // or alone, why there are none.
  std::vector<Death> deaths() const {
    const auto known = verdict();
    std::vector<Death> all = known ? known->ranks : std::vector<Death>{};
    std::ranges::copy_if(deaths_, std::back_inserter(all), [](const Death& death) {
      return death.kind == Death::Kind::kLoader;
    });
    return all;
  }

 private:
  bool finished() const {
    return fork_server_.pid < 0 && !awaits_nodes() && !has_living() && !lingers();
  }

  const Program* program() const { return attempt_.spec.program; }

  // At a stop a program may end before what it has started, which then has the grace time, too.
  bool lingers() const {
    return program() != nullptr && stop_signal_ != 0 && kill_at_ > 0 &&
           std::ranges::any_of(ranks_,
                               [](const RankProcess& rank) { return killpg(rank.pid, 0) == 0; });
  }

  void wait_for_events() {
    std::vector<pollfd> polled{{attempt_.gate.descriptor(), POLLIN, 0}};
    if (fork_server_.answer) polled.push_back({fork_server_.answer.get(), POLLIN, 0});
    output_.watch(polled);
    if (attempt_.nodes != nullptr) attempt_.nodes->watch(polled);
    if (elastic_ != nullptr) elastic_->watch(polled);
    const double wake = next_deadline(monotonic_seconds());
    poll_until(polled, wake);
    // If poll() returned late, this process was stopped (Ctrl-Z) or the machine slept, and so did
    // the ranks. Their silence is counted anew from here.
    if (monotonic_seconds() - wake > kWatchStep) watch_from_ = monotonic_seconds();
  }

  double next_deadline(double now) const {
    double next = std::numeric_limits<double>::infinity();
    const bool looks = attempt_.spec.options.hang_timeout.seconds > 0 || attempt_.starter != 0;
    if (tells_at_work_ || looks) next = now + kWatchStep;
    if (attempt_.nodes != nullptr) next = std::min(next, attempt_.nodes->next_deadline());
    if (elastic_ != nullptr && !aborting_) next = std::min(next, elastic_->next_deadline(now));
    for (const double deadline : {abort_at_, kill_at_, give_up_at_}) {
      if (deadline > 0) next = std::min(next, deadline);
    }
    return next;
  }

  void on_stop_signal(int signal) {
    const double now = monotonic_seconds();
    if (program() != nullptr && signal == SIGUSR1) {  // a notice, no stop
      read_answer();                                  // its ranks may run already
      return signal_all(signal);
    }
    if (signal == SIGINT) ++interrupts_;
    if (stop_signal_ == 0) {
      // Ranks that the fork server has answered for by now may have something to save. Those of a
      // later answer have only just started and are killed.
      read_answer();
      stop_signal_ = signal;
      attempt_.board.stop_request = signal;
      if (attempt_.nodes != nullptr) attempt_.nodes->tell_stop(signal);
      if (aborting_) return;
      if (ranks_.empty()) return kill_all();  // still loading: there is nothing to save
      signal_all(signal == SIGUSR1 || program() != nullptr ? signal : SIGTERM);
      // Ranks that still wait for others at the rendezvous do not see the signal, nor have they
      // anything to save.
      const double most = attempt_.spec.options.grace.seconds;
      const bool works = elastic_ != nullptr && elastic_->has_had_members();
      const bool meets = !works && attempt_.board.all_meet();
      const double grace = meets ? std::min(most, kMeetingGrace) : most;
      kill_at_ = now + grace;
      clear_live_bar();
      info("{}", asked_text(signal, program() != nullptr, grace));
    } else if (signal == SIGINT && interrupts_ >= 3) {
      kill_at_ = now;
    } else if (signal == SIGINT && (interrupts_ >= 2 || !stop_was_relayed_)) {
      kill_by(now + attempt_.spec.options.patience.second_interrupt);
    }
  }

  void read_answer() {
    if (!fork_server_.answer) return;
    started_ = fork_server_.read_answer();
    if (fork_server_.answer) return;
    if (!started_.error.empty()) on_loader_end(started_.code, started_.error);
    if (started_.complete && started_.code == Exit::kDone) take_ranks();
    if (stop_signal_ == 0 || ranks_.empty()) return;
    for (const int64_t slot : starting_) kill_rank(ranks_[static_cast<size_t>(slot)]);
  }

  void take_ranks() {
    ranks_.resize(static_cast<size_t>(attempt_.board.ranks()), RankProcess{.alive = false});
    for (const int64_t slot : starting_)
      ranks_[static_cast<size_t>(slot)] = {.pid =
                                               static_cast<pid_t>(attempt_.board.slot(slot).pid)};
  }

  // Of an elastic run: lets the next generation form, and starts ranks that it lacks.
  void consult_elastic() {
    if (elastic_ == nullptr || aborting_) return;
    elastic_->look(ranks_, watch_from_);
    if (stop_signal_ != 0) return elastic_->start_none();
    if (fork_server_.pid > 0 || fork_server_.answer || ranks_.empty()) return;
    starting_ = elastic_->take_slots_to_start();
    if (starting_.empty()) return;
    Attempt again = attempt_;
    again.slots = starting_;
    started_ = {};
    try {
      fork_server_ = start_fork_server(again, {}, output_);
    } catch (const UserError& e) {  // short of descriptors or processes, maybe not for long
      on_loader_end(e.code(), e.what());
    }
  }

  // Whether an elastic run goes on without a rank that has ended so.
  bool goes_on_without(size_t index, int status, const rusage& usage) {
    if (elastic_ == nullptr) return false;
    // At a stop the others wait for a member that something kills, and go on without it.
    const bool awaited = WIFSIGNALED(status) && elastic_->is_member(static_cast<int64_t>(index));
    const bool told = ranks_[index].kill_sent || aborting_ || (stop_signal_ != 0 && !awaited);
    return elastic_->goes_on_without(told, status, describe(index, status, usage));
  }

  void reap() {
    // A rank becomes a child here when the fork server ends, so its pid was answered before.
    read_answer();
    while (true) {
      int status = 0;
      rusage usage{};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return;
      if (pid == fork_server_.pid) {
        on_fork_server_end(status);
        continue;
      }
      for (size_t i = 0; i < ranks_.size(); ++i)
        if (ranks_[i].pid == pid) on_rank_end(i, status, usage);
    }
  }

  void on_fork_server_end(int status) {
    fork_server_.pid = -1;
    read_answer();
    if (started_.complete) return;
    if (stop_signal_ != 0 && elastic_ != nullptr) elastic_->could_not_start(starting_);
    if (stop_signal_ != 0) return;
    const bool short_of_memory =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && out_of_memory_kills() > kills_before_;
    on_loader_end(
        loader_end_code(status, short_of_memory),
        loader_end_text(status, loader_hangs_ ? attempt_.spec.options.hang_timeout.seconds : 0));
  }

  void on_rank_end(size_t index, int status, const rusage& usage) {
    RankProcess& rank = ranks_[index];
    RankSlot& slot = attempt_.board.slot(static_cast<int64_t>(index));
    rank.alive = slot.saves = false;
    if (goes_on_without(index, status, usage)) return;
    if (program() != nullptr) return on_program_end(index, status, usage);
    if (WIFSIGNALED(status)) {
      if (!rank.was_sent(WTERMSIG(status))) on_death(describe(index, status, usage));
      return;
    }
    rank.code = WEXITSTATUS(status);
    if (rank.code == 0 || is_stop_code(rank.code)) {
      if (slot.returned || stop_signal_ != 0 || aborting_) return;
      Death death = describe(index, status, usage);
      death.message = fmt::format("it left with exit code {} before its work was done", rank.code);
      on_death(death);
      return;
    }
    // A rank that ended because all were told to end, and reported nothing, did not fail.
    const bool told = aborting_ && rank.code == code_of(Exit::kRankDied);
    if (told && !slot.failure()) return;
    on_death(describe(index, status, usage));
  }

  // At a stop, or when all are ended, whatever a program ends with is no failure of its own.
  void on_program_end(size_t index, int status, const rusage& usage) {
    RankProcess& rank = ranks_[index];
    rank.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (first_code_ == 0) first_code_ = rank.code;
    if (rank.code == 0 || stop_signal_ != 0 || (aborting_ && rank.stop_sent)) return;
    on_death(describe(index, status, usage));
  }

  void on_loader_end(Exit code, const std::string& error) {
    if (elastic_ != nullptr && elastic_->has_had_members()) {
      if (stop_signal_ == 0) warn("no rank takes the place of a lost one yet: {}", error);
      return elastic_->could_not_start(starting_);
    }
    deaths_.push_back({.kind = Death::Kind::kLoader,
                       .node = node_,
                       .host = host_name(),
                       .rank = first_rank(attempt_.spec.world),
                       .ns = monotonic_ns(),
                       .code = code_of(code),
                       .message = error});
  }

  Death describe(size_t index, int status, const rusage& usage) {
    const int64_t rank = first_rank(attempt_.spec.world) + static_cast<int64_t>(index);
    Death death = death_of(ranks_[index], attempt_.board.slot(static_cast<int64_t>(index)), rank);
    death.node = node_;
    note_end(death, status, usage, kills_before_);
    death.program = program() != nullptr;
    if (death.program && status != 0 && death.message.empty())
      death.message =
          cause_in(attempt_.file_of(death.rank, "json"), output_.last_words(death.rank));
    return death;
  }

  void on_death(const Death& death) {
    // It may follow from the death of ranks that were killed here, or at their node's stop.
    if (attempt_.nodes != nullptr && stop_signal_ != 0 && is_victim(death)) killed_at_stop_ = true;
    if (killed_at_stop_) return;
    deaths_.push_back(death);
    if (aborting_) return;
    if (!is_victim(death)) return abort_all();
    // With several nodes, their verdict ends the ranks.
    if (abort_at_ == 0 && attempt_.nodes == nullptr)
      abort_at_ = monotonic_seconds() + cause_wait(attempt_.spec.world.ranks.nodes);
    // The rank that did not come where this one waited is found now: later, all are ended. It may
    // be a rank of another node, or the network.
    if (behind_is_known_ || !waited_in_vain(death)) return;
    const Death last = last_of_all();
    if (!is_behind(last.progress, death.progress)) return;
    behind_is_known_ = true;
    deaths_.push_back(last);
  }

  // Of those ranks, the one that has come least far.
  Death last_of(const std::vector<size_t>& ranks, Death::Kind kind) {
    std::vector<RankProgress> progress;
    for (const size_t i : ranks) progress.push_back(describe(i, 0, rusage{}).progress);
    Death last = describe(ranks[furthest_behind(progress)], 0, rusage{});
    last.kind = kind;
    return last;
  }

  // Of an elastic run those count that live, if any does.
  Death last_of_all() {
    std::vector<size_t> all;
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (elastic_ == nullptr || !has_living() || ranks_[i].alive) all.push_back(i);
    return last_of(all, Death::Kind::kAlive);
  }

  bool has_living() const { return std::ranges::any_of(ranks_, &RankProcess::alive); }

  // The run's first rank here has begun to train once it gives signs of life.
  void tell_at_work() {
    const std::string folder = attempt_.board.run_folder();
    const bool tells = tells_at_work_ && (attempt_.nodes == nullptr || attempt_.nodes->leads());
    if (!tells || folder.empty() || attempt_.board.slot(0).heartbeat_ns() == 0) return;
    tells_at_work_ = false;
    attempt_.spec.at_work(folder);
  }

  void check_deadlines() {
    const double now = monotonic_seconds();
    tell_at_work();
    if (stop_signal_ == 0 && is_gone(attempt_.starter)) on_stop_signal(SIGTERM);
    if (abort_at_ > 0 && now >= abort_at_) abort_all();
    if (kill_at_ > 0 && now >= kill_at_) {
      if (!aborting_) {
        killed_at_stop_ = true;
        clear_live_bar();
        warn("killing the ranks that have not stopped in time");
      }
      kill_all();
    }
    if (stop_signal_ == 0 && !aborting_) check_heartbeats(now);
  }

  void check_heartbeats(double now) {
    const double allowed = attempt_.spec.options.hang_timeout.seconds;
    if (allowed <= 0 || now - watch_from_ < allowed) return;
    if (fork_server_.pid > 0 &&
        stopped_too_long(fork_server_.pid, loader_stopped_since_, watch_from_, allowed)) {
      loader_hangs_ = true;
      signal_process(fork_server_.pid, SIGKILL);
      return;
    }
    const std::vector<size_t> watched = silent_ranks(ranks_, attempt_.board, watch_from_, allowed);
    if (!watched.empty()) on_hang(watched);
  }

  void on_hang(const std::vector<size_t>& watched) {
    clear_live_bar();
    if (attempt_.speaks)
      log_line(Level::kInfo, progress_table(attempt_.board, first_rank(attempt_.spec.world)));
    Death hang = last_of(watched, Death::Kind::kHang);
    hang.hang_timeout = attempt_.spec.options.hang_timeout.seconds;
    if (elastic_ != nullptr) {  // whoever is behind is lost, and the others need not wait for it
      watch_from_ = monotonic_seconds();
      if (attempt_.nodes != nullptr) return attempt_.nodes->report_hang({hang});
      warn("rank {} gives no sign of life: it is ended", hang.rank);
      return signal_process(hang.pid, SIGKILL);
    }
    deaths_.push_back(hang);
    abort_all();
  }

  void abort_all() {
    aborting_ = true;
    abort_at_ = 0;
    attempt_.board.aborting = true;
    signal_all(SIGTERM);
    const Patience& patience = attempt_.spec.options.patience;
    kill_by(monotonic_seconds() +
            (attempt_.board.any_saves() ? patience.to_end_a_save : patience.after_failure));
  }

  // Or earlier, where that was said before.
  void kill_by(double deadline) {
    kill_at_ = kill_at_ > 0 ? std::min(kill_at_, deadline) : deadline;
  }

  void signal_all(int signal) {
    for (RankProcess& rank : ranks_) {
      if (!rank.alive) continue;
      rank.stop_sent = true;
      program() != nullptr ? pass_on(rank.pid, signal) : signal_process(rank.pid, signal);
    }
  }

  void kill_all() {
    kill_at_ = 0;
    if (give_up_at_ == 0) give_up_at_ = monotonic_seconds() + kKilledWait;
    if (fork_server_.pid > 0) signal_process(fork_server_.pid, SIGKILL);
    for (RankProcess& rank : ranks_) kill_rank(rank);
  }

  // With several nodes: tells the other launchers what goes on here, and does what they say.
  void consult_nodes() {
    NodeCouncil* nodes = attempt_.nodes;
    if (nodes == nullptr) return;
    if (const Blame known = blame(); known > reported_) {
      reported_ = known;
      std::vector<Death> all = {*word()};
      if (!ranks_.empty()) all.push_back(last_of_all());
      nodes->report(all);
    }
    if (is_done()) tell_done();
    nodes->exchange();
    if (const auto signal = nodes->take_stop(); signal && stop_signal_ == 0) {
      stop_was_relayed_ = true;
      on_stop_signal(*signal);
      interrupts_ = 0;
    }
    if (nodes->take_question() && has_living()) nodes->report({last_of_all()});
    if (!nodes->verdict() || aborting_) return;
    abort_all();
    if (ranks_.empty()) kill_all();  // still loading
  }

  void tell_done() {
    attempt_.nodes->tell_done();
    const double now = monotonic_seconds();
    if (done_at_ == 0) done_at_ = now;
    if (!attempt_.speaks || waits_ || now - done_at_ < kQuietWait) return;
    waits_ = true;
    info("nodes   the ranks of this node have ended; waiting for those of others");
  }

  // The worst that has happened here, and how much it explains.
  const Death* word() const { return word_of(deaths_, attempt_.spec.world.ranks.nodes); }
  Blame blame() const { return word() == nullptr ? Blame::kNone : blame_of(*word()); }
  // Whether other launchers have to say how the run ends, or that an elastic one has ended.
  bool awaits_nodes() const {
    if (attempt_.nodes == nullptr) return false;
    const bool goes_on = elastic_ != nullptr && !aborting_ && !elastic_->is_over();
    return goes_on || (is_done() && attempt_.nodes->others_work()) ||
           attempt_.nodes->awaits_verdict() || blame() > reported_;
  }

  // All ranks here have ended well; those of other nodes may still fail.
  bool is_done() const {
    return attempt_.nodes != nullptr && elastic_ == nullptr && fork_server_.pid < 0 &&
           !ranks_.empty() && !has_living() && !aborting_ && stop_signal_ == 0 && deaths_.empty() &&
           stop_code() == 0;
  }

  std::optional<DeathVerdict> verdict() const {
    return decide(deaths_, attempt_.spec.world.ranks.nodes);
  }

  AttemptOutcome outcome() const {
    if (attempt_.nodes != nullptr && attempt_.nodes->verdict()) return *attempt_.nodes->verdict();
    if (auto known = verdict()) return known->end;
    return {.code = elastic_ == nullptr ? stop_code() : elastic_->code_of_run(stop_signal_),
            .killed_at_stop = killed_at_stop_};
  }

  int stop_code() const {
    if (program() != nullptr) return ranks_.empty() ? 128 + stop_signal_ : first_code_;
    return unfailed_code(stop_signal_, ranks_);
  }

  const Attempt& attempt_;
  ForkServer fork_server_;
  Output output_;
  ForkServerAnswer started_;
  std::vector<int64_t> starting_ = slots_of(attempt_);  // of the ranks that are being started
  ElasticSupervision* elastic_ = attempt_.elastic;      // null: the run has what it began with
  std::vector<RankProcess> ranks_;
  const int64_t node_;               // as in Death
  std::vector<Death> deaths_;        // of this node
  bool behind_is_known_ = false;     // `deaths_` has a rank for which a victim waited in vain
  double loader_stopped_since_ = 0;  // as RankProcess::stopped_since, of the fork server
  bool loader_hangs_ = false, killed_at_stop_ = false, aborting_ = false;
  int stop_signal_ = 0, interrupts_ = 0;
  double done_at_ = 0;             // monotonic seconds since when is_done(); 0: it was not yet
  bool waits_ = false;             // that this node waits for others was said
  int first_code_ = 0;             // of a program, that was not 0
  bool tells_at_work_;             // LaunchSpec::at_work is still to be called
  bool stop_was_relayed_ = false;  // it was another node's launcher that was asked to stop
  Blame reported_ = Blame::kNone;  // the most that the other launchers know of
  // Deadlines in monotonic seconds; 0: there is no such deadline.
  double abort_at_ = 0, kill_at_ = 0;
  double give_up_at_ = 0;  // from then on, ranks that even SIGKILL did not end are left alone
  // The silence of a rank is counted from here at the earliest.
  double watch_from_ = monotonic_seconds();
  const int64_t kills_before_ = out_of_memory_kills();
};

}  // namespace

DeathVerdict run_attempt(const Attempt& attempt, Listener listener) {
  Output output;
  std::optional<ElasticSupervision> elastic;
  Attempt first = attempt;
  if (attempt.spec.program == nullptr && is_elastic(attempt.spec.options)) {
    first.elastic = &elastic.emplace(
        attempt.spec.options, attempt.board, attempt.nodes, attempt.spec.world.ranks);
    first.slots = elastic->first_slots();
  }
  ForkServer fork_server = start_fork_server(first, std::move(listener), output);
  Supervisor supervisor(first, std::move(fork_server), std::move(output));
  return {supervisor.run(), supervisor.deaths()};
}

}  // namespace gantrain
