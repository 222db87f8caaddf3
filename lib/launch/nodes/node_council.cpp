// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/node_council.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "launch/local/supervise.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kRetry = 0.2;    // seconds between two tries to reach node 0
constexpr double kQuiet = 2;      // seconds that nothing is said while nodes come
constexpr double kMoreNodes = 1;  // seconds for more nodes than the least to come
constexpr const char* kLeadsNow =
    " leads the run now, because this node was silent; start it again to take part";

Death death_of_launcher(const NodeEvent& event, int64_t ranks) {
  return {.kind = Death::Kind::kLauncher,
          .node = event.from.node,
          .host = event.from.host,
          .rank = event.from.node * ranks,
          .code = code_of(Exit::kRankDied),
          .message = event.lost};
}

bool is_of_who_is_behind(const Death& death) {
  return death.kind == Death::Kind::kHang || death.kind == Death::Kind::kAlive;
}

}  // namespace

AttemptOutcome NodeCouncil::refuse_all(Exit code, const std::string& text) {
  link_.send({.word = Word::kRefused, .number = static_cast<int64_t>(code), .text = text});
  link_.close();
  return {.code = static_cast<int>(code), .error = text, .resumable = number_ > 0};
}

AttemptOutcome NodeCouncil::stop_all(int signal) {
  tell_stop(signal);
  const AttemptOutcome end = stopped_outcome(signal);
  finish(end.code, "");
  return end;
}

std::string NodeCouncil::absent_text() const {
  const int64_t ranks = here().ranks;
  std::vector<NodeRanks> nodes;
  for (const int64_t node : link_.absent())
    nodes.push_back({.node = node, .first = node * ranks, .last = (node + 1) * ranks - 1});
  return nodes_text(nodes);
}

// What another launcher says while the nodes come together. Returns how the run ends, if it does.
std::optional<AttemptOutcome> NodeCouncil::on_event(const NodeEvent& event) {
  const NodeMessage& message = event.message;
  lost_leader_ = lost_leader_ || (!event.lost.empty() && !link_.leads());
  if (least_ > 0 && link_.leads() && (!event.lost.empty() || message.word == Word::kRefused)) {
    warn("{}", event.lost.empty() ? message.text : event.lost);
    if (!event.lost.empty() || message.number != 0) drop(event.from.node);
    return std::nullopt;
  }
  if (!event.lost.empty()) {
    if (!link_.leads() && number_ == 0) {
      return refuse_all(Exit::kEnvironment,
                        fmt::format("node {}: {}:{} closed the connection before the run began: "
                                    "was the launcher there ended, or does another program, or "
                                    "another version of gantrain, listen?",
                                    here().node,
                                    master_.host,
                                    master_.port));
    }
    return refuse_all(Exit::kRankDied, event.lost);
  }
  switch (message.word) {
    case Word::kRefused:
      // On node 0 it is what it told a launcher that does not fit.
      if (link_.leads()) return refuse_all(Exit::kEnvironment, message.text);
      link_.close();
      return AttemptOutcome{.code = message.number != 0 ? static_cast<int>(message.number)
                                                        : code_of(Exit::kEnvironment),
                            .error = message.text,
                            .resumable = number_ > 0};
    case Word::kHello:
      return std::nullopt;  // it is told when the attempt begins
    case Word::kStart:
      end_attempt();  // a node that has just come may have heard how the last one ended
      start_ = message;
      late_ = message.port == 0;
      return std::nullopt;
    case Word::kStop:
      info("{} was asked to stop", message.place.text());
      return stop_all(static_cast<int>(message.number));
    case Word::kEnded:
      if (const auto code = static_cast<int>(message.number);
          least_ > 0 && number_ == 0 && (code == 0 || is_stop_code(code))) {
        info("nodes   the run has ended before this node could take part");
        link_.close();
        return AttemptOutcome{.code = code};
      }
      return refuse_all(Exit::kRankDied,
                        fmt::format("{} has ended and cannot start again", event.from.text()));
    default:
      on_running(event);
      return std::nullopt;
  }
}

// Waits for what comes, at most until then, and takes it.
std::optional<AttemptOutcome> NodeCouncil::wait_once(const StopWatch& stop, double until) {
  std::vector<pollfd> polled;
  link_.watch(polled);
  if (const auto signal = stop.wait(polled, std::min(until, link_.next_beat())))
    return stop_all(*signal);
  for (const NodeEvent& event : link_.exchange()) {
    if (auto end = on_event(event)) return end;
  }
  return std::nullopt;
}

