// SPDX-License-Identifier: Apache-2.0
// The trainer library's two functions. Nothing in it may call LibTorch while it is being loaded:
// the fork server forks after that.

#include "train/run/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/requests.h"
#include "bench/worlds.h"
#include "config/recipes.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "core/cpu_memory.h"
#include "core/parallel.h"
#include "core/torch.h"
#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "gan/options.h"
#include "inspect/inspect.h"
#include "launch/death/error_files.h"
#include "launch/local/elastic.h"
#include "launch/local/rank.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/requests.h"
#include "ops/device_kernels.h"
#include "report/console.h"
#include "train/memory/device_memory.h"
#include "train/memory/memory_shortage.h"
#include "train/run/slow_ranks.h"
#include "train/run/training_data.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Refuses data without the labels that --cond asks for, as a run of it would be.
void check_labels(const Config& config) {
  const auto data = config.read<DataOptions>();
  if (data.cond != Cond::kOn || starts_with(data.path, "synth:")) return;
  if (find_pictures(*open_source(data), data).labels.none())
    trained_classes({}, data, find_recipe_facts(text_of(config.get("recipe"))), config);
}

constexpr double kMemoryWait = 10;  // seconds, for what dead ranks had on a GPU

// Opened once, before the ranks are forked, which then share its memory.
std::shared_ptr<const Dataset>& prepared_dataset() {
  static std::shared_ptr<const Dataset> dataset;
  return dataset;
}

// The line of a c10 error that names the cause.
std::string text_of_error(const c10::Error& e) { return cause_line(e.what_without_backtrace()); }

// The whole text of an exception, without a backtrace.
std::string whole_text(const std::exception& e) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : e.what();
}

// Throws kOutOfMemory with sizes and ways out if the exception tells of a lack of memory. An error
// of a collective may tell of one too.
void throw_if_short_of_memory(const std::exception& e, const MemoryUser& user) {
  const auto* known = dynamic_cast<const UserError*>(&e);
  if (known != nullptr && known->code() != Exit::kEnvironment) return;
  if (const auto shortage = shortage_in(whole_text(e)))
    throw UserError(Exit::kOutOfMemory, shortage_text(*shortage, user, host_memory()));
}

[[noreturn]] void rethrow_readably(const RankContext& context, MemoryUser user) {
  user.phase = context.slot().phase();
  try {
    throw;
  } catch (const c10::Error& e) {
    throw_if_short_of_memory(e, user);
    throw std::runtime_error(
        fmt::format("phase \"{}\": {}", context.slot().phase(), text_of_error(e)));
  } catch (const std::exception& e) {
    throw_if_short_of_memory(e, user);
    throw;
  }
}

// How long a failed rank stays to wake its peers. The launcher waits for it.
constexpr double kAbortSeconds = 0.5;

// The reason is reported before anything is done that wakes the peers, whose failures follow from
// this one.
[[noreturn]] void end_after_failure(const RankContext& context, const MemoryUser& user) {
  try {
    rethrow_readably(context, user);
  } catch (const std::exception&) {
    report_exception(context);
    abort_abandoned_groups(kAbortSeconds);
    throw;
  }
}

// The processes of this rank's launcher.
RankPids pids_here(const RankContext& context) {
  RankPids pids{.host = host_name(),
                .launcher = ::getppid(),
                .pids = {},
                .first_rank = context.rank() - context.board_index};
  for (int64_t i = 0; i < context.board->ranks(); ++i)
    if (const int64_t pid = context.board->slot(i).pid; pid != 0)
      pids.pids[pids.first_rank + i] = pid;
  return pids;
}

// Where the run is elastic, ranks meet as the launcher says; else null.
struct Elastic {
  ElasticRank rank;
  ElasticHooks hooks;

  static std::unique_ptr<Elastic> of(const RankContext& context, const LaunchOptions& options) {
    if (!context.board->roster.is_used()) return nullptr;
    auto made = std::make_unique<Elastic>(Elastic{ElasticRank(context), {}});
    ElasticRank& rank = made->rank;
    made->hooks = {
        .meet =
            [&context, &rank](int64_t border) {
              context.slot().set_phase("rendezvous");
              return rank.meet(border);
            },
        .generation = [&rank] { return rank.generation(); },
        .lost = [&rank] { return rank.is_lost(); },
        .wanted = [&rank] { return rank.is_wanted(); },
        .planned = [plan = parse_rank_plan(options.rank_plan, context.ranks().world)](
                       int64_t iteration) { return planned_ranks(plan, iteration); },
        .run_folder = [&context] { return context.board->run_folder(); },
        .stop_signal = [&context] { return context.stop == nullptr ? 0 : context.stop->load(); }};
    return made;
  }
};

