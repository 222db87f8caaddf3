// SPDX-License-Identifier: Apache-2.0
// How a run ends: done, stopped, or collapsed.
#include <csignal>

#include "core/cpu_memory.h"
#include "train/kimg_text.h"
#include "train/run_folder.h"
#include "train/trainer.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

// Waits until the files of the last save are on the disk.
void Trainer::finish_saving() {
  setup_.callbacks.phase("saving");
  writer_->wait();
}

Exit Trainer::finish() {
  on_rank_0([this] {
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    finish_saving();
    if (!std::filesystem::exists(state_path_now())) save();
    finish_saving();
  });
  if (options_.metrics.at_end && measured_at_ != counters_.images_seen) measure();
  on_rank_0([this] {
    finish_saving();
    reporter_->finish();
    write_status(folder_, fmt::format("done {} kimg", kimg_text(counters_.images_seen)));
    info("done    {} kimg in {}",
         kimg_text(counters_.images_seen),
         short_duration(counters_.seconds));
    if (const std::string memory = cpu_memory_text(); !memory.empty()) info("memory  {}", memory);
    info("next    {}", generate_command(folder_.string()));
    page_.write(folder_);
  });
  return leave(Exit::kDone);
}

Exit Trainer::stop() {
  const int signal = setup_.callbacks.stop_signal();
  on_rank_0([&] {
    finish_saving();
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    reporter_->finish();
    const std::string why = signal != 0 ? fmt::format("signal {}", signal) : stop_reason_;
    const std::string at = kimg_text(counters_.images_seen);
    write_status(folder_, fmt::format("stopped {} kimg ({}), resumable", at, why));
    info("stopped {} kimg ({}), saved {}", at, why, state_path_now().string());
    info("next    {}", resume_command(setup_.command, folder_.string()));
    page_.write(folder_);
  });
  return leave(signal == SIGINT ? Exit::kInterrupted : Exit::kStopped);
}

// The state of now was saved at the tick that found it.
void Trainer::end_collapsed() {
  const std::string why = metrics_->collapse();
  on_rank_0([&] {
    finish_saving();
    if (sampled_at_ != counters_.images_seen) sample("fakes" + name_now() + ".png");
    reporter_->finish();
    write_status(
        folder_,
        fmt::format("ended {} kimg ({}), state saved", kimg_text(counters_.images_seen), why));
  });
  fail(Exit::kDiverged,
       "{}, at {} kimg (--stop-on collapse); resume from an earlier state with a lower learning "
       "rate, or give another --seed",
       why,
       kimg_text(counters_.images_seen));
}

// Ends the run on all ranks together.
Exit Trainer::leave(Exit code) {
  setup_.callbacks.phase("end");
  group_->barrier();
  return code;
}

}  // namespace gantrain
