// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/common.h"
#include "bench/requests.h"
#include "bench/worlds.h"
#include "core/cpu_memory.h"
#include "core/torch.h"
#include "ops/adam/adam.h"
#include "ops/bias_act/bias_act.h"
#include "ops/device_kernels.h"
#include "ops/draws/draws.h"
#include "ops/filtered_lrelu/filtered_lrelu.h"
#include "ops/kernels.h"
#include "ops/modulation/modulation.h"
#include "ops/norms/norms.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "util/hash.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// One operator that `bench ops` times.
struct OpCase {
  std::string name;
  std::function<void()> ours;
  std::function<void()> composed;  // the same of LibTorch's operators
  double bytes = 0;                // that must be read and written, each once
};

using Run = std::function<void()>;

// Tensors as the request has them.
class Makes {
 public:
  Makes(const BenchOpsRequest& request, at::Device device)
      : options_(at::TensorOptions().dtype(at::kFloat).device(device)),
        type_(type_of(request.dtype)),
        layout_(request.layout == "channels-last" ? at::MemoryFormat::ChannelsLast
                                                  : at::MemoryFormat::Contiguous) {}

  // A feature map whose gradient is asked for.
  Tensor maps(at::IntArrayRef sizes) const {
    return torch::randn(sizes, options_).to(type_).contiguous(layout_).requires_grad_();
  }
  // Weights are float32, whatever the feature maps are.
  Tensor weights(at::IntArrayRef sizes) const {
    return torch::randn(sizes, options_).requires_grad_();
  }
  const at::TensorOptions& options() const { return options_; }  // of float32 tensors

 private:
  static at::ScalarType type_of(const std::string& name) {
    return name == "float16" ? at::kHalf : name == "bfloat16" ? at::kBFloat16 : at::kFloat;
  }

  at::TensorOptions options_;
  at::ScalarType type_;
  at::MemoryFormat layout_;
};

double size_of(const Tensor& t) { return static_cast<double>(t.nbytes()); }

Run without_graph(std::function<Tensor()> forward) {
  return [forward = std::move(forward)] {
    const torch::NoGradGuard no_graph;
    forward();
  };
}

Run with_reference(Run run) {
  return [run = std::move(run)] {
    const WithKernels composed(KernelSet::kRef);
    run();
  };
}

// The arithmetic of an operator that is differentiable.
struct Differentiable {
  std::string name;
  std::vector<Tensor> inputs;  // whose gradients are asked for
  std::function<Tensor()> forward;
  double forward_bytes = 0;
  double backward_bytes = 0;
};

void add(std::vector<OpCase>& cases, const Differentiable& op) {
  const Run forward = without_graph(op.forward);
  const auto gradient = std::make_shared<Tensor>();
  const Run both = [op, gradient] {
    const Tensor y = op.forward();
    if (!gradient->defined()) *gradient = torch::randn_like(y);
    torch::autograd::grad({y}, op.inputs, {*gradient});
  };
  cases.push_back({op.name + " forward", forward, with_reference(forward), op.forward_bytes});
  cases.push_back({op.name + " forward + backward",
                   both,
                   with_reference(both),
                   op.forward_bytes + op.backward_bytes});
}

void add_activations(std::vector<OpCase>& cases, const BenchOpsRequest& r, const Makes& make) {
  const Tensor x = make.maps({r.batch, r.channels, r.pixels, r.pixels});
  const Tensor bias = make.weights({r.channels});
  const double bytes = size_of(x);
  const BiasAct lrelu{.act = Activation::kLrelu};
  // Backward: the gradient and the saved result are read, the new gradient is written.
  add(cases,
      {"bias_act", {x, bias}, [=] { return bias_act(x, bias, lrelu); }, 2 * bytes, 3 * bytes});
  ModulatedAct terms;
  terms.d = make.weights({r.batch, r.channels});
  terms.noise = torch::randn({1, 1, r.pixels, r.pixels}, make.options());
  terms.strength = make.weights({});
  terms.bias = bias;
  // Backward: the gradient, the convolution's result and the saved result are read.
  add(cases,
      {"modulated epilogue",
       {x, terms.d, terms.strength, bias},
       [=] { return modulated_act(x, terms, lrelu); },
       2 * bytes,
       4 * bytes});
  // The result is a copy with one channel more; backward reads gradient and input.
  add(cases, {"minibatch std", {x}, [=] { return minibatch_std(x, 4); }, 2 * bytes, 3 * bytes});
}