// What the trainer reports goes to the rank's slot and the rank status board, which the launcher
// reads.
TrainCallbacks callbacks_of(const RankContext& context,
                            double started,
                            MemoryUser& user,
                            StartLine& start_line,
                            const Elastic* elastic) {
  TrainCallbacks callbacks;
  callbacks.micro_batch = [&user](int64_t images) { user.micro_batch = images; };
  callbacks.started = started;
  // The launcher sends SIGTERM for every reason; the rank status board has the signal that the
  // launcher itself got.
  callbacks.stop_signal = [&context] {
    const int received = context.stop == nullptr ? 0 : context.stop->load();
    const int asked = context.board->stop_request;
    return received != 0 && asked != 0 ? asked : received;
  };
  callbacks.phase = [&context, &start_line](const std::string& phase) {
    context.slot().set_phase(phase);
    start_line.show(phase);
    if (context.slot().heartbeat_ns() != 0) context.slot().beat();  // the hang watch is on
  };
  callbacks.progress = [&context, &start_line](int64_t images, int64_t iteration) {
    context.slot().beat(iteration, images);
    start_line.end();
  };
  callbacks.trace = &context.slot().trace;
  // A rank that was told to end because another one failed ends behind its save.
  callbacks.saves = [&context](bool now) {
    context.slot().saves = now;
    if (!now && context.board->aborting) _exit(code_of(Exit::kRankDied));
  };
  callbacks.run_folder = [&context, elastic](const std::string& folder) {
    const bool begins = elastic == nullptr || elastic->rank.generation() == 1;
    const int64_t rank = elastic == nullptr ? context.rank() : elastic->rank.rank();
    if (rank == 0 && begins) set_errors_aside(folder);
    const bool of_nodes = elastic != nullptr && context.ranks().nodes > 1;
    // Another node's rank may be rank 0 later.
    if (of_nodes && context.board->run_folder().empty()) context.board->set_run_folder(folder);
    const bool first_here = context.board_index == 0 && (elastic == nullptr || of_nodes);
    if (!first_here && (elastic == nullptr || rank != 0)) return;
    context.board->set_run_folder(folder);
    write_pids(folder, pids_here(context));
  };
  return callbacks;
}

