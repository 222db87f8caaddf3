// SPDX-License-Identifier: Apache-2.0
// One pass over x, which reads and writes each number once: bandwidth bounds it, transcendental
// functions included. A thread reads its channels' biases once and visits its packs
// (planes_walk.h).
#include "cuda_kernels/bias_act.h"
#include "cuda_kernels/bias_act_curves.h"

namespace gantrain::cuda_kernels {

namespace {

template <class T, int kPack, Order kOrder, class Act>
struct BiasActWork : BiasedWork<T, kPack, kOrder, 0> {
  using Base = BiasedWork<T, kPack, kOrder, 0>;
  using typename Base::Number;
  using typename Base::Terms;

  const T* x;
  T* y;
  Act act;
  GainClamp<Number> gain_clamp;

  GANTRAIN_BOTH void operator()(int64_t at, int64_t /*pixel*/, const Terms& t, NoSums&) const {
    Number u[kPack];
    load_wide(x + at, u);
    for (int k = 0; k < kPack; ++k) {
      const Number biased = u[k] + t.at(k);
      u[k] = gain_clamp(act.value(biased));
    }
    store_rounded(y + at, u);
  }
};

template <class T, template <class> class Act>
void launch_bias_act(const BiasActTask& task, const void* x, void* y, Stream stream) {
  using Number = Wide<T>;
  with_walk<T>(task.maps, packed(task, x, y), [&](auto pack, auto order) {
    using Work = BiasActWork<T, pack.value, order.value, Act<Number>>;
    const Work work{BiasedWork<T, pack.value, order.value, 0>(task),
                    static_cast<const T*>(x),
                    static_cast<T*>(y),
                    Act<Number>(task),
                    GainClamp<Number>(task)};
    launch_work(task.maps, work, stream);
  });
}

}  // namespace

bool packed(const BiasActTask& task, const void* x, const void* y) {
  return packs_fit(task.maps, pack_size(task.type), /*terms_of_pixels=*/false) &&
         aligned_for_packs(x, y);
}

void bias_act(const BiasActTask& task, const void* x, void* y, Stream stream) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (two_lines(task.act))
      launch_bias_act<T, TwoLines>(task, x, y, stream);
    else
      launch_bias_act<T, Curve>(task, x, y, stream);
  });
}

}  // namespace gantrain::cuda_kernels
