// SPDX-License-Identifier: Apache-2.0
#include "local_world.h"

#include <c10/util/Exception.h>

#include "launch/local_ranks.h"
#include "quiet.h"
#include "train/memory_shortage.h"
#include "util/error.h"

namespace gantrain {

std::vector<std::string> run_local_world(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_ranks(world, seconds, [&](const Rendezvous& meeting) {
    quieten_libtorch();
    try {
      return body(meeting);
    } catch (const c10::Error& e) {
      const std::string text = e.what_without_backtrace();
      if (const auto shortage = shortage_in(text))
        throw UserError(Exit::kOutOfMemory, shortage_text(*shortage, {}, host_memory()));
      throw std::runtime_error(text);
    }
  });
}

}  // namespace gantrain