void add_resampling(std::vector<OpCase>& cases, const BenchOpsRequest& r, const Makes& make) {
  const Tensor x = make.maps({r.batch, r.channels, r.pixels, r.pixels});
  const Tensor half = make.maps({r.batch, r.channels, r.pixels / 2, r.pixels / 2});
  const Tensor f = setup_filter(std::vector<double>{1, 3, 3, 1}).to(make.options().device());
  const double large = size_of(x), small = size_of(half);
  const auto add_one = [&](const char* name, const Tensor& in, auto forward, double bytes) {
    add(cases, {name, {in}, [=] { return forward(in); }, bytes, bytes});
  };
  add_one(
      "upfirdn2d", x, [f](const Tensor& t) { return filter2d(t, f); }, 2 * large);
  add_one(
      "upfirdn2d up 2", half, [f](const Tensor& t) { return upsample2d(t, f); }, large + small);
  add_one(
      "upfirdn2d down 2", x, [f](const Tensor& t) { return downsample2d(t, f); }, large + small);
}

// A layer of StyleGAN3 at twice the rate of its maps, which keep their size.
void add_filtered_lrelu(std::vector<OpCase>& cases, const BenchOpsRequest& r, const Makes& make) {
  constexpr int64_t kTaps = 12, kFactor = 2;
  const Tensor x = make.maps({r.batch, r.channels, r.pixels, r.pixels});
  const Tensor bias = make.weights({r.channels});
  const Tensor f = torch::full({kTaps}, 1.0 / kTaps, make.options());
  FilteredLrelu how{f, f, kFactor, kFactor, {kTaps - 1, kTaps - 2, kTaps - 1, kTaps - 2}};
  how.clamp = 256;
  // 2 bits for each sample of the higher rate are written for the backward pass and read there.
  const double side = static_cast<double>((r.pixels - 1) * kFactor + kTaps);
  const double bits = static_cast<double>(r.batch * r.channels) * side * side / 4;
  add(cases,
      {"filtered leaky ReLU",
       {x, bias},
       [=] { return filtered_lrelu(x, bias.to(x.scalar_type()), how); },
       2 * size_of(x),
       2 * size_of(x) + 2 * bits});
}

// Tensors of a network's sizes with as many numbers as the activations.
struct Weights {
  std::vector<Tensor> values, gradients, first, second, steps, average;
};

void add_updates(std::vector<OpCase>& cases, const BenchOpsRequest& r, const Makes& made) {
  constexpr int64_t kTensors = 16;
  const auto w = std::make_shared<Weights>();
  double bytes = 0;
  for (int64_t i = 0; i < kTensors; ++i) {
    const auto make = [&] {
      return torch::rand({r.batch, r.channels, r.pixels * r.pixels / kTensors}, made.options());
    };
    for (auto* list : {&w->values, &w->gradients, &w->first, &w->second, &w->average})
      list->push_back(make());
    w->steps.push_back(torch::zeros({}, made.options()));
    bytes += size_of(w->values.back());
  }
  const AdamSettings settings{1e-4, 0.5, 0.99, 1e-8};
  const DeviceNumber weight = 1e-3;
  const Run adam = without_graph([w, settings] {
    adam_step_(w->values, w->gradients, w->first, w->second, w->steps, settings);
    return Tensor();
  });
  const Run average = without_graph([w, weight] {
    lerp_(w->average, w->values, weight);
    return Tensor();
  });
  const Run fused = without_graph([w, settings] {
    at::_foreach_add_(w->steps, 1);
    at::_fused_adam_(w->values,
                     w->gradients,
                     w->first,
                     w->second,
                     /*max_exp_avg_sqs=*/{},
                     w->steps,
                     settings.lr,
                     settings.beta1,
                     settings.beta2,
                     /*weight_decay=*/0,
                     settings.eps,
                     /*amsgrad=*/false,
                     /*maximize=*/false,
                     /*grad_scale=*/{},
                     /*found_inf=*/{});
    return Tensor();
  });
  const Run each = without_graph([w] {
    for (size_t i = 0; i < w->values.size(); ++i) w->average[i].lerp_(w->values[i], 1e-3);
    return Tensor();
  });
  cases.push_back({"Adam", adam, fused, 7 * bytes});
  cases.push_back({"average of weights", average, each, 3 * bytes});
}

