// SPDX-License-Identifier: Apache-2.0
#include "work_progress.h"

#include <algorithm>
#include <utility>

#include "util/log.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kRedraw = 0.1;  // seconds
constexpr double kPrint = 60;
constexpr int64_t kBar = 20;  // cells

}  // namespace

WorkProgress::WorkProgress(std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      start_(monotonic_seconds()),
      shown_at_(start_) {}

WorkProgress::~WorkProgress() {
  if (terminal_.live) set_live_line("");
}

void WorkProgress::show(int64_t done, int64_t all) {
  const double now = monotonic_seconds();
  if (first_ < 0) first_ = done - 1;
  if (now - shown_at_ < (terminal_.live ? kRedraw : kPrint)) return;
  shown_at_ = now;
  const std::string text = line(done, all, now - start_);
  if (terminal_.live) {
    set_live_line(text.substr(0, static_cast<size_t>(std::max<int64_t>(terminal_width() - 1, 0))));
  } else {
    info("{}", text);
  }
}

std::string WorkProgress::line(int64_t done, int64_t all, double seconds) const {
  const double rate = static_cast<double>(done - first_) / std::max(seconds, 1e-9);
  const auto filled = static_cast<size_t>(done * kBar / std::max<int64_t>(all, 1));
  return fmt::format("{} {}/{} {:3}% |{}{}| {:.0f} {}/s  eta {}",
                     what_,
                     done,
                     all,
                     100 * done / std::max<int64_t>(all, 1),
                     std::string(filled, '#'),
                     std::string(kBar - filled, '-'),
                     rate,
                     unit_,
                     short_duration(static_cast<double>(all - done) / std::max(rate, 1e-9)));
}

}  // namespace gantrain
