// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/losses.h"

#include "core/torch.h"

namespace gantrain::r3gan {

using at::Tensor;

namespace {

// -f(t) with f(t) = -log(1 + e^-t), t being by how much the score that should be higher is so.
Tensor pairing_loss(const Tensor& higher, const Tensor& lower) {
  return at::softplus(lower - higher).mean();
}

}  // namespace

DiscriminatorPairing penalties_d(const PairedD& D, const Pair& pair, const DeviceNumber& gamma) {
  const InputGradients real = input_gradients(D.real, pair.real);
  const InputGradients fake = input_gradients(D.fake, pair.fake);
  const Tensor r1 = real.squared_norms, r2 = fake.squared_norms.to(r1.scalar_type());
  return {.loss = gamma.times(r1.mean() + r2.mean(), 0.5),
          .real_scores = real.scores,
          .fake_scores = fake.scores,
          .r1_penalty = r1,
          .r2_penalty = r2};
}

DiscriminatorPairing pairing_d(const PairedD& D, const Pair& pair, const DeviceNumber* gamma) {
  DiscriminatorPairing d;
  if (gamma != nullptr) {
    d = penalties_d(D, pair, *gamma);
  } else {
    d.real_scores = D.real(pair.real);
    d.fake_scores = D.fake(pair.fake);
  }
  const Tensor loss = pairing_loss(d.real_scores, d.fake_scores);  // eq. 2
  d.loss = d.loss.defined() ? loss + d.loss : loss;
  return d;
}

GeneratorPairing pairing_g(const PairedD& D, const Pair& pair) {
  GeneratorPairing g;
  g.fake_scores = D.fake(pair.fake);
  {
    const torch::NoGradGuard no_grad;
    g.real_scores = D.real(pair.real);
  }
  g.loss = pairing_loss(g.fake_scores, g.real_scores);  // eq. 2
  return g;
}

}  // namespace gantrain::r3gan