void add_draws(std::vector<OpCase>& cases, const BenchOpsRequest& r, at::Device device) {
  const DrawKey key = make_draw_key(/*seed=*/1, /*iteration=*/2, /*phase=*/0, device);
  const int64_t each = r.channels * r.pixels * r.pixels;
  const Samples samples{0, 1, r.batch};
  const auto composed = [=](Distribution distribution) {
    return without_graph([=] {
      return composed_draw({key.numbers, key.phase, hash64("bench"), samples, each, distribution});
    });
  };
  const double bytes = 4.0 * static_cast<double>(r.batch * each);
  cases.push_back({"normal draws",
                   without_graph([=] { return normal(key, "bench", samples, {each}); }),
                   composed(Distribution::kNormal),
                   bytes});
  cases.push_back({"uniform draws",
                   without_graph([=] { return uniform(key, "bench", samples, {each}); }),
                   composed(Distribution::kUniform),
                   bytes});
}

// All of them, on tensors as the request has them, which lie on `device`.
std::vector<OpCase> op_cases(const BenchOpsRequest& request, c10::Device device) {
  const Makes make(request, device);
  std::vector<OpCase> cases;
  add_activations(cases, request, make);
  add_resampling(cases, request, make);
  add_filtered_lrelu(cases, request, make);
  add_updates(cases, request, make);
  add_draws(cases, request, device);
  return cases;
}

struct MeasuredOp {
  OpCase op;
  std::vector<double> ours, composed;  // seconds
};

Json row_of(const MeasuredOp& one, const std::vector<double>& speeds) {
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

Json measure_ops(const BenchOpsRequest& request) {
  const BenchDevice where(request.cuda);
  std::vector<MeasuredOp> all;
  for (const OpCase& op : op_cases(request, where.device())) all.push_back({op, {}, {}});
  std::vector<double> speeds;
  std::vector<std::function<void()>> turns = {[&] { speeds.push_back(where.copy_speed()); }};
  for (MeasuredOp& one : all) {
    turns.emplace_back([&] { one.ours.push_back(where.seconds(one.op.ours)); });
    turns.emplace_back([&] { one.composed.push_back(where.seconds(one.op.composed)); });
  }
  in_turns(request.rounds, turns);
  Json answer = {{"copy_speed", spread_of(speeds)}, {"ops", Json::array()}};
  if (request.cuda) answer["gpu"] = where.name();
  for (const MeasuredOp& one : all) answer["ops"].push_back(row_of(one, speeds));
  return answer;
}

void print_ops(const Json& answer) {
  const auto speed = median_of(answer.at("copy_speed"));
  fmt::print(
      "  operator                                       ms           quartiles      floor  "
      "composed               times faster     GB/s  of copy\n");
  for (const Json& op : answer.at("ops")) {
    const Json& seconds = op.at("seconds");
    fmt::print("  {:<38} {:>10.3f} {} {:>10.3f} {:>9.3f} {:>26} {:>8.2f} {:>6.0f} %\n",
               op.at("name").get<std::string>(),
               1e3 * median_of(seconds),
               quartiles_of(seconds, 1e3),
               1e3 * op.at("bytes").get<double>() / speed,
               1e3 * median_of(op.at("composed")),
               ratio_text(op.at("times_faster")),
               1e-9 * median_of(op.at("bytes_per_second")),
               100 * median_of(op.at("of_copy_speed")));
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
    return measure_ops(request);
  }));
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
                   : counted(request.threads, "thread") + " of this machine",
      1e-9 * median_of(result.at("copy_speed")),
      load_average());
  print_ops(result);
  return finish_bench(result, {request.json});
}

}  // namespace gantrain