// Whether the run can begin: all nodes are there, or of an elastic run enough, and no more come.
bool NodeCouncil::is_complete(double now) {
  const auto absent = static_cast<int64_t>(link_.absent().size());
  if (absent == 0) return true;
  if (!link_.leads() || least_ == 0) return false;
  const bool enough = here().nodes - absent >= least_;
  if (!enough || enough_ == 0) enough_ = enough ? now : 0;
  return enough && now - enough_ >= kMoreNodes;
}

// The first meeting, which has a time limit.
std::optional<AttemptOutcome> NodeCouncil::meet_others(const StopWatch& stop, double until) {
  const double speaks_at = monotonic_seconds() + kQuiet;
  bool spoke = false;
  std::string problem;
  for (double now; !is_complete(now = monotonic_seconds());) {
    if (!link_.leads() && link_.connect(master_, problem)) break;
    if (now > until && link_.leads()) {
      return refuse_all(
          Exit::kEnvironment,
          fmt::format("{} did not come within {} (--timeout): does gantrain run there, with the "
                      "same --nnodes and its own --node-rank, and does it reach this host's port "
                      "{}?",
                      absent_text(),
                      short_duration(meeting_seconds_),
                      master_.port));
    }
    if (now > until) {
      lost_leader_ = true;
      return AttemptOutcome{
          .code = code_of(Exit::kEnvironment),
          .error = fmt::format("node {}: no rendezvous at {}:{} within {} (--timeout): {}; is node "
                               "0 running there, and the port open?",
                               here().node,
                               master_.host,
                               master_.port,
                               short_duration(meeting_seconds_),
                               problem)};
    }
    if (!spoke && now > speaks_at) {
      info("nodes   waiting for {}, at most {}",
           link_.leads()
               ? absent_text()
               : fmt::format("node {} at {}:{}", link_.leader(), master_.host, master_.port),
           short_duration(meeting_seconds_));
      spoke = true;
    }
    double next = link_.leads() ? std::min(until, now + kQuiet) : now + kRetry;
    if (enough_ > 0) next = std::min(next, enough_ + kMoreNodes);
    if (auto end = wait_once(stop, next)) return end;
  }
  return std::nullopt;
}

std::optional<AttemptOutcome> NodeCouncil::begin(const StopWatch& stop,
                                                 int64_t number,
                                                 double not_before,
                                                 Start& start) {
  number_ = number;
  start_.reset();
  end_attempt();
  link_.pass_on_lead(false);  // there is no memory to go on from
  if (number == 0) {
    if (auto end = meet_others(stop, monotonic_seconds() + meeting_seconds_)) return end;
  } else if (!link_.leads()) {
    link_.send({.word = Word::kReady, .number = number});
  }
  const auto is_ready = [this](int64_t node) { return ready_.contains(node); };
  const std::vector<int64_t> others = present();  // those that come meanwhile have nothing to end
  while (link_.leads() ? (number > 0 && !std::ranges::all_of(others, is_ready)) ||
                             monotonic_seconds() < not_before
                       : !start_) {
    const double until = std::max(not_before, monotonic_seconds() + kQuiet);
    if (auto end = wait_once(stop, until)) return end;
  }
  if (link_.leads()) {
    // Nodes may have been lost in the pause.
    const bool enough = here().nodes - static_cast<int64_t>(link_.absent().size()) >= least_;
    const double until = monotonic_seconds() + meeting_seconds_;
    if (const auto end = enough ? std::nullopt : meet_others(stop, until)) return end;
    end_attempt();
  }
  ready_.clear();
  if (link_.leads()) {
    link_.send({.word = Word::kStart,
                .number = number,
                .port = start.port,
                .text = start.run_folder,
                .place = here()});
  } else {
    start = {start_->port, start_->text};
  }
  link_.pass_on_lead(least_ > 0);
  return std::nullopt;
}

std::optional<int64_t> NodeCouncil::decision_time() const {
  if (verdict_ || !decides()) return std::nullopt;
  return decides_at(deaths_, here().nodes);
}

double NodeCouncil::next_deadline() const {
  const auto ns = decision_time();
  return ns ? std::min(static_cast<double>(*ns) / 1e9, link_.next_beat()) : link_.next_beat();
}

void NodeCouncil::exchange() {
  for (const NodeEvent& event : link_.exchange()) on_running(event);
  const auto ns = decision_time();
  if (!ns) return;
  if (!all_asked_) {
    link_.send({.word = Word::kAsk});
    all_asked_ = asked_ = true;
  }
  if (monotonic_ns() < *ns) return;
  on_decided(*decide(deaths_, here().nodes));
}

