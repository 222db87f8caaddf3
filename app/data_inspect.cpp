// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "curation/advice.h"
#include "curation/inspection.h"
#include "curation/inspection_text.h"
#include "stop_signals.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "work_progress.h"

namespace gantrain {

namespace {

Inspection inspect(const InspectRequest& request) {
  const StopSignals signals;
  WorkProgress progress("looking at");
  const WorkCallbacks callbacks = {
      .stop = [&] { return signals.asked(); },
      .progress = [&](int64_t done, int64_t all) { progress.show(done, all); }};
  try {
    Inspection inspection = inspect_data(request, callbacks);
    if (!inspection.stopped) return inspection;
  } catch (const UserError& error) {
    if (error.code() != Exit::kStopped) throw;
  }
  signals.leave(" before the end; nothing was written");
}

}  // namespace

int data_inspect(const InspectRequest& request) {
  const Inspection inspection = inspect(request);
  const Advice advice = advise(inspection, request.gpu);
  if (request.json) {
    fmt::print(
        "{}\n",
        inspection_json(inspection, advice).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", inspection_text(inspection, advice, request.all));
  }
  if (!request.sheet.empty()) info("sheet   {}", request.sheet);
  if (!request.bad.empty()) info("bad     {}", request.bad);
  if (inspection.pictures == 0) {
    fail(Exit::kInput,
         "{}: none of the {} pictures can be read",
         inspection.path,
         inspection.bad.size());
  }
  const bool own_labels = request.labels != "auto";
  info("next    {}{}{}",
       train_command(inspection, advice),
       own_labels ? " --set data.labels=" + shell_quote(request.labels) : "",
       inspection.bad.empty() ? "" : " --set data.on_bad=skip");
  return 0;
}

}  // namespace gantrain
