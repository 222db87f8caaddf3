// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/laggard.h"
#include "launch/node_message.h"
#include "launch/outcome.h"
#include "launch/report.h"
#include "launch/signals.h"
#include "launch/spawn.h"

namespace gantrain {

// Watches one fork server and its ranks until all of them have ended. It relays their output,
// passes requests to stop on to them, ends all of them if one fails or hangs, and finds out what
// the cause was. It waits in poll(), so that it reacts to a death at once.
class Supervisor {
 public:
  Supervisor(const Attempt& attempt, SignalGate& gate, ForkServer fork_server, Output output);

  // Returns when every rank has been reaped and no process is left below this one.
  Outcome run();

  // The ranks that failed, the first cause first. A rank that hung or was waited for in vain is
  // among them, with the code 6.
  std::vector<RankFailure> failures() const;

 private:
  struct Rank {
    pid_t pid = -1;
    bool alive = true;
    bool kill_sent = false;
    bool stop_sent = false;
    int code = 0;              // its exit code; 0 if a signal that we sent ended it
    double stopped_since = 0;  // monotonic seconds; 0: it is not stopped, as by SIGSTOP
  };

  bool finished() const;
  void wait_for_events();
  double next_deadline(double now) const;
  void on_signal(int signal);
  void on_stop_signal(int signal);
  bool all_are_meeting() const;
  void read_answer();
  void reap();
  void on_fork_server_end(int status);
  void on_rank_end(size_t index, int status, const rusage& usage);
  RankFailure describe(size_t index, int status, const rusage& usage) const;
  void on_failure(const RankFailure& failure);
  RankProgress progress_of(size_t index) const;
  std::optional<RankFailure> rank_behind(const RankFailure& waiting) const;
  void check_deadlines();
  void check_heartbeats(double now);
  bool stopped_too_long(pid_t pid, double& since, double now) const;
  void on_hang(const std::vector<size_t>& watched);
  void abort_all();
  void kill_all();
  void signal_all(int signal);
  // With several nodes: tells the other launchers what goes on here, and does what they say.
  void consult_nodes();
  NodeReport::Kind trouble() const;
  NodeReport node_report(NodeReport::Kind kind) const;
  bool awaits_verdict() const;
  Outcome outcome() const;
  Outcome local_outcome() const;
  int stop_code() const;

  const Attempt& attempt_;
  SignalGate& gate_;
  ForkServer fork_server_;
  Output output_;

  std::string answer_;
  ForkServerAnswer started_;
  std::vector<Rank> ranks_;
  std::vector<RankFailure> failures_;
  double loader_stopped_since_ = 0;  // as Rank::stopped_since, of the fork server
  bool loader_hangs_ = false;
  std::optional<RankFailure> hang_;
  std::optional<RankFailure> behind_;  // the rank for which the first victim waited in vain
  int stop_signal_ = 0;
  int interrupts_ = 0;
  bool stop_was_relayed_ = false;  // it was another node's launcher that was asked to stop
  NodeReport::Kind reported_ = NodeReport::Kind::kProgress;  // the worst that the others know of
  bool killed_at_stop_ = false;
  bool aborting_ = false;
  // Deadlines in monotonic seconds; 0: there is no such deadline.
  double abort_at_ = 0;
  double kill_at_ = 0;
  double give_up_at_ = 0;     // from then on, ranks that even SIGKILL did not end are left alone
  double watch_from_ = 0;     // the silence of a rank is counted from here at the earliest
  double expected_wake_ = 0;  // when the current poll() should return at the latest
  int64_t kills_before_;      // out_of_memory_kills() at the start
};

}  // namespace gantrain