// A rank of an elastic run that is behind all others is ended, and the run goes on without it.
void NodeCouncil::on_decided(const DeathVerdict& verdict) {
  const Death* first = verdict.ranks.empty() ? nullptr : &verdict.ranks.front();
  if (least_ > 0 && first != nullptr && first->kind != Death::Kind::kRank) {
    const NodePlace from{.node = first->node, .host = first->host};
    elastic_.push_back({from, {.word = Word::kEndRank, .slots = {first->rank % here().ranks}}});
    warn("{}: {}: the rank is ended", from.text(), behind_text(*first));
    std::erase_if(deaths_, is_of_who_is_behind);
    all_asked_ = false;
    return;
  }
  verdict_ = verdict.end;
  link_.send({.word = Word::kVerdict, .end = *verdict_});
}

void NodeCouncil::hear_of(const std::vector<Death>& deaths) {
  const auto ends = [](const Death& death) { return blame_of(death) == Blame::kCause; };
  // Who is behind does not matter any more where a death ends an elastic run.
  if (least_ > 0 && std::ranges::any_of(deaths, ends)) std::erase_if(deaths_, is_of_who_is_behind);
  for (const Death& death : deaths) {
    deaths_.push_back(death);
    deaths_.back().ns = monotonic_ns();  // the clocks of nodes differ
  }
}

std::string NodeCouncil::own_host() const {
  const std::string address = link_.own_address();
  return address.empty() ? master_.host : address;
}

bool NodeCouncil::take_if_elastic(const NodeEvent& event) {
  const Word word = event.message.word;
  if (least_ == 0) return false;
  const bool gives_up = word == Word::kRefused && event.message.number != 0;
  if (link_.leads() && (!event.lost.empty() || gives_up)) {
    elastic_.push_back(event);
    if (gives_up) elastic_.back().lost = event.message.text;
    return true;
  }
  if (!event.lost.empty() ||
      (word != Word::kHello && (word < Word::kRoster || word > Word::kEndRank)))
    return false;
  elastic_.push_back(event);
  return true;
}

// What was said of the last attempt means nothing in the next one.
void NodeCouncil::end_attempt() {
  deaths_.clear();
  done_.clear();
  verdict_.reset();
  decision_.reset();
  reported_ = all_asked_ = asked_ = false;
  for (const NodeEvent& event : take_elastic()) {
    if (!event.lost.empty()) drop(event.from.node);
    if (event.message.word == Word::kHello) ready_.insert(event.from.node);  // it has had none
  }
}

// Between attempts: nothing is left there that had to end.
void NodeCouncil::drop(int64_t node) {
  link_.forget(node, "");
  ready_.insert(node);
}

void NodeCouncil::forget(const NodeEvent& event) {
  link_.forget(event.from.node,
               fmt::format("node {} has given this node up ({}); start it again to take part",
                           here().node,
                           event.lost));
}

void NodeCouncil::welcome(int64_t node, const std::string& run_folder) {
  link_.send_to(node,
                {.word = Word::kStart, .number = number_, .text = run_folder, .place = here()});
}

void NodeCouncil::end_without(const NodeEvent& event) {
  hear_of({death_of_launcher(event, here().ranks)});
}

void NodeCouncil::end_as_minority(const NodeEvent& event) {
  NodeEvent end = event;
  end.lost += "; others may go on beyond a network that is cut, so this node does not";
  end_without(end);
  on_decided(*decide(deaths_, here().nodes));
  decision_ = Restarts::Decision{};
  link_.resign();
}

void NodeCouncil::report_hang(const std::vector<Death>& deaths) {
  decides() ? hear_of(deaths) : link_.send({.word = Word::kReport, .deaths = deaths});
  exchange();
}

