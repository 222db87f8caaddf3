// SPDX-License-Identifier: Apache-2.0
#include "launch/node_council.h"

#include <algorithm>
#include <utility>

#include "util/error.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

namespace {

// A launcher that is gone. Nothing can start its ranks again.
Outcome lost_outcome(const std::string& text) {
  return {.code = static_cast<int>(Exit::kRankDied), .error = text, .resumable = true};
}

}  // namespace

NodeCouncil::NodeCouncil(const World& world, const LaunchOptions& options, const Endpoint& master)
    : link_(world, options), master_(master), meeting_seconds_(options.patience.meeting) {}

double NodeCouncil::next_deadline() const {
  const auto decides_at = verdict_ ? std::nullopt : cause_.deadline();
  return decides_at ? std::min(*decides_at, link_.next_beat()) : link_.next_beat();
}

void NodeCouncil::exchange() {
  for (const NodeEvent& event : link_.exchange()) on_running(event);
  if (verdict_ || !decides()) return;
  if (cause_.deadline() && !all_asked_) {
    link_.send_all({.word = Word::kAsk});
    all_asked_ = asked_ = true;
  }
  const auto end = cause_.decide(monotonic_seconds());
  if (!end) return;
  verdict_ = *end;
  NodeMessage message{.word = Word::kVerdict};
  message.report.end = *end;
  link_.send_all(message);
}

void NodeCouncil::on_running(const NodeEvent& event) {
  const NodeMessage& message = event.message;
  if (!event.lost.empty()) {
    NodeReport lost{.node = event.node, .kind = NodeReport::Kind::kCause};
    lost.end = lost_outcome(event.lost);
    if (!decides()) link_.send(0, {.word = Word::kReport, .report = lost});
    cause_.add(lost, monotonic_seconds());
    if (link_.is_node_0()) return;
    if (!verdict_) verdict_ = lost.end;
    decision_ = Restarts::Decision{};  // who would decide is gone
    return;
  }
  switch (message.word) {
    case Word::kReport:
      cause_.add(message.report, monotonic_seconds());
      break;
    case Word::kAsk:
      asked_ = true;
      break;
    case Word::kVerdict:
      if (!verdict_) verdict_ = message.report.end;
      break;
    case Word::kStop:
      if (stop_known_) break;
      stop_known_ = true;
      stop_ = static_cast<int>(message.number);
      info("{} was asked to stop by {}",
           message.place.text(),
           signal_text(static_cast<int>(message.number)));
      if (link_.is_node_0()) link_.send_others(event.node, message);
      break;
    case Word::kAgain:
      decision_ = Restarts::Decision{.again = true, .note = message.text};
      break;
    case Word::kEnded:
      decision_ = Restarts::Decision{.note = message.text};
      break;
    case Word::kReady:
      ready_.insert(event.node);
      break;
    case Word::kRefused:
      warn("a launcher that came late was refused: {}", message.text);
      break;
    default:
      break;
  }
}

void NodeCouncil::report(NodeReport report) {
  if (verdict_) return;
  report.node = here().node;
  reported_ = reported_ || report.kind != NodeReport::Kind::kProgress;
  cause_.add(report, monotonic_seconds());
  if (!decides()) link_.send(0, {.word = Word::kReport, .report = report});
  exchange();
}

void NodeCouncil::tell_stop(int signal) {
  if (stop_known_) return;
  stop_known_ = true;
  link_.send_all({.word = Word::kStop, .number = signal, .place = here()});
}

std::optional<int> NodeCouncil::take_stop() {
  const std::optional<int> stop = stop_;
  stop_.reset();
  return stop;
}

bool NodeCouncil::take_question() { return std::exchange(asked_, false); }

Restarts::Decision NodeCouncil::agree(const StopWatch& stop, Restarts& restarts, bool stopped) {
  if (link_.is_node_0()) {
    Restarts::Decision decision = verdict_ ? restarts.after(*verdict_) : Restarts::Decision{};
    if (decision.again && (!link_.all_open() || stopped || stop_known_)) decision = {};
    if (decision.again) link_.send_all({.word = Word::kAgain, .text = decision.note});
    return decision;
  }
  while (!decision_ && link_.is_open(0) && !stopped) {
    std::vector<pollfd> polled;
    link_.watch(polled);
    if (const auto signal = stop.wait(polled, link_.next_beat())) {
      tell_stop(*signal);
      break;
    }
    exchange();
    if (stop_known_) break;
  }
  return decision_.value_or(Restarts::Decision{});
}

void NodeCouncil::finish(int code, const std::string& note) {
  link_.send_all({.word = Word::kEnded, .number = code, .text = note});
  link_.close();
}

}  // namespace gantrain
