// SPDX-License-Identifier: Apache-2.0
#include "launch/rank.h"

#include <cstdlib>
#include <exception>
#include <new>

#include "util/error.h"

namespace gantrain {

namespace {

void set(const char* name, int64_t value) { setenv(name, std::to_string(value).c_str(), 1); }

int report(const RankContext& context, Exit code, const char* message) {
  context.slot().report_failure(code, message);
  return static_cast<int>(code);
}

}  // namespace

void export_environment(const RankContext& context, bool threads_given) {
  set("RANK", context.rank());
  set("LOCAL_RANK", context.ranks().local_rank);
  set("WORLD_SIZE", context.ranks().world);
  set("LOCAL_WORLD_SIZE", context.ranks().local_world);
  set("GROUP_RANK", context.ranks().node_rank);
  set("NODE_RANK", context.ranks().node_rank);
  setenv("MASTER_ADDR", context.rendezvous.master.host.c_str(), 1);
  set("MASTER_PORT", context.rendezvous.master.port);
  const char* user = std::getenv("OMP_NUM_THREADS");
  if (threads_given || user == nullptr || *user == '\0') set("OMP_NUM_THREADS", context.threads);
}

int report_exception(const RankContext& context) {
  try {
    throw;
  } catch (const UserError& e) {
    return report(context, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return report(context, Exit::kOutOfMemory, "out of host memory");
  } catch (const std::exception& e) {
    return report(context, Exit::kInternal, e.what());
  } catch (...) {
    return report(context, Exit::kInternal, "an exception of unknown type");
  }
}

int run_rank(const RankContext& context, RankMain main, const std::string& request_json) {
  try {
    const int code = main(context, request_json.c_str());
    context.slot().set_returned();
    return code;
  } catch (...) {
    return report_exception(context);
  }
}

}  // namespace gantrain