void NodeCouncil::on_running(const NodeEvent& event) {
  const NodeMessage& message = event.message;
  if (take_if_elastic(event)) return;
  if (!event.lost.empty()) {
    if (done_.contains(event.from.node)) {  // its work was done
      lost_done_ = true;
      return;
    }
    const std::vector<Death> lost{death_of_launcher(event, here().ranks)};
    hear_of(lost);
    if (link_.leads()) return;
    lost_leader_ = true;
    // A leader that was stopped and wakes up learns in this way how the run has ended.
    if (!decides() && least_ == 0) link_.send({.word = Word::kReport, .deaths = lost});
    if (!verdict_) verdict_ = decide(lost, here().nodes)->end;
    decision_ = Restarts::Decision{};  // who would decide is gone
    return;
  }
  switch (message.word) {
    case Word::kReport:
      hear_of(message.deaths);
      break;
    case Word::kAsk:
      asked_ = true;
      break;
    case Word::kVerdict:
      if (!verdict_) verdict_ = message.end;
      break;
    case Word::kStop:
      if (stop_known_) break;
      stop_known_ = true;
      stop_signal_ = message.number;
      stop_ = static_cast<int>(message.number);
      info("{} was asked to stop by {}",
           message.place.text(),
           signal_text(static_cast<int>(message.number)));
      if (link_.leads()) link_.send(message, event.from.node);
      break;
    case Word::kAgain:
      decision_ = Restarts::Decision{.again = true, .note = message.text};
      break;
    case Word::kDone:
      done_.insert(event.from.node);
      break;
    case Word::kEnded:
      done_.insert(event.from.node);
      decision_ = Restarts::Decision{.note = message.text};
      if (!link_.leads()) code_of_leader_ = static_cast<int>(message.number);
      break;
    case Word::kTable:
      on_new_leader(event);
      break;
    case Word::kReplaced:
      hear_of({{.kind = Death::Kind::kLauncher,
                .node = here().node,  // the other one lives
                .message = message.place.text() + kLeadsNow}});
      link_.close();
      decision_ = Restarts::Decision{};
      break;
    case Word::kReady:
      ready_.insert(event.from.node);
      break;
    case Word::kRefused:
      if (message.number != 0) {  // by a node that takes part
        hear_of({{.kind = Death::Kind::kLauncher, .node = here().node, .message = message.text}});
        break;
      }
      warn("a launcher that came late was refused: {}", message.text);
      break;
    default:
      break;
  }
}

// What was said to the launcher that led is said to the one that leads now.
void NodeCouncil::on_new_leader(const NodeEvent& event) {
  if (reported_ && !verdict_ && !link_.leads())
    link_.send({.word = Word::kReport, .deaths = deaths_});
  if (stop_known_) link_.send({.word = Word::kStop, .number = stop_signal_, .place = here()});
  elastic_.push_back(event);
}

std::vector<Death> NodeCouncil::lost() const {
  std::vector<Death> lost;
  std::ranges::copy_if(deaths_, std::back_inserter(lost), [this](const Death& death) {
    return death.kind == Death::Kind::kLauncher && death.node != here().node;
  });
  return lost;
}

void NodeCouncil::report(const std::vector<Death>& deaths) {
  if (verdict_) return;
  const Death* word = word_of(deaths, here().nodes);
  if (late_ && word != nullptr && word->iteration == 0) {
    // A node that cannot take part does not end the run that it joins.
    verdict_ = decide(deaths, here().nodes)->end;
    return link_.send({.word = Word::kRefused, .number = verdict_->code, .text = verdict_->error});
  }
  reported_ = reported_ || word != nullptr;
  hear_of(deaths);
  if (!decides()) link_.send({.word = Word::kReport, .deaths = deaths});
  exchange();
}

void NodeCouncil::tell_stop(int signal) {
  if (stop_known_) return;
  stop_known_ = true;
  stop_signal_ = signal;
  link_.send({.word = Word::kStop, .number = signal, .place = here()});
}

void NodeCouncil::tell_done() {
  if (!link_.leads() && done_.insert(here().node).second) link_.send({.word = Word::kDone});
}

bool NodeCouncil::others_work() const {
  if (verdict_) return false;
  if (!link_.leads()) return !decision_ && link_.all_open();
  return !std::ranges::all_of(present(), [this](int64_t node) { return done_.contains(node); });
}

std::optional<int> NodeCouncil::take_stop() { return std::exchange(stop_, std::nullopt); }

Restarts::Decision NodeCouncil::agree(const StopWatch& stop, Restarts& restarts, bool stopped) {
  if (link_.leads()) {
    Restarts::Decision decision = verdict_ ? restarts.after(*verdict_) : Restarts::Decision{};
    const bool all_here = link_.all_open() && !lost_done_;
    if (decision.again && (!all_here || stopped || stop_known_)) decision = {};
    if (decision.again) link_.send({.word = Word::kAgain, .text = decision.note});
    return decision;
  }
  link_.pass_on_lead(false);  // nobody else knows what is to be done
  while (!decision_ && link_.all_open() && !link_.leads() && !link_.seeks_leader() && !stopped) {
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
  link_.send({.word = Word::kEnded, .number = code, .text = note});
  link_.close();
}

}  // namespace gantrain
