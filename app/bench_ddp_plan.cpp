// SPDX-License-Identifier: Apache-2.0
#include "bench_ddp_plan.h"

#include <unistd.h>

#include "bench_common.h"
#include "bench_numbers.h"
#include "config/message.h"
#include "core/torch.h"
#include "ddp_profile.h"
#include "local_world.h"
#include "recipes.h"
#include "resolve.h"
#include "train/step_bench.h"
#include "util/cores.h"

namespace gantrain {

namespace {

constexpr int64_t kSeconds = 1800;  // for one measurement

// Runs `body` in each of so many local ranks of one thread.
std::vector<Json> in_ranks(int64_t ranks, const std::function<Json(const Rendezvous&)>& body) {
  std::vector<Json> answers;
  for (const std::string& text : run_local_world(ranks, kSeconds, [&](const Rendezvous& meeting) {
         setsid();  // as torchrun's workers have: a busy kernel shares its processors by session
         at::set_num_threads(1);
         return body(meeting).dump();
       })) {
    answers.push_back(Json::parse(text));
  }
  return answers;
}

// Prepares the process as a rank. Buckets of a network are what the model has.
Config config_of_rank(const Json& json) {
  Config config = config_from_json(json);
  config.set("dist.ddp_mode", "dynamic", "bench");
  config.set("dist.ddp_scope", "net", "bench");
  keep_memory(config);
  return config;
}

// What each of so many ranks computes when all of them compute at once and none sends anything.
// Ranks that share processors slow each other down, which is no matter of communication.
std::vector<Workload> profiles(const Json& config_json, int64_t ranks, int64_t steps) {
  std::vector<Workload> all;
  for (const Json& answer : in_ranks(ranks, [&](const Rendezvous&) {
         const Config config = config_of_rank(config_json);
         return message_of(profile_workload(config, {1, steps}));
       })) {
    all.push_back(message_from<Workload>(answer));
  }
  return all;
}

// Seconds of a mean iteration of ranks that train together.
double measured_step(const BenchWorld& world, int64_t steps) {
  double sum = 0;
  for (const Json& answer : in_ranks(world.ranks, [&](const Rendezvous& meeting) {
         const Config config = config_of_rank(world.config);
         const RecipeRow& recipe = find_recipe(text_of(config.get("recipe")));
         return to_json(time_steps({config, recipe, 1, steps, /*all_phases=*/true}, meeting));
       })) {
    sum += step_times_from(answer).mean_iteration();
  }
  return sum / static_cast<double>(world.ranks);
}

// What the model says of a world of local ranks, and what they take.
struct Checked {
  int64_t ranks = 1;
  Link link;
  double compute = 0;  // seconds of a rank beside the others
  bool hides = false;  // processors are free to send while ranks compute
  double predicted = 0;
  double measured = 0;
};

Checked check(const BenchNet& net, const BenchWorld& world, int64_t steps) {
  Checked c;
  c.ranks = world.ranks;
  const std::vector<Workload> ranks = profiles(net.worlds.front().config, world.ranks, steps);
  for (const Workload& rank : ranks)
    c.compute += rank.compute() / static_cast<double>(ranks.size());
  Workload work = ranks.front();
  scale_compute(work, c.compute / work.compute());
  if (world.ranks > 1) {
    const Json fitted = in_ranks(world.ranks, [](const Rendezvous& meeting) {
                          return message_of(fit_link(meeting));
                        }).front();
    c.link = message_from<Link>(fitted);
  }
  // gloo sends with a thread of its own: where ranks fill the processors, it takes its time from
  // computing, and nothing hides.
  c.hides = usable_cores() >= 2 * world.ranks;
  const Cluster here{c.link, c.link, world.ranks};
  c.predicted = simulate_step(work,
                              bucket_sizes(work, work.bucket_mb),
                              world.ranks,
                              here,
                              c.hides ? Overlap::kBackward : Overlap::kNone)
                    .seconds;
  c.measured = measured_step(world, steps);
  return c;
}

Json to_json(const Checked& c) {
  return {{"ranks", c.ranks},
          {"link", message_of(c.link)},
          {"compute", c.compute},
          {"hides", c.hides},
          {"predicted", c.predicted},
          {"measured", c.measured},
          {"ratio", c.predicted / c.measured}};
}

Json report_checks(const BenchNet& net, int64_t steps) {
  fmt::print("\nthe model beside local ranks of one thread on {} processors, load {:.1f}\n",
             usable_cores(),
             load_average());
  fmt::print("  {:>5} {:>12} {:>22} {:>9} {:>12} {:>12} {:>8}\n",
             "ranks",
             "computing",
             "link, by all-reduces",
             "overlap",
             "predicted",
             "measured",
             "ratio");
  Json rows = Json::array();
  for (const BenchWorld& world : net.worlds) {
    const Checked c = check(net, world, steps);
    const std::string link =
        world.ranks == 1
            ? "-"
            : fmt::format("{:.2f} GB/s, {:.0f} us", c.link.bandwidth / 1e9, c.link.latency * 1e6);
    fmt::print("  {:>5} {:>12} {:>22} {:>9} {:>12} {:>12} {:>8.2f}\n",
               c.ranks,
               time_text(c.compute),
               link,
               world.ranks == 1 ? "-"
               : c.hides        ? "yes"
                                : "no",
               time_text(c.predicted),
               time_text(c.measured),
               c.predicted / c.measured);
    std::fflush(stdout);
    rows.push_back(to_json(c));
  }
  return rows;
}

}  // namespace

int bench_ddp_plan(const BenchDdpPlanRequest& request) {
  Json result = {{"bench", "ddp"}, {"plan", report_cluster(request.plan)}, {"nets", Json::array()}};
  if (request.plan.given.empty())
    fmt::print(
        "computing: as one thread of this CPU does it; --compute-ms says what a GPU takes\n");
  for (const BenchNet& net : request.nets) {
    Workload work = profiles(net.worlds.front().config, 1, request.steps).front();
    work.name = net.name;
    work.about = net.about;
    Json& row = result["nets"].emplace_back(report_plan(work, request.plan));
    if (net.worlds.size() > 1) {
      row["check"] = report_checks(net, request.steps);
    } else {
      fmt::print("not compared with local ranks: --check does it\n");
    }
  }
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
