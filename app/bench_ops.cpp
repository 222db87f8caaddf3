// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench_common.h"
#include "bench_device.h"
#include "bench_numbers.h"
#include "bench_ops_cases.h"
#include "core/cpu_memory.h"
#include "core/torch.h"
#include "trainer_verbs.h"

namespace gantrain {

namespace {

struct Measured {
  OpCase op;
  std::vector<double> ours, composed;  // seconds
};

Json row_of(const Measured& one, const std::vector<double>& speeds) {
  std::vector<double> rates, shares;
  for (size_t i = 0; i < one.ours.size(); ++i) {
    rates.push_back(one.op.bytes / one.ours[i]);
    shares.push_back(rates.back() / speeds[i]);
  }
  return {{"name", one.op.name},
          {"seconds", spread_of(one.ours)},
          {"composed", spread_of(one.composed)},
          {"times_faster", ratio_of(quotients(one.composed, one.ours))},
          {"bytes", one.op.bytes},
          {"bytes_per_second", spread_of(rates)},
          {"of_copy_speed", spread_of(shares)}};
}

Json measure(const BenchOpsRequest& request) {
  const BenchDevice where(request.cuda);
  std::vector<Measured> all;
  for (const OpCase& op : op_cases(request, where.device())) all.push_back({op, {}, {}});
  std::vector<double> speeds;
  std::vector<std::function<void()>> turns = {[&] { speeds.push_back(where.copy_speed()); }};
  for (Measured& one : all) {
    turns.emplace_back([&] { one.ours.push_back(where.seconds(one.op.ours)); });
    turns.emplace_back([&] { one.composed.push_back(where.seconds(one.op.composed)); });
  }
  in_turns(request.rounds, turns);
  Json answer = {{"copy_speed", spread_of(speeds)}, {"ops", Json::array()}};
  if (request.cuda) answer["gpu"] = where.name();
  for (const Measured& one : all) answer["ops"].push_back(row_of(one, speeds));
  return answer;
}

void print_ops(const Json& answer) {
  const auto speed = answer.at("copy_speed").at("median").get<double>();
  fmt::print("  {:<38} {:>10} {:>19} {:>10} {:>9} {:>26} {:>8} {:>8}\n",
             "operator",
             "ms",
             "quartiles",
             "floor",
             "composed",
             "times faster",
             "GB/s",
             "of copy");
  for (const Json& op : answer.at("ops")) {
    const Json& seconds = op.at("seconds");
    fmt::print(
        "  {:<38} {:>10.3f} {:>8.3f} .. {:<7.3f} {:>10.3f} {:>9.3f} {:>26} {:>8.2f} {:>6.0f} %\n",
        op.at("name").get<std::string>(),
        1e3 * seconds.at("median").get<double>(),
        1e3 * seconds.at("quartiles")[0].get<double>(),
        1e3 * seconds.at("quartiles")[1].get<double>(),
        1e3 * op.at("bytes").get<double>() / speed,
        1e3 * op.at("composed").at("median").get<double>(),
        ratio_text(op.at("times_faster")),
        1e-9 * op.at("bytes_per_second").at("median").get<double>(),
        100 * op.at("of_copy_speed").at("median").get<double>());
  }
}

}  // namespace

int bench_ops(const BenchOpsRequest& request) {
  Json result = {{"bench", "ops"},
                 {"threads", request.threads},
                 {"dtype", request.dtype},
                 {"layout", request.layout},
                 {"load", {load_average()}}};
  result.update(in_child(request.threads, [&](const Rendezvous&) {
    if (!request.cuda) keep_cpu_memory();
    torch::manual_seed(0);
    return measure(request);
  }));
  result["load"].push_back(load_average());
  fmt::print(
      "tensors [{}, {}, {}, {}], {}, {}, {}, which copies {:.1f} GB/s (read and written), load "
      "{:.1f}\nfloor: the bytes that must be read and written once, at that speed\n",
      request.batch,
      request.channels,
      request.pixels,
      request.pixels,
      request.dtype,
      request.layout,
      request.cuda ? result.at("gpu").get<std::string>()
                   : fmt::format("{} threads of this machine", request.threads),
      1e-9 * result.at("copy_speed").at("median").get<double>(),
      load_average());
  print_ops(result);
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace gantrain