// Notes in `user` what needs memory.
int run(const RankContext& context, const TrainRequest& request, MemoryUser& user) {
  quieten_libtorch();
  Config config = config_from_json(request.config);
  if (const std::string folder = context.board->run_folder();
      context.attempt > 0 && !folder.empty()) {
    config.set("run.run_dir", folder, "restart after a failure");
    // Before the first save, what the command asks for holds: the run may resume another one.
    if (!find_states(folder).empty()) config.set("run.resume", "auto", "restart after a failure");
  }
  const at::Device device = request.device == DeviceKind::kCuda
                                ? begin_on_gpu(choose_device(request.gpus, context.ranks()))
                                : at::Device(at::kCPU);
  user.device = device.str();
  if (const auto memory = memory_of(device); memory && context.attempt > 0)
    await_freed_memory(*memory, kMemoryWait, [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
  user.amp = config.read<PrecisionOptions>().amp != Amp::kOff;
  user.graphs = config.read<TrainOptions>().graphs != Graphs::kOff;
  use_threads(context.threads);
  if (device.is_cpu()) keep_cpu_memory(config.read<LaunchOptions>().keep_mb);
  if (const auto dist = config.read<DistOptions>(); dist.preflight == Preflight::kOnly) {
    context.slot().set_phase("preflight");
    const auto group =
        Group::join(context.rendezvous, request.backend, device, dist.timeout.seconds);
    preflight(dist, *group, device);
    return code_of(Exit::kDone);
  }
  StartLine start_line(request.started, request.level >= Level::kInfo && context.rank() == 0);
  const auto elastic = Elastic::of(context, config.read<LaunchOptions>());
  TrainCallbacks callbacks =
      callbacks_of(context, request.started, user, start_line, elastic.get());
  const AllocationStop stop =
      allocation_stop(config.read<LaunchOptions>(), current_environment(), unix_seconds());
  callbacks.stop_at = stop.after ? monotonic_seconds() + *stop.after : 0;
  return static_cast<int>(train({.config = config,
                                 .rendezvous = context.rendezvous,
                                 .backend = request.backend,
                                 .device = device,
                                 .recipe = find_recipe(text_of(config.get("recipe"))),
                                 .command = request.command,
                                 .defaults = request.defaults,
                                 .chosen = request.chosen,
                                 .callbacks = std::move(callbacks),
                                 .dataset = prepared_dataset(),
                                 .elastic = elastic ? &elastic->hooks : nullptr}));
}

// A verb that computes.
struct ComputingVerb {
  std::string_view name;
  std::function<int(const std::any& request)> run;
  // It keeps the CPU's memory as its configuration says, or measures what keeping it is worth.
  bool keeps_memory_itself = false;
};
constexpr bool kItself = true;

template <class Request>
auto run_by(int (*verb)(Request)) {
  return [verb](const std::any& request) {
    return verb(std::any_cast<const std::remove_cvref_t<Request>&>(request));
  };
}

template <class Request>
auto run_by(int (*verb)(const Request&, FindRecipe)) {
  return [verb](const std::any& request) {
    return verb(std::any_cast<const Request&>(request), find_recipe);
  };
}

int describe_by_recipe(const DescribeRequest& request) { return describe(request, recipe_rows()); }

const std::vector<ComputingVerb>& computing_verbs() {
  static const std::vector<ComputingVerb> table = {
      {"generate", run_by(generate)},
      {"export", run_by(export_model)},
      {"inspect", run_by(inspect_file)},
      {"import", run_by(import_model)},
      {"interpolate", run_by(interpolate)},
      {"metrics", run_by(metrics)},
      {"features", run_by(check_features)},
      {"average", run_by(average)},
      {"nn", run_by(nearest)},
      {"project", run_by(project)},
      {"edit", run_by(edit)},
      {"describe", run_by(describe_by_recipe), kItself},
      {"data inspect", run_by(data_inspect)},
      {"data pack", run_by(data_pack)},
      {"doctor", run_by(doctor)},
      {"bench ddp", run_by(bench_ddp), kItself},
      {"bench ddp plan", run_by(bench_ddp_plan), kItself},
      {"bench step", run_by(bench_step), kItself},
      {"bench ops", run_by(bench_ops), kItself},
      {"bench data", run_by(bench_data)},
      {"bench save", run_by(bench_save)},
      {"bench modes", run_by(bench_modes)},
      {"time uses", run_by(time_uses), kItself}};
  return table;
}

}  // namespace

}  // namespace gantrain

// In the fork server (or in a worker's own process), before the ranks exist: no LibTorch call here.
extern "C" void gantrain_prepare(const char* request_json) {
  using namespace gantrain;
  const auto request = message_from<TrainRequest>(Json::parse(request_json));
  const Config config = config_from_json(request.config);
  StartLine start_line(request.started, request.level >= Level::kInfo);
  start_line.show("opening data");
  prepared_dataset() = open_dataset(data_to_open(config), {}, request.sharers);
}

extern "C" int gantrain_rank_main(const gantrain::RankContext& context, const char* request_json) {
  using namespace gantrain;
  const auto request = message_from<TrainRequest>(Json::parse(request_json));
  set_log({request.level, Level::kInfo, {}, ""});
  MemoryUser user;
  user.ranks_here = context.ranks().local_world;
  try {
    return run(context, request, user);
  } catch (const std::exception&) {
    end_after_failure(context, user);
  }
}

// In a process of its own, which ends afterwards. Returns the answer as JSON text, whose memory is
// not given back.
extern "C" const char* gantrain_look(const char* request_json) {
  using namespace gantrain;
  set_log({Level::kError, Level::kError, {}, ""});
  DataLook look;
  try {
    const auto request = message_from<LookRequest>(Json::parse(request_json));
    const Config config = config_from_json(request.config);
    look.sizes = look_at_sizes(config.read<DataOptions>());
    if (request.labels) check_labels(config);
  } catch (const UserError& e) {
    look.code = static_cast<int64_t>(e.code());
    look.error = e.what();
  }
  return ::strdup(message_of(look).dump().c_str());
}

extern "C" int gantrain_run_verb(const char* verb, const std::any& request) {
  using namespace gantrain;
  const auto& table = computing_verbs();
  const auto found = std::ranges::find(table, std::string_view(verb), &ComputingVerb::name);
  if (found == table.end())
    throw std::logic_error(fmt::format("no such verb in the trainer library: {}", verb));
  try {
    if (!found->keeps_memory_itself) keep_cpu_memory();
    return found->run(request);
  } catch (const c10::Error& e) {
    throw_if_short_of_memory(e, {.phase = verb});
    throw std::runtime_error(text_of_error(e));
  } catch (const std::exception& e) {
    throw_if_short_of_memory(e, {.phase = verb});
    throw;
  }
}
