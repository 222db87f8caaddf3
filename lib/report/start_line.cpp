// SPDX-License-Identifier: Apache-2.0
#include "report/start_line.h"

#include <algorithm>

#include "report/console.h"
#include "util/log.h"
#include "util/time.h"

namespace gantrain {

StartLine::StartLine(double began, bool wanted)
    : began_(began), live_(wanted && detect_terminal().live) {}

StartLine::~StartLine() {
  if (live_) set_live_line("");
}

void StartLine::show(const std::string& phase) {
  if (!live_) return;
  const std::string passed = short_duration(monotonic_seconds() - began_);
  const auto room = static_cast<size_t>(std::max<int64_t>(terminal_width() - 1, 0));
  set_live_line(fmt::format(" starting {}  {}", passed, phase).substr(0, room));
}

}  // namespace gantrain
