// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_requests.h"

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

}  // namespace gantrain
