// SPDX-License-Identifier: Apache-2.0
#include "quiet.h"

#include "core/torch.h"
#include "util/log.h"

namespace gantrain {

namespace {

class QuietWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { debug("LibTorch: {}", warning.msg()); }
};

}  // namespace

void quieten_libtorch() {
  static QuietWarnings quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
}

}  // namespace gantrain
