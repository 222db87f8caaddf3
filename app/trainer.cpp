// SPDX-License-Identifier: Apache-2.0
// The trainer library's two functions. Nothing in it may call LibTorch while it is being loaded:
// the fork server forks after that.
#include <torch/torch.h>

#include <filesystem>

#include "config/message.h"
#include "core/cpu_memory.h"
#include "launch/devices.h"
#include "launch/rank.h"
#include "quiet.h"
#include "recipes.h"
#include "resolve.h"
#include "train/callbacks.h"
#include "train/run_folder.h"
#include "train_request.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Opened once, before the ranks are forked, which then share its memory.
std::shared_ptr<const Dataset>& prepared_dataset() {
  static std::shared_ptr<const Dataset> dataset;
  return dataset;
}

// "NAME: reason" of a c10 error, without its backtrace.
std::string text_of_error(const c10::Error& e) {
  return split(e.what_without_backtrace(), '\n')[0];
}

[[noreturn]] void rethrow_readably(const RankContext& context) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    throw UserError(Exit::kOutOfMemory, text_of_error(e));
  } catch (const c10::Error& e) {
    const std::string text = text_of_error(e);
    // The CPU allocator throws a plain error.
    if (text.find("DefaultCPUAllocator") != std::string::npos)
      throw UserError(Exit::kOutOfMemory, text);
    throw std::runtime_error(fmt::format("phase \"{}\": {}", context.slot().phase(), text));
  }
}

// errors/pids.json: which process is which rank, while it runs.
void write_pids(const RankContext& context, const std::string& folder) {
  Json pids = Json::object();
  for (int64_t i = 0; i < context.board->ranks(); ++i) {
    const int64_t rank = context.rank() - context.board_index + i;
    pids[std::to_string(rank)] = context.board->slot(i).pid();
  }
  make_writable_folder(std::filesystem::path(folder) / "errors");
  write_file(std::filesystem::path(folder) / "errors" / "pids.json", pids.dump(2) + "\n");
}

// What the trainer reports goes to the rank's slot and the rank status board, which the launcher
// reads.
TrainCallbacks callbacks_of(const RankContext& context, double started) {
  TrainCallbacks callbacks;
  callbacks.started = started;
  // The launcher sends SIGTERM for every reason; the rank status board has the signal that the
  // launcher itself got.
  callbacks.stop_signal = [&context] {
    const int received = context.stop == nullptr ? 0 : context.stop->load();
    const int asked = context.board->stop_request();
    return received != 0 && asked != 0 ? asked : received;
  };
  callbacks.phase = [&context](const std::string& phase) {
    context.slot().set_phase(phase);
    if (context.slot().heartbeat_ns() != 0) context.slot().beat();  // the hang watch is on
  };
  callbacks.progress = [&context](int64_t images, int64_t iteration) {
    context.slot().beat(iteration, images);
  };
  callbacks.run_folder = [&context](const std::string& folder) {
    if (context.board_index == 0) context.board->set_run_folder(folder);
    if (context.rank() == 0) write_pids(context, folder);
  };
  return callbacks;
}

// The device of this rank. A GPU becomes LibTorch's current device.
at::Device take_device(const RankContext& context, const TrainRequest& request) {
  if (request.device != DeviceKind::kCuda) return at::kCPU;
  const int64_t index = choose_device(request.gpus, context.ranks());
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

int run(const RankContext& context, const TrainRequest& request) {
  quieten_libtorch();
  Config config = config_from_json(request.config);
  if (const std::string folder = context.board->run_folder();
      context.attempt > 0 && !folder.empty()) {
    config.set("run.run_dir", folder, "restart after a failure");
    // Before the first save, what the command asks for holds: the run may resume another one.
    if (!find_states(folder).empty()) config.set("run.resume", "auto", "restart after a failure");
  }
  const at::Device device = take_device(context, request);
  at::set_num_threads(static_cast<int>(context.threads));
  if (device.is_cpu()) keep_cpu_memory(config.read<LaunchOptions>("launch.").keep_mb);
  return static_cast<int>(train({.config = config,
                                 .rendezvous = context.rendezvous,
                                 .backend = request.backend,
                                 .device = device,
                                 .recipe = find_recipe(text_of(config.get("recipe"))),
                                 .command = request.command,
                                 .defaults = request.defaults,
                                 .chosen = request.chosen,
                                 .callbacks = callbacks_of(context, request.started),
                                 .dataset = prepared_dataset()}));
}

}  // namespace

}  // namespace gantrain

// In the fork server (or in a worker's own process), before the ranks exist: no LibTorch call here.
extern "C" void gantrain_prepare(const char* request_json) {
  using namespace gantrain;
  const auto request = message_from<TrainRequest>(Json::parse(request_json));
  const Config config = config_from_json(request.config);
  prepared_dataset() = open_dataset(config.read<DataOptions>("data."), {}, request.sharers);
}

extern "C" int gantrain_rank_main(const gantrain::RankContext& context, const char* request_json) {
  using namespace gantrain;
  const auto request = message_from<TrainRequest>(Json::parse(request_json));
  set_log({request.level, Level::kInfo, {}, ""});
  try {
    return run(context, request);
  } catch (const std::exception&) {
    rethrow_readably(context);
  }
}

extern "C" int gantrain_verb_main(const char* verb, const char* json) {
  using namespace gantrain;
  const std::string name = verb;
  try {
    const Json request = Json::parse(json);
    if (name == "generate") return generate(message_from<GenerateRequest>(request));
    if (name == "import") return import_model(message_from<ImportRequest>(request));
    if (name == "interpolate") return interpolate(message_from<InterpolateRequest>(request));
    if (name == "describe") return describe(message_from<DescribeRequest>(request));
    if (name == "doctor") return doctor(message_from<DoctorRequest>(request));
    if (name == "bench ddp") return bench_ddp(message_from<BenchDdpRequest>(request));
    if (name == "bench step") return bench_step(message_from<BenchStepRequest>(request));
    if (name == "bench ops") return bench_ops(message_from<BenchOpsRequest>(request));
    if (name == "bench data") return bench_data(message_from<BenchDataRequest>(request));
    if (name == "bench save") return bench_save(message_from<BenchSaveRequest>(request));
  } catch (const c10::Error& e) {
    throw std::runtime_error(text_of_error(e));
  }
  throw std::logic_error("no such verb in the trainer library: " + name);
}
