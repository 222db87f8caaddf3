// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_requests.h"

#include <utility>

#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "util/log.h"
#include "util/system.h"

namespace gantrain {

void RunRequests::look_for_files() {
  const double now = monotonic_seconds();
  if (folder_.empty() || now < look_at_) return;
  look_at_ = now + kLookEvery;
  if (take_request(folder_, "STOP")) {
    info("STOP    seen: the run saves and ends");
    stop_reason_ = "STOP";
    asked_.stop = true;
  }
  if (take_request(folder_, "SAVE")) {
    info("SAVE    seen: a state and a model are written{}",
         measuring_ ? " once the metrics are measured" : "");
    asked_.save = true;
  }
}

std::string RunRequests::stop_reason() const {
  const int signal = callbacks_.stop_signal();
  return signal != 0 ? fmt::format("signal {}", signal) : stop_reason_;
}

RankRequests RunRequests::poll() {
  look_for_files();
  const double now = monotonic_seconds();
  const bool late = leads_ && stop_after_ > 0 && now - callbacks_.started >= stop_after_;
  if (late) stop_reason_ = "--stop-after";
  const bool ends_soon = leads_ && callbacks_.stop_at > 0 && now >= callbacks_.stop_at;
  if (ends_soon) stop_reason_ = "--time-margin";
  if (late || ends_soon || callbacks_.stop_signal() != 0) asked_.stop = true;
  return asked_;
}

namespace {

constexpr std::array<const char*, 4> kChores = {"ticks", "checks", "samples", "saves"};
constexpr std::array<const char*, 4> kOftens = {
    "train.tick", "dist.check_every", "samples.every", "save.every"};

}  // namespace

Chores::Chores(const Config& config) {
  const auto is_chosen = [&](const char* key) { return config.origin(key) != "default"; };
  for (size_t kind = 0; kind < all_.size(); ++kind) all_[kind].exact = is_chosen(kOftens[kind]);
  all_[kSave].exact = all_[kSave].exact || is_chosen("save.keep_every");
}

int64_t Chores::affordable(double now) {
  if (begun_ == 0) begun_ = all_[kTick].ended = now;
  int64_t bits = 0;
  for (const Kind kind : {kTick, kCheck, kSample, kSave}) {
    const Chore& chore = all_[kind];
    const bool affords = kind == kTick ? now - chore.ended >= kBetweenTicks
                                       : chore.spent + chore.last <= kLargestShare * (now - begun_);
    if (affords) bits |= 1 << kind;
  }
  return bits;
}

void Chores::note_affordable(RankRequests& mine, double now, int64_t iteration) {
  mine.affordable = affordable(now);
  mine.affordable_at = iteration;
}

// What was said before it was done last tells of an earlier time.
bool Chores::takes(Kind kind, const RankRequests& heard, int64_t iterations) {
  Chore& chore = all_[kind];
  const bool affords = (heard.affordable >> kind & 1) != 0;
  if (chore.exact || (affords && heard.affordable_at >= chore.done_after)) {
    chore.done_after = iterations;
    return true;
  }
  if (kind != kTick && !std::exchange(chore.said, true))
    info(
        "cadence {} are left out that would take more than 1 % of the time; {} says how often, "
        "whatever they take",
        kChores[kind],
        kOftens[kind]);
  return false;
}

void Chores::did(Kind kind, double begun, double ended) {
  Chore& chore = all_[kind];
  chore.last = ended - begun;
  chore.spent += chore.last;
  chore.ended = ended;
}

void Chores::run(Kind kind, const std::function<void()>& work) {
  const double begun = monotonic_seconds();
  work();
  did(kind, begun, monotonic_seconds());
}

}  // namespace gantrain
