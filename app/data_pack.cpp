// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "curation/packing.h"
#include "stop_signals.h"
#include "trainer_verbs.h"
#include "util/doubled_size.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"
#include "work_progress.h"

namespace gantrain {

namespace {

constexpr size_t kReasonsShown = 20;

PackResult pack(const PackRequest& request) {
  const StopSignals signals;
  WorkProgress progress("packing");
  const WorkCallbacks callbacks = {
      .stop = [&] { return signals.asked(); },
      .progress = [&](int64_t done, int64_t all) { progress.show(done, all); }};
  try {
    PackResult result = pack_pictures(request, callbacks);
    if (!result.stopped) return result;
  } catch (const UserError& error) {
    if (error.code() != Exit::kStopped) throw;
  }
  signals.leave("; the same command goes on from here");
}

void say_bad(const PackRequest& request, const PackResult& result) {
  if (result.bad.empty()) return;
  for (size_t i = 0; i < std::min(result.bad.size(), kReasonsShown); ++i) warn("{}", result.bad[i]);
  warn("{} pictures left out, listed in {}", result.bad.size(), bad_list_of(request));
}

Json json_of(const PackRequest& request, const PackResult& result, double seconds) {
  Json line = {{"output", request.output},
               {"pictures", result.pictures},
               {"size", to_text(request.resolution)},
               {"channels", result.channels},
               {"classes", result.classes},
               {"bytes", result.bytes},
               {"resumed", result.resumed},
               {"bad", result.bad},
               {"bad_list", nullptr},
               {"seconds", seconds}};
  if (!result.bad.empty()) line["bad_list"] = bad_list_of(request);
  return line;
}

// Returns a command that runs with this data: networks do not take every size.
std::string next_command(const PackRequest& request) {
  const auto size = find_doubled_size(request.resolution);
  const bool trainable = size && size->doublings >= 1 && size->doublings <= 8;
  const std::string output = shell_quote(request.output);
  if (!trainable) return "gantrain data inspect " + output;
  return fmt::format("gantrain --preset stylegan2-ada --data {} --resolution {}",
                     output,
                     to_text(request.resolution));
}

}  // namespace

int data_pack(const PackRequest& request) {
  const double start = monotonic_seconds();
  const PackResult result = pack(request);
  const double seconds = monotonic_seconds() - start;
  say_bad(request, result);
  info("packed  {}: {} pictures of {}x{}x{}, {:.1f} MB{}, in {:.1f} s",
       request.output,
       result.pictures,
       request.resolution.width,
       request.resolution.height,
       result.channels,
       static_cast<double>(result.bytes) / 1e6,
       result.classes > 0 ? fmt::format(", {} classes", result.classes) : "",
       seconds);
  info("next    {}", next_command(request));
  if (request.json) {
    fmt::print(
        "{}\n",
        json_of(request, result, seconds).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return 0;
}

}  // namespace gantrain
