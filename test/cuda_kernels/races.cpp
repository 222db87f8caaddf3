// SPDX-License-Identifier: Apache-2.0
// All kernels of the CUDA library on small maps under the compiler's thread sanitizer, for which
// each lane of a block is a thread, and a barrier is between two steps of a block and nowhere else.
// Without LibTorch.
//   races            prints the bodies that ran; what the sanitizer reports ends it with 66
//   races barrier    a kernel that lacks a barrier
//   races blocks     a kernel whose blocks write to the same place
// The numbers do not matter: what a body touches hangs on shapes alone.
#include <sanitizer/tsan_interface.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "neighbours.h"
#include "ops/affine_warp/affine_warp_gpu.h"
#include "ops/bias_act/bias_act_gpu.h"
#include "ops/drawn_matrices/drawn_matrices_gpu.h"
#include "ops/draws/draws_gpu.h"
#include "ops/filtered_lrelu/filtered_lrelu_gpu.h"
#include "ops/gpu/planes_walk.h"
#include "ops/modulation/modulation_gpu.h"
#include "ops/norms/norms_gpu.h"
#include "ops/upfirdn2d/upfirdn2d_gpu.h"

using namespace gantrain;
using namespace gantrain::cuda_kernels;

namespace {

// Lanes run one after the other in this thread, each on a stack of its own, and the sanitizer takes
// each for one of its fibers, between which nothing is in order but what is said here: so what it
// finds does not hang on a moment, and hundreds of lanes cost no thread. Blocks have fibers in
// turns. These functions must not be seen by the sanitizer: what they read is no part of a kernel.
class Lanes final : public HostWatch {
 public:
  Lanes() { only = this; }

  __attribute__((no_sanitize("thread"))) void run(Step step,
                                                  void* block,
                                                  int number,
                                                  const Place& place) override {
    Lane& lane = lanes_[static_cast<size_t>(place.block) % kRows]
                       [static_cast<size_t>(place.thread) % kMostThreads];
    if (lane.fiber == nullptr) begin(lane);
    const size_t which = static_cast<size_t>(place.block) % kMostBlocks;
    const size_t barrier = which * kMostSteps + static_cast<size_t>(number);
    now_ = {step, block, number, place, &barriers_[barrier], &lane};
    __tsan_release(&begun_);
    __tsan_switch_to_fiber(lane.fiber, __tsan_switch_to_fiber_no_sync);
    swapcontext(&main_, &lane.context);
  }
  __attribute__((no_sanitize("thread"))) void end() override { __tsan_acquire(&ended_); }

 private:
  static constexpr size_t kRows = 2, kMostThreads = 256, kMostSteps = 64, kMostBlocks = 4096,
                          kStack = 128 << 10;
  struct Lane {
    void* fiber = nullptr;
    ucontext_t context{};
    std::vector<char> stack;
  };
  struct Now {
    Step step;
    void* block;
    int number;
    Place place;
    char* arrives;  // where its step ends
    Lane* lane;
  };

  static void begin(Lane& lane) {
    lane.fiber = __tsan_create_fiber(0);
    lane.stack.resize(kStack);
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.data();
    lane.context.uc_stack.ss_size = kStack;
    makecontext(&lane.context, &Lanes::live, 0);
  }
  __attribute__((no_sanitize("thread"))) static void live() {
    for (;;) {
      const Now now = only->now_;
      __tsan_acquire(&only->begun_);
      if (now.number > 0) __tsan_acquire(now.arrives - 1);
      now.step(now.block, now.number, now.place);
      __tsan_release(now.arrives);
      __tsan_release(&only->ended_);
      __tsan_switch_to_fiber(only->main_fiber_, __tsan_switch_to_fiber_no_sync);
      swapcontext(&now.lane->context, &only->main_);
    }
  }

