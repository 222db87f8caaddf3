// SPDX-License-Identifier: Apache-2.0
// The trainer library's two functions. Nothing in it may call LibTorch while it is being loaded:
// the fork server forks after that.
#include <torch/torch.h>

#include <filesystem>

#include "launch/devices.h"
#include "launch/rank.h"
#include "quiet.h"
#include "recipes.h"
#include "resolve.h"
#include "train/callbacks.h"
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
    const int64_t rank = context.rank - context.board_index + i;
    pids[std::to_string(rank)] = context.board->slot(i).pid();
  }
  make_writable_folder(std::filesystem::path(folder) / "errors");
  write_file(std::filesystem::path(folder) / "errors" / "pids.json", pids.dump(2) + "\n");
}

TrainCallbacks make_host(const RankContext& context, double started) {
  TrainCallbacks host;
  host.started = started;
  // The launcher sends SIGTERM for every reason; the board has the signal that it got itself.
  host.stop_signal = [&context] {
    const int received = context.stop == nullptr ? 0 : context.stop->load();
    const int asked = context.board->stop_request();
    return received != 0 && asked != 0 ? asked : received;
  };
  host.phase = [&context](const std::string& phase) {
    context.slot().set_phase(phase);
    if (context.slot().heartbeat_ns() != 0) context.slot().beat();  // the hang watch is on
  };
  host.progress = [&context](int64_t images, int64_t iteration) {
    context.slot().beat(iteration, images);
  };
  host.run_folder = [&context](const std::string& folder) {
    if (context.board_index == 0) context.board->set_run_folder(folder);
    if (context.rank == 0) write_pids(context, folder);
  };
  return host;
}

int run(const RankContext& context, const Json& message) {
  quieten_libtorch();
  Config config = config_from_json(message.at("config"));
  if (context.attempt > 0 && !context.board->run_folder().empty()) {
    config.set("run.run_dir", context.board->run_folder(), "restart after a failure");
    config.set("run.resume", "auto", "restart after a failure");
  }
  const bool cuda = message.at("device") == "cuda";
  at::Device device(at::kCPU);
  if (cuda) {
    const int64_t index = choose_device(
        message.at("gpus").get<int64_t>(), context.local_rank, context.local_world_size);
    device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
    c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  }
  at::set_num_threads(static_cast<int>(context.threads));
  TrainSetup setup{config,
                   {},
                   static_cast<BackendKind>(message.at("backend").get<int>()),
                   device,
                   {},
                   "",
                   "",
                   message.at("chosen").get<std::vector<std::string>>(),
                   {}};
  setup.rendezvous = {context.rank,
                      context.world_size,
                      context.master_addr,
                      context.master_port,
                      context.listen_fd,
                      context.store_is_served,
                      context.nnodes == 1};
  setup.recipe = find_recipe(text_of(config.get("recipe")));
  setup.command = message.at("command");
  setup.defaults = message.at("defaults");
  setup.host = make_host(context, message.at("started").get<double>());
  setup.dataset = prepared_dataset();
  return static_cast<int>(train(setup));
}

}  // namespace

}  // namespace gantrain

// In the fork server (or in a worker's own process), before the ranks exist: no LibTorch call here.
extern "C" void gantrain_prepare(const char* config_json) {
  using namespace gantrain;
  const Config config = config_from_json(Json::parse(config_json).at("config"));
  prepared_dataset() = open_dataset(config.read<DataOptions>("data."));
}

extern "C" int gantrain_rank_main(const gantrain::RankContext& context, const char* config_json) {
  using namespace gantrain;
  const Json message = Json::parse(config_json);
  set_log({static_cast<Level>(message.at("level").get<int>()), Level::kInfo, {}, ""});
  try {
    return run(context, message);
  } catch (const std::exception&) {
    rethrow_readably(context);
  }
}

extern "C" int gantrain_verb_main(const char* verb, const char* json) {
  using namespace gantrain;
  const std::string name = verb;
  try {
    if (name == "generate") return generate(Json::parse(json));
    if (name == "import") return import_model(Json::parse(json));
    if (name == "interpolate") return interpolate(Json::parse(json));
    if (name == "describe") return describe(Json::parse(json));
    if (name == "doctor") return doctor(Json::parse(json));
    if (name == "bench ddp") return bench_ddp(Json::parse(json));
  } catch (const c10::Error& e) {
    throw std::runtime_error(text_of_error(e));
  }
  throw std::logic_error("no such verb in the trainer library: " + name);
}
