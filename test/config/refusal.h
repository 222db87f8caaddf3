// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

// Calls, and returns the text of the usage error that it throws; "" where it throws none.
inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    return e.what();
  }
  return "";
}

}  // namespace gantrain
