// SPDX-License-Identifier: Apache-2.0
#include "util/error.h"

#include <cerrno>
#include <cstring>

namespace gantrain {

std::string errno_text() { return std::strerror(errno); }

}  // namespace gantrain