  static inline Lanes* only = nullptr;
  void* main_fiber_ = __tsan_get_current_fiber();
  ucontext_t main_{};
  std::array<std::array<Lane, kMostThreads>, kRows> lanes_;
  Now now_{};
  // Addresses that stand for what is in order: the steps of a block, the beginning and the end of a
  // launch.
  std::array<char, kMostBlocks * kMostSteps> barriers_{};
  char begun_ = 0, ended_ = 0;
};

// Room for so many numbers of any type, on 16 bytes; filled with bytes of small positive numbers.
class Room {
 public:
  explicit Room(int64_t numbers) : bytes_(static_cast<size_t>(numbers) * 8 + 16, 0x3c) {}
  operator void*() { return bytes_.data(); }               // NOLINT: an argument
  operator float*() { return static_cast<float*>(at()); }  // NOLINT
  void* at() { return bytes_.data(); }

 private:
  std::vector<unsigned char> bytes_;
};

void add_up(Type type, const Parts& parts, void* sums) {
  for (const bool over_samples : {false, true}) {
    Room out(parts.samples * parts.channels);
    sum_parts({.type = type,
               .shape = parts,
               .over_samples = over_samples,
               .factor = 1,
               .parts = sums,
               .out = out},
              nullptr);
  }
}

void run_bias_act(Type type, const Maps& maps) {
  Room x(maps.count()), y(maps.count()), dx(maps.count()), b(maps.channels);
  const BiasActTask task{type, maps, Activation::kLrelu, 0.2, 1.4, 256, b};
  bias_act(task, x, y, nullptr);
  BiasActGradientArrays arrays{x, y, dx, nullptr};
  const Parts parts = gradient_parts(task, arrays);
  Room sums(parts.count());
  arrays.sums = sums;
  bias_act_gradient(task, arrays, nullptr);
  add_up(type, parts, sums);
}

void run_scaled_act(const ModulatedActTask& task) {
  const Maps& maps = task.maps;
  Room y(maps.count()), then(maps.samples * maps.channels), out(maps.count()), scaled(maps.count()),
      dy(maps.count());
  scaled_act(task, {y, then, out, scaled}, nullptr);
  ScaledGradientArrays arrays{out, scaled, y, then, dy, nullptr, nullptr, nullptr, nullptr};
  const int64_t count = scaled_parts(task, arrays).count();
  Room sum_y(count), sum_noise(count), sum(count), sum_then(count);
  arrays.sum_y = sum_y;
  arrays.sum_noise = sum_noise;
  arrays.sum = sum;
  arrays.sum_then = sum_then;
  scaled_act_gradient(task, arrays, nullptr);
}

void run_modulated_act(Type type, const Maps& maps) {
  Room y(maps.count()), out(maps.count()), grad(maps.count()), dy(maps.count()), by_y(maps.count()),
      along(maps.count()), d(maps.samples * maps.channels), noise(maps.samples * maps.pixels),
      strength(maps.channels), bias(maps.channels);
  const ModulatedActTask task{.type = type,
                              .maps = maps,
                              .scale = 1,
                              .alpha = 0.2F,
                              .gain = 1.4F,
                              .clamp = 256,
                              .d = d,
                              .noise = noise,
                              .noise_stride = maps.pixels,
                              .strength = strength,
                              .strength_stride = 1,
                              .bias = bias};
  modulated_act(task, y, out, nullptr);
  added_act(task, {y, along, out}, nullptr);
  ModulatedGradientArrays first{grad, out, y, dy, nullptr, nullptr, nullptr};
  const Parts parts = gradient_parts(task, first);
  Room sum_y(parts.count()), sum_noise(parts.count()), sum(parts.count());
  first.sum_y = sum_y;
  first.sum_noise = sum_noise;
  first.sum = sum;
  modulated_act_gradient(task, first, nullptr);
  ModulatedSecondArrays second{grad, out, y, {along, d, strength, bias}, dy, by_y, nullptr};
  const Parts more = second_parts(task, second);
  Room sum_d(more.count());
  second.sum_d = sum_d;
  modulated_act_second(task, second, nullptr);
  add_up(Type::kFloat32, parts, sum_y);
  run_scaled_act(task);
}

void run_weights(Type type, int64_t length) {
  const WeightRows rows{type, 40, length};
  Room a(rows.rows * length), b(rows.rows * length), out(rows.rows * length), by(rows.rows);
  row_products(rows, {a, b, by}, nullptr);
  scaled_rows(rows, 0.5, {a, by, out}, nullptr);
}

void run_norms(Type type, const Maps& maps) {
  Room x(maps.count()), dout(2 * maps.count()), out(2 * maps.count()),
      style(2 * maps.samples * maps.channels), gradient(2 * maps.samples * maps.channels),
      mean(maps.samples * maps.channels), inverse(maps.samples * maps.channels);
  const bool last = maps.order == Order::kRows;
  for (const bool backward : {false, true}) {
    void* given = backward ? dout.at() : nullptr;
    pixel_norm({type,
                last ? SummedAxis{maps.samples * maps.pixels, maps.channels, 1}
                     : SummedAxis{maps.samples, maps.channels, maps.pixels},
                x,
                given,
                out,
                1e-8F},
               nullptr);
    AdainArguments how{type,
                       last ? SummedAxis{maps.samples, maps.pixels, maps.channels}
                            : SummedAxis{maps.samples * maps.channels, maps.pixels, 1},
                       maps.channels,
                       x,
                       given,
                       out,
                       style,
                       backward
                           ? gradient.at() == nullptr ? nullptr : static_cast<float*>(gradient.at())
                           : nullptr,
                       mean,
                       inverse,
                       nullptr,
                       1e-5F};
    Room work(adain_work(how));
    how.work = work;
    adain(how, nullptr);
    MinibatchStdArguments std{type,
                              last,
                              2,
                              maps.samples / 2,
                              maps.channels,
                              1,
                              maps.pixels,
                              x,
                              given,
                              out,
                              nullptr,
                              1e-8F};
    Room more(minibatch_std_work(std));
    std.work = more;
    minibatch_std(std, nullptr);
  }
}

struct Resampling {
  int up, down, taps;
};

FirAxis axis(int in, const Resampling& how) {
  const int pads = how.taps - 1;
  return {in,
          (in * how.up + pads - how.taps + how.down) / how.down,
          how.up,
          how.down,
          pads / 2,
          how.taps};
}

void run_upfirdn2d(Type type, const Maps& maps, int side) {
  for (const Resampling& how : {Resampling{1, 1, 4}, {2, 1, 4}, {1, 2, 4}, {1, 2, 5}}) {
    Room x(maps.samples * maps.channels * side * side), f(25),
        out(4 * maps.samples * maps.channels * (side + 8) * (side + 8));
    const FirAxis along = axis(side, how);
    UpFirDnArguments call{type,
                          maps.order == Order::kRows,
                          x,
                          f,
                          out,
                          maps.samples,
                          maps.channels,
                          along,
                          along,
                          false,
                          1};
    upfirdn2d(call, nullptr);
    Room added(4 * maps.samples * maps.channels * (side + 8) * (side + 8));
    call.added = added;
    if (fir_choice(call).body == FirBody::kPixels) upfirdn2d(call, nullptr);
  }
}

// With slopes that are kept, then with the same ones read.
void run_filtered_lrelu(FilteredLreluArguments how) {
  const int64_t rows = how.strips ? how.slope_quads() : how.mid_h();
  const int64_t columns = how.strips ? how.mid_w() * kSlopeLanes : how.slope_columns();
  Room slopes((how.strips ? how.slope_groups() : how.channels) * how.samples * rows * columns);
  how.slopes = static_cast<uint8_t*>(slopes.at());
  const auto run = how.strips ? filtered_lrelu_strips : filtered_lrelu;
  run(how, nullptr);
  how.bias = nullptr;
  how.reads_slopes = true;
  how.slope_rows = how.strips ? 4 * how.slope_quads() : how.mid_h();
  how.read_columns = how.strips ? how.mid_w() : how.slope_columns();
  run(how, nullptr);
}

void run_filtered_lrelu(Type type) {
  constexpr int kSide = 20, kTaps = 12, kChannels = 3;
  for (const bool separable : {true, false}) {
    Room taps(kTaps * kTaps), x(2 * kChannels * kSide * kSide), bias(kChannels);
    const PlaneFilter filter{taps, kTaps, kTaps, separable};
    const int out_side = (kSide * 2 + 21 + 1 - 2 * kTaps) / 2 + 1;
    Room out(2 * kChannels * out_side * out_side);
    FilteredLreluArguments how{};
    how.type = type;
    how.x = x;
    how.bias = bias;
    how.out = out;
    how.x_strides = {kChannels * kSide * kSide, kSide * kSide, kSide, 1};
    how.out_strides = {kChannels * out_side * out_side, out_side * out_side, out_side, 1};
    how.samples = 2;
    how.channels = kChannels;
    how.in_h = how.in_w = kSide;
    how.out_h = how.out_w = out_side;
    how.up = how.down = 2;
    how.pad_y = how.pad_x = 9;  // which strips know
    how.up_filter = how.down_filter = filter;
    how.gain = 1;
    how.slope = 0.2F;
    how.clamp = 256;
    run_filtered_lrelu(how);
    how.strips = has_strips(how);
    if (how.strips) run_filtered_lrelu(how);
  }
}

void run_affine_warp(Type type) {
  constexpr int kSide = 24, kChannels = 4;
  const double turned[2][9] = {{0.8, -0.6, 1, 0.6, 0.8, -2, 0, 0, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const double margins[4] = {3, 4, 5, 6};
  AffineWarpArguments how{
      type, 2, kChannels, kSide, kSide, {}, turned[0], margins, nullptr, nullptr};
  for (double& tap : how.filter) tap = 1.0 / AffineWarpArguments::kTaps;
  Room pictures(2 * kChannels * kSide * kSide),
      sampled(int64_t{2} * kChannels * how.out_height() * how.out_width());
  how.in = pictures;
  how.out = sampled;
  affine_warp(how, nullptr);
  how.in = sampled;
  how.out = pictures;
  affine_warp_adjoint(how, nullptr);
}

void run_drawn_matrices(bool colour) {
  const int64_t key[2] = {7, 11};
  const double p = 0.5;
  Room matrices(300 * 16), margins(4);
  DrawnMatricesArguments how{};
  how.steps[0] = {{colour ? MatrixKind::kHue : MatrixKind::kTurn, 1}, 1, 2};
  how.count = 1;
  how.colour = colour;
  how.key = key;
  how.sample_stride = 2;
  how.samples = 300;
  how.width = how.height = 24;
  how.p = &p;
  how.matrices = static_cast<double*>(matrices.at());
  how.margins = colour ? nullptr : static_cast<double*>(margins.at());
  drawn_matrices(how, nullptr);
}

void run_draws() {
  const int64_t key[2] = {7, 11};
  Room out(2 * 1000);
  for (const Drawn kind : {Drawn::kNormal, Drawn::kUniform, Drawn::kBits})
    draw({key, 0, 5, 3, 2, 2, 1000, kind, out}, nullptr);
}

void run_all() {
  for (const Type type : {Type::kFloat32, Type::kFloat16}) {
    for (const Order order : {Order::kPlanes, Order::kRows}) {
      for (const Maps& maps : {Maps{order, 4, 8, 256}, Maps{order, 2, 3, 77}}) {
        run_bias_act(type, maps);
        run_modulated_act(type, maps);
        run_norms(type, maps);
      }
      run_upfirdn2d(type, {order, 2, 8, 0}, 16);
      run_upfirdn2d(type, {order, 1, 3, 0}, 70);
    }
    run_weights(type, 9);
    run_weights(type, 256);
    run_filtered_lrelu(type);
  }
  run_affine_warp(Type::kFloat32);
  run_drawn_matrices(false);
  run_drawn_matrices(true);
  run_draws();
}

// No barrier is between two blocks.
struct SamePlace {
  static constexpr int kThreads = 32;
  int64_t* out;

  void operator()(const Place& place) const { out[place.thread] = place.block; }
};

}  // namespace

int main(int argc, char** argv) {
  static Lanes lanes;
  host_watch = &lanes;
  const std::string_view planted = argc > 1 ? argv[1] : "";
  std::vector<int64_t> out(4 * Neighbours::kThreads);
  if (planted.empty()) {
    launch(Neighbours{true, out.data()}, 4, nullptr);
    run_all();
  } else if (planted == "barrier") {
    launch(Neighbours{false, out.data()}, 4, nullptr);
  } else {
    launch(SamePlace{out.data()}, 4, nullptr);
  }
  for (const auto& [name, times] : host_launched)
    std::printf("%s %lld\n", name.c_str(), static_cast<long long>(times));
  return 0;
}
