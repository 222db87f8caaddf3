// SPDX-License-Identifier: Apache-2.0
#include "launch/restarts.h"

#include <signal.h>

#include <algorithm>

#include "launch/signals.h"
#include "util/failure_text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kLongestPause = 60;  // seconds

std::string without_digits(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }),
             text.end());
  return text;
}

bool is_same(const Outcome& a, const Outcome& b) {
  return !a.cause.empty() && a.cause == b.cause && a.iteration == b.iteration;
}

}  // namespace

std::string cause_of(const RankFailure& f) {
  if (f.signal == SIGKILL && !f.host_was_short && f.iteration == 0) return "";
  const std::string how =
      f.signal != 0 ? signal_text(f.signal) : fmt::format("exit code {}", f.code);
  return how + ": " + without_digits(cause_line(f.message));
}

Restarts::Restarts(const LaunchOptions& options)
    : most_(options.max_restarts), next_pause_(options.patience.first_restart) {}

Restarts::Decision Restarts::after(const Outcome& end) {
  const bool repeated = before_ && is_same(*before_, end);
  before_ = end;
  if (!end.restartable || number_ >= most_) return {};
  if (repeated) {
    return {.note = fmt::format("failed twice at iteration {} with the same cause: not restarted "
                                "again ({} of {} restarts used)",
                                end.iteration,
                                number_,
                                most_)};
  }
  Decision decision{.again = true, .pause = next_pause_};
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  decision.note = fmt::format("starting the ranks again ({} of {} restarts){}",
                              ++number_,
                              most_,
                              decision.pause > 0 ? " in " + short_duration(decision.pause) : "");
  return decision;
}

}  // namespace gantrain
